//! Strands: the parts of the history that pieces cover, thread by thread. The messages of two
//! threads may alternate, so the span of a piece says nothing about another thread.

use crate::node::TextPosition;

/// A stretch of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strand {
    /// The number of the thread.
    pub thread: u16,
    /// The start.
    pub from: TextPosition,
    /// The end, exclusive.
    pub until: TextPosition,
}

/// How much of a piece a set of strands contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    Nothing,
    Part,
    All,
}

/// A set of strands: sorted, and merged where they touch.
#[derive(Debug, Default)]
pub(super) struct StrandSet(Vec<Strand>);

impl StrandSet {
    pub(super) fn extend(&mut self, strands: &[Strand]) {
        self.0.extend_from_slice(strands);
        self.0.sort_unstable();
        let mut merged: Vec<Strand> = Vec::with_capacity(self.0.len());
        for next in &self.0 {
            match merged.last_mut() {
                Some(last) if last.thread == next.thread && next.from <= last.until => {
                    last.until = last.until.max(next.until);
                }
                _ => merged.push(*next),
            }
        }
        self.0 = merged;
    }

    /// The parts of a strand that the set does not contain.
    pub(super) fn rest_of(&self, strand: Strand) -> Vec<Strand> {
        let (mut from, mut rest) = (strand.from, Vec::new());
        let touches = |it: &&Strand| {
            it.thread == strand.thread && it.from < strand.until && strand.from < it.until
        };
        for it in self.0.iter().filter(touches) {
            if from < it.from {
                rest.push(Strand { from, until: it.from, ..strand });
            }
            from = from.max(it.until);
        }
        if from < strand.until {
            rest.push(Strand { from, ..strand });
        }
        rest
    }

    pub(super) fn overlap(&self, strands: &[Strand]) -> Overlap {
        let rest: Vec<Strand> = strands.iter().flat_map(|strand| self.rest_of(*strand)).collect();
        if rest.is_empty() {
            Overlap::All
        } else if rest == strands {
            Overlap::Nothing
        } else {
            Overlap::Part
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::MessageIdx;

    fn strand(thread: u16, from: u32, until: u32) -> Strand {
        let at = |idx| TextPosition { idx: MessageIdx(idx), offset: 0 };
        Strand { thread, from: at(from), until: at(until) }
    }

    #[test]
    fn a_set_tells_how_much_of_a_piece_it_contains() {
        let mut set = StrandSet::default();
        set.extend(&[strand(0, 5, 8), strand(0, 2, 5), strand(1, 3, 4)]);
        assert_eq!(set.overlap(&[strand(0, 2, 8)]), Overlap::All, "touching strands are merged");
        assert_eq!(set.overlap(&[strand(0, 0, 2), strand(0, 8, 9)]), Overlap::Nothing);
        assert_eq!(set.overlap(&[strand(0, 1, 3)]), Overlap::Part);
        assert_eq!(set.overlap(&[strand(1, 4, 9)]), Overlap::Nothing, "threads are separate");
        assert_eq!(set.overlap(&[strand(0, 3, 4), strand(1, 3, 5)]), Overlap::Part);
        assert_eq!(set.rest_of(strand(0, 0, 10)), [strand(0, 0, 2), strand(0, 8, 10)]);
    }
}

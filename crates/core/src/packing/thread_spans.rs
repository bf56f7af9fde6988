//! Spans of threads: the parts of the history that pieces cover, thread by thread. The messages of two
//! threads may alternate, so the span of a piece says nothing about another thread.

use crate::node::TextPosition;

/// A stretch of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadSpan {
    /// The number of the thread.
    pub thread: u16,
    /// The start.
    pub from: TextPosition,
    /// The end, exclusive.
    pub until: TextPosition,
}

/// How much of a piece a set of thread_spans contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    Nothing,
    Part,
    All,
}

/// A set of thread_spans: sorted, and merged where they touch.
#[derive(Debug, Default)]
pub(super) struct ThreadSpanSet(Vec<ThreadSpan>);

impl ThreadSpanSet {
    pub(super) fn extend(&mut self, thread_spans: &[ThreadSpan]) {
        self.0.extend_from_slice(thread_spans);
        self.0.sort_unstable();
        let mut merged: Vec<ThreadSpan> = Vec::with_capacity(self.0.len());
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

    /// The parts of a span that the set does not contain.
    pub(super) fn rest_of(&self, span: ThreadSpan) -> Vec<ThreadSpan> {
        let (mut from, mut rest) = (span.from, Vec::new());
        let touches = |it: &&ThreadSpan| {
            it.thread == span.thread && it.from < span.until && span.from < it.until
        };
        for it in self.0.iter().filter(touches) {
            if from < it.from {
                rest.push(ThreadSpan { from, until: it.from, ..span });
            }
            from = from.max(it.until);
        }
        if from < span.until {
            rest.push(ThreadSpan { from, ..span });
        }
        rest
    }

    pub(super) fn overlap(&self, thread_spans: &[ThreadSpan]) -> Overlap {
        let rest: Vec<ThreadSpan> =
            thread_spans.iter().flat_map(|span| self.rest_of(*span)).collect();
        if rest.is_empty() {
            Overlap::All
        } else if rest == thread_spans {
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

    fn span(thread: u16, from: u32, until: u32) -> ThreadSpan {
        let at = |idx| TextPosition { idx: MessageIdx(idx), offset: 0 };
        ThreadSpan { thread, from: at(from), until: at(until) }
    }

    #[test]
    fn a_set_tells_how_much_of_a_piece_it_contains() {
        let mut set = ThreadSpanSet::default();
        set.extend(&[span(0, 5, 8), span(0, 2, 5), span(1, 3, 4)]);
        assert_eq!(set.overlap(&[span(0, 2, 8)]), Overlap::All, "touching thread_spans are merged");
        assert_eq!(set.overlap(&[span(0, 0, 2), span(0, 8, 9)]), Overlap::Nothing);
        assert_eq!(set.overlap(&[span(0, 1, 3)]), Overlap::Part);
        assert_eq!(set.overlap(&[span(1, 4, 9)]), Overlap::Nothing, "threads are separate");
        assert_eq!(set.overlap(&[span(0, 3, 4), span(1, 3, 5)]), Overlap::Part);
        assert_eq!(set.rest_of(span(0, 0, 10)), [span(0, 0, 2), span(0, 8, 10)]);
    }
}

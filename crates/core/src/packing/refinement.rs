//! The entries of a cut, and the steps that refine it.

use std::cmp::Ordering;

use super::{DetailLevel, PackReason, Piece};

/// A piece that is, was or may become part of the cut.
pub(super) struct CutEntry {
    pub(super) piece: Piece,
    /// The index into the piece's costs; `None` while it is not in the cut.
    pub(super) detail: Option<usize>,
    pub(super) reason: PackReason,
    /// Tokens of the messages after the piece.
    pub(super) distance: u64,
    /// Whether its children replaced it.
    pub(super) is_expanded: bool,
}

impl CutEntry {
    pub(super) fn cost(&self) -> u32 {
        self.detail.map_or(0, |detail| self.piece.costs[detail].1)
    }

    /// The index of the finest detail level of the text; lists come after it.
    pub(super) fn text_level(&self) -> usize {
        let is_text = |(detail, _): &(DetailLevel, u32)| *detail <= DetailLevel::Text;
        self.piece.costs.iter().rposition(is_text).unwrap_or(0)
    }

    /// The next step that refines the entry.
    pub(super) fn next_step(&self) -> Option<StepKind> {
        let next = self.detail.map_or(0, |detail| detail + 1);
        if next <= self.text_level() {
            return Some(StepKind::Detail(next));
        }
        self.piece.min_expanded_cost.map(|_| StepKind::Expansion)
    }
}

/// A step that refines the cut at one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepKind {
    /// To a finer detail level.
    Detail(usize),
    /// To its children.
    Expansion,
}

/// A step at an entry, with its gain. The step with the highest gain is the greatest.
#[derive(Clone, Copy)]
pub(super) struct Refinement {
    pub(super) gain: f64,
    pub(super) slot: usize,
    pub(super) kind: StepKind,
    /// The round in which the gain was computed; `None` if it is an estimate.
    pub(super) round: Option<usize>,
}

impl PartialEq for Refinement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Refinement {}
impl PartialOrd for Refinement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Refinement {
    fn cmp(&self, other: &Self) -> Ordering {
        // Ties go to the entry that came first, so that the order is total.
        self.gain.total_cmp(&other.gain).then(other.slot.cmp(&self.slot))
    }
}

//! Runs of adjacent messages. The first message of a run has a header with its number and time, so
//! that a reader sees where messages are missing.

use std::collections::HashSet;

use super::{PackedItem, Piece, PieceKey};
use crate::node::TextPosition;

/// The runs of the messages that a cut has so far, and what their headers cost.
pub(super) struct MessageRuns {
    /// The maximum cost of a header.
    header: u32,
    /// The starts of the runs.
    starts: HashSet<TextPosition>,
    /// The ends of all messages.
    ends: HashSet<TextPosition>,
}

impl MessageRuns {
    pub(super) fn new(header: u32) -> Self {
        Self { header, starts: HashSet::new(), ends: HashSet::new() }
    }

    /// The cost of the headers.
    pub(super) fn cost(&self) -> u32 {
        self.header * self.starts.len() as u32
    }

    /// The cost of the headers if adjacent pieces were added.
    pub(super) fn cost_with(&self, pieces: &[Piece]) -> u32 {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return self.cost() };
        if !is_message(first.key) {
            return self.cost();
        }
        let begins = u32::from(!self.ends.contains(&first.from));
        let joins = u32::from(self.starts.contains(&last.until));
        self.cost() + self.header * begins - self.header * joins
    }

    /// Adds adjacent pieces. Only messages count.
    pub(super) fn add(&mut self, pieces: &[Piece]) {
        for piece in pieces.iter().filter(|piece| is_message(piece.key)) {
            if !self.ends.contains(&piece.from) {
                self.starts.insert(piece.from);
            }
            self.starts.remove(&piece.until);
            self.ends.insert(piece.until);
        }
    }

    /// Marks the items that begin a run and adds the cost of their headers. The items are in order.
    pub(super) fn mark(&self, items: &mut [PackedItem]) {
        let mut end = None;
        for item in items.iter_mut().filter(|item| is_message(item.key)) {
            item.begins_run = end != Some(item.from);
            item.cost += if item.begins_run { self.header } else { 0 };
            end = Some(item.until);
        }
    }
}

const fn is_message(key: PieceKey) -> bool {
    matches!(key, PieceKey::Message(_))
}

//! Receipts: the manifest of a context. What is in it, why, and what it cost; what is not, and
//! why not; and whether anything was still to be done when it was put together.

use serde::Serialize;

use crate::gate::GateStatus;
use crate::hash::ContentHash;
use crate::packing::{DetailLevel, Omission, PackReason};

/// What a context holds and what it does not.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Receipt {
    /// The conversation.
    pub conversation: String,
    /// The thread it was put together for.
    pub thread: String,
    /// The profile that was run.
    pub profile: String,
    /// What was asked; nothing for a standing context.
    pub query: Option<String>,
    /// The last turn that was known.
    pub as_of: Option<u32>,
    /// The moment that words like "yesterday" in the question were counted from.
    pub asked_at: String,
    /// The tokens it may have.
    pub budget: u32,
    /// The tokens it has.
    pub tokens: u32,
    /// What counted them.
    pub tokenizer: String,
    /// Everything in it, in order.
    pub items: Vec<ReceiptItem>,
    /// What is not in it, or not wholly.
    pub left_out: Vec<Omission>,
    /// Hits that had no room.
    pub hits_left_out: u32,
    /// How the gate stood.
    pub gate: GateOutcome,
    /// How much of it the context of the turn before begins with.
    pub reusable: Reusable,
}

/// One thing in a context.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReceiptItem {
    /// The heading it stands under.
    pub section: String,
    /// Its level: 0 for messages.
    pub level: u8,
    /// The node's id; nothing for messages.
    pub node: Option<String>,
    /// The first message it covers.
    pub from: u32,
    /// One past the last message it covers.
    pub until: u32,
    /// How much of it is told.
    pub grain: DetailLevel,
    /// Why it is there.
    pub reason: PackReason,
    /// How well it fits the question; 0 where that is not why it is there.
    pub score: f32,
    /// Its tokens.
    pub tokens: u32,
    /// The hash of its text, as it stands there.
    pub hash: ContentHash,
}

/// Whether everything was there that should have been.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GateOutcome {
    /// Whether something was still to be done, so that raw turns stand in.
    pub degraded: bool,
    /// How long it was waited for, in milliseconds.
    pub waited_ms: u64,
    /// What was still to be done: turns to embed, windows to summarise.
    pub pending: Vec<String>,
    /// What was given up.
    pub failed: Vec<String>,
}

impl GateOutcome {
    /// The outcome, given how the gate stood in the end.
    #[must_use]
    pub fn of(status: &GateStatus, waited_ms: u64) -> Self {
        let describe = |operations: &[crate::gate::Operation]| {
            operations.iter().map(|operation| operation.description.clone()).collect()
        };
        Self {
            degraded: !status.is_clear() || !status.failed.is_empty(),
            waited_ms,
            pending: describe(&status.pending),
            failed: describe(&status.failed),
        }
    }
}

/// How much of a context the one before begins with, byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Reusable {
    /// Tokens.
    pub tokens: u32,
    /// Share of the context's tokens, from 0 to 1.
    pub share: f64,
}

impl Reusable {
    /// Of so many tokens, so many.
    #[must_use]
    pub fn of(tokens: u32, all: u32) -> Self {
        Self { tokens, share: if all == 0 { 0.0 } else { f64::from(tokens) / f64::from(all) } }
    }
}

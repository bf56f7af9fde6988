//! Receipts: the manifest of a context. A receipt lists every item with its reason and its
//! cost, every omission with its reason, and the work that was pending when the context was
//! built.

use serde::Serialize;

use crate::gate::GateStatus;
use crate::hash::ContentHash;
use crate::packing::{DetailLevel, Omission, PackReason};

/// The manifest of a context.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Receipt {
    /// The conversation; empty if the context is over several.
    pub conversation: String,
    /// The scope of a context over several conversations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The conversations of the scope that were read, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<ReceiptSession>,
    /// The thread that the context was built for.
    pub thread: String,
    /// The profile.
    pub profile: String,
    /// The question; `None` if the context was built without one.
    pub query: Option<String>,
    /// The last turn that the context could use.
    pub as_of: Option<u32>,
    /// The time that relative dates in the question, such as "yesterday", refer to.
    pub asked_at: String,
    /// The token budget.
    pub budget: u32,
    /// The tokens used.
    pub tokens: u32,
    /// The tokenizer's name.
    pub tokenizer: String,
    /// The items, in order.
    pub items: Vec<ReceiptItem>,
    /// Missing or truncated content.
    pub left_out: Vec<Omission>,
    /// Hits that did not fit the budget.
    pub hits_left_out: u32,
    /// Messages of the covered history that were forgotten, so that the context lacks them.
    #[serde(skip_serializing_if = "is_zero")]
    pub forgotten: u32,
    /// The outcome of the gate.
    pub gate: GateOutcome,
    /// The prefix shared with the context of the previous turn.
    pub reusable: ReusablePrefix,
}

const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A conversation in a context over several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReceiptSession {
    /// The conversation.
    pub conversation: String,
    /// Its slug.
    pub slug: String,
    /// Its messages.
    pub messages: u32,
    /// The messages for which the budget had no room, neither verbatim nor in a summary.
    pub omitted: u32,
}

/// One item of a context.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReceiptItem {
    /// The heading of its section.
    pub section: String,
    /// The slug of its conversation, in a context over several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The level; 0 for messages.
    pub level: u8,
    /// The node's id; `None` for messages.
    pub node: Option<String>,
    /// The first message covered.
    pub from: u32,
    /// One past the last message covered.
    pub until: u32,
    /// The detail level.
    pub detail: DetailLevel,
    /// The reason.
    pub reason: PackReason,
    /// The match score; 0 if the item is not a match.
    pub score: f32,
    /// The tokens of the item.
    pub tokens: u32,
    /// The hash of the rendered text.
    pub hash: ContentHash,
}

/// Whether the context was built from complete data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GateOutcome {
    /// Whether work was pending or failed, so that raw turns replace summaries.
    pub degraded: bool,
    /// The time spent waiting, in milliseconds.
    pub waited_ms: u64,
    /// Pending work: turns to embed, windows to summarize.
    pub pending: Vec<String>,
    /// Failed work.
    pub failed: Vec<String>,
}

impl GateOutcome {
    /// The outcome for the final status of the gate.
    #[must_use]
    pub fn of(status: &GateStatus, waited_ms: u64) -> Self {
        let describe = |operations: &[crate::gate::GateOperation]| {
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

/// The prefix of a context that is byte-identical to the previous context.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ReusablePrefix {
    /// Tokens.
    pub tokens: u32,
    /// Share of the context's tokens, from 0 to 1.
    pub share: f64,
}

impl ReusablePrefix {
    /// `tokens` out of `all` tokens.
    #[must_use]
    pub fn of(tokens: u32, all: u32) -> Self {
        Self { tokens, share: if all == 0 { 0.0 } else { f64::from(tokens) / f64::from(all) } }
    }
}

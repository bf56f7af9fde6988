//! The audit: an append-only record of everything that was forgotten. It has positions, ids and
//! counts, and never content.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// One act of forgetting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The id of the record.
    pub id: String,
    /// The time, in microseconds since the Unix epoch.
    pub at: i64,
    /// The kind of target: message, turn, range, thread, conversation, author, project, label,
    /// secrets, retention or tenant; `tombstones` if those of another store were taken over.
    pub target: String,
    /// The conversations that were changed or removed.
    pub conversations: Vec<AuditedConversation>,
    /// The number of tombstones, which keep later imports from restoring items.
    pub tombstones: u32,
}

impl AuditRecord {
    /// The time.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        Timestamp::from_micros(self.at)
    }

    /// The totals over all conversations.
    #[must_use]
    pub fn erased(&self) -> ErasedCounts {
        let mut all = ErasedCounts::default();
        for ErasedCounts { messages, tool_calls, nodes, jobs, events } in
            self.conversations.iter().map(|it| it.erased)
        {
            all.messages += messages;
            all.tool_calls += tool_calls;
            all.nodes += nodes;
            all.jobs += jobs;
            all.events += events;
        }
        all
    }
}

/// One conversation in an audit record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedConversation {
    /// The id of the conversation.
    pub id: String,
    /// Whether the whole conversation was removed.
    pub removed: bool,
    /// The positions of the forgotten messages: the first and the last of each run.
    pub messages: Vec<(u32, u32)>,
    /// The number of rows erased, by kind.
    pub erased: ErasedCounts,
    /// The nodes whose text was erased and that are regenerated.
    pub rewritten: Vec<AuditedNode>,
}

/// The number of rows erased, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErasedCounts {
    /// Messages.
    pub messages: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Nodes.
    pub nodes: u32,
    /// Jobs that worked on erased content.
    pub jobs: u32,
    /// Job events whose text was erased.
    pub events: u32,
}

/// A node whose text was erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedNode {
    /// The level.
    pub level: u8,
    /// The ordinal within the level.
    pub ordinal: u32,
    /// The id before.
    pub old_id: String,
}

//! The only write path: a commit is a list of writes that the store applies atomically.

use crate::audit::AuditRecord;
use crate::conversation::Conversation;
use crate::forget::{Tombstone, TombstoneSet};
use crate::hash::ContentHash;
use crate::ids::{ConversationId, MessageIdx, TurnNo};
use crate::job::{Job, JobId, JobKind};
use crate::message::{Message, MessageVersion};
use crate::node::{Level, Node};
use crate::spend::Charge;
use crate::time::Timestamp;
use crate::tool::{ToolCall, ToolResult};
use crate::vector_index::{ContentVectors, VectorIndex};

/// One write of a commit. Stored messages change only when they are amended or forgotten; each variant says
/// what happens if the row exists.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Creates or replaces a conversation's row, with its threads and totals.
    PutConversation(Conversation),
    /// Adds a message at a free position.
    AddMessage(ConversationId, Message),
    /// Adds a tool call at a free position.
    AddToolCall(ConversationId, ToolCall),
    /// Sets the result of an unfinished tool call.
    FinishToolCall(ConversationId, TurnNo, u32, ToolResult),
    /// Inserts or replaces the node at its level and ordinal.
    PutNode(ConversationId, Box<Node>),
    /// Assigns nodes of a level, by ordinal, to a group of the level above, or to none.
    SetParent(ConversationId, Level, Vec<u32>, Option<u32>),
    /// Marks nodes of a level, by ordinal, as dirty.
    MarkDirty(ConversationId, Level, Vec<u32>),
    /// Drops the tree of a conversation from a level upwards, together with the jobs for those
    /// levels. The level below stays and becomes ungrouped. The top has the highest level, so
    /// that dropping its level drops it alone.
    DropTree(ConversationId, Level),
    /// Replaces the content of a message, its time of edit and its correction. With a time, the
    /// previous content is kept as a version replaced at that time.
    AmendMessage(ConversationId, Box<Message>, Option<Timestamp>),
    /// Replaces the arguments and the result of a tool call.
    AmendToolCall(ConversationId, ToolCall),
    /// Adds earlier versions of a message, oldest first.
    AddVersions(ConversationId, MessageIdx, Vec<MessageVersion>),
    /// Erases the earlier versions of messages.
    ForgetVersions(ConversationId, Vec<MessageIdx>),
    /// Replaces messages with placeholders, and erases their earlier versions.
    ForgetMessages(ConversationId, Vec<MessageIdx>),
    /// Replaces tool calls, by turn and position in the turn, with placeholders.
    ForgetToolCalls(ConversationId, Vec<(TurnNo, u32)>),
    /// Removes nodes of a level, by ordinal.
    RemoveNodes(ConversationId, Level, Vec<u32>),
    /// Erases the texts of errors from the jobs and job events of a conversation, because a
    /// provider may have quoted its input. Keeps the text of a release event up to the first
    /// semicolon.
    ForgetErrors(ConversationId),
    /// Removes a conversation with everything that belongs to it. Its cost stays in the ledger,
    /// without the conversation.
    RemoveConversation(ConversationId),
    /// Adds a record to the audit. The freed bytes of the store are to be erased after it.
    AddAuditRecord(AuditRecord),
    /// Adds tombstones that belong to the audit record with this id.
    AddTombstones(String, Vec<Tombstone>),
    /// Adds a record to the audit, and tombstones of another store that belong to it.
    TakeOverTombstones(AuditRecord, TombstoneSet),
    /// Removes the tombstones of the audit record with this id.
    RemoveTombstones(String),
    /// Adds a job; an existing job stays unchanged.
    AddJob(Job),
    /// Replaces an existing job; does nothing if the job was removed.
    PutJob(Job),
    /// Removes a finished job.
    RemoveJob(Job),
    /// Adds a job event.
    AddJobEvent(JobEvent),
    /// Stores a model's vectors for contents; existing vectors stay unchanged.
    PutVectors(String, ContentVectors),
    /// Drops every vector of a model.
    DropVectors(String),
    /// Drops a model's vectors for these contents.
    RemoveVectors(String, Vec<ContentHash>),
    /// Gives turns and nodes the stored vectors of a model for their texts, by content hash. A store
    /// that does not keep embeddings with them ignores it.
    SetEmbeddings(ConversationId, String, Vec<(EmbeddedItem, ContentHash)>),
    /// Selects the model whose vectors search uses.
    PutVectorIndex(VectorIndex),
    /// Adds a charge to the ledger.
    AddSpend(Charge),
}

impl Write {
    /// The conversation that the write changes; `None` for tenant-wide writes.
    #[must_use]
    pub const fn conversation(&self) -> Option<ConversationId> {
        match self {
            Self::PutConversation(conversation) => Some(conversation.id),
            Self::AddMessage(id, _)
            | Self::AddToolCall(id, _)
            | Self::FinishToolCall(id, ..)
            | Self::PutNode(id, _)
            | Self::SetParent(id, ..)
            | Self::MarkDirty(id, ..)
            | Self::DropTree(id, _)
            | Self::AmendMessage(id, ..)
            | Self::AmendToolCall(id, _)
            | Self::AddVersions(id, ..)
            | Self::ForgetVersions(id, _)
            | Self::ForgetMessages(id, _)
            | Self::ForgetToolCalls(id, _)
            | Self::RemoveNodes(id, ..)
            | Self::ForgetErrors(id)
            | Self::SetEmbeddings(id, ..)
            | Self::RemoveConversation(id) => Some(*id),
            Self::AddJob(job) | Self::PutJob(job) | Self::RemoveJob(job) => Some(job.conversation),
            Self::AddJobEvent(line) => line.conversation,
            Self::AddAuditRecord(_)
            | Self::AddTombstones(..)
            | Self::TakeOverTombstones(..)
            | Self::RemoveTombstones(_)
            | Self::PutVectors(..)
            | Self::DropVectors(_)
            | Self::RemoveVectors(..)
            | Self::PutVectorIndex(_)
            | Self::AddSpend(_) => None,
        }
    }
}

/// An item that a store keeps an embedding with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddedItem {
    /// A turn.
    Turn(TurnNo),
    /// A node, by its level and ordinal.
    Node(Level, u32),
}

/// An event of background work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEvent {
    /// The time of the event.
    pub at: Timestamp,
    /// The conversation, if the event belongs to one.
    pub conversation: Option<ConversationId>,
    /// The id of the job, of the update that planned it, or of the question.
    pub job: JobId,
    /// The kind of event.
    pub kind: JobEventKind,
    /// A description of the event.
    pub text: String,
    /// The duration in milliseconds, where it applies.
    pub took_ms: Option<u64>,
}

impl JobEvent {
    /// Whether the event reports that a window or group sealed, which plans the job for its
    /// node.
    #[must_use]
    pub fn is_sealing(&self) -> bool {
        self.kind == JobEventKind::Acquire && JobKind::is_summary(&self.text)
    }
}

/// The kinds of events in background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobEventKind {
    /// The job was planned; a critical job holds the gate from now on.
    Acquire,
    /// The job is done and no longer holds the gate.
    Release,
    /// The job failed and will be retried.
    Fail,
    /// The job failed and was given up.
    Dead,
    /// A retry was requested.
    Retry,
    /// An update of the tree began.
    Update,
    /// A model was called directly, not by a job.
    Ask,
    /// An update of the tree ended.
    Updated,
    /// The last critical job of a conversation ended, and its gate is clear.
    Clear,
}

impl JobEventKind {
    /// Whether the event makes a job pending.
    #[must_use]
    pub(crate) const fn is_planning(self) -> bool {
        matches!(self, Self::Acquire | Self::Retry)
    }

    /// Every kind of event.
    pub const ALL: [Self; 9] = [
        Self::Acquire,
        Self::Release,
        Self::Fail,
        Self::Dead,
        Self::Retry,
        Self::Update,
        Self::Ask,
        Self::Updated,
        Self::Clear,
    ];

    /// The name used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Fail => "fail",
            Self::Dead => "dead",
            Self::Retry => "retry",
            Self::Update => "update",
            Self::Ask => "ask",
            Self::Updated => "updated",
            Self::Clear => "clear",
        }
    }
}

//! The one way to write: a commit is a list of writes that is applied atomically.

use crate::conversation::Conversation;
use crate::hash::ContentHash;
use crate::ids::{ConversationId, TurnNo};
use crate::job::{Job, JobId, JobKind};
use crate::message::Message;
use crate::node::{Level, Node};
use crate::spend::Charge;
use crate::time::Timestamp;
use crate::tool::{ToolCall, ToolResult};
use crate::vector_index::{ContentVectors, VectorIndex};

/// One write. Ground truth is added; what is said about it is put, replacing what was there.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Creates a conversation or replaces what is known about it, its threads and counts.
    PutConversation(Conversation),
    /// Adds a message at a position that is free.
    AddMessage(ConversationId, Message),
    /// Adds a tool call at a place that is free.
    AddToolCall(ConversationId, ToolCall),
    /// Gives a tool call the result it was waiting for.
    FinishToolCall(ConversationId, TurnNo, u32, ToolResult),
    /// Puts a node at its level and number.
    PutNode(ConversationId, Box<Node>),
    /// Puts nodes of a level, by number, under a group of the level above, or under none.
    SetParent(ConversationId, Level, Vec<u32>, Option<u32>),
    /// Marks nodes of a level, by number, as dirty.
    MarkDirty(ConversationId, Level, Vec<u32>),
    /// Takes the tree of a conversation down from a level upwards, with the jobs that would
    /// have grown it there. What lies below stays, under no group.
    DropTree(ConversationId, Level),
    /// Adds a job; one that is there already stays as it is.
    AddJob(Job),
    /// Puts a job that is there into another state; one that is gone stays gone.
    PutJob(Job),
    /// Takes a job away: it is done.
    RemoveJob(Job),
    /// Adds a line to the log.
    AddJobEvent(JobEvent),
    /// Keeps vectors that a model gave to contents; one that is there already stays.
    PutVectors(String, ContentVectors),
    /// Drops every vector of a model.
    DropVectors(String),
    /// Drops the vectors that a model gave to these contents.
    RemoveVectors(String, Vec<ContentHash>),
    /// Says which model's vectors search goes by.
    PutVectorIndex(VectorIndex),
    /// Adds to the account of what calls to models cost.
    AddSpend(Charge),
}

impl Write {
    /// The conversation that it changes; none for what belongs to the tenant.
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
            | Self::DropTree(id, _) => Some(*id),
            Self::AddJob(job) | Self::PutJob(job) | Self::RemoveJob(job) => Some(job.conversation),
            Self::AddJobEvent(line) => line.conversation,
            Self::PutVectors(..)
            | Self::DropVectors(_)
            | Self::RemoveVectors(..)
            | Self::PutVectorIndex(_)
            | Self::AddSpend(_) => None,
        }
    }
}

/// A line of the log of background work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEvent {
    /// When.
    pub at: Timestamp,
    /// The conversation it is about, where it is about one.
    pub conversation: Option<ConversationId>,
    /// The job it is about, the update that planned it, or the question.
    pub job: JobId,
    /// What happened, in one word: `acquire`, `release`, `fail`, `dead`, `retry`, `update`, …
    pub kind: JobEventKind,
    /// What happened, in words.
    pub text: String,
    /// How long it took, where that means something, in milliseconds.
    pub took_ms: Option<u64>,
}

impl JobEvent {
    /// Whether a window or a group was sealed: the job that writes its node was planned.
    #[must_use]
    pub fn is_sealing(&self) -> bool {
        self.kind == JobEventKind::Acquire && self.text.starts_with(JobKind::SUMMARISE)
    }
}

/// What can happen to background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobEventKind {
    /// Work was planned; critical work holds the gate from now on.
    Acquire,
    /// Work was done; it holds the gate no longer.
    Release,
    /// Work failed and is tried again.
    Fail,
    /// Work failed and was given up.
    Dead,
    /// Somebody asked for another try.
    Retry,
    /// An update of a tree was asked for.
    Update,
    /// A model was asked by somebody, not by a job.
    Ask,
}

impl JobEventKind {
    /// Whether work is to be done from now on.
    #[must_use]
    pub const fn is_planning(self) -> bool {
        matches!(self, Self::Acquire | Self::Retry)
    }

    /// Every event.
    pub const ALL: [Self; 7] = [
        Self::Acquire,
        Self::Release,
        Self::Fail,
        Self::Dead,
        Self::Retry,
        Self::Update,
        Self::Ask,
    ];

    /// The word for it in every interface.
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
        }
    }
}

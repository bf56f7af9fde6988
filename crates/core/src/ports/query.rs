//! Queries and filters for reading a store, and the result types that are not domain types.

use crate::conversation::{ConversationKind, ConversationState};
use crate::hash::ContentHash;
use crate::ids::{ConversationId, ExternalId, MessageIdx, TurnNo};
use crate::job::{Job, JobId};
use crate::label::Label;
use crate::message::Message;
use crate::node::{Level, Node, NodeId};
use crate::time::Timestamp;
use crate::tool::ToolCall;

/// Selects the conversations to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationQuery<'a> {
    /// The conversation with this id.
    Id(ConversationId),
    /// The conversation with this external id.
    ExternalId(&'a ExternalId),
    /// The conversation with exactly this slug.
    Slug(&'a str),
    /// Conversations whose id starts with these hexadecimal digits, ordered by id, at most this
    /// many.
    IdPrefix(&'a str, usize),
    /// Conversations that match, most recent activity first; ties are ordered by id.
    List(&'a ConversationFilter),
}

/// A reference to one item of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemRef {
    /// A message by its position.
    Message(ConversationId, MessageIdx),
    /// A tool call by its turn and its position in the turn.
    ToolCall(ConversationId, TurnNo, u32),
    /// A node by its level and ordinal.
    Node(ConversationId, Level, u32),
}

impl ItemRef {
    /// The conversation of the item.
    #[must_use]
    pub const fn conversation(&self) -> ConversationId {
        match self {
            Self::Message(id, _) | Self::ToolCall(id, ..) | Self::Node(id, ..) => *id,
        }
    }
}

/// One item of a tenant.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredItem {
    /// A message.
    Message(Box<Message>),
    /// A tool call.
    ToolCall(Box<ToolCall>),
    /// A node.
    Node(Box<Node>),
}

/// A range of numbers with a limit on the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<T> {
    /// The first number, inclusive.
    pub from: T,
    /// The end, exclusive; unbounded if `None`.
    pub until: Option<T>,
    /// Maximum number of rows.
    pub limit: usize,
}

impl<T> Span<T> {
    /// Everything from a number on, at most `limit` rows.
    pub const fn starting(from: T, limit: usize) -> Self {
        Self { from, until: None, limit }
    }

    /// Everything between two numbers, the second excluded.
    pub const fn between(from: T, until: T) -> Self {
        Self { from, until: Some(until), limit: usize::MAX }
    }
}

/// Selects the nodes of a conversation to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFilter {
    /// Only nodes of this level.
    pub level: Option<Level>,
    /// Only nodes with these ordinals.
    pub ordinals: Option<Span<u32>>,
    /// Only nodes in this group of the level above, or only ungrouped nodes (`Some(None)`).
    pub parent: Option<Option<u32>>,
    /// Only the node with this id.
    pub id: Option<NodeId>,
    /// Only dirty nodes, which have to be regenerated.
    pub dirty: bool,
    /// Only nodes that cover the message at this position.
    pub around: Option<MessageIdx>,
}

/// The version of the node at one position, with the fields that change without a new version.
/// A cached node with the same version is still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeVersion {
    /// The node's level.
    pub level: Level,
    /// The node's ordinal within its level.
    pub ordinal: u32,
    /// The sequence number of the last write; unique within the tenant.
    pub seq: u64,
    /// The ordinal of the group that covers the node.
    pub parent: Option<u32>,
    /// Whether a higher node covers it: that group's node exists, or the top does.
    pub superseded: bool,
    /// Whether the node has to be regenerated.
    pub dirty: bool,
}

impl NodeVersion {
    /// Whether a cached node, read at this sequence number, is still current.
    #[must_use]
    pub fn matches(&self, node: &Node) -> bool {
        (self.parent, self.superseded, self.dirty) == (node.parent, node.superseded, node.dirty)
    }
}

impl NodeFilter {
    /// The nodes of a level.
    #[must_use]
    pub fn at(level: Level) -> Self {
        Self { level: Some(level), ..Self::default() }
    }

    /// The ungrouped nodes of a level.
    #[must_use]
    pub fn ungrouped(level: Level) -> Self {
        Self { parent: Some(None), ..Self::at(level) }
    }
}

/// Selects the jobs to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFilter {
    /// Only jobs of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only jobs whose height is in this inclusive range.
    pub heights: Option<(u8, u8)>,
    /// Only jobs that a worker may lease at this time: due, and without unfinished lower jobs
    /// in the same conversation.
    pub due: Option<Timestamp>,
    /// Only jobs whose id starts with these hexadecimal digits.
    pub id_prefix: Option<String>,
    /// Only the job with this position and id.
    pub only: Option<(u32, JobId)>,
    /// Only jobs that write nodes.
    pub summaries: bool,
    /// Maximum number of results.
    pub limit: usize,
}

impl JobFilter {
    /// Every job, at most `limit`.
    #[must_use]
    pub const fn all(limit: usize) -> Self {
        Self {
            conversation: None,
            heights: None,
            due: None,
            id_prefix: None,
            only: None,
            summaries: false,
            limit,
        }
    }

    /// One job, as stored now.
    #[must_use]
    pub(crate) fn one(job: &Job) -> Self {
        let height = job.kind.height();
        Self {
            conversation: Some(job.conversation),
            heights: Some((height, height)),
            only: Some((job.kind.position(), job.id)),
            ..Self::all(1)
        }
    }

    /// The jobs of a conversation.
    #[must_use]
    pub fn of(conversation: ConversationId) -> Self {
        Self { conversation: Some(conversation), ..Self::all(usize::MAX) }
    }
}

/// Selects the job events to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEventFilter {
    /// Only events of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only events of jobs whose id starts with these hexadecimal digits.
    pub job_prefix: Option<String>,
    /// Maximum number of results.
    pub limit: usize,
}

/// Selects the model calls to add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpendFilter {
    /// Only calls for this conversation.
    pub conversation: Option<ConversationId>,
    /// Only calls on this day.
    pub day: Option<i64>,
}

/// Totals of a tree at one level.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LevelTotals {
    /// The level's number.
    pub level: u8,
    /// Nodes.
    pub nodes: u32,
    /// Dirty nodes.
    pub dirty: u32,
    /// Nodes written by a fallback summarizer.
    pub fallbacks: u32,
    /// Nodes that no higher node covers.
    pub uncovered: u32,
    /// Characters of the overviews.
    pub chars: u64,
    /// Tokens of the overviews.
    pub tokens: u64,
    /// Characters of the summarized input.
    pub source_chars: u64,
    /// Tokens of the summarized input: the messages, or the overviews of the children.
    pub source_tokens: u64,
    /// Tokens of the covered messages.
    pub raw_tokens: u64,
    /// Tokens of the messages covered by uncovered nodes.
    pub uncovered_raw_tokens: u64,
    /// Tokens of the overviews of uncovered nodes.
    pub uncovered_tokens: u64,
    /// Total generation time, in milliseconds.
    pub took_ms: u64,
    /// Longest generation time of one node, in milliseconds.
    pub slowest_ms: u64,
    /// Sum of the grounded shares.
    pub grounded: f64,
    /// Sum of the retained shares.
    pub retained: f64,
}

/// Selects the conversations to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationFilter {
    /// Only conversations of this kind.
    pub kind: Option<ConversationKind>,
    /// Only conversations whose working directory is this folder or lies below it.
    pub cwd: Option<String>,
    /// Only conversations of this project: their working directory or their project path is this
    /// folder or lies below it.
    pub project: Option<String>,
    /// Only conversations with all of these labels.
    pub labels: Vec<Label>,
    /// Only conversations in one of these states; any state if empty.
    pub states: Vec<ConversationState>,
    /// Only conversations after this one in the listing.
    pub after: Option<(Timestamp, ConversationId)>,
    /// Maximum number of results.
    pub limit: usize,
}

impl ConversationFilter {
    /// Every conversation of any kind, at most `limit`.
    #[must_use]
    pub const fn all(limit: usize) -> Self {
        Self {
            kind: None,
            cwd: None,
            project: None,
            labels: Vec::new(),
            states: Vec::new(),
            after: None,
            limit,
        }
    }

    /// Every session, at most `limit`.
    #[must_use]
    pub fn sessions(limit: usize) -> Self {
        Self { kind: Some(ConversationKind::Session), ..Self::all(limit) }
    }
}

/// The existing item for an external id within a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingItem {
    /// A message, with its content hash.
    Message(MessageIdx, ContentHash),
    /// A tool call.
    ToolCall {
        /// The turn.
        turn: TurnNo,
        /// The position in the turn.
        order: u32,
        /// Whether the result is stored.
        finished: bool,
    },
}

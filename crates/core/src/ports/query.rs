//! What to read from a store, and the shapes of what comes back that are not domain types.

use crate::conversation::ConversationState;
use crate::hash::ContentHash;
use crate::ids::{ConversationId, ExternalId, MessageIdx, TurnNo};
use crate::job::{Job, JobId};
use crate::message::Message;
use crate::node::{Level, Node, NodeId};
use crate::time::Timestamp;
use crate::tool::ToolCall;

/// Which conversations to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationQuery<'a> {
    /// The one with this id.
    Id(ConversationId),
    /// The one with this external id.
    ExternalId(&'a ExternalId),
    /// The one with exactly this slug.
    Slug(&'a str),
    /// Those whose id begins with these hexadecimal digits, in order of id, at most `limit`.
    IdPrefix(&'a str, usize),
    /// Those that match, the latest activity first; equal moments in order of id.
    List(&'a ConversationFilter),
}

/// Names one item of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemRef {
    /// A message by its position.
    Message(ConversationId, MessageIdx),
    /// A tool call by its turn and its order in the turn.
    ToolCall(ConversationId, TurnNo, u32),
    /// A node by its level and number.
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

/// A run of numbers: from the first on, at most `limit` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<T> {
    /// The first number that counts.
    pub from: T,
    /// One past the last number that counts; open when absent.
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

/// Which nodes of a conversation to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFilter {
    /// Only those of this level.
    pub level: Option<Level>,
    /// Only those with these numbers.
    pub ordinals: Option<Span<u32>>,
    /// Only those under this group of the level above, or only those under none.
    pub parent: Option<Option<u32>>,
    /// Only the one with this id.
    pub id: Option<NodeId>,
    /// Only dirty ones: those that have to be rewritten.
    pub dirty: bool,
    /// Only those whose messages reach from this position or one before it to one after it.
    pub around: Option<MessageIdx>,
}

/// The version of the node at one position, and everything about it that changes without a new version. A cached
/// node with the same version need not be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeVersion {
    /// Its height.
    pub level: Level,
    /// Its number among the nodes of its height.
    pub ordinal: u32,
    /// The sequence number of its last write; unique within the tenant.
    pub seq: u64,
    /// The number of the group that covers it.
    pub parent: Option<u32>,
    /// Whether that group has its node.
    pub superseded: bool,
    /// Whether it has to be rewritten.
    pub dirty: bool,
}

impl NodeVersion {
    /// Whether a cached node with this sequence number is still current.
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

    /// The nodes of a level that no group has taken.
    #[must_use]
    pub fn ungrouped(level: Level) -> Self {
        Self { parent: Some(None), ..Self::at(level) }
    }
}

/// Which jobs to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFilter {
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those whose height lies in this range.
    pub heights: Option<(u8, u8)>,
    /// Only those that a worker may take at this moment: due, and nothing lower of the same
    /// conversation still to be done.
    pub due: Option<Timestamp>,
    /// Only those whose id begins with these hexadecimal digits.
    pub id_prefix: Option<String>,
    /// Only the one with this position and id.
    pub only: Option<(u32, JobId)>,
    /// Maximum number of results.
    pub limit: usize,
}

impl JobFilter {
    /// Every job, at most `limit`.
    #[must_use]
    pub const fn all(limit: usize) -> Self {
        Self { conversation: None, heights: None, due: None, id_prefix: None, only: None, limit }
    }

    /// One job, as it is stored now.
    #[must_use]
    pub fn one(job: &Job) -> Self {
        let height = job.kind.height();
        Self {
            conversation: Some(job.conversation),
            heights: Some((height, height)),
            only: Some((job.kind.place(), job.id)),
            ..Self::all(1)
        }
    }

    /// The jobs of a conversation.
    #[must_use]
    pub fn of(conversation: ConversationId) -> Self {
        Self { conversation: Some(conversation), ..Self::all(usize::MAX) }
    }
}

/// Which lines of the log to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEventFilter {
    /// Only those about this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those about a job whose id begins with these hexadecimal digits.
    pub job_prefix: Option<String>,
    /// Maximum number of results.
    pub limit: usize,
}

/// Which calls to models to add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpendFilter {
    /// Only those for this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those of this day.
    pub day: Option<i64>,
}

/// How much a tree has at one level.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LevelTotals {
    /// The level's number.
    pub level: u8,
    /// Nodes.
    pub nodes: u32,
    /// Nodes that have to be rewritten.
    pub dirty: u32,
    /// Nodes that a stand-in wrote.
    pub fallbacks: u32,
    /// Nodes that nothing higher covers.
    pub uncovered: u32,
    /// Characters of their overviews.
    pub chars: u64,
    /// Tokens of their overviews.
    pub tokens: u64,
    /// Characters of what they were written from.
    pub source_chars: u64,
    /// Tokens of the messages they cover.
    pub raw_tokens: u64,
    /// Tokens of the messages covered by those that nothing higher covers.
    pub uncovered_raw_tokens: u64,
    /// Tokens of the overviews of those that nothing higher covers.
    pub uncovered_tokens: u64,
    /// How long writing them took, all in all, in milliseconds.
    pub took_ms: u64,
    /// The longest that writing one took.
    pub slowest_ms: u64,
    /// Grounded shares, added up.
    pub grounded: f64,
    /// Retained shares, added up.
    pub retained: f64,
}

/// Which conversations to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationFilter {
    /// Only those that took place in this folder.
    pub cwd: Option<String>,
    /// Only those in one of these states; in any state when empty.
    pub states: Vec<ConversationState>,
    /// Only those that come after this one in the listing.
    pub after: Option<(Timestamp, ConversationId)>,
    /// Maximum number of results.
    pub limit: usize,
}

impl ConversationFilter {
    /// Every conversation, page by page.
    #[must_use]
    pub const fn all(limit: usize) -> Self {
        Self { cwd: None, states: Vec::new(), after: None, limit }
    }
}

/// The item that has an external id within a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingItem {
    /// A message, with the hash of what was said.
    Message(MessageIdx, ContentHash),
    /// A tool call, and whether it has its result.
    ToolCall {
        /// Its turn.
        turn: TurnNo,
        /// Its place in the turn.
        order: u32,
        /// Whether its result is there.
        finished: bool,
    },
}

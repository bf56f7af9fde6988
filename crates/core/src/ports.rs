//! What the domain needs from the outside, in domain types only.

use crate::brief::Brief;
use crate::chat::{ChatReply, ChatRequest, Usage};
use crate::commit::{Commit, LogLine};
use crate::conversation::{Conversation, ConversationState, Totals};
use crate::error::{ProviderError, StoreError};
use crate::hash::ContentHash;
use crate::ids::{ConversationId, ConversationKey, ExternalId, MessageIdx, TenantId, TurnNo};
use crate::index::{VectorIndex, Vectors};
use crate::job::Job;
use crate::message::{Message, Turn};
use crate::node::{Level, Node, NodeContent, NodeId};
use crate::quota::Taken;
use crate::redact::Redactions;
use crate::spend::{Booking, Spent};
use crate::time::Timestamp;
use crate::tool::ToolCall;

/// What a store answers with.
pub type StoreResult<T> = Result<T, StoreError>;

/// Decides a commit from what the store holds at that moment. A store calls it with the
/// commit's view of the data, where no other writer can come between, or with one of which it makes
/// sure that it is still true; it may call it again when it has to start over, so it must not have
/// effects of its own.
pub type Plan = Box<dyn FnMut(&dyn Reader) -> StoreResult<Commit> + Send>;

/// A place that keeps everything.
///
/// Implementations are safe to share between threads, and several processes may have the same
/// store open at once.
pub trait Store: Send + Sync {
    /// Plans and applies one commit: whole or not at all, durable when this returns.
    fn commit(&self, plan: Plan) -> StoreResult<()>;

    /// A view for reading: everything read through one reader is of one moment.
    fn reader(&self) -> StoreResult<Box<dyn Reader + '_>>;

    /// What is wrong with the store itself, below the domain: damaged pages, rows without an
    /// owner. Empty when it is sound.
    fn check(&self) -> StoreResult<Vec<String>>;

    /// Makes anew what the store itself derives from what it keeps, where a check finds it wrong.
    /// Says what it mended; what was kept is never touched.
    fn repair(&self) -> StoreResult<Vec<String>>;

    /// What the store is and how large it is.
    fn describe(&self) -> StoreResult<Description>;
}

/// What can be read. Every method is for one tenant; nothing crosses it.
pub trait Reader {
    /// The conversation at a key.
    fn conversation(&self, key: &ConversationKey) -> StoreResult<Option<Conversation>>;

    /// The conversation with this external id.
    fn conversation_by_external_id(
        &self,
        tenant: &TenantId,
        id: &ExternalId,
    ) -> StoreResult<Option<Conversation>>;

    /// The conversation with exactly this slug.
    fn conversation_by_slug(&self, tenant: &TenantId, slug: &str) -> StoreResult<Option<Conversation>>;

    /// Ids that begin with these hexadecimal digits, at most `limit`.
    fn conversations_by_id_prefix(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<ConversationId>>;

    /// Conversations that match, the latest activity first; equal moments in order of id.
    fn conversations(&self, tenant: &TenantId, filter: &ConversationFilter)
    -> StoreResult<Vec<Conversation>>;

    /// The turns whose number is in the span, in order, as their messages and tool calls make them.
    fn turns(&self, key: &ConversationKey, span: Span<TurnNo>) -> StoreResult<Vec<Turn>>;

    /// The messages whose position is in the span, in order.
    fn messages(&self, key: &ConversationKey, span: Span<MessageIdx>) -> StoreResult<Vec<Message>>;

    /// The tool calls of the turns in the span, in order of turn and place in it.
    fn tool_calls(&self, key: &ConversationKey, span: Span<TurnNo>) -> StoreResult<Vec<ToolCall>>;

    /// What is stored under each of these external ids, in their order.
    fn known(&self, key: &ConversationKey, ids: &[&ExternalId]) -> StoreResult<Vec<Option<Known>>>;

    /// The conversation that has each of these external ids on a message or tool call, in
    /// their order; any one of them where several do.
    fn holders(&self, tenant: &TenantId, ids: &[&ExternalId]) -> StoreResult<Vec<Option<ConversationId>>>;

    /// The nodes of a conversation that match, in order of level and number.
    fn nodes(&self, key: &ConversationKey, filter: &NodeFilter) -> StoreResult<Vec<Node>>;

    /// What marks the nodes that [`Reader::nodes`] would give, in the same order: a small part of
    /// what reading them costs.
    fn node_marks(&self, key: &ConversationKey, filter: &NodeFilter) -> StoreResult<Vec<NodeMark>>;

    /// The nodes of the tenant whose ids begin like that, with their conversations; at most
    /// `limit`.
    fn nodes_by_id_prefix(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>>;

    /// How much the tree of the tenant, or of one of its conversations, has at each level.
    fn level_totals(
        &self,
        tenant: &TenantId,
        conversation: Option<ConversationId>,
    ) -> StoreResult<Vec<LevelTotals>>;

    /// Unfinished jobs that match, in the order they should run: lower levels first, then as
    /// they were planned; those of one conversation in the order of what they work on.
    fn jobs(&self, tenant: &TenantId, filter: &JobFilter) -> StoreResult<Vec<Job>>;

    /// A job as it stands now; nothing when it is done.
    fn job(&self, tenant: &TenantId, job: &Job) -> StoreResult<Option<Job>>;

    /// The newest lines of the log that match, the oldest of them first.
    fn log(&self, tenant: &TenantId, filter: &LogFilter) -> StoreResult<Vec<LogLine>>;

    /// Messages that arrived after one, at most `limit`.
    fn arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<Message>>;

    /// Tool calls that arrived after one, at most `limit`. One that got its result comes again.
    fn call_arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<ToolCall>>;

    /// Nodes that were written after one, at most `limit`. One that was written anew comes again.
    fn node_arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<Node>>;

    /// Lines of the log about conversations that were written after one, at most `limit`.
    fn log_arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<LogLine>>;

    /// Which model's vectors search goes by; none where nobody has ever chosen.
    fn vector_index(&self, tenant: &TenantId) -> StoreResult<Option<VectorIndex>>;

    /// The vectors that a model gave these contents, in their order; none where there is none yet.
    fn vectors(
        &self,
        tenant: &TenantId,
        model: &str,
        of: &[ContentHash],
    ) -> StoreResult<Vec<Option<Vec<f32>>>>;

    /// Vectors of a model that were stored after one, each with what it is of, at most `limit`; and
    /// the number of the last that was looked at.
    fn vector_arrivals(
        &self,
        tenant: &TenantId,
        model: &str,
        after: u64,
        limit: usize,
    ) -> StoreResult<(Vectors, u64)>;

    /// What calls to models have cost, by model in order of its name.
    fn spent(&self, tenant: &TenantId, filter: &SpendFilter) -> StoreResult<Vec<(String, Spent)>>;

    /// What was asked of a provider from a moment on, by every tenant, in the order of time: calls that were booked
    /// count also where they failed. What is older than two minutes may be gone.
    fn taken(&self, provider: &str, since: Timestamp) -> StoreResult<Vec<Taken>>;

    /// How much the tenant has, and in how many conversations.
    fn totals(&self, tenant: &TenantId) -> StoreResult<(u32, Totals)>;

    /// Every tenant that has something.
    fn tenants(&self) -> StoreResult<Vec<TenantId>>;
}

/// What arrived in a store, in the order it did.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals<T> {
    /// Each with the number of its arrival and its conversation.
    pub items: Vec<(u64, ConversationId, T)>,
    /// Everything up to this number is among them or was not asked for.
    pub through: u64,
}

/// A run of numbers: from the first on, at most `limit` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<T> {
    /// The first number that counts.
    pub from: T,
    /// One past the last number that counts; open when absent.
    pub until: Option<T>,
    /// At most so many rows.
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
    /// Only those that have to be written anew.
    pub dirty: bool,
    /// Only those whose messages reach from this position or one before it to one after it.
    pub around: Option<MessageIdx>,
}

/// Which node stands at a place, and everything about it that changes without its being written anew: whoever
/// has read a node with the same mark need not read it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeMark {
    /// Its height.
    pub level: Level,
    /// Its number among the nodes of its height.
    pub ordinal: u32,
    /// The number of its arrival: no two writings of the store's nodes share one.
    pub arrival: u64,
    /// The number of the group that covers it.
    pub parent: Option<u32>,
    /// Whether that group has its node.
    pub superseded: bool,
    /// Whether it has to be written anew.
    pub dirty: bool,
}

impl NodeMark {
    /// Whether a node that arrived under the same number is still as it was read.
    #[must_use]
    pub fn fits(&self, node: &Node) -> bool {
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
    /// At most so many.
    pub limit: usize,
}

impl JobFilter {
    /// Every job, at most `limit`.
    #[must_use]
    pub const fn all(limit: usize) -> Self {
        Self { conversation: None, heights: None, due: None, id_prefix: None, limit }
    }

    /// The jobs of a conversation.
    #[must_use]
    pub fn of(conversation: ConversationId) -> Self {
        Self { conversation: Some(conversation), ..Self::all(usize::MAX) }
    }
}

/// Which lines of the log to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter {
    /// Only those about this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those about a job whose id begins with these hexadecimal digits.
    pub job_prefix: Option<String>,
    /// At most so many.
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
    /// Nodes that have to be written anew.
    pub dirty: u32,
    /// Nodes that a stand-in wrote.
    pub stand_ins: u32,
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
    /// At most so many.
    pub limit: usize,
}

impl ConversationFilter {
    /// Every conversation, page by page.
    #[must_use]
    pub const fn all(limit: usize) -> Self {
        Self { cwd: None, states: Vec::new(), after: None, limit }
    }
}

/// What is stored under an external id within a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
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

/// What a store says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The kind of store, e.g. `embedded`.
    pub kind: &'static str,
    /// Where it is.
    pub location: String,
    /// Its schema version.
    pub schema_version: u32,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Counts tokens as a family of models does.
pub trait Tokenizer: Send + Sync {
    /// Its name, e.g. `o200k`.
    fn name(&self) -> &str;

    /// How many tokens the text has.
    fn count(&self, text: &str) -> u32;

    /// Whether the tokens of blocks that end with a line add up to those of all of them together.
    fn adds_up(&self) -> bool;
}

/// Writes what a node says.
pub trait Summarizer: Send + Sync {
    /// Its name, e.g. `extractive`; kept with every node it writes.
    fn name(&self) -> &str;

    /// Whether it lies beyond this machine, so that work is handed to it in small batches.
    fn is_remote(&self) -> bool;

    /// Writes a node from its brief. The same brief gives the same content where the
    /// summariser is deterministic.
    fn summarise(&self, brief: &Brief) -> Result<NodeContent, ProviderError>;

    /// The same; every call to a model is asked for and accounted.
    fn summarise_metered(&self, brief: &Brief, _: &dyn Meter) -> Result<NodeContent, ProviderError> {
        self.summarise(brief)
    }
}

/// Says whether a call to a model may be made, and keeps account of what it took.
pub trait Meter: Send + Sync {
    /// Books the most that a call can take, or says why it may not be made.
    fn book(&self, model: &str, most: Usage) -> Result<Booking, ProviderError>;

    /// Puts what a call took in the place of what was booked for it, and notes what was taken out of it before it left
    /// the machine.
    fn settle(&self, booking: Booking, took: Usage, redacted: &Redactions);
}

/// Talks.
pub trait Chat: Send + Sync {
    /// Its provider and model, e.g. `openai/gpt-6-luna`.
    fn name(&self) -> &str;

    /// Whether it lies beyond this process, so that an answer takes a while.
    fn is_remote(&self) -> bool;

    /// The whole answer.
    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ProviderError>;

    /// The answer piece by piece, and whole at the end. A stream that breaks off is an error, whatever
    /// was heard of it.
    fn stream(&self, request: &ChatRequest, hear: &mut dyn FnMut(&str)) -> Result<ChatReply, ProviderError>;
}

/// Gives texts their vectors.
pub trait Embedder: Send + Sync {
    /// The model's name. Vectors of different names must not be compared.
    fn name(&self) -> &str;

    /// How many numbers a vector has; 0 where only the first vector will tell. Nobody is asked for it.
    fn dims(&self) -> usize;

    /// Whether it lies beyond this machine.
    fn is_remote(&self) -> bool;

    /// Whether a vector costs less to make than to keep: then none is kept.
    fn is_instant(&self) -> bool {
        false
    }

    /// The vectors of texts, in their order: each of length one, or zeros where a text says
    /// nothing.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError>;

    /// The same; every call to a model is asked for and accounted.
    fn embed_metered(&self, texts: &[&str], _: &dyn Meter) -> Result<Vec<Vec<f32>>, ProviderError> {
        self.embed(texts)
    }
}

/// Tells the time.
pub trait Clock: Send + Sync {
    /// What time it is.
    fn now(&self) -> Timestamp;
}

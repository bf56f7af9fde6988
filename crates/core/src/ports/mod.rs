//! The ports: the interfaces that the domain requires from adapters, in domain types only. A
//! port never exposes its backend.

mod feed;
mod index_files;
mod models;
mod query;
mod search;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::audit::AuditRecord;
use crate::commit::{JobEvent, Write};
use crate::conversation::{Conversation, ConversationTotals};
use crate::error::{Invalid, StoreError};
use crate::forget::{Tombstone, TombstoneSet};
use crate::hash::ContentHash;
use crate::ids::{ConversationId, ConversationKey, ExternalId, MessageIdx, TenantId, TurnNo};
use crate::job::{BatchSizes, Job};
use crate::message::{Message, MessageVersion, Turn};
use crate::node::{Node, NodeId};
use crate::quota::QuotaUsage;
use crate::spend::SpendAmount;
use crate::time::Timestamp;
use crate::tool::ToolCall;
use crate::vector_index::VectorIndex;

pub use feed::{Change, ChangeFilter, Changes, Cursor};
pub use index_files::{IndexFile, IndexFiles};
pub use models::{ChatModel, Clock, Embedder, Meter, Summarizer, Tokenizer};
pub use query::{
    ConversationFilter, ConversationQuery, ExistingItem, ItemRef, JobEventFilter, JobFilter,
    LevelTotals, NodeFilter, NodeVersion, Span, SpendFilter, StoredItem,
};
pub use search::{
    AsOf, IndexError, IndexQuery, IndexSnapshot, ItemFilter, RestoredMessage, SearchCandidate,
    SearchIndex,
};

/// The result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// Decides the writes of one commit from the current state of the store. The store may call it
/// again when it retries the transaction, so it must not have side effects.
pub type CommitPlan = Box<dyn FnMut(&dyn Reader) -> StoreResult<Vec<Write>> + Send>;

/// The scope that a commit is serialized against: no other commit with an overlapping scope
/// runs between its plan and its writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitScope {
    /// One conversation. The plan may read the rest of the tenant, which can change
    /// concurrently; unique names are checked when the writes are applied.
    Conversation(ConversationKey),
    /// A whole tenant.
    Tenant(TenantId),
    /// The recent requests to a provider, which all tenants share, and the ledger of this
    /// tenant.
    Provider(TenantId, String),
}

impl CommitScope {
    /// The tenant that the writes belong to.
    #[must_use]
    pub const fn tenant(&self) -> &TenantId {
        match self {
            Self::Conversation(key) => &key.tenant,
            Self::Tenant(tenant) | Self::Provider(tenant, _) => tenant,
        }
    }

    /// Whether a commit with this scope may contain the write.
    #[must_use]
    pub fn permits(&self, write: &Write) -> bool {
        match self {
            Self::Tenant(_) => true,
            Self::Conversation(key) => write.conversation().is_none_or(|id| id == key.id),
            Self::Provider(..) => matches!(write, Write::AddSpend(_) | Write::AddJobEvent(_)),
        }
    }
}

/// A counter that increases with every commit that this process observes, including commits by
/// other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Revision(pub u64);

/// The durable store. Safe to share between threads; several processes may open the same store.
pub trait Store: Send + Sync {
    /// Plans and applies one commit atomically. The commit is durable when this returns.
    fn commit(&self, scope: CommitScope, plan: CommitPlan) -> StoreResult<()>;

    /// Opens a reader for one tenant. Each call reads one snapshot; a later call on the same
    /// reader may read a newer one.
    fn reader(&self, tenant: &TenantId) -> StoreResult<Box<dyn Reader + '_>>;

    /// Leases due jobs to a worker, in the order they should run. A job has at most one lease
    /// at a time.
    fn lease(
        &self,
        tenant: &TenantId,
        filter: &JobFilter,
        worker: &str,
        sizes: BatchSizes,
    ) -> StoreResult<Vec<Job>>;

    /// The next tenant with a due job, after `after` in a fixed order; `None` at the end of the
    /// order.
    fn tenant_with_due_jobs(
        &self,
        now: Timestamp,
        after: Option<&TenantId>,
    ) -> StoreResult<Option<TenantId>>;

    /// The end of the change feed of every tenant.
    fn cursors(&self) -> StoreResult<Vec<(TenantId, Cursor)>>;

    /// The current revision.
    fn revision(&self) -> Revision;

    /// Waits at most `timeout` for a commit after `seen` and returns the current revision. May
    /// return early without a change.
    fn wait(&self, seen: Revision, timeout: Duration) -> Revision;

    /// Makes every [`Store::wait`] of this process return.
    fn wake(&self);

    /// The store's own search index. `None` if the in-process index follows the change feed
    /// instead.
    fn search_index(&self) -> Option<&dyn SearchIndex> {
        None
    }

    /// Whether the store keeps an embedding with each turn and node, for programs that query it
    /// themselves. Then [`Write::SetEmbeddings`] follows an append, even for a model whose vectors
    /// are not stored otherwise.
    fn keeps_embeddings(&self) -> bool {
        false
    }

    /// Check, repair, backup and description of the store.
    fn maintenance(&self) -> &dyn Maintenance;

    /// The number of calls that can usefully run in parallel.
    fn concurrency(&self) -> usize;
}

/// Read access to one tenant.
pub trait Reader {
    /// The conversations that a query selects.
    fn conversations(&self, query: &ConversationQuery<'_>) -> StoreResult<Vec<Conversation>>;

    /// The ids of the conversations that a filter selects, in any order, at a fraction of the cost
    /// of [`Reader::conversations`]. Ignores `after` and `limit`.
    fn conversation_ids(&self, filter: &ConversationFilter) -> StoreResult<Vec<ConversationId>>;

    /// The turns whose number is in the span, in order, computed from their messages and tool
    /// calls.
    fn turns(&self, id: ConversationId, span: Span<TurnNo>) -> StoreResult<Vec<Turn>>;

    /// The messages whose position is in the span, in order.
    fn messages(&self, id: ConversationId, span: Span<MessageIdx>) -> StoreResult<Vec<Message>>;

    /// The sum of the tokens of the messages whose position is in the span. A store that can add
    /// them up without reading the messages should do so.
    fn message_tokens(&self, id: ConversationId, span: Span<MessageIdx>) -> StoreResult<u64> {
        Ok(self.messages(id, span)?.iter().map(|message| u64::from(message.tokens)).sum())
    }

    /// The tool calls of the turns in the span, ordered by turn and by position in the turn.
    fn tool_calls(&self, id: ConversationId, span: Span<TurnNo>) -> StoreResult<Vec<ToolCall>>;

    /// Several items in one call, in the order of their references.
    fn items(&self, refs: &[ItemRef]) -> StoreResult<Vec<Option<StoredItem>>>;

    /// The items of a conversation with these external ids, in the order of the ids.
    fn existing(
        &self,
        id: ConversationId,
        ids: &[&ExternalId],
    ) -> StoreResult<Vec<Option<ExistingItem>>>;

    /// For each external id, a conversation with a message or tool call of that id.
    fn owners(&self, ids: &[&ExternalId]) -> StoreResult<Vec<Option<ConversationId>>>;

    /// The earlier versions of the amended messages in the span, ordered by position and then by
    /// time.
    fn versions(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<Vec<(MessageIdx, MessageVersion)>>;

    /// The nodes of a conversation that match, ordered by level and ordinal.
    fn nodes(&self, id: ConversationId, filter: &NodeFilter) -> StoreResult<Vec<Node>>;

    /// The versions of the nodes that [`Reader::nodes`] would return, at a fraction of the
    /// cost.
    fn node_versions(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<NodeVersion>>;

    /// The nodes whose ids start with `prefix`, with their conversations; at most `limit`.
    fn nodes_by_id_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>>;

    /// Unfinished jobs that match, in the order they should run: lower levels first, then by
    /// planning time; jobs of one conversation by the position of the item they work on.
    fn jobs(&self, filter: &JobFilter) -> StoreResult<Vec<Job>>;

    /// The newest job events that match, oldest first.
    fn job_events(&self, filter: &JobEventFilter) -> StoreResult<Vec<JobEvent>>;

    /// At most `limit` changes after a cursor, in commit order. A follower that passes the
    /// returned cursor to the next call misses no change.
    fn changes(
        &self,
        after: &Cursor,
        filter: &ChangeFilter<'_>,
        limit: usize,
    ) -> StoreResult<Changes>;

    /// Identifies the history that the feed had at a cursor: a follower that kept its state may
    /// continue from the cursor if the value is still the same. It differs after the store was
    /// replaced by another or by an older copy. `None` if the feed ends before the cursor.
    fn history(&self, at: &Cursor) -> StoreResult<Option<ContentHash>>;

    /// The number of nodes of the tenant.
    fn node_count(&self) -> StoreResult<u32>;

    /// The vector index in use; `None` until one is chosen.
    fn vector_index(&self) -> StoreResult<Option<VectorIndex>>;

    /// The vectors of a model for these contents, in the order of the contents.
    fn vectors(&self, model: &str, of: &[ContentHash]) -> StoreResult<Vec<Option<Vec<f32>>>>;

    /// The number of sessions, and the totals over all conversations.
    fn totals(&self) -> StoreResult<(u32, ConversationTotals)>;

    /// Totals of the tree at each level, for one conversation or for all.
    fn level_totals(&self, conversation: Option<ConversationId>) -> StoreResult<Vec<LevelTotals>>;

    /// The ledger of model calls.
    fn ledger(&self) -> &dyn Ledger;

    /// The record of what was forgotten.
    fn audit(&self) -> &dyn Audit;
}

/// The record of what was forgotten.
pub trait Audit {
    /// A number that increases with every audit record and every amendment of the tenant. Content
    /// that was read before it increased may have been forgotten or amended.
    fn revision(&self) -> StoreResult<u64>;

    /// The audit records whose ids start with `prefix`, oldest first; at most the latest `limit`.
    fn records(&self, prefix: &str, limit: usize) -> StoreResult<Vec<AuditRecord>>;

    /// Whether each tombstone exists.
    fn are_forgotten(&self, of: &[Tombstone]) -> StoreResult<Vec<bool>>;

    /// All tombstones of the tenant.
    fn tombstones(&self) -> StoreResult<TombstoneSet>;

    /// The number of placeholders among the first messages of a conversation.
    fn placeholders(&self, id: ConversationId, end: MessageIdx) -> StoreResult<u32>;
}

/// The record of model calls and their cost.
pub trait Ledger {
    /// The cost of the tenant's calls per model, ordered by model name.
    fn spent(&self, filter: &SpendFilter) -> StoreResult<Vec<(String, SpendAmount)>>;

    /// The requests of all tenants to a provider since a time, in time order, including failed
    /// ones. The store may delete entries older than two minutes.
    fn requests_since(&self, provider: &str, since: Timestamp) -> StoreResult<Vec<QuotaUsage>>;
}

impl dyn Reader + '_ {
    /// The conversation with an id.
    pub fn conversation(&self, id: ConversationId) -> StoreResult<Option<Conversation>> {
        Ok(self.conversations(&ConversationQuery::Id(id))?.pop())
    }

    /// The conversation with exactly this slug.
    pub fn conversation_by_slug(&self, slug: &str) -> StoreResult<Option<Conversation>> {
        Ok(self.conversations(&ConversationQuery::Slug(slug))?.pop())
    }

    /// The conversation with this external id.
    pub fn conversation_by_external_id(
        &self,
        id: &ExternalId,
    ) -> StoreResult<Option<Conversation>> {
        Ok(self.conversations(&ConversationQuery::ExternalId(id))?.pop())
    }

    /// The job as stored now; `None` once it is done.
    pub fn job(&self, job: &Job) -> StoreResult<Option<Job>> {
        Ok(self.jobs(&JobFilter::one(job))?.pop())
    }
}

/// Check, repair, backup and description of a store.
pub trait Maintenance: Send + Sync {
    /// Every tenant of the store, ordered by name.
    fn tenants(&self) -> StoreResult<Vec<TenantId>>;

    /// Adds a tenant without data. Does nothing if it exists.
    fn add_tenant(&self, tenant: &TenantId) -> StoreResult<()> {
        Err(Invalid::new(format!("tenant {tenant}"), "the first write adds it to this store")
            .into())
    }

    /// Removes a tenant with everything that belongs to it, and returns whether it did. With a
    /// cursor, it does so only if the tenant's change feed still ends there.
    fn remove_tenant(&self, tenant: &TenantId, _only_at: Option<&Cursor>) -> StoreResult<bool> {
        let reason = "this store cannot remove a whole tenant; forget its conversations instead";
        Err(Invalid::new(format!("tenant {tenant}"), reason).into())
    }

    /// The connections to the server of the store; `None` without a server.
    fn connections(&self) -> Option<ConnectionUsage> {
        None
    }

    /// Problems of the store below the domain: damaged pages, rows without an owner, rows
    /// edited by hand. Empty if the store is sound.
    fn check(&self) -> StoreResult<Vec<String>>;

    /// Rebuilds derived rows that fail a check and removes derived rows without an owner.
    /// Returns a description of each repair. Never changes ground truth.
    fn repair(&self) -> StoreResult<Vec<String>>;

    /// Data that may be missing after damage that the store survived, one sentence each.
    fn warnings(&self) -> Vec<String>;

    /// The warnings to show when the store is opened: acknowledged commits may be missing, or
    /// damage was found while opening it.
    fn open_warnings(&self) -> Vec<String>;

    /// The reason why the store refuses writes; `None` if it accepts them.
    fn failure(&self) -> Option<StoreError>;

    /// Copies the store to a file as a consistent snapshot, while other processes keep writing.
    fn backup(&self, to: &Path) -> StoreResult<()>;

    /// The number of forgets whose bytes may still be in the store's files.
    fn pending_scrubs(&self) -> StoreResult<u32>;

    /// The copies of the store in its folder and below it, which [`Maintenance::scrub`] deletes.
    fn copies(&self) -> Vec<PathBuf>;

    /// Erases the bytes of deleted and overwritten content from the store's files, and deletes
    /// the copies that the store made in its folder.
    fn scrub(&self) -> StoreResult<ScrubReport>;

    /// Describes the store and its size.
    fn describe(&self) -> StoreResult<Description>;
}

/// The connections to the server of a store, at one moment, and what they did since the store was
/// opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionUsage {
    /// Maximum number of connections.
    pub limit: usize,
    /// Connections that are open.
    pub open: usize,
    /// Connections that serve no call.
    pub idle: usize,
    /// Connections that were dropped because they broke.
    pub broken: u64,
    /// Statements sent.
    pub statements: u64,
    /// Round trips, each with one statement or more.
    pub round_trips: u64,
    /// The time spent waiting for answers, in microseconds.
    pub waited_micros: u64,
    /// Commits that were planned again because something had changed.
    pub conflicts: u64,
}

/// The result of erasing the bytes of forgotten content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubReport {
    /// The copies of the store that were deleted.
    pub deleted: Vec<PathBuf>,
    /// Why bytes may remain; `None` if none do.
    pub pending: Option<String>,
}

/// A store's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The kind of store, e.g. `embedded`.
    pub kind: &'static str,
    /// The path or address of the store.
    pub location: String,
    /// The schema version.
    pub schema_version: u32,
    /// The size in bytes.
    pub bytes: u64,
}

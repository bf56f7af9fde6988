//! The ports: interfaces that the domain requires from the outside, in domain types only.

mod feed;
mod models;
mod query;
mod search;

use std::path::Path;
use std::time::Duration;

use crate::commit::{JobEvent, Write};
use crate::conversation::{Conversation, Totals};
use crate::error::StoreError;
use crate::hash::ContentHash;
use crate::ids::{ConversationId, ConversationKey, ExternalId, MessageIdx, TenantId, TurnNo};
use crate::job::{BatchSizes, Job};
use crate::message::{Message, Turn};
use crate::node::{Node, NodeId};
use crate::quota::QuotaUsage;
use crate::spend::SpendAmount;
use crate::time::Timestamp;
use crate::tool::ToolCall;
use crate::vector_index::VectorIndex;

pub use feed::{Change, ChangeFilter, Changes, Cursor};
pub use models::{ChatModel, Clock, Embedder, Meter, Summarizer, Tokenizer};
pub use query::{
    ConversationFilter, ConversationQuery, ExistingItem, ItemRef, JobEventFilter, JobFilter,
    LevelTotals, NodeFilter, NodeVersion, Span, SpendFilter, StoredItem,
};
pub use search::{IndexError, IndexQuery, IndexSnapshot, ItemFilter, SearchCandidate, SearchIndex};

/// The result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// Decides the writes of one commit from what the store holds at that moment. A store may run it again when it has
/// to start over, so it must not have effects of its own.
pub type CommitPlan = Box<dyn FnMut(&dyn Reader) -> StoreResult<Vec<Write>> + Send>;

/// What a commit is serialised against: no other commit with an overlapping scope runs between its plan and its
/// writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitScope {
    /// One conversation. The plan may read the rest of the tenant, which can change meanwhile; unique names are
    /// checked when the writes are applied.
    Conversation(ConversationKey),
    /// Everything of a tenant.
    Tenant(TenantId),
    /// What was asked of a provider, which all tenants share, and the ledger of this tenant.
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

    /// Whether a commit of this scope may contain a write.
    #[must_use]
    pub fn permits(&self, write: &Write) -> bool {
        match self {
            Self::Tenant(_) => true,
            Self::Conversation(key) => write.conversation().is_none_or(|id| id == key.id),
            Self::Provider(..) => matches!(write, Write::AddSpend(_) | Write::AddJobEvent(_)),
        }
    }
}

/// A counter that rises with every commit that a process learns of, by whichever process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Revision(pub u64);

/// A place that keeps everything. Safe to share between threads; several processes may have the same store open.
pub trait Store: Send + Sync {
    /// Plans and applies one commit: atomic, and durable when this returns.
    fn commit(&self, scope: CommitScope, plan: CommitPlan) -> StoreResult<()>;

    /// Reads of one tenant. Each call sees one moment; a later call of the same reader may see a later one.
    fn reader(&self, tenant: &TenantId) -> StoreResult<Box<dyn Reader + '_>>;

    /// Leases due jobs to a worker, in the order they should run. No job is leased twice at the same time.
    fn lease(
        &self,
        tenant: &TenantId,
        filter: &JobFilter,
        worker: &str,
        sizes: BatchSizes,
    ) -> StoreResult<Vec<Job>>;

    /// The next tenant with a job that is due, after one of them in a fixed order; none at the end of the order.
    fn tenant_with_due_jobs(
        &self,
        now: Timestamp,
        after: Option<&TenantId>,
    ) -> StoreResult<Option<TenantId>>;

    /// The end of the change feed of every tenant.
    fn cursors(&self) -> StoreResult<Vec<(TenantId, Cursor)>>;

    /// The present revision.
    fn revision(&self) -> Revision;

    /// Waits until something was committed after `seen`, at most for `timeout`. Returns the present revision. It may
    /// return early without a change.
    fn wait(&self, seen: Revision, timeout: Duration) -> Revision;

    /// Makes every [`Store::wait`] of this process return.
    fn wake(&self);

    /// The store's own search index; none where the in-process index follows its change feed.
    fn search_index(&self) -> Option<&dyn SearchIndex> {
        None
    }

    /// Checking, repairing, copying and describing the store.
    fn maintenance(&self) -> &dyn Maintenance;

    /// How many calls can usefully run at the same time.
    fn concurrency(&self) -> usize;
}

/// What can be read of one tenant.
pub trait Reader {
    /// The conversations that a query selects.
    fn conversations(&self, query: &ConversationQuery<'_>) -> StoreResult<Vec<Conversation>>;

    /// The turns whose number is in the span, in order, computed from their messages and tool calls.
    fn turns(&self, id: ConversationId, span: Span<TurnNo>) -> StoreResult<Vec<Turn>>;

    /// The messages whose position is in the span, in order.
    fn messages(&self, id: ConversationId, span: Span<MessageIdx>) -> StoreResult<Vec<Message>>;

    /// The tool calls of the turns in the span, in order of turn and place in it.
    fn tool_calls(&self, id: ConversationId, span: Span<TurnNo>) -> StoreResult<Vec<ToolCall>>;

    /// Several items in one call, in the order of their references.
    fn items(&self, refs: &[ItemRef]) -> StoreResult<Vec<Option<StoredItem>>>;

    /// The items of a conversation that have these external ids, in their order.
    fn existing(
        &self,
        id: ConversationId,
        ids: &[&ExternalId],
    ) -> StoreResult<Vec<Option<ExistingItem>>>;

    /// For each of these external ids, a conversation with a message or tool call that has it.
    fn owners(&self, ids: &[&ExternalId]) -> StoreResult<Vec<Option<ConversationId>>>;

    /// The nodes of a conversation that match, in order of level and number.
    fn nodes(&self, id: ConversationId, filter: &NodeFilter) -> StoreResult<Vec<Node>>;

    /// The versions of the nodes that [`Reader::nodes`] would return, at a small part of the cost.
    fn node_versions(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<NodeVersion>>;

    /// The nodes whose ids begin with `prefix`, with their conversations; at most `limit`.
    fn nodes_by_id_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>>;

    /// Unfinished jobs that match, in the order they should run: lower levels first, then as they were planned;
    /// those of one conversation in the order of what they work on.
    fn jobs(&self, filter: &JobFilter) -> StoreResult<Vec<Job>>;

    /// The newest log lines that match, the oldest of them first.
    fn job_events(&self, filter: &JobEventFilter) -> StoreResult<Vec<JobEvent>>;

    /// Changes after a cursor in the order of their commits, at most `limit`. A follower that passes each cursor on
    /// to the next call misses nothing.
    fn changes(
        &self,
        after: &Cursor,
        filter: &ChangeFilter<'_>,
        limit: usize,
    ) -> StoreResult<Changes>;

    /// The vector index in use; none where nobody has chosen one.
    fn vector_index(&self) -> StoreResult<Option<VectorIndex>>;

    /// The vectors of a model for these contents, in their order.
    fn vectors(&self, model: &str, of: &[ContentHash]) -> StoreResult<Vec<Option<Vec<f32>>>>;

    /// How many conversations there are, and what is in them.
    fn totals(&self) -> StoreResult<(u32, Totals)>;

    /// Totals of the tree at each level, of one conversation or of all.
    fn level_totals(&self, conversation: Option<ConversationId>) -> StoreResult<Vec<LevelTotals>>;

    /// The record of calls to models.
    fn ledger(&self) -> &dyn Ledger;
}

/// The record of calls to models.
pub trait Ledger {
    /// The cost of the tenant's calls, by model in order of its name.
    fn spent(&self, filter: &SpendFilter) -> StoreResult<Vec<(String, SpendAmount)>>;

    /// The requests of all tenants to a provider from a moment on, in order of time, failed ones included. Older than
    /// two minutes may be gone.
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

    /// A job as it is stored now; none when it is done.
    pub fn job(&self, job: &Job) -> StoreResult<Option<Job>> {
        Ok(self.jobs(&JobFilter::one(job))?.pop())
    }
}

/// Checking, repairing, copying and describing a store.
pub trait Maintenance: Send + Sync {
    /// Every tenant of the store, in order of name.
    fn tenants(&self) -> StoreResult<Vec<TenantId>>;

    /// Problems of the store itself, below the domain: damaged pages, rows without an owner, rows that were changed
    /// by hand. Empty when it is sound.
    fn check(&self) -> StoreResult<Vec<String>>;

    /// Rebuilds what the store derives from other rows where a check finds it wrong, and removes derived rows without
    /// an owner. Returns what it repaired; ground truth is never touched.
    fn repair(&self) -> StoreResult<Vec<String>>;

    /// What may be missing after damage that the store survived, one sentence each.
    fn warnings(&self) -> Vec<String>;

    /// The warnings that whoever opens the store should see: acknowledged commits may be missing, or this opening
    /// found something.
    fn open_warnings(&self) -> Vec<String>;

    /// Why writes are refused, if they are.
    fn failure(&self) -> Option<StoreError>;

    /// Copies the store to a file, consistently, while others go on writing.
    fn backup(&self, to: &Path) -> StoreResult<()>;

    /// What the store is and how large it is.
    fn describe(&self) -> StoreResult<Description>;
}

/// A store's description of itself.
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

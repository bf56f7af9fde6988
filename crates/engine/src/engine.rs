//! The façade: programs use a memory only through [`Engine`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use treering_core::ports::{
    ConversationFilter, ConversationQuery, Description, IndexFiles, ItemRef, Span, StoreResult,
    StoredItem,
};
use treering_core::{
    Assignment, CaptureExclusions, Clock, CommitScope, Conversation, ConversationId,
    ConversationKey, ConversationKind, ConversationState, ConversationTotals, Embedder, Invalid,
    Message, MessageIdx, Policy, Reader, RetryPolicy, Store, StoreError, Summarizer, TenantId,
    TitleSource, Tokenizer, Write, slug_of, without_private,
};

use crate::cancellation::Cancellation;
use crate::circuit_breaker::CircuitBreakers;
use crate::context::ContextCache;
use crate::embed::EmbedTextOptions;
use crate::error::{Error, Result};
use crate::gate_log;
use crate::measures::TenantMeasures;
use crate::pacing::RunningUpdates;
use crate::project;
use crate::recall::RecallOptions;
use crate::search::IndexCache;
use crate::spend_meter::SpendLimits;
use crate::summary_input::LongMessageCache;
use crate::tree_planner::{TreePlanner, policy_of};
use crate::worker::{Worker, WorkerHandle};

/// One tenant's conversations in one store. Cheap to clone and to share.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<EngineShared>,
    tenant: TenantId,
    pub(crate) cancellation: Cancellation,
}

/// State that all tenants of an engine share.
struct EngineShared {
    parts: EngineParts,
    index_cache: IndexCache,
    context_cache: ContextCache,
    circuit_breakers: CircuitBreakers,
    last_long: LongMessageCache,
    measures: TenantMeasures,
    running_updates: RunningUpdates,
}

/// The adapters and settings that an engine is built from.
pub struct EngineParts {
    /// Stores all data.
    pub store: Arc<dyn Store>,
    /// Counts tokens.
    pub tokenizer: Arc<dyn Tokenizer>,
    /// Reads the current time.
    pub clock: Arc<dyn Clock>,
    /// Writes the nodes.
    pub summarizer: Arc<dyn Summarizer>,
    /// Replaces the summarizer when its output is unusable. It quotes its input and never fails.
    pub fallback: Option<Arc<dyn Summarizer>>,
    /// Embeds texts.
    pub embedder: Arc<dyn Embedder>,
    /// Embedders configured earlier. Search uses their vectors until those of `embedder` exist.
    pub other_embedders: Vec<Arc<dyn Embedder>>,
    /// The policy of conversations that do not override it.
    pub policy: Policy,
    /// Settings of background work.
    pub work: WorkOptions,
    /// Spending limits and model prices.
    pub spend: SpendLimits,
    /// Settings of search.
    pub search: SearchOptions,
    /// Settings of the texts that are embedded.
    pub embed_texts: EmbedTextOptions,
    /// The folders and patterns that capture leaves out.
    pub exclusions: CaptureExclusions,
    /// Settings of what is returned.
    pub recall: RecallOptions,
    /// Stores the search index. Without files, each process builds it from the store.
    pub index_files: Option<Arc<dyn IndexFiles>>,
}

/// Settings of search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchOptions {
    /// Memory limit of the in-process search indexes of all tenants together, in bytes. Beyond it
    /// the least recently used index is evicted.
    pub memory_bytes: usize,
    /// Whether nodes are embedded. Nodes without embeddings are found by their words.
    pub embed_nodes: bool,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { memory_bytes: 512 << 20, embed_nodes: true }
    }
}

/// Settings of background work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkOptions {
    /// Number of jobs that run concurrently.
    pub concurrency: usize,
    /// Pause between two jobs of a remote provider, in milliseconds.
    pub batch_delay_ms: u64,
    /// When a failed job is retried.
    pub retry: RetryPolicy,
    /// Maximum time that a context waits for the gate, in milliseconds.
    pub gate_timeout_ms: u64,
    /// Maximum time that a query waits for its embedding from a remote model, in milliseconds.
    pub query_timeout_ms: u64,
}

impl Default for WorkOptions {
    fn default() -> Self {
        Self {
            concurrency: 3,
            batch_delay_ms: 1500,
            retry: RetryPolicy::default(),
            gate_timeout_ms: 120_000,
            query_timeout_ms: 2000,
        }
    }
}

/// A conversation in a listing.
#[derive(Debug, Clone)]
pub struct ListedConversation {
    /// The conversation.
    pub conversation: Conversation,
    /// Its last message.
    pub last_message: Option<Message>,
}

/// Size of a tenant's memory.
#[derive(Debug, Clone)]
pub struct Stats {
    /// The store that holds it.
    pub store: Description,
    /// Number of conversations of the tenant.
    pub conversations: u32,
    /// Totals over these conversations.
    pub totals: ConversationTotals,
    /// The tokenizer that counted the tokens.
    pub tokenizer: String,
}

impl Engine {
    /// Creates an engine for `tenant` in the store of `parts`.
    #[must_use]
    pub fn new(parts: EngineParts, tenant: TenantId) -> Self {
        let context_cache = ContextCache::new(Arc::clone(&parts.tokenizer), parts.recall);
        let (index_cache, circuit_breakers, last_long, measures) = Default::default();
        let shared = EngineShared {
            parts,
            index_cache,
            context_cache,
            circuit_breakers,
            last_long,
            running_updates: RunningUpdates::default(),
            measures,
        };
        Self { shared: Arc::new(shared), tenant, cancellation: Cancellation::default() }
    }

    /// An engine for another tenant in the same store.
    #[must_use]
    pub fn for_tenant(&self, tenant: TenantId) -> Self {
        let cancellation = Cancellation::default();
        Self { shared: Arc::clone(&self.shared), tenant, cancellation }
    }

    /// The tenant of this engine.
    #[must_use]
    pub const fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The clock that timestamps entries without a time of their own.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.shared.parts.clock
    }

    /// Settings of background work.
    #[must_use]
    pub fn work(&self) -> WorkOptions {
        self.shared.parts.work
    }

    /// The policy of conversations that do not override it.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.shared.parts.policy
    }

    /// Number of tokens in a text.
    #[must_use]
    pub fn count_tokens(&self, text: &str) -> u32 {
        self.tokenizer().count(text)
    }

    /// Name of the configured summarizer.
    #[must_use]
    pub fn summarizer_name(&self) -> &str {
        self.summarizer().name()
    }

    /// Name of the configured embedder.
    #[must_use]
    pub fn embedder_name(&self) -> &str {
        self.embedder().name()
    }

    /// Whether neither the summarizer nor the embedder is a remote provider.
    #[must_use]
    pub fn is_local(&self) -> bool {
        !self.summarizer().is_remote() && !self.embedder().is_remote()
    }

    /// Runs this tenant's background work until the handle is dropped.
    pub fn spawn_worker(&self) -> Result<WorkerHandle> {
        Ok(Worker::new(self.clone())?.spawn())
    }

    /// Runs the background work of every tenant of the store until the handle is dropped.
    pub fn spawn_worker_for_all_tenants(&self) -> Result<WorkerHandle> {
        Ok(Worker::for_all_tenants(self.clone())?.spawn())
    }

    /// Every tenant of the store, sorted by name.
    pub fn tenants(&self) -> Result<Vec<TenantId>> {
        Ok(self.store().maintenance().tenants()?)
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.shared.parts.store
    }

    /// A read snapshot of this tenant.
    pub(crate) fn reader(&self) -> StoreResult<Box<dyn Reader + '_>> {
        self.store().reader(&self.tenant)
    }

    /// The scope of a commit to one conversation.
    pub(crate) fn scope_of(&self, id: ConversationId) -> CommitScope {
        CommitScope::Conversation(self.key(id))
    }

    /// The scope of a commit to any part of this tenant.
    pub(crate) fn tenant_scope(&self) -> CommitScope {
        CommitScope::Tenant(self.tenant.clone())
    }

    /// Spending limits and model prices.
    #[must_use]
    pub fn spending(&self) -> &SpendLimits {
        &self.shared.parts.spend
    }

    pub(crate) fn search_settings(&self) -> SearchOptions {
        self.shared.parts.search
    }

    pub(crate) fn embed_text_options(&self) -> EmbedTextOptions {
        self.shared.parts.embed_texts
    }

    pub(crate) fn exclusions(&self) -> &CaptureExclusions {
        &self.shared.parts.exclusions
    }

    /// Settings of what is returned.
    #[must_use]
    pub fn recall_options(&self) -> RecallOptions {
        self.shared.parts.recall
    }

    pub(crate) fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.shared.parts.tokenizer
    }

    pub(crate) fn summarizer(&self) -> &dyn Summarizer {
        &*self.shared.parts.summarizer
    }

    pub(crate) fn fallback(&self) -> Option<&dyn Summarizer> {
        self.shared.parts.fallback.as_deref()
    }

    pub(crate) fn embedder(&self) -> &dyn Embedder {
        &*self.shared.parts.embedder
    }

    /// Every known embedder, the configured one first.
    pub(crate) fn embedders(&self) -> impl Iterator<Item = &dyn Embedder> {
        std::iter::once(&self.shared.parts.embedder)
            .chain(&self.shared.parts.other_embedders)
            .map(|embedder| &**embedder)
    }

    pub(crate) fn embedder_named(&self, model: &str) -> Option<&dyn Embedder> {
        self.embedders().find(|embedder| embedder.name() == model)
    }

    pub(crate) fn index_files(&self) -> Option<&dyn IndexFiles> {
        self.shared.parts.index_files.as_deref()
    }

    pub(crate) fn index_cache(&self) -> &IndexCache {
        &self.shared.index_cache
    }

    pub(crate) fn circuit_breakers(&self) -> &CircuitBreakers {
        &self.shared.circuit_breakers
    }

    /// The updates that run in this process.
    pub(crate) fn running_updates(&self) -> &RunningUpdates {
        &self.shared.running_updates
    }

    pub(crate) fn long_message_cache(&self) -> &LongMessageCache {
        &self.shared.last_long
    }

    pub(crate) fn tenant_measures(&self) -> &TenantMeasures {
        &self.shared.measures
    }

    pub(crate) fn context_cache(&self) -> &ContextCache {
        &self.shared.context_cache
    }

    /// Plans and applies a commit, and returns the value that the plan computed in addition to its
    /// writes.
    pub(crate) fn commit_with<T: Send + 'static>(
        &self,
        scope: CommitScope,
        mut plan: impl FnMut(&dyn Reader) -> StoreResult<(Vec<Write>, T)> + Send + 'static,
    ) -> Result<T> {
        let answer = Arc::new(Mutex::new(None));
        let (slot, now) = (Arc::clone(&answer), self.clock().now());
        let plan = move |reader: &dyn Reader| {
            let (writes, decided) = plan(reader)?;
            let writes = gate_log::with_gate_events(reader, now, writes)?;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(decided);
            Ok(writes)
        };
        self.store().commit(scope, Box::new(plan))?;
        let decided = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        decided.ok_or_else(|| Invalid::new("commit", "the store did not run the plan").into())
    }

    /// Sessions with their last messages, most recent activity first.
    pub fn listed_conversations(
        &self,
        filter: &ConversationFilter,
    ) -> Result<Vec<ListedConversation>> {
        let reader = self.reader()?;
        let filter = ConversationFilter { kind: Some(ConversationKind::Session), ..filter.clone() };
        let conversations = reader.conversations(&ConversationQuery::List(&filter))?;
        let last = |it: &Conversation| Some(MessageIdx(it.totals.messages.checked_sub(1)?));
        let lasts: Vec<ItemRef> = conversations
            .iter()
            .filter_map(|it| Some(ItemRef::Message(it.id, last(it)?)))
            .collect();
        let mut messages = reader.items(&lasts)?.into_iter();
        let with_last = |conversation: Conversation| {
            let read = last(&conversation).and_then(|_| messages.next()).flatten();
            let last_message = match read {
                Some(StoredItem::Message(message)) => Some(*message),
                _ => None,
            };
            ListedConversation { conversation, last_message }
        };
        Ok(conversations.into_iter().map(with_last).collect())
    }

    /// Messages of a conversation, in order.
    pub fn messages(&self, id: ConversationId, span: Span<MessageIdx>) -> Result<Vec<Message>> {
        Ok(self.reader()?.messages(id, span)?)
    }

    /// Renames a conversation: stores the title as given and derives the slug from it.
    pub fn rename(&self, id: ConversationId, title: &str) -> Result<Conversation> {
        let mut title = without_private(title).0.into_owned();
        self.exclusions().clean(&mut title);
        let slug = slug_of(&title);
        if slug.is_empty() {
            return Err(
                Invalid::new(format!("name {title:?}"), "it needs a letter or a digit").into()
            );
        }
        let (title, new_slug) = (title.trim().to_owned(), slug.clone());
        let slug_taken = Arc::new(AtomicBool::new(false));
        let is_taken = Arc::clone(&slug_taken);
        // The plan looks up the slug, so no other writer can take it before the commit.
        let renamed = self.change(self.tenant_scope(), id, move |reader, conversation| {
            let owner = reader.conversation_by_slug(&new_slug)?;
            if owner.is_some_and(|owner| owner.id != id) {
                is_taken.store(true, Ordering::Relaxed);
                return Err(Invalid::new(
                    format!("name {new_slug:?}"),
                    "another conversation has this name; choose another one",
                )
                .into());
            }
            conversation.slug.clone_from(&new_slug);
            conversation.title = Some(title.clone());
            conversation.title_source = TitleSource::Person;
            Ok(())
        });
        if slug_taken.load(Ordering::Relaxed) { Err(Error::SlugTaken(slug)) } else { renamed }
    }

    /// Opens, closes or archives a conversation. Closing seals the open windows and plans the
    /// summary of the whole conversation; opening drops it.
    pub fn set_state(&self, id: ConversationId, state: ConversationState) -> Result<Conversation> {
        self.change(self.scope_of(id), id, move |_, conversation| {
            conversation.state = state;
            Ok(())
        })
    }

    /// Overrides policy parameters for one conversation from now on. An empty list removes all
    /// overrides.
    pub fn set_policy(&self, id: ConversationId, policy: Vec<Assignment>) -> Result<Conversation> {
        self.policy().with(&policy)?;
        self.change(self.scope_of(id), id, move |_, conversation| {
            conversation.policy.clone_from(&policy);
            Ok(())
        })
    }

    /// Size of this tenant's memory.
    pub fn stats(&self) -> Result<Stats> {
        let (conversations, totals) = self.reader()?.totals()?;
        Ok(Stats {
            store: self.store().maintenance().describe()?,
            conversations,
            totals,
            tokenizer: self.tokenizer().name().to_owned(),
        })
    }

    pub(crate) fn key(&self, id: ConversationId) -> ConversationKey {
        ConversationKey { tenant: self.tenant.clone(), id }
    }

    pub(crate) fn change(
        &self,
        scope: CommitScope,
        id: ConversationId,
        change: impl Fn(&dyn Reader, &mut Conversation) -> StoreResult<()> + Send + 'static,
    ) -> Result<Conversation> {
        let (key, general, now) = (self.key(id), self.policy().clone(), self.clock().now());
        self.commit_with(scope, move |reader| {
            let Some(mut conversation) = reader.conversation(key.id)? else {
                return Err(StoreError::Refused(Invalid::new(
                    format!("conversation {id}"),
                    "it does not exist",
                )));
            };
            let state = conversation.state;
            change(reader, &mut conversation)?;
            let policy = policy_of(&general, &conversation)?;
            let planner = TreePlanner { reader, key: &key, policy: &policy, overrides: &[], now };
            let mut tree_writes = match conversation.state {
                ConversationState::Open => Vec::new(),
                _ => planner.plan_messages(&mut conversation, std::iter::empty(), &[])?,
            };
            planner.plan_top(&mut conversation, None, &[], &mut tree_writes)?;
            let mut writes = vec![Write::PutConversation(conversation.clone())];
            writes.extend(tree_writes);
            if conversation.state != state {
                writes.extend(project::job_of(reader, &conversation, now)?);
            }
            Ok((writes, conversation))
        })
    }
}

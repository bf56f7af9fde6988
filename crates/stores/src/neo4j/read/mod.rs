//! Reads one tenant's data through one connection: outside a transaction, or inside the one of a
//! commit that is being planned.
//!
//! Neo4j has no snapshots: a statement may see half of a concurrent commit. Every commit holds the
//! lock of its tenant and of each conversation that it changes until all of it is visible, so a
//! statement that reads several nodes takes the lock of what it reads first: of the conversation,
//! or of the tenant.

mod audit;
mod conversations;
mod feed;
mod jobs;
mod ledger;
mod messages;
mod tree;

use std::cell::RefCell;

use treering_core::ports::{
    Audit, ChangeFilter, Changes, ConversationFilter, ConversationQuery, Cursor, ExistingItem,
    ItemRef, JobEventFilter, JobFilter, Ledger, LevelTotals, NodeFilter, NodeVersion, Span,
    StoreResult, StoredItem,
};
use treering_core::{
    ContentHash, Conversation, ConversationId, ConversationTotals, ExternalId, Job, JobEvent,
    Message, MessageIdx, MessageVersion, Node, NodeId, Reader, TenantId, ToolCall, Turn, TurnNo,
    VectorIndex,
};

use super::bolt::{Cypher, Rows};
use super::error::{explain, unreadable};
use super::pool::PooledBolt;
use super::values::{BoltRow, Read};
use super::{Neo4jStore, bolt::BoltError};
pub(super) use audit::{from_hex, to_hex};
pub(super) use conversations::{CONVERSATION, conversation, kind_name};
pub(super) use feed::{cursor, sequence_number, vector_index};
pub(super) use jobs::{
    KINDS, STATES, few_jobs, few_jobs_query, has_due_jobs, tenant_with_due_jobs,
};

/// The state that a commit read before its plan ran.
pub(super) struct PlannedState {
    pub(super) conversation: (ConversationId, Option<Conversation>),
    pub(super) tenant: TenantState,
    /// The jobs of the conversation; `None` if there are too many.
    pub(super) jobs: Option<Vec<Job>>,
}

/// The state of a tenant that most plans ask for.
#[derive(Debug, Clone, Default)]
pub(super) struct TenantState {
    pub(super) revision: u64,
    pub(super) has_tombstones: bool,
    pub(super) vector_index: Option<VectorIndex>,
}

/// One tenant's data.
pub(super) struct GraphView<'a> {
    store: &'a Neo4jStore,
    connection: RefCell<PooledBolt<'a>>,
    tenant: String,
    /// Whether the connection is inside a transaction, which is never repeated here.
    in_transaction: bool,
    state: Option<PlannedState>,
}

impl<'a> GraphView<'a> {
    pub(super) fn new(
        store: &'a Neo4jStore,
        connection: PooledBolt<'a>,
        tenant: &TenantId,
    ) -> Self {
        let (connection, tenant) = (RefCell::new(connection), tenant.to_string());
        Self { store, connection, tenant, in_transaction: false, state: None }
    }

    /// A view inside the transaction that the connection has open.
    pub(super) fn in_transaction(self) -> Self {
        Self { in_transaction: true, ..self }
    }

    /// A view that knows what its commit has read.
    pub(super) fn knowing(self, state: PlannedState) -> Self {
        Self { state: Some(state), ..self }
    }

    pub(super) fn into_connection(self) -> PooledBolt<'a> {
        self.connection.into_inner()
    }

    /// The number of turns of a conversation, if the commit has read it.
    fn known_turns(&self, id: ConversationId) -> Option<u32> {
        let (known, conversation) = &self.state.as_ref()?.conversation;
        let turns = conversation.as_ref().map_or(0, |it| it.totals.turns);
        (*known == id).then_some(turns)
    }

    /// A statement with the tenant as a parameter.
    fn statement(&self, query: impl Into<String>) -> Cypher {
        Cypher::new(query).with("tenant", &self.tenant)
    }

    /// A statement over one conversation, which begins by taking its lock.
    fn of_conversation(&self, id: ConversationId, query: &str) -> Cypher {
        let lock = self.lock("SET c:ConversationSession");
        let query = format!(
            "MATCH (c:ConversationSession {{tenant: $tenant, sessionId: $session}}) {lock} WITH c
            {query}"
        );
        self.statement(query).with("session", id)
    }

    /// A statement over several conversations, which begins by taking the lock of the tenant.
    fn of_tenant(&self, query: &str) -> Cypher {
        let lock = self.lock("SET x:TreeringTenant");
        self.statement(format!("MATCH (x:TreeringTenant {{name: $tenant}}) {lock} WITH x {query}"))
    }

    /// A clause that takes a lock: setting the label that a node has changes nothing. A store that
    /// refuses writes has no commit to wait for.
    fn lock(&self, clause: &'static str) -> &'static str {
        if self.store.is_writable() { clause } else { "" }
    }

    /// Runs statements in one round trip. Outside a transaction, a broken connection is replaced
    /// and a transient refusal is retried.
    fn run_all(&self, statements: &[Cypher]) -> StoreResult<Vec<Rows>> {
        const ATTEMPTS: u32 = 5;
        let mut connection = self.connection.borrow_mut();
        for attempt in 1.. {
            let error = match connection.run_all(statements) {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            let may_repeat = !self.in_transaction && attempt < ATTEMPTS;
            match &error {
                BoltError::Broken(_) if may_repeat && !connection.is_new => {
                    *connection = self.store.reopen()?;
                }
                error if may_repeat && error.is_transient() => super::back_off(attempt),
                error => return Err(explain(self.store.address(), error)),
            }
        }
        Ok(Vec::new())
    }

    fn run(&self, statement: Cypher) -> StoreResult<Rows> {
        Ok(self.run_all(&[statement])?.pop().unwrap_or_default())
    }

    /// Runs a statement and decodes its rows.
    fn query<T>(
        &self,
        statement: Cypher,
        decode: impl FnMut(&mut BoltRow) -> Read<T>,
    ) -> StoreResult<Vec<T>> {
        self.decoded(self.run(statement)?, decode)
    }

    fn decoded<T>(
        &self,
        rows: Rows,
        mut decode: impl FnMut(&mut BoltRow) -> Read<T>,
    ) -> StoreResult<Vec<T>> {
        let rows = rows.into_iter().map(|row| decode(&mut BoltRow::new(row)));
        rows.collect::<Read<Vec<T>>>().map_err(|error| unreadable(self.store.address(), error))
    }

    fn query_one<T>(
        &self,
        statement: Cypher,
        decode: impl FnMut(&mut BoltRow) -> Read<T>,
    ) -> StoreResult<Option<T>> {
        Ok(self.query(statement, decode)?.into_iter().next())
    }
}

impl Reader for GraphView<'_> {
    fn conversations(&self, query: &ConversationQuery<'_>) -> StoreResult<Vec<Conversation>> {
        self.read_conversations(query)
    }

    fn conversation_ids(&self, filter: &ConversationFilter) -> StoreResult<Vec<ConversationId>> {
        self.read_conversation_ids(filter)
    }

    fn turns(&self, id: ConversationId, span: Span<TurnNo>) -> StoreResult<Vec<Turn>> {
        self.read_turns(id, span)
    }

    fn messages(&self, id: ConversationId, span: Span<MessageIdx>) -> StoreResult<Vec<Message>> {
        self.read_messages(id, span)
    }

    fn message_tokens(&self, id: ConversationId, span: Span<MessageIdx>) -> StoreResult<u64> {
        self.read_message_tokens(id, span)
    }

    fn tool_calls(&self, id: ConversationId, span: Span<TurnNo>) -> StoreResult<Vec<ToolCall>> {
        self.read_tool_calls(id, span)
    }

    fn items(&self, refs: &[ItemRef]) -> StoreResult<Vec<Option<StoredItem>>> {
        self.read_items(refs)
    }

    fn existing(
        &self,
        id: ConversationId,
        ids: &[&ExternalId],
    ) -> StoreResult<Vec<Option<ExistingItem>>> {
        self.read_existing(id, ids)
    }

    fn owners(&self, ids: &[&ExternalId]) -> StoreResult<Vec<Option<ConversationId>>> {
        self.read_owners(ids)
    }

    fn versions(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<Vec<(MessageIdx, MessageVersion)>> {
        self.read_versions(id, span)
    }

    fn nodes(&self, id: ConversationId, filter: &NodeFilter) -> StoreResult<Vec<Node>> {
        self.read_nodes(id, filter)
    }

    fn node_versions(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<NodeVersion>> {
        self.read_node_versions(id, filter)
    }

    fn nodes_by_id_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>> {
        self.read_nodes_by_id(prefix, limit)
    }

    fn jobs(&self, filter: &JobFilter) -> StoreResult<Vec<Job>> {
        self.read_jobs(filter)
    }

    fn job_events(&self, filter: &JobEventFilter) -> StoreResult<Vec<JobEvent>> {
        self.read_job_events(filter)
    }

    fn changes(
        &self,
        after: &Cursor,
        filter: &ChangeFilter<'_>,
        limit: usize,
    ) -> StoreResult<Changes> {
        self.read_changes(after, filter, limit)
    }

    fn history(&self, at: &Cursor) -> StoreResult<Option<ContentHash>> {
        self.read_history(at)
    }

    fn node_count(&self) -> StoreResult<u32> {
        self.read_node_count()
    }

    fn vector_index(&self) -> StoreResult<Option<VectorIndex>> {
        self.read_vector_index()
    }

    fn vectors(&self, model: &str, of: &[ContentHash]) -> StoreResult<Vec<Option<Vec<f32>>>> {
        self.read_vectors(model, of)
    }

    fn totals(&self) -> StoreResult<(u32, ConversationTotals)> {
        self.read_totals()
    }

    fn level_totals(&self, conversation: Option<ConversationId>) -> StoreResult<Vec<LevelTotals>> {
        self.read_level_totals(conversation)
    }

    fn ledger(&self) -> &dyn Ledger {
        self
    }

    fn audit(&self) -> &dyn Audit {
        self
    }
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn end(until: Option<u32>) -> i64 {
    until.map_or(i64::MAX, i64::from)
}

//! Reads one tenant's data: on any connection of the pool, or on the connection of a commit that is being planned. Nothing
//! here writes.

mod audit;
mod conversations;
mod facts;
mod feed;
mod jobs;
mod ledger;
mod messages;
mod tree;

pub(super) use audit::own_salt;
pub(super) use feed::{cursors, newest, sequence_number};
pub(super) use jobs::{DUE, JOB, due_values, job, job_query};

use std::cell::{Cell, OnceCell, RefCell};

use tokio_postgres::Row;
use treering_core::ports::{
    Audit, ChangeFilter, Changes, ConversationFilter, ConversationQuery, Cursor, ExistingItem,
    ItemRef, JobEventFilter, JobFilter, Ledger, LevelTotals, NodeFilter, NodeVersion, Span,
    StoreResult, StoredItem,
};
use treering_core::{
    ContentHash, Conversation, ConversationId, ConversationKey, ConversationTotals, ExternalId,
    Job, JobEvent, Message, MessageIdx, MessageVersion, Node, NodeId, Reader, TenantId, ToolCall,
    Turn, TurnNo, VectorIndex,
};

use facts::PlanFacts;

use super::PostgresStore;
use super::connection::{Access, Grouping, PgConnection, SqlQuery};
use super::error::Outcome;
use super::value::{Columns, Decoded, SqlValue, values};

/// The versions of the tenant and of the conversation that a plan saw; -1 for a missing row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenVersions {
    tenant: i64,
    conversation: i64,
}

impl SeenVersions {
    fn query(tenant: &TenantId, conversation: ConversationId) -> SqlQuery {
        let sql = "SELECT coalesce((SELECT version FROM tenants WHERE tenant = $1), -1),
            coalesce((SELECT version FROM conversations WHERE tenant = $1 AND id = $2), -1)";
        SqlQuery::new(sql, values![tenant.as_str(), conversation])
    }

    fn of(rows: &[Vec<Row>]) -> Outcome<Self> {
        let Some(row) = rows.first().and_then(|rows| rows.first()) else {
            return Ok(Self { tenant: -1, conversation: -1 });
        };
        Ok(Self { tenant: row.long(0)?, conversation: row.long(1)? })
    }

    /// The parameter of `begin_commit`.
    pub(super) fn value(self) -> SqlValue {
        SqlValue::Integers(vec![self.tenant, self.conversation])
    }
}

/// Reads one tenant's data.
pub(super) struct TenantReader<'a> {
    store: &'a PostgresStore,
    access: Access,
    tenant: TenantId,
    source: ReadSource<'a>,
}

/// The connection that the statements run on.
enum ReadSource<'a> {
    /// On any connection of the pool.
    Pool,
    /// On the connection of a commit that is planned without locks. The facts are read before anything else.
    Verified {
        connection: RefCell<&'a mut PgConnection>,
        conversation: ConversationId,
        facts: OnceCell<Box<PlanFacts>>,
        reads: Cell<u32>,
    },
    /// On the connection of a commit that holds its locks.
    Locked(RefCell<&'a mut PgConnection>),
}

impl<'a> TenantReader<'a> {
    pub(super) fn new(store: &'a PostgresStore, tenant: &TenantId) -> Self {
        Self::with_source(store, tenant, ReadSource::Pool)
    }

    pub(super) fn verified(
        store: &'a PostgresStore,
        connection: &'a mut PgConnection,
        key: &ConversationKey,
    ) -> Self {
        let (connection, conversation) = (RefCell::new(connection), key.id);
        let (facts, reads) = (OnceCell::new(), Cell::new(0));
        let source = ReadSource::Verified { connection, conversation, facts, reads };
        Self::with_source(store, &key.tenant, source)
    }

    pub(super) fn locked(
        store: &'a PostgresStore,
        connection: &'a mut PgConnection,
        tenant: &TenantId,
    ) -> Self {
        Self::with_source(store, tenant, ReadSource::Locked(RefCell::new(connection)))
    }

    fn with_source(store: &'a PostgresStore, tenant: &TenantId, source: ReadSource<'a>) -> Self {
        Self { store, access: Access::Tenant(tenant.clone()), tenant: tenant.clone(), source }
    }

    /// The versions that the plan saw; `None` if it read nothing.
    pub(super) fn versions(&self) -> Option<SeenVersions> {
        match &self.source {
            ReadSource::Verified { facts, .. } => facts.get().map(|facts| facts.versions),
            ReadSource::Pool | ReadSource::Locked(_) => None,
        }
    }

    /// Whether the versions have changed since the first read. One read is always of one moment.
    pub(super) fn has_changed(&self) -> Outcome<bool> {
        let ReadSource::Verified { connection, conversation, reads, .. } = &self.source else {
            return Ok(false);
        };
        let Some(seen) = self.versions().filter(|_| reads.get() > 1) else { return Ok(false) };
        let query = SeenVersions::query(&self.tenant, *conversation);
        let rows = connection.borrow_mut().run(&self.access, &[query], Grouping::None)?;
        Ok(SeenVersions::of(&rows)? != seen)
    }

    /// The facts that a plan without locks begins with; `None` for other readers.
    fn facts(&self) -> StoreResult<Option<(ConversationId, &PlanFacts)>> {
        let ReadSource::Verified { conversation, facts, .. } = &self.source else {
            return Ok(None);
        };
        if facts.get().is_none() {
            self.rows_of(&[]).map_err(|failure| self.store.explain(failure))?;
        }
        Ok(facts.get().map(|facts| (*conversation, &**facts)))
    }

    fn tenant_value(&self) -> SqlValue {
        self.tenant.as_str().into()
    }

    /// Runs statements that read one snapshot.
    fn rows_of(&self, queries: &[SqlQuery]) -> Outcome<Vec<Vec<Row>>> {
        let snapshot = if queries.len() > 1 { Grouping::Snapshot } else { Grouping::None };
        match &self.source {
            ReadSource::Pool => self.store.read(&self.access, queries, snapshot),
            ReadSource::Locked(connection) => {
                connection.borrow_mut().run(&self.access, queries, Grouping::None)
            }
            ReadSource::Verified { connection, conversation, facts, reads } => {
                reads.set(reads.get() + 1);
                let mut connection = connection.borrow_mut();
                if facts.get().is_some() {
                    return connection.run(&self.access, queries, snapshot);
                }
                let mut flight = PlanFacts::queries(&self.tenant, *conversation).to_vec();
                flight.extend(queries.iter().cloned());
                let mut rows = connection.run(&self.access, &flight, Grouping::Snapshot)?;
                let answers = rows.split_off(PlanFacts::QUERIES);
                // Nothing else sets it while the connection is borrowed.
                drop(facts.set(Box::new(PlanFacts::of(rows)?)));
                Ok(answers)
            }
        }
    }

    fn query_all<T>(
        &self,
        query: SqlQuery,
        read: impl Fn(&Row) -> Decoded<T>,
    ) -> StoreResult<Vec<T>> {
        let rows = self.rows_of(&[query]).and_then(|rows| decode(rows.into_iter().next(), read));
        rows.map_err(|failure| self.store.explain(failure))
    }

    fn query_one<T>(
        &self,
        query: SqlQuery,
        read: impl Fn(&Row) -> Decoded<T>,
    ) -> StoreResult<Option<T>> {
        Ok(self.query_all(query, read)?.into_iter().next())
    }

    /// Runs statements that read one snapshot, and decodes their rows.
    fn query_each<const N: usize>(&self, queries: &[SqlQuery; N]) -> StoreResult<[Vec<Row>; N]> {
        let rows = self.rows_of(queries).map_err(|failure| self.store.explain(failure))?;
        let mut rows = rows.into_iter();
        Ok(std::array::from_fn(|_| rows.next().unwrap_or_default()))
    }

    fn decoded<T>(&self, rows: Vec<Row>, read: impl Fn(&Row) -> Decoded<T>) -> StoreResult<Vec<T>> {
        decode(Some(rows), read).map_err(|failure| self.store.explain(failure))
    }
}

fn decode<T>(rows: Option<Vec<Row>>, read: impl Fn(&Row) -> Decoded<T>) -> Outcome<Vec<T>> {
    let rows = rows.unwrap_or_default();
    rows.iter().map(|row| read(row).map_err(Into::into)).collect()
}

/// A number of rows, where the largest one means all.
fn limit(rows: usize) -> SqlValue {
    rows.into()
}

fn end(until: Option<u32>) -> i64 {
    until.map_or(i64::MAX, i64::from)
}

impl Reader for TenantReader<'_> {
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

    fn versions(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<Vec<(MessageIdx, MessageVersion)>> {
        self.read_versions(id, span)
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
        let query = SqlQuery::new(
            "SELECT count(*) FROM nodes WHERE tenant = $1",
            values![self.tenant.as_str()],
        );
        Ok(self.query_one(query, |row| row.number(0))?.unwrap_or(0))
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

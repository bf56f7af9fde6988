//! Reads one tenant's data through one connection: a pooled one inside a read transaction, or
//! the writer's while it plans a commit. Nothing here writes.

mod audit;
mod conversations;
mod feed;
mod jobs;
mod ledger;
mod messages;
mod records;
pub(super) mod threads;
mod tree;

pub(super) use audit::salt;
pub(super) use feed::{cursor, sequence_number};
pub(super) use jobs::{has_due_jobs, tenant_with_due_jobs};
pub(super) use records::{CheckedRecord, is_of_tree_state};

use std::cell::RefCell;
use std::ops::Deref;
use std::path::Path;
use std::rc::Rc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use treering_core::ports::{
    Audit, ChangeFilter, Changes, ConversationFilter, ConversationQuery, Cursor, ExistingItem,
    ItemRef, JobEventFilter, JobFilter, Ledger, LevelTotals, NodeFilter, NodeVersion, Span,
    StoreResult, StoredItem,
};
use treering_core::{
    ContentHash, Conversation, ConversationId, ConversationTotals, ExternalId, Job, JobEvent, Json,
    Message, MessageIdx, MessageVersion, Node, NodeId, Reader, TenantId, ThreadName, Timestamp,
    ToolCall, Turn, TurnNo, VectorIndex,
};

use super::error::explain;
use super::unwritable::FileState;

/// One tenant's data, seen through an owned or borrowed connection.
pub(super) struct TenantView<'a, C> {
    connection: C,
    path: &'a Path,
    /// The file state to check reads against, if no lock protects the files from other
    /// processes.
    state: Option<FileState>,
    /// The primary key of the tenant; 0, which no row has, if the tenant does not exist.
    tenant: i64,
    /// The conversation that was looked up last: consecutive reads mostly share one.
    last: RefCell<Option<(ConversationId, Rc<ConversationRow>)>>,
}

/// The part of a conversation's row that its messages refer to.
pub(super) struct ConversationRow {
    pk: i64,
    /// The thread names, indexed by thread number.
    threads: Vec<ThreadName>,
}

impl<'a, C: Deref<Target = Connection>> TenantView<'a, C> {
    pub(super) fn new(connection: C, path: &'a Path, tenant: &TenantId) -> StoreResult<Self> {
        Self::with_state(connection, path, tenant, None)
    }

    pub(super) fn with_state(
        connection: C,
        path: &'a Path,
        tenant: &TenantId,
        state: Option<FileState>,
    ) -> StoreResult<Self> {
        let mut view = Self { connection, path, state, tenant: 0, last: RefCell::new(None) };
        let sql = "SELECT pk FROM tenants WHERE name = ?1";
        view.tenant = view.query_one(sql, [tenant.as_str()], |row| row.get(0))?.unwrap_or(0);
        Ok(view)
    }

    fn query_one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Option<T>> {
        let row = || self.connection.prepare_cached(sql)?.query_row(params, read).optional();
        self.checked(row())
    }

    fn query_all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Vec<T>> {
        let rows = || -> rusqlite::Result<Vec<T>> {
            self.connection.prepare_cached(sql)?.query_map(params, read)?.collect()
        };
        self.checked(rows())
    }

    /// Returns the result of a read if the files are unchanged. After a change, even an error
    /// is no sign of damage.
    fn checked<T>(&self, read: rusqlite::Result<T>) -> StoreResult<T> {
        self.state.map_or(Ok(()), |state| state.check_unchanged(self.path))?;
        read.map_err(|error| explain(self.path, &error))
    }

    fn row(&self, id: ConversationId) -> StoreResult<Option<Rc<ConversationRow>>> {
        if let Some((_, row)) = self.last.borrow().as_ref().filter(|(last, _)| *last == id) {
            return Ok(Some(Rc::clone(row)));
        }
        let sql = "SELECT pk, threads FROM conversations WHERE tenant = ?1 AND id = ?2";
        let row = self.query_one(sql, params![self.tenant, id.as_bytes()], |row| {
            let threads = threads::read(row, 1)?.into_iter().map(|thread| thread.name).collect();
            Ok(Rc::new(ConversationRow { pk: row.get(0)?, threads }))
        })?;
        self.last.replace(row.clone().map(|row| (id, row)));
        Ok(row)
    }
}

impl<C: Deref<Target = Connection>> Reader for TenantView<'_, C> {
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
        refs.iter().map(|item| self.read_item(item)).collect()
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
        self.read_log(filter)
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

fn timestamp(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

/// An error for a value that this program cannot have written.
fn unreadable<E>(column: usize, error: E) -> rusqlite::Error
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}

fn external_id(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<ExternalId>> {
    row.get::<_, Option<String>>(column)?
        .map(ExternalId::new)
        .transpose()
        .map_err(|error| unreadable(column, error))
}

fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Json>> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(None) };
    Json::new(text).map(Some).map_err(|error| unreadable(column, error))
}

fn parsed<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| unreadable(column, error))
}

/// The name of the thread whose number is in a column.
fn thread(row: &Row<'_>, column: usize, names: &[ThreadName]) -> rusqlite::Result<ThreadName> {
    let no: u32 = row.get(column)?;
    names.get(no as usize).cloned().ok_or_else(|| unreadable(column, "no such thread"))
}

//! Reads through one connection: a pooled one inside a read transaction, or the writer's while
//! a commit is planned.

use std::cell::RefCell;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use treering_core::commit::LogLine;
use treering_core::conversation::Totals;
use treering_core::index::{VectorIndex, Vectors};
use treering_core::ports::{
    Arrivals, ConversationFilter, JobFilter, Known, LevelTotals, LogFilter, NodeFilter, NodeMark, Reader,
    Span, SpendFilter, StoreResult,
};
use treering_core::quota::Taken;
use treering_core::spend::Spent;
use treering_core::{
    ContentHash, Conversation, ConversationId, ConversationKey, ExternalId, Job, Json, Message, MessageIdx,
    NewMessage, NewToolCall, Node, NodeId, TenantId, ThreadName, Timestamp, ToolCall, ToolResult, Turn,
    TurnNo,
};

use super::conversations::{self, COLUMNS, Kept, Mark, Numbered, hour, totals};
use super::error::explain;
use super::places::Latest;
use super::tree_read::Tasks;
use super::{codes, threads};

/// What a view reads from.
pub(super) trait Access {
    /// The connection to what is stored.
    fn open(&self) -> rusqlite::Result<&Connection>;

    /// Hears what was read of what is kept, and may refuse it.
    fn note(&self, _: &ConversationKey, _: &mut Mark) -> rusqlite::Result<()> {
        Ok(())
    }

    /// Hears that it was read which index a tenant uses, as of a change.
    fn note_index(&self, _: u64) {}
}

impl<C: Deref<Target = Connection>> Access for C {
    fn open(&self) -> rusqlite::Result<&Connection> {
        Ok(self)
    }
}

/// What can be read through a connection, owned or lent. Everything it reads is of one moment.
pub(super) struct View<'a, C> {
    pub(super) connection: C,
    pub(super) path: &'a Path,
    /// The conversation that was asked for last: most of what is read in a row is of one.
    last: RefCell<Option<(ConversationKey, Found)>>,
    pub(super) tasks: &'a Tasks,
    /// What the writer keeps of conversations.
    kept: Option<&'a Kept>,
}

/// What is needed of a conversation's row to read its messages.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) pk: i64,
    /// The names of its threads by place.
    pub(super) names: Arc<[ThreadName]>,
    pub(super) latest: Arc<Latest>,
}

pub(super) const CALL: &str = "t.turn, t.place, t.before_idx, t.at, t.success, t.duration_ms, t.name,
    t.external_id, t.args, t.result, t.thread";

impl<'a, C: Access> View<'a, C> {
    pub(super) const fn new(connection: C, path: &'a Path, tasks: &'a Tasks) -> Self {
        Self { connection, path, last: RefCell::new(None), tasks, kept: None }
    }

    /// The same, through the writer's connection.
    pub(super) const fn planning(connection: C, path: &'a Path, tasks: &'a Tasks, kept: &'a Kept) -> Self {
        Self { connection, path, last: RefCell::new(None), tasks, kept: Some(kept) }
    }

    pub(super) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Option<T>> {
        let row = || self.connection.open()?.prepare_cached(sql)?.query_row(params, read).optional();
        row().map_err(|error| explain(self.path, &error))
    }

    pub(super) fn many<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Vec<T>> {
        let rows = || -> rusqlite::Result<Vec<T>> {
            self.connection.open()?.prepare_cached(sql)?.query_map(params, read)?.collect()
        };
        rows().map_err(|error| explain(self.path, &error))
    }

    pub(super) fn row(&self, key: &ConversationKey) -> StoreResult<Option<Found>> {
        if let Some((_, known)) = self.last.borrow().as_ref().filter(|(last, _)| last == key) {
            return Ok(Some(known.clone()));
        }
        let found = |row: Arc<Numbered>| Found {
            pk: row.pk,
            names: row.conversation.threads.iter().map(|thread| thread.name.clone()).collect(),
            latest: Arc::new(row.latest.clone()),
        };
        if let Some(kept) = self.kept {
            let row = kept.get(&self.connection, key).map_err(|error| explain(self.path, &error))?;
            return Ok(row.map(found));
        }
        let sql = "SELECT pk, threads, latest FROM conversations WHERE tenant = ?1 AND id = ?2";
        let row = self.one(sql, params![key.tenant.as_str(), key.id.as_bytes()], |row| {
            let names = threads::read(row, 1)?.into_iter().map(|thread| thread.name).collect();
            Ok(Found { pk: row.get(0)?, names, latest: Arc::new(Latest::read(row, 2)?) })
        })?;
        self.last.replace(row.clone().map(|row| (key.clone(), row)));
        Ok(row)
    }
}

impl<C: Access> Reader for View<'_, C> {
    fn conversation(&self, key: &ConversationKey) -> StoreResult<Option<Conversation>> {
        let found = match self.kept {
            Some(kept) => kept.get(&self.connection, key).map(|row| row.map(|row| row.conversation.clone())),
            None => {
                let found =
                    self.connection.open().and_then(|connection| conversations::find(connection, key));
                found.map(|row| row.map(|row| row.conversation))
            }
        };
        found.map_err(|error| explain(self.path, &error))
    }

    fn conversation_by_external_id(
        &self,
        tenant: &TenantId,
        id: &ExternalId,
    ) -> StoreResult<Option<Conversation>> {
        let sql = format!("SELECT {COLUMNS} FROM conversations WHERE tenant = ?1 AND external_id = ?2");
        self.one(&sql, [tenant.as_str(), id.as_str()], conversations::read)
    }

    fn conversation_by_slug(&self, tenant: &TenantId, slug: &str) -> StoreResult<Option<Conversation>> {
        let sql = format!("SELECT {COLUMNS} FROM conversations WHERE tenant = ?1 AND slug = ?2");
        self.one(&sql, [tenant.as_str(), slug], conversations::read)
    }

    fn conversations_by_id_prefix(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<ConversationId>> {
        let bound = |pad: &str| format!("{prefix}{}", pad.repeat(32_usize.saturating_sub(prefix.len())));
        let bounds = (bound("0").parse::<ConversationId>(), bound("f").parse::<ConversationId>());
        let (Ok(least), Ok(greatest)) = bounds else { return Ok(Vec::new()) };
        let sql = "SELECT id FROM conversations WHERE tenant = ?1 AND id BETWEEN ?2 AND ?3
            ORDER BY id LIMIT ?4";
        let params = params![tenant.as_str(), least.as_bytes(), greatest.as_bytes(), rows(limit)];
        self.many(sql, params, |row| Ok(ConversationId::from_bytes(row.get(0)?)))
    }

    fn conversations(
        &self,
        tenant: &TenantId,
        filter: &ConversationFilter,
    ) -> StoreResult<Vec<Conversation>> {
        let states: u32 = match filter.states.as_slice() {
            [] => u32::MAX,
            some => some.iter().map(|state| 1 << codes::state_code(*state)).sum(),
        };
        let (after_at, after_id) = filter.after.map_or((None, None), |(at, id)| (Some(at), Some(id)));
        let (index, in_cwd) = match filter.cwd {
            Some(_) => ("conversations_cwd", "cwd = ?3"),
            None => ("conversations_recent", "?3 IS NULL"),
        };
        // The index gives them by hours; of those in an hour only what puts them in order is read.
        let sql = format!(
            "SELECT {COLUMNS} FROM (
                SELECT pk AS listed FROM conversations INDEXED BY {index}
                WHERE tenant = ?1 AND (1 << state) & ?2 AND {in_cwd} AND hour <= ?7
                    AND (?4 IS NULL OR last_activity < ?4 OR (last_activity = ?4 AND id > ?5))
                ORDER BY hour DESC, last_activity DESC, id LIMIT ?6
            ) JOIN conversations ON pk = listed ORDER BY last_activity DESC, id"
        );
        let params = params![
            tenant.as_str(),
            states,
            filter.cwd,
            after_at.map(Timestamp::as_micros),
            after_id.as_ref().map(ConversationId::as_bytes),
            rows(filter.limit),
            after_at.map_or(i64::MAX, hour)
        ];
        self.many(&sql, params, conversations::read)
    }

    fn turns(&self, key: &ConversationKey, span: Span<TurnNo>) -> StoreResult<Vec<Turn>> {
        self.read_turns(key, span)
    }

    fn messages(&self, key: &ConversationKey, span: Span<MessageIdx>) -> StoreResult<Vec<Message>> {
        let Some(Found { pk, names, latest }) = self.row(key)? else { return Ok(Vec::new()) };
        let sql = "SELECT idx, turn, thread, role, at, chars, tokens, hash, author, external_id, text, parts,
                turns
            FROM messages WHERE seq >= ?1 AND seq < ?2 ORDER BY seq LIMIT ?3";
        let until = span.until.map_or(u32::MAX, |until| until.0);
        let mut messages = Vec::new();
        if span.limit == 0 {
            return Ok(messages);
        }
        self.each_run(pk, &latest, (span.from.0, until), |run| {
            let ((seq, end), left) = (run.seqs(), rows(span.limit - messages.len()));
            messages.extend(self.many(sql, params![seq, end, left], |row| message(row, &names))?);
            Ok(messages.len() == span.limit)
        })?;
        Ok(messages)
    }

    fn tool_calls(&self, key: &ConversationKey, span: Span<TurnNo>) -> StoreResult<Vec<ToolCall>> {
        let Some(Found { pk, names, .. }) = self.row(key)? else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT {CALL} FROM tool_calls t WHERE conversation = ?1 AND turn >= ?2 AND turn < ?3
            ORDER BY turn, place LIMIT ?4"
        );
        let params = params![pk, span.from.0, end(span.until.map(|no| no.0)), rows(span.limit)];
        self.many(&sql, params, |row| tool_call(row, &names))
    }

    fn known(&self, key: &ConversationKey, ids: &[&ExternalId]) -> StoreResult<Vec<Option<Known>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let Some(Found { pk, .. }) = self.row(key)? else { return Ok(vec![None; ids.len()]) };
        let message = "SELECT idx, hash FROM messages WHERE external_id = ?2 AND conversation = ?1";
        let call = "SELECT turn, place, result IS NOT NULL FROM tool_calls
            WHERE external_id = ?2 AND conversation = ?1";
        let find = |id: &&ExternalId| {
            let params = params![pk, id.as_str()];
            let stored = self.one(message, params, |row| {
                Ok(Known::Message(MessageIdx(row.get(0)?), ContentHash::from_bytes(row.get(1)?)))
            })?;
            if stored.is_some() {
                return Ok(stored);
            }
            self.one(call, params, |row| {
                let (turn, order, finished) = (TurnNo(row.get(0)?), row.get(1)?, row.get(2)?);
                Ok(Known::ToolCall { turn, order, finished })
            })
        };
        ids.iter().map(find).collect()
    }

    fn holders(&self, tenant: &TenantId, ids: &[&ExternalId]) -> StoreResult<Vec<Option<ConversationId>>> {
        let sql = "SELECT c.id FROM messages m JOIN conversations c ON c.pk = m.conversation
                WHERE m.external_id = ?1 AND c.tenant = ?2
            UNION ALL SELECT c.id FROM tool_calls t JOIN conversations c ON c.pk = t.conversation
                WHERE t.external_id = ?1 AND c.tenant = ?2
            LIMIT 1";
        let find = |id: &&ExternalId| {
            let params = [id.as_str(), tenant.as_str()];
            self.one(sql, params, |row| Ok(ConversationId::from_bytes(row.get(0)?)))
        };
        ids.iter().map(find).collect()
    }

    fn arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<Message>> {
        self.read_arrivals(tenant, after, limit)
    }

    fn call_arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<ToolCall>> {
        self.read_call_arrivals(tenant, after, limit)
    }

    fn node_arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<Node>> {
        self.read_node_arrivals(tenant, after, limit)
    }

    fn log_arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<LogLine>> {
        self.read_log_arrivals(tenant, after, limit)
    }

    fn vector_index(&self, tenant: &TenantId) -> StoreResult<Option<VectorIndex>> {
        match self.kept {
            Some(kept) => kept.index(&self.connection, tenant, || self.read_vector_index(tenant)),
            None => self.read_vector_index(tenant),
        }
    }

    fn vectors(
        &self,
        tenant: &TenantId,
        model: &str,
        of: &[ContentHash],
    ) -> StoreResult<Vec<Option<Vec<f32>>>> {
        self.read_vectors(tenant, model, of)
    }

    fn vector_arrivals(
        &self,
        tenant: &TenantId,
        model: &str,
        after: u64,
        limit: usize,
    ) -> StoreResult<(Vectors, u64)> {
        self.read_vector_arrivals(tenant, model, after, limit)
    }

    fn nodes(&self, key: &ConversationKey, filter: &NodeFilter) -> StoreResult<Vec<Node>> {
        self.read_nodes(key, filter)
    }

    fn node_marks(&self, key: &ConversationKey, filter: &NodeFilter) -> StoreResult<Vec<NodeMark>> {
        self.read_node_marks(key, filter)
    }

    fn nodes_by_id_prefix(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>> {
        self.read_nodes_by_id(tenant, prefix, limit)
    }

    fn level_totals(
        &self,
        tenant: &TenantId,
        conversation: Option<ConversationId>,
    ) -> StoreResult<Vec<LevelTotals>> {
        self.read_level_totals(tenant, conversation)
    }

    fn jobs(&self, tenant: &TenantId, filter: &JobFilter) -> StoreResult<Vec<Job>> {
        self.read_jobs(tenant, filter)
    }

    fn job(&self, tenant: &TenantId, job: &Job) -> StoreResult<Option<Job>> {
        self.read_job(tenant, job)
    }

    fn log(&self, tenant: &TenantId, filter: &LogFilter) -> StoreResult<Vec<LogLine>> {
        self.read_log(tenant, filter)
    }

    fn spent(&self, tenant: &TenantId, filter: &SpendFilter) -> StoreResult<Vec<(String, Spent)>> {
        self.read_spent(tenant, filter)
    }

    fn taken(&self, provider: &str, since: Timestamp) -> StoreResult<Vec<Taken>> {
        self.read_taken(provider, since)
    }

    fn totals(&self, tenant: &TenantId) -> StoreResult<(u32, Totals)> {
        let sql = "SELECT count(*), ifnull(sum(messages), 0), ifnull(sum(turns), 0),
                ifnull(sum(tool_calls), 0), ifnull(sum(chars), 0), ifnull(sum(tokens), 0)
            FROM conversations WHERE tenant = ?1";
        let sums = self.one(sql, [tenant.as_str()], |row| Ok((row.get(0)?, totals(row, 1)?)))?;
        Ok(sums.unwrap_or_default())
    }

    fn tenants(&self) -> StoreResult<Vec<TenantId>> {
        let sql = "SELECT DISTINCT tenant FROM conversations ORDER BY tenant";
        self.many(sql, [], |row| name(row, 0, TenantId::new))
    }
}

pub(super) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn end(until: Option<u32>) -> i64 {
    until.map_or(i64::MAX, i64::from)
}

pub(super) fn moment(row: &Row<'_>, at: usize) -> rusqlite::Result<Timestamp> {
    row.get(at).map(Timestamp::from_micros)
}

/// A row that says something it cannot have been written with.
pub(super) fn unreadable<E>(at: usize, why: E) -> rusqlite::Error
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    rusqlite::Error::FromSqlConversionFailure(at, Type::Text, why.into())
}

fn name<T, E>(row: &Row<'_>, at: usize, make: impl FnOnce(String) -> Result<T, E>) -> rusqlite::Result<T>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    make(row.get(at)?).map_err(|why| unreadable(at, why))
}

pub(super) fn external_id(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<ExternalId>> {
    row.get::<_, Option<String>>(at)?.map(ExternalId::new).transpose().map_err(|why| unreadable(at, why))
}

fn json(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Json>> {
    let Some(text) = row.get_ref(at)?.as_str_or_null()? else { return Ok(None) };
    Json::new(text).map(Some).map_err(|why| unreadable(at, why))
}

/// The name of the thread whose number is in the row.
pub(super) fn thread(row: &Row<'_>, at: usize, names: &[ThreadName]) -> rusqlite::Result<ThreadName> {
    let no: u32 = row.get(at)?;
    names.get(no as usize).cloned().ok_or_else(|| unreadable(at, "no such thread"))
}

pub(super) fn message(row: &Row<'_>, names: &[ThreadName]) -> rusqlite::Result<Message> {
    Ok(Message {
        idx: MessageIdx(row.get(0)?),
        turn: TurnNo(row.get(1)?),
        turns: row.get(12)?,
        thread: thread(row, 2, names)?,
        said: NewMessage {
            role: codes::role(row.get(3)?).ok_or_else(|| unreadable(3, "no such role"))?,
            at: moment(row, 4)?,
            author: row.get(8)?,
            external_id: external_id(row, 9)?,
            text: row.get(10)?,
            parts: json(row, 11)?,
        },
        chars: row.get(5)?,
        tokens: row.get(6)?,
        hash: ContentHash::from_bytes(row.get(7)?),
    })
}

pub(super) fn tool_call(row: &Row<'_>, names: &[ThreadName]) -> rusqlite::Result<ToolCall> {
    let outcome = match json(row, 9)? {
        None => None,
        Some(result) => Some(ToolResult {
            result,
            success: row.get(4)?,
            duration_ms: row.get::<_, Option<i64>>(5)?.map(i64::unsigned_abs),
        }),
    };
    Ok(ToolCall {
        turn: TurnNo(row.get(0)?),
        thread: thread(row, 10, names)?,
        order: row.get(1)?,
        before: MessageIdx(row.get(2)?),
        call: NewToolCall {
            name: row.get(6)?,
            args: json(row, 8)?.ok_or_else(|| unreadable(8, "no arguments"))?,
            outcome,
            at: moment(row, 3)?,
            external_id: external_id(row, 7)?,
        },
    })
}

//! Reads messages, tool calls, and the turns that they form.

use std::collections::{BTreeMap, HashMap};

use tokio_postgres::Row;
use treering_core::ports::{ExistingItem, ItemRef, Span, StoreResult, StoredItem};
use treering_core::{
    ContentHash, ConversationId, Correction, ExternalId, Message, MessageIdx, MessageVersion,
    NewMessage, NewToolCall, Role, ThreadName, ToolCall, ToolResult, Turn, TurnNo,
};

use super::tree::{node, node_columns};
use super::{TenantReader, end};
use crate::codes;
use crate::postgres::connection::SqlQuery;
use crate::postgres::value::{
    Columns, Decoded, SqlValue, UndecodableRow, blobs, integers, texts, values,
};

/// Read by [`message`].
pub(super) const MESSAGE: &str =
    "m.idx, m.turn, m.thread, m.role, m.at, m.chars, m.tokens, m.hash, m.author,
    m.external_id, m.text, m.parts, m.turns, m.forgotten, m.edited_at, m.wrong_at, m.correction";

/// Read by [`tool_call`].
pub(super) const TOOL_CALL: &str =
    "t.turn, t.position, t.before_idx, t.at, t.success, t.duration_ms, t.name,
    t.external_id, t.args, t.result, t.thread";

impl TenantReader<'_> {
    pub(super) fn read_messages(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<Vec<Message>> {
        let sql = format!(
            "SELECT {MESSAGE} FROM messages m WHERE m.tenant = $1 AND m.conversation = $2
                AND m.idx >= $3 AND m.idx < $4 ORDER BY m.idx LIMIT $5"
        );
        let until = end(span.until.map(|idx| idx.0));
        let values = values![self.tenant.as_str(), id, span.from.0, until, span.limit];
        self.query_all(SqlQuery::new(sql, values), message)
    }

    pub(super) fn read_message_tokens(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<u64> {
        // Positions have no gaps, so a limit is an upper bound.
        let sql = "SELECT coalesce(sum(tokens), 0)::bigint FROM messages
            WHERE tenant = $1 AND conversation = $2 AND idx >= $3 AND idx < $4";
        let rows = i64::try_from(span.limit).unwrap_or(i64::MAX);
        let until =
            end(span.until.map(|idx| idx.0)).min(i64::from(span.from.0).saturating_add(rows));
        let query = SqlQuery::new(sql, values![self.tenant.as_str(), id, span.from.0, until]);
        Ok(self.query_one(query, |row| row.number(0))?.unwrap_or(0))
    }

    pub(super) fn read_versions(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<Vec<(MessageIdx, MessageVersion)>> {
        let sql = "SELECT idx, replaced_at, text, parts, wrong_at, correction FROM versions
            WHERE tenant = $1 AND conversation = $2 AND idx >= $3 AND idx < $4
            ORDER BY idx, seq LIMIT $5";
        let until = end(span.until.map(|idx| idx.0));
        let values = values![self.tenant.as_str(), id, span.from.0, until, span.limit];
        self.query_all(SqlQuery::new(sql, values), |row| {
            let version = MessageVersion {
                replaced_at: row.time(1)?,
                text: row.text(2)?,
                parts: row.json(3)?,
                correction: correction(row, 4)?,
            };
            Ok((MessageIdx(row.number(0)?), version))
        })
    }

    pub(super) fn read_tool_calls(
        &self,
        id: ConversationId,
        span: Span<TurnNo>,
    ) -> StoreResult<Vec<ToolCall>> {
        let sql = format!(
            "SELECT {TOOL_CALL} FROM tool_calls t WHERE t.tenant = $1 AND t.conversation = $2
                AND t.turn >= $3 AND t.turn < $4 ORDER BY t.turn, t.position LIMIT $5"
        );
        let until = end(span.until.map(|no| no.0));
        let values = values![self.tenant.as_str(), id, span.from.0, until, span.limit];
        self.query_all(SqlQuery::new(sql, values), tool_call)
    }

    /// Reads messages, tool calls and nodes with one statement for each kind.
    pub(super) fn read_items(&self, refs: &[ItemRef]) -> StoreResult<Vec<Option<StoredItem>>> {
        if refs.is_empty() {
            return Ok(Vec::new());
        }
        let queries =
            [self.messages_query(refs), self.tool_calls_query(refs), self.nodes_query(refs)];
        let [messages, calls, nodes] = self.query_each(&queries)?;
        let mut found: HashMap<ItemRef, StoredItem> = HashMap::new();
        found.extend(self.decoded(messages, |row| {
            let item = message(row)?;
            Ok((
                ItemRef::Message(row.conversation(17)?, item.idx),
                StoredItem::Message(item.into()),
            ))
        })?);
        found.extend(self.decoded(calls, |row| {
            let item = tool_call(row)?;
            let at = ItemRef::ToolCall(row.conversation(11)?, item.turn, item.order);
            Ok((at, StoredItem::ToolCall(item.into())))
        })?);
        found.extend(self.decoded(nodes, |row| {
            let item = node(row)?;
            let at = ItemRef::Node(row.conversation(23)?, item.level(), item.ordinal());
            Ok((at, StoredItem::Node(item.into())))
        })?);
        Ok(refs.iter().map(|item| found.get(item).cloned()).collect())
    }

    fn messages_query(&self, refs: &[ItemRef]) -> SqlQuery {
        let sql = format!(
            "SELECT {MESSAGE}, m.conversation FROM unnest($2::bytea[], $3::bigint[]) AS r (conversation, idx)
            JOIN messages m ON m.tenant = $1 AND m.conversation = r.conversation AND m.idx = r.idx"
        );
        let wanted: Vec<(ConversationId, u32)> = refs
            .iter()
            .filter_map(|item| match item {
                ItemRef::Message(id, idx) => Some((*id, idx.0)),
                _ => None,
            })
            .collect();
        let idx = integers(wanted.iter().map(|(_, idx)| *idx));
        SqlQuery::new(sql, vec![self.tenant_value(), ids(wanted.iter().map(|(id, _)| id)), idx])
    }

    fn tool_calls_query(&self, refs: &[ItemRef]) -> SqlQuery {
        let sql = format!(
            "SELECT {TOOL_CALL}, t.conversation
            FROM unnest($2::bytea[], $3::bigint[], $4::bigint[]) AS r (conversation, turn, position)
            JOIN tool_calls t ON t.tenant = $1 AND t.conversation = r.conversation AND t.turn = r.turn
                AND t.position = r.position"
        );
        let wanted: Vec<(ConversationId, u32, u32)> = refs
            .iter()
            .filter_map(|item| match item {
                ItemRef::ToolCall(id, turn, order) => Some((*id, turn.0, *order)),
                _ => None,
            })
            .collect();
        let turns = integers(wanted.iter().map(|(_, turn, _)| *turn));
        let positions = integers(wanted.iter().map(|(.., position)| *position));
        let of = ids(wanted.iter().map(|(id, ..)| id));
        SqlQuery::new(sql, vec![self.tenant_value(), of, turns, positions])
    }

    fn nodes_query(&self, refs: &[ItemRef]) -> SqlQuery {
        let sql = format!(
            "SELECT {}, n.conversation
            FROM unnest($2::bytea[], $3::bigint[], $4::bigint[]) AS r (conversation, level, ordinal)
            JOIN nodes n ON n.tenant = $1 AND n.conversation = r.conversation AND n.level = r.level
                AND n.ordinal = r.ordinal",
            node_columns()
        );
        let wanted: Vec<(ConversationId, u8, u32)> = refs
            .iter()
            .filter_map(|item| match item {
                ItemRef::Node(id, level, ordinal) => Some((*id, level.number(), *ordinal)),
                _ => None,
            })
            .collect();
        let levels = integers(wanted.iter().map(|(_, level, _)| u32::from(*level)));
        let ordinals = integers(wanted.iter().map(|(.., ordinal)| *ordinal));
        let of = ids(wanted.iter().map(|(id, ..)| id));
        SqlQuery::new(sql, vec![self.tenant_value(), of, levels, ordinals])
    }

    pub(super) fn read_existing(
        &self,
        id: ConversationId,
        ids: &[&ExternalId],
    ) -> StoreResult<Vec<Option<ExistingItem>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let messages = "SELECT external_id, idx, hash FROM messages
            WHERE tenant = $1 AND conversation = $2 AND external_id = ANY ($3)";
        let calls = "SELECT external_id, turn, position, result IS NOT NULL FROM tool_calls
            WHERE tenant = $1 AND conversation = $2 AND external_id = ANY ($3)";
        let values = vec![self.tenant_value(), id.into(), texts(ids.iter().map(|id| id.as_str()))];
        let [messages, calls] =
            self.query_each(&[messages, calls].map(|sql| SqlQuery::new(sql, values.clone())))?;
        let mut found: HashMap<String, ExistingItem> = HashMap::new();
        found.extend(self.decoded(calls, |row| {
            let (turn, order) = (TurnNo(row.number(1)?), row.number(2)?);
            let finished = row.flag(3)?;
            Ok((row.text(0)?, ExistingItem::ToolCall { turn, order, finished }))
        })?);
        found.extend(self.decoded(messages, |row| {
            let hash = ContentHash::from_bytes(row.bytes(2)?);
            Ok((row.text(0)?, ExistingItem::Message(MessageIdx(row.number(1)?), hash)))
        })?);
        Ok(ids.iter().map(|id| found.get(id.as_str()).copied()).collect())
    }

    pub(super) fn read_owners(
        &self,
        ids: &[&ExternalId],
    ) -> StoreResult<Vec<Option<ConversationId>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT external_id, conversation FROM messages WHERE tenant = $1 AND external_id = ANY ($2)
            UNION ALL
            SELECT external_id, conversation FROM tool_calls WHERE tenant = $1 AND external_id = ANY ($2)";
        let values = vec![self.tenant_value(), texts(ids.iter().map(|id| id.as_str()))];
        let owners = self.query_all(SqlQuery::new(sql, values), |row| {
            Ok((row.text(0)?, row.conversation(1)?))
        })?;
        let owners: HashMap<String, ConversationId> = owners.into_iter().rev().collect();
        Ok(ids.iter().map(|id| owners.get(id.as_str()).copied()).collect())
    }

    pub(super) fn read_turns(
        &self,
        id: ConversationId,
        span: Span<TurnNo>,
    ) -> StoreResult<Vec<Turn>> {
        // Turn numbers have no gaps, so a limit is an upper bound.
        let limited = span.from.0.saturating_add(u32::try_from(span.limit).unwrap_or(u32::MAX));
        let until = end(span.until.map(|no| no.0)).min(i64::from(limited));
        let assistant = codes::role_code(Role::Assistant);
        let of_messages = format!(
            "SELECT turn, min(thread), min(idx), max(idx) + 1, count(*), 0::bigint,
                bool_or(role = {assistant} AND (chars > 0 OR forgotten)), min(at), max(at)
            FROM messages WHERE tenant = $1 AND conversation = $2 AND turn >= $3 AND turn < $4 GROUP BY turn"
        );
        let of_calls = "SELECT turn, min(thread), min(before_idx), min(before_idx), 0::bigint, count(*), false,
                min(at), max(at)
            FROM tool_calls WHERE tenant = $1 AND conversation = $2 AND turn >= $3 AND turn < $4 GROUP BY turn";
        let values = values![self.tenant.as_str(), id, span.from.0, until];
        let queries = [SqlQuery::new(of_messages, values.clone()), SqlQuery::new(of_calls, values)];
        let [messages, calls] = self.query_each(&queries)?;
        let turns = self.decoded(messages, turn)?;
        let mut turns: BTreeMap<u32, Turn> =
            turns.into_iter().map(|turn| (turn.no.0, turn)).collect();
        for calls in self.decoded(calls, turn)? {
            let merge = |turn: &mut Turn| {
                turn.tool_calls = calls.tool_calls;
                turn.started_at = turn.started_at.min(calls.started_at);
                turn.ended_at = turn.ended_at.max(calls.ended_at);
            };
            turns.entry(calls.no.0).and_modify(merge).or_insert_with(|| calls.clone());
        }
        Ok(turns.into_values().collect())
    }
}

/// Conversations as one parameter.
fn ids<'a>(of: impl Iterator<Item = &'a ConversationId>) -> SqlValue {
    blobs(of.map(|id| &id.as_bytes()[..]))
}

fn turn(row: &Row) -> Decoded<Turn> {
    Ok(Turn {
        no: TurnNo(row.number(0)?),
        thread: thread(row, 1)?,
        from: MessageIdx(row.number(2)?),
        until: MessageIdx(row.number(3)?),
        messages: row.number(4)?,
        tool_calls: row.number(5)?,
        answered: row.flag(6)?,
        started_at: row.time(7)?,
        ended_at: row.time(8)?,
    })
}

fn thread(row: &Row, column: usize) -> Decoded<ThreadName> {
    ThreadName::new(row.text(column)?).map_err(UndecodableRow::new)
}

/// Reads a correction from its time and the text in the next column.
fn correction(row: &Row, column: usize) -> Decoded<Option<Correction>> {
    Ok(match row.optional_time(column)? {
        Some(at) => Some(Correction { at, text: row.optional_text(column + 1)? }),
        None => None,
    })
}

/// Reads a message from the columns [`MESSAGE`].
pub(super) fn message(row: &Row) -> Decoded<Message> {
    Ok(Message {
        idx: MessageIdx(row.number(0)?),
        turn: TurnNo(row.number(1)?),
        turns: row.number(12)?,
        thread: thread(row, 2)?,
        body: NewMessage {
            role: codes::role(row.long(3)?).ok_or("no such role")?,
            at: row.time(4)?,
            author: row.optional_text(8)?,
            external_id: row.external_id(9)?,
            text: row.text(10)?,
            parts: row.json(11)?,
            forgotten: row.flag(13)?,
            edited_at: row.optional_time(14)?,
            correction: correction(row, 15)?,
            history: Vec::new(),
        },
        chars: row.number(5)?,
        tokens: row.number(6)?,
        hash: ContentHash::from_bytes(row.bytes(7)?),
    })
}

/// Reads a tool call from the columns [`TOOL_CALL`].
pub(super) fn tool_call(row: &Row) -> Decoded<ToolCall> {
    let outcome = match row.json(9)? {
        None => None,
        Some(result) => Some(ToolResult {
            result,
            success: row.value(4)?,
            duration_ms: row.optional_number(5)?,
        }),
    };
    Ok(ToolCall {
        turn: TurnNo(row.number(0)?),
        thread: thread(row, 10)?,
        order: row.number(1)?,
        before: MessageIdx(row.number(2)?),
        call: NewToolCall {
            name: row.text(6)?,
            args: row.json(8)?.ok_or("no arguments")?,
            outcome,
            at: row.time(3)?,
            external_id: row.external_id(7)?,
        },
    })
}

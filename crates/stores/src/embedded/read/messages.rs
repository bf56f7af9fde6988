//! Reads messages, tool calls, and the turns that they form.

use std::collections::BTreeMap;
use std::ops::Deref;

use rusqlite::{Connection, Row, params};
use treering_core::ports::{ExistingItem, ItemRef, Span, StoreResult, StoredItem};
use treering_core::{
    ContentHash, ConversationId, Correction, ExternalId, Message, MessageIdx, MessageVersion,
    NewMessage, NewToolCall, Role, ThreadName, Timestamp, ToolCall, ToolResult, Turn, TurnNo,
};

use super::{TenantView, end, external_id, json, rows, thread, timestamp, unreadable};
use crate::codes;

pub(super) const MESSAGE: &str =
    "m.idx, m.turn, m.thread, m.role, m.at, m.chars, m.tokens, m.hash, m.author,
    m.external_id, m.text, m.parts, m.turns, m.forgotten, m.edited_at, m.wrong_at, m.correction";

pub(super) const TOOL_CALL: &str =
    "t.turn, t.place, t.before_idx, t.at, t.success, t.duration_ms, t.name,
    t.external_id, t.args, t.result, t.thread";

impl<C: Deref<Target = Connection>> TenantView<'_, C> {
    pub(super) fn read_messages(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<Vec<Message>> {
        let Some(row) = self.row(id)? else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT {MESSAGE} FROM messages m
            WHERE m.tenant = ?1 AND m.conversation = ?2 AND m.idx >= ?3 AND m.idx < ?4 ORDER BY m.idx LIMIT ?5"
        );
        let until = end(span.until.map(|idx| idx.0));
        let params = params![self.tenant, row.pk, span.from.0, until, rows(span.limit)];
        self.query_all(&sql, params, |columns| message(columns, &row.threads))
    }

    pub(super) fn read_message_tokens(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<u64> {
        let Some(row) = self.row(id)? else { return Ok(0) };
        // Positions have no gaps, so a limit is an upper bound.
        let sql = "SELECT ifnull(sum(tokens), 0) FROM messages
            WHERE tenant = ?1 AND conversation = ?2 AND idx >= ?3 AND idx < ?4";
        let limited = i64::from(span.from.0).saturating_add(rows(span.limit));
        let until = end(span.until.map(|idx| idx.0)).min(limited);
        let params = params![self.tenant, row.pk, span.from.0, until];
        let sum: Option<i64> = self.query_one(sql, params, |row| row.get(0))?;
        Ok(sum.map_or(0, i64::unsigned_abs))
    }

    pub(super) fn read_versions(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<Vec<(MessageIdx, MessageVersion)>> {
        let Some(row) = self.row(id)? else { return Ok(Vec::new()) };
        let sql = "SELECT idx, replaced_at, text, parts, wrong_at, correction FROM versions
            WHERE tenant = ?1 AND conversation = ?2 AND idx >= ?3 AND idx < ?4
            ORDER BY idx, pk LIMIT ?5";
        let until = end(span.until.map(|idx| idx.0));
        let params = params![self.tenant, row.pk, span.from.0, until, rows(span.limit)];
        self.query_all(sql, params, |row| {
            let version = MessageVersion {
                replaced_at: timestamp(row, 1)?,
                text: row.get(2)?,
                parts: json(row, 3)?,
                correction: correction(row, 4)?,
            };
            Ok((MessageIdx(row.get(0)?), version))
        })
    }

    pub(super) fn read_tool_calls(
        &self,
        id: ConversationId,
        span: Span<TurnNo>,
    ) -> StoreResult<Vec<ToolCall>> {
        let Some(row) = self.row(id)? else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT {TOOL_CALL} FROM tool_calls t
            WHERE t.tenant = ?1 AND t.conversation = ?2 AND t.turn >= ?3 AND t.turn < ?4
            ORDER BY t.turn, t.place LIMIT ?5"
        );
        let until = end(span.until.map(|no| no.0));
        let params = params![self.tenant, row.pk, span.from.0, until, rows(span.limit)];
        self.query_all(&sql, params, |columns| tool_call(columns, &row.threads))
    }

    pub(super) fn read_item(&self, item: &ItemRef) -> StoreResult<Option<StoredItem>> {
        Ok(match *item {
            ItemRef::Message(id, idx) => {
                let span = Span::between(idx, MessageIdx(idx.0.saturating_add(1)));
                self.read_messages(id, span)?.pop().map(|it| StoredItem::Message(Box::new(it)))
            }
            ItemRef::ToolCall(id, turn, order) => {
                let Some(row) = self.row(id)? else { return Ok(None) };
                let sql = format!(
                    "SELECT {TOOL_CALL} FROM tool_calls t
                    WHERE t.tenant = ?1 AND t.conversation = ?2 AND t.turn = ?3 AND t.place = ?4"
                );
                let params = params![self.tenant, row.pk, turn.0, order];
                let call =
                    self.query_one(&sql, params, |columns| tool_call(columns, &row.threads))?;
                call.map(|it| StoredItem::ToolCall(Box::new(it)))
            }
            ItemRef::Node(id, level, ordinal) => {
                self.read_node(id, level, ordinal)?.map(|it| StoredItem::Node(Box::new(it)))
            }
        })
    }

    pub(super) fn read_existing(
        &self,
        id: ConversationId,
        ids: &[&ExternalId],
    ) -> StoreResult<Vec<Option<ExistingItem>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let Some(row) = self.row(id)? else { return Ok(vec![None; ids.len()]) };
        let message = "SELECT idx, hash FROM messages WHERE tenant = ?1 AND external_id = ?2 AND conversation = ?3";
        let call = "SELECT turn, place, result IS NOT NULL FROM tool_calls
            WHERE tenant = ?1 AND external_id = ?2 AND conversation = ?3";
        let find = |id: &&ExternalId| {
            let params = params![self.tenant, id.as_str(), row.pk];
            let stored = self.query_one(message, params, |row| {
                let (idx, hash) = (MessageIdx(row.get(0)?), ContentHash::from_bytes(row.get(1)?));
                Ok(ExistingItem::Message(idx, hash))
            })?;
            if stored.is_some() {
                return Ok(stored);
            }
            self.query_one(call, params, |row| {
                let (turn, order, finished) = (TurnNo(row.get(0)?), row.get(1)?, row.get(2)?);
                Ok(ExistingItem::ToolCall { turn, order, finished })
            })
        };
        ids.iter().map(find).collect()
    }

    pub(super) fn read_owners(
        &self,
        ids: &[&ExternalId],
    ) -> StoreResult<Vec<Option<ConversationId>>> {
        let sql = "SELECT c.id FROM messages m JOIN conversations c ON c.pk = m.conversation
                WHERE m.tenant = ?1 AND m.external_id = ?2
            UNION ALL SELECT c.id FROM tool_calls t JOIN conversations c ON c.pk = t.conversation
                WHERE t.tenant = ?1 AND t.external_id = ?2
            LIMIT 1";
        let find = |id: &&ExternalId| {
            let read = |row: &Row<'_>| Ok(ConversationId::from_bytes(row.get(0)?));
            self.query_one(sql, params![self.tenant, id.as_str()], read)
        };
        ids.iter().map(find).collect()
    }

    pub(super) fn read_turns(
        &self,
        id: ConversationId,
        span: Span<TurnNo>,
    ) -> StoreResult<Vec<Turn>> {
        let Some(row) = self.row(id)? else { return Ok(Vec::new()) };
        let limited = span.from.0.saturating_add(u32::try_from(span.limit).unwrap_or(u32::MAX));
        // Turn numbers have no gaps, so a limit is an upper bound.
        let until = end(span.until.map(|no| no.0)).min(i64::from(limited));
        let of_messages =
            "SELECT turn, min(thread), min(idx), max(idx) + 1, count(*), 0, max(role = ?5 AND (chars > 0 OR forgotten)), min(at),
                max(at)
            FROM messages WHERE tenant = ?1 AND conversation = ?2 AND turn >= ?3 AND turn < ?4 GROUP BY turn";
        let of_calls = "SELECT turn, min(thread), min(before_idx), min(before_idx), 0, count(*), 0, min(at), max(at)
            FROM tool_calls WHERE tenant = ?1 AND conversation = ?2 AND turn >= ?3 AND turn < ?4 GROUP BY turn";
        let assistant = codes::role_code(Role::Assistant);
        let params = params![self.tenant, row.pk, span.from.0, until, assistant];
        let turns = self.query_all(of_messages, params, |columns| turn(columns, &row.threads))?;
        let mut turns: BTreeMap<u32, Turn> =
            turns.into_iter().map(|turn| (turn.no.0, turn)).collect();
        for calls in
            self.query_all(of_calls, &params[..4], |columns| turn(columns, &row.threads))?
        {
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

fn turn(row: &Row<'_>, names: &[ThreadName]) -> rusqlite::Result<Turn> {
    Ok(Turn {
        no: TurnNo(row.get(0)?),
        thread: thread(row, 1, names)?,
        from: MessageIdx(row.get(2)?),
        until: MessageIdx(row.get(3)?),
        messages: row.get(4)?,
        tool_calls: row.get(5)?,
        answered: row.get(6)?,
        started_at: timestamp(row, 7)?,
        ended_at: timestamp(row, 8)?,
    })
}

/// A time that may be absent.
fn moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

/// Reads a correction from its time and the text in the next column.
fn correction(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Correction>> {
    Ok(match moment(row, column)? {
        Some(at) => Some(Correction { at, text: row.get(column + 1)? }),
        None => None,
    })
}

/// Reads a message from the columns [`MESSAGE`].
pub(super) fn message(row: &Row<'_>, names: &[ThreadName]) -> rusqlite::Result<Message> {
    Ok(Message {
        idx: MessageIdx(row.get(0)?),
        turn: TurnNo(row.get(1)?),
        turns: row.get(12)?,
        thread: thread(row, 2, names)?,
        body: NewMessage {
            role: codes::role(row.get(3)?).ok_or_else(|| unreadable(3, "no such role"))?,
            at: timestamp(row, 4)?,
            author: row.get(8)?,
            external_id: external_id(row, 9)?,
            text: row.get(10)?,
            parts: json(row, 11)?,
            forgotten: row.get(13)?,
            edited_at: moment(row, 14)?,
            correction: correction(row, 15)?,
            history: Vec::new(),
        },
        chars: row.get(5)?,
        tokens: row.get(6)?,
        hash: ContentHash::from_bytes(row.get(7)?),
    })
}

/// Reads a tool call from the columns [`TOOL_CALL`].
pub(super) fn tool_call(row: &Row<'_>, names: &[ThreadName]) -> rusqlite::Result<ToolCall> {
    let outcome = match json(row, 9)? {
        None => None,
        Some(result) => Some(ToolResult {
            result,
            success: row.get(4)?,
            duration_ms: row.get::<_, Option<i64>>(5)?.map(i64::cast_unsigned),
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
            at: timestamp(row, 3)?,
            external_id: external_id(row, 7)?,
        },
    })
}

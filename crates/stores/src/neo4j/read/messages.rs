//! Reads messages, tool calls, and the turns that they form.

use std::collections::{BTreeMap, HashMap};

use treering_core::ports::{ExistingItem, ItemRef, Span, StoreResult, StoredItem};
use treering_core::{
    ConversationId, Correction, ExternalId, Json, Level, Message, MessageIdx, MessageVersion,
    NewMessage, NewToolCall, ThreadName, Timestamp, ToolCall, ToolResult, Turn, TurnNo,
};

use super::tree::{node, node_columns};
use super::{GraphView, end, rows};
use crate::neo4j::bolt::BoltValue;
use crate::neo4j::values::{BoltRow, Read, map, unreadable};

pub(super) const MESSAGE: &str = "m.idx, m.turnIndex, m.turns, m.thread, m.role, m.author, m.text,
    m.parts, m.timestamp, m.externalId, m.forgotten, m.editedAt, m.correctedAt, m.correction, m.chars,
    m.tokens, m.hash";

pub(super) const TOOL_CALL: &str =
    "t.turnIndex, t.thread, t.order, t.before, t.toolName, t.toolArgs,
    t.toolResult, t.success, t.durationMs, t.timestamp, t.externalId";

impl GraphView<'_> {
    pub(super) fn read_messages(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<Vec<Message>> {
        let statement = self.of_conversation(
            id,
            &format!(
                "MATCH (m:TreeringMessage) WHERE m.tenant = $tenant AND m.sessionId = $session
                    AND m.idx >= $from AND m.idx < $until
                RETURN {MESSAGE} ORDER BY m.idx LIMIT $limit"
            ),
        );
        let until = end(span.until.map(|idx| idx.0));
        let statement = statement.with("from", span.from.0).with("until", until);
        self.query(statement.with("limit", rows(span.limit)), message)
    }

    pub(super) fn read_message_tokens(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<u64> {
        let statement = self.of_conversation(
            id,
            "MATCH (m:TreeringMessage) WHERE m.tenant = $tenant AND m.sessionId = $session
                AND m.idx >= $from AND m.idx < $until
            RETURN sum(m.tokens)",
        );
        // Positions have no gaps, so a limit is an upper bound.
        let limited = i64::from(span.from.0).saturating_add(rows(span.limit));
        let until = end(span.until.map(|idx| idx.0)).min(limited);
        let statement = statement.with("from", span.from.0).with("until", until);
        Ok(self.query_one(statement, BoltRow::take)?.unwrap_or(0))
    }

    pub(super) fn read_versions(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<Vec<(MessageIdx, MessageVersion)>> {
        let statement = self.of_conversation(
            id,
            "MATCH (v:TreeringVersion) WHERE v.tenant = $tenant AND v.sessionId = $session
                AND v.idx >= $from AND v.idx < $until
            RETURN v.idx, v.replacedAt, v.text, v.parts, v.correctedAt, v.correction
            ORDER BY v.idx, v.order LIMIT $limit",
        );
        let until = end(span.until.map(|idx| idx.0));
        let statement = statement.with("from", span.from.0).with("until", until);
        self.query(statement.with("limit", rows(span.limit)), |row| {
            let idx = MessageIdx(row.take()?);
            let (replaced_at, text, parts) = (row.take()?, row.take()?, row.take()?);
            Ok((idx, MessageVersion { replaced_at, text, parts, correction: correction(row)? }))
        })
    }

    pub(super) fn read_tool_calls(
        &self,
        id: ConversationId,
        span: Span<TurnNo>,
    ) -> StoreResult<Vec<ToolCall>> {
        // A plan asks for each of the turns that it adds, and those have no tool calls yet.
        if self.known_turns(id).is_some_and(|turns| span.from.0 >= turns) {
            return Ok(Vec::new());
        }
        let statement = self.of_conversation(
            id,
            &format!(
                "MATCH (t:ToolCall) WHERE t.tenant = $tenant AND t.sessionId = $session
                    AND t.turnIndex >= $from AND t.turnIndex < $until
                RETURN {TOOL_CALL} ORDER BY t.turnIndex, t.order LIMIT $limit"
            ),
        );
        let until = end(span.until.map(|no| no.0));
        let statement = statement.with("from", span.from.0).with("until", until);
        self.query(statement.with("limit", rows(span.limit)), tool_call)
    }

    /// Reads the items of each kind with one statement, in one round trip.
    pub(super) fn read_items(&self, refs: &[ItemRef]) -> StoreResult<Vec<Option<StoredItem>>> {
        let [mut messages, mut calls, mut nodes] = [const { Vec::new() }; 3];
        for (number, item) in refs.iter().enumerate() {
            let number = ("number", number.into());
            match item {
                ItemRef::Message(id, idx) => {
                    messages.push(map([number, ("session", (*id).into()), ("idx", idx.0.into())]));
                }
                ItemRef::ToolCall(id, turn, order) => calls.push(map([
                    number,
                    ("session", (*id).into()),
                    ("turn", turn.0.into()),
                    ("order", (*order).into()),
                ])),
                ItemRef::Node(id, level, ordinal) => nodes.push(map([
                    number,
                    ("session", (*id).into()),
                    ("level", level.number().into()),
                    ("ordinal", (*ordinal).into()),
                ])),
            }
        }
        let mut found: HashMap<usize, StoredItem> = HashMap::new();
        let items = |items: Vec<BoltValue>, pattern: &str, columns: &str| {
            let query =
                format!("UNWIND $items AS item MATCH ({pattern}) RETURN item.number, {columns}");
            self.run(self.of_tenant(&query).with("items", items))
        };
        if !messages.is_empty() {
            let pattern =
                "m:TreeringMessage {tenant: $tenant, sessionId: item.session, idx: item.idx}";
            let rows = items(messages, pattern, MESSAGE)?;
            let decode =
                |row: &mut BoltRow| Ok((row.take()?, StoredItem::Message(Box::new(message(row)?))));
            found.extend(self.decoded(rows, decode)?);
        }
        if !calls.is_empty() {
            let pattern = "t:ToolCall {tenant: $tenant, sessionId: item.session, \
                turnIndex: item.turn, order: item.order}";
            let rows = items(calls, pattern, TOOL_CALL)?;
            let decode = |row: &mut BoltRow| {
                Ok((row.take()?, StoredItem::ToolCall(Box::new(tool_call(row)?))))
            };
            found.extend(self.decoded(rows, decode)?);
        }
        if !nodes.is_empty() {
            let pattern = "n:ConversationSummary {tenant: $tenant, sessionId: item.session, \
                level: item.level, ordinal: item.ordinal}";
            let rows = items(nodes, pattern, &node_columns())?;
            let decode =
                |row: &mut BoltRow| Ok((row.take()?, StoredItem::Node(Box::new(node(row)?))));
            found.extend(self.decoded(rows, decode)?);
        }
        Ok((0..refs.len()).map(|number| found.remove(&number)).collect())
    }

    pub(super) fn read_existing(
        &self,
        id: ConversationId,
        ids: &[&ExternalId],
    ) -> StoreResult<Vec<Option<ExistingItem>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let statement = self.of_conversation(
            id,
            "UNWIND $ids AS id
            OPTIONAL MATCH (m:TreeringMessage {tenant: $tenant, externalId: id, sessionId: $session})
            OPTIONAL MATCH (t:ToolCall {tenant: $tenant, externalId: id, sessionId: $session})
            RETURN id, m.idx, m.hash, t.turnIndex, t.order, t.toolResult IS NOT NULL",
        );
        let names: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
        let found = self.query(statement.with("ids", names), |row| {
            let id: String = row.take()?;
            let (idx, hash): (Option<u32>, _) = (row.take()?, row.take()?);
            let (turn, order): (Option<u32>, Option<u32>) = (row.take()?, row.take()?);
            let finished = row.take()?;
            Ok((
                id,
                match (idx, hash, turn, order) {
                    (Some(idx), Some(hash), ..) => {
                        Some(ExistingItem::Message(MessageIdx(idx), hash))
                    }
                    (.., Some(turn), Some(order)) => {
                        Some(ExistingItem::ToolCall { turn: TurnNo(turn), order, finished })
                    }
                    _ => None,
                },
            ))
        })?;
        let found: HashMap<String, Option<ExistingItem>> = found.into_iter().collect();
        Ok(ids.iter().map(|id| found.get(id.as_str()).copied().flatten()).collect())
    }

    pub(super) fn read_owners(
        &self,
        ids: &[&ExternalId],
    ) -> StoreResult<Vec<Option<ConversationId>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let statement = self.statement(
            "UNWIND $ids AS id
            RETURN id, coalesce(
                head(COLLECT { MATCH (m:TreeringMessage {tenant: $tenant, externalId: id}) WHERE m.sessionId IS NOT NULL
                    RETURN m.sessionId LIMIT 1 }),
                head(COLLECT { MATCH (t:ToolCall {tenant: $tenant, externalId: id}) WHERE t.sessionId IS NOT NULL
                    RETURN t.sessionId LIMIT 1 }))",
        );
        let names: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
        let found = self.query(statement.with("ids", names), |row| {
            Ok((row.take::<String>()?, row.take::<Option<ConversationId>>()?))
        })?;
        let found: HashMap<String, Option<ConversationId>> = found.into_iter().collect();
        Ok(ids.iter().map(|id| found.get(id.as_str()).copied().flatten()).collect())
    }

    pub(super) fn read_turns(
        &self,
        id: ConversationId,
        span: Span<TurnNo>,
    ) -> StoreResult<Vec<Turn>> {
        let limited = span.from.0.saturating_add(u32::try_from(span.limit).unwrap_or(u32::MAX));
        // Turn numbers have no gaps, so a limit is an upper bound.
        let until = end(span.until.map(|no| no.0)).min(i64::from(limited));
        let statement = self.of_conversation(
            id,
            "MATCH (n:ConversationTurn) WHERE n.tenant = $tenant AND n.sessionId = $session
                AND n.turnIndex >= $from AND n.turnIndex < $until
            OPTIONAL MATCH (n)-[:HAS_MESSAGE]->(m:TreeringMessage)
            WITH n, min(m.idx) AS first, max(m.idx) AS last, count(m) AS messages,
                sum(CASE WHEN m.role = 'assistant' AND (m.chars > 0 OR m.forgotten) THEN 1 ELSE 0 END)
                    > 0 AS answered, min(m.timestamp) AS start, max(m.timestamp) AS stop
            OPTIONAL MATCH (n)-[:HAS_TOOL_CALL]->(t:ToolCall)
            RETURN n.turnIndex, n.thread, first, last, messages, count(t), answered, start, stop,
                min(t.before), min(t.timestamp), max(t.timestamp) ORDER BY n.turnIndex",
        );
        self.query(statement.with("from", span.from.0).with("until", until), turn)
    }
}

/// Reads a turn. Without messages, its tool calls give its position and its times.
fn turn(row: &mut BoltRow) -> Read<Turn> {
    let (no, thread) = (TurnNo(row.take()?), row.take()?);
    let (first, last): (Option<u32>, Option<u32>) = (row.take()?, row.take()?);
    let (messages, tool_calls, answered) = (row.take()?, row.take()?, row.take()?);
    let mut times: BTreeMap<Timestamp, ()> = BTreeMap::new();
    let mut time = |at: Option<Timestamp>| times.extend(at.map(|at| (at, ())));
    time(row.take()?);
    time(row.take()?);
    let before: Option<u32> = row.take()?;
    time(row.take()?);
    time(row.take()?);
    let (Some((start, ())), Some((stop, ()))) = (times.first_key_value(), times.last_key_value())
    else {
        return unreadable("a turn without messages and tool calls");
    };
    Ok(Turn {
        no,
        thread,
        from: MessageIdx(first.or(before).unwrap_or(0)),
        until: MessageIdx(last.map(|last| last + 1).or(before).unwrap_or(0)),
        messages,
        tool_calls,
        answered,
        started_at: *start,
        ended_at: *stop,
    })
}

/// Reads a correction from its time and its text.
fn correction(row: &mut BoltRow) -> Read<Option<Correction>> {
    let (at, text): (Option<Timestamp>, _) = (row.take()?, row.take()?);
    Ok(at.map(|at| Correction { at, text }))
}

/// Reads a message from [`MESSAGE`].
pub(super) fn message(row: &mut BoltRow) -> Read<Message> {
    let (idx, turn, turns) = (MessageIdx(row.take()?), TurnNo(row.take()?), row.take()?);
    let thread: ThreadName = row.take()?;
    let body = NewMessage {
        role: row.take::<String>()?.parse().or_else(unreadable)?,
        author: row.take()?,
        text: row.take()?,
        parts: row.take()?,
        at: row.take()?,
        external_id: row.take()?,
        forgotten: row.take()?,
        edited_at: row.take()?,
        correction: correction(row)?,
        history: Vec::new(),
    };
    let (chars, tokens, hash) = (row.take()?, row.take()?, row.take()?);
    Ok(Message { idx, turn, turns, thread, body, chars, tokens, hash })
}

/// Reads a tool call from [`TOOL_CALL`].
pub(super) fn tool_call(row: &mut BoltRow) -> Read<ToolCall> {
    let (turn, thread, order) = (TurnNo(row.take()?), row.take()?, row.take()?);
    let (before, name, args) = (MessageIdx(row.take()?), row.take()?, row.take()?);
    let result: Option<Json> = row.take()?;
    let (success, duration_ms) = (row.take()?, row.take()?);
    let outcome = result.map(|result| ToolResult { result, success, duration_ms });
    let call = NewToolCall { name, args, outcome, at: row.take()?, external_id: row.take()? };
    Ok(ToolCall { turn, thread, order, before, call })
}

/// Reads a level.
pub(super) fn level(row: &mut BoltRow) -> Read<Level> {
    let number: u8 = row.take()?;
    Level::new(number).map_or_else(|| unreadable("there is no level 0"), Ok)
}

//! Writes messages and tool calls.

use rusqlite::params;
use treering_core::{ConversationId, Message, ToolCall, ToolResult, TurnNo};

use super::{Commit, Result};
use crate::embedded::codes::role_code;

impl Commit<'_> {
    pub(super) fn add_message(&mut self, id: ConversationId, message: &Message) -> Result<()> {
        let sql = "INSERT INTO messages (tenant, seq, conversation, idx, turn, turns, thread, role, at, chars, tokens,
                hash, author, external_id, text, parts, forgotten, checksum)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                checksum(?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14))";
        let (conversation, thread) = self.thread(id, &message.thread)?;
        let (seq, body) = (self.next_seq(), &message.body);
        self.execute(
            sql,
            params![
                self.tenant,
                seq,
                conversation,
                message.idx.0,
                message.turn.0,
                message.turns,
                thread,
                role_code(body.role),
                body.at.as_micros(),
                message.chars,
                message.tokens,
                message.hash.as_bytes(),
                body.author,
                body.external_id.as_ref().map(|id| id.as_str()),
                body.text,
                body.parts.as_ref().map(|parts| parts.as_str()),
                body.forgotten,
            ],
        )?;
        Ok(())
    }

    pub(super) fn add_tool_call(&mut self, id: ConversationId, it: &ToolCall) -> Result<()> {
        let sql =
            "INSERT INTO tool_calls (tenant, seq, conversation, turn, place, thread, before_idx, at, success,
                duration_ms, name, external_id, args, result, checksum)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,
                checksum(?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14))";
        let (conversation, thread) = self.thread(id, &it.thread)?;
        let (seq, outcome) = (self.next_seq(), it.call.outcome.as_ref());
        self.execute(
            sql,
            params![
                self.tenant,
                seq,
                conversation,
                it.turn.0,
                it.order,
                thread,
                it.before.0,
                it.call.at.as_micros(),
                outcome.and_then(|outcome| outcome.success),
                outcome.and_then(|outcome| outcome.duration_ms.map(|ms| ms as i64)),
                it.call.name,
                it.call.external_id.as_ref().map(|id| id.as_str()),
                it.call.args.as_str(),
                outcome.map(|outcome| outcome.result.as_str()),
            ],
        )?;
        Ok(())
    }

    /// Gives the call a new sequence number, so that readers of the change feed see it again. A
    /// call that another program modified keeps its old checksum, so that a check still detects
    /// it.
    pub(super) fn finish_tool_call(
        &mut self,
        id: ConversationId,
        turn: TurnNo,
        order: u32,
        outcome: &ToolResult,
    ) -> Result<()> {
        let sql = "UPDATE tool_calls SET seq = ?5, success = ?6, duration_ms = ?7, result = ?8,
                checksum = iif(checksum IS checksum(turn, place, thread, before_idx, at, success, duration_ms, name,
                    external_id, args, result),
                    checksum(turn, place, thread, before_idx, at, ?6, ?7, name, external_id, args, ?8), checksum)
            WHERE tenant = ?1 AND conversation = ?2 AND turn = ?3 AND place = ?4 AND result IS NULL";
        let (conversation, seq) = (self.pk(id)?, self.next_seq());
        let duration_ms = outcome.duration_ms.map(|ms| ms as i64);
        let result = outcome.result.as_str();
        let params = params![
            self.tenant,
            conversation,
            turn.0,
            order,
            seq,
            outcome.success,
            duration_ms,
            result
        ];
        self.execute(sql, params)?;
        Ok(())
    }
}

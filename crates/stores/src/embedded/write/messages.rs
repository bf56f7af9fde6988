//! Writes messages and tool calls.

use rusqlite::params;
use treering_core::{
    ConversationId, Message, MessageIdx, MessageVersion, Timestamp, ToolCall, ToolResult, TurnNo,
};

use super::{Commit, Result};
use crate::codes::role_code;

impl Commit<'_> {
    pub(super) fn add_message(&mut self, id: ConversationId, message: &Message) -> Result<()> {
        let sql = "INSERT INTO messages (tenant, seq, conversation, idx, turn, turns, thread, role, at, chars, tokens,
                hash, author, external_id, text, parts, forgotten, edited_at, wrong_at, correction, checksum)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
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
                body.edited_at.map(Timestamp::as_micros),
                body.correction.as_ref().map(|it| it.at.as_micros()),
                body.correction.as_ref().and_then(|it| it.text.as_deref()),
            ],
        )?;
        Ok(())
    }

    /// Gives the message a new sequence number, so that readers of the change feed see it again.
    pub(super) fn amend_message(
        &mut self,
        id: ConversationId,
        message: &Message,
        replaced_at: Option<Timestamp>,
    ) -> Result<()> {
        let (conversation, seq, body) = (self.pk(id)?, self.next_seq(), &message.body);
        if let Some(at) = replaced_at {
            let sql = "INSERT INTO versions (tenant, conversation, idx, replaced_at, text, parts, wrong_at, correction)
                SELECT tenant, conversation, idx, ?4, text, parts, wrong_at, correction FROM messages
                WHERE tenant = ?1 AND conversation = ?2 AND idx = ?3";
            self.execute(sql, params![self.tenant, conversation, message.idx.0, at.as_micros()])?;
        }
        let sql = "UPDATE messages SET seq = ?4, text = ?5, parts = ?6, chars = ?7, tokens = ?8, hash = ?9,
                edited_at = ?10, wrong_at = ?11, correction = ?12,
                checksum = checksum(idx, turn, turns, thread, role, at, ?7, ?8, ?9, author, external_id)
            WHERE tenant = ?1 AND conversation = ?2 AND idx = ?3";
        self.execute(
            sql,
            params![
                self.tenant,
                conversation,
                message.idx.0,
                seq,
                body.text,
                body.parts.as_ref().map(|parts| parts.as_str()),
                message.chars,
                message.tokens,
                message.hash.as_bytes(),
                body.edited_at.map(Timestamp::as_micros),
                body.correction.as_ref().map(|it| it.at.as_micros()),
                body.correction.as_ref().and_then(|it| it.text.as_deref()),
            ],
        )?;
        self.count_amendment()
    }

    fn count_amendment(&self) -> Result<()> {
        let sql = "UPDATE tenants SET amendments = amendments + 1 WHERE pk = ?1";
        self.execute(sql, [self.tenant]).map(drop)
    }

    /// Gives the call a new sequence number, like an amended message.
    pub(super) fn amend_tool_call(&mut self, id: ConversationId, it: &ToolCall) -> Result<()> {
        let sql = "UPDATE tool_calls SET seq = ?5, args = ?6, result = ?7,
                checksum = checksum(turn, place, thread, before_idx, at, success, duration_ms, name, external_id,
                    ?6, ?7)
            WHERE tenant = ?1 AND conversation = ?2 AND turn = ?3 AND place = ?4";
        let (conversation, seq) = (self.pk(id)?, self.next_seq());
        let (args, result) = (
            it.call.args.as_str(),
            it.call.outcome.as_ref().map(|outcome| outcome.result.as_str()),
        );
        let params = params![self.tenant, conversation, it.turn.0, it.order, seq, args, result];
        self.execute(sql, params)?;
        self.count_amendment()
    }

    pub(super) fn add_versions(
        &mut self,
        id: ConversationId,
        idx: MessageIdx,
        versions: &[MessageVersion],
    ) -> Result<()> {
        let sql = "INSERT INTO versions (tenant, conversation, idx, replaced_at, text, parts, wrong_at, correction)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let conversation = self.pk(id)?;
        for it in versions {
            let params = params![
                self.tenant,
                conversation,
                idx.0,
                it.replaced_at.as_micros(),
                it.text,
                it.parts.as_ref().map(|parts| parts.as_str()),
                it.correction.as_ref().map(|it| it.at.as_micros()),
                it.correction.as_ref().and_then(|it| it.text.as_deref()),
            ];
            self.execute(sql, params)?;
        }
        Ok(())
    }

    pub(super) fn forget_versions(&mut self, id: ConversationId, of: &[MessageIdx]) -> Result<()> {
        let sql = "DELETE FROM versions WHERE tenant = ?1 AND conversation = ?2 AND idx = ?3";
        let conversation = self.pk(id)?;
        for idx in of {
            self.execute(sql, params![self.tenant, conversation, idx.0])?;
        }
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
                outcome.and_then(|outcome| outcome.duration_ms.map(u64::cast_signed)),
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
        let duration_ms = outcome.duration_ms.map(u64::cast_signed);
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

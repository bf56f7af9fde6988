//! Writes messages and tool calls.

use treering_core::{
    ConversationId, Message, MessageIdx, MessageVersion, Timestamp, ToolCall, ToolResult, TurnNo,
};

use super::CommitWriter;
use crate::codes::role_code;
use crate::postgres::value::{integers, values};

const ADD_MESSAGE: &str = "INSERT INTO messages (tenant, conversation, seq, idx, turn, turns, thread, role, at, chars,
        tokens, hash, author, external_id, text, parts, forgotten, edited_at, wrong_at, correction)
    VALUES ($1, $2, seq($3), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";

const KEEP_VERSION: &str =
    "INSERT INTO versions (tenant, conversation, idx, seq, replaced_at, text, parts, wrong_at,
        correction)
    SELECT tenant, conversation, idx, seq($4), $5, text, parts, wrong_at, correction FROM messages
    WHERE tenant = $1 AND conversation = $2 AND idx = $3";

const AMEND_MESSAGE: &str =
    "UPDATE messages SET seq = seq($4), text = $5, parts = $6, chars = $7, tokens = $8, hash = $9,
        edited_at = $10, wrong_at = $11, correction = $12
    WHERE tenant = $1 AND conversation = $2 AND idx = $3";

const ADD_TOOL_CALL: &str =
    "INSERT INTO tool_calls (tenant, conversation, seq, turn, position, thread, before_idx, at,
        success, duration_ms, name, external_id, args, result)
    VALUES ($1, $2, seq($3), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

impl CommitWriter {
    pub(super) fn add_message(&mut self, id: ConversationId, message: &Message) {
        let (number, body) = (self.number(), &message.body);
        let values = values![
            number,
            message.idx.0,
            message.turn.0,
            message.turns,
            message.thread.as_str(),
            role_code(body.role),
            body.at,
            message.chars,
            message.tokens,
            message.hash.as_bytes(),
            body.author.as_deref(),
            body.external_id.as_ref().map(|id| id.as_str()),
            body.text.as_str(),
            body.parts.as_ref().map(|parts| parts.as_str()),
            body.forgotten,
            body.edited_at,
            body.correction.as_ref().map(|it| it.at),
            body.correction.as_ref().and_then(|it| it.text.as_deref()),
        ];
        self.push_for(id, ADD_MESSAGE, values);
    }

    /// Gives the message a new sequence number, so that readers of the change feed see it again.
    pub(super) fn amend_message(
        &mut self,
        id: ConversationId,
        message: &Message,
        replaced_at: Option<Timestamp>,
    ) {
        if let Some(at) = replaced_at {
            let number = self.number();
            self.push_for(id, KEEP_VERSION, values![message.idx.0, number, at]);
        }
        let (number, body) = (self.number(), &message.body);
        let values = values![
            message.idx.0,
            number,
            body.text.as_str(),
            body.parts.as_ref().map(|parts| parts.as_str()),
            message.chars,
            message.tokens,
            message.hash.as_bytes(),
            body.edited_at,
            body.correction.as_ref().map(|it| it.at),
            body.correction.as_ref().and_then(|it| it.text.as_deref()),
        ];
        self.push_for(id, AMEND_MESSAGE, values);
        self.count_revision();
    }

    pub(super) fn count_revision(&mut self) {
        self.push("UPDATE tenants SET revision = revision + 1 WHERE tenant = $1", Vec::new());
    }

    /// Gives the call a new sequence number, like an amended message.
    pub(super) fn amend_tool_call(&mut self, id: ConversationId, it: &ToolCall) {
        let sql = "UPDATE tool_calls SET seq = seq($5), args = $6, result = $7
            WHERE tenant = $1 AND conversation = $2 AND turn = $3 AND position = $4";
        let result = it.call.outcome.as_ref().map(|outcome| outcome.result.as_str());
        let number = self.number();
        let values = values![it.turn.0, it.order, number, it.call.args.as_str(), result];
        self.push_for(id, sql, values);
        self.count_revision();
    }

    pub(super) fn add_versions(
        &mut self,
        id: ConversationId,
        idx: MessageIdx,
        versions: &[MessageVersion],
    ) {
        let sql = "INSERT INTO versions (tenant, conversation, idx, seq, replaced_at, text, parts, wrong_at, correction)
            VALUES ($1, $2, $3, seq($4), $5, $6, $7, $8, $9)";
        for it in versions {
            let number = self.number();
            let values = values![
                idx.0,
                number,
                it.replaced_at,
                it.text.as_str(),
                it.parts.as_ref().map(|parts| parts.as_str()),
                it.correction.as_ref().map(|it| it.at),
                it.correction.as_ref().and_then(|it| it.text.as_deref()),
            ];
            self.push_for(id, sql, values);
        }
    }

    pub(super) fn forget_versions(&mut self, id: ConversationId, of: &[MessageIdx]) {
        let sql = "DELETE FROM versions WHERE tenant = $1 AND conversation = $2 AND idx = ANY ($3)";
        self.push_for(id, sql, vec![integers(of.iter().map(|idx| idx.0))]);
    }

    pub(super) fn add_tool_call(&mut self, id: ConversationId, it: &ToolCall) {
        let (number, outcome) = (self.number(), it.call.outcome.as_ref());
        let values = values![
            number,
            it.turn.0,
            it.order,
            it.thread.as_str(),
            it.before.0,
            it.call.at,
            outcome.and_then(|outcome| outcome.success),
            outcome.and_then(|outcome| outcome.duration_ms),
            it.call.name.as_str(),
            it.call.external_id.as_ref().map(|id| id.as_str()),
            it.call.args.as_str(),
            outcome.map(|outcome| outcome.result.as_str()),
        ];
        self.push_for(id, ADD_TOOL_CALL, values);
    }

    /// Gives the call a new sequence number, so that readers of the change feed see it again.
    pub(super) fn finish_tool_call(
        &mut self,
        id: ConversationId,
        turn: TurnNo,
        order: u32,
        outcome: &ToolResult,
    ) {
        let sql = "UPDATE tool_calls SET seq = seq($5), success = $6, duration_ms = $7, result = $8
            WHERE tenant = $1 AND conversation = $2 AND turn = $3 AND position = $4 AND result IS NULL";
        let number = self.number();
        let result = outcome.result.as_str();
        let values = values![turn.0, order, number, outcome.success, outcome.duration_ms, result];
        self.push_for(id, sql, values);
    }
}

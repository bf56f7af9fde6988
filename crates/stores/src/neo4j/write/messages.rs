//! Changes messages and tool calls that exist.

use treering_core::{
    ConversationId, Message, MessageIdx, MessageVersion, Timestamp, ToolCall, ToolResult, TurnNo,
};

use super::StatementBuilder;
use super::additions::recalled;
use crate::neo4j::bolt::BoltValue;
use crate::neo4j::values::map;

const MESSAGE: &str = "MATCH (m:TreeringMessage {tenant: $tenant, sessionId: $session, idx: $idx})";
const TOOL_CALL: &str =
    "MATCH (t:ToolCall {tenant: $tenant, sessionId: $session, turnIndex: $turn, order: $order})";

/// Rebuilds the turns of messages from them, and drops their embeddings.
const REFRESH_TURNS: &str = "UNWIND $positions AS idx
    MATCH (:TreeringMessage {tenant: $tenant, sessionId: $session, idx: idx})
        <-[:HAS_MESSAGE]-(n:ConversationTurn)
    WITH DISTINCT n MATCH (n)-[:HAS_MESSAGE]->(m:TreeringMessage)
    WITH n, m ORDER BY m.idx
    WITH n, sum(m.chars) AS chars,
        [it IN collect([m.role, coalesce(m.recalled, m.text)]) WHERE it[1] <> ''] AS texts
    SET n.charCount = chars, n.embedding = null, n.embedding_hash = null,
        n.userMessage = reduce(all = '', it IN [it IN texts WHERE it[0] = 'user'] |
            CASE all WHEN '' THEN it[1] ELSE all + '\\n' + it[1] END),
        n.assistantMessage = reduce(all = '', it IN [it IN texts WHERE it[0] = 'assistant'] |
            CASE all WHEN '' THEN it[1] ELSE all + '\\n' + it[1] END)";

impl StatementBuilder<'_> {
    /// Gives the message a new sequence number, so that readers of the change feed see it again.
    pub(super) fn amend_message(
        &mut self,
        id: ConversationId,
        message: &Message,
        replaced_at: Option<Timestamp>,
    ) {
        let (order, seq, body) = (self.next_seq(), self.next_seq(), &message.body);
        let idx = || ("idx", message.idx.0.into());
        if let Some(at) = replaced_at {
            let query = format!(
                "{MESSAGE} CREATE (m)-[:HAS_VERSION]->(:TreeringVersion {{tenant: $tenant,
                    sessionId: $session, idx: $idx, order: $order, replacedAt: $at, text: m.text,
                    parts: m.parts, correctedAt: m.correctedAt, correction: m.correction}})"
            );
            self.run(id, query, [idx(), ("order", order.into()), ("at", at.into())]);
        }
        let properties = map([
            ("seq", seq.into()),
            ("text", (&body.text).into()),
            ("parts", body.parts.as_ref().map(|parts| parts.as_str()).into()),
            ("chars", message.chars.into()),
            ("tokens", message.tokens.into()),
            ("hash", message.hash.into()),
            ("editedAt", body.edited_at.into()),
            ("correctedAt", body.correction.as_ref().map(|it| it.at).into()),
            ("correction", body.correction.as_ref().and_then(|it| it.text.as_deref()).into()),
            ("recalled", recalled(message)),
        ]);
        self.run(
            id,
            format!("{MESSAGE} SET m += $properties"),
            [idx(), ("properties", properties)],
        );
        self.refresh_turns(id, &[message.idx]);
        self.audit_revision += 1;
    }

    pub(super) fn refresh_turns(&mut self, id: ConversationId, of: &[MessageIdx]) {
        let positions: Vec<u32> = of.iter().map(|idx| idx.0).collect();
        self.run(id, REFRESH_TURNS, [("positions", positions.into())]);
    }

    /// Gives the call a new sequence number, like an amended message.
    pub(super) fn amend_tool_call(&mut self, id: ConversationId, it: &ToolCall) {
        let outcome = it.call.outcome.as_ref();
        let properties = map([
            ("toolArgs", it.call.args.as_str().into()),
            ("toolResult", outcome.map(|outcome| outcome.result.as_str()).into()),
        ]);
        self.change_tool_call(id, it.turn, it.order, "true", properties);
        self.audit_revision += 1;
    }

    /// Gives the call a new sequence number, so that readers of the change feed see it again.
    pub(super) fn finish_tool_call(
        &mut self,
        id: ConversationId,
        turn: TurnNo,
        order: u32,
        outcome: &ToolResult,
    ) {
        let properties = map([
            ("success", outcome.success.into()),
            ("durationMs", outcome.duration_ms.into()),
            ("toolResult", outcome.result.as_str().into()),
        ]);
        self.change_tool_call(id, turn, order, "t.toolResult IS NULL", properties);
    }

    /// Changes a tool call that meets a condition. The embedding of its turn is out of date then.
    pub(super) fn change_tool_call(
        &mut self,
        id: ConversationId,
        turn: TurnNo,
        order: u32,
        condition: &str,
        properties: BoltValue,
    ) {
        let seq = self.next_seq();
        let query = format!(
            "{TOOL_CALL} WHERE {condition} SET t += $properties, t.seq = $seq
            WITH t MATCH (t)<-[:HAS_TOOL_CALL]-(n:ConversationTurn)
            SET n.embedding = null, n.embedding_hash = null"
        );
        let place = [("turn", turn.0.into()), ("order", order.into())];
        let [turn, order] = place;
        self.run(id, query, [turn, order, ("seq", seq.into()), ("properties", properties)]);
    }

    pub(super) fn add_versions(
        &mut self,
        id: ConversationId,
        idx: MessageIdx,
        versions: &[MessageVersion],
    ) {
        let mut rows = Vec::new();
        for it in versions {
            rows.push(map([
                ("tenant", self.base.tenant.into()),
                ("sessionId", id.into()),
                ("idx", idx.0.into()),
                ("order", self.next_seq().into()),
                ("replacedAt", it.replaced_at.into()),
                ("text", (&it.text).into()),
                ("parts", it.parts.as_ref().map(|parts| parts.as_str()).into()),
                ("correctedAt", it.correction.as_ref().map(|it| it.at).into()),
                ("correction", it.correction.as_ref().and_then(|it| it.text.as_deref()).into()),
            ]));
        }
        let query = format!(
            "{MESSAGE} UNWIND $versions AS row
            CREATE (m)-[:HAS_VERSION]->(v:TreeringVersion) SET v = row"
        );
        self.run(id, query, [("idx", idx.0.into()), ("versions", BoltValue::List(rows))]);
    }

    pub(super) fn forget_versions(&mut self, id: ConversationId, of: &[MessageIdx]) {
        let query = "UNWIND $positions AS idx
            MATCH (v:TreeringVersion {tenant: $tenant, sessionId: $session, idx: idx})
            DETACH DELETE v";
        let positions: Vec<u32> = of.iter().map(|idx| idx.0).collect();
        self.run(id, query, [("positions", positions.into())]);
    }
}

//! Writes conversations, and removes them with everything that belongs to them.

use treering_core::{Conversation, ConversationId};

use super::StatementBuilder;
use crate::neo4j::bolt::BoltValue;
use crate::neo4j::read::kind_name;
use crate::neo4j::values::json_text;
use crate::row_codec::encode_threads;

impl StatementBuilder<'_> {
    /// Writes the properties that differ from those that the plan saw.
    pub(super) fn put_conversation(&mut self, it: &Conversation) {
        let mut changed = properties(it);
        // Only the first write of the conversation in a commit starts from what the plan saw.
        let known = self.base.known.take();
        if let Some(known) = known.filter(|known| known.id == it.id) {
            let known = properties(known);
            changed.retain(|entry| !known.contains(entry));
        }
        let query = "MERGE (c:ConversationSession {tenant: $tenant, sessionId: $session})
            SET c += $properties";
        self.run(it.id, query, [("properties", BoltValue::Map(changed))]);
    }

    /// The cost of the conversation stays in the ledger.
    pub(super) fn remove_conversation(&mut self, id: ConversationId) {
        let seq = self.next_seq();
        // The last property of the key, so that its index is used.
        for (label, last) in [
            ("TreeringMessage", "idx"),
            ("TreeringVersion", "idx"),
            ("ToolCall", "sessionId"),
            ("ConversationTurn", "turnIndex"),
            ("ConversationSummary", "sessionId"),
            ("TreeringJob", "sessionId"),
            ("TreeringJobEvent", "sessionId"),
            ("ConversationSession", "sessionId"),
        ] {
            let query = format!(
                "MATCH (n:{label}) WHERE n.tenant = $tenant AND n.sessionId = $session
                    AND n.{last} IS NOT NULL
                DETACH DELETE n"
            );
            self.run(id, query, []);
        }
        let keep_cost = "MATCH (old:TreeringSpend) WHERE old.tenant = $tenant
                AND old.sessionId = $session
            MERGE (s:TreeringSpend {tenant: $tenant, day: old.day, sessionId: '', model: old.model})
            SET s.calls = coalesce(s.calls, 0) + old.calls,
                s.tokensIn = coalesce(s.tokensIn, 0) + old.tokensIn,
                s.tokensOut = coalesce(s.tokensOut, 0) + old.tokensOut,
                s.nanodollars = coalesce(s.nanodollars, 0) + old.nanodollars,
                s.unpriced = coalesce(s.unpriced, 0) + old.unpriced
            DELETE old";
        self.run(id, keep_cost, []);
        let removal = "CREATE (:TreeringRemoval {tenant: $tenant, sessionId: $session, seq: $seq})";
        self.run(id, removal, [("seq", seq.into())]);
    }
}

/// The properties of a conversation. A null removes the property.
fn properties(it: &Conversation) -> Vec<(String, BoltValue)> {
    let labels: Vec<String> = it.labels.to_vec().iter().map(ToString::to_string).collect();
    let threads = encode_threads(&it.threads).map_or(BoltValue::Null, BoltValue::Text);
    let entries: [(&str, BoltValue); 20] = [
        ("slug", (&it.slug).into()),
        ("kind", kind_name(it.kind()).into()),
        ("title", it.title.as_deref().into()),
        ("titleSource", it.title_source.as_str().into()),
        ("participants", it.participants.clone().into()),
        ("cwd", it.cwd.as_deref().into()),
        ("projectPath", it.project_path.as_deref().into()),
        ("startTime", it.started_at.into()),
        ("lastActivity", it.last_activity.into()),
        ("state", it.state.as_str().into()),
        ("externalId", it.external_id.as_ref().map(|id| id.as_str()).into()),
        ("labels", labels.into()),
        ("messages", it.totals.messages.into()),
        ("turns", it.totals.turns.into()),
        ("toolCalls", it.totals.tool_calls.into()),
        ("chars", it.totals.chars.into()),
        ("tokens", it.totals.tokens.into()),
        ("threads", threads),
        ("policy", json_text(&it.policy)),
        ("treeState", json_text(&it.tree_state)),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

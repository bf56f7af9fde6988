//! Writes conversations.

use treering_core::Conversation;

use super::{CommitWriter, json_text};
use crate::codes::{state_code, title_source_code};
use crate::postgres::error::Outcome;
use crate::postgres::value::{UndecodableRow, texts, values};
use crate::row_codec::encode_threads;

/// Updates the columns that an index covers only where they changed, so that most commits touch no index.
const PUT: &str = "INSERT INTO conversations AS c (tenant, id, version, slug, title, title_source, participants, cwd,
        project_path, started_at, last_activity, state, external_id, messages, turns, tool_calls, chars, tokens, threads,
        policy, tree_state, labels)
    VALUES ($1, $2, seq($3), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
    ON CONFLICT (tenant, id) DO UPDATE SET version = excluded.version, slug = excluded.slug, title = excluded.title,
        title_source = excluded.title_source, participants = excluded.participants, cwd = excluded.cwd,
        project_path = excluded.project_path, started_at = excluded.started_at, last_activity = excluded.last_activity,
        state = excluded.state, external_id = excluded.external_id, messages = excluded.messages, turns = excluded.turns,
        tool_calls = excluded.tool_calls, chars = excluded.chars, tokens = excluded.tokens, threads = excluded.threads,
        policy = excluded.policy, tree_state = excluded.tree_state, labels = excluded.labels";

impl CommitWriter {
    pub(super) fn put_conversation(&mut self, it: &Conversation) -> Outcome<()> {
        let labels: Vec<String> =
            it.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let number = self.number();
        let values = values![
            number,
            it.slug.as_str(),
            it.title.as_deref(),
            title_source_code(it.title_source),
            json_text(&it.participants)?,
            it.cwd.as_deref(),
            it.project_path.as_deref(),
            it.started_at,
            it.last_activity,
            state_code(it.state),
            it.external_id.as_ref().map(|id| id.as_str()),
            it.totals.messages,
            it.totals.turns,
            it.totals.tool_calls,
            it.totals.chars,
            it.totals.tokens,
            encode_threads(&it.threads).map_err(UndecodableRow::new)?,
            json_text(&it.policy)?,
            json_text(&it.tree_state)?,
            texts(labels.iter().map(String::as_str)),
        ];
        self.push_for(it.id, PUT, values);
        self.versioned.insert(it.id);
        Ok(())
    }
}

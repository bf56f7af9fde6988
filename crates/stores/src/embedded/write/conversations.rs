//! Writes conversations.

use std::collections::BTreeMap;

use rusqlite::params;
use treering_core::{Conversation, Labels};

use super::{Commit, Result, TargetConversation, json_text, stored_json};
use crate::codes::{state_code, title_source_code};
use crate::row_codec::encode_threads;

/// Updates a conversation whose slug, paths and external id did not change, which is the common
/// case and leaves their indexes alone. A row that another program modified keeps its old
/// checksum, so that a check still detects it.
const UPDATE_COUNTS: &str =
    "UPDATE conversations SET title = ?3, participants = ?4, started_at = ?5, last_activity = ?6,
        state = ?7, messages = ?8, turns = ?9, tool_calls = ?10, chars = ?11, tokens = ?12, naming = ?13,
        threads = ?14, policy = ?15, growth = ?16,
        checksum = iif(checksum IS checksum(id, slug, title, naming, participants, cwd, project_path, state,
            external_id, policy), checksum(id, slug, ?3, ?13, ?4, cwd, project_path, ?7, external_id, ?15), checksum)
    WHERE tenant = ?1 AND id = ?2 AND slug = ?17 AND cwd IS ?18 AND project_path IS ?19 AND external_id IS ?20
    RETURNING pk";

const UPSERT: &str = "INSERT INTO conversations (tenant, id, title, participants, started_at, last_activity, state,
        messages, turns, tool_calls, chars, tokens, naming, threads, policy, growth, slug, cwd, project_path,
        external_id, checksum)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
        checksum(?2, ?17, ?3, ?13, ?4, ?18, ?19, ?7, ?20, ?15))
    ON CONFLICT (tenant, id) DO UPDATE SET title = ?3, participants = ?4, started_at = ?5, last_activity = ?6,
        state = ?7, messages = ?8, turns = ?9, tool_calls = ?10, chars = ?11, tokens = ?12, naming = ?13,
        threads = ?14, policy = ?15, growth = ?16, slug = ?17, cwd = ?18, project_path = ?19, external_id = ?20,
        checksum = checksum(?2, ?17, ?3, ?13, ?4, ?18, ?19, ?7, ?20, ?15)
    RETURNING pk";

impl Commit<'_> {
    pub(super) fn put_conversation(&mut self, it: &Conversation) -> Result<()> {
        let (participants, threads) =
            (json_text(&it.participants)?, stored_json(encode_threads(&it.threads))?);
        let (policy, growth) = (json_text(&it.policy)?, json_text(&it.tree_state)?);
        let params = params![
            self.tenant,
            it.id.as_bytes(),
            it.title,
            participants,
            it.started_at.as_micros(),
            it.last_activity.as_micros(),
            state_code(it.state),
            it.totals.messages,
            it.totals.turns,
            it.totals.tool_calls,
            it.totals.chars as i64,
            it.totals.tokens as i64,
            title_source_code(it.title_source),
            threads,
            policy,
            growth,
            it.slug,
            it.cwd,
            it.project_path,
            it.external_id.as_ref().map(|id| id.as_str()),
        ];
        let pk = |sql| self.connection.prepare_cached(sql)?.query_row(params, |row| row.get(0));
        let pk = match pk(UPDATE_COUNTS) {
            Err(rusqlite::Error::QueryReturnedNoRows) => pk(UPSERT)?,
            tree_state => tree_state?,
        };
        self.put_labels(pk, &it.labels)?;
        let threads = it.threads.iter().map(|thread| thread.name.clone()).collect();
        self.last = Some(TargetConversation { id: it.id, pk, threads });
        Ok(())
    }

    /// Writes only the labels that differ: most commits change none.
    fn put_labels(&self, conversation: i64, labels: &Labels) -> Result<()> {
        let find = "SELECT name, value FROM labels WHERE tenant = ?1 AND conversation = ?2";
        let of_row = params![self.tenant, conversation];
        let stored: BTreeMap<String, String> = self
            .connection
            .prepare_cached(find)?
            .query_map(of_row, |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_>>()?;
        let delete = "DELETE FROM labels WHERE tenant = ?1 AND conversation = ?2 AND name = ?3";
        for name in stored.keys().filter(|name| labels.get(name).is_none()) {
            self.execute(delete, params![self.tenant, conversation, name])?;
        }
        let put = "INSERT INTO labels (tenant, conversation, name, value, checksum)
            VALUES (?1, ?2, ?3, ?4, checksum(?3, ?4))
            ON CONFLICT (tenant, conversation, name) DO UPDATE SET value = ?4, checksum = checksum(?3, ?4)";
        for (name, value) in labels
            .iter()
            .filter(|(name, value)| stored.get(*name).is_none_or(|stored| stored != value))
        {
            self.execute(put, params![self.tenant, conversation, name, value])?;
        }
        Ok(())
    }
}

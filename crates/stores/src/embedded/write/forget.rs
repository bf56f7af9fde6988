//! Writes placeholders, removals, the audit and tombstones.

use rusqlite::params;
use treering_core::{AuditRecord, ConversationId, JobEventKind, Level, MessageIdx, NewMessage};
use treering_core::{NewToolCall, Role, Timestamp, Tombstone, TombstoneSet, TurnNo};

use super::{Commit, Result, json_text};
use crate::codes::{self, event_code};
use crate::embedded::read::salt;

/// The kinds of job events whose text may quote the input of a model.
const QUOTING: [JobEventKind; 3] = [JobEventKind::Fail, JobEventKind::Dead, JobEventKind::Ask];

impl Commit<'_> {
    /// Gives each message a new sequence number, so that readers of the change feed see the
    /// placeholder.
    pub(super) fn forget_messages(&mut self, id: ConversationId, of: &[MessageIdx]) -> Result<()> {
        let find =
            "SELECT role, at FROM messages WHERE tenant = ?1 AND conversation = ?2 AND idx = ?3";
        let sql = "UPDATE messages SET seq = ?4, forgotten = 1, text = '', author = NULL, external_id = NULL,
                parts = NULL, chars = 0, tokens = 0, hash = ?5, edited_at = NULL, wrong_at = NULL, correction = NULL,
                checksum = checksum(idx, turn, turns, thread, role, at, 0, 0, ?5, NULL, NULL)
            WHERE tenant = ?1 AND conversation = ?2 AND idx = ?3";
        let conversation = self.pk(id)?;
        for idx in of {
            let row = params![self.tenant, conversation, idx.0];
            let (role, at): (i64, i64) = self
                .connection
                .prepare_cached(find)?
                .query_row(row, |row| Ok((row.get(0)?, row.get(1)?)))?;
            let role = codes::role(role).unwrap_or(Role::User);
            let hash = NewMessage::placeholder(role, Timestamp::from_micros(at)).hash();
            let seq = self.next_seq();
            self.execute(sql, params![self.tenant, conversation, idx.0, seq, hash.as_bytes()])?;
        }
        self.forget_versions(id, of)
    }

    pub(super) fn forget_tool_calls(
        &mut self,
        id: ConversationId,
        of: &[(TurnNo, u32)],
    ) -> Result<()> {
        let sql = "UPDATE tool_calls SET seq = ?5, success = NULL, duration_ms = NULL, name = ?6,
                external_id = NULL, args = ?7, result = ?8,
                checksum = checksum(turn, place, thread, before_idx, at, NULL, NULL, ?6, NULL, ?7, ?8)
            WHERE tenant = ?1 AND conversation = ?2 AND turn = ?3 AND place = ?4";
        let conversation = self.pk(id)?;
        let NewToolCall { name, args, outcome, .. } =
            NewToolCall::placeholder(Timestamp::from_micros(0));
        let result = outcome.as_ref().map(|outcome| outcome.result.as_str());
        for (turn, order) in of {
            let (tenant, seq) = (self.tenant, self.next_seq());
            let params =
                params![tenant, conversation, turn.0, order, seq, name, args.as_str(), result];
            self.execute(sql, params)?;
        }
        Ok(())
    }

    pub(super) fn remove_nodes(
        &mut self,
        id: ConversationId,
        level: Level,
        ordinals: &[u32],
    ) -> Result<()> {
        let sql = "DELETE FROM nodes WHERE tenant = ?1 AND conversation = ?2 AND level = ?3 AND ordinal = ?4";
        let conversation = self.pk(id)?;
        for ordinal in ordinals {
            self.execute(sql, params![self.tenant, conversation, level.number(), ordinal])?;
        }
        Ok(())
    }

    pub(super) fn forget_errors(&mut self, id: ConversationId) -> Result<()> {
        let conversation = self.pk(id)?;
        let jobs = "UPDATE jobs SET error = NULL
            WHERE tenant = ?1 AND conversation = ?2 AND error IS NOT NULL";
        self.execute(jobs, params![self.tenant, conversation])?;
        let events =
            "UPDATE log SET text = '' WHERE tenant = ?1 AND conversation = ?2 AND event = ?3";
        for kind in QUOTING {
            self.execute(events, params![self.tenant, conversation, event_code(kind)])?;
        }
        // A summary by the fallback says why after a semicolon.
        let notes = "UPDATE log SET text = substr(text, 1, instr(text, ';') - 1)
            WHERE tenant = ?1 AND conversation = ?2 AND event = ?3 AND instr(text, ';') > 0";
        let released = event_code(JobEventKind::Release);
        self.execute(notes, params![self.tenant, conversation, released])?;
        Ok(())
    }

    pub(super) fn remove_conversation(&mut self, id: ConversationId) -> Result<()> {
        let (conversation, seq) = (self.pk(id)?, self.next_seq());
        let of_row = params![self.tenant, conversation];
        for table in ["labels", "messages", "versions", "tool_calls", "nodes", "jobs", "log"] {
            let sql = format!("DELETE FROM {table} WHERE tenant = ?1 AND conversation = ?2");
            self.execute(&sql, of_row)?;
        }
        self.execute("DELETE FROM conversations WHERE tenant = ?1 AND pk = ?2", of_row)?;
        self.last = None;
        let keep_cost = "INSERT INTO spend (tenant, day, conversation, model, calls, tokens_in, tokens_out,
                nanodollars, unpriced)
            SELECT tenant, day, x'', model, calls, tokens_in, tokens_out, nanodollars, unpriced
                FROM spend WHERE tenant = ?1 AND conversation = ?2
            ON CONFLICT (tenant, day, conversation, model) DO UPDATE SET calls = calls + excluded.calls,
                tokens_in = tokens_in + excluded.tokens_in, tokens_out = tokens_out + excluded.tokens_out,
                nanodollars = nanodollars + excluded.nanodollars, unpriced = unpriced + excluded.unpriced";
        let of_id = params![self.tenant, id.as_bytes()];
        self.execute(keep_cost, of_id)?;
        self.execute("DELETE FROM spend WHERE tenant = ?1 AND conversation = ?2", of_id)?;
        let removal = "INSERT INTO removals (tenant, seq, id) VALUES (?1, ?2, ?3)";
        self.execute(removal, params![self.tenant, seq, id.as_bytes()])?;
        Ok(())
    }

    pub(super) fn add_audit_record(&mut self, record: &AuditRecord) -> Result<()> {
        let sql = "INSERT INTO audit (tenant, id, record) VALUES (?1, ?2, ?3)";
        let params = params![self.tenant, record.id, json_text(record)?];
        let pk = self.connection.prepare_cached(sql)?.insert(params)?;
        self.execute("INSERT INTO scrubs (audit) VALUES (?1)", [pk])?;
        Ok(())
    }

    pub(super) fn add_tombstones(&mut self, record: &str, of: &[Tombstone]) -> Result<()> {
        let sql = "INSERT INTO tombstones (tenant, hash, audit)
            VALUES (?1, ?2, (SELECT pk FROM audit WHERE tenant = ?1 AND id = ?3))
            ON CONFLICT (tenant, hash) DO NOTHING";
        let salt = salt(self.connection)?;
        for tombstone in of {
            let hash = tombstone.hash(&salt);
            self.execute(sql, params![self.tenant, hash.as_bytes(), record])?;
        }
        Ok(())
    }

    pub(super) fn take_over_tombstones(
        &mut self,
        record: &AuditRecord,
        of: &TombstoneSet,
    ) -> Result<()> {
        let sql = "INSERT INTO audit (tenant, id, record) VALUES (?1, ?2, ?3)";
        let params = params![self.tenant, record.id, json_text(record)?];
        let pk = self.connection.prepare_cached(sql)?.insert(params)?;
        let add_salt = "INSERT INTO salts (salt) SELECT ?1
            WHERE NOT EXISTS (SELECT 1 FROM salts WHERE salt = ?1)";
        for salt in &of.salts {
            self.execute(add_salt, [salt])?;
        }
        let add = "INSERT INTO tombstones (tenant, hash, audit) VALUES (?1, ?2, ?3)
            ON CONFLICT (tenant, hash) DO NOTHING";
        for hash in &of.hashes {
            self.execute(add, params![self.tenant, hash.as_bytes(), pk])?;
        }
        Ok(())
    }

    pub(super) fn remove_tombstones(&mut self, record: &str) -> Result<()> {
        let sql = "DELETE FROM tombstones WHERE tenant = ?1
            AND audit = (SELECT pk FROM audit WHERE tenant = ?1 AND id = ?2)";
        self.execute(sql, params![self.tenant, record])?;
        Ok(())
    }
}

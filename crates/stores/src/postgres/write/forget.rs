//! Writes placeholders, removals, the audit and tombstones.

use treering_core::{
    AuditRecord, ConversationId, JobEventKind, MessageIdx, NewMessage, NewToolCall, Role,
    Timestamp, Tombstone, TombstoneSet, TurnNo,
};

use super::{CommitWriter, json_text};
use crate::codes::{event_code, role_code};
use crate::postgres::error::Outcome;
use crate::postgres::value::{SqlValue, blobs, values};

/// The kinds of job events whose text may quote the input of a model.
const QUOTING: [JobEventKind; 3] = [JobEventKind::Fail, JobEventKind::Dead, JobEventKind::Ask];

impl CommitWriter {
    /// Gives each message a new sequence number, so that readers of the change feed see the
    /// placeholder. The hash of a placeholder depends on its role alone.
    pub(super) fn forget_messages(&mut self, id: ConversationId, of: &[MessageIdx]) {
        let sql = "UPDATE messages SET seq = seq($4), forgotten = true, text = '', author = NULL, external_id = NULL,
                parts = NULL, chars = 0, tokens = 0, hash = $6, edited_at = NULL, wrong_at = NULL, correction = NULL
            WHERE tenant = $1 AND conversation = $2 AND idx = $3 AND role = $5";
        for idx in of {
            let number = self.number();
            for role in Role::ALL {
                let hash = NewMessage::placeholder(role, Timestamp::from_micros(0)).hash();
                let values = values![idx.0, number, role_code(role), hash.as_bytes()];
                self.push_for(id, sql, values);
            }
        }
        self.forget_versions(id, of);
    }

    pub(super) fn forget_tool_calls(&mut self, id: ConversationId, of: &[(TurnNo, u32)]) {
        let sql = "UPDATE tool_calls SET seq = seq($5), success = NULL, duration_ms = NULL, name = $6, external_id = NULL,
                args = $7, result = $8
            WHERE tenant = $1 AND conversation = $2 AND turn = $3 AND position = $4";
        let NewToolCall { name, args, outcome, .. } =
            NewToolCall::placeholder(Timestamp::from_micros(0));
        let result = outcome.as_ref().map(|outcome| outcome.result.as_str());
        for (turn, order) in of {
            let number = self.number();
            let values = values![turn.0, *order, number, name.as_str(), args.as_str(), result];
            self.push_for(id, sql, values);
        }
    }

    pub(super) fn forget_errors(&mut self, id: ConversationId) {
        let jobs = "UPDATE jobs SET error = NULL
            WHERE tenant = $1 AND conversation = $2 AND error IS NOT NULL";
        self.push_for(id, jobs, Vec::new());
        let events = "UPDATE job_events SET text = ''
            WHERE tenant = $1 AND conversation = $2 AND event = ANY ($3)";
        let quoting = QUOTING.map(event_code).to_vec();
        self.push_for(id, events, vec![SqlValue::Integers(quoting)]);
        // A summary by the fallback says why after a semicolon.
        let notes = "UPDATE job_events SET text = split_part(text, ';', 1)
            WHERE tenant = $1 AND conversation = $2 AND event = $3 AND strpos(text, ';') > 0";
        self.push_for(id, notes, values![event_code(JobEventKind::Release)]);
    }

    pub(super) fn remove_conversation(&mut self, id: ConversationId) {
        // Fails if the conversation does not exist.
        self.version(&[id]);
        for sql in [
            "DELETE FROM messages WHERE tenant = $1 AND conversation = $2",
            "DELETE FROM versions WHERE tenant = $1 AND conversation = $2",
            "DELETE FROM tool_calls WHERE tenant = $1 AND conversation = $2",
            "DELETE FROM nodes WHERE tenant = $1 AND conversation = $2",
            "DELETE FROM jobs WHERE tenant = $1 AND conversation = $2",
            "DELETE FROM job_events WHERE tenant = $1 AND conversation = $2",
            "DELETE FROM conversations WHERE tenant = $1 AND id = $2",
            "INSERT INTO spend AS s (tenant, day, conversation, model, calls, tokens_in, tokens_out, nanodollars, unpriced)
                SELECT tenant, day, '', model, calls, tokens_in, tokens_out, nanodollars, unpriced
                    FROM spend WHERE tenant = $1 AND conversation = $2
                ON CONFLICT (tenant, day, conversation, model) DO UPDATE SET calls = s.calls + excluded.calls,
                    tokens_in = s.tokens_in + excluded.tokens_in, tokens_out = s.tokens_out + excluded.tokens_out,
                    nanodollars = s.nanodollars + excluded.nanodollars, unpriced = s.unpriced + excluded.unpriced",
            "DELETE FROM spend WHERE tenant = $1 AND conversation = $2",
        ] {
            self.push_for(id, sql, Vec::new());
        }
        let number = self.number();
        let removal = "INSERT INTO removals (tenant, conversation, seq) VALUES ($1, $2, seq($3))";
        self.push_for(id, removal, values![number]);
        self.touched.remove(&id);
    }

    pub(super) fn add_audit_record(
        &mut self,
        record: &AuditRecord,
        is_scrubbed: bool,
    ) -> Outcome<()> {
        let sql = "INSERT INTO audit (tenant, id, seq, record, is_scrubbed) VALUES ($1, $2, seq($3), $4, $5)";
        let number = self.number();
        self.push(sql, values![record.id.as_str(), number, json_text(record)?, is_scrubbed]);
        self.count_revision();
        Ok(())
    }

    pub(super) fn add_tombstones(&mut self, record: &str, of: &[Tombstone]) {
        let hashes: Vec<_> = of.iter().map(|tombstone| tombstone.hash(&self.salt)).collect();
        let hashes = blobs(hashes.iter().map(|hash| &hash.as_bytes()[..]));
        self.put_tombstones(record, hashes);
    }

    fn put_tombstones(&mut self, record: &str, hashes: SqlValue) {
        let sql = "INSERT INTO tombstones (tenant, hash, audit) SELECT $1, hash, $3 FROM unnest($2::bytea[]) AS hash
            ON CONFLICT (tenant, hash) DO NOTHING";
        self.push(sql, values![hashes, record]);
    }

    pub(super) fn take_over_tombstones(
        &mut self,
        record: &AuditRecord,
        of: &TombstoneSet,
    ) -> Outcome<()> {
        // Nothing was erased here.
        self.add_audit_record(record, true)?;
        let number = self.number();
        let salts = "INSERT INTO salts (tenant, salt, seq) SELECT $1, salt, seq($3) FROM unnest($2::bytea[]) AS salt
            ON CONFLICT (tenant, salt) DO NOTHING";
        self.push(salts, values![blobs(of.salts.iter().map(Vec::as_slice)), number]);
        let hashes = blobs(of.hashes.iter().map(|hash| &hash.as_bytes()[..]));
        self.put_tombstones(&record.id, hashes);
        Ok(())
    }

    pub(super) fn remove_tombstones(&mut self, record: &str) {
        self.push("DELETE FROM tombstones WHERE tenant = $1 AND audit = $2", values![record]);
    }
}

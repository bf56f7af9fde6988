//! Writes placeholders, the audit and tombstones.

use treering_core::{
    AuditRecord, ContentHash, ConversationId, JobEventKind, MessageIdx, NewMessage, NewToolCall,
    Role, Timestamp, Tombstone, TombstoneSet, TurnNo,
};

use super::StatementBuilder;
use crate::neo4j::bolt::BoltValue;
use crate::neo4j::read::to_hex;
use crate::neo4j::values::{json_text, map};

/// The kinds of job events whose text may quote the input of a model.
const QUOTING: [JobEventKind; 3] = [JobEventKind::Fail, JobEventKind::Dead, JobEventKind::Ask];

impl StatementBuilder<'_> {
    /// Gives each message a new sequence number, so that readers of the change feed see the
    /// placeholder.
    pub(super) fn forget_messages(&mut self, id: ConversationId, of: &[MessageIdx]) {
        let mut rows = Vec::new();
        for idx in of {
            rows.push(map([("idx", idx.0.into()), ("seq", self.next_seq().into())]));
        }
        // The hash of a placeholder depends on its role alone.
        let hash = |role: Role| {
            let hash = NewMessage::placeholder(role, Timestamp::from_micros(0)).hash();
            (role.as_str().to_owned(), hash.into())
        };
        let hashes = BoltValue::Map(Role::ALL.map(hash).into());
        let query = "UNWIND $rows AS row
            MATCH (m:TreeringMessage {tenant: $tenant, sessionId: $session, idx: row.idx})
            SET m.seq = row.seq, m.forgotten = true, m.text = '', m.author = null,
                m.externalId = null, m.parts = null, m.chars = 0, m.tokens = 0,
                m.hash = $hashes[m.role], m.editedAt = null, m.correctedAt = null,
                m.correction = null, m.recalled = null";
        self.run(id, query, [("rows", BoltValue::List(rows)), ("hashes", hashes)]);
        self.forget_versions(id, of);
        self.refresh_turns(id, of);
    }

    pub(super) fn forget_tool_calls(&mut self, id: ConversationId, of: &[(TurnNo, u32)]) {
        let NewToolCall { name, args, outcome, .. } =
            NewToolCall::placeholder(Timestamp::from_micros(0));
        let result = outcome.as_ref().map(|outcome| outcome.result.as_str());
        for (turn, order) in of {
            let properties = map([
                ("toolName", (&name).into()),
                ("toolArgs", args.as_str().into()),
                ("toolResult", result.into()),
                ("success", BoltValue::Null),
                ("durationMs", BoltValue::Null),
                ("externalId", BoltValue::Null),
            ]);
            self.change_tool_call(id, *turn, *order, "true", properties);
        }
    }

    pub(super) fn forget_errors(&mut self, id: ConversationId) {
        let jobs = "MATCH (j:TreeringJob) WHERE j.tenant = $tenant AND j.sessionId = $session
            REMOVE j.error";
        self.run(id, jobs, []);
        // A summary by the fallback says why after a semicolon.
        let events =
            "MATCH (e:TreeringJobEvent) WHERE e.tenant = $tenant AND e.sessionId = $session
            SET e.text = CASE WHEN e.kind IN $quoting THEN ''
                WHEN e.kind = $released THEN split(e.text, ';')[0] ELSE e.text END";
        let quoting: Vec<&str> = QUOTING.map(JobEventKind::as_str).into();
        let released = JobEventKind::Release.as_str().into();
        self.run(id, events, [("quoting", quoting.into()), ("released", released)]);
    }

    pub(super) fn add_audit_record(&mut self, record: &AuditRecord, is_to_scrub: bool) {
        self.audit_revision += 1;
        let number = self.next_seq();
        let query = "CREATE (:TreeringAudit {tenant: $tenant, id: $id, number: $number,
            record: $record, scrub: $scrub})";
        let statement = self.statement(query).with("id", &record.id).with("number", number);
        let statement = statement.with("record", json_text(record));
        self.statements.push(statement.with("scrub", is_to_scrub.then_some(true)));
    }

    pub(super) fn add_tombstones(&mut self, record: &str, of: &[Tombstone]) {
        let hashes = of.iter().map(|tombstone| tombstone.hash(self.base.salt)).collect();
        self.add_hashes(record, hashes);
    }

    fn add_hashes(&mut self, record: &str, hashes: Vec<ContentHash>) {
        let query = "UNWIND $hashes AS hash
            MERGE (d:TreeringTombstone {tenant: $tenant, hash: hash}) ON CREATE SET d.audit = $id";
        let statement = self.statement(query).with("id", record).with("hashes", hashes);
        self.statements.push(statement);
    }

    pub(super) fn take_over_tombstones(&mut self, record: &AuditRecord, of: &TombstoneSet) {
        self.add_audit_record(record, false);
        let salts: Vec<String> = of.salts.iter().map(|salt| to_hex(salt)).collect();
        let query = "MATCH (s:TreeringStore {name: 'treering'}) SET s:TreeringStore
            WITH s SET s.salts = s.salts + [salt IN $salts WHERE NOT salt IN s.salts]";
        let statement = self.statement(query).with("salts", salts);
        self.statements.push(statement);
        self.add_hashes(&record.id, of.hashes.clone());
    }

    pub(super) fn remove_tombstones(&mut self, record: &str) {
        let query =
            "MATCH (d:TreeringTombstone) WHERE d.tenant = $tenant AND d.audit = $id DELETE d";
        let statement = self.statement(query).with("id", record);
        self.statements.push(statement);
    }
}

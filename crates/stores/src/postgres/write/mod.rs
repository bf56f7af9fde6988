//! Turns the writes of a commit into statements, which are sent in one flight. Nothing here reads.

mod conversations;
mod forget;
mod jobs;
mod ledger;
mod messages;
mod tree;
mod vectors;

use std::collections::BTreeSet;

use treering_core::{ConversationId, Invalid, StoreError, TenantId, Write};

use super::connection::SqlQuery;
use super::error::{Failure, Outcome};
use super::value::{SqlValue, UndecodableRow, blobs, values};

/// Maximum number of sequence numbers in a commit: the bits of a number that are not the id of the transaction.
const MAX_NUMBERED: i64 = (1 << 20) - 1;

/// The statements of a commit.
pub(super) struct CommitWriter {
    tenant: SqlValue,
    queries: Vec<SqlQuery>,
    /// The offset of the store's sequence numbers.
    offset: i64,
    numbered: i64,
    /// The conversations that the commit writes to.
    touched: BTreeSet<ConversationId>,
    /// The conversations whose version the commit has already increased.
    versioned: BTreeSet<ConversationId>,
    /// The salt of the tenant's tombstones.
    salt: Vec<u8>,
}

impl CommitWriter {
    pub(super) fn new(tenant: &TenantId, offset: i64) -> Self {
        Self {
            tenant: tenant.as_str().into(),
            queries: Vec::new(),
            offset,
            numbered: 0,
            touched: BTreeSet::new(),
            versioned: BTreeSet::new(),
            salt: Vec::new(),
        }
    }

    pub(super) fn set_salt(&mut self, salt: Vec<u8>) {
        self.salt = salt;
    }

    pub(super) fn into_queries(self) -> Vec<SqlQuery> {
        self.queries
    }

    pub(super) fn write(&mut self, write: &Write) -> Outcome<()> {
        match write {
            Write::PutConversation(conversation) => self.put_conversation(conversation)?,
            Write::AddMessage(id, message) => self.add_message(*id, message),
            Write::AddToolCall(id, call) => self.add_tool_call(*id, call),
            Write::FinishToolCall(id, turn, order, result) => {
                self.finish_tool_call(*id, *turn, *order, result);
            }
            Write::PutNode(id, node) => self.put_node(*id, node)?,
            Write::SetParent(id, level, ordinals, parent) => {
                self.set_parent(*id, *level, ordinals, *parent);
            }
            Write::MarkDirty(id, level, ordinals) => self.mark_dirty(*id, *level, ordinals),
            Write::DropTree(id, level) => self.drop_tree(*id, *level),
            Write::AmendMessage(id, message, replaced_at) => {
                self.amend_message(*id, message, *replaced_at);
            }
            Write::AmendToolCall(id, call) => self.amend_tool_call(*id, call),
            Write::AddVersions(id, idx, versions) => self.add_versions(*id, *idx, versions),
            Write::ForgetVersions(id, of) => self.forget_versions(*id, of),
            Write::ForgetMessages(id, of) => self.forget_messages(*id, of),
            Write::ForgetToolCalls(id, of) => self.forget_tool_calls(*id, of),
            Write::RemoveNodes(id, level, ordinals) => self.remove_nodes(*id, *level, ordinals),
            Write::ForgetErrors(id) => self.forget_errors(*id),
            Write::RemoveConversation(id) => self.remove_conversation(*id),
            Write::AddAuditRecord(record) => self.add_audit_record(record, false)?,
            Write::AddTombstones(record, of) => self.add_tombstones(record, of),
            Write::TakeOverTombstones(record, of) => self.take_over_tombstones(record, of)?,
            Write::RemoveTombstones(record) => self.remove_tombstones(record),
            Write::AddJob(job) => self.add_job(job)?,
            Write::PutJob(job) => self.put_job(job)?,
            Write::RemoveJob(job) => self.remove_job(job),
            Write::AddJobEvent(event) => self.add_job_event(event),
            Write::PutVectors(model, vectors) => self.put_vectors(model, vectors),
            Write::DropVectors(model) => self.drop_vectors(model),
            Write::RemoveVectors(model, contents) => self.remove_vectors(model, contents),
            Write::SetEmbeddings(..) => {}
            Write::PutVectorIndex(index) => self.put_vector_index(index),
            Write::AddSpend(charge) => self.add_spend(charge),
        }
        Ok(())
    }

    /// Gives the tenant a new version, so that plans of its conversations see that something changed.
    pub(super) fn touch_tenant(&mut self) {
        let number = self.number();
        self.push("UPDATE tenants SET version = seq($2) WHERE tenant = $1", values![number]);
    }

    /// Gives every conversation a new version that has none yet, and fails if one does not exist.
    pub(super) fn finish(&mut self) -> Outcome<()> {
        let remaining: Vec<ConversationId> =
            self.touched.difference(&self.versioned).copied().collect();
        self.version(&remaining);
        if self.numbered > MAX_NUMBERED {
            let reason = format!("it has more than {MAX_NUMBERED} rows; divide it");
            return Err(Failure::Store(StoreError::from(Invalid::new("commit", reason))));
        }
        Ok(())
    }

    fn version(&mut self, of: &[ConversationId]) {
        if of.is_empty() {
            return;
        }
        let (ids, number) = (blobs(of.iter().map(|id| &id.as_bytes()[..])), self.number());
        self.push("SELECT touch_conversations($1, $2, $3)", values![ids, number]);
        self.versioned.extend(of);
    }

    /// Adds a statement, whose first parameter is the tenant.
    fn push(&mut self, sql: &'static str, values: Vec<SqlValue>) {
        let values = std::iter::once(self.tenant.clone()).chain(values).collect();
        self.queries.push(SqlQuery::new(sql, values));
    }

    /// Adds a statement that writes to a conversation, which is the second parameter.
    fn push_for(&mut self, id: ConversationId, sql: &'static str, values: Vec<SqlValue>) {
        self.touched.insert(id);
        let of_row = [self.tenant.clone(), id.into()];
        self.queries.push(SqlQuery::new(sql, of_row.into_iter().chain(values).collect()));
    }

    /// The parameter of `seq` for the next row.
    fn number(&mut self) -> i64 {
        self.numbered += 1;
        self.offset + self.numbered
    }
}

fn json_text(value: &impl serde::Serialize) -> Outcome<String> {
    Ok(serde_json::to_string(value).map_err(UndecodableRow::new)?)
}

//! Applies the writes of a commit inside the transaction of the writing connection. Nothing
//! here begins, commits or rolls back.

mod conversations;
mod forget;
mod jobs;
mod ledger;
mod messages;
mod tree;
mod vectors;

use rusqlite::{Connection, OptionalExtension, params};
use treering_core::{ConversationId, TenantId, ThreadName, Write};

type Result<T> = rusqlite::Result<T>;

/// Applies writes in order.
pub(super) fn apply(connection: &Connection, tenant: &TenantId, writes: &[Write]) -> Result<()> {
    if writes.is_empty() {
        return Ok(());
    }
    let (tenant, seq) = tenant_row(connection, tenant)?;
    let mut commit = Commit { connection, tenant, seq, last: None };
    writes.iter().try_for_each(|write| commit.write(write))?;
    if commit.seq > seq {
        let sql = "UPDATE tenants SET seq = ?2 WHERE pk = ?1";
        connection.prepare_cached(sql)?.execute([tenant, commit.seq])?;
    }
    Ok(())
}

/// The primary key and the latest sequence number of a tenant. Creates the tenant if it does
/// not exist.
fn tenant_row(connection: &Connection, tenant: &TenantId) -> Result<(i64, i64)> {
    let sql = "SELECT pk, seq FROM tenants WHERE name = ?1";
    let row = connection
        .prepare_cached(sql)?
        .query_row([tenant.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match row {
        Some(row) => Ok(row),
        None => {
            let sql = "INSERT INTO tenants (name) VALUES (?1)";
            Ok((connection.prepare_cached(sql)?.insert([tenant.as_str()])?, 0))
        }
    }
}

/// A commit that is being written.
struct Commit<'a> {
    connection: &'a Connection,
    tenant: i64,
    /// The latest sequence number of the tenant.
    seq: i64,
    /// The conversation of the last write: consecutive writes mostly share one.
    last: Option<TargetConversation>,
}

#[derive(Clone)]
struct TargetConversation {
    id: ConversationId,
    pk: i64,
    threads: Vec<ThreadName>,
}

impl Commit<'_> {
    fn write(&mut self, write: &Write) -> Result<()> {
        match write {
            Write::PutConversation(conversation) => self.put_conversation(conversation),
            Write::AddMessage(id, message) => self.add_message(*id, message),
            Write::AddToolCall(id, call) => self.add_tool_call(*id, call),
            Write::FinishToolCall(id, turn, order, result) => {
                self.finish_tool_call(*id, *turn, *order, result)
            }
            Write::PutNode(id, node) => self.put_node(*id, node),
            Write::SetParent(id, level, ordinals, parent) => {
                self.set_parent(*id, *level, ordinals, *parent)
            }
            Write::MarkDirty(id, level, ordinals) => self.mark_dirty(*id, *level, ordinals),
            Write::DropTree(id, level) => self.drop_tree(*id, *level),
            Write::AmendMessage(id, message, replaced_at) => {
                self.amend_message(*id, message, *replaced_at)
            }
            Write::AmendToolCall(id, call) => self.amend_tool_call(*id, call),
            Write::AddVersions(id, idx, versions) => self.add_versions(*id, *idx, versions),
            Write::ForgetVersions(id, of) => self.forget_versions(*id, of),
            Write::ForgetMessages(id, of) => self.forget_messages(*id, of),
            Write::ForgetToolCalls(id, of) => self.forget_tool_calls(*id, of),
            Write::RemoveNodes(id, level, ordinals) => self.remove_nodes(*id, *level, ordinals),
            Write::ForgetErrors(id) => self.forget_errors(*id),
            Write::RemoveConversation(id) => self.remove_conversation(*id),
            Write::AddAuditRecord(record) => self.add_audit_record(record),
            Write::AddTombstones(record, of) => self.add_tombstones(record, of),
            Write::TakeOverTombstones(record, of) => self.take_over_tombstones(record, of),
            Write::RemoveTombstones(record) => self.remove_tombstones(record),
            Write::AddJob(job) => self.add_job(job),
            Write::PutJob(job) => self.put_job(job),
            Write::RemoveJob(job) => self.remove_job(job),
            Write::AddJobEvent(line) => self.add_log(line),
            Write::PutVectors(model, vectors) => self.put_vectors(model, vectors),
            Write::DropVectors(model) => self.drop_vectors(model),
            Write::RemoveVectors(model, contents) => self.remove_vectors(model, contents),
            Write::SetEmbeddings(..) => Ok(()),
            Write::PutVectorIndex(index) => self.put_vector_index(index),
            Write::AddSpend(charge) => self.add_spend(charge),
        }
    }

    fn next_seq(&mut self) -> i64 {
        self.seq += 1;
        self.seq
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
        self.connection.prepare_cached(sql)?.execute(params)
    }

    /// The row of a conversation.
    fn conversation(&mut self, id: ConversationId) -> Result<&TargetConversation> {
        if self.last.as_ref().is_none_or(|last| last.id != id) {
            let sql = "SELECT pk, threads FROM conversations WHERE tenant = ?1 AND id = ?2";
            let params = params![self.tenant, id.as_bytes()];
            let row = self.connection.prepare_cached(sql)?.query_row(params, |row| {
                let threads = super::read::threads::read(row, 1)?;
                Ok(TargetConversation {
                    id,
                    pk: row.get(0)?,
                    threads: threads.into_iter().map(|thread| thread.name).collect(),
                })
            })?;
            self.last = Some(row);
        }
        self.last.as_ref().ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    fn pk(&mut self, id: ConversationId) -> Result<i64> {
        Ok(self.conversation(id)?.pk)
    }

    /// The primary key of a conversation and the number of one of its threads.
    fn thread(&mut self, id: ConversationId, thread: &ThreadName) -> Result<(i64, i64)> {
        let row = self.conversation(id)?;
        let thread_index = row.threads.iter().position(|name| name == thread);
        thread_index.map(|index| (row.pk, index as i64)).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }
}

pub(super) fn json_text(value: &impl serde::Serialize) -> Result<String> {
    stored_json(serde_json::to_string(value))
}

fn stored_json(json: serde_json::Result<String>) -> Result<String> {
    json.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

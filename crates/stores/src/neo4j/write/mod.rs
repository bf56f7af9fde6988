//! Turns the writes of a commit into statements, in order. Additions that follow each other are
//! grouped by kind, so that a commit has few statements however many writes it has.

mod additions;
mod conversations;
mod forget;
mod jobs;
mod ledger;
mod messages;
mod tree;
mod vectors;

use treering_core::{Conversation, ConversationId, Write};

use super::bolt::{BoltValue, Cypher};
use additions::Additions;

/// The state that a commit starts from.
pub(super) struct CommitBase<'a> {
    pub(super) tenant: &'a str,
    /// The last sequence number of the tenant.
    pub(super) seq: i64,
    /// The salt of the store's own tombstones.
    pub(super) salt: &'a [u8],
    /// The conversation that the plan saw, if it saw only one.
    pub(super) known: Option<&'a Conversation>,
    /// Whether plans of other scopes have to start again.
    pub(super) is_exclusive: bool,
}

/// The statements of a commit.
pub(super) fn statements(base: CommitBase<'_>, writes: &[Write]) -> Vec<Cypher> {
    let mut commit = StatementBuilder {
        seq: base.seq,
        base,
        statements: Vec::new(),
        additions: Additions::default(),
        audit_revision: 0,
        conversations: Vec::new(),
    };
    writes.iter().for_each(|write| commit.write(write));
    commit.finish()
}

/// A commit that is being written.
struct StatementBuilder<'a> {
    base: CommitBase<'a>,
    seq: i64,
    statements: Vec<Cypher>,
    additions: Additions,
    /// The number of new audit records and amendments.
    audit_revision: i64,
    /// The conversations that changed.
    conversations: Vec<ConversationId>,
}

impl StatementBuilder<'_> {
    fn write(&mut self, write: &Write) {
        if let Some(id) = write.conversation()
            && self.conversations.last() != Some(&id)
        {
            self.conversations.push(id);
        }
        match write {
            Write::AddMessage(id, message) => self.add_message(*id, message),
            Write::AddToolCall(id, call) => self.add_tool_call(*id, call),
            Write::AddJob(job) => self.add_job(job),
            Write::AddJobEvent(event) => self.add_job_event(event),
            other => {
                self.flush();
                self.change(other);
            }
        }
    }

    /// Everything but additions.
    fn change(&mut self, write: &Write) {
        match write {
            Write::PutConversation(conversation) => self.put_conversation(conversation),
            Write::FinishToolCall(id, turn, order, result) => {
                self.finish_tool_call(*id, *turn, *order, result);
            }
            Write::PutNode(id, node) => self.put_node(*id, node),
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
            Write::AddAuditRecord(record) => self.add_audit_record(record, true),
            Write::AddTombstones(record, of) => self.add_tombstones(record, of),
            Write::TakeOverTombstones(record, of) => self.take_over_tombstones(record, of),
            Write::RemoveTombstones(record) => self.remove_tombstones(record),
            Write::PutJob(job) => self.put_job(job),
            Write::RemoveJob(job) => self.remove_job(job),
            Write::PutVectors(model, vectors) => self.put_vectors(model, vectors),
            Write::DropVectors(model) => self.drop_vectors(model),
            Write::RemoveVectors(model, contents) => self.remove_vectors(model, contents),
            Write::SetEmbeddings(id, model, items) => self.set_embeddings(*id, model, items),
            Write::PutVectorIndex(index) => self.put_vector_index(index),
            Write::AddSpend(charge) => self.add_spend(charge),
            Write::AddMessage(..)
            | Write::AddToolCall(..)
            | Write::AddJob(_)
            | Write::AddJobEvent(_) => {}
        }
    }

    fn finish(mut self) -> Vec<Cypher> {
        self.flush();
        self.conversations.sort_unstable();
        self.conversations.dedup();
        let statement = self
            .statement(
                "MATCH (x:TreeringTenant {name: $tenant})
                SET x.seq = $seq, x.commits = x.commits + 1, x.exclusive = x.exclusive + $exclusive,
                    x.auditRevision = x.auditRevision + $revision
                WITH x UNWIND $sessions AS session
                MATCH (c:ConversationSession {tenant: $tenant, sessionId: session})
                SET c.version = coalesce(c.version, 0) + 1",
            )
            .with("seq", self.seq)
            .with("exclusive", i64::from(self.base.is_exclusive))
            .with("revision", self.audit_revision)
            .with("sessions", std::mem::take(&mut self.conversations));
        self.statements.push(statement);
        self.statements
    }

    fn next_seq(&mut self) -> i64 {
        self.seq += 1;
        self.seq
    }

    /// A statement with the tenant as a parameter.
    fn statement(&self, query: impl Into<String>) -> Cypher {
        Cypher::new(query).with("tenant", self.base.tenant)
    }

    /// Adds a statement about a conversation.
    fn run<const N: usize>(
        &mut self,
        id: ConversationId,
        query: impl Into<String>,
        params: [(&str, BoltValue); N],
    ) {
        let statement = self.statement(query).with("session", id);
        let add = |statement: Cypher, (name, value)| statement.with(name, value);
        self.statements.push(params.into_iter().fold(statement, add));
    }
}

//! Applies commits to the connection that holds the write lock.

use rusqlite::{CachedStatement, Connection, params};
use treering_core::{
    Commit, Conversation, ConversationId, Message, TenantId, ThreadName, ToolCall, ToolResult, TurnNo, Write,
};

use super::codes::{naming_code, role_code, state_code};
use super::tree_write::{self as tree, text_of};
use super::{follow, spend, threads};

type Result<T> = rusqlite::Result<T>;

/// Writes commits within one transaction. Keeps its statements and the conversation it wrote to
/// last, since the next write is mostly of the same kind and for the same conversation.
pub(super) struct Writer<'a> {
    connection: &'a Connection,
    statements: [Option<CachedStatement<'a>>; SQL.len()],
    conversation: Option<Row>,
}

/// Which statement; its place in [`SQL`].
#[derive(Clone, Copy)]
enum Which {
    FindConversation,
    GrowConversation,
    PutConversation,
    AddMessage,
    AddToolCall,
    FinishToolCall,
}

const SQL: [&str; 6] = [
    "SELECT pk, threads FROM conversations WHERE tenant = ?1 AND id = ?2",
    // Mostly a conversation has only grown: then the indexes over its names are left alone.
    "UPDATE conversations SET title = ?4, participants = ?5, started_at = ?8, last_activity = ?9,
        state = ?10, messages = ?12, turns = ?13, tool_calls = ?14, chars = ?15, tokens = ?16,
        naming = ?17, threads = ?18, policy = ?19, growth = ?20
    WHERE tenant = ?1 AND id = ?2 AND slug = ?3 AND cwd IS ?6 AND project_path IS ?7
        AND external_id IS ?11",
    "INSERT INTO conversations (tenant, id, slug, title, participants, cwd, project_path, started_at,
        last_activity, state, external_id, messages, turns, tool_calls, chars, tokens, naming, threads,
        policy, growth)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
    ON CONFLICT (tenant, id) DO UPDATE SET slug = ?3, title = ?4, participants = ?5, cwd = ?6,
        project_path = ?7, started_at = ?8, last_activity = ?9, state = ?10, external_id = ?11,
        messages = ?12, turns = ?13, tool_calls = ?14, chars = ?15, tokens = ?16, naming = ?17,
        threads = ?18, policy = ?19, growth = ?20",
    "INSERT INTO messages (conversation, idx, turn, turns, thread, role, at, chars, tokens, hash, author,
        external_id, text, parts)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    "INSERT INTO tool_calls (conversation, turn, place, thread, before_idx, at, success, duration_ms, name,
        external_id, args, result)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    // It moves to the end, where whoever follows the calls meets it again.
    "UPDATE tool_calls SET pk = (SELECT max(pk) + 1 FROM tool_calls), success = ?4, duration_ms = ?5, result = ?6
    WHERE conversation = ?1 AND turn = ?2 AND place = ?3 AND result IS NULL",
];

impl<'a> Writer<'a> {
    /// A writer for the transaction that is open on a connection.
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, statements: Default::default(), conversation: None }
    }

    /// Writes a commit.
    pub(super) fn apply(&mut self, commit: &Commit) -> Result<()> {
        let tenant = &commit.tenant;
        commit.writes.iter().try_for_each(|write| match write {
            Write::PutConversation(conversation) => self.put_conversation(tenant, conversation),
            Write::AddMessage(id, message) => self.add_message(tenant, *id, message),
            Write::AddToolCall(id, call) => self.add_tool_call(tenant, *id, call),
            Write::FinishToolCall(id, turn, order, result) => {
                self.finish_tool_call(tenant, *id, *turn, *order, result)
            }
            Write::PutNode(id, node) => tree::put_node(self.connection, self.pk(tenant, *id)?, node),
            Write::SetParent(id, level, ordinals, parent) => {
                tree::set_parent(self.connection, self.pk(tenant, *id)?, *level, ordinals, *parent)
            }
            Write::MarkDirty(id, level, ordinals) => {
                tree::mark_dirty(self.connection, self.pk(tenant, *id)?, *level, ordinals)
            }
            Write::FellTree(id, level) => tree::fell_tree(self.connection, self.pk(tenant, *id)?, *level),
            Write::AddJob(job) => tree::add_job(self.connection, self.pk(tenant, job.conversation)?, job),
            Write::PutJob(job) => tree::put_job(self.connection, self.pk(tenant, job.conversation)?, job),
            Write::RemoveJob(id, job) => tree::remove_job(self.connection, self.pk(tenant, *id)?, *job),
            Write::PutVectors(model, vectors) => follow::put_vectors(self.connection, tenant, model, vectors),
            Write::DropVectors(model) => follow::drop_vectors(self.connection, tenant, model),
            Write::PutVectorIndex(index) => follow::put_vector_index(self.connection, tenant, index),
            Write::AddSpend(charge) => spend::add(self.connection, tenant, charge),
            Write::AddLog(line) => {
                let conversation = line.conversation.map(|id| self.pk(tenant, id)).transpose()?;
                tree::add_log(self.connection, tenant, conversation, line)
            }
        })
    }

    fn statement(&mut self, which: Which) -> Result<&mut CachedStatement<'a>> {
        let place = which as usize;
        if self.statements[place].is_none() {
            self.statements[place] = Some(self.connection.prepare_cached(SQL[place])?);
        }
        self.statements[place].as_mut().ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    fn put_conversation(&mut self, tenant: &TenantId, it: &Conversation) -> Result<()> {
        let participants = serde_json::Value::from(it.participants.clone()).to_string();
        let threads = threads::write(&it.threads);
        let (policy, growth) = (text_of(&it.policy)?, text_of(&it.growth)?);
        let mut write = |which: Which| {
            let params = params![
                tenant.as_str(),
                it.id.as_bytes(),
                it.slug,
                it.title,
                participants,
                it.cwd,
                it.project_path,
                it.started_at.as_micros(),
                it.last_activity.as_micros(),
                state_code(it.state),
                it.external_id.as_ref().map(|id| id.as_str()),
                it.totals.messages,
                it.totals.turns,
                it.totals.tool_calls,
                it.totals.chars as i64,
                it.totals.tokens as i64,
                naming_code(it.naming),
                threads,
                policy,
                growth,
            ];
            self.statement(which)?.execute(params)
        };
        if write(Which::GrowConversation)? == 0 {
            write(Which::PutConversation)?;
        }
        let known = self.conversation.take().filter(|row| row.is(tenant, it.id)).map(|row| row.pk);
        let pk = match known {
            Some(pk) => pk,
            None => self
                .statement(Which::FindConversation)?
                .query_row(params![tenant.as_str(), it.id.as_bytes()], |row| row.get(0))?,
        };
        let threads = it.threads.iter().map(|thread| thread.name.clone()).collect();
        self.conversation = Some(Row { tenant: tenant.clone(), id: it.id, pk, threads });
        Ok(())
    }

    fn add_message(&mut self, tenant: &TenantId, id: ConversationId, message: &Message) -> Result<()> {
        let row = self.conversation(tenant, id)?;
        let (conversation, thread) = (row.pk, row.thread(&message.thread)?);
        let said = &message.said;
        self.statement(Which::AddMessage)?.execute(params![
            conversation,
            message.idx.0,
            message.turn.0,
            message.turns,
            thread,
            role_code(said.role),
            said.at.as_micros(),
            message.chars,
            message.tokens,
            message.hash.as_bytes(),
            said.author,
            said.external_id.as_ref().map(|id| id.as_str()),
            said.text,
            said.parts.as_ref().map(|parts| parts.as_str()),
        ])?;
        Ok(())
    }

    fn add_tool_call(&mut self, tenant: &TenantId, id: ConversationId, it: &ToolCall) -> Result<()> {
        let row = self.conversation(tenant, id)?;
        let (conversation, thread) = (row.pk, row.thread(&it.thread)?);
        let outcome = it.call.outcome.as_ref();
        self.statement(Which::AddToolCall)?.execute(params![
            conversation,
            it.turn.0,
            it.order,
            thread,
            it.before.0,
            it.call.at.as_micros(),
            outcome.and_then(|outcome| outcome.success),
            outcome.and_then(|outcome| outcome.duration_ms.map(|ms| ms as i64)),
            it.call.name,
            it.call.external_id.as_ref().map(|id| id.as_str()),
            it.call.args.as_str(),
            outcome.map(|outcome| outcome.result.as_str()),
        ])?;
        Ok(())
    }

    fn finish_tool_call(
        &mut self,
        tenant: &TenantId,
        id: ConversationId,
        turn: TurnNo,
        order: u32,
        outcome: &ToolResult,
    ) -> Result<()> {
        let conversation = self.conversation(tenant, id)?.pk;
        self.statement(Which::FinishToolCall)?.execute(params![
            conversation,
            turn.0,
            order,
            outcome.success,
            outcome.duration_ms.map(|ms| ms as i64),
            outcome.result.as_str(),
        ])?;
        Ok(())
    }

    fn pk(&mut self, tenant: &TenantId, id: ConversationId) -> Result<i64> {
        Ok(self.conversation(tenant, id)?.pk)
    }

    /// The conversation's row number and, by their places, its threads.
    fn conversation(&mut self, tenant: &TenantId, id: ConversationId) -> Result<&Row> {
        if self.conversation.as_ref().is_none_or(|row| !row.is(tenant, id)) {
            let params = params![tenant.as_str(), id.as_bytes()];
            let (pk, threads) = self
                .statement(Which::FindConversation)?
                .query_row(params, |row| Ok((row.get(0)?, threads::read(row, 1)?)))?;
            let threads = threads.into_iter().map(|thread| thread.name).collect();
            self.conversation = Some(Row { tenant: tenant.clone(), id, pk, threads });
        }
        self.conversation.as_ref().ok_or(rusqlite::Error::QueryReturnedNoRows)
    }
}

/// What later writes need to know about a conversation.
struct Row {
    tenant: TenantId,
    id: ConversationId,
    pk: i64,
    threads: Vec<ThreadName>,
}

impl Row {
    fn is(&self, tenant: &TenantId, id: ConversationId) -> bool {
        self.id == id && self.tenant == *tenant
    }

    fn thread(&self, name: &ThreadName) -> Result<i64> {
        let place = self.threads.iter().position(|thread| thread == name);
        place.map(|place| place as i64).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }
}

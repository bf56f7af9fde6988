//! Applies a commit to the connection that holds the write lock.

use rusqlite::{Connection, OptionalExtension, params};
use treering_core::conversation::Thread;
use treering_core::{
    Commit, Conversation, ConversationId, Message, TenantId, ThreadName, ToolCall, ToolResult, Turn, TurnNo,
    Write,
};

use super::codes::{naming_code, role_code, state_code};

type Result<T> = rusqlite::Result<T>;

pub(super) fn apply(connection: &Connection, commit: &Commit) -> Result<()> {
    let mut writer = Writer { connection, tenant: &commit.tenant, conversation: None, thread: None };
    commit.writes.iter().try_for_each(|write| writer.write(write))
}

/// Remembers the row numbers it used last: a commit mostly stays with one conversation.
struct Writer<'a> {
    connection: &'a Connection,
    tenant: &'a TenantId,
    conversation: Option<(ConversationId, i64)>,
    thread: Option<(i64, ThreadName, i64)>,
}

impl Writer<'_> {
    fn write(&mut self, write: &Write) -> Result<()> {
        match write {
            Write::PutConversation(conversation) => self.put_conversation(conversation),
            Write::AddThread(id, thread) => self.add_thread(*id, thread),
            Write::PutTurn(id, turn) => self.put_turn(*id, turn),
            Write::AddMessage(id, message) => self.add_message(*id, message),
            Write::AddToolCall(id, call) => self.add_tool_call(*id, call),
            Write::FinishToolCall(id, turn, order, result) => {
                self.finish_tool_call(*id, *turn, *order, result)
            }
        }
    }

    fn put_conversation(&mut self, it: &Conversation) -> Result<()> {
        let sql = "INSERT INTO conversations (tenant, id, slug, title, participants, cwd, project_path,
                started_at, last_activity, state, external_id, messages, turns, tool_calls, chars, tokens,
                naming)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
            ON CONFLICT (tenant, id) DO UPDATE SET slug = ?3, title = ?4, participants = ?5, cwd = ?6,
                project_path = ?7, started_at = ?8, last_activity = ?9, state = ?10, external_id = ?11,
                messages = ?12, turns = ?13, tool_calls = ?14, chars = ?15, tokens = ?16, naming = ?17
            RETURNING pk";
        let participants = serde_json::Value::from(it.participants.clone()).to_string();
        let pk = self.connection.prepare_cached(sql)?.query_row(
            params![
                self.tenant.as_str(),
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
            ],
            |row| row.get(0),
        )?;
        self.conversation = Some((it.id, pk));
        Ok(())
    }

    fn add_thread(&mut self, id: ConversationId, thread: &Thread) -> Result<()> {
        let conversation = self.conversation_pk(id)?;
        let (parent, after) = match &thread.fork {
            Some(fork) => (Some(self.thread_no(conversation, &fork.parent)?), fork.after.map(|idx| idx.0)),
            None => (None, None),
        };
        let sql = "INSERT INTO threads (conversation, no, name, parent, fork_after)
            SELECT ?1, ifnull(max(no) + 1, 0), ?2, ?3, ?4 FROM threads WHERE conversation = ?1
            ON CONFLICT DO NOTHING";
        let name = thread.name.as_str();
        self.connection.prepare_cached(sql)?.execute(params![conversation, name, parent, after])?;
        Ok(())
    }

    fn put_turn(&mut self, id: ConversationId, turn: &Turn) -> Result<()> {
        let conversation = self.conversation_pk(id)?;
        let thread = self.thread_no(conversation, &turn.thread)?;
        let sql = "INSERT INTO turns (conversation, no, thread, first_idx, until_idx, messages, tool_calls,
                answered, started_at, ended_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
            ON CONFLICT (conversation, no) DO UPDATE SET first_idx = ?4, until_idx = ?5, messages = ?6,
                tool_calls = ?7, answered = ?8, started_at = ?9, ended_at = ?10";
        self.connection.prepare_cached(sql)?.execute(params![
            conversation,
            turn.no.0,
            thread,
            turn.from.0,
            turn.until.0,
            turn.messages,
            turn.tool_calls,
            turn.answered,
            turn.started_at.as_micros(),
            turn.ended_at.as_micros(),
        ])?;
        Ok(())
    }

    fn add_message(&mut self, id: ConversationId, message: &Message) -> Result<()> {
        let conversation = self.conversation_pk(id)?;
        let thread = self.thread_no(conversation, &message.thread)?;
        let sql = "INSERT INTO messages (conversation, idx, turn, thread, role, at, chars, tokens, hash,
                author, external_id, text, parts)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let said = &message.said;
        self.connection.prepare_cached(sql)?.execute(params![
            conversation,
            message.idx.0,
            message.turn.0,
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

    fn add_tool_call(&mut self, id: ConversationId, it: &ToolCall) -> Result<()> {
        let conversation = self.conversation_pk(id)?;
        let sql = "INSERT INTO tool_calls (conversation, turn, place, before_idx, at, success, duration_ms,
                name, external_id, args, result)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let outcome = it.call.outcome.as_ref();
        self.connection.prepare_cached(sql)?.execute(params![
            conversation,
            it.turn.0,
            it.order,
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
        id: ConversationId,
        turn: TurnNo,
        order: u32,
        outcome: &ToolResult,
    ) -> Result<()> {
        let conversation = self.conversation_pk(id)?;
        let sql = "UPDATE tool_calls SET success = ?4, duration_ms = ?5, result = ?6
            WHERE conversation = ?1 AND turn = ?2 AND place = ?3 AND result IS NULL";
        self.connection.prepare_cached(sql)?.execute(params![
            conversation,
            turn.0,
            order,
            outcome.success,
            outcome.duration_ms.map(|ms| ms as i64),
            outcome.result.as_str(),
        ])?;
        Ok(())
    }

    fn conversation_pk(&mut self, id: ConversationId) -> Result<i64> {
        if let Some((known, pk)) = self.conversation
            && known == id
        {
            return Ok(pk);
        }
        let sql = "SELECT pk FROM conversations WHERE tenant = ?1 AND id = ?2";
        let pk = self
            .connection
            .prepare_cached(sql)?
            .query_row(params![self.tenant.as_str(), id.as_bytes()], |row| row.get(0))?;
        self.conversation = Some((id, pk));
        Ok(pk)
    }

    fn thread_no(&mut self, conversation: i64, name: &ThreadName) -> Result<i64> {
        if let Some((known, thread, no)) = &self.thread
            && *known == conversation
            && thread == name
        {
            return Ok(*no);
        }
        let sql = "SELECT no FROM threads WHERE conversation = ?1 AND name = ?2";
        let no = self
            .connection
            .prepare_cached(sql)?
            .query_row(params![conversation, name.as_str()], |row| row.get(0))
            .optional()?
            .ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        self.thread = Some((conversation, name.clone(), no));
        Ok(no)
    }
}

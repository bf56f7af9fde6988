//! Applies a commit to the connection that holds the write lock.

use rusqlite::{Connection, params};
use treering_core::{
    Commit, Conversation, ConversationId, Message, TenantId, ThreadName, ToolCall, ToolResult, TurnNo, Write,
};

use super::codes::{naming_code, role_code, state_code};
use super::threads;

type Result<T> = rusqlite::Result<T>;

pub(super) fn apply(connection: &Connection, commit: &Commit) -> Result<()> {
    let mut writer = Writer { connection, tenant: &commit.tenant, conversation: None };
    commit.writes.iter().try_for_each(|write| writer.write(write))
}

/// Remembers the conversation it wrote to last: a commit mostly stays with one.
struct Writer<'a> {
    connection: &'a Connection,
    tenant: &'a TenantId,
    conversation: Option<Row>,
}

impl Writer<'_> {
    fn write(&mut self, write: &Write) -> Result<()> {
        match write {
            Write::PutConversation(conversation) => self.put_conversation(conversation),
            Write::AddMessage(id, message) => self.add_message(*id, message),
            Write::AddToolCall(id, call) => self.add_tool_call(*id, call),
            Write::FinishToolCall(id, turn, order, result) => {
                self.finish_tool_call(*id, *turn, *order, result)
            }
        }
    }

    /// Mostly a conversation has only grown: then the indexes over its names are left alone.
    fn put_conversation(&mut self, it: &Conversation) -> Result<()> {
        let participants = serde_json::Value::from(it.participants.clone()).to_string();
        let threads = threads::write(&it.threads);
        let known = "SELECT pk FROM conversations WHERE tenant = ?1 AND id = ?2";
        let grown = "UPDATE conversations SET title = ?4, participants = ?5, started_at = ?8,
                last_activity = ?9, state = ?10, messages = ?12, turns = ?13, tool_calls = ?14,
                chars = ?15, tokens = ?16, naming = ?17, threads = ?18
            WHERE tenant = ?1 AND id = ?2 AND slug = ?3 AND cwd IS ?6 AND project_path IS ?7
                AND external_id IS ?11";
        let put = "INSERT INTO conversations (tenant, id, slug, title, participants, cwd, project_path,
                started_at, last_activity, state, external_id, messages, turns, tool_calls, chars, tokens,
                naming, threads)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
            ON CONFLICT (tenant, id) DO UPDATE SET slug = ?3, title = ?4, participants = ?5, cwd = ?6,
                project_path = ?7, started_at = ?8, last_activity = ?9, state = ?10, external_id = ?11,
                messages = ?12, turns = ?13, tool_calls = ?14, chars = ?15, tokens = ?16, naming = ?17,
                threads = ?18";
        let write = |sql: &str| {
            let mut statement = self.connection.prepare_cached(sql)?;
            let params = params![
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
                threads,
            ];
            statement.execute(params)
        };
        if write(grown)? == 0 {
            write(put)?;
        }
        let pk = self
            .connection
            .prepare_cached(known)?
            .query_row(params![self.tenant.as_str(), it.id.as_bytes()], |row| row.get(0))?;
        let threads = it.threads.iter().map(|thread| thread.name.clone()).collect();
        self.conversation = Some(Row { id: it.id, pk, threads });
        Ok(())
    }

    fn add_message(&mut self, id: ConversationId, message: &Message) -> Result<()> {
        let row = self.conversation(id)?;
        let (conversation, thread) = (row.pk, row.thread(&message.thread)?);
        let sql = "INSERT INTO messages (conversation, idx, turn, turns, thread, role, at, chars, tokens,
                hash, author, external_id, text, parts)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        let said = &message.said;
        self.connection.prepare_cached(sql)?.execute(params![
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

    fn add_tool_call(&mut self, id: ConversationId, it: &ToolCall) -> Result<()> {
        let row = self.conversation(id)?;
        let (conversation, thread) = (row.pk, row.thread(&it.thread)?);
        let sql = "INSERT INTO tool_calls (conversation, turn, place, thread, before_idx, at, success,
                duration_ms, name, external_id, args, result)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let outcome = it.call.outcome.as_ref();
        self.connection.prepare_cached(sql)?.execute(params![
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
        id: ConversationId,
        turn: TurnNo,
        order: u32,
        outcome: &ToolResult,
    ) -> Result<()> {
        let conversation = self.conversation(id)?.pk;
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

    /// The conversation's row number and, by their places, its threads.
    fn conversation(&mut self, id: ConversationId) -> Result<&Row> {
        if self.conversation.as_ref().is_none_or(|row| row.id != id) {
            let sql = "SELECT pk, threads FROM conversations WHERE tenant = ?1 AND id = ?2";
            let mut statement = self.connection.prepare_cached(sql)?;
            let row = statement.query_row(params![self.tenant.as_str(), id.as_bytes()], |row| {
                let threads = threads::read(row, 1)?;
                Ok(Row { id, pk: row.get(0)?, threads: threads.into_iter().map(|t| t.name).collect() })
            })?;
            self.conversation = Some(row);
        }
        self.conversation.as_ref().ok_or(rusqlite::Error::QueryReturnedNoRows)
    }
}

/// What later writes need to know about a conversation.
struct Row {
    id: ConversationId,
    pk: i64,
    threads: Vec<ThreadName>,
}

impl Row {
    fn thread(&self, name: &ThreadName) -> Result<i64> {
        let place = self.threads.iter().position(|thread| thread == name);
        place.map(|place| place as i64).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }
}

//! Applies commits to the connection that holds the write lock.

use rusqlite::{CachedStatement, Connection, ToSql, params};
use treering_core::{
    Conversation, ConversationId, ConversationKey, Message, TenantId, ThreadName, ToolCall, ToolResult,
    TurnNo, Write,
};

use super::codes::{naming_code, role_code, state_code};
use super::conversations::{Kept, Numbered, hour};
use super::places::Latest;
use super::ready::{Ready, RowTexts, Step};
use super::tree_write::{self as tree, work_of};
use super::{follow, spend};

type Result<T> = rusqlite::Result<T>;

/// Writes commits within one transaction. Keeps its statements, since the next write is mostly of
/// the same kind.
pub(super) struct Writer<'a> {
    connection: &'a Connection,
    statements: [Option<CachedStatement<'a>>; SQL.len()],
    kept: &'a Kept,
    /// The conversations whose rows are not yet as they are kept. Where many write to one, its row is written once.
    grown: Vec<Grown>,
    /// Whether a row of them could not be written.
    failed: bool,
    /// Where the last message of the commit that is being written went.
    place: Option<Place>,
}

/// A conversation whose row is not yet as it is kept.
struct Grown {
    key: ConversationKey,
    /// The texts that its row is to have, where they are made.
    texts: Option<RowTexts>,
}

/// A thread of a conversation, by the numbers that rows of messages have for them.
struct Place {
    id: ConversationId,
    thread: ThreadName,
    numbers: (i64, i64),
}

/// Which statement; its place in [`SQL`].
#[derive(Clone, Copy)]
enum Which {
    GrowConversation,
    SetHour,
    PutConversation,
    AddMessage,
    AddToolCall,
    FinishToolCall,
}

const SQL: [&str; 6] = [
    // Mostly a conversation has only grown: then the indexes over its names and its hour are left alone.
    "UPDATE conversations SET title = ?2, participants = ?3, started_at = ?4, last_activity = ?5, state = ?6,
        messages = ?7, turns = ?8, tool_calls = ?9, chars = ?10, tokens = ?11, naming = ?12, threads = ?13,
        policy = ?14, growth = ?15, latest = ?16
    WHERE pk = ?1",
    "UPDATE conversations SET hour = ?2 WHERE pk = ?1",
    "INSERT INTO conversations (pk, title, participants, started_at, last_activity, state, messages, turns,
        tool_calls, chars, tokens, naming, threads, policy, growth, tenant, id, slug, cwd, project_path,
        external_id, hour)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)
    ON CONFLICT (tenant, id) DO UPDATE SET title = ?2, participants = ?3, started_at = ?4,
        last_activity = ?5, state = ?6, messages = ?7, turns = ?8, tool_calls = ?9, chars = ?10,
        tokens = ?11, naming = ?12, threads = ?13, policy = ?14, growth = ?15, slug = ?18, cwd = ?19,
        project_path = ?20, external_id = ?21, hour = ?22
    RETURNING pk, latest",
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
    pub(super) fn new(connection: &'a Connection, kept: &'a Kept) -> Self {
        let (statements, grown) = Default::default();
        Self { connection, statements, kept, grown, failed: false, place: None }
    }

    /// Writes a commit, but for the rows of conversations that have only grown.
    pub(super) fn apply(&mut self, ready: &mut Ready) -> Result<()> {
        self.place = None;
        let Ready { tenant, steps } = ready;
        steps.iter_mut().try_for_each(|step| self.step(tenant, step))
    }

    /// Writes the rows of conversations that have only grown, so that all is stored as it is kept. Where that has failed, it
    /// fails again: some of what was to be written may be lost.
    pub(super) fn settle(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.failed, true) {
            return Err(rusqlite::Error::InvalidQuery);
        }
        std::mem::take(&mut self.grown).into_iter().try_for_each(|grown| self.grow_conversation(grown))?;
        self.failed = false;
        Ok(())
    }

    fn step(&mut self, tenant: &TenantId, step: &mut Step) -> Result<()> {
        match step {
            Step::PutConversation(conversation, texts) => {
                self.put_conversation(tenant, conversation, texts.take())
            }
            Step::AddJob(job, work) => {
                tree::add_job(self.connection, self.pk(tenant, job.conversation)?, job, work)
            }
            Step::Other(write) => self.write(tenant, write),
        }
    }

    fn write(&mut self, tenant: &TenantId, write: &mut Write) -> Result<()> {
        match write {
            Write::PutConversation(conversation) => self.put_conversation(tenant, conversation, None),
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
            Write::AddJob(job) => {
                let work = work_of(&job.kind)?;
                tree::add_job(self.connection, self.pk(tenant, job.conversation)?, job, &work)
            }
            Write::PutJob(job) => tree::put_job(self.connection, self.pk(tenant, job.conversation)?, job),
            Write::RemoveJob(job) => {
                tree::remove_job(self.connection, self.pk(tenant, job.conversation)?, job)
            }
            Write::PutVectors(model, vectors) => follow::put_vectors(self.connection, tenant, model, vectors),
            Write::DropVectors(model) => follow::drop_vectors(self.connection, tenant, model),
            Write::PutVectorIndex(index) => {
                self.kept.forget_index(tenant);
                follow::put_vector_index(self.connection, tenant, index)
            }
            Write::AddSpend(charge) => spend::add(self.connection, tenant, charge),
            Write::AddLog(line) => {
                let conversation = line.conversation.map(|id| self.pk(tenant, id)).transpose()?;
                tree::add_log(self.connection, tenant, conversation, line)
            }
        }
    }

    fn statement(&mut self, which: Which) -> Result<&mut CachedStatement<'a>> {
        let place = which as usize;
        if self.statements[place].is_none() {
            self.statements[place] = Some(self.connection.prepare_cached(SQL[place])?);
        }
        self.statements[place].as_mut().ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Puts a conversation; what it replaces among those that are kept is left in its place.
    fn put_conversation(
        &mut self,
        tenant: &TenantId,
        it: &mut Conversation,
        texts: Option<RowTexts>,
    ) -> Result<()> {
        let key = key(tenant, it.id);
        let now = hour(it.last_activity);
        // Where its names are as they were, the row's number says which it is.
        if let Some(pk) = self.kept.exchange(&key, it) {
            if hour(it.last_activity) != now {
                self.statement(Which::SetHour)?.execute(params![pk, now])?;
            }
            self.grown(key).texts = texts;
            return Ok(());
        }
        let texts = texts.map_or_else(|| RowTexts::of(it), Ok)?;
        let external_id = it.external_id.as_ref().map(|id| id.as_str());
        let id = it.id.as_bytes();
        let names = params![tenant.as_str(), id, it.slug, it.cwd, it.project_path, external_id, now];
        let statement = self.statement(Which::PutConversation)?;
        let (pk, latest) = with_columns(None, it, &texts, names, |columns| {
            statement.query_row(columns, |row| Ok((row.get(0)?, Latest::read(row, 1)?)))
        })?;
        let latest = self.kept.latest(&key).unwrap_or(latest);
        // What it had grown to before is no more.
        if let Some(grown) = self.grown.iter_mut().find(|grown| grown.key == key) {
            grown.texts = Some(texts);
        }
        self.kept.keep(key, Numbered { pk, conversation: it.clone(), latest });
        Ok(())
    }

    /// Notes that the row of a conversation has to be written.
    fn grown(&mut self, key: ConversationKey) -> &mut Grown {
        let at = self.grown.iter().rposition(|grown| grown.key == key).unwrap_or_else(|| {
            self.grown.push(Grown { key, texts: None });
            self.grown.len() - 1
        });
        &mut self.grown[at]
    }

    /// Writes the row of a conversation as it is kept.
    fn grow_conversation(&mut self, grown: Grown) -> Result<()> {
        let changed = self.kept.change(&grown.key, |row| row.latest.settled());
        let (settled, row) = changed.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        settled.put(self.connection, row.pk)?;
        let latest = row.latest.write()?;
        let texts = grown.texts.map_or_else(|| RowTexts::of(&row.conversation), Ok)?;
        let statement = self.statement(Which::GrowConversation)?;
        let write = |columns: &[&dyn ToSql]| statement.execute(columns).map(drop);
        with_columns(Some(row.pk), &row.conversation, &texts, params![latest], write)
    }

    fn add_message(&mut self, tenant: &TenantId, id: ConversationId, message: &Message) -> Result<()> {
        let (conversation, thread) = self.place(tenant, id, &message.thread)?;
        let said = &message.said;
        let seq = self.statement(Which::AddMessage)?.insert(params![
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
        let key = key(tenant, id);
        let connection = self.connection;
        let add = |row: &mut Numbered| row.latest.add(connection, row.pk, message.idx.0, seq);
        self.kept.change(&key, add).map_or(Ok(()), |(added, _)| added)?;
        self.grown(key);
        Ok(())
    }

    fn add_tool_call(&mut self, tenant: &TenantId, id: ConversationId, it: &ToolCall) -> Result<()> {
        let (conversation, thread) = self.place(tenant, id, &it.thread)?;
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
        let conversation = self.pk(tenant, id)?;
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

    fn pk(&self, tenant: &TenantId, id: ConversationId) -> Result<i64> {
        match &self.place {
            Some(place) if place.id == id => Ok(place.numbers.0),
            _ => self.look(tenant, id, |row| Ok(row.pk)),
        }
    }

    /// The numbers of a conversation's row and of one of its threads.
    fn place(&mut self, tenant: &TenantId, id: ConversationId, thread: &ThreadName) -> Result<(i64, i64)> {
        if let Some(place) = self.place.as_ref().filter(|place| place.id == id && place.thread == *thread) {
            return Ok(place.numbers);
        }
        let numbers = self.look(tenant, id, |row| Ok((row.pk, row.thread(thread)?)))?;
        self.place = Some(Place { id, thread: thread.clone(), numbers });
        Ok(numbers)
    }

    fn look<T>(
        &self,
        tenant: &TenantId,
        id: ConversationId,
        look: impl FnOnce(&Numbered) -> Result<T>,
    ) -> Result<T> {
        let row = self.kept.get(&self.connection, &key(tenant, id))?;
        row.map_or(Err(rusqlite::Error::QueryReturnedNoRows), |row| look(&row))
    }
}

/// Calls `run` with what is written of a conversation in every statement that writes one, and what
/// follows it.
fn with_columns<T>(
    pk: Option<i64>,
    it: &Conversation,
    texts: &RowTexts,
    more: &[&dyn ToSql],
    run: impl FnOnce(&[&dyn ToSql]) -> Result<T>,
) -> Result<T> {
    let columns = params![
        pk,
        it.title,
        texts.participants,
        it.started_at.as_micros(),
        it.last_activity.as_micros(),
        state_code(it.state),
        it.totals.messages,
        it.totals.turns,
        it.totals.tool_calls,
        it.totals.chars as i64,
        it.totals.tokens as i64,
        naming_code(it.naming),
        texts.threads,
        texts.policy,
        texts.growth,
    ];
    run(&[columns, more].concat())
}

fn key(tenant: &TenantId, id: ConversationId) -> ConversationKey {
    ConversationKey { tenant: tenant.clone(), id }
}

//! Adds messages, tool calls, jobs and job events. They do not depend on each other, so each kind
//! is one statement, and messages and tool calls are grouped by their turn.

use std::collections::BTreeMap;

use treering_core::{
    ContentHash, ConversationId, Job, JobEvent, Message, Role, Timestamp, ToolCall, TurnNo,
};

use super::StatementBuilder;
use super::jobs::job_properties;
use crate::neo4j::bolt::BoltValue;
use crate::neo4j::values::map;

/// The additions since the last other write.
#[derive(Default)]
pub(super) struct Additions {
    turns: BTreeMap<(ConversationId, TurnNo), TurnAddition>,
    jobs: Vec<BoltValue>,
    events: Vec<BoltValue>,
}

/// The additions to one turn.
struct TurnAddition {
    thread: String,
    /// The latest time.
    at: Timestamp,
    user: String,
    assistant: String,
    chars: u32,
    messages: Vec<BoltValue>,
    calls: Vec<BoltValue>,
}

/// The turn has the texts of its messages, as they are recalled, joined by line breaks. A new one
/// is attached without `MERGE`, which would search all turns of the conversation.
const ADD_TO_TURNS: &str = "UNWIND $turns AS row
    MATCH (c:ConversationSession {tenant: $tenant, sessionId: row.session})
    MERGE (n:ConversationTurn {tenant: $tenant, sessionId: row.session, turnIndex: row.turn})
    ON CREATE SET n.uuid = row.uuid, n.level = 0, n.thread = row.thread, n.timestamp = row.at,
        n.userMessage = row.user, n.assistantMessage = row.assistant, n.charCount = row.chars,
        n.isNew = true
    ON MATCH SET n.charCount = n.charCount + row.chars,
        n.timestamp = CASE WHEN row.at > n.timestamp THEN row.at ELSE n.timestamp END,
        n.userMessage = CASE WHEN n.userMessage = '' OR row.user = '' THEN n.userMessage + row.user
            ELSE n.userMessage + '\\n' + row.user END,
        n.assistantMessage = CASE WHEN n.assistantMessage = '' OR row.assistant = ''
            THEN n.assistantMessage + row.assistant
            ELSE n.assistantMessage + '\\n' + row.assistant END,
        n.embedding = null, n.embedding_hash = null
    FOREACH (_ IN CASE WHEN n.isNew THEN [1] ELSE [] END |
        CREATE (c)-[:HAS_TURN {index: row.turn}]->(n) REMOVE n.isNew)
    FOREACH (it IN row.messages | CREATE (n)-[:HAS_MESSAGE {index: it.idx}]->(m:TreeringMessage)
        SET m = it)
    FOREACH (it IN row.calls | CREATE (n)-[:HAS_TOOL_CALL {order: it.order}]->(t:ToolCall)
        SET t = it)";

const ADD_JOBS: &str = "UNWIND $jobs AS row
    MERGE (j:TreeringJob {tenant: $tenant, sessionId: row.sessionId, height: row.height,
        position: row.position, jobId: row.jobId})
    ON CREATE SET j += row";

const ADD_EVENTS: &str = "UNWIND $events AS row CREATE (e:TreeringJobEvent) SET e = row";

impl StatementBuilder<'_> {
    /// Writes the additions so far.
    pub(super) fn flush(&mut self) {
        let Additions { turns, jobs, events } = std::mem::take(&mut self.additions);
        let turns: Vec<BoltValue> =
            turns.into_iter().map(|((id, turn), it)| it.into_row(id, turn)).collect();
        for (query, name, rows) in [
            (ADD_TO_TURNS, "turns", turns),
            (ADD_JOBS, "jobs", jobs),
            (ADD_EVENTS, "events", events),
        ] {
            if !rows.is_empty() {
                let statement = self.statement(query).with(name, rows);
                self.statements.push(statement);
            }
        }
    }

    pub(super) fn add_message(&mut self, id: ConversationId, message: &Message) {
        let seq = self.next_seq();
        let properties = message_properties(self.base.tenant, id, message, seq);
        let body = &message.body;
        let turn = self.turn(id, message.turn, message.thread.as_str(), body.at);
        turn.chars += message.chars;
        let text = message.recalled_text();
        let texts = match body.role {
            Role::User => Some(&mut turn.user),
            Role::Assistant => Some(&mut turn.assistant),
            Role::System | Role::Tool => None,
        };
        if let Some(texts) = texts.filter(|_| !text.is_empty()) {
            if !texts.is_empty() {
                texts.push('\n');
            }
            texts.push_str(&text);
        }
        turn.messages.push(properties);
    }

    pub(super) fn add_tool_call(&mut self, id: ConversationId, it: &ToolCall) {
        let (seq, outcome) = (self.next_seq(), it.call.outcome.as_ref());
        let place = [id.as_bytes(), &it.turn.0.to_le_bytes()[..], &it.order.to_le_bytes()[..]];
        let properties = map([
            ("tenant", self.base.tenant.into()),
            ("sessionId", id.into()),
            ("uuid", uuid(b"tool-call", &place).into()),
            ("turnIndex", it.turn.0.into()),
            ("order", it.order.into()),
            ("thread", it.thread.as_str().into()),
            ("before", it.before.0.into()),
            ("toolName", (&it.call.name).into()),
            ("toolArgs", it.call.args.as_str().into()),
            ("toolResult", outcome.map(|outcome| outcome.result.as_str()).into()),
            ("success", outcome.and_then(|outcome| outcome.success).into()),
            ("durationMs", outcome.and_then(|outcome| outcome.duration_ms).into()),
            ("timestamp", it.call.at.into()),
            ("externalId", it.call.external_id.as_ref().map(|id| id.as_str()).into()),
            ("seq", seq.into()),
        ]);
        self.turn(id, it.turn, it.thread.as_str(), it.call.at).calls.push(properties);
    }

    fn turn(
        &mut self,
        id: ConversationId,
        turn: TurnNo,
        thread: &str,
        at: Timestamp,
    ) -> &mut TurnAddition {
        let new = || TurnAddition {
            thread: thread.to_owned(),
            at,
            user: String::new(),
            assistant: String::new(),
            chars: 0,
            messages: Vec::new(),
            calls: Vec::new(),
        };
        let turn = self.additions.turns.entry((id, turn)).or_insert_with(new);
        turn.at = turn.at.max(at);
        turn
    }

    pub(super) fn add_job(&mut self, job: &Job) {
        let seq = self.next_seq();
        self.additions.jobs.push(job_properties(self.base.tenant, job, seq));
    }

    pub(super) fn add_job_event(&mut self, event: &JobEvent) {
        let seq = self.next_seq();
        self.additions.events.push(map([
            ("tenant", self.base.tenant.into()),
            ("sessionId", event.conversation.into()),
            ("seq", seq.into()),
            ("timestamp", event.at.into()),
            ("jobId", event.job.0.into()),
            ("kind", event.kind.as_str().into()),
            ("text", (&event.text).into()),
            ("tookMs", event.took_ms.into()),
        ]));
    }
}

impl TurnAddition {
    fn into_row(self, id: ConversationId, turn: TurnNo) -> BoltValue {
        map([
            ("session", id.into()),
            ("turn", turn.0.into()),
            ("uuid", uuid(b"turn", &[id.as_bytes(), &turn.0.to_le_bytes()]).into()),
            ("thread", self.thread.into()),
            ("at", self.at.into()),
            ("user", self.user.into()),
            ("assistant", self.assistant.into()),
            ("chars", self.chars.into()),
            ("messages", BoltValue::List(self.messages)),
            ("calls", BoltValue::List(self.calls)),
        ])
    }
}

/// The properties of a message.
fn message_properties(tenant: &str, id: ConversationId, message: &Message, seq: i64) -> BoltValue {
    let body = &message.body;
    map([
        ("tenant", tenant.into()),
        ("sessionId", id.into()),
        ("idx", message.idx.0.into()),
        ("turnIndex", message.turn.0.into()),
        ("turns", message.turns.into()),
        ("thread", message.thread.as_str().into()),
        ("role", body.role.as_str().into()),
        ("author", body.author.as_deref().into()),
        ("text", (&body.text).into()),
        ("parts", body.parts.as_ref().map(|parts| parts.as_str()).into()),
        ("timestamp", body.at.into()),
        ("externalId", body.external_id.as_ref().map(|id| id.as_str()).into()),
        ("forgotten", body.forgotten.into()),
        ("editedAt", body.edited_at.into()),
        ("correctedAt", body.correction.as_ref().map(|it| it.at).into()),
        ("correction", body.correction.as_ref().and_then(|it| it.text.as_deref()).into()),
        ("recalled", recalled(message)),
        ("chars", message.chars.into()),
        ("tokens", message.tokens.into()),
        ("hash", message.hash.into()),
        ("seq", seq.into()),
    ])
}

/// The text that is recalled, if it is not the message's own.
pub(super) fn recalled(message: &Message) -> BoltValue {
    message.body.correction.as_ref().map(|_| message.recalled_text().into_owned()).into()
}

/// An id in the form of a UUID, derived from what it identifies.
fn uuid(kind: &[u8], fields: &[&[u8]]) -> String {
    let hash = ContentHash::of_fields(&[&[kind], fields].concat()).to_string();
    [&hash[..8], &hash[8..12], &hash[12..16], &hash[16..20], &hash[20..]].join("-")
}

//! Treering's own lines: what `export` writes, `import` reads back, and `append` takes on standard
//! input. One JSON object a line; the field `type` says what it is.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use treering_core::capture::ForkPoint;
use treering_core::conversation::Thread;
use treering_core::{
    Conversation, ConversationId, ExternalId, Json, Message, MessageIdx, Naming, NewMessage, NewToolCall,
    Role, ThreadName, Timestamp, ToolCall, ToolResult,
};
use treering_engine::{NewConversation, Recorded, normalise_cwd};

use crate::importers::{Piece, Unreadable, pieces_of_openai, raw_string};

/// The version of the lines that this program writes; it reads all up to it.
const VERSION: u32 = 1;

/// What a line says.
#[derive(Debug)]
pub enum Line {
    /// The header of a file.
    Header,
    /// What follows belongs to this conversation.
    Conversation(Box<NewConversation>),
    /// Messages, tool calls, results, forks.
    Pieces(Vec<(ThreadName, Piece)>),
}

#[derive(Serialize, Deserialize)]
struct HeaderLine {
    #[serde(rename = "type")]
    kind: String,
    version: u32,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct ConversationLine {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slug: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    naming: Option<String>,
    participants: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ThreadLine {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    parent: Option<String>,
    fork_idx: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct MessageLine<'a> {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    idx: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(borrow)]
    text: &'a RawValue,
    #[serde(borrow, skip_serializing_if = "Option::is_none", default)]
    parts: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ToolCallLine<'a> {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    name: String,
    #[serde(borrow, skip_serializing_if = "Option::is_none", default)]
    args: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none", default)]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
}

#[derive(Deserialize)]
struct ToolResultLine<'a> {
    thread: Option<String>,
    call: String,
    #[serde(borrow)]
    result: &'a RawValue,
    success: Option<bool>,
    duration_ms: Option<u64>,
    at: Option<String>,
}

#[derive(Deserialize)]
struct TurnLine<'a> {
    thread: Option<String>,
    author: Option<String>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    #[serde(borrow)]
    assistant: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Vec<ToolCallLine<'a>>,
    at: Option<String>,
    external_id: Option<String>,
}

/// Reads a line. `now` times what has no time of its own.
pub fn parse_line(text: &str, now: Timestamp) -> Result<Line, Unreadable> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type")]
        kind: Option<String>,
        #[serde(borrow)]
        role: Option<&'a RawValue>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
    }
    let Kind { kind, role, text: said } = serde_json::from_str(text)?;
    match kind.as_deref() {
        Some("treering") => {
            let header: HeaderLine = serde_json::from_str(text)?;
            if header.version > VERSION {
                let found = header.version;
                return Err(Unreadable(format!(
                    "it was written in version {found} of the export, and this program reads up to {VERSION}; \
                     install the newer Treering"
                )));
            }
            Ok(Line::Header)
        }
        Some("conversation") => conversation(serde_json::from_str(text)?),
        Some("thread") => fork(&serde_json::from_str(text)?),
        Some("message") => message(serde_json::from_str(text)?, now),
        Some("tool_call") => {
            let line: ToolCallLine<'_> = serde_json::from_str(text)?;
            let thread = thread(line.thread.as_deref())?;
            Ok(Line::Pieces(vec![(thread, Piece::ToolCall(tool_call(line, now)?))]))
        }
        Some("tool_result") => tool_result(serde_json::from_str(text)?, now),
        Some("turn") => turn(serde_json::from_str(text)?, now),
        None if role.is_some() && said.is_some() => message(serde_json::from_str(text)?, now),
        None if role.is_some() => Ok(Line::Pieces(pieces_of_openai(serde_json::from_str(text)?, now)?)),
        Some(other) => Err(Unreadable(format!(
            "type {other:?} is unknown; expected conversation, thread, message, tool_call, tool_result or turn"
        ))),
        None => Err(Unreadable("it has neither a type nor a role".into())),
    }
}

fn at(text: Option<&str>, now: Timestamp) -> Result<Timestamp, Unreadable> {
    Ok(text.map(str::parse).transpose()?.unwrap_or(now))
}

fn thread(name: Option<&str>) -> Result<ThreadName, Unreadable> {
    Ok(name.map(str::parse).transpose()?.unwrap_or_default())
}

fn external(id: Option<String>) -> Result<Option<ExternalId>, Unreadable> {
    Ok(id.map(ExternalId::new).transpose()?)
}

fn conversation(line: ConversationLine) -> Result<Line, Unreadable> {
    let naming = line.naming.as_deref().map(str::parse).transpose()?.unwrap_or(Naming::Source);
    Ok(Line::Conversation(Box::new(NewConversation {
        id: line.id.as_deref().map(str::parse::<ConversationId>).transpose()?,
        external_id: external(line.external_id)?,
        slug: line.slug,
        title: line.title,
        naming,
        participants: line.participants,
        cwd: line.cwd.map(|cwd| normalise_cwd(&cwd)),
        project_path: line.project_path,
        state: line.state.as_deref().map(str::parse).transpose()?.unwrap_or_default(),
    })))
}

fn fork(line: &ThreadLine) -> Result<Line, Unreadable> {
    let after = line.fork_idx.map_or(ForkPoint::Start, |idx| ForkPoint::Position(MessageIdx(idx)));
    let parent = thread(line.parent.as_deref())?;
    Ok(Line::Pieces(vec![(ThreadName::new(line.name.clone())?, Piece::Fork(parent, after))]))
}

fn message(line: MessageLine<'_>, now: Timestamp) -> Result<Line, Unreadable> {
    let (text, original) =
        raw_string(line.text).ok_or_else(|| Unreadable("the text of a message is not a string".into()))?;
    let said = NewMessage {
        role: line.role.parse()?,
        author: line.author,
        text,
        parts: line.parts.map(Json::from_raw).or(original),
        at: at(line.at.as_deref(), now)?,
        external_id: external(line.external_id)?,
    };
    Ok(Line::Pieces(vec![(thread(line.thread.as_deref())?, Piece::Message(said))]))
}

fn tool_call(line: ToolCallLine<'_>, now: Timestamp) -> Result<NewToolCall, Unreadable> {
    let outcome = line.result.map(|result| ToolResult {
        result: Json::from_raw(result),
        success: line.success,
        duration_ms: line.duration_ms,
    });
    Ok(NewToolCall {
        name: line.name,
        args: line.args.map_or_else(|| Json::new("{}"), |args| Ok(Json::from_raw(args)))?,
        outcome,
        at: at(line.at.as_deref(), now)?,
        external_id: external(line.external_id)?,
    })
}

fn tool_result(line: ToolResultLine<'_>, now: Timestamp) -> Result<Line, Unreadable> {
    let outcome = ToolResult {
        result: Json::from_raw(line.result),
        success: line.success,
        duration_ms: line.duration_ms,
    };
    let piece = Piece::ToolResult(ExternalId::new(line.call)?, outcome, at(line.at.as_deref(), now)?);
    Ok(Line::Pieces(vec![(thread(line.thread.as_deref())?, piece)]))
}

/// A whole turn: what the user said, the tool calls, what the assistant answered.
fn turn(line: TurnLine<'_>, now: Timestamp) -> Result<Line, Unreadable> {
    let thread = thread(line.thread.as_deref())?;
    let when = at(line.at.as_deref(), now)?;
    let said = |role: Role, raw: &RawValue, author: Option<String>| -> Result<Piece, Unreadable> {
        let (text, parts) =
            raw_string(raw).ok_or_else(|| Unreadable(format!("what the {role} said is not a string")))?;
        let id = line.external_id.as_ref().map(|id| format!("{id}/{role}"));
        Ok(Piece::Message(NewMessage { role, author, text, parts, at: when, external_id: external(id)? }))
    };
    let mut pieces = Vec::new();
    if let Some(user) = line.user {
        pieces.push(said(Role::User, user, line.author.clone())?);
    }
    for (order, call) in line.tool_calls.into_iter().enumerate() {
        let mut call = tool_call(call, when)?;
        if let (None, Some(id)) = (&call.external_id, &line.external_id) {
            call.external_id = external(Some(format!("{id}/tool-{order}")))?;
        }
        pieces.push(Piece::ToolCall(call));
    }
    if let Some(assistant) = line.assistant {
        pieces.push(said(Role::Assistant, assistant, None)?);
    }
    if pieces.is_empty() {
        return Err(Unreadable("the turn is empty; give it user, assistant or tool_calls".into()));
    }
    Ok(Line::Pieces(pieces.into_iter().map(|piece| (thread.clone(), piece)).collect()))
}

/// Reads a tool call that stands alone: the object of a `tool_call` line, its type left out or not.
pub fn parse_tool_call(json: &str, now: Timestamp) -> Result<NewToolCall, Unreadable> {
    tool_call(serde_json::from_str(json)?, now)
}

/// The first line of an export.
pub fn header() -> Result<String, serde_json::Error> {
    serde_json::to_string(&HeaderLine { kind: "treering".into(), version: VERSION })
}

/// The line of a conversation.
pub fn conversation_line(it: &Conversation) -> Result<String, serde_json::Error> {
    serde_json::to_string(&ConversationLine {
        kind: "conversation".into(),
        id: Some(it.id.to_string()),
        slug: Some(it.slug.clone()),
        title: it.title.clone(),
        naming: Some(it.naming.as_str().into()),
        participants: it.participants.clone(),
        cwd: it.cwd.clone(),
        project_path: it.project_path.clone(),
        started_at: Some(it.started_at.to_string()),
        state: Some(it.state.as_str().into()),
        external_id: it.external_id.as_ref().map(ToString::to_string),
    })
}

/// The line of something in a conversation.
pub fn recorded_line(recorded: Recorded<'_>) -> Result<String, serde_json::Error> {
    match recorded {
        Recorded::Thread(thread) => thread_line(thread),
        Recorded::Message(message) => message_line(message),
        Recorded::ToolCall(call) => tool_call_line(call),
    }
}

fn thread_line(thread: &Thread) -> Result<String, serde_json::Error> {
    let fork = thread.fork.as_ref();
    serde_json::to_string(&ThreadLine {
        kind: "thread".into(),
        name: thread.name.to_string(),
        parent: fork.map(|fork| fork.parent.to_string()),
        fork_idx: fork.and_then(|fork| fork.after).map(|idx| idx.0),
    })
}

fn message_line(message: &Message) -> Result<String, serde_json::Error> {
    let said = &message.said;
    let text = serde_json::value::to_raw_value(&said.text)?;
    let parts = said.parts.as_ref().map(raw).transpose()?;
    serde_json::to_string(&MessageLine {
        kind: "message".into(),
        idx: Some(message.idx.0),
        thread: unless_main(&message.thread),
        role: said.role.as_str().into(),
        author: said.author.clone(),
        text: &text,
        parts: parts.as_deref(),
        at: Some(said.at.to_string()),
        external_id: said.external_id.as_ref().map(ToString::to_string),
    })
}

fn tool_call_line(it: &ToolCall) -> Result<String, serde_json::Error> {
    let args = raw(&it.call.args)?;
    let outcome = it.call.outcome.as_ref();
    let result = outcome.map(|outcome| raw(&outcome.result)).transpose()?;
    serde_json::to_string(&ToolCallLine {
        kind: "tool_call".into(),
        thread: unless_main(&it.thread),
        name: it.call.name.clone(),
        args: Some(&args),
        result: result.as_deref(),
        success: outcome.and_then(|outcome| outcome.success),
        duration_ms: outcome.and_then(|outcome| outcome.duration_ms),
        at: Some(it.call.at.to_string()),
        external_id: it.call.external_id.as_ref().map(ToString::to_string),
    })
}

fn raw(json: &Json) -> Result<Box<RawValue>, serde_json::Error> {
    RawValue::from_string(json.as_str().to_owned())
}

fn unless_main(thread: &ThreadName) -> Option<String> {
    (!thread.is_main()).then(|| thread.to_string())
}

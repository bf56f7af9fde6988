//! Treering's JSON Lines format, which `export` writes, `import` reads and `append` reads from
//! stdin. One JSON object per line; the field `type` names its kind.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use treering_core::{
    Assignment, ContentHash, ConversationId, Correction, Entry, EntryKind, ExternalId, ForkPoint,
    Json, Labels, MessageIdx, MessageText, MessageVersion, NewConversation, NewMessage,
    NewToolCall, NewTurn, ThreadName, Timestamp, TitleSource, TombstoneSet, ToolResult,
};

use crate::{ImportError, entries_of_openai, raw_string};

mod write;

pub use write::{header, line};

/// The version that this program writes. It also reads all earlier versions.
const VERSION: u32 = 5;

/// A parsed line.
#[derive(Debug)]
pub enum JsonLine {
    /// The header of a file.
    Header,
    /// The conversation that the following lines belong to.
    Conversation(Box<NewConversation>),
    /// Messages, tool calls, tool results, forks and ends of turns.
    Entries(Vec<Entry>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderLine {
    #[serde(rename = "type")]
    kind: String,
    version: u32,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    tombstone_salts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    tombstones: Vec<ContentHash>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct ConversationLine {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slug: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(alias = "naming", skip_serializing_if = "Option::is_none")]
    title_source: Option<String>,
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
    #[serde(skip_serializing_if = "Labels::is_empty")]
    labels: Labels,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policy: Vec<Assignment>,
}

/// A field whose value is JSON null. In a line, null means that a field is absent, so `null_fields`
/// lists the fields that are really null.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum NullField {
    Parts,
    Args,
    Result,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThreadLine {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    parent: Option<String>,
    fork_idx: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    null_fields: Vec<NullField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    #[serde(skip_serializing_if = "is_false", default)]
    forgotten: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    edited_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correction: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    history: Vec<VersionLine>,
}

/// An earlier version in the line of its message.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionLine {
    replaced_at: String,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    parts: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    null_fields: Vec<NullField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correction: Option<String>,
}

/// Whether a flag is not set, and therefore not written.
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    null_fields: Vec<NullField>,
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
#[serde(deny_unknown_fields)]
struct ToolResultLine<'a> {
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    thread: Option<String>,
    call: String,
    #[serde(borrow)]
    result: &'a RawValue,
    success: Option<bool>,
    duration_ms: Option<u64>,
    at: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnEndLine {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnLine<'a> {
    #[serde(rename = "type")]
    _kind: IgnoredAny,
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

/// Parses a line. Entries without a timestamp get `now`.
pub fn parse_line(text: &str, now: Timestamp) -> Result<JsonLine, ImportError> {
    #[derive(Deserialize)]
    struct LineProbe<'a> {
        #[serde(rename = "type")]
        kind: Option<String>,
        #[serde(borrow)]
        role: Option<&'a RawValue>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        version: Option<&'a RawValue>,
    }
    let LineProbe { kind, role, text: body, version } = serde_json::from_str(text)?;
    match kind.as_deref() {
        Some("treering") => {
            // The header of a later version may have other fields.
            let found =
                version.map_or(Ok(0), |version| serde_json::from_str::<u32>(version.get()))?;
            if found > VERSION {
                return Err(ImportError(format!(
                    "its export version is {found}, but this program supports up to {VERSION}; \
                     install a newer version of Treering"
                )));
            }
            serde_json::from_str::<HeaderLine>(text)?;
            Ok(JsonLine::Header)
        }
        Some("conversation") => conversation(serde_json::from_str(text)?),
        Some("thread") => fork(&serde_json::from_str(text)?),
        Some("message") => message(serde_json::from_str(text)?, now),
        Some("tool_call") => {
            let line: ToolCallLine<'_> = serde_json::from_str(text)?;
            let thread = thread(line.thread.as_deref())?;
            one_entry(thread, EntryKind::ToolCall(tool_call(line, now)?))
        }
        Some("tool_result") => tool_result(serde_json::from_str(text)?, now),
        Some("turn") => turn(serde_json::from_str(text)?, now),
        Some("turn_end") => {
            let line: TurnEndLine = serde_json::from_str(text)?;
            one_entry(thread(line.thread.as_deref())?, EntryKind::TurnEnd)
        }
        None if role.is_some() && body.is_some() => message(serde_json::from_str(text)?, now),
        None if role.is_some() => {
            Ok(JsonLine::Entries(entries_of_openai(serde_json::from_str(text)?, now)?))
        }
        Some(other) => Err(ImportError(format!(
            "type {other:?} is unknown; expected conversation, thread, message, tool_call, tool_result, turn or turn_end"
        ))),
        None => Err(ImportError("it has neither a type nor a role".into())),
    }
}

fn one_entry(thread: ThreadName, kind: EntryKind) -> Result<JsonLine, ImportError> {
    Ok(JsonLine::Entries(vec![Entry { thread, kind }]))
}

fn at(text: Option<&str>, now: Timestamp) -> Result<Timestamp, ImportError> {
    Ok(text.map(str::parse).transpose()?.unwrap_or(now))
}

fn thread(name: Option<&str>) -> Result<ThreadName, ImportError> {
    Ok(name.map(str::parse).transpose()?.unwrap_or_default())
}

fn external(id: Option<String>) -> Result<Option<ExternalId>, ImportError> {
    Ok(id.map(ExternalId::new).transpose()?)
}

/// The JSON value of a field, including a listed null.
fn json(raw: Option<&RawValue>, field: NullField, nulls: &[NullField]) -> Option<Json> {
    raw.map(Json::from_raw).or_else(|| nulls.contains(&field).then(Json::null))
}

fn conversation(line: ConversationLine) -> Result<JsonLine, ImportError> {
    let id = line.id.as_deref().map(str::parse::<ConversationId>).transpose()?;
    let title_source =
        line.title_source.as_deref().map(str::parse).transpose()?.unwrap_or(TitleSource::Source);
    Ok(JsonLine::Conversation(Box::new(NewConversation {
        id,
        external_id: external(line.external_id)?,
        slug: line.slug,
        title: line.title,
        title_source,
        participants: line.participants,
        cwd: line.cwd,
        project_path: line.project_path,
        state: line.state.as_deref().map(str::parse).transpose()?.unwrap_or_default(),
        started_at: line.started_at.as_deref().map(str::parse).transpose()?,
        labels: line.labels,
        policy: line.policy,
    })))
}

fn fork(line: &ThreadLine) -> Result<JsonLine, ImportError> {
    let after = line.fork_idx.map_or(ForkPoint::Start, |idx| ForkPoint::Position(MessageIdx(idx)));
    let parent = thread(line.parent.as_deref())?;
    one_entry(ThreadName::new(line.name.clone())?, EntryKind::Fork { parent, after })
}

fn message(line: MessageLine<'_>, now: Timestamp) -> Result<JsonLine, ImportError> {
    let (text, original) = raw_string(line.text)
        .ok_or_else(|| ImportError("the text of a message is not a string".into()))?;
    let message = NewMessage {
        role: line.role.parse()?,
        author: line.author,
        text,
        parts: json(line.parts, NullField::Parts, &line.null_fields).or(original),
        at: at(line.at.as_deref(), now)?,
        external_id: external(line.external_id)?,
        forgotten: false,
        edited_at: line.edited_at.as_deref().map(str::parse).transpose()?,
        correction: correction(line.wrong_at.as_deref(), line.correction)?,
        history: line.history.into_iter().map(version).collect::<Result<_, _>>()?,
    };
    // A placeholder has no content, whatever the line says.
    let message = match line.forgotten {
        true => NewMessage::placeholder(message.role, message.at),
        false => message,
    };
    one_entry(thread(line.thread.as_deref())?, EntryKind::Message(message))
}

fn version(line: VersionLine) -> Result<MessageVersion, ImportError> {
    Ok(MessageVersion {
        replaced_at: line.replaced_at.parse()?,
        text: line.text,
        parts: json(line.parts.as_deref(), NullField::Parts, &line.null_fields),
        correction: correction(line.wrong_at.as_deref(), line.correction)?,
    })
}

fn correction(
    wrong_at: Option<&str>,
    text: Option<String>,
) -> Result<Option<Correction>, ImportError> {
    match wrong_at.map(str::parse).transpose()? {
        Some(at) => Ok(Some(Correction { at, text })),
        None if text.is_some() => Err(ImportError("a correction needs wrong_at, its time".into())),
        None => Ok(None),
    }
}

fn tool_call(line: ToolCallLine<'_>, now: Timestamp) -> Result<NewToolCall, ImportError> {
    let result = json(line.result, NullField::Result, &line.null_fields);
    Ok(NewToolCall {
        name: line.name,
        args: json(line.args, NullField::Args, &line.null_fields)
            .unwrap_or_else(Json::empty_object),
        outcome: ToolResult::of_parts(result, line.success, line.duration_ms),
        at: at(line.at.as_deref(), now)?,
        external_id: external(line.external_id)?,
    })
}

fn tool_result(line: ToolResultLine<'_>, now: Timestamp) -> Result<JsonLine, ImportError> {
    let outcome = ToolResult {
        result: Json::from_raw(line.result),
        success: line.success,
        duration_ms: line.duration_ms,
    };
    let (call, at) = (ExternalId::new(line.call)?, at(line.at.as_deref(), now)?);
    one_entry(thread(line.thread.as_deref())?, EntryKind::ToolResult { call, outcome, at })
}

/// A whole turn: the user's message, the tool calls and the answer.
fn turn(line: TurnLine<'_>, now: Timestamp) -> Result<JsonLine, ImportError> {
    let at = at(line.at.as_deref(), now)?;
    let text = |raw: Option<&RawValue>, field: &str| -> Result<_, ImportError> {
        let Some(raw) = raw else { return Ok(None) };
        let (text, parts) =
            raw_string(raw).ok_or_else(|| ImportError(format!("{field} is not a string")))?;
        Ok(Some(MessageText { text, parts }))
    };
    let calls = line.tool_calls.into_iter().map(|call| tool_call(call, at));
    let turn = NewTurn {
        thread: thread(line.thread.as_deref())?,
        author: line.author,
        user: text(line.user, "user")?,
        tool_calls: calls.collect::<Result<_, _>>()?,
        assistant: text(line.assistant, "assistant")?,
        at,
        external_id: line.external_id,
    };
    Ok(JsonLine::Entries(turn.into_entries()?))
}

/// Parses a single tool call: the object of a `tool_call` line, with or without its type.
pub fn parse_tool_call(json: &str, now: Timestamp) -> Result<NewToolCall, ImportError> {
    tool_call(serde_json::from_str(json)?, now)
}

/// The tombstones in the first line of an export; `None` if it has none.
#[must_use]
pub fn tombstones(first_line: &str) -> Option<TombstoneSet> {
    let header: HeaderLine = serde_json::from_str(first_line).ok()?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let salt = |hex: &String| hex.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>();
    let salts = header.tombstone_salts.iter().map(salt).collect::<Option<Vec<_>>>()?;
    (header.kind == "treering" && !header.tombstones.is_empty())
        .then_some(TombstoneSet { salts, hashes: header.tombstones })
}

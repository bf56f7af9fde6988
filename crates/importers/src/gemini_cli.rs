//! Gemini CLI sessions: one JSON object, or, in newer versions, JSON lines with a header, messages
//! and updates.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use treering_core::{
    EntryKind, Json, NewMessage, NewToolCall, Role, Timestamp, TitleSource, ToolResult,
};

use super::openai::content;
use super::text::{self, DecodedText};
use super::{Format, ImportError, ImportedConversation, Sink, SourceFile, external, stem};

/// A session, or the part of it that one line holds.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct GeminiSession<'a> {
    session_id: Option<String>,
    start_time: Option<String>,
    summary: Option<String>,
    directories: Option<Vec<String>>,
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
}

/// A line of a session file.
#[derive(Deserialize)]
struct GeminiLine<'a> {
    id: Option<String>,
    #[serde(rename = "$set", borrow)]
    set: Option<GeminiSession<'a>>,
    #[serde(rename = "$rewindTo")]
    rewind_to: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiMessage<'a> {
    id: String,
    timestamp: Option<String>,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thoughts: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<GeminiToolCall<'a>>>,
}

#[derive(Deserialize)]
struct GeminiToolCall<'a> {
    id: Option<String>,
    name: String,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    status: Option<String>,
    timestamp: Option<String>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let whole = text::parse::<GeminiSession<'_>>(&source.text);
    let session = match whole {
        Ok(session) if session.messages.is_some() => session,
        _ => lines(source, sink)?,
    };
    let id = session.session_id.unwrap_or_else(|| stem(&source.path));
    let mut imported = ImportedConversation::named(Format::GeminiCli, &id);
    imported.conversation.title = session.summary.filter(|title| !title.trim().is_empty());
    imported.conversation.title_source = TitleSource::Source;
    imported.conversation.cwd = session.directories.and_then(|all| all.into_iter().next());
    let mut at = parse_time(session.start_time.as_deref()).unwrap_or(source.modified);
    for raw in session.messages.into_iter().flatten() {
        let message: GeminiMessage<'_> = text::parse(raw.get())?;
        at = parse_time(message.timestamp.as_deref()).unwrap_or(at);
        entries(raw, &message, at, &mut imported, sink);
    }
    sink.emit(imported)
}

/// Replays the lines of a session. A repeated message replaces the earlier one.
fn lines<'a>(
    source: &'a SourceFile,
    sink: &mut Sink<'_>,
) -> Result<GeminiSession<'a>, ImportError> {
    let mut session = GeminiSession::default();
    let mut messages: Vec<&RawValue> = Vec::new();
    let mut index_of_id: HashMap<String, usize> = HashMap::new();
    let mut position = text::LinePosition::default();
    for record in text::records::<GeminiLine<'_>>(source, &mut position, sink)?.records {
        let line = record.value;
        if line.rewind_to.is_some() {
            // Messages from before the user went back stay in memory.
            sink.skip("rewinds");
        } else if let Some(id) = line.id {
            let raw = text::parse::<&RawValue>(record.line)?;
            match index_of_id.get(&id) {
                Some(index) => messages[*index] = raw,
                None => {
                    index_of_id.insert(id, messages.len());
                    messages.push(raw);
                }
            }
        } else {
            let update = match line.set {
                Some(update) => update,
                None => text::parse(record.line)?,
            };
            session.session_id = update.session_id.or(session.session_id);
            session.start_time = update.start_time.or(session.start_time);
            session.summary = update.summary.or(session.summary);
            session.directories = update.directories.or(session.directories);
            session.messages = update.messages.filter(|all| !all.is_empty()).or(session.messages);
        }
    }
    if session.messages.is_none() {
        session.messages = Some(messages);
    }
    Ok(session)
}

fn parse_time(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

/// The message, then the tool calls that it makes.
fn entries(
    raw: &RawValue,
    message: &GeminiMessage<'_>,
    at: Timestamp,
    imported: &mut ImportedConversation,
    sink: &mut Sink<'_>,
) {
    let role = match message.kind.as_str() {
        "user" => Role::User,
        "gemini" => Role::Assistant,
        other => return sink.skip(format!("{other} messages")),
    };
    let DecodedText { text, original } = message.content.map(body).unwrap_or_default();
    let has_thoughts = message.thoughts.as_ref().is_some_and(|all| !all.is_empty());
    let calls = message.tool_calls.as_deref().unwrap_or_default();
    if text.is_empty() && original.is_none() && !has_thoughts && calls.is_empty() {
        return sink.skip("empty messages");
    }
    if !text.is_empty() || original.is_some() || has_thoughts {
        let mut new = NewMessage::new(role, text, at);
        new.parts = match has_thoughts {
            true => Some(Json::from_raw(raw)),
            false => original,
        };
        new.external_id = Some(external(&message.id));
        imported.push(EntryKind::Message(new));
    }
    for (number, call) in calls.iter().enumerate() {
        let id = call.id.clone().unwrap_or_else(|| format!("{}/{number}", message.id));
        let outcome = call.result.map(|result| ToolResult {
            result: Json::from_raw(result),
            success: call.status.as_deref().map(|status| status == "success"),
            duration_ms: None,
        });
        imported.push(EntryKind::ToolCall(NewToolCall {
            name: call.name.clone(),
            args: call.args.map_or_else(Json::empty_object, Json::from_raw),
            outcome,
            at: parse_time(call.timestamp.as_deref()).unwrap_or(at),
            external_id: Some(external(&id)),
        }));
    }
}

/// The text of a content: a string, or parts of which those with text have no type.
fn body(raw: &RawValue) -> DecodedText {
    #[derive(Deserialize)]
    struct GeminiPart<'a> {
        #[serde(borrow, default)]
        text: Option<&'a RawValue>,
    }
    let Ok(parts) = text::parse::<Vec<GeminiPart<'_>>>(raw.get()) else { return content(raw) };
    let mut texts = Vec::new();
    let mut is_plain_text = true;
    for part in parts {
        match part.text.and_then(text::string) {
            Some(DecodedText { text, original }) => {
                is_plain_text &= original.is_none();
                texts.push(text);
            }
            None => is_plain_text = false,
        }
    }
    DecodedText { text: texts.join("\n"), original: (!is_plain_text).then(|| Json::from_raw(raw)) }
}

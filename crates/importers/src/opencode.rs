//! Sessions that `opencode export` writes. They have the ids that the OpenCode plugin captures, so
//! that both can be used.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{
    EntryKind, Json, NewMessage, NewToolCall, Role, Timestamp, TitleSource, ToolResult,
};

use super::text::{self, DecodedText};
use super::{Format, ImportError, ImportedConversation, Sink, SourceFile, external};

#[derive(Deserialize)]
struct OpenCodeSession<'a> {
    info: OpenCodeInfo,
    #[serde(borrow)]
    messages: Vec<OpenCodeMessage<'a>>,
}

#[derive(Deserialize)]
struct OpenCodeInfo {
    id: String,
    title: Option<String>,
    directory: Option<String>,
}

#[derive(Deserialize)]
struct OpenCodeMessage<'a> {
    info: OpenCodeMessageInfo,
    #[serde(borrow, default)]
    parts: Vec<OpenCodePart<'a>>,
}

#[derive(Deserialize)]
struct OpenCodeMessageInfo {
    id: String,
    role: String,
    time: Option<OpenCodeTime>,
    finish: Option<String>,
}

/// Milliseconds since 1970.
#[derive(Deserialize)]
struct OpenCodeTime {
    created: Option<f64>,
    start: Option<f64>,
    end: Option<f64>,
}

#[derive(Deserialize)]
struct OpenCodePart<'a> {
    id: Option<String>,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(default)]
    synthetic: bool,
    tool: Option<String>,
    #[serde(borrow, default)]
    state: Option<OpenCodeState<'a>>,
}

#[derive(Deserialize)]
struct OpenCodeState<'a> {
    #[serde(default)]
    status: String,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    time: Option<OpenCodeTime>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let session: OpenCodeSession<'_> = text::parse(&source.text)?;
    let mut imported = ImportedConversation::named(Format::OpenCode, &session.info.id);
    let key = format!("opencode/{}", session.info.id);
    imported.conversation.external_id = Some(external(&key));
    imported.conversation.title = session.info.title.filter(|title| !title.trim().is_empty());
    imported.conversation.title_source = TitleSource::Source;
    imported.conversation.cwd = session.info.directory;
    let mut at = source.modified;
    for message in &session.messages {
        let created = message.info.time.as_ref().and_then(|time| time.created);
        at = created.and_then(|ms| Timestamp::from_seconds(ms / 1000.0)).unwrap_or(at);
        entries(message, at, &mut imported, sink);
    }
    sink.emit(imported)
}

/// The tool calls of a message, then its text.
fn entries(
    message: &OpenCodeMessage<'_>,
    at: Timestamp,
    imported: &mut ImportedConversation,
    sink: &mut Sink<'_>,
) {
    let role = match message.info.role.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => return sink.skip(format!("{other} messages")),
    };
    let mut texts = Vec::new();
    let mut thinking = Vec::new();
    for part in &message.parts {
        match (part.kind.as_str(), part.text.and_then(text::string)) {
            ("text", Some(_)) if part.synthetic => sink.skip("texts that OpenCode inserted"),
            ("text", Some(DecodedText { text, .. })) => texts.push(text),
            ("reasoning", Some(DecodedText { text, .. })) => thinking.push(text),
            ("tool", _) => imported.entries.extend(tool_call(part, at).map(Into::into)),
            (other, _) => sink.skip(format!("{other} parts")),
        }
    }
    let text = texts.join("\n");
    thinking.retain(|thought| !thought.trim().is_empty());
    if text.is_empty() && thinking.is_empty() {
        return;
    }
    let mut new = NewMessage::new(role, text, at);
    new.parts = (!thinking.is_empty()).then(|| Json::string(&thinking.join("\n\n")));
    new.external_id = Some(external(&format!("opencode/{}", message.info.id)));
    imported.push(EntryKind::Message(new));
    if message.info.finish.as_deref() == Some("stop") {
        imported.push(EntryKind::TurnEnd);
    }
}

fn tool_call(part: &OpenCodePart<'_>, at: Timestamp) -> Option<EntryKind> {
    let (id, state) = (part.id.as_deref()?, part.state.as_ref()?);
    let is_over = matches!(state.status.as_str(), "completed" | "error");
    let duration_ms = state.time.as_ref().and_then(|time| {
        let elapsed = time.end? - time.start?;
        (elapsed.is_finite() && elapsed >= 0.0).then_some(elapsed as u64)
    });
    let result = state.error.or(state.output).map_or_else(|| Json::string(""), Json::from_raw);
    let success = Some(state.status == "completed");
    let outcome = is_over.then_some(ToolResult { result, success, duration_ms });
    Some(EntryKind::ToolCall(NewToolCall {
        name: part.tool.clone().unwrap_or_else(|| "tool".into()),
        args: state.input.map_or_else(Json::empty_object, Json::from_raw),
        outcome,
        at,
        external_id: Some(external(&format!("opencode/{id}"))),
    }))
}

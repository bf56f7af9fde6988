//! Messages in the format of the OpenAI API: an array, one message per line, or one conversation
//! per line.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{
    Entry, EntryKind, ExternalId, Json, NewMessage, NewToolCall, Role, ThreadName, Timestamp,
    TitleSource, ToolResult,
};

use super::text::{self, DecodedText};
use super::{CallIds, Format, ImportError, ImportedConversation, Sink, SourceFile, args_of};

#[derive(Deserialize)]
struct OpenAiMessage<'a> {
    role: Option<String>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(alias = "author")]
    name: Option<String>,
    thread: Option<String>,
    #[serde(borrow, default)]
    tool_calls: Vec<OpenAiToolCall<'a>>,
    tool_call_id: Option<String>,
    #[serde(borrow)]
    function_call: Option<OpenAiFunction<'a>>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(alias = "created_at", alias = "created", alias = "ts", default)]
    timestamp: Option<serde_json::Value>,
    external_id: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiToolCall<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: Option<OpenAiFunction<'a>>,
    #[serde(borrow)]
    custom: Option<OpenAiFunction<'a>>,
}

#[derive(Deserialize)]
struct OpenAiFunction<'a> {
    name: String,
    #[serde(borrow, default, alias = "input")]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Wrapper<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(default)]
    title: Option<String>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    if let Ok(messages) = text::parse::<Vec<&RawValue>>(&source.text) {
        return emit(messages, None, source, sink);
    }
    if let Ok(wrapper) = text::parse::<Wrapper<'_>>(&source.text) {
        return emit(wrapper.messages, wrapper.title, source, sink);
    }
    let mut loose = Vec::new();
    for (number, line) in source.lines() {
        if let Ok(wrapper) = text::parse::<Wrapper<'_>>(line) {
            emit(wrapper.messages, wrapper.title, source, sink)?;
        } else {
            let message = text::parse::<&RawValue>(line);
            loose.push(message.map_err(|error| ImportError(format!("line {number}: {error}")))?);
        }
    }
    if loose.is_empty() { Ok(()) } else { emit(loose, None, source, sink) }
}

fn emit(
    messages: Vec<&RawValue>,
    title: Option<String>,
    source: &SourceFile,
    sink: &mut Sink<'_>,
) -> Result<(), ImportError> {
    let mut reader = OpenAiReader {
        ids: CallIds::default(),
        last_function: None,
        calls: 0,
        entries: Vec::new(),
    };
    for raw in messages {
        let before = reader.entries.len();
        reader.message(raw, source.modified, sink)?;
        let message: OpenAiMessage<'_> = text::parse(raw.get())?;
        if let Some(thread) = message.thread.map(ThreadName::new).transpose()? {
            let new = reader.entries.iter_mut().skip(before);
            new.for_each(|entry| entry.thread = thread.clone());
        }
    }
    let mut imported = ImportedConversation::unnamed(Format::OpenAi, reader.entries);
    if let Some(imported) = &mut imported {
        imported.conversation.title_source = TitleSource::Source;
        imported.conversation.title = title;
    }
    sink.emit_unnamed(imported)
}

struct OpenAiReader {
    ids: CallIds,
    /// The call that a result without a call id belongs to.
    last_function: Option<String>,
    calls: u32,
    entries: Vec<Entry>,
}

impl OpenAiReader {
    fn message(
        &mut self,
        raw: &RawValue,
        modified: Timestamp,
        sink: &mut Sink<'_>,
    ) -> Result<(), ImportError> {
        let message: OpenAiMessage<'_> = text::parse(raw.get())?;
        let Some(role) = message.role.as_deref() else {
            sink.skip("entries without a role");
            return Ok(());
        };
        let at = message.timestamp.as_ref().and_then(parse_time).unwrap_or(modified);
        if matches!(role, "tool" | "function") {
            self.result(&message, at);
            return Ok(());
        }
        let role = role_of(role)?;
        let before = self.entries.len();
        let DecodedText { text, original } = message.content.map(content).unwrap_or_default();
        let kept = message
            .refusal
            .or(message.reasoning_content)
            .is_some_and(|extra| extra.get() != "null")
            || unknown_field(raw)?.is_some_and(|field| field != "type");
        if !text.is_empty() || original.is_some() || kept {
            let mut new = NewMessage::new(role, text, at);
            new.author.clone_from(&message.name);
            new.parts = if kept { Some(Json::from_raw(raw)) } else { original };
            if let Some(DecodedText { text, .. }) = message.refusal.and_then(text::string)
                && new.text.is_empty()
            {
                new.text = text;
            }
            self.push(EntryKind::Message(new));
        }
        for call in &message.tool_calls {
            let Some(function) = call.function.as_ref().or(call.custom.as_ref()) else { continue };
            self.call(function, call.id.as_deref(), at);
        }
        if let Some(function) = &message.function_call {
            self.call(function, None, at);
        }
        if self.entries.len() == before {
            sink.skip("empty messages");
        }
        Ok(())
    }

    fn push(&mut self, kind: EntryKind) {
        self.entries.push(kind.into());
    }

    fn call(&mut self, function: &OpenAiFunction<'_>, id: Option<&str>, at: Timestamp) {
        self.calls += 1;
        let id = id.map_or_else(|| format!("call-{}", self.calls), str::to_owned);
        let args = match function.arguments {
            // The API encodes JSON in a string; some programs write the JSON directly.
            Some(raw) => {
                text::string(raw).map_or_else(|| Json::from_raw(raw), |text| args_of(&text.text))
            }
            None => args_of("{}"),
        };
        let external_id = Some(self.ids.call(&id));
        self.last_function = Some(id);
        let name = function.name.clone();
        self.push(EntryKind::ToolCall(NewToolCall { name, args, outcome: None, at, external_id }));
    }

    fn result(&mut self, message: &OpenAiMessage<'_>, at: Timestamp) {
        let id = message.tool_call_id.clone().or_else(|| self.last_function.clone());
        let id = id.unwrap_or_else(|| format!("result-{}", self.entries.len()));
        let result = message.content.map_or_else(|| Json::string(""), Json::from_raw);
        let outcome = ToolResult { result, success: None, duration_ms: None };
        let call = self.ids.result(&id);
        self.push(EntryKind::ToolResult { call, outcome, at });
    }
}

/// The text of a content, which is a string or a list of parts. Keeps the raw list if it holds
/// more than text.
pub(super) fn content(raw: &RawValue) -> DecodedText {
    #[derive(Deserialize)]
    struct OpenAiPart<'a> {
        #[serde(rename = "type", default)]
        kind: String,
        #[serde(borrow, default, alias = "refusal")]
        text: Option<&'a RawValue>,
    }
    if let Some(text) = text::string(raw) {
        return text;
    }
    if raw.get() == "null" {
        return DecodedText::default();
    }
    let Ok(parts) = text::parse::<Vec<OpenAiPart<'_>>>(raw.get()) else {
        return DecodedText { text: String::new(), original: Some(Json::from_raw(raw)) };
    };
    let mut texts = Vec::new();
    let mut is_plain_text = true;
    for part in parts {
        is_plain_text &= matches!(part.kind.as_str(), "text" | "input_text" | "output_text");
        if let Some(DecodedText { text, original }) = part.text.and_then(text::string) {
            is_plain_text &= original.is_none();
            texts.push(text);
        }
    }
    DecodedText {
        text: texts.join("\n\n"),
        original: (!is_plain_text).then(|| Json::from_raw(raw)),
    }
}

fn parse_time(value: &serde_json::Value) -> Option<Timestamp> {
    match value {
        serde_json::Value::Number(seconds) => {
            let seconds = seconds.as_f64()?;
            // A value this large is in milliseconds.
            Timestamp::from_seconds(if seconds > 1e11 { seconds / 1e3 } else { seconds })
        }
        serde_json::Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn role_of(name: &str) -> Result<Role, ImportError> {
    Ok(match name {
        "developer" => Role::System,
        "human" => Role::User,
        "model" | "ai" => Role::Assistant,
        other => other.parse()?,
    })
}

/// The fields allowed in a line of this format.
const FIELDS: [&str; 16] = [
    "role",
    "content",
    "name",
    "author",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "reasoning_content",
    "timestamp",
    "created_at",
    "created",
    "ts",
    "external_id",
    "thread",
    "at",
];

/// The fields of a line that are not part of the API.
#[derive(Deserialize)]
struct LineFields {
    thread: Option<String>,
    at: Option<String>,
}

/// The first field of a message that this format does not know, unless it is empty.
fn unknown_field(raw: &RawValue) -> Result<Option<String>, ImportError> {
    let fields: BTreeMap<String, &RawValue> = text::parse(raw.get())?;
    let is_set = |value: &RawValue| !matches!(value.get(), "null" | "[]");
    let mut fields = fields.into_iter();
    let unknown = fields.find(|(key, value)| !FIELDS.contains(&key.as_str()) && is_set(value));
    Ok(unknown.map(|(key, _)| key))
}

/// Parses one message of this format, for line-by-line capture. Stores a message with empty
/// content; rejects one without any content field.
pub(crate) fn entries_of(raw: &RawValue, at: Timestamp) -> Result<Vec<Entry>, ImportError> {
    if let Some(key) = unknown_field(raw)? {
        return Err(ImportError(format!(
            "unknown field `{key}`; the allowed fields are {}",
            FIELDS.join(", ")
        )));
    }
    let line_fields: LineFields = text::parse(raw.get())?;
    let at = line_fields.at.map_or(Ok(at), |at| at.parse())?;
    let thread: ThreadName =
        line_fields.thread.map(ThreadName::new).transpose()?.unwrap_or_default();
    let mut reader = OpenAiReader {
        ids: CallIds::default(),
        last_function: None,
        calls: 0,
        entries: Vec::new(),
    };
    let mut discard = |_: ImportedConversation| Ok(());
    reader.message(raw, at, &mut Sink::new(&mut discard))?;
    let message: OpenAiMessage<'_> = text::parse(raw.get())?;
    let fields: BTreeMap<String, &RawValue> = text::parse(raw.get())?;
    let has_content = fields.contains_key("content");
    if reader.entries.is_empty() {
        let role = message.role.as_deref().filter(|_| has_content);
        let nothing =
            || ImportError("it has no content; give it text, content or tool_calls".into());
        reader.push(EntryKind::Message(NewMessage::new(
            role_of(role.ok_or_else(nothing)?)?,
            "",
            at,
        )));
    }
    let new = reader.entries.iter_mut().find_map(|entry| match &mut entry.kind {
        EntryKind::Message(new) => Some(new),
        _ => None,
    });
    if let (Some(new), Some(id)) = (new, message.external_id) {
        new.external_id = Some(ExternalId::new(id)?);
    }
    Ok(reader.entries.into_iter().map(|entry| Entry { thread: thread.clone(), ..entry }).collect())
}

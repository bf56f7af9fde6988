//! Codex rollouts: the items of a session, one per line, in an envelope or, in old files, bare.
//!
//! Response items hold the conversation. Events repeat it for display and are skipped, unless a
//! file has no message items.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use treering_core::{EntryKind, Json, NewMessage, NewToolCall, Role, Timestamp, ToolResult};

use super::openai::content;
use super::text::{self, DecodedText};
use super::{
    CallIds, Format, ImportError, ImportedConversation, PartOutcome, Sink, SourceFile, args_of,
    external, stem,
};

#[derive(Deserialize)]
struct RolloutLine<'a> {
    timestamp: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SessionMeta {
    id: Option<String>,
    timestamp: Option<String>,
    cwd: Option<String>,
}

#[derive(Deserialize)]
struct RolloutItem<'a> {
    #[serde(rename = "type", default)]
    kind: String,
    role: Option<String>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    name: Option<String>,
    call_id: Option<String>,
    id: Option<String>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    action: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    status: Option<String>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    CodexReader::default().read(source, sink)?;
    Ok(())
}

/// Reads a rollout in parts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CodexReader {
    pub(super) position: text::LinePosition,
    id: Option<String>,
    /// The working directory. The part that states it may have no messages.
    #[serde(default)]
    cwd: Option<String>,
    at: Option<Timestamp>,
    ids: CallIds,
    /// Whether a response item holds a message, so that events only repeat it.
    has_spoken_items: bool,
    /// Whether events became messages.
    has_spoken_events: bool,
}

impl CodexReader {
    pub(super) fn read(
        &mut self,
        source: &SourceFile,
        sink: &mut Sink<'_>,
    ) -> Result<PartOutcome, ImportError> {
        let has_spoken_items =
            self.has_spoken_items || source.lines().any(|(_, line)| is_spoken_item(line));
        if has_spoken_items && self.has_spoken_events {
            return Ok(PartOutcome::NeedsWhole);
        }
        self.has_spoken_items = has_spoken_items;
        let is_start = self.position.lines == 0;
        let parsed = text::records::<RolloutLine<'_>>(source, &mut self.position, sink)?;
        let mut rollout = Rollout { reader: self, entries: Vec::new() };
        let mut at = rollout.reader.at.unwrap_or(source.modified);
        for (index, record) in parsed.records.into_iter().enumerate() {
            let is_first = is_start && index == 0;
            rollout.line(&record, is_first, &mut at, sink)?;
        }
        let Rollout { entries, .. } = rollout;
        self.at = Some(at);
        let id = self.id.clone().unwrap_or_else(|| stem(&source.path));
        let mut imported = ImportedConversation::named(Format::Codex, &id);
        imported.conversation.cwd.clone_from(&self.cwd);
        entries.into_iter().for_each(|kind| imported.push(kind));
        if !imported.entries.is_empty() || is_start {
            sink.emit(imported)?;
        }
        Ok(PartOutcome::Read(parsed.consumed))
    }
}

/// Whether a line is a response item with a message.
fn is_spoken_item(line: &str) -> bool {
    line.contains("\"message\"")
        && (line.contains("\"response_item\"") || !line.contains("\"payload\""))
}

#[derive(Clone, Copy)]
struct ItemPosition {
    number: usize,
    at: Timestamp,
}

/// The entries of a part.
struct Rollout<'a> {
    reader: &'a mut CodexReader,
    entries: Vec<EntryKind>,
}

impl Rollout<'_> {
    fn line(
        &mut self,
        record: &text::NumberedRecord<'_, RolloutLine<'_>>,
        is_first: bool,
        at: &mut Timestamp,
        sink: &mut Sink<'_>,
    ) -> Result<(), ImportError> {
        let text::NumberedRecord { number, line: text, value: line } = record;
        *at = line.timestamp.as_deref().and_then(|at| at.parse().ok()).unwrap_or(*at);
        let position = ItemPosition { number: *number, at: *at };
        match (line.kind.as_deref(), line.payload) {
            (Some("session_meta"), Some(payload)) => self.meta(payload),
            (Some("response_item"), Some(payload)) => {
                self.item(&text::parse(payload.get())?, position, sink);
            }
            (Some("event_msg"), Some(payload)) => {
                self.event(&text::parse(payload.get())?, position, sink);
            }
            (Some("compacted"), Some(payload)) => {
                self.summary(&text::parse(payload.get())?, position, sink);
            }
            (Some(kind), Some(_)) => sink.skip(format!("{kind} records")),
            (Some(_), None) => self.item(&text::parse(text)?, position, sink),
            (None, _) if self.reader.id.is_none() && is_first => self.bare_meta(text, at),
            (None, _) => sink.skip("state records"),
        }
        Ok(())
    }

    fn meta(&mut self, payload: &RawValue) {
        let Ok(meta) = text::parse::<SessionMeta>(payload.get()) else { return };
        // A forked session repeats its parent's header later; the first header counts.
        self.reader.id = self.reader.id.take().or(meta.id);
        self.reader.cwd = self.reader.cwd.take().or(meta.cwd);
    }

    fn bare_meta(&mut self, line: &str, at: &mut Timestamp) {
        let Ok(meta) = text::parse::<SessionMeta>(line) else { return };
        *at = meta.timestamp.as_deref().and_then(|at| at.parse().ok()).unwrap_or(*at);
        self.reader.id = meta.id;
    }

    fn item(&mut self, item: &RolloutItem<'_>, position: ItemPosition, sink: &mut Sink<'_>) {
        match item.kind.as_str() {
            "message" => self.message(item, position, sink),
            "reasoning" => self.reasoning(item, position, sink),
            "function_call"
            | "custom_tool_call"
            | "local_shell_call"
            | "web_search_call"
            | "tool_search_call"
            | "image_generation_call" => self.call(item, position),
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
                let Some(id) = &item.call_id else { return sink.skip("outputs without a call") };
                let outcome = outcome(item.output);
                self.entries.push(EntryKind::ToolResult {
                    call: self.reader.ids.result(id),
                    outcome,
                    at: position.at,
                });
            }
            other => sink.skip(format!("{other} items")),
        }
    }

    fn message(&mut self, item: &RolloutItem<'_>, position: ItemPosition, sink: &mut Sink<'_>) {
        let DecodedText { text, original } = item.content.map(content).unwrap_or_default();
        if text.is_empty() && original.is_none() {
            return sink.skip("empty messages");
        }
        let role = match item.role.as_deref() {
            Some("assistant") => Role::Assistant,
            Some("user") if !is_inserted(&text) => Role::User,
            _ => Role::System,
        };
        if self.reader.cwd.is_none() {
            self.reader.cwd = between(&text, "<cwd>", "</cwd>");
        }
        self.push_message(role, text, original, position);
    }

    fn push_message(
        &mut self,
        role: Role,
        text: String,
        parts: Option<Json>,
        position: ItemPosition,
    ) {
        let mut message = NewMessage::new(role, text, position.at);
        message.parts = parts;
        message.external_id = Some(external(&format!("line-{}", position.number)));
        self.entries.push(EntryKind::Message(message));
    }

    /// Keeps readable reasoning as the parts of a message without text.
    fn reasoning(&mut self, item: &RolloutItem<'_>, position: ItemPosition, sink: &mut Sink<'_>) {
        let readable = [item.summary, item.content]
            .into_iter()
            .flatten()
            .find(|raw| !content(raw).text.is_empty());
        match readable {
            Some(raw) => self.push_message(
                Role::Assistant,
                String::new(),
                Some(Json::from_raw(raw)),
                position,
            ),
            None => sink.skip("reasoning that is encrypted or empty"),
        }
    }

    /// The summary that replaces compacted history.
    fn summary(&mut self, item: &RolloutItem<'_>, position: ItemPosition, sink: &mut Sink<'_>) {
        match item.message.and_then(text::string).filter(|text| !text.text.is_empty()) {
            Some(text) => self.push_message(Role::System, text.text, text.original, position),
            None => sink.skip("compacted records"),
        }
    }

    fn call(&mut self, item: &RolloutItem<'_>, position: ItemPosition) {
        let id = item.call_id.clone().or_else(|| item.id.clone());
        let id = id.unwrap_or_else(|| format!("line-{}", position.number));
        let args = match (item.arguments, item.input.or(item.action)) {
            (Some(raw), _) => {
                text::string(raw).map_or_else(|| Json::from_raw(raw), |t| args_of(&t.text))
            }
            (None, Some(raw)) => Json::from_raw(raw),
            (None, None) => args_of("{}"),
        };
        let fallback = item.kind.trim_end_matches("_call").to_owned();
        // These calls are complete when logged and have no separate output.
        let alone = matches!(item.kind.as_str(), "web_search_call" | "image_generation_call");
        let outcome = alone.then(|| ToolResult {
            result: Json::string(item.status.as_deref().unwrap_or_default()),
            success: item.status.as_deref().map(|status| status == "completed"),
            duration_ms: None,
        });
        self.entries.push(EntryKind::ToolCall(NewToolCall {
            name: item.name.clone().unwrap_or(fallback),
            args,
            outcome,
            at: position.at,
            external_id: Some(self.reader.ids.call(&id)),
        }));
    }

    fn event(&mut self, event: &RolloutItem<'_>, position: ItemPosition, sink: &mut Sink<'_>) {
        let role = match event.kind.as_str() {
            "user_message" => Role::User,
            "agent_message" => Role::Assistant,
            "task_complete" => return self.entries.push(EntryKind::TurnEnd),
            other => return sink.skip(format!("{other} events")),
        };
        match event.message.and_then(text::string) {
            Some(text) if !self.reader.has_spoken_items => {
                self.reader.has_spoken_events = true;
                self.push_message(role, text.text, text.original, position);
            }
            _ => sink.skip("events that repeat a message"),
        }
    }
}

/// Whether a user message was written by the program itself.
fn is_inserted(text: &str) -> bool {
    const OPENINGS: [&str; 7] = [
        "<environment_context>",
        "<user_instructions>",
        "<permissions instructions>",
        "<turn_aborted>",
        "<collaboration_mode>",
        "<skill",
        "# AGENTS.md instructions",
    ];
    let text = text.trim_start();
    OPENINGS.iter().any(|opening| text.starts_with(opening))
}

fn between(text: &str, open: &str, close: &str) -> Option<String> {
    let from = text.find(open)? + open.len();
    let until = text[from..].find(close)? + from;
    Some(text[from..until].trim().to_owned())
}

/// Parses a tool's output, with the success and duration in its header.
fn outcome(output: Option<&RawValue>) -> ToolResult {
    #[derive(Deserialize)]
    struct Object {
        success: Option<bool>,
        metadata: Option<Metadata>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        exit_code: Option<i64>,
        duration_seconds: Option<f64>,
    }
    let Some(raw) = output else {
        return ToolResult { result: Json::string(""), success: None, duration_ms: None };
    };
    let text = text::string(raw).map(|text| text.text);
    let object = text::parse::<Object>(text.as_deref().unwrap_or(raw.get())).ok();
    let (mut success, mut seconds) = (None, None);
    if let Some(object) = object {
        let metadata = object.metadata.as_ref();
        success = object.success.or(metadata.and_then(|m| m.exit_code).map(|code| code == 0));
        seconds = metadata.and_then(|metadata| metadata.duration_seconds);
    } else if let Some((header, _)) = text.as_deref().and_then(|text| text.split_once("Output:")) {
        // Only the header is metadata; the rest is the tool's own output.
        let number = |label: &str| -> Option<f64> {
            let rest = header.split(label).nth(1)?.trim_start();
            rest.split(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').next()?.parse().ok()
        };
        let code = number("Exit code:").or_else(|| number("Process exited with code"));
        success = code.map(|code| code == 0.0);
        seconds = number("Wall time:");
    }
    let duration_ms = seconds.filter(|s| s.is_finite() && *s >= 0.0).map(|s| (s * 1000.0) as u64);
    ToolResult { result: Json::from_raw(raw), success, duration_ms }
}

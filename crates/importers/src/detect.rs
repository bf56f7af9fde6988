//! Detects the format of a source by its content, not by its file name.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Format, SourceFile, markdown, text};

/// The keys that distinguish formats. All other keys are ignored.
#[derive(Deserialize, Default)]
struct FormatKeys {
    #[serde(rename = "type", default)]
    kind: Option<StringOrOther>,
    role: Option<IgnoredAny>,
    text: Option<IgnoredAny>,
    messages: Option<IgnoredAny>,
    payload: Option<IgnoredAny>,
    #[serde(rename = "sessionId")]
    session_id: Option<IgnoredAny>,
    #[serde(rename = "parentUuid", default)]
    parent_uuid: Option<IgnoredAny>,
    #[serde(rename = "leafUuid", default)]
    leaf_uuid: Option<IgnoredAny>,
    #[serde(rename = "messageId", default)]
    message_id: Option<IgnoredAny>,
    timestamp: Option<IgnoredAny>,
    instructions: Option<IgnoredAny>,
    git: Option<IgnoredAny>,
    mapping: Option<IgnoredAny>,
    chat_messages: Option<IgnoredAny>,
    history: Option<IgnoredAny>,
    trajectory: Option<IgnoredAny>,
    haystack: Option<IgnoredAny>,
    turns: Option<IgnoredAny>,
    sample_id: Option<IgnoredAny>,
    haystack_sessions: Option<IgnoredAny>,
    #[serde(rename = "projectHash", default)]
    project_hash: Option<IgnoredAny>,
    requests: Option<IgnoredAny>,
    #[serde(rename = "kind", default)]
    change: Option<IgnoredAny>,
    v: Option<IgnoredAny>,
    info: Option<IgnoredAny>,
    message: Option<IgnoredAny>,
}

/// A string, or any other value.
#[derive(Deserialize)]
#[serde(untagged)]
enum StringOrOther {
    Text(String),
    Other(IgnoredAny),
}

impl FormatKeys {
    fn kind(&self) -> &str {
        match &self.kind {
            Some(StringOrOther::Text(kind)) => kind,
            Some(StringOrOther::Other(_)) | None => "",
        }
    }

    /// The format that this record alone implies.
    fn format(&self) -> Option<Format> {
        let format = if self.kind() == "treering"
            || is_own(self.kind(), self.role.and(self.text).is_some())
        {
            Format::Treering
        } else if self.project_hash.and(self.session_id).is_some() {
            Format::GeminiCli
        } else if self.requests.or(self.change.and(self.v)).is_some() {
            Format::Copilot
        } else if self.session_id.or(self.parent_uuid).or(self.leaf_uuid).is_some()
            || (self.kind() == "file-history-snapshot" && self.message_id.is_some())
        {
            Format::ClaudeCode
        } else if (self.payload.is_some() && self.timestamp.is_some())
            || (self.kind().is_empty()
                && self.timestamp.is_some()
                && self.instructions.or(self.git).is_some())
        {
            Format::Codex
        } else if self.mapping.is_some() {
            Format::ChatGpt
        } else if self.chat_messages.is_some() {
            Format::ClaudeAi
        } else if self.haystack.is_some() && self.turns.is_some() {
            Format::Haystack
        } else if self.haystack_sessions.is_some() {
            Format::LongMemEval
        } else if self.sample_id.is_some() {
            Format::Locomo
        } else if self.history.or(self.trajectory).is_some() {
            Format::SweAgent
        } else if self.info.and(self.messages).is_some() {
            Format::OpenCode
        } else if self.role.and(self.message).is_some() {
            Format::Cursor
        } else if self.messages.or(self.role).is_some() {
            Format::OpenAi
        } else {
            return None;
        };
        Some(format)
    }
}

/// Whether a record is a Treering line without a header: a Treering `message` has a role and a
/// text.
fn is_own(kind: &str, has_text: bool) -> bool {
    matches!(kind, "conversation" | "thread" | "tool_call" | "turn")
        || (kind == "message" && has_text)
}

/// Detects the format of a source. Returns `None` if it is unknown.
#[must_use]
pub fn detect(source: &SourceFile) -> Option<Format> {
    let start = source.text.trim_start_matches(['\u{feff}', '\0']).trim_start();
    if !start.starts_with(['{', '[']) {
        return markdown::is_transcript(&source.text).then_some(Format::Markdown);
    }
    let by_line = || {
        let lines =
            source.lines().take(50).filter_map(|(_, line)| text::parse::<FormatKeys>(line).ok());
        lines.into_iter().find_map(|peek| peek.format())
    };
    let whole_file = || text::parse::<FormatKeys>(&source.text).ok().and_then(|peek| peek.format());
    let array = || {
        let peeks = text::parse::<Vec<FormatKeys>>(&source.text).ok()?;
        peeks.into_iter().find_map(|peek| peek.format())
    };
    if start.starts_with('[') { array() } else { by_line().or_else(whole_file) }
}

//! The content blocks of the Anthropic API, as Claude Code and Claude.ai write them down.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{Json, ToolResult};

use super::text::{self, DecodedText};

/// One block; which fields it has depends on its kind.
#[derive(Deserialize)]
pub(super) struct TranscriptBlock<'a> {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    pub(super) tool_use_id: Option<String>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
    pub(super) start_timestamp: Option<String>,
    pub(super) stop_timestamp: Option<String>,
}

impl TranscriptBlock<'_> {
    pub(super) fn args(&self) -> Json {
        self.input.map_or_else(|| super::args_of("{}"), Json::from_raw)
    }

    pub(super) fn outcome(&self, duration_ms: Option<u64>) -> ToolResult {
        let result = self.content.map_or_else(|| Json::string(""), Json::from_raw);
        ToolResult { result, success: Some(!self.is_error.unwrap_or(false)), duration_ms }
    }

    /// Thinking that says nothing: only its signature was kept.
    pub(super) fn is_empty_thinking(&self) -> bool {
        self.kind == "thinking"
            && self
                .thinking
                .and_then(text::string)
                .is_none_or(|thinking| thinking.text.trim().is_empty())
    }
}

/// What a list of blocks says: its text, and the list itself where the text does not hold it.
pub(super) struct MessageContent {
    pub(super) text: String,
    pub(super) parts: Option<Json>,
}

/// The text of a message's content, a string or a list of blocks. Tool blocks are not text;
/// other blocks are kept with the list as it came.
pub(super) fn message_content(
    content: &RawValue,
    blocks: &[TranscriptBlock<'_>],
) -> MessageContent {
    if let Some(DecodedText { text, original }) = text::string(content) {
        return MessageContent { text, parts: original };
    }
    let mut texts = Vec::new();
    let mut keep = false;
    for block in blocks {
        match block.kind.as_str() {
            "text" => {
                let text = block.text.and_then(text::string).unwrap_or_default();
                keep |= text.original.is_some();
                texts.push(text.text);
            }
            "tool_use" | "tool_result" => {}
            _ => keep |= !block.is_empty_thinking(),
        }
    }
    MessageContent { text: texts.join("\n\n"), parts: keep.then(|| Json::from_raw(content)) }
}

/// The blocks of a content; none when it is a plain string.
pub(super) fn blocks(content: &RawValue) -> Vec<TranscriptBlock<'_>> {
    text::parse(content.get()).unwrap_or_default()
}

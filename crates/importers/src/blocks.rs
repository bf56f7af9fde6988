//! Content blocks of the Anthropic API, as found in Claude Code and Claude.ai transcripts.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{Json, ToolResult};

use super::text::{self, DecodedText};

/// A content block. The set of fields depends on its kind.
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

    /// Whether this is a thinking block without text, of which only the signature remains.
    pub(super) fn is_empty_thinking(&self) -> bool {
        self.kind == "thinking"
            && self
                .thinking
                .and_then(text::string)
                .is_none_or(|thinking| thinking.text.trim().is_empty())
    }
}

/// The text of a message, and its raw JSON if the text does not hold all of it.
pub(super) struct MessageContent {
    pub(super) text: String,
    pub(super) parts: Option<Json>,
}

/// Extracts the text of a message's content, which is a string or a list of blocks. Ignores tool
/// blocks; keeps the raw list if it has other blocks.
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

/// The blocks of a content; empty if the content is a string.
pub(super) fn blocks(content: &RawValue) -> Vec<TranscriptBlock<'_>> {
    text::parse(content.get()).unwrap_or_default()
}

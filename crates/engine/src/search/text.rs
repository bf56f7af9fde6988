//! The searchable texts of items.

use std::borrow::Cow;

use treering_core::ports::Change;
use treering_core::{ContentHash, Node, ToolCall, embedding_text, prompt};

/// Maximum length of a tool result in the text of a call that is embedded, in bytes.
const EMBEDDED_RESULT: usize = 4000;

/// The searchable text of a node: overview, action items, files, findings and decisions. It has
/// no labels, which would match a query's words in every node.
pub(crate) fn node_text(node: &Node) -> String {
    let content = &node.content;
    let lists = [
        &content.action_items,
        &content.files_mentioned,
        &content.key_findings,
        &content.decisions,
    ];
    let mut text = prompt::without_headings(&content.overview).into_owned();
    for item in lists.into_iter().flatten() {
        text.push('\n');
        text.push_str(item);
    }
    text
}

/// The searchable text of a tool call: its name, its arguments and its result.
pub(super) fn call_text(call: &ToolCall) -> String {
    call_text_up_to(call, usize::MAX)
}

/// The text of a tool call that is embedded: its name, its arguments and the head of its result.
pub(crate) fn embedded_call_text(call: &ToolCall) -> String {
    call_text_up_to(call, EMBEDDED_RESULT)
}

fn call_text_up_to(call: &ToolCall, result_bytes: usize) -> String {
    if call.call.is_forgotten() {
        return String::new();
    }
    let result = call.call.outcome.as_ref().map_or("", |outcome| outcome.result.as_str());
    format!(
        "{}\n{}\n{}",
        call.call.name,
        without_markup(call.call.args.as_str()),
        without_markup(cut(result, result_bytes))
    )
}

/// Unescapes the JSON escapes that separate words.
fn without_markup(json: &str) -> String {
    json.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"")
}

/// The text of a changed item that is embedded; empty for other changes.
pub(crate) fn text_to_embed(change: &Change) -> Cow<'_, str> {
    match change {
        Change::Message(_, message) => message.recalled_text(),
        Change::ToolCall(_, call) => Cow::Owned(embedded_call_text(call)),
        Change::Node(_, node) => Cow::Owned(embedding_text::of_node(&node.content)),
        Change::JobEvent(..) | Change::Vector(..) | Change::Removed(_) => Cow::Borrowed(""),
    }
}

/// The key under which the vector of an embedded text is stored.
pub(crate) fn content_hash(text: &str) -> ContentHash {
    ContentHash::of_fields(&[text.as_bytes()])
}

fn cut(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let end = (0..=max_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

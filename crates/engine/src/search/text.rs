//! The searchable texts of items.

use treering_core::{ContentHash, Node, ToolCall, prompt};

/// Maximum indexed length of a text, in bytes.
const LONGEST: usize = 100_000;
/// Maximum embedded length of a text, in characters.
const LONGEST_EMBEDDED: usize = 4000;
/// Minimum length of an embedded text, in bytes.
const SHORTEST_EMBEDDED: usize = 10;
/// Maximum indexed length of a tool result, in bytes.
const RESULT: usize = 4000;

/// The searchable text of a node: overview, action items, files, findings and decisions.
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

/// The searchable text of a tool call: its name, its arguments and the head of its result.
pub(crate) fn call_text(call: &ToolCall) -> String {
    let result = call.call.outcome.as_ref().map_or("", |outcome| outcome.result.as_str());
    format!(
        "{}\n{}\n{}",
        call.call.name,
        without_markup(call.call.args.as_str()),
        without_markup(cut(result, RESULT))
    )
}

/// Unescapes the JSON escapes that separate words.
fn without_markup(json: &str) -> String {
    json.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"")
}

/// The part of a text that is embedded; empty if the text is too short to be meaningful.
pub(crate) fn embedded_part(text: &str) -> &str {
    if text.len() < SHORTEST_EMBEDDED {
        return "";
    }
    longest_embedded(text)
}

/// A text truncated to the maximum embedded length.
pub(crate) fn longest_embedded(text: &str) -> &str {
    text.char_indices().nth(LONGEST_EMBEDDED).map_or(text, |(end, _)| &text[..end])
}

/// The key under which the vector of an embedded text is stored.
pub(crate) fn content_hash(text: &str) -> ContentHash {
    ContentHash::of_fields(&[text.as_bytes()])
}

/// The part of a text whose words are indexed.
pub(crate) fn head(text: &str) -> &str {
    cut(text, LONGEST)
}

fn cut(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let end = (0..=max_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

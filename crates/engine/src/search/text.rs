//! The texts that things are found by.

use treering_core::{ContentHash, Node, ToolCall};

/// The most of a text that is looked at, in bytes.
const LONGEST: usize = 100_000;
/// The most of a text that is embedded, in characters.
const LONGEST_EMBEDDED: usize = 4000;
/// The least of a text that is embedded, in characters.
const SHORTEST_EMBEDDED: usize = 10;
/// How much of a tool's result counts, in bytes.
const RESULT: usize = 4000;

/// The text that a node is found by: what it says, what is to be done, files and findings.
pub(crate) fn node_text(node: &Node) -> String {
    let content = &node.content;
    let lists = [
        &content.action_items,
        &content.files_mentioned,
        &content.key_findings,
        &content.decisions,
    ];
    let mut text = content.overview.clone();
    for item in lists.into_iter().flatten() {
        text.push('\n');
        text.push_str(item);
    }
    text
}

/// The text that a tool call is found by: its name, what it was given, and the head of what came back.
pub(crate) fn call_text(call: &ToolCall) -> String {
    let result = call.call.outcome.as_ref().map_or("", |outcome| outcome.result.as_str());
    format!(
        "{}\n{}\n{}",
        call.call.name,
        plain(call.call.args.as_str()),
        plain(cut(result, RESULT))
    )
}

/// JSON with the escapes of its strings undone, as far as they part words.
fn plain(json: &str) -> String {
    json.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"")
}

/// The part of a text that is embedded; nothing where it is too short to mean anything.
pub(crate) fn embedded_part(text: &str) -> &str {
    if text.len() < SHORTEST_EMBEDDED {
        return "";
    }
    longest_embedded(text)
}

/// As much of a text as is embedded at the most.
pub(crate) fn longest_embedded(text: &str) -> &str {
    text.char_indices().nth(LONGEST_EMBEDDED).map_or(text, |(end, _)| &text[..end])
}

/// What the vector of an embedded text is kept under.
pub(crate) fn content_hash(text: &str) -> ContentHash {
    ContentHash::of_fields(&[text.as_bytes()])
}

/// The part of a text whose words are looked at.
pub(crate) fn head(text: &str) -> &str {
    cut(text, LONGEST)
}

fn cut(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

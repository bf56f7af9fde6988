//! Private passages: text between `<private>` and `</private>` is never stored. Every path into
//! the store calls this before anything else reads the text.
//!
//! Tags may be nested, and case does not matter. When a tag is missing, more is left out rather
//! than less: a passage without its closing tag extends to the end of the text, and one without
//! its opening tag begins at the start.

use std::borrow::Cow;
use std::ops::Range;

use crate::conversation::NewConversation;
use crate::entry::{Entry, EntryKind};
use crate::json::Json;
use crate::tool::ToolResult;

/// Replaces a private passage.
const MARKER: &str = "[private]";

const OPEN: &str = "<private>";
const CLOSE: &str = "</private>";

/// A text without its private passages, and how many there were. Borrowed if there are none.
#[must_use]
pub fn without_private(text: &str) -> (Cow<'_, str>, u32) {
    let passages = passages(text);
    if passages.is_empty() {
        return (Cow::Borrowed(text), 0);
    }
    let mut kept = String::with_capacity(text.len());
    let mut end = 0;
    for passage in &passages {
        kept.push_str(&text[end..passage.start]);
        kept.push_str(MARKER);
        end = passage.end;
    }
    kept.push_str(&text[end..]);
    (Cow::Owned(kept), u32::try_from(passages.len()).unwrap_or(u32::MAX))
}

/// JSON whose strings have no private passages, and how many there were.
#[must_use]
pub fn json_without_private(json: &Json) -> (Cow<'_, Json>, u32) {
    let mut count = 0;
    let rewritten = json.with_strings(|text| {
        let (kept, passages) = without_private(text);
        count += passages;
        (passages > 0).then(|| kept.into_owned())
    });
    (rewritten.map_or(Cow::Borrowed(json), Cow::Owned), count)
}

/// The lines of a transcript without private passages. A line is JSON; one that is not, because
/// it is half written, is treated as plain text.
#[must_use]
pub fn lines_without_private(lines: &str) -> Cow<'_, str> {
    if !may_have_tag(lines) {
        return Cow::Borrowed(lines);
    }
    let line = |line: &str| match Json::new(line) {
        Ok(json) if !line.trim().is_empty() => {
            let ending = &line[line.trim_end().len()..];
            format!("{}{ending}", json_without_private(&json).0)
        }
        _ => without_private(line).0.into_owned(),
    };
    Cow::Owned(lines.split_inclusive('\n').map(line).collect())
}

impl Entry {
    /// Leaves out the private passages, and returns how many there were. A passage that stands in
    /// the text and in the structured content of a message counts once.
    pub fn leave_out_private(&mut self) -> u32 {
        match &mut self.kind {
            EntryKind::Message(message) => {
                let mut count = 0;
                message.for_each_content(|text, parts| {
                    count += clean(text).max(parts.map_or(0, clean_json));
                });
                count
            }
            EntryKind::ToolCall(call) => {
                let of_result = call.outcome.as_mut().map_or(0, clean_result);
                clean_json(&mut call.args) + of_result
            }
            EntryKind::ToolResult { outcome, .. } => clean_result(outcome),
            EntryKind::Fork { .. } | EntryKind::TurnEnd => 0,
        }
    }
}

impl NewConversation {
    /// Leaves private passages out of the title.
    pub fn leave_out_private(&mut self) -> u32 {
        self.title.as_mut().map_or(0, clean)
    }
}

fn clean(text: &mut String) -> u32 {
    let (kept, count) = without_private(text);
    if count > 0 {
        *text = kept.into_owned();
    }
    count
}

fn clean_json(json: &mut Json) -> u32 {
    let (kept, count) = json_without_private(json);
    if count > 0 {
        *json = kept.into_owned();
    }
    count
}

fn clean_result(outcome: &mut ToolResult) -> u32 {
    clean_json(&mut outcome.result)
}

/// The passages of a text, in order, with their tags.
fn passages(text: &str) -> Vec<Range<usize>> {
    let mut passages: Vec<Range<usize>> = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (at, _) in text.match_indices('<') {
        if has_tag(text, at, OPEN) {
            if depth == 0 {
                start = at;
            }
            depth += 1;
        } else if has_tag(text, at, CLOSE) {
            match depth {
                // Its opening tag is missing.
                0 => {
                    passages.clear();
                    passages.push(0..at + CLOSE.len());
                }
                1 => passages.push(start..at + CLOSE.len()),
                _ => {}
            }
            depth = depth.saturating_sub(1);
        }
    }
    if depth > 0 {
        passages.push(start..text.len());
    }
    passages
}

fn has_tag(text: &str, at: usize, tag: &str) -> bool {
    text.as_bytes()
        .get(at..at + tag.len())
        .is_some_and(|found| found.eq_ignore_ascii_case(tag.as_bytes()))
}

/// Whether JSON text may contain a tag, whose first and last characters may be escaped.
fn may_have_tag(json: &str) -> bool {
    const NAME: &[u8] = b"private";
    json.as_bytes().windows(NAME.len()).any(|word| word.eq_ignore_ascii_case(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{NewMessage, Role};
    use crate::time::Timestamp;

    fn check(text: &str, kept: &str, count: u32) {
        assert_eq!(without_private(text), (Cow::Borrowed(kept), count), "{text}");
    }

    #[test]
    fn passages_are_left_out() {
        check("nothing to hide, a < b > c", "nothing to hide, a < b > c", 0);
        check("a <private>b</private> c", "a [private] c", 1);
        check("<PRIVATE>a</Private>", "[private]", 1);
        check("<private>a</private><private>b</private>é", "[private][private]é", 2);
        check("a <private>b <private>c</private> d</private> e", "a [private] e", 1);
        check("<private></private>", "[private]", 1);
    }

    #[test]
    fn a_missing_tag_leaves_out_more() {
        check("a <private>b é", "a [private]", 1);
        check("a <private>b <private>c</private> d", "a [private]", 1);
        check("a b</private> c", "[private] c", 1);
        check("a <private>b</private> c</private> d", "[private] d", 1);
        check("a</private> b <private>c", "[private] b [private]", 2);
        check("<privat", "<privat", 0);
        check("<private", "<private", 0);
    }

    #[test]
    fn strings_of_json_are_cleaned_and_the_rest_stays() {
        let check = |json: &str, kept: &str| {
            let json = Json::new(json).unwrap();
            assert_eq!(json_without_private(&json).0.as_str(), kept);
        };
        check(r#"{"a":1.00, "b":"x"}"#, r#"{"a":1.00, "b":"x"}"#);
        check(
            r#"{"a":1.00, "b":["\ud83d", "x <private>\"y\"\n</private>"]}"#,
            r#"{"a":1.00, "b":["\ud83d", "x [private]"]}"#,
        );
        check(r#""\u003cprivate\u003ey\u003c/private\u003e\\""#, r#""[private]\\""#);
        check(r#"{"<private>k</private>":"</private>v"}"#, r#"{"[private]":"[private]v"}"#);
    }

    #[test]
    fn lines_stay_lines() {
        let lines = "{\"t\":\"a\"}\r\n{\"t\":\"<private>b</private>\"}\n\n{\"t\":\"<private>c";
        let kept = "{\"t\":\"a\"}\r\n{\"t\":\"[private]\"}\n\n{\"t\":\"[private]";
        assert_eq!(lines_without_private(lines), kept);
        assert!(matches!(lines_without_private("{\"t\":1}\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_passage_in_text_and_parts_counts_once() {
        let at = Timestamp::from_micros(0);
        let mut message = NewMessage::new(Role::User, "<private>a</private>", at);
        message.parts = Some(Json::new(r#"[{"text":"<private>a</private>"}]"#).unwrap());
        let mut entry = Entry::from(EntryKind::Message(message));
        assert_eq!(entry.leave_out_private(), 1);
        assert_eq!(entry.leave_out_private(), 0, "the marker is no tag");
        assert!(!format!("{entry:?}").contains("<private>"));
    }
}

//! Rendering: statements as they are quoted, with their speakers and days. Nothing is rephrased.

use treering_core::sentence::SegmentKind;

use super::unit::{SourceDocument, Unit};

/// Maximum length of a sentence, in characters.
const MAX_CHARS: usize = 300;
/// Maximum length of a code block, in characters.
const MAX_CODE_CHARS: usize = 110;

/// The text of a unit, without its label.
pub(super) fn text(unit: &Unit, limit: Option<usize>) -> String {
    let longest = if unit.kind == SegmentKind::Code { MAX_CODE_CHARS } else { MAX_CHARS };
    // The points of a child have been cut already.
    let longest = if unit.worth.is_some() { usize::MAX } else { longest };
    ended(cut(&unit.text, limit.unwrap_or(longest).min(longest)), unit.kind)
}

/// The speaker of a unit; empty if there is only one, without a name.
pub(super) fn speaker(document: &SourceDocument, unit: &Unit) -> String {
    match unit.speaker.map(|index| &document.speakers[index]) {
        Some(speaker) if speaker.is_named || document.speakers.len() > 1 => {
            format!("{}: ", speaker.name)
        }
        _ => String::new(),
    }
}

/// Adds a period to a sentence that lacks final punctuation.
fn ended(mut text: String, kind: SegmentKind) -> String {
    let ends = text.ends_with(|c: char| ".!?…:;。！？؟".contains(c) || "\"')]»”’」`".contains(c));
    if !ends && kind != SegmentKind::Code {
        text.push('.');
    }
    text
}

/// The beginning of a text, cut at the end of a clause if possible, otherwise of a word.
pub(super) fn cut(text: &str, limit: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(limit) else { return text.to_owned() };
    let end = text[..end].char_indices().next_back().map_or(0, |(at, _)| at);
    let head = &text[..end];
    let marks = head.rmatch_indices([',', ';', ':', '—', '–', '，', '、']);
    let is_clause =
        |(at, mark): &(usize, &str)| *at > end / 2 && head[at + mark.len()..].starts_with(' ');
    let clause = marks.into_iter().find(is_clause).map(|(at, _)| at);
    let word = head.rfind(char::is_whitespace).filter(|at| *at > 0);
    let kept = head[..clause.or(word).unwrap_or(end)]
        .trim_end_matches(|c: char| !c.is_alphanumeric() && !")]\"'`".contains(c));
    // A space before the ellipsis keeps the last word intact for fact checking.
    let gap = if clause.or(word).is_some() { " …" } else { "…" };
    format!("{kept}{gap}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_clauses() {
        assert_eq!(cut("short", 10), "short");
        assert_eq!(cut("the tide was high, and the boat went out", 25), "the tide was high …");
        assert_eq!(cut("abcdefghijklm", 5), "abcd…");
        assert_eq!(cut("日本語の文章です", 4), "日本語…");
        assert!(cut(&"a b ".repeat(100), 50).chars().count() <= 51);
    }
}

//! Rendering: the text of a unit, attributed to its speaker.

use treering_core::sentence::SegmentKind;

use super::cues::SpeechAct;
use super::reported;
use super::unit::{SourceDocument, Unit};

/// Maximum length of a sentence, in characters.
const LONGEST: usize = 300;
/// Maximum length of a code block, in characters.
const LONGEST_CODE: usize = 110;

/// A unit as text.
#[derive(Debug, Clone)]
pub(super) struct RenderedUnit {
    /// The speaker, if the text does not name them.
    pub(super) label: Option<String>,
    pub(super) text: String,
}

impl RenderedUnit {
    /// The text with its label.
    pub(super) fn line(&self) -> String {
        match &self.label {
            Some(label) => format!("{label}: {}", self.text),
            None => self.text.clone(),
        }
    }

    /// Length of [`line`](Self::line) in characters.
    pub(super) fn chars(&self) -> usize {
        self.text.chars().count() + self.label.as_ref().map_or(0, |label| label.chars().count() + 2)
    }

    /// A copy cut to a number of characters.
    pub(super) fn cut(&self, limit: usize) -> Self {
        let label = self.label.as_ref().map_or(0, |label| label.chars().count() + 2);
        Self {
            label: self.label.clone(),
            text: cut(&self.text, limit.saturating_sub(label).max(16)),
        }
    }
}

pub(super) fn render_units(document: &SourceDocument) -> Vec<RenderedUnit> {
    let several = document.speakers.len() > 1;
    document.units.iter().map(|unit| render_unit(document, unit, several)).collect()
}

fn render_unit(document: &SourceDocument, unit: &Unit, several: bool) -> RenderedUnit {
    let limit = if unit.kind == SegmentKind::Code { LONGEST_CODE } else { LONGEST };
    let text = ended(cut(&unit.text, limit), unit.kind);
    let Some(speaker) = unit.speaker.map(|place| &document.speakers[place]) else {
        return labelled(text, &document.names);
    };
    if !speaker.is_named && !several {
        return RenderedUnit { label: None, text };
    }
    if speaker.is_named && unit.act != SpeechAct::Courtesy && unit.kind != SegmentKind::Code {
        let mut others = document.speakers.iter().filter(|other| *other != speaker);
        let hearer = others.next().filter(|other| other.is_named).map(|other| other.name.as_str());
        let hearer = hearer.filter(|_| others.next().is_none());
        let reported = if unit.act == SpeechAct::Question {
            reported::report_question(&text, &speaker.name, hearer)
        } else {
            reported::report(&text, &speaker.name, hearer)
        };
        if let Some(text) = reported {
            return RenderedUnit { label: None, text };
        }
        if let Some(hearer) = hearer.filter(|_| reported::addresses(&text)) {
            let verb = if unit.act == SpeechAct::Question { "asks" } else { "tells" };
            return RenderedUnit { label: Some(format!("{} {verb} {hearer}", speaker.name)), text };
        }
    }
    RenderedUnit { label: Some(speaker.name.clone()), text }
}

/// Splits the speaker's label from a sentence of a child's overview.
fn labelled(text: String, names: &[String]) -> RenderedUnit {
    let split = text.split_once(": ").filter(|(label, rest)| {
        let speaker = label.split(" asks ").next().and_then(|part| part.split(" tells ").next());
        !rest.is_empty() && speaker.is_some_and(|speaker| names.iter().any(|name| name == speaker))
    });
    match split {
        Some((label, rest)) => {
            RenderedUnit { label: Some(label.to_owned()), text: rest.to_owned() }
        }
        None => RenderedUnit { label: None, text },
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

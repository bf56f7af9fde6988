//! Units: the candidate sentences of a summary request, with their speakers and the terms they
//! are compared by.

use std::collections::HashMap;

use treering_core::sentence::{self, SegmentKind};
use treering_core::{
    MessagePassage, NodeContent, Passage, Role, SummaryRequest, Timestamp, word_weight,
};

use super::compose;
use super::cues::{self, SpeechAct};

/// A sentence that may be quoted.
#[derive(Debug)]
pub(super) struct Unit {
    /// The index of its passage.
    pub(super) passage: usize,
    /// The index of its speaker; `None` in a child's overview.
    pub(super) speaker: Option<usize>,
    /// The time of its passage.
    pub(super) at: Timestamp,
    /// Its text on one line.
    pub(super) text: String,
    /// Its length in characters.
    pub(super) chars: usize,
    pub(super) kind: SegmentKind,
    pub(super) act: SpeechAct,
    /// Its distinct terms.
    pub(super) terms: Vec<u32>,
    /// The question that it answers, if it cannot be understood without it.
    pub(super) answers: Option<usize>,
    /// The short answer that completes it.
    pub(super) answered_by: Option<usize>,
    /// Whether it is a question without an answer.
    pub(super) unanswered: bool,
    /// Whether it mentions files or code.
    pub(super) is_technical: bool,
    /// Whether the speaker talks about themselves.
    pub(super) is_own: bool,
}

/// A speaker.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Speaker {
    /// Their name, or the name of their role.
    pub(super) name: String,
    /// Their role.
    pub(super) role: Role,
    /// Whether the name is their own rather than their role's.
    pub(super) is_named: bool,
}

/// Statistics of a term.
#[derive(Debug)]
pub(super) struct TermStats {
    /// Its weight as a word, independent of this text.
    pub(super) weight: f32,
    /// Number of units in which it occurs.
    pub(super) units: u32,
}

/// The parsed source of a summary.
#[derive(Debug, Default)]
pub(super) struct SourceDocument {
    pub(super) units: Vec<Unit>,
    pub(super) speakers: Vec<Speaker>,
    pub(super) terms: Vec<TermStats>,
    /// Names of all speakers, including those in the children.
    pub(super) names: Vec<String>,
    index: HashMap<String, u32>,
}

impl SourceDocument {
    /// Parses a request.
    pub(super) fn of(brief: &SummaryRequest) -> Self {
        let mut document = Self::default();
        for (place, passage) in brief.passages.iter().enumerate() {
            match passage {
                Passage::Message(message) => {
                    let speaker = document.speaker(message);
                    document.read(&message.text, place, Some(speaker), message.at);
                }
                Passage::Tool(_) => {}
                Passage::Node(child) => {
                    document.read(&child.content.overview, place, None, child.range_start);
                    document.mark(&child.content, place);
                }
            }
        }
        document.pair_answers();
        document.names.extend(document.speakers.iter().map(|speaker| speaker.name.clone()));
        document.lighten_speakers();
        document
    }

    /// Parses a request that contains no sentences: each message becomes a unit.
    pub(super) fn of_raw(brief: &SummaryRequest) -> Self {
        let mut document = Self::default();
        for (place, passage) in brief.passages.iter().enumerate() {
            let Passage::Message(message) = passage else { continue };
            let text = clean(&message.text, SegmentKind::Code);
            if text.is_empty() {
                continue;
            }
            let speaker = document.speaker(message);
            let chars = text.chars().count();
            document.units.push(Unit {
                passage: place,
                speaker: Some(speaker),
                at: message.at,
                text,
                chars,
                kind: SegmentKind::Code,
                act: SpeechAct::Statement,
                terms: Vec::new(),
                answers: None,
                answered_by: None,
                unanswered: false,
                is_technical: false,
                is_own: false,
            });
        }
        document
    }

    fn speaker(&mut self, message: &MessagePassage) -> usize {
        let author = message.author.as_deref().map(str::trim).filter(|author| !author.is_empty());
        let is_named = author.is_some_and(|author| author.parse::<Role>().is_err());
        let name = match (author, message.role) {
            (Some(author), _) if is_named => {
                author.split_whitespace().collect::<Vec<_>>().join(" ")
            }
            (_, Role::User) => "User".to_owned(),
            (_, Role::Assistant) => "Assistant".to_owned(),
            (_, Role::System) => "System".to_owned(),
            (_, Role::Tool) => "Tool".to_owned(),
        };
        let speaker = Speaker { name, role: message.role, is_named };
        self.speakers.iter().position(|known| *known == speaker).unwrap_or_else(|| {
            self.speakers.push(speaker);
            self.speakers.len() - 1
        })
    }

    fn read(&mut self, text: &str, passage: usize, speaker: Option<usize>, at: Timestamp) {
        for piece in sentence::split(text) {
            let is_list = speaker.is_none() && compose::is_list_line(piece.text);
            if piece.kind == SegmentKind::Heading || is_list {
                continue;
            }
            // Text entirely in brackets annotates something that is not text.
            let within = |open, close| piece.text.starts_with(open) && piece.text.ends_with(close);
            let is_note = within('[', ']') || within('(', ')');
            let kind = if is_note { SegmentKind::Code } else { piece.kind };
            let text = clean(piece.text, kind);
            if speaker.is_none() {
                self.note_names(&text);
            }
            let terms = self.terms_of(&text);
            let content =
                terms.iter().filter(|term| self.terms[**term as usize].weight > 0.9).count();
            let act = if kind == SegmentKind::Code {
                SpeechAct::Statement
            } else {
                cues::classify(&text, content)
            };
            for term in &terms {
                self.terms[*term as usize].units += 1;
            }
            let chars = text.chars().count();
            let is_technical = is_technical(&text);
            let is_own = act != SpeechAct::Question && is_own(&text);
            self.units.push(Unit {
                passage,
                speaker,
                at,
                text,
                chars,
                kind,
                act,
                terms,
                answers: None,
                answered_by: None,
                unanswered: false,
                is_technical,
                is_own,
            });
        }
    }

    /// Records the names in the label before a quotation: `Ana: …`, `Ana asks Juno: …`.
    fn note_names(&mut self, text: &str) {
        let Some((label, _)) = text.split_once(": ") else { return };
        for name in label.split(" asks ").flat_map(|part| part.split(" tells ")) {
            let is_name = name.split(' ').count() <= 3
                && name.starts_with(|c: char| c.is_uppercase() || c == '#');
            if is_name && !self.names.iter().any(|known| known == name) {
                self.names.push(name.to_owned());
            }
        }
    }

    /// The distinct terms of a text, in order.
    fn terms_of(&mut self, text: &str) -> Vec<u32> {
        let mut found = Vec::new();
        for word in sentence::words(text).take(400) {
            let lower = word.to_lowercase();
            let weight = word_weight(&lower);
            if weight == 0.0 {
                continue;
            }
            let stem = sentence::stem(&lower);
            let next = u32::try_from(self.terms.len()).unwrap_or(u32::MAX);
            let term = *self.index.entry(stem).or_insert(next);
            if term == next {
                let marked = word.contains('_') || word.chars().any(|c| c.is_ascii_digit());
                let weight = if marked { weight * 1.25 } else { weight };
                self.terms.push(TermStats { weight, units: 0 });
            }
            if !found.contains(&term) {
                found.push(term);
            }
        }
        found
    }

    /// Sets the speech acts of a child's sentences from the child's lists.
    fn mark(&mut self, content: &NodeContent, passage: usize) {
        let marks = [
            (&content.decisions, SpeechAct::Decision),
            (&content.action_items, SpeechAct::Action),
            (&content.unresolved, SpeechAct::Open),
            (&content.key_findings, SpeechAct::Finding),
        ];
        let from =
            self.units.iter().position(|unit| unit.passage == passage).unwrap_or(self.units.len());
        for (list, act) in marks {
            for item in list {
                let terms = self.terms_of(item);
                for unit in &mut self.units[from..] {
                    if overlap(&terms, &unit.terms) >= 0.85 {
                        unit.act = act;
                        unit.unanswered |= act == SpeechAct::Open;
                    }
                }
            }
        }
    }

    /// Links each short answer to its question, and marks questions without an answer.
    fn pair_answers(&mut self) {
        for place in 0..self.units.len() {
            if self.units[place].act != SpeechAct::Question || self.units[place].speaker.is_none() {
                continue;
            }
            let (passage, speaker) = (self.units[place].passage, self.units[place].speaker);
            let next = self.units.get(place + 1).filter(|next| next.passage == passage);
            if next.is_some_and(|next| next.act == SpeechAct::Open || cues::leaves_open(&next.text))
            {
                self.units[place].unanswered = true;
                continue;
            }
            let reply = (place + 1..self.units.len()).find(|later| {
                let unit = &self.units[*later];
                unit.passage > passage && unit.speaker != speaker
            });
            let Some(reply) = reply else {
                let goes_on =
                    self.units.get(place + 3).is_some_and(|later| later.passage == passage);
                self.units[place].unanswered = !goes_on;
                continue;
            };
            let is_last = self.units[place + 1..reply]
                .iter()
                .all(|unit| unit.passage != passage || unit.chars < 30);
            let unit = &self.units[reply];
            let content = unit.terms.len();
            let is_answer = unit.act != SpeechAct::Question && unit.kind != SegmentKind::Code;
            self.units[place].unanswered = cues::leaves_open(&self.units[reply].text);
            if is_last && is_answer && (1..4).contains(&content) {
                self.units[reply].answers = Some(place);
                self.units[place].answered_by = Some(reply);
            }
        }
    }

    /// Reduces the weight of speakers' names: they occur everywhere and carry little information.
    fn lighten_speakers(&mut self) {
        for name in &self.names {
            for word in sentence::words(name) {
                if let Some(term) = self.index.get(&sentence::stem(word)) {
                    self.terms[*term as usize].weight *= 0.2;
                }
            }
        }
    }
}

/// Whether a sentence looks technical: it contains a path, a call or inline code.
fn is_technical(text: &str) -> bool {
    text.contains('`')
        || text.split(' ').any(|word| {
            word.contains("()")
                || word.contains("::")
                || word.contains('_')
                || word.matches('/').count() > 1
        })
}

/// Whether a sentence is about its speaker, in English or French.
fn is_own(text: &str) -> bool {
    text.split([' ', '\'', '’', ',']).take(8).any(|word| {
        matches!(
            word,
            "I" | "my"
                | "My"
                | "we"
                | "We"
                | "our"
                | "je"
                | "Je"
                | "j"
                | "J"
                | "mon"
                | "ma"
                | "mes"
                | "nous"
                | "Nous"
                | "on"
                | "On"
        )
    })
}

/// The share of the smaller set of terms that is also in the larger one.
pub(super) fn overlap(one: &[u32], other: &[u32]) -> f32 {
    let (small, large) = if one.len() < other.len() { (one, other) } else { (other, one) };
    if small.is_empty() {
        return 0.0;
    }
    let common = small.iter().filter(|term| large.contains(term)).count();
    common as f32 / small.len() as f32
}

/// Puts a sentence on one line, removes emphasis, links and empty openers, and rejoins detached
/// apostrophes.
fn clean(text: &str, kind: SegmentKind) -> String {
    let unlinked = if kind == SegmentKind::Code || !text.contains("](") {
        None
    } else {
        Some(without_links(text))
    };
    let text = unlinked.as_deref().unwrap_or(text);
    let mut line = String::with_capacity(text.len().min(4096));
    for word in text.split_whitespace() {
        let word = if kind == SegmentKind::Code { word } else { word.trim_matches('*') };
        if word.is_empty() {
            continue;
        }
        let joins = line.ends_with([' ', '\u{200b}']) || line.is_empty();
        let ends = line.ends_with('\'') && line.len() > 1 && line[..line.len() - 1].ends_with(' ');
        if ends
            && matches!(
                word.to_ascii_lowercase().trim_end_matches(['.', ',', '!', '?']),
                "t" | "s" | "m" | "ve" | "re" | "ll" | "d"
            )
        {
            line.truncate(line.len() - 2);
            line.push('\'');
            line.push_str(&word.to_ascii_lowercase());
            continue;
        }
        if !joins {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !c.is_control()));
    }
    if kind == SegmentKind::Code {
        return line;
    }
    let bare = cues::without_opener(&line);
    let mut chars = bare.chars();
    match chars.next() {
        Some(first) if bare.len() < line.len() && first.is_lowercase() => {
            first.to_uppercase().chain(chars).collect()
        }
        _ if bare.len() < line.len() => bare.to_owned(),
        _ => line,
    }
}

/// Replaces Markdown links by their text.
fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(middle) = rest.find("](") {
        let open = rest[..middle].rfind('[');
        let close = rest[middle..].find(')');
        let (Some(open), Some(close)) = (open, close) else { break };
        plain.push_str(rest[..open].trim_end_matches('!'));
        plain.push_str(&rest[open + 1..middle]);
        rest = &rest[middle + close + 1..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_cleaned_lightly() {
        for (text, expected) in [
            ("Well,  I  **sold**\nit all.", "I sold it all."),
            ("I ' Ve not, I haven ' t had it.", "I've not, I haven't had it."),
            ("say 'yes' now", "say 'yes' now"),
            ("See [the plan](https://a.b/c) and ![x](y.png).", "See the plan and x."),
        ] {
            assert_eq!(clean(text, SegmentKind::Prose), expected);
        }
        assert_eq!(clean("a  **b**\nc", SegmentKind::Code), "a **b** c");
    }

    #[test]
    fn overlap_is_of_the_smaller() {
        assert!((overlap(&[1, 2], &[2, 1, 3]) - 1.0).abs() < f32::EPSILON);
        assert!((overlap(&[], &[1])).abs() < f32::EPSILON);
    }
}

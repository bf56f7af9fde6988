//! Units: the statements that a summary can quote, with their speakers and the terms they are
//! compared by.

use std::collections::HashMap;

use treering_core::facts;
use treering_core::sentence::{self, SegmentKind};
use treering_core::{
    MessagePassage, Passage, RankedLine, Role, SummaryRequest, Timestamp, ToolPassage,
    weighted_terms, with_absolute_dates,
};

use super::clean::clean;
use super::cues::{self, SpeechAct};

/// A statement that may be quoted: a sentence of a message, or a point of a child.
#[derive(Debug)]
pub(super) struct Unit {
    /// The index of its passage.
    pub(super) passage: usize,
    /// The number of its line, if the passage is a child.
    pub(super) line: usize,
    /// The index of its speaker; `None` for a point of a child that is quoted with its label.
    pub(super) speaker: Option<usize>,
    /// Its day, if the source lies on several.
    pub(super) day: Option<String>,
    /// Its text on one line.
    pub(super) text: String,
    /// Its length in characters.
    pub(super) chars: usize,
    pub(super) kind: SegmentKind,
    pub(super) act: SpeechAct,
    /// Its distinct terms.
    pub(super) terms: Vec<u32>,
    /// The unit without which it cannot be understood: the question that it answers, or the
    /// sentence before it.
    pub(super) needs: Option<usize>,
    /// The short answer that completes it.
    pub(super) answered_by: Option<usize>,
    /// Whether it is a question without an answer.
    pub(super) unanswered: bool,
    /// Whether it mentions files or code.
    pub(super) is_technical: bool,
    /// The worth of a child's point, relative to a plain statement.
    pub(super) worth: Option<f32>,
    /// Whether it opens the reply to a question.
    pub(super) is_reply: bool,
    /// Whether it says when something happens.
    pub(super) is_dated: bool,
    /// Whether it says what somebody wants.
    pub(super) is_wanted: bool,
    /// Whether it is a note in brackets, such as the description of an image.
    pub(super) is_note: bool,
}

impl Unit {
    pub(super) fn new(
        passage: usize,
        speaker: Option<usize>,
        text: String,
        kind: SegmentKind,
    ) -> Self {
        Self {
            passage,
            line: 0,
            speaker,
            day: None,
            chars: text.chars().count(),
            is_technical: kind != SegmentKind::Code && is_technical(&text),
            text,
            kind,
            act: SpeechAct::Statement,
            terms: Vec::new(),
            needs: None,
            answered_by: None,
            unanswered: false,
            worth: None,
            is_reply: false,
            is_dated: false,
            is_wanted: false,
            is_note: false,
        }
    }

    /// Whether it is part of the same message, or of the same point of a child.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        (self.passage, self.line) == (other.passage, other.line) && self.speaker.is_some()
    }
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
    /// Its weight as a word, independent of this text. Facts weigh more.
    pub(super) weight: f32,
    /// Number of units in which it occurs.
    pub(super) units: u32,
    /// Whether the text before the source has it already.
    pub(super) is_known: bool,
}

/// The parsed source of a summary.
#[derive(Debug, Default)]
pub(super) struct SourceDocument {
    pub(super) units: Vec<Unit>,
    pub(super) speakers: Vec<Speaker>,
    pub(super) terms: Vec<TermStats>,
    /// Whether the passages lie on more than one day.
    pub(super) spans_days: bool,
    /// Names of all speakers, including those in the children.
    pub(super) names: Vec<String>,
    index: HashMap<String, u32>,
}

impl SourceDocument {
    /// Parses a request.
    pub(super) fn of(request: &SummaryRequest) -> Self {
        let mut document = Self { spans_days: spans_days(request), ..Self::default() };
        for (index, passage) in request.passages.iter().enumerate() {
            match passage {
                Passage::Message(message) => {
                    let speaker = document.speaker(message);
                    document.read(&message.text, index, speaker, message.at);
                }
                Passage::Tool(tool) => document.read_failure(tool, index),
                Passage::Node(child) => document.read_points(child, index),
            }
        }
        document.pair_answers();
        let speakers = document.speakers.iter().map(|speaker| speaker.name.clone());
        document.names.extend(speakers);
        document.names.sort_unstable();
        document.names.dedup();
        document.lighten_speakers();
        document.mark_known(&request.preceding);
        document
    }

    /// Parses a request that contains no sentences: each message becomes a unit.
    pub(super) fn of_raw(request: &SummaryRequest) -> Self {
        let mut document = Self::default();
        for (index, passage) in request.passages.iter().enumerate() {
            let Passage::Message(message) = passage else { continue };
            let text = clean(&message.text, SegmentKind::Code);
            if text.is_empty() {
                continue;
            }
            let speaker = document.speaker(message);
            document.push(Unit::new(index, Some(speaker), text, SegmentKind::Code));
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
        self.speaker_index(Speaker { name, role: message.role, is_named })
    }

    pub(super) fn speaker_index(&mut self, speaker: Speaker) -> usize {
        self.speakers.iter().position(|known| *known == speaker).unwrap_or_else(|| {
            self.speakers.push(speaker);
            self.speakers.len() - 1
        })
    }

    fn read(&mut self, text: &str, passage: usize, speaker: usize, at: Timestamp) {
        let mut before = None;
        for piece in sentence::split(text) {
            if piece.kind == SegmentKind::Heading {
                continue;
            }
            // Text entirely in brackets annotates something that is not text.
            let within = |open, close| piece.text.starts_with(open) && piece.text.ends_with(close);
            let is_note = within('[', ']') || within('(', ')');
            let kind = if is_note { SegmentKind::Code } else { piece.kind };
            let said = clean(piece.text, kind);
            let terms = self.terms_of(&said);
            let content =
                terms.iter().filter(|term| self.terms[**term as usize].weight > 0.9).count();
            let text = match kind {
                SegmentKind::Code => said.clone(),
                _ => with_absolute_dates(&said, at).into_owned(),
            };
            let mut unit = Unit::new(passage, Some(speaker), text, kind);
            unit.day = self.day(at);
            unit.is_note = is_note;
            if kind != SegmentKind::Code {
                unit.act = self.act_of(speaker, cues::classify(&unit.text, content), &unit.text);
                unit.is_dated = unit.text != said || facts::has_date(&said);
                let speaker = &self.speakers[speaker].name;
                unit.is_wanted = cues::is_wanted(speaker, &unit.text, unit.act);
            }
            unit.needs = before.filter(|_| refers_back(&unit.text) && kind != SegmentKind::Code);
            unit.terms = terms;
            let is_courtesy = unit.act == SpeechAct::Courtesy;
            let index = self.push(unit);
            before = (!is_courtesy).then_some(index);
        }
    }

    /// The speech act of a sentence, given its speaker. Nobody decides or promises anything in what
    /// tools print, and an assistant without a name does at once what it announces, so nothing is
    /// left to do unless it says so.
    fn act_of(&self, speaker: usize, act: SpeechAct, text: &str) -> SpeechAct {
        let is_commitment = matches!(act, SpeechAct::Decision | SpeechAct::Action);
        let speaker = &self.speakers[speaker];
        let counts = match (speaker.role, act) {
            (Role::Tool | Role::System, SpeechAct::Open) => false,
            (Role::Tool | Role::System, _) => !is_commitment,
            (Role::Assistant, SpeechAct::Decision) if !speaker.is_named => {
                cues::is_change_of_plan(text)
            }
            (Role::Assistant, SpeechAct::Action) if !speaker.is_named => cues::is_left_to_do(text),
            _ => true,
        };
        if counts { act } else { SpeechAct::Statement }
    }

    /// The day of a time, if the source lies on several.
    pub(super) fn day(&self, at: Timestamp) -> Option<String> {
        self.spans_days.then(|| RankedLine::day_of(at))
    }

    pub(super) fn push(&mut self, unit: Unit) -> usize {
        for term in &unit.terms {
            self.terms[*term as usize].units += 1;
        }
        self.units.push(unit);
        self.units.len() - 1
    }

    /// Reads a failed tool call: what a tool refused often explains what was done next.
    fn read_failure(&mut self, tool: &ToolPassage, passage: usize) {
        if tool.success != Some(false) {
            return;
        }
        let result = tool.result.trim_matches('"').replace("\\n", "\n");
        let line = result.lines().map(str::trim).find(|line| line.chars().any(char::is_alphabetic));
        let Some(line) = line.filter(|_| !tool.name.trim().is_empty()) else { return };
        let text = format!("{} failed: {}", tool.name.trim(), clean(line, SegmentKind::Code));
        let mut unit = Unit::new(passage, None, text, SegmentKind::Code);
        unit.terms = self.terms_of(line);
        unit.is_technical = true;
        self.push(unit);
    }

    /// The distinct terms of a text, in order.
    pub(super) fn terms_of(&mut self, text: &str) -> Vec<u32> {
        let mut found = Vec::new();
        for (stem, weight) in weighted_terms(text).take(400) {
            let next = u32::try_from(self.terms.len()).unwrap_or(u32::MAX);
            let term = *self.index.entry(stem).or_insert(next);
            if term == next {
                self.terms.push(TermStats { weight, units: 0, is_known: false });
            }
            let known = &mut self.terms[term as usize].weight;
            *known = known.max(weight);
            if !found.contains(&term) {
                found.push(term);
            }
        }
        found
    }

    /// Links each short answer to its question, and marks replies and questions without an
    /// answer.
    fn pair_answers(&mut self) {
        for index in 0..self.units.len() {
            if self.units[index].act != SpeechAct::Question || self.units[index].worth.is_some() {
                continue;
            }
            let (passage, speaker) = (self.units[index].passage, self.units[index].speaker);
            let next = self.units.get(index + 1).filter(|next| next.passage == passage);
            if next.is_some_and(|next| next.act == SpeechAct::Open) {
                self.units[index].unanswered = true;
                continue;
            }
            let Some(first) = self.next_speaker(index) else {
                let goes_on =
                    self.units.get(index + 3).is_some_and(|later| later.passage == passage);
                self.units[index].unanswered = !goes_on;
                continue;
            };
            let Some(reply) = self.reply_from(first) else { continue };
            let is_last = self.units[index + 1..reply]
                .iter()
                .all(|unit| unit.passage != passage || unit.speaker != speaker || unit.chars < 30);
            self.units[index].unanswered = cues::leaves_open(&self.units[reply].text);
            let unit = &mut self.units[reply];
            if unit.act == SpeechAct::Question || unit.kind == SegmentKind::Code {
                continue;
            }
            unit.is_reply = true;
            let is_short = (1..4).contains(&unit.terms.len());
            let is_vague = refers_back(&unit.text) && unit.terms.len() < 8;
            if is_last && (is_short || is_vague) {
                unit.needs = Some(index);
                if is_short {
                    self.units[index].answered_by = Some(reply);
                }
            }
        }
    }

    /// The first sentence of the next speaker.
    fn next_speaker(&self, question: usize) -> Option<usize> {
        let Unit { passage, speaker, .. } = self.units[question];
        let is_other = |unit: &Unit| {
            unit.passage > passage && unit.speaker != speaker && unit.speaker.is_some()
        };
        (question + 1..self.units.len()).find(|later| is_other(&self.units[*later]))
    }

    /// The sentence of a reply that says something, among the first three.
    fn reply_from(&self, first: usize) -> Option<usize> {
        let of_reply = self.units[first].passage;
        let says = |later: &usize| {
            let unit = &self.units[*later];
            unit.passage == of_reply && unit.act != SpeechAct::Courtesy && !unit.terms.is_empty()
        };
        (first..self.units.len().min(first + 3)).find(says)
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

    /// Marks the terms that the text before the source has already: a summary says what is new.
    fn mark_known(&mut self, preceding: &str) {
        for (stem, _) in weighted_terms(preceding) {
            if let Some(term) = self.index.get(&stem) {
                self.terms[*term as usize].is_known = true;
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

/// Whether a sentence opens with a word that refers to something said before, in English or
/// French.
pub(super) fn refers_back(text: &str) -> bool {
    let first = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    matches!(
        first,
        "It" | "That"
            | "This"
            | "They"
            | "He"
            | "She"
            | "These"
            | "Those"
            | "Its"
            | "Their"
            | "Them"
            | "His"
            | "Her"
            | "There"
            | "Both"
            | "Ça"
            | "Cela"
            | "Ceci"
            | "Il"
            | "Elle"
            | "Ils"
            | "Elles"
            | "C"
    )
}

/// Whether the passages of a request lie on more than one day.
fn spans_days(request: &SummaryRequest) -> bool {
    let mut days = request.passages.iter().flat_map(|passage| match passage {
        Passage::Message(message) => vec![message.at.day()],
        Passage::Node(child) => vec![child.range_start.day(), child.range_end.day()],
        Passage::Tool(_) => Vec::new(),
    });
    let first = days.next();
    days.any(|day| Some(day) != first)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_of_the_smaller() {
        assert!((overlap(&[1, 2], &[2, 1, 3]) - 1.0).abs() < f32::EPSILON);
        assert!((overlap(&[], &[1])).abs() < f32::EPSILON);
    }
}

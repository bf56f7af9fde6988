//! Composition: arranges the selected units in the sections of their strategy. Title and
//! participants of the conversation are ignored, so that renaming it does not change its tree.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use treering_core::prompt::{self, SummaryPart, SummarySection};
use treering_core::{Strategy, SummaryRequest, sentence, word_weight};

use super::cues::{self, SpeechAct};
use super::rendering::RenderedUnit;
use super::select::Pick;
use super::unit::{SourceDocument, Unit};

/// The inputs of a composition.
pub(super) struct Composer<'a> {
    pub(super) request: &'a SummaryRequest,
    pub(super) document: &'a SourceDocument,
    pub(super) rendered: &'a [RenderedUnit],
    pub(super) topics: &'a [String],
    pub(super) files: &'a [String],
    pub(super) identifiers: &'a [String],
    /// Target length in characters; `None` if the length is given in sentences.
    pub(super) target: Option<usize>,
}

/// Minimum length of a text with headings, in characters.
const MIN_CHARS_FOR_HEADINGS: usize = 600;

impl Composer<'_> {
    /// Composes the text, dropping the last picks until it fits the target length or one pick
    /// is left. Returns the picks that were used.
    pub(super) fn compose(&self, mut picks: Vec<Pick>) -> (String, Vec<Pick>) {
        loop {
            let text = self.form(&picks);
            let most = self.target.map_or(usize::MAX, |target| target + target / 10);
            if picks.len() <= 1 || text.chars().count() <= most {
                return (text, picks);
            }
            picks.pop();
        }
    }

    fn form(&self, picks: &[Pick]) -> String {
        let mut order: Vec<&Pick> = picks.iter().collect();
        order.sort_by_key(|pick| pick.unit);
        let short =
            self.target.is_none_or(|target| target < MIN_CHARS_FOR_HEADINGS) || picks.len() < 5;
        match self.request.strategy {
            Strategy::Chronological if short => self.timeline(&order),
            _ if short => self.paragraph(&order),
            _ => self.sections(&order),
        }
    }

    /// The sections of the strategy that have any content.
    fn sections(&self, picks: &[&Pick]) -> String {
        let strategy = self.request.strategy;
        let lead = self.lead(picks);
        let part = |pick: &Pick| {
            if lead.contains(&pick) { SummaryPart::Overview } else { self.part(pick) }
        };
        let mut blocks = Vec::new();
        for section in prompt::sections(strategy) {
            let own: Vec<&Pick> =
                picks.iter().filter(|pick| section.parts.contains(&part(pick))).copied().collect();
            let body = match (section.parts[0], strategy) {
                (SummaryPart::Overview, Strategy::Thematic) => self.themes(&own),
                (SummaryPart::Overview, Strategy::Chronological) => self.timeline(&own),
                (SummaryPart::Overview, _) => self.paragraph(&own),
                (SummaryPart::Technical, _) => self.technical(&own),
                (SummaryPart::Findings, Strategy::Executive) => self.numbered(&own),
                _ => self.bullets(&own),
            };
            if !body.is_empty() {
                blocks.push(format!("{}{}\n{body}", SummarySection::MARK, section.heading));
            }
        }
        blocks.join("\n\n")
    }

    /// The units of the opening paragraph: the plain statements with the highest gain.
    fn lead<'p>(&self, picks: &[&'p Pick]) -> Vec<&'p Pick> {
        if !matches!(self.request.strategy, Strategy::Detailed | Strategy::Executive) {
            return Vec::new();
        }
        let is_plain = |pick: &&&Pick| self.part(pick) == SummaryPart::Findings;
        let mut plain: Vec<&Pick> = picks.iter().filter(is_plain).copied().collect();
        plain.sort_by(|one, other| other.gain.total_cmp(&one.gain));
        let room = self.target.unwrap_or_default() * 2 / 5;
        let mut used = 0;
        let mut lead: Vec<&Pick> = Vec::new();
        for pick in plain {
            used += self.rendered[pick.unit].chars() + 1;
            if used > room && !lead.is_empty() {
                break;
            }
            lead.push(pick);
        }
        lead
    }

    /// The part of a summary that a unit belongs to.
    fn part(&self, pick: &Pick) -> SummaryPart {
        let unit = self.unit(pick);
        match unit.act {
            SpeechAct::Decision => SummaryPart::Decisions,
            SpeechAct::Action => SummaryPart::Actions,
            SpeechAct::Open => SummaryPart::Unresolved,
            SpeechAct::Question if unit.unanswered => SummaryPart::Unresolved,
            _ if is_technical(unit) => SummaryPart::Technical,
            _ if self.request.strategy == Strategy::Thematic && !cues::is_finding(&unit.text) => {
                SummaryPart::Overview
            }
            _ => SummaryPart::Findings,
        }
    }

    fn unit(&self, pick: &Pick) -> &Unit {
        &self.document.units[pick.unit]
    }

    fn rendered(&self, pick: &Pick) -> RenderedUnit {
        let rendered = &self.rendered[pick.unit];
        pick.limit.map_or_else(|| rendered.clone(), |limit| rendered.cut(limit))
    }

    /// Joins the sentences; the label is repeated only where the speaker changes.
    fn paragraph(&self, picks: &[&Pick]) -> String {
        let mut text = String::new();
        let mut speaking: Option<String> = None;
        for pick in picks {
            let rendered = self.rendered(pick);
            if !text.is_empty() {
                text.push(' ');
            }
            let goes_on = rendered.label.is_some() && rendered.label == speaking;
            text.push_str(&if goes_on { rendered.text.clone() } else { rendered.line() });
            speaking = rendered.label;
        }
        text
    }

    fn bullets(&self, picks: &[&Pick]) -> String {
        picks
            .iter()
            .map(|pick| format!("- {}", self.rendered(pick).line()))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn numbered(&self, picks: &[&Pick]) -> String {
        let line = |(place, pick): (usize, &&Pick)| {
            format!("{}. {}", place + 1, self.rendered(pick).line())
        };
        picks.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Groups units by theme: the word that most of the remaining units share.
    fn themes(&self, picks: &[&Pick]) -> String {
        let words: Vec<Vec<(String, &str)>> =
            picks.iter().map(|pick| self.words(&self.unit(pick).text)).collect();
        let topics: Vec<String> =
            self.topics.iter().flat_map(|topic| self.words(topic)).map(|word| word.0).collect();
        let mut rest: Vec<usize> = (0..picks.len()).collect();
        let mut blocks = Vec::new();
        while blocks.len() < MAX_THEMES {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for (stem, _) in rest.iter().flat_map(|place| &words[*place]) {
                *counts.entry(stem).or_insert(usize::from(topics.contains(stem))) += 1;
            }
            let best = counts
                .iter()
                .filter(|(_, count)| **count > 2)
                .max_by_key(|(stem, count)| (**count, Reverse(**stem)));
            let Some(theme) = best.map(|(stem, _)| (*stem).to_owned()) else { break };
            let has = |place: &usize| words[*place].iter().any(|(stem, _)| *stem == theme);
            let own: Vec<&Pick> =
                rest.iter().filter(|place| has(place)).map(|place| picks[*place]).collect();
            let written =
                rest.iter().flat_map(|place| &words[*place]).find(|(stem, _)| *stem == theme);
            let name = written.map_or_else(String::new, |(_, word)| capitalised(word));
            blocks.push(format!("**{name}**\n{}", self.bullets(&own)));
            rest.retain(|place| !has(place));
        }
        // The points without a theme come first, because nothing below a theme ends it.
        let own: Vec<&Pick> = rest.iter().map(|place| picks[*place]).collect();
        if !own.is_empty() {
            blocks.insert(0, self.bullets(&own));
        }
        blocks.join("\n")
    }

    /// The words of a text that can name a theme, with their stems.
    fn words<'t>(&self, text: &'t str) -> Vec<(String, &'t str)> {
        let is_name = |word: &str| {
            self.document.names.iter().any(|name| name.split(' ').any(|part| part == word))
        };
        let mut words: Vec<(String, &str)> = sentence::words(text)
            .filter(|word| {
                word.chars().nth(2).is_some()
                    && word_weight(&word.to_lowercase()) > 0.9
                    && !is_name(word)
            })
            .filter(|word| !word.contains(['\'', '’']) && word.chars().all(char::is_alphabetic))
            .map(|word| (sentence::stem(word), word))
            .collect();
        words.sort_by(|one, other| one.0.cmp(&other.0));
        words.dedup_by(|one, other| one.0 == other.0);
        words
    }

    /// In chronological order, one paragraph per day.
    fn timeline(&self, picks: &[&Pick]) -> String {
        let day = |pick: &&Pick| {
            self.unit(pick).at.to_minute().split(' ').next().unwrap_or_default().to_owned()
        };
        let days: Vec<&[&Pick]> = picks.chunk_by(|one, other| day(one) == day(other)).collect();
        let tell = |picks: &&[&Pick]| match picks.first() {
            Some(first) => format!("{}: {}", day(first), self.paragraph(picks)),
            None => String::new(),
        };
        days.iter().map(tell).collect::<Vec<_>>().join("\n")
    }

    /// Files, functions and concepts, then the technical points. A text without any of the
    /// others has no concepts either.
    fn technical(&self, picks: &[&Pick]) -> String {
        let mut room = self.target.unwrap_or_default() / 8;
        let mut lines = Vec::new();
        let lists = [(FILES, self.files), (FUNCTIONS, self.identifiers), (CONCEPTS, self.topics)];
        for (name, list) in lists {
            if name == CONCEPTS && lines.is_empty() && picks.is_empty() {
                break;
            }
            let line = list_line(name, list, room);
            room = room.saturating_sub(line.chars().count());
            lines.extend((!line.is_empty()).then_some(line));
        }
        lines.extend((!picks.is_empty()).then(|| self.bullets(picks)));
        lines.join("\n")
    }
}

const FILES: &str = "- Files: ";
const FUNCTIONS: &str = "- Functions: ";
const CONCEPTS: &str = "- Concepts: ";

/// Whether a sentence of a child's overview is a line of files, functions or concepts, which the
/// child also has as lists.
pub(super) fn is_list_line(sentence: &str) -> bool {
    [FILES, FUNCTIONS, CONCEPTS].iter().any(|name| sentence.starts_with(name[2..].trim_end()))
}

/// As many items as fit into `room` characters, on one line; empty if none fits.
fn list_line(name: &str, list: &[String], room: usize) -> String {
    let mut line = String::new();
    let mut used = name.len();
    for item in list {
        used += item.chars().count() + 2;
        if used > room {
            break;
        }
        line.push_str(if line.is_empty() { name } else { ", " });
        line.push_str(item);
    }
    line
}

/// Maximum number of themes.
const MAX_THEMES: usize = 6;

/// Whether a unit is code or mentions files or code.
pub(super) fn is_technical(unit: &Unit) -> bool {
    unit.kind == treering_core::sentence::SegmentKind::Code || unit.is_technical
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

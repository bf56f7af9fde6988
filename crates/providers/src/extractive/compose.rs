//! Composition: arranges the selected units in the form of their strategy.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use treering_core::{Strategy, SummaryRequest, sentence, word_weight};

use super::cues::SpeechAct;
use super::rendering::RenderedUnit;
use super::select::Pick;
use super::unit::{SourceDocument, Unit};

/// The inputs of a composition.
pub(super) struct Composer<'a> {
    pub(super) brief: &'a SummaryRequest,
    pub(super) material: &'a SourceDocument,
    pub(super) rendered: &'a [RenderedUnit],
    pub(super) topics: &'a [String],
    pub(super) files: &'a [String],
    pub(super) identifiers: &'a [String],
    /// Target length in characters; `None` if the length is given in sentences.
    pub(super) target: Option<usize>,
}

/// Shorter texts have no headings.
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
        match self.brief.strategy {
            Strategy::Chronological => self.chronological(&order),
            Strategy::Concise => self.paragraph(&order),
            _ if short => self.paragraph(&order),
            Strategy::Detailed => self.detailed(&order),
            Strategy::Thematic => self.thematic(&order),
            Strategy::Executive => self.executive(&order),
            Strategy::Technical => self.technical(&order),
        }
    }

    fn unit(&self, pick: &Pick) -> &Unit {
        &self.material.units[pick.unit]
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

    /// A paragraph of the units with the highest gain, then the others under headings by speech
    /// act.
    fn detailed(&self, picks: &[&Pick]) -> String {
        let is_plain =
            |pick: &&&Pick| !matches!(self.heading(pick), Some(heading) if heading != KEY_POINTS);
        let mut plain: Vec<&Pick> = picks.iter().filter(is_plain).copied().collect();
        plain.sort_by(|one, other| other.gain.total_cmp(&one.gain));
        let room = self.target.unwrap_or_default() * 2 / 5;
        let mut used = 0;
        let mut head: Vec<&Pick> = Vec::new();
        for pick in plain {
            used += self.rendered[pick.unit].chars() + 1;
            if used > room && !head.is_empty() {
                break;
            }
            head.push(pick);
        }
        head.sort_by_key(|pick| pick.unit);
        let rest: Vec<&Pick> = picks.iter().filter(|pick| !head.contains(pick)).copied().collect();
        let mut blocks = vec![self.paragraph(&head)];
        for heading in [KEY_POINTS, "Decisions", "Action items", "Technical details", "Unresolved"]
        {
            let own: Vec<&Pick> =
                rest.iter().filter(|pick| self.heading(pick) == Some(heading)).copied().collect();
            if !own.is_empty() {
                blocks.push(format!("{heading}:\n{}", self.bullets(&own)));
            }
        }
        blocks.retain(|block| !block.is_empty());
        blocks.join("\n\n")
    }

    /// The heading of a unit in a detailed text.
    fn heading(&self, pick: &Pick) -> Option<&'static str> {
        let unit = self.unit(pick);
        Some(match unit.act {
            SpeechAct::Decision => "Decisions",
            SpeechAct::Action => "Action items",
            SpeechAct::Open => "Unresolved",
            SpeechAct::Question if unit.unanswered => "Unresolved",
            _ if is_technical(unit) => "Technical details",
            _ => KEY_POINTS,
        })
    }

    /// Groups units by theme: the word that most of the remaining units share.
    fn thematic(&self, picks: &[&Pick]) -> String {
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
            let heading = written.map_or_else(String::new, |(_, word)| capitalised(word));
            blocks.push(format!("{heading}:\n{}", self.bullets(&own)));
            rest.retain(|place| !has(place));
        }
        let own: Vec<&Pick> = rest.iter().map(|place| picks[*place]).collect();
        if !own.is_empty() && blocks.is_empty() {
            return self.bullets(&own);
        }
        if !own.is_empty() {
            blocks.push(format!("Also:\n{}", self.bullets(&own)));
        }
        blocks.join("\n\n")
    }

    /// The words of a text that can name a theme, with their stems.
    fn words<'t>(&self, text: &'t str) -> Vec<(String, &'t str)> {
        let is_name = |word: &str| {
            self.material.names.iter().any(|name| name.split(' ').any(|part| part == word))
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
    fn chronological(&self, picks: &[&Pick]) -> String {
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

    /// Results, decisions, next steps and open points.
    fn executive(&self, picks: &[&Pick]) -> String {
        let place = |pick: &&&Pick| match self.unit(pick).act {
            SpeechAct::Decision => 1,
            SpeechAct::Action => 2,
            SpeechAct::Open | SpeechAct::Question => 3,
            SpeechAct::Statement | SpeechAct::Finding | SpeechAct::Courtesy => 0,
        };
        let mut blocks = Vec::new();
        for (number, heading) in
            ["Results", "Decisions", "Next steps", "Open"].into_iter().enumerate()
        {
            let own: Vec<&Pick> =
                picks.iter().filter(|pick| place(pick) == number).copied().collect();
            if !own.is_empty() {
                blocks.push(format!("{heading}:\n{}", self.bullets(&own)));
            }
        }
        blocks.join("\n\n")
    }

    /// Files and identifiers, then the points.
    fn technical(&self, picks: &[&Pick]) -> String {
        let room = self.target.unwrap_or_default() / 8;
        let mut blocks = Vec::new();
        for (heading, list) in [("Files", self.files), ("Identifiers", self.identifiers)] {
            let mut line = String::new();
            for item in list.iter().take_while(|item| item.len() < room) {
                if line.len() + item.len() + 2 > room {
                    break;
                }
                line.push_str(if line.is_empty() { "" } else { ", " });
                line.push_str(item);
            }
            if !line.is_empty() {
                blocks.push(format!("{heading}: {line}"));
            }
        }
        let (technical, other): (Vec<&Pick>, Vec<&Pick>) =
            picks.iter().partition(|pick| is_technical(self.unit(pick)));
        for (heading, own) in [("Technical points", technical), ("State", other)] {
            if !own.is_empty() {
                blocks.push(format!("{heading}:\n{}", self.bullets(&own)));
            }
        }
        blocks.join("\n\n")
    }
}

/// Maximum number of themes.
const MAX_THEMES: usize = 6;

const KEY_POINTS: &str = "Key points";

/// Whether a unit is code or mentions files or code.
pub(super) fn is_technical(unit: &Unit) -> bool {
    unit.kind == treering_core::sentence::SegmentKind::Code || unit.is_technical
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

//! The lists of a node: facts, findings, decisions and tools. At higher levels they are merged
//! from the children.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use treering_core::facts::{self, Facts};
use treering_core::prompt::SummaryPart;
use treering_core::{
    NodeContent, NodePassage, Passage, SummaryRequest, ToolUse, sentence, word_weight,
};

use super::cues::SpeechAct;
use super::points::SummaryPoint;
use super::rendering;
use super::unit::{SourceDocument, Unit};

/// Selects a list of a node.
type ListOf = fn(&NodeContent) -> &Vec<String>;

/// Maximum length of a sentence in a list, in characters.
const MAX_ITEM_CHARS: usize = 220;

/// How many key findings a node lists, if the source has as many.
pub(crate) const FINDINGS: RangeInclusive<usize> = 3..=5;

/// Maximum number of items in a list; it grows with the level. Files are listed without a limit.
fn most(request: &SummaryRequest) -> usize {
    (12 + 4 * usize::from(request.level.number() - 1)).min(24)
}

fn children(request: &SummaryRequest) -> impl Iterator<Item = &NodePassage> {
    request.passages.iter().filter_map(|passage| match passage {
        Passage::Node(child) => Some(child),
        Passage::Message(_) | Passage::Tool(_) => None,
    })
}

/// Deduplicates items and keeps those with the highest weight, in order of first mention.
#[derive(Default)]
struct TopItems {
    items: Vec<(String, u32)>,
    places: HashMap<String, usize>,
}

impl TopItems {
    fn add(&mut self, item: &str, weight: u32) {
        let place = *self.places.entry(facts::key(item)).or_insert(self.items.len());
        match self.items.get_mut(place) {
            Some((_, known)) => *known += weight,
            None => self.items.push((item.to_owned(), weight)),
        }
    }

    fn best(self, most: usize) -> Vec<String> {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_by_key(|place| (u32::MAX - self.items[*place].1, *place));
        order.truncate(most);
        order.sort_unstable();
        let mut items = self.items;
        order.into_iter().map(|place| std::mem::take(&mut items[place].0)).collect()
    }
}

/// Fills the lists of facts.
pub(crate) fn facts(request: &SummaryRequest, source: &Facts, content: &mut NodeContent) {
    let is_spoken = |passage: &&Passage| !matches!(passage, Passage::Node(_));
    let own = children(request)
        .next()
        .map(|_| Facts::of_passages(request.passages.iter().filter(is_spoken)));
    let spoken = own.as_ref().unwrap_or(source);
    let numbers: Vec<String> =
        spoken.numbers.iter().filter(|number| is_telling(number)).cloned().collect();
    let dates: Vec<String> = spoken.relative_dates.iter().chain(&spoken.dates).cloned().collect();
    let names: Vec<String> = spoken.names.iter().filter(|name| is_entity(name)).cloned().collect();
    let rank = |own: &[String], of: ListOf, most: usize| {
        let mut ranking = TopItems::default();
        for child in children(request) {
            of(&child.content).iter().for_each(|item| ranking.add(item, 1));
        }
        own.iter().for_each(|item| ranking.add(item, spoken.mentions(item).max(1)));
        ranking.best(most)
    };
    let most = most(request);
    content.files_mentioned = rank(&spoken.paths, |child| &child.files_mentioned, usize::MAX);
    content.urls = rank(&spoken.urls, |child| &child.urls, most);
    content.identifiers = rank(&spoken.identifiers, |child| &child.identifiers, most);
    content.numbers = rank(&numbers, |child| &child.numbers, most);
    content.dates = rank(&dates, |child| &child.dates, most);
    content.entities = rank(&names, |child| &child.entities, most);
    content.tools_used = tools(request);
}

/// Whether a number is worth listing: it has a unit or a separator, or more than two digits.
fn is_telling(number: &str) -> bool {
    number.contains(|c: char| !c.is_ascii_digit()) || number.len() > 2
}

fn is_entity(name: &str) -> bool {
    let shouts = name.len() > 5 && name.chars().all(|c| !c.is_lowercase());
    !shouts && name.chars().nth(1).is_some() && word_weight(&name.to_lowercase()) > 0.9
}

fn tools(request: &SummaryRequest) -> Vec<ToolUse> {
    let mut tools: Vec<ToolUse> = Vec::new();
    let mut add = |name: &str, succeeded: u32, failed: u32, unknown: u32| {
        if name.trim().is_empty() {
            return;
        }
        if let Some(known) = tools.iter_mut().find(|tool| tool.name == name) {
            known.succeeded += succeeded;
            known.failed += failed;
            known.unknown += unknown;
        } else {
            tools.push(ToolUse { name: name.to_owned(), succeeded, failed, unknown });
        }
    };
    for passage in &request.passages {
        match passage {
            Passage::Message(_) => {}
            Passage::Tool(tool) => {
                let is = |wanted: Option<bool>| u32::from(tool.success == wanted);
                add(&tool.name, is(Some(true)), is(Some(false)), is(None));
            }
            Passage::Node(child) => {
                for tool in &child.content.tools_used {
                    add(&tool.name, tool.succeeded, tool.failed, tool.unknown);
                }
            }
        }
    }
    tools
}

/// Fills the lists of sentences from the children and from the source units.
pub(super) fn points(
    request: &SummaryRequest,
    document: &SourceDocument,
    points: &[SummaryPoint],
    content: &mut NodeContent,
) {
    let most = most(request);
    let spoken = |wanted: &dyn Fn(&Unit) -> bool| -> Vec<String> {
        let is_spoken = |unit: &&Unit| unit.speaker.is_some() && unit.worth.is_none();
        let units = document.units.iter().filter(is_spoken).filter(|unit| wanted(unit));
        let line = |unit: &Unit| {
            let text = rendering::text(unit, Some(MAX_ITEM_CHARS));
            format!("{}{text}", rendering::speaker(document, unit))
        };
        units.map(line).take(most * 4).collect()
    };
    let gather = |own: Vec<String>, of: ListOf| {
        let before = children(request).flat_map(|child| of(&child.content)).cloned();
        distinct(before.chain(own), most, request.deduplicate)
    };
    let decides = |unit: &Unit| unit.act == SpeechAct::Decision;
    content.decisions = gather(spoken(&decides), |child| &child.decisions);
    let acts = |unit: &Unit| unit.act == SpeechAct::Action;
    content.action_items = gather(spoken(&acts), |child| &child.action_items);
    let is_open = |unit: &Unit| {
        let is_asked = unit.act == SpeechAct::Question && unit.unanswered && is_substantial(unit);
        unit.act == SpeechAct::Open || is_asked
    };
    content.unresolved = gather(spoken(&is_open), |child| &child.unresolved);
    content.key_findings = findings(points, request.deduplicate);
}

/// The findings, in the order of the source. Prefers points that are in no other list; fills up
/// with others.
fn findings(points: &[SummaryPoint], deduplicate: bool) -> Vec<String> {
    let is_plain =
        |point: &SummaryPoint| matches!(point.part, SummaryPart::Overview | SummaryPart::Findings);
    let mut found: Vec<&SummaryPoint> = points.iter().collect();
    found.sort_by_key(|point| (!is_plain(point), point.rank));
    let plain = found.iter().filter(|point| is_plain(point)).count();
    found.truncate(plain.clamp(*FINDINGS.start(), *FINDINGS.end()));
    found.sort_by_key(|point| point.units.first().copied());
    let texts = found.into_iter().map(|point| point.text.clone());
    distinct(texts, *FINDINGS.end(), deduplicate)
}

/// Whether a sentence says enough to be listed.
fn is_substantial(unit: &Unit) -> bool {
    unit.terms.len() >= 2 && !unit.text.ends_with(':')
}

/// Drops near-duplicates. If too many items remain, keeps the latest.
fn distinct(items: impl Iterator<Item = String>, most: usize, by_meaning: bool) -> Vec<String> {
    let mut kept: Vec<(String, Vec<String>)> = Vec::new();
    for item in items {
        let mut stems: Vec<String> = sentence::words(&item)
            .filter(|word| word_weight(&word.to_lowercase()) > 0.0)
            .map(sentence::stem)
            .collect();
        stems.sort_unstable();
        stems.dedup();
        let alike = |known: &(String, Vec<String>)| {
            known.0 == item || by_meaning && is_alike(&known.1, &stems)
        };
        if !stems.is_empty() && !kept.iter().any(alike) {
            kept.push((item, stems));
        }
    }
    let surplus = kept.len().saturating_sub(most);
    kept.into_iter().skip(surplus).map(|(item, _)| item).collect()
}

/// Whether two sets of stems largely overlap.
fn is_alike(one: &[String], other: &[String]) -> bool {
    let common = one.iter().filter(|stem| other.binary_search(stem).is_ok()).count();
    let (small, large) = (one.len().min(other.len()), one.len().max(other.len()));
    common * 10 >= large * 7 || small >= 3 && common == small
}

/// Labels for the kind of content.
pub(crate) fn tags(content: &NodeContent) -> Vec<String> {
    let marks = [
        ("code", !content.files_mentioned.is_empty() || content.identifiers.len() > 1),
        ("tools", !content.tools_used.is_empty()),
        ("decision", !content.decisions.is_empty()),
        ("todo", !content.action_items.is_empty()),
        ("open-question", !content.unresolved.is_empty()),
    ];
    marks.into_iter().filter(|(_, has)| *has).map(|(tag, _)| tag.to_owned()).collect()
}

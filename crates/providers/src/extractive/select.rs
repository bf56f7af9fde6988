//! Selection: a greedy maximum-coverage search for the units that cover the source best within
//! a budget.
//!
//! A unit's gain is the value of the terms it adds, relative to its length, so repeated
//! statements are selected once. Gains mostly shrink as units are selected, so a heap with lazy
//! re-evaluation finds the best unit without rescanning all of them: the time does not grow
//! with the square of the text.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use super::unit::{SourceDocument, overlap};
use super::worth::{WEIGHTS, completeness, worth};

/// The size limit of a selection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Budget {
    /// Approximate number of characters.
    Chars(usize),
    /// Maximum number of sentences.
    Sentences(usize),
}

/// A selected unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SelectedUnit {
    /// The unit's index.
    pub(super) unit: usize,
    /// The length to cut it to, if all of it does not fit.
    pub(super) limit: Option<usize>,
}

/// Maximum number of units that are tried after the first one that does not fit.
const MAX_MISFITS: usize = 200;

/// Selects units in order of gain. `cost` is the length of a unit in the summary in characters,
/// given whether it continues a selected unit of the same message; `distinct` skips
/// near-duplicates.
pub(super) fn select(
    document: &SourceDocument,
    budget: Budget,
    distinct: bool,
    cost: impl Fn(usize, bool) -> usize,
) -> Vec<SelectedUnit> {
    let mut cover = Cover::new(document, &cost);
    let mut heap: BinaryHeap<HeapEntry> = (0..document.units.len())
        .map(|unit| HeapEntry { gain: cover.gain(unit), unit, round: 0 })
        .filter(|bid| bid.gain > 0.0)
        .collect();
    // A summary of summaries opens with the first thing that somebody wanted and said in full.
    let opens = |bid: &&HeapEntry| {
        let unit = &document.units[bid.unit];
        unit.is_wanted && unit.worth.is_some()
    };
    let is_short = |bid: &&HeapEntry| document.units[bid.unit].terms.len() < WEIGHTS.complete;
    let opening = heap.iter().filter(opens).min_by_key(|bid| (is_short(bid), bid.unit)).copied();
    heap.extend(opening.map(|bid| HeapEntry { gain: f32::MAX, ..bid }));
    let mut chosen: Vec<SelectedUnit> = Vec::new();
    let mut misfit = None;
    let (mut used, mut round, mut misfits) = (0, 0, 0);
    while let Some(bid) = heap.pop() {
        if cover.taken[bid.unit] {
            continue;
        }
        if bid.round < round {
            heap.push(HeapEntry { gain: cover.gain(bid.unit), round, ..bid });
            continue;
        }
        let group = cover.group(bid.unit);
        let size: usize = group.iter().map(|unit| cover.cost(*unit)).sum();
        let fits = match budget {
            Budget::Chars(chars) => used + size <= chars + chars / 16,
            Budget::Sentences(limit) => chosen.len() + group.len() <= limit,
        };
        if !fits && !chosen.is_empty() {
            misfit = misfit.or(Some(bid));
            misfits += 1;
            if misfits > MAX_MISFITS {
                break;
            }
            continue;
        }
        if distinct && chosen.iter().any(|pick| cover.alike(pick.unit, bid.unit)) {
            cover.taken[bid.unit] = true;
            continue;
        }
        // The first unit is taken even if it is too long, but not much longer than the budget.
        let limit = match budget {
            Budget::Chars(chars) if !fits => Some(chars.max(MIN_FIRST_CHARS)),
            _ => None,
        };
        for unit in group {
            cover.take(unit);
            chosen.push(SelectedUnit { unit, limit });
        }
        used += size;
        round += 1;
        let full = match budget {
            Budget::Chars(chars) => used >= chars,
            Budget::Sentences(limit) => chosen.len() >= limit,
        };
        if full {
            break;
        }
    }
    if let (Budget::Chars(chars), Some(bid)) = (budget, misfit)
        && used < chars * 4 / 5
        && chars - used >= MIN_CUT_CHARS
    {
        chosen.push(SelectedUnit { unit: bid.unit, limit: Some(chars - used) });
    }
    chosen
}

/// Length to which the first unit is never cut, in characters.
const MIN_FIRST_CHARS: usize = 160;
/// Minimum length of a cut unit, in characters.
const MIN_CUT_CHARS: usize = 48;

/// The weight of a word that is no fact.
const PLAIN_WEIGHT: f32 = 1.0;
/// How many facts of a unit count as facts; further ones count as plain words, so that a list of
/// figures or codes does not outweigh what was wanted or decided.
const MAX_FACTS: usize = 3;

/// The state of the coverage.
struct Cover<'a, C> {
    document: &'a SourceDocument,
    cost: &'a C,
    /// The current value of each term.
    value: Vec<f32>,
    worth: Vec<f32>,
    taken: Vec<bool>,
    /// How many units of each passage are taken.
    taken_of: HashMap<usize, i32>,
}

impl<'a, C: Fn(usize, bool) -> usize> Cover<'a, C> {
    fn new(document: &'a SourceDocument, cost: &'a C) -> Self {
        // Rare terms carry more information than common ones, and new ones more than known ones.
        let units = document.units.len() as f32;
        let value = |term: &super::unit::TermStats| {
            let is_new = if term.is_known { WEIGHTS.again } else { 1.0 };
            is_new * term.weight * (1.0 + units / term.units.max(1) as f32).ln()
        };
        let worth = |(index, unit)| worth(document, unit, index);
        Self {
            document,
            cost,
            value: document.terms.iter().map(value).collect(),
            worth: document.units.iter().enumerate().map(worth).collect(),
            taken: vec![false; document.units.len()],
            taken_of: HashMap::new(),
        }
    }

    fn gain(&self, unit: usize) -> f32 {
        if self.worth[unit] <= 0.0 {
            return 0.0;
        }
        let (mut sum, mut chars, mut facts) = (0.0, 0, 0);
        let group = self.group(unit);
        for part in &group {
            for term in &self.document.units[*part].terms {
                let mut value = self.value[*term as usize];
                if self.document.terms[*term as usize].weight > PLAIN_WEIGHT {
                    facts += 1;
                    if facts > MAX_FACTS {
                        value /= self.document.terms[*term as usize].weight;
                    }
                }
                sum += value;
            }
            chars += self.cost(*part);
        }
        let complete = completeness(group.iter().map(|part| &self.document.units[*part]));
        let same = WEIGHTS.same.powi(self.taken_of_message(unit));
        self.worth[unit] * complete * same * sum / (chars as f32 + WEIGHTS.fixed)
    }

    /// A unit with those that it needs and its own short answer, if these are not selected yet.
    fn group(&self, unit: usize) -> Vec<usize> {
        let is_free = |other: &usize| !self.taken[*other];
        let mut group = vec![unit];
        let mut needed = self.document.units[unit].needs.filter(is_free);
        while let Some(other) = needed.filter(|_| group.len() < 3) {
            group.push(other);
            needed = self.document.units[other].needs.filter(is_free);
        }
        group.reverse();
        group.extend(self.document.units[unit].answered_by.filter(is_free));
        group
    }

    /// The length that a unit adds to the summary.
    fn cost(&self, unit: usize) -> usize {
        let is_beside = |other: usize| {
            let unit = &self.document.units[unit];
            self.taken.get(other).is_some_and(|taken| *taken)
                && unit.is_beside(&self.document.units[other])
        };
        let continues = unit.checked_sub(1).is_some_and(is_beside) || is_beside(unit + 1);
        (self.cost)(unit, continues)
    }

    /// How many units of a unit's message are taken; 0 for the points of a child, which come from
    /// many messages.
    fn taken_of_message(&self, unit: usize) -> i32 {
        let unit = &self.document.units[unit];
        let taken = self.taken_of.get(&unit.passage).filter(|_| unit.worth.is_none());
        taken.copied().unwrap_or(0)
    }

    fn take(&mut self, unit: usize) {
        self.taken[unit] = true;
        *self.taken_of.entry(self.document.units[unit].passage).or_default() += 1;
        for term in &self.document.units[unit].terms {
            self.value[*term as usize] *= WEIGHTS.again;
        }
    }

    /// Whether two units of different passages say nearly the same.
    fn alike(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.document.units[one], &self.document.units[other]);
        one.terms.len().min(other.terms.len()) >= 3
            && one.passage != other.passage
            && overlap(&one.terms, &other.terms) >= 0.7
            && one.terms.len().abs_diff(other.terms.len()) <= 4
    }
}

/// A heap entry: a unit, and its gain as of a round.
#[derive(Debug, Clone, Copy)]
struct HeapEntry {
    gain: f32,
    unit: usize,
    round: usize,
}

impl PartialEq for HeapEntry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for HeapEntry {}

impl PartialOrd for HeapEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HeapEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.unit.cmp(&self.unit))
    }
}

#[cfg(test)]
mod tests {
    use treering_core::{Strategy, SummaryLength};

    use crate::extractive::tests::{brief, summarize};

    #[test]
    fn a_long_message_does_not_fill_the_summary() {
        let long = "user: Open the file in the editor of the console. Close the window beside the \
            terminal. Press the green button under the screen. Hold the lever behind the panel. \
            Replace the filter above the engine. Tighten the screws around the cover.";
        let short = [
            "assistant: The tide gauge loses readings after midnight.",
            "user: The harbour ledger counts berths twice.",
            "assistant: The compass deviates near the wheelhouse.",
        ];
        let lines: Vec<&str> = std::iter::once(long).chain(short).collect();
        let content = summarize(&brief(Strategy::Concise, SummaryLength::Sentences(1, 5), &lines));
        for line in short {
            let (_, said) = line.split_once(": ").unwrap();
            assert!(content.overview.contains(said), "{}", content.overview);
        }
    }
}

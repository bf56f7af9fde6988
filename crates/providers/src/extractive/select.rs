//! Selection: a greedy maximum-coverage search for the units that cover the source best within
//! a budget.
//!
//! A unit's gain is the worth of the terms it adds, relative to its length, so repeated
//! statements are selected once. Gains only shrink as units are selected, so a heap with lazy
//! re-evaluation finds the best unit without rescanning all of them: the time does not grow
//! with the square of the text.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use treering_core::Role;
use treering_core::sentence::SegmentKind;

use super::cues::SpeechAct;
use super::unit::{SourceDocument, Unit, overlap};

/// The size limit of a selection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Budget {
    /// Approximate number of characters.
    Chars(usize),
    /// Maximum number of sentences.
    Sentences(usize),
}

/// Parameters of the gain. They are the same for every kind of text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    /// The share of its worth that a term keeps once it is covered.
    pub(super) again: f32,
    /// Exponent of a term's unit count.
    pub(super) common: f32,
    /// Exponent of the length that divides a gain.
    pub(super) length: f32,
    /// Bonus of the first unit.
    pub(super) lead: f32,
    /// Exponential decay of that bonus per unit.
    pub(super) fade: f32,
    /// Minimum sum of a unit's term weights.
    pub(super) least: f32,
    /// Factor of an answered question, relative to a statement.
    pub(super) question: f32,
    /// Factor of a sentence in which speakers talk about themselves.
    pub(super) own: f32,
    /// Fixed cost of a unit, in characters.
    pub(super) fixed: f32,
}

/// Tuned jointly on dialogues with reference summaries and on long chats.
pub(super) const WEIGHTS: Weights = Weights {
    again: 0.3,
    common: 0.9,
    length: 0.8,
    lead: 2.0,
    fade: 0.5,
    least: 1.0,
    question: 0.95,
    own: 1.5,
    fixed: 40.0,
};

/// A selected unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pick {
    /// The unit's index.
    pub(super) unit: usize,
    /// Its gain when it was selected.
    pub(super) gain: f32,
    /// The length to cut it to, if all of it does not fit.
    pub(super) limit: Option<usize>,
}

/// Selects units in order of gain. `cost` is the length of a unit in the summary, in
/// characters; `distinct` skips near-duplicates.
pub(super) fn select(
    document: &SourceDocument,
    budget: Budget,
    distinct: bool,
    cost: impl Fn(usize) -> usize,
) -> Vec<Pick> {
    let mut cover = Cover::new(document);
    let mut heap: BinaryHeap<Bid> = (0..document.units.len())
        .map(|unit| Bid { gain: cover.gain(unit), unit, round: 0 })
        .filter(|bid| bid.gain > 0.0)
        .collect();
    let mut chosen: Vec<Pick> = Vec::new();
    let mut misfit = None;
    let mut used = 0;
    let mut round = 0;
    let mut misfits = 0;
    while let Some(bid) = heap.pop() {
        if cover.taken[bid.unit] {
            continue;
        }
        if bid.round < round {
            heap.push(Bid { gain: cover.gain(bid.unit), round, ..bid });
            continue;
        }
        let group: Vec<usize> = cover.with_question(bid.unit).collect();
        let (size, count) = (group.iter().map(|unit| cost(*unit)).sum::<usize>(), group.len());
        let fits = match budget {
            Budget::Chars(chars) => used + size <= chars + chars / 16,
            Budget::Sentences(most) => chosen.len() + count <= most,
        };
        if !fits && !chosen.is_empty() {
            misfit = misfit.or(Some(bid));
            misfits += 1;
            if misfits > 200 {
                break;
            }
            continue;
        }
        if distinct && chosen.iter().any(|pick| cover.alike(pick.unit, bid.unit)) {
            cover.taken[bid.unit] = true;
            continue;
        }
        for unit in group {
            cover.take(unit);
            chosen.push(Pick { unit, gain: bid.gain, limit: None });
        }
        used += size;
        round += 1;
        let full = match budget {
            Budget::Chars(chars) => used >= chars,
            Budget::Sentences(most) => chosen.len() >= most,
        };
        if full {
            break;
        }
    }
    if let (Budget::Chars(chars), Some(bid)) = (budget, misfit)
        && used < chars * 4 / 5
        && chars - used >= MIN_CUT_CHARS
    {
        chosen.push(Pick { unit: bid.unit, gain: bid.gain, limit: Some(chars - used) });
    }
    chosen
}

/// Minimum length of a cut unit, in characters.
const MIN_CUT_CHARS: usize = 48;

/// The state of the coverage.
struct Cover<'a> {
    document: &'a SourceDocument,
    /// The current worth of each term.
    worth: Vec<f32>,
    prior: Vec<f32>,
    taken: Vec<bool>,
}

impl<'a> Cover<'a> {
    fn new(document: &'a SourceDocument) -> Self {
        let worth =
            |term: &super::unit::TermStats| term.weight * (term.units as f32).powf(WEIGHTS.common);
        Self {
            document,
            worth: document.terms.iter().map(worth).collect(),
            prior: document
                .units
                .iter()
                .enumerate()
                .map(|(place, unit)| prior(document, unit, place))
                .collect(),
            taken: vec![false; document.units.len()],
        }
    }

    fn gain(&self, unit: usize) -> f32 {
        let mut sum = 0.0;
        let mut chars = 0;
        for part in self.with_question(unit) {
            let unit = &self.document.units[part];
            sum += unit.terms.iter().map(|term| self.worth[*term as usize]).sum::<f32>();
            chars += unit.chars;
        }
        self.prior[unit] * sum / (chars as f32 + WEIGHTS.fixed).powf(WEIGHTS.length)
    }

    /// A unit with the question it answers or its own short answer, if these are not selected
    /// yet.
    fn with_question(&self, unit: usize) -> impl Iterator<Item = usize> + use<> {
        let free = |other: &usize| !self.taken[*other];
        let question = self.document.units[unit].answers.filter(free);
        let answer = self.document.units[unit].answered_by.filter(free);
        question.into_iter().chain([unit]).chain(answer)
    }

    fn take(&mut self, unit: usize) {
        self.taken[unit] = true;
        for term in &self.document.units[unit].terms {
            self.worth[*term as usize] *= WEIGHTS.again;
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

/// The factor of a unit that does not depend on the selected units.
fn prior(document: &SourceDocument, unit: &Unit, place: usize) -> f32 {
    if unit.act == SpeechAct::Courtesy
        || unit.answers.is_none() && content(document, unit) < WEIGHTS.least
    {
        return 0.0;
    }
    let act = match unit.act {
        SpeechAct::Statement => 1.0,
        SpeechAct::Finding => 1.1,
        SpeechAct::Decision => 1.3,
        SpeechAct::Action => 1.15,
        SpeechAct::Open => 1.2,
        SpeechAct::Question if unit.unanswered => 1.0,
        SpeechAct::Question => WEIGHTS.question,
        SpeechAct::Courtesy => 0.0,
    };
    let announces = if unit.text.ends_with(':') { 0.4 } else { 1.0 };
    let kind = match unit.kind {
        SegmentKind::Code => 0.15,
        SegmentKind::Heading => 0.3,
        SegmentKind::Prose | SegmentKind::Item => 1.0,
    };
    let role = match unit.speaker.map(|speaker| document.speakers[speaker].role) {
        Some(Role::Tool) => 0.4,
        Some(Role::System) => 0.3,
        _ => 1.0,
    };
    let lead = if unit.speaker.is_some() {
        WEIGHTS.lead * (-WEIGHTS.fade * place as f32).exp()
    } else {
        0.0
    };
    let own = if unit.is_own { WEIGHTS.own } else { 1.0 };
    own * act * announces * kind * role * (1.0 + lead)
}

/// The sum of a unit's term weights.
fn content(document: &SourceDocument, unit: &Unit) -> f32 {
    unit.terms.iter().map(|term| document.terms[*term as usize].weight).sum()
}

/// A heap entry: a unit, and its gain as of a round.
#[derive(Debug, Clone, Copy)]
struct Bid {
    gain: f32,
    unit: usize,
    round: usize,
}

impl PartialEq for Bid {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bid {}

impl PartialOrd for Bid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bid {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.unit.cmp(&self.unit))
    }
}

//! Points: the lines of a summary. Neighboring sentences of one message share a line, and an
//! answer follows its question.

use treering_core::Strategy;
use treering_core::prompt::SummaryPart;
use treering_core::sentence::SegmentKind;

use super::cues::{self, SpeechAct};
use super::rendering;
use super::select::SelectedUnit;
use super::unit::{SourceDocument, Unit};
use super::worth::{completeness, worth};

/// A line of a summary.
#[derive(Debug, Clone)]
pub(super) struct SummaryPoint {
    /// The text with its speaker, on one line.
    pub(super) text: String,
    /// Its day, if the source lies on several.
    pub(super) day: Option<String>,
    /// Its units, in order.
    pub(super) units: Vec<usize>,
    /// The rank of its best unit, from 0.
    pub(super) rank: usize,
    /// The worth of its best unit, relative to a plain statement.
    pub(super) worth: f32,
    /// The part of the summary that it belongs to.
    pub(super) part: SummaryPart,
    /// Whether it says what somebody wants.
    pub(super) is_wanted: bool,
}

/// Maximum length up to which sentences share a line, in characters.
const MAX_JOINED_CHARS: usize = 240;

/// The points of the selected units, in the order of the source.
pub(super) fn points(
    document: &SourceDocument,
    picks: &[SelectedUnit],
    strategy: Strategy,
) -> Vec<SummaryPoint> {
    let mut order: Vec<(usize, &SelectedUnit)> = picks.iter().enumerate().collect();
    order.sort_by_key(|(_, pick)| pick.unit);
    let mut points: Vec<SummaryPoint> = Vec::new();
    for (rank, pick) in order {
        let unit = &document.units[pick.unit];
        let text = rendering::text(unit, pick.limit);
        let question = unit.needs.filter(|other| document.units[*other].passage != unit.passage);
        let asks = |point: &&mut SummaryPoint| {
            question.is_some_and(|question| point.units.last() == Some(&question))
        };
        let speaker = rendering::speaker(document, unit);
        if let Some(point) = points.iter_mut().rev().take(4).find(asks) {
            point.join(&format!("{speaker}{text}"), pick.unit, rank);
            continue;
        }
        match points.last_mut() {
            Some(last) if last.is_continued_by(document, pick.unit, text.len()) => {
                last.join(&text, pick.unit, rank);
            }
            _ => points.push(SummaryPoint {
                text: format!("{speaker}{text}"),
                day: unit.day.clone(),
                units: vec![pick.unit],
                rank,
                worth: 1.0,
                part: SummaryPart::Overview,
                is_wanted: false,
            }),
        }
    }
    for point in &mut points {
        point.judge(document, strategy);
    }
    points
}

impl SummaryPoint {
    fn join(&mut self, text: &str, unit: usize, rank: usize) {
        self.text.push(' ');
        self.text.push_str(text);
        self.units.push(unit);
        self.rank = self.rank.min(rank);
    }

    /// Whether a unit is the next sentence of the same message.
    fn is_continued_by(&self, document: &SourceDocument, next: usize, length: usize) -> bool {
        let Some(last) = self.units.last() else { return false };
        let (one, other) = (&document.units[*last], &document.units[next]);
        // A sentence stays with the one that it refers to.
        if one.is_beside(other) && other.needs == Some(*last) && one.kind != SegmentKind::Code {
            return true;
        }
        one.is_beside(other)
            && last + 1 == next
            && one.kind != SegmentKind::Code
            && (other.is_note
                || other.kind != SegmentKind::Code
                    && part_of(one, Strategy::Detailed) == part_of(other, Strategy::Detailed))
            && self.text.len() + length < MAX_JOINED_CHARS
    }

    /// Sets the worth and the part from the units.
    fn judge(&mut self, document: &SourceDocument, strategy: Strategy) {
        let worth = |unit: &usize| worth(document, &document.units[*unit], *unit);
        let complete = completeness(self.units.iter().map(|unit| &document.units[*unit]));
        self.worth = complete * self.units.iter().map(worth).fold(0.0, f32::max);
        self.is_wanted = self.units.iter().any(|unit| document.units[*unit].is_wanted);
        let parts = self.units.iter().map(|unit| part_of(&document.units[*unit], strategy));
        let is_plain = |part: &SummaryPart| {
            matches!(part, SummaryPart::Overview | SummaryPart::Findings | SummaryPart::Technical)
        };
        let mut all = parts.clone();
        let marked = parts.into_iter().find(|part| !is_plain(part));
        self.part = marked.or_else(|| all.next()).unwrap_or(SummaryPart::Overview);
    }
}

/// The part of a summary that a unit belongs to.
fn part_of(unit: &Unit, strategy: Strategy) -> SummaryPart {
    match unit.act {
        SpeechAct::Decision => SummaryPart::Decisions,
        SpeechAct::Action => SummaryPart::Actions,
        SpeechAct::Open => SummaryPart::Unresolved,
        SpeechAct::Question if unit.unanswered => SummaryPart::Unresolved,
        _ if unit.kind == SegmentKind::Code && !unit.is_note || unit.is_technical => {
            SummaryPart::Technical
        }
        _ if strategy == Strategy::Thematic && !cues::is_finding(&unit.text) => {
            SummaryPart::Overview
        }
        _ => SummaryPart::Findings,
    }
}

#[cfg(test)]
mod tests {
    use treering_core::{Strategy, SummaryLength};

    use crate::extractive::tests::{brief, summarize};

    #[test]
    fn a_sentence_stays_with_the_one_that_it_refers_to() {
        let lines = [
            "Ana: Nolwenn skippers the Santa Luzia and gave me her number. She's agreed to receive every \
             alert for two weeks.",
            "Juno: The gauge at Kerzavel drifts by four centimetres since the storm in January.",
            "Ana: Sillage delivers faster than Brevitel on every network of the coast.",
        ];
        let content = summarize(&brief(Strategy::Detailed, SummaryLength::Keep(0.9), &lines));
        let line = content.overview.lines().find(|line| line.contains("She's agreed")).unwrap();
        assert!(line.contains("Nolwenn"), "{}", content.overview);
    }
}

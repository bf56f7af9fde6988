//! Composition: arranges points in the sections of their strategy. Title and participants of the
//! conversation are ignored, so that renaming it does not change its tree.

use treering_core::prompt::{self, SummaryPart, SummarySection};
use treering_core::{RankedLine, Strategy};

use super::points::SummaryPoint;

/// The inputs of a composition.
pub(super) struct Composer<'a> {
    pub(super) strategy: Strategy,
    pub(super) topics: &'a [String],
    pub(super) files: &'a [String],
    pub(super) identifiers: &'a [String],
    /// Target length in characters; `None` if the length is given in sentences.
    pub(super) target: Option<usize>,
}

/// A composed text and the ranking of its lines.
#[derive(Debug, Default)]
pub(super) struct Composition {
    pub(super) overview: String,
    pub(super) ranking: Vec<RankedLine>,
}

/// Minimum length of a text with headings, in characters.
const MIN_CHARS_FOR_HEADINGS: usize = 600;
/// Minimum number of points of a text with headings.
const MIN_POINTS_FOR_HEADINGS: usize = 5;
/// Share of the target for the opening section.
const LEAD_SHARE: f32 = 0.3;

impl Composer<'_> {
    /// Composes the text, dropping the points of the lowest rank until it fits the target length
    /// or one point is left.
    pub(super) fn compose(&self, points: &mut Vec<SummaryPoint>) -> Composition {
        let limit = self.target.map_or(usize::MAX, |target| target + target / 10);
        loop {
            let composition = self.form(points);
            if points.len() <= 1 || composition.overview.chars().count() <= limit {
                return composition;
            }
            drop_last(points);
        }
    }

    fn form(&self, points: &[SummaryPoint]) -> Composition {
        let mut lines = Lines::default();
        let is_short = self.target.is_none_or(|target| target < MIN_CHARS_FOR_HEADINGS)
            || points.len() < MIN_POINTS_FOR_HEADINGS;
        match is_short {
            true => {
                let mut order: Vec<&SummaryPoint> = points.iter().collect();
                self.open(&mut order, opening(points));
                order.into_iter().for_each(|point| lines.add(point, None));
            }
            false => self.sections(points, &mut lines),
        }
        lines.finish()
    }

    /// Moves the point with which a text opens to the front. A timeline keeps its order.
    fn open(&self, order: &mut [&SummaryPoint], opening: Option<usize>) {
        if self.strategy != Strategy::Chronological {
            order.sort_by_key(|point| Some(point.rank) != opening);
        }
    }

    /// The sections of the strategy that have any content.
    fn sections<'p>(&self, points: &'p [SummaryPoint], lines: &mut Lines<'p>) {
        let opening = opening(points);
        let lead = self.lead(points, opening);
        let part = |point: &SummaryPoint| match lead.contains(&point.rank) {
            true => SummaryPart::Overview,
            false => point.part,
        };
        for section in prompt::sections(self.strategy) {
            let mut own: Vec<&SummaryPoint> =
                points.iter().filter(|point| section.parts.contains(&part(point))).collect();
            self.open(&mut own, opening);
            let lists = match section.parts.contains(&SummaryPart::Technical) {
                true if self.strategy != Strategy::Concise => self.lists(own.is_empty()),
                _ => Vec::new(),
            };
            if own.is_empty() && lists.is_empty() {
                continue;
            }
            lines.head(section.heading);
            lists.into_iter().for_each(|line| lines.lines.push(line));
            let is_numbered = section.parts.first() == Some(&SummaryPart::Findings)
                && self.strategy == Strategy::Executive;
            for (number, point) in own.into_iter().enumerate() {
                lines.add(point, is_numbered.then_some(number + 1));
            }
        }
    }

    /// The ranks of the points of the opening section: what was wanted and, in some strategies, the
    /// plain statements that rank highest.
    fn lead(&self, points: &[SummaryPoint], opening: Option<usize>) -> Vec<usize> {
        let mut lead: Vec<usize> = opening.into_iter().collect();
        if !matches!(self.strategy, Strategy::Detailed | Strategy::Executive) {
            return lead;
        }
        let mut plain: Vec<&SummaryPoint> =
            points.iter().filter(|point| point.part == SummaryPart::Findings).collect();
        plain.sort_by_key(|point| point.rank);
        let room = (self.target.unwrap_or_default() as f32 * LEAD_SHARE) as usize;
        let mut used = 0;
        for point in plain.into_iter().filter(|point| Some(point.rank) != opening) {
            used += point.text.chars().count() + 3;
            if used > room && !lead.is_empty() {
                break;
            }
            lead.push(point.rank);
        }
        lead
    }

    /// Files, functions and concepts. A text without any of the others has no concepts either.
    fn lists(&self, is_alone: bool) -> Vec<String> {
        let mut room = self.target.unwrap_or_default() / 8;
        let mut lines: Vec<String> = Vec::new();
        let lists = [("Files", self.files), ("Functions", self.identifiers)];
        for (name, list) in lists {
            let line = list_line(name, list, room);
            room = room.saturating_sub(line.chars().count());
            lines.extend((!line.is_empty()).then_some(line));
        }
        if !lines.is_empty() || !is_alone {
            let line = list_line("Concepts", self.topics, room);
            lines.extend((!line.is_empty()).then_some(line));
        }
        lines
    }
}

/// The rank of the point that opens a text: the best that says what was wanted.
fn opening(points: &[SummaryPoint]) -> Option<usize> {
    points.iter().filter(|point| point.is_wanted).map(|point| point.rank).min()
}

/// Drops the point of the lowest rank.
pub(super) fn drop_last(points: &mut Vec<SummaryPoint>) {
    let last = (0..points.len()).max_by_key(|index| points[*index].rank);
    if let Some(last) = last {
        points.remove(last);
    }
}

/// The lines of a text, and the points among them.
#[derive(Default)]
struct Lines<'a> {
    lines: Vec<String>,
    /// The points, each with its rank.
    points: Vec<(usize, RankedLine)>,
    /// The day of the lines above.
    day: Option<&'a str>,
}

impl<'a> Lines<'a> {
    fn head(&mut self, heading: &str) {
        if !self.lines.is_empty() {
            self.lines.push(String::new());
        }
        self.lines.push(format!("{}{heading}", SummarySection::MARK));
        self.day = None;
    }

    fn add(&mut self, point: &'a SummaryPoint, number: Option<usize>) {
        let line = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        let worth = (point.worth.clamp(0.0, 10.0) * 100.0) as u32;
        let mut text = number.map_or_else(|| "- ".to_owned(), |number| format!("{number}. "));
        text.push_str(&RankedLine::dated(&point.text, point.day.as_deref(), &mut self.day));
        self.lines.push(text);
        self.points.push((point.rank, RankedLine { line, worth, day: point.day.clone() }));
    }

    fn finish(mut self) -> Composition {
        self.points.sort_by_key(|(rank, _)| *rank);
        let ranking = self.points.into_iter().map(|(_, line)| line).collect();
        Composition { overview: self.lines.join("\n"), ranking }
    }
}

/// As many items as fit into `room` characters, on one line; an ellipsis shows that there are more.
/// Empty if fewer than two of several fit.
fn list_line(name: &str, list: &[String], room: usize) -> String {
    let mut used = name.len() + 4;
    let fits = |item: &&String| {
        used += item.chars().count() + 2;
        used <= room
    };
    let mut shown: Vec<&str> = list.iter().take_while(fits).map(String::as_str).collect();
    if shown.len() < list.len().min(2) || list.is_empty() {
        return String::new();
    }
    if shown.len() < list.len() {
        shown.push("…");
    }
    format!("- {name}: {}", shown.join(", "))
}

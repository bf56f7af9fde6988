//! Points: the statements that the text of a node consists of, ranked by what they are worth to a
//! reader. Every shorter version of a node is a prefix of its ranking.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::node::NodeContent;
use crate::prompt;
use crate::sentence::{self, SegmentKind};
use crate::time::Timestamp;

/// A line of an overview that is a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankedLine {
    /// The number of the line in the overview, from 0.
    pub line: u32,
    /// The worth of the point in percent of a plain statement.
    pub worth: u32,
    /// The day of the point, if the node covers several. The line begins with it where it differs
    /// from the line before, unless the point has an absolute date in brackets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
}

impl RankedLine {
    /// Separates the day from the text of a line.
    pub const DAY_SEPARATOR: &str = ", ";

    /// The day of a time, such as `8 May 2023`.
    #[must_use]
    pub fn day_of(at: Timestamp) -> String {
        let day = at.day();
        let (year, rest) = day.split_at(4.min(day.len()));
        let (month, day) = rest.split_at(2.min(rest.len()));
        let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
        format!("{} {} {year}", day.trim_start_matches('0'), month.unwrap_or(&""))
    }

    /// The text of a point after its day, which is omitted if it equals `shown`, the
    /// day of the previous point.
    #[must_use]
    pub fn dated<'a>(
        text: &'a str,
        day: Option<&'a str>,
        shown: &mut Option<&'a str>,
    ) -> Cow<'a, str> {
        match day.filter(|day| *shown != Some(*day) && !has_absolute_date(text)) {
            Some(day) => {
                *shown = Some(day);
                Cow::Owned(format!("{day}{}{text}", Self::DAY_SEPARATOR))
            }
            None => Cow::Borrowed(text),
        }
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The year, the month and the day of a day such as `8 May 2023`, to compare days.
fn day_order(day: &str) -> (u32, Option<usize>, u32) {
    let mut parts = day.split(' ');
    let mut next = || parts.next().unwrap_or_default();
    let (day, month, year) = (next(), next(), next());
    let month = MONTHS.iter().position(|name| *name == month);
    (year.parse().unwrap_or(0), month, day.parse().unwrap_or(0))
}

/// Whether a text has a date in brackets, such as `yesterday (7 May 2023)`.
fn has_absolute_date(text: &str) -> bool {
    let is_year = |inside: &str| {
        let year = inside.rsplit(' ').next().unwrap_or_default();
        year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split('(')
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .any(|(inside, _)| is_year(inside))
}

/// A point of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point<'a> {
    /// The text, without the marker of a list item and without its day.
    pub text: &'a str,
    /// The day, if the node covers several.
    pub day: Option<&'a str>,
    /// Its position among the points of the text, from 0.
    pub position: usize,
    /// The worth in percent of a plain statement.
    pub worth: u32,
}

/// The order of points in time, as far as it is known: by day, then as in the text.
type TimeOrder = (Option<(u32, Option<usize>, u32)>, usize);

impl Point<'_> {
    /// Sort key by time.
    #[must_use]
    pub fn order(&self) -> TimeOrder {
        (self.day.map(day_order), self.position)
    }
}

impl NodeContent {
    /// The points of the overview, most important first. Without a ranking, they are the list
    /// items and the sentences in the order of the text.
    #[must_use]
    pub fn points(&self) -> Vec<Point<'_>> {
        let lines: Vec<&str> = self.overview.lines().collect();
        let mut order: Vec<u32> = self.ranking.iter().map(|ranked| ranked.line).collect();
        order.sort_unstable();
        let mut ranked = Vec::with_capacity(order.len());
        for RankedLine { line, worth, day } in &self.ranking {
            let (Some(text), Ok(position)) = (lines.get(*line as usize), order.binary_search(line))
            else {
                continue;
            };
            let (text, day) = (bare(text), day.as_deref());
            let undated =
                day.and_then(|day| text.strip_prefix(day)?.strip_prefix(RankedLine::DAY_SEPARATOR));
            ranked.push(Point { text: undated.unwrap_or(text), day, position, worth: *worth });
        }
        if ranked.is_empty() { self.unranked() } else { ranked }
    }

    fn unranked(&self) -> Vec<Point<'_>> {
        let mut texts = Vec::new();
        for line in self.overview.lines().filter(|line| !prompt::is_heading(line)) {
            let item = bare(line);
            match item.len() < line.trim().len() {
                true => texts.push(item),
                false => texts.extend(
                    sentence::split(line)
                        .into_iter()
                        .filter(|segment| segment.kind != SegmentKind::Heading)
                        .map(|segment| segment.text),
                ),
            }
        }
        texts.retain(|text| !text.trim().is_empty());
        let point = |(position, text)| Point { text, day: None, position, worth: 100 };
        texts.into_iter().enumerate().map(point).collect()
    }
}

/// A line without the marker of a list item.
fn bare(line: &str) -> &str {
    let line = line.trim();
    let unmarked = ["- ", "* ", "• "].iter().find_map(|marker| line.strip_prefix(marker));
    unmarked.unwrap_or_else(|| prompt::without_number(line)).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(content: &NodeContent) -> Vec<(&str, usize)> {
        content.points().iter().map(|point| (point.text, point.position)).collect()
    }

    #[test]
    fn days_are_short_and_ordered() {
        let at: Timestamp = "2023-05-08T13:56:00Z".parse().unwrap();
        assert_eq!(RankedLine::day_of(at), "8 May 2023");
        assert!(day_order("8 May 2023") < day_order("12 May 2023"));
        assert!(day_order("31 Dec 2022") < day_order("8 May 2023"));
    }

    #[test]
    fn a_day_is_shown_once_and_not_beside_a_date() {
        let mut shown = None;
        let mut dated =
            |text: &'static str| RankedLine::dated(text, Some("8 May 2023"), &mut shown);
        assert_eq!(
            dated("Ana: Yesterday (7 May 2023) I sold it."),
            "Ana: Yesterday (7 May 2023) I sold it."
        );
        assert_eq!(
            dated("Ana: It was old (1,987 hours)."),
            "8 May 2023, Ana: It was old (1,987 hours)."
        );
        assert_eq!(dated("Ana: It leaked."), "Ana: It leaked.");
    }

    #[test]
    fn points_are_ranked_or_in_the_order_of_the_text() {
        let overview = "## Overview\n- Ana sold the boat.\n- The sill is 4 m. It moved.\n\n\
                        ## Next Steps\n1. Ask Yann."
            .to_owned();
        let mut content = NodeContent { overview, ..NodeContent::default() };
        let [ana, sill, yann] = ["Ana sold the boat.", "The sill is 4 m. It moved.", "Ask Yann."];
        assert_eq!(texts(&content), [(ana, 0), (sill, 1), (yann, 2)]);
        let ranked = |line| RankedLine { line, worth: 100, day: None };
        content.ranking = vec![ranked(5), ranked(1), ranked(99)];
        assert_eq!(texts(&content), [(yann, 1), (ana, 0)], "a line that is gone is ignored");
        let day = Some("8 May 2023".to_owned());
        content.overview = "- 8 May 2023, Ana: Sold.\n- Juno: Bought.".into();
        let dated = |line| RankedLine { line, worth: 100, day: day.clone() };
        content.ranking = vec![dated(1), dated(0)];
        assert_eq!(texts(&content), [("Juno: Bought.", 1), ("Ana: Sold.", 0)]);
        assert!(content.points().iter().all(|point| point.day == day.as_deref()));
        let prose = "The sill moved. It is 4 m now.".to_owned();
        let prose = NodeContent { overview: prose, ..NodeContent::default() };
        assert_eq!(texts(&prose), [("The sill moved.", 0), ("It is 4 m now.", 1)]);
    }
}

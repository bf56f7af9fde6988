//! Time expressions: absolute and relative days, months and years, in English and French.

use jiff::civil::{Date, date};
use jiff::{Span, ToSpan};

use crate::time::Timestamp;

/// The names of the months, with and without accents.
pub(crate) const MONTHS: [&[&str]; 12] = [
    &["january", "jan", "janvier"],
    &["february", "feb", "février", "fevrier"],
    &["march", "mar", "mars"],
    &["april", "apr", "avril"],
    &["may", "mai"],
    &["june", "jun", "juin"],
    &["july", "jul", "juillet"],
    &["august", "aug", "août", "aout"],
    &["september", "sep", "sept", "septembre"],
    &["october", "oct", "octobre"],
    &["november", "nov", "novembre"],
    &["december", "dec", "décembre", "decembre"],
];

/// The time ranges that a folded text names; the end is exclusive. Relative expressions
/// ("yesterday", "last month") refer to `now`.
#[must_use]
pub(crate) fn spans(folded: &str, now: Timestamp) -> Vec<(Timestamp, Timestamp)> {
    let words: Vec<&str> = folded
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .filter(|word| !word.is_empty())
        .collect();
    let today = now.civil_date();
    let mut spans = Vec::new();
    let mut index = 0;
    while index < words.len() {
        let (word_count, span) = parse_expression(&words[index..], today);
        if let Some((from, days)) = span
            && let (Some(start), Some(end)) =
                (Timestamp::of_date(from), Timestamp::of_date(from.saturating_add(days)))
        {
            spans.push((start, end));
        }
        index += word_count.max(1);
    }
    spans
}

/// Parses a time expression at the start of the words: the number of words it takes, and its
/// range.
fn parse_expression(words: &[&str], today: Date) -> (usize, Option<(Date, Span)>) {
    let at = |index: usize| words.get(index).copied().unwrap_or_default();
    if let Some(day) = iso(at(0)) {
        return (1, Some((day, 1.day())));
    }
    // "7 May 2023", "7th of May, 2023", "le 3 mars 2024"
    if let Some(day) = day_of_month(at(0)) {
        let of = usize::from(at(1) == "of");
        if let (Some(month), Some(year)) = (month(at(1 + of)), year(at(2 + of))) {
            return (3 + of, Date::new(year, month, day).ok().map(|day| (day, 1.day())));
        }
    }
    if let Some(month) = month(at(0)) {
        // "May 7, 2023"
        if let (Some(day), Some(year)) = (day_of_month(at(1)), year(at(2))) {
            return (3, Date::new(year, month, day).ok().map(|day| (day, 1.day())));
        }
        // "May 2023", "May of 2023"
        let of = usize::from(at(1) == "of");
        if let Some(year) = year(at(1 + of)) {
            return (2 + of, Date::new(year, month, 1).ok().map(|first| (first, 1.month())));
        }
    }
    relative(words, today)
}

/// Parses "yesterday", "last month", "le mois dernier", "3 days ago", "last spring".
fn relative(words: &[&str], today: Date) -> (usize, Option<(Date, Span)>) {
    let at = |index: usize| words.get(index).copied().unwrap_or_default();
    let monday = today.saturating_sub(i64::from(today.weekday().to_monday_zero_offset()).days());
    let first = today.first_of_month();
    match (at(0), at(1), at(2)) {
        ("yesterday" | "hier", ..) => (1, Some((today.saturating_sub(1.day()), 1.day()))),
        ("today", ..) | ("aujourd", "hui", _) => (1, Some((today, 1.day()))),
        ("last", "week", _) | ("semaine", "derniere", _) => {
            (2, Some((monday.saturating_sub(1.week()), 1.week())))
        }
        ("this", "week", _) | ("cette", "semaine", _) => (2, Some((monday, 1.week()))),
        ("last", "month", _) | ("mois", "dernier", _) => {
            (2, Some((first.saturating_sub(1.month()), 1.month())))
        }
        ("this", "month", _) | ("ce", "mois", _) => (2, Some((first, 1.month()))),
        ("last", "year", _) | ("annee", "derniere", _) => {
            (2, Some((date(today.year() - 1, 1, 1), 1.year())))
        }
        ("last", season, _) => match season_start(season) {
            Some(month) => {
                let this = date(today.year(), month, 1);
                let year = if this.saturating_add(3.months()) <= today { 0 } else { 1 };
                (2, Some((this.saturating_sub(i64::from(year).years()), 3.months())))
            }
            None => (1, None),
        },
        (count, unit, "ago") => {
            let Ok(count) = count.parse::<i64>() else { return (1, None) };
            let (back, length): (Span, Span) = match unit {
                "day" | "days" => (count.min(40_000).days(), 1.day()),
                "week" | "weeks" => (count.min(6_000).weeks(), 1.week()),
                "month" | "months" => (count.min(1_200).months(), 1.month()),
                "year" | "years" => (count.min(100).years(), 1.year()),
                _ => return (1, None),
            };
            (3, Some((today.saturating_sub(back), length)))
        }
        _ => (1, None),
    }
}

fn season_start(word: &str) -> Option<i8> {
    match word {
        "spring" => Some(3),
        "summer" => Some(6),
        "autumn" | "fall" => Some(9),
        _ => None,
    }
}

fn iso(word: &str) -> Option<Date> {
    (word.len() == 10).then(|| word.parse().ok()).flatten()
}

fn month(word: &str) -> Option<i8> {
    let index = MONTHS.iter().position(|names| names.contains(&word))?;
    i8::try_from(index + 1).ok()
}

fn day_of_month(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(char::is_alphabetic);
    let suffix = &word[digits.len()..];
    let day: i8 = digits.parse().ok()?;
    (matches!(suffix, "" | "st" | "nd" | "rd" | "th" | "er") && (1..=31).contains(&day))
        .then_some(day)
}

fn year(word: &str) -> Option<i16> {
    (word.len() == 4)
        .then(|| word.parse().ok())
        .flatten()
        .filter(|year| (1900..2200).contains(year))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let now: Timestamp = "2026-03-15T12:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("on 7 may 2023", &["2023-05-07 2023-05-08"][..]),
            ("on the 7th of may, 2023", &["2023-05-07 2023-05-08"]),
            ("may 7, 2023 and 2024-02-29", &["2023-05-07 2023-05-08", "2024-02-29 2024-03-01"]),
            ("in may 2023", &["2023-05-01 2023-06-01"]),
            ("le 3 mars 2024", &["2024-03-03 2024-03-04"]),
            ("yesterday", &["2026-03-14 2026-03-15"]),
            ("last month", &["2026-02-01 2026-03-01"]),
            ("la semaine derniere", &["2026-03-02 2026-03-09"]),
            ("3 days ago", &["2026-03-12 2026-03-13"]),
            ("last spring", &["2025-03-01 2025-06-01"]),
            ("31 february 2023", &[]),
            ("may i ask at 7", &[]),
        ] {
            let day = |at: Timestamp| at.to_string()[..10].to_owned();
            let found: Vec<String> = spans(text, now)
                .into_iter()
                .map(|(from, until)| format!("{} {}", day(from), day(until)))
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}

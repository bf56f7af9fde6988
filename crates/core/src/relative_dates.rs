//! Relative dates: adds the absolute date to expressions such as "yesterday" or "la semaine
//! dernière", computed from the time of the message, so that a quotation keeps its meaning when
//! it is read later.

use std::borrow::Cow;

use jiff::civil::Date;
use jiff::{Span, ToSpan};

use crate::lexicon::fold;
use crate::time::Timestamp;

/// Adds the absolute date in brackets after each relative date: "yesterday" on 8 May 2023 becomes
/// "yesterday (7 May 2023)". English and French.
#[must_use]
pub fn with_absolute_dates(text: &str, at: Timestamp) -> Cow<'_, str> {
    let lower = text.to_ascii_lowercase();
    if !MARKS.iter().any(|mark| lower.contains(mark)) {
        return Cow::Borrowed(text);
    }
    let words: Vec<(&str, usize)> = words(text).collect();
    let folded: Vec<String> = words.iter().map(|(word, _)| fold(word)).collect();
    let today = at.civil_date();
    let mut dated = String::new();
    let (mut copied, mut next) = (0, 0);
    while next < words.len() {
        let Some((taken, period)) = read(&folded[next..], today) else {
            next += 1;
            continue;
        };
        let (last, start) = words[next + taken - 1];
        let end = start + last.len();
        next += taken;
        let has_date = text[end..].trim_start().starts_with(['(', '[']);
        if !has_date {
            dated.push_str(&text[copied..end]);
            dated.push_str(&format!(" ({period})"));
            copied = end;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    dated.push_str(&text[copied..]);
    Cow::Owned(dated)
}

/// Every relative date contains one of these; most texts contain none.
const MARKS: [&str; 10] = [
    "yesterday",
    "tomorrow",
    "last ",
    "next ",
    " ago",
    "hier",
    "demain",
    "derni",
    "prochain",
    "il y a",
];

/// The words of a text with their byte offsets.
fn words(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(move |word| (word, word.as_ptr().addr() - text.as_ptr().addr()))
}

/// The relative date at the start of the words: the number of words it takes, and the absolute
/// period as text.
fn read(words: &[String], today: Date) -> Option<(usize, String)> {
    let at = |index: usize| words.get(index).map_or("", String::as_str);
    let day = |days: i64| today.saturating_add(days.days());
    let (english, french) = (Language::English, Language::French);
    Some(match (at(0), at(1)) {
        ("day", "before") if at(2) == "yesterday" => (3, english.day(day(-2))),
        ("day", "after") if at(2) == "tomorrow" => (3, english.day(day(2))),
        ("yesterday", _) | ("last", "night") => {
            (if at(0) == "last" { 2 } else { 1 }, english.day(day(-1)))
        }
        ("tomorrow", _) => (1, english.day(day(1))),
        ("avant", "hier") => (2, french.day(day(-2))),
        ("apres", "demain") => (2, french.day(day(2))),
        ("hier", _) => (1, french.day(day(-1))),
        ("demain", _) => (1, french.day(day(1))),
        ("last", period) => (2, english.period(period, -1, today)?),
        ("next", period) => (2, english.period(period, 1, today)?),
        ("il", "y") if at(2) == "a" => (5, french.ago(count(at(3))?, at(4), today)?),
        ("week", "end") => (3, french.period("weekend", direction(at(2))?, today)?),
        (period, word) if direction(word).is_some() => {
            (2, french.period(period, direction(word)?, today)?)
        }
        (number, unit) if at(2) == "ago" => (3, english.ago(count(number)?, unit, today)?),
        _ => return None,
    })
}

/// Whether a French adjective means the previous (-1) or the next (1) period.
fn direction(word: &str) -> Option<i64> {
    match word {
        "dernier" | "derniere" => Some(-1),
        "prochain" | "prochaine" => Some(1),
        _ => None,
    }
}

fn count(word: &str) -> Option<i64> {
    const NUMBERS: [[&str; 3]; 10] = [
        ["one", "un", "une"],
        ["two", "deux", "couple"],
        ["three", "trois", ""],
        ["four", "quatre", ""],
        ["five", "cinq", ""],
        ["six", "six", ""],
        ["seven", "sept", ""],
        ["eight", "huit", ""],
        ["nine", "neuf", ""],
        ["ten", "dix", ""],
    ];
    if matches!(word, "a" | "an") {
        return Some(1);
    }
    let spelled = || NUMBERS.iter().position(|names| names.contains(&word));
    let number = word.parse::<i64>().ok().or_else(|| i64::try_from(spelled()? + 1).ok())?;
    (1..=500).contains(&number).then_some(number)
}

#[derive(Clone, Copy, PartialEq)]
enum Language {
    English,
    French,
}

const ENGLISH_MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const FRENCH_MONTHS: [&str; 12] = [
    "janvier",
    "février",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
];
const WEEKDAYS: [&[&str]; 7] = [
    &["monday", "mon", "lundi"],
    &["tuesday", "tues", "tue", "mardi"],
    &["wednesday", "wed", "mercredi"],
    &["thursday", "thurs", "thu", "jeudi"],
    &["friday", "fri", "vendredi"],
    &["saturday", "sat", "samedi"],
    &["sunday", "sun", "dimanche"],
];

impl Language {
    fn month_name(self, date: Date) -> &'static str {
        let months = if self == Self::English { ENGLISH_MONTHS } else { FRENCH_MONTHS };
        usize::try_from(date.month() - 1).ok().and_then(|index| months.get(index)).unwrap_or(&"")
    }

    fn day(self, date: Date) -> String {
        format!("{} {} {}", date.day(), self.month_name(date), date.year())
    }

    fn month(self, date: Date) -> String {
        format!("{} {}", self.month_name(date), date.year())
    }

    fn week(self, monday: Date) -> String {
        let words = if self == Self::English { "week of" } else { "semaine du" };
        format!("{words} {}", self.day(monday))
    }

    fn weekend(self, saturday: Date) -> String {
        let sunday = saturday.saturating_add(1.day());
        if saturday.month() == sunday.month() {
            format!("{}–{}", saturday.day(), self.day(sunday))
        } else {
            format!("{} – {}", self.day(saturday), self.day(sunday))
        }
    }

    /// The week, weekend, month, year or weekday before or after today.
    fn period(self, name: &str, direction: i64, today: Date) -> Option<String> {
        let monday =
            today.saturating_sub(i64::from(today.weekday().to_monday_zero_offset()).days());
        let moved = |from: Date, span: Span| from.saturating_add(span);
        Some(match name {
            "week" | "semaine" => self.week(moved(monday, direction.weeks())),
            "weekend" => {
                let saturday = moved(monday, 5.days());
                let is_past = saturday < today && direction < 0;
                // The weekend after a Monday is the next one, before it the last one.
                let weeks = i64::from(direction < 0 && !is_past);
                self.weekend(saturday.saturating_sub(weeks.weeks()))
            }
            "month" | "mois" => self.month(moved(today.first_of_month(), direction.months())),
            "year" | "annee" | "an" => moved(today, direction.years()).year().to_string(),
            _ => {
                let weekday = WEEKDAYS.iter().position(|names| names.contains(&name))?;
                let days = i64::try_from(weekday).ok()?
                    - i64::from(today.weekday().to_monday_zero_offset());
                let days = match direction {
                    -1 if days >= 0 => days - 7,
                    1 if days <= 0 => days + 7,
                    _ => days,
                };
                self.day(moved(today, days.days()))
            }
        })
    }

    /// A number of days, weeks, months or years before today.
    fn ago(self, number: i64, unit: &str, today: Date) -> Option<String> {
        let before = |span: Span| today.saturating_sub(span);
        Some(match unit {
            "day" | "days" | "jour" | "jours" => self.day(before(number.days())),
            "week" | "weeks" | "semaine" | "semaines" => {
                let day = before(number.weeks());
                let offset = i64::from(day.weekday().to_monday_zero_offset());
                self.week(day.saturating_sub(offset.days()))
            }
            "month" | "months" | "mois" => self.month(before(number.months())),
            "year" | "years" | "an" | "ans" => before(number.years()).year().to_string(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_dates_get_the_absolute_one() {
        // A Monday.
        let at: Timestamp = "2023-05-08T13:56:00Z".parse().unwrap();
        for (text, expected) in [
            ("I went yesterday.", "I went yesterday (7 May 2023)."),
            ("Hier, on a mangé.", "Hier (7 mai 2023), on a mangé."),
            ("Avant-hier soir", "Avant-hier (6 mai 2023) soir"),
            ("last night was fun", "last night (7 May 2023) was fun"),
            ("See you tomorrow!", "See you tomorrow (9 May 2023)!"),
            ("It broke last week", "It broke last week (week of 1 May 2023)"),
            ("la semaine dernière", "la semaine dernière (semaine du 1 mai 2023)"),
            ("la semaine prochaine ?", "la semaine prochaine (semaine du 15 mai 2023) ?"),
            ("last weekend", "last weekend (6–7 May 2023)"),
            ("next weekend", "next weekend (13–14 May 2023)"),
            ("le week-end dernier", "le week-end dernier (6–7 mai 2023)"),
            ("last month and next month", "last month (April 2023) and next month (June 2023)"),
            ("le mois dernier", "le mois dernier (avril 2023)"),
            ("since last year", "since last year (2022)"),
            ("last Friday", "last Friday (5 May 2023)"),
            ("next Monday", "next Monday (15 May 2023)"),
            ("lundi dernier", "lundi dernier (1 mai 2023)"),
            ("two days ago", "two days ago (6 May 2023)"),
            ("a year ago", "a year ago (2022)"),
            ("3 weeks ago", "3 weeks ago (week of 17 April 2023)"),
            ("il y a trois jours", "il y a trois jours (5 mai 2023)"),
            ("yesterday (a Sunday)", "yesterday (a Sunday)"),
        ] {
            assert_eq!(with_absolute_dates(text, at), expected);
        }
        for text in ["at last we won", "the next step", "long ago", "today", "a few hours ago"] {
            assert_eq!(with_absolute_dates(text, at), text);
        }
    }
}

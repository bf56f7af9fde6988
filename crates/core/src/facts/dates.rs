//! Dates and times of day in English and French.

use super::tokens::FactToken;

/// A date, a time of day, or a part of one; unspecified parts are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Date {
    year: Option<u16>,
    month: Option<u8>,
    day: Option<u8>,
    minute: Option<u16>,
}

impl Date {
    /// Whether the other date contains every part of this one.
    pub(super) fn is_part_of(&self, other: &Self) -> bool {
        fn fits<T: PartialEq + Copy>(first: Option<T>, other: Option<T>) -> bool {
            first.is_none() || first == other
        }
        fits(self.year, other.year)
            && fits(self.month, other.month)
            && fits(self.day, other.day)
            && fits(self.minute, other.minute)
    }
}

/// The number of a month from its name.
pub(super) fn month(word: &str) -> Option<u8> {
    if !word.starts_with(|c: char| "jfmasondJFMASOND".contains(c)) {
        return None;
    }
    let index = crate::time_expressions::MONTHS
        .iter()
        .position(|names| names.iter().any(|name| is_word(word, name)))?;
    u8::try_from(index + 1).ok()
}

/// Whether a word equals a lower-case word, ignoring case.
fn is_word(word: &str, lower: &str) -> bool {
    word.len() == lower.len()
        && (word.eq_ignore_ascii_case(lower) || !word.is_ascii() && word.to_lowercase() == lower)
}

/// The date at the start of the tokens, and the number of tokens it takes.
pub(super) fn read(tokens: &[FactToken<'_>]) -> Option<(usize, Date)> {
    let tokens = &tokens[..clause(tokens)];
    let first = tokens.first()?.core;
    if let Some(date) = numeric(first) {
        return Some((1, date));
    }
    if let Some(minute) = time(tokens) {
        return Some(minute);
    }
    if let Some(day) = day(first) {
        // "9 December 2025", "the 9th of December", "7 mai".
        let skip = usize::from(tokens.get(1).is_some_and(|token| token.core == "of")) + 1;
        let month = month(tokens.get(skip)?.core)?;
        let year = tokens.get(skip + 1).and_then(|token| year(token.core));
        let token_count = skip + 1 + usize::from(year.is_some());
        return Some((
            token_count,
            Date { year, month: Some(month), day: Some(day), minute: None },
        ));
    }
    let month = month(first)?;
    let second = tokens.get(1)?.core;
    if let Some(day) = day(second) {
        // "May 7, 2023".
        let year = tokens.get(2).and_then(|token| year(token.core));
        let token_count = 2 + usize::from(year.is_some());
        return Some((
            token_count,
            Date { year, month: Some(month), day: Some(day), minute: None },
        ));
    }
    let year = year(second)?;
    Some((2, Date { year: Some(year), month: Some(month), day: None, minute: None }))
}

/// The number of leading tokens, at most four, in the same sentence. The full stop of an
/// abbreviated month like `Dec.` does not end a sentence.
fn clause(tokens: &[FactToken<'_>]) -> usize {
    let is_short = |word: &str| {
        (3..=4).contains(&word.len()) && month(word).is_some() && !is_word(word, "may")
    };
    let window = &tokens[..tokens.len().min(4)];
    window
        .iter()
        .position(|token| token.ends_sentence && !is_short(token.core))
        .map_or(window.len(), |last| last + 1)
}

/// A day of a month: `9`, `9th`, `1er`.
fn day(word: &str) -> Option<u8> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let suffix = &word[digits..];
    if !(1..=2).contains(&digits) || !["", "st", "nd", "rd", "th", "er"].contains(&suffix) {
        return None;
    }
    word[..digits].parse().ok().filter(|day| (1..=31).contains(day))
}

fn year(word: &str) -> Option<u16> {
    (word.len() == 4 && word.bytes().all(|b| b.is_ascii_digit()))
        .then(|| word.parse().ok())
        .flatten()
        .filter(|year| (1000..=2999).contains(year))
}

/// `2025-12-09` with or without a time, `2025/12/09`, `2025年12月9日`.
fn numeric(word: &str) -> Option<Date> {
    if word.len() < 8 || !word.is_char_boundary(4) {
        return None;
    }
    let year = year(&word[..4])?;
    let mut parts = word[4..].split(|c: char| !c.is_ascii_digit());
    let separator = word[4..].chars().next()?;
    if !matches!(separator, '-' | '/' | '年') {
        return None;
    }
    parts.next();
    let mut number =
        || parts.next().filter(|part| (1..=2).contains(&part.len()))?.parse::<u8>().ok();
    let month = number().filter(|month| (1..=12).contains(month))?;
    let day = number().filter(|day| (1..=31).contains(day))?;
    Some(Date { year: Some(year), month: Some(month), day: Some(day), minute: None })
}

/// `10:30`, `3:30 pm`, `8 am`, `9h30`.
fn time(tokens: &[FactToken<'_>]) -> Option<(usize, Date)> {
    let word = tokens.first()?.core;
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=2).contains(&digits) {
        return None;
    }
    let mut hour: u16 = word[..digits].parse().ok().filter(|hour| *hour < 25)?;
    let rest = &word[digits..];
    let after = rest
        .strip_prefix(':')
        .or_else(|| rest.strip_prefix('h').filter(|minutes| minutes.len() == 2));
    let (minutes, suffix) = match after {
        Some(after) => {
            let minutes = after.get(..2)?.parse::<u16>().ok().filter(|minutes| *minutes < 60)?;
            (Some(minutes), &after[2..])
        }
        None => (None, rest),
    };
    let half = |word: &str| match word.to_ascii_lowercase().as_str() {
        "am" | "a.m" => Some(0),
        "pm" | "p.m" => Some(12),
        _ => None,
    };
    let (token_count, half) = if suffix.is_empty() {
        let next = tokens.get(1).and_then(|token| half(token.core));
        (1 + usize::from(next.is_some()), next)
    } else if suffix.starts_with(':') {
        (1, None)
    } else {
        (1, Some(half(suffix)?))
    };
    if minutes.is_none() && half.is_none() {
        return None;
    }
    if let Some(half) = half {
        hour = hour % 12 + half;
    }
    Some((token_count, Date { minute: Some(hour * 60 + minutes.unwrap_or(0)), ..Date::default() }))
}

const DAYS: [&str; 14] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "lundi",
    "mardi",
    "mercredi",
    "jeudi",
    "vendredi",
    "samedi",
    "dimanche",
];
const AROUND_NOW: [&str; 10] = [
    "yesterday",
    "today",
    "tomorrow",
    "tonight",
    "hier",
    "aujourd'hui",
    "aujourd’hui",
    "demain",
    "avant-hier",
    "ce soir",
];
const PERIODS: [&str; 12] = [
    "week", "month", "year", "weekend", "summer", "winter", "spring", "autumn", "fall", "night",
    "semaine", "mois",
];

/// The number of tokens that a relative date at the start takes.
pub(super) fn read_relative(tokens: &[FactToken<'_>]) -> Option<usize> {
    let first = tokens.first()?.core;
    if !(3..=12).contains(&first.len()) {
        return None;
    }
    if first.is_ascii()
        && !first.starts_with(|c: char| "ytmwfsljvdhanc".contains(c.to_ascii_lowercase()))
    {
        return None;
    }
    let is_one_of = |words: &[&str], word: &str| words.iter().any(|lower| is_word(word, lower));
    if is_one_of(&AROUND_NOW, first) || is_one_of(&DAYS, first) {
        return Some(1);
    }
    let second = tokens.get(1).filter(|_| !tokens[0].is_followed_by_punctuation)?.core;
    let leads = is_one_of(&["last", "next", "this", "cette", "ce"], first);
    (leads && (is_one_of(&DAYS, second) || is_one_of(&PERIODS, second))).then_some(2)
}

/// Whether a lower-case word is a month or a weekday, which are capitalized but not names.
pub(super) fn is_calendar(word: &str) -> bool {
    DAYS.contains(&word) || month(word).is_some()
}

//! Numbers and their units, normalized for comparison.

use super::tokens::FactToken;

/// Units and their spellings; the first is the canonical name.
const UNITS: [&[&str]; 34] = [
    &["%", "percent", "pourcent", "pct"],
    &["ms", "millisecond", "milliseconds", "milliseconde", "millisecondes"],
    &["µs", "us", "microsecond", "microseconds"],
    &["s", "sec", "secs", "second", "seconds", "seconde", "secondes"],
    &["min", "mins", "minute", "minutes"],
    &["h", "hr", "hrs", "hour", "hours", "heure", "heures"],
    &["day", "days", "jour", "jours"],
    &["week", "weeks", "semaine", "semaines"],
    &["month", "months", "mois"],
    &["year", "years", "yr", "yrs", "an", "ans", "année", "années"],
    &["b", "byte", "bytes", "octet", "octets"],
    &["kb", "ko", "kib"],
    &["mb", "mo", "mib"],
    &["gb", "go", "gib"],
    &["tb", "to", "tib"],
    &["m", "metre", "metres", "meter", "meters", "mètre", "mètres"],
    &["km", "kilometre", "kilometres", "kilometer", "kilometers", "kilomètres"],
    &["cm", "centimetre", "centimetres", "centimètres"],
    &["mm"],
    &["mile", "miles", "mi"],
    &["ft", "foot", "feet"],
    &["inch", "inches"],
    &["kg", "kilo", "kilos", "kilogram", "kilograms"],
    &["g", "gram", "grams", "gramme", "grammes"],
    &["lb", "lbs", "pound", "pounds"],
    &["l", "litre", "litres", "liter", "liters"],
    &["$", "dollar", "dollars", "usd"],
    &["€", "euro", "euros", "eur"],
    &["£", "gbp"],
    &["hz", "khz", "mhz", "ghz"],
    &["°c", "°", "degrees", "degrés"],
    &["token", "tokens"],
    &["line", "lines", "ligne", "lignes"],
    &["k"],
];

/// The canonical name of a unit.
fn unit(word: &str) -> Option<&'static str> {
    if word.is_empty() || word.len() > 14 {
        return None;
    }
    let lower = word.to_lowercase();
    UNITS
        .iter()
        .find(|names| names.contains(&lower.as_str()))
        .and_then(|names| names.first().copied())
}

/// The number of tokens that the number at the start takes, including its unit.
pub(super) fn read(tokens: &[FactToken<'_>]) -> Option<usize> {
    let token = tokens.first()?;
    let (_, amount, suffix) = parts(token.core)?;
    let attached = suffix.is_empty() || unit(suffix).is_some();
    if !attached {
        let is_version =
            amount.contains('.') && suffix.len() <= 6 || token.core.starts_with(['v', 'V']);
        let is_ordinal =
            ["st", "nd", "rd", "th", "e", "er", "ème", "x", "+", "d"].contains(&suffix);
        return (is_version || is_ordinal).then_some(1);
    }
    let next = tokens.get(1).filter(|_| suffix.is_empty() && !token.is_followed_by_punctuation);
    Some(
        1 + usize::from(next.is_some_and(|next| {
            unit(next.core).is_some() && next.core != "to" && next.core != "an"
        })),
    )
}

/// Splits a number into the sign or currency before it, its digits, and the suffix.
fn parts(word: &str) -> Option<(&str, &str, &str)> {
    let from = word.find(|c: char| c.is_ascii_digit())?;
    let head = &word[..from];
    if !matches!(
        head,
        "" | "$"
            | "€"
            | "£"
            | "+"
            | "-"
            | "−"
            | "~"
            | "≈"
            | "#"
            | "v"
            | "V"
            | "<"
            | ">"
            | "≥"
            | "≤"
    ) {
        return None;
    }
    let digits = &word[from..];
    let end = digits
        .char_indices()
        .find(|(at, c)| {
            let joins = matches!(c, '.' | ',' | '_' | '\u{202f}')
                && digits[at + c.len_utf8()..].starts_with(|next: char| next.is_ascii_digit());
            !(c.is_ascii_digit() || joins)
        })
        .map_or(digits.len(), |(at, _)| at);
    Some((head, &digits[..end], digits[end..].trim_start_matches('-')))
}

/// The normalized digits of a number: `1,000` is `1000`, `3,5` is `3.5`.
pub(super) fn value(written: &str) -> Option<String> {
    let first = written.split_whitespace().next()?;
    let (_, amount, _) = parts(first)?;
    let mut value = String::with_capacity(amount.len());
    let groups: Vec<&str> = amount.split([',', '_', '\u{202f}']).collect();
    let thousands = groups.len() > 1
        && groups[1..].iter().all(|group| group.split('.').next().unwrap_or("").len() == 3);
    for (index, group) in groups.iter().enumerate() {
        if index > 0 && !thousands {
            value.push('.');
        }
        value.push_str(group);
    }
    if value.contains('.') {
        let kept = value.trim_end_matches('0').trim_end_matches('.').len();
        value.truncate(kept);
    }
    let kept = value.trim_start_matches('0').to_owned();
    Some(if kept.is_empty() || kept.starts_with('.') { format!("0{kept}") } else { kept })
}

/// The normalized form of a number with its unit, equal for different spellings.
pub(super) fn key(written: &str) -> String {
    let mut words = written.split_whitespace();
    let first = words.next().unwrap_or_default();
    let Some((head, _, suffix)) = parts(first) else { return super::key(written) };
    let value = value(first).unwrap_or_default();
    let unit_word = words.next().or(Some(suffix).filter(|suffix| !suffix.is_empty()));
    let unit = unit_word.and_then(unit).or_else(|| unit(head));
    match unit {
        Some(unit) => format!("{value} {unit}"),
        None if suffix.is_empty() => format!("#{value}"),
        None => super::key(written),
    }
}

//! Text measures and previews that several modules share.

/// The length in characters, the unit of policy thresholds.
#[must_use]
pub fn chars(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

/// The beginning of a text on one line, at most `limit` characters. Collapses white space,
/// drops control characters, and ends with an ellipsis if the text was truncated.
#[must_use]
pub fn preview(text: &str, limit: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() {
            gap = !line.is_empty();
            continue;
        }
        if c.is_control() || is_hidden_control(c) {
            continue;
        }
        if count + usize::from(gap) >= limit {
            line.push('…');
            return line;
        }
        if gap {
            line.push(' ');
            count += 1;
            gap = false;
        }
        line.push(c);
        count += 1;
    }
    line
}

/// Whether the character reorders the text around it (bidirectional controls) or carries text that
/// nobody sees (tag characters).
#[must_use]
pub fn is_hidden_control(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// An upper bound on the tokens of common tokenizers: half a token per ASCII character, two per
/// other character.
#[must_use]
pub fn token_upper_bound(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = text.chars().filter(|c| !c.is_ascii()).count() as u64;
    ascii.div_ceil(2) + 2 * others
}

/// The suffix of an error message that suggests similar names; empty if there are none.
#[must_use]
pub fn did_you_mean(suggestions: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = suggestions.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_one_clean_line() {
        assert_eq!(preview("  a\n\n b\tc ", 10), "a b c");
        assert_eq!(preview("abcdef", 3), "abc…");
        assert_eq!(preview("ab cd", 3), "ab…");
        assert_eq!(preview("\u{1b}[31mred\u{202e}\0", 20), "[31mred");
        assert_eq!(preview("", 5), "");
    }
}

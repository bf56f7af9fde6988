//! Literals: the parts of a question that an item should contain as they were typed. They are
//! quoted phrases, code names, paths and numbers, and the whole text of a search by keywords.

use crate::lexicon::{TermId, fold, terms};

/// A part of a question that counts as typed, ignoring case, accents and line breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal {
    text: String,
    /// Its terms. An item that contains the literal contains all of them.
    pub terms: Vec<TermId>,
}

/// The literals of a text. A question names things, while keywords are searched as typed too.
pub(crate) fn literals(text: &str, is_question: bool, names_time: bool) -> Vec<Literal> {
    let mut found = Vec::new();
    let unquoted = quoted(text, &mut |phrase| found.push(phrase.to_owned()));
    for word in unquoted.split_whitespace().map(trimmed) {
        let is_number = !names_time && is_number(word, if is_question { 4 } else { 2 });
        if is_number || is_code_name(word) {
            found.push(word.to_owned());
        }
    }
    if !is_question && found.is_empty() {
        found.push(trimmed(text.trim()).to_owned());
    }
    let literal = |text: String| Literal {
        terms: terms(&text).into_iter().map(|term| term.id).collect(),
        text: normalized(&text),
    };
    let mut literals: Vec<Literal> = found.into_iter().map(literal).collect();
    literals.retain(|literal| !literal.terms.is_empty());
    literals
}

/// The share of the literals that a text contains.
#[must_use]
pub fn share_as_typed(literals: &[Literal], text: &str) -> f32 {
    if literals.is_empty() {
        return 0.0;
    }
    let text = normalized(text);
    let found = literals.iter().filter(|literal| contains(&text, &literal.text)).count();
    found as f32 / literals.len() as f32
}

/// Folds a text and joins its lines.
fn normalized(text: &str) -> String {
    fold(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a text contains a part that is not inside a longer word or code name.
fn contains(text: &str, part: &str) -> bool {
    let is_inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let starts_word = is_inside(part.chars().next());
    let ends_word = is_inside(part.chars().next_back());
    text.match_indices(part).any(|(at, _)| {
        let is_cut_before = starts_word && is_inside(text[..at].chars().next_back());
        let is_cut_after = ends_word && is_inside(text[at + part.len()..].chars().next());
        !is_cut_before && !is_cut_after
    })
}

/// Calls `take` with each quoted phrase, and returns the text without them. An apostrophe is a
/// quotation mark only around whole words.
fn quoted(text: &str, take: &mut dyn FnMut(&str)) -> String {
    const PAIRS: [(char, char); 5] = [('"', '"'), ('“', '”'), ('«', '»'), ('`', '`'), ('\'', '\'')];
    let mut rest = String::new();
    let mut left = text;
    while let Some((at, open)) = left.char_indices().find(|(_, c)| PAIRS.iter().any(|p| p.0 == *c))
    {
        let inside = &left[at + open.len_utf8()..];
        let close = PAIRS.iter().find(|pair| pair.0 == open).map_or(open, |pair| pair.1);
        let follows_word = left[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let is_end = |(end, _): &(usize, &str)| {
            let next = inside[end + close.len_utf8()..].chars().next();
            open != '\'' || (!follows_word && !next.is_some_and(char::is_alphanumeric))
        };
        rest.push_str(&left[..at]);
        match inside.match_indices(close).find(is_end) {
            Some((end, _)) => {
                take(inside[..end].trim());
                rest.push(' ');
                left = &inside[end + close.len_utf8()..];
            }
            None => {
                rest.push(open);
                left = inside;
            }
        }
    }
    rest + left
}

/// A word without the punctuation around it.
fn trimmed(word: &str) -> &str {
    let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '…', '\'']);
    word.trim_start_matches(['(', '[', '{', '\''])
}

/// Whether a word is a number with at least this many digits, such as `7410`, `1,200` or `18:30`.
fn is_number(word: &str, min_digits: usize) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, ',' | '.' | ':' | '%' | '$' | '€');
    word.chars().all(is_part) && word.chars().filter(char::is_ascii_digit).count() >= min_digits
}

/// Whether a word is a code name, a path, an address or an option.
fn is_code_name(word: &str) -> bool {
    let letters: Vec<char> = word.chars().collect();
    let joined_by = |joint: &str| {
        word.match_indices(joint).any(|(at, _)| {
            let ends = [word[..at].chars().next_back(), word[at + joint.len()..].chars().next()];
            ends.iter().all(|c| c.is_some_and(char::is_alphanumeric))
        })
    };
    let has = |is: fn(&char) -> bool| letters.iter().any(is);
    let is_mixed = has(|c| c.is_ascii_digit()) && has(|c| c.is_alphabetic()) && !is_ordinal(word);
    // A name that starts with a capital, such as "YouTube", may be one of a product.
    let is_camel = letters.first().is_some_and(|c| c.is_lowercase())
        && letters.windows(2).any(|pair| pair[0].is_lowercase() && pair[1].is_uppercase());
    let slashes = word.matches('/').count();
    is_camel
        || is_mixed
        || word.starts_with("--")
        || (letters.len() > 3 && joined_by("."))
        || ["_", "::", "@"].into_iter().any(joined_by)
        || (slashes > 1 || (slashes == 1 && (word.starts_with('/') || word.contains('.'))))
}

/// Whether a word is an ordinal number, such as "7th".
fn is_ordinal(word: &str) -> bool {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let ends = ["st", "nd", "rd", "th", "e", "er", "s"];
    digits.chars().all(|c| c.is_ascii_digit()) && ends.contains(&&word[digits.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, is_question: bool) -> Vec<String> {
        literals(text, is_question, false).into_iter().map(|literal| literal.text).collect()
    }

    #[test]
    fn quoted_phrases_code_names_paths_and_numbers_are_literals() {
        for (text, expected) in [
            ("Where is BOOKS_PLIST set?", vec!["books_plist"]),
            (
                "Who wrote \"the tide\n is out\" and 'low water'?",
                vec!["the tide is out", "low water"],
            ),
            (
                "What does `cargo test` in src/tide_model.rs do?",
                vec!["cargo test", "src/tide_model.rs"],
            ),
            (
                "Which file has parseHttpRequest, error E0382 or --explain?",
                vec!["parsehttprequest", "e0382", "--explain"],
            ),
            ("Who uses port 7410 at 10 on the 7th?", vec!["7410"]),
            ("What is John's and/or Ana's plan for YouTube?", vec![]),
        ] {
            assert_eq!(texts(text, true), expected, "{text}");
        }
    }

    #[test]
    fn keywords_count_as_typed() {
        assert_eq!(texts("shopping list", false), ["shopping list"]);
        assert_eq!(texts("No such file or directory.", false), ["no such file or directory"]);
        assert_eq!(texts("port 80", false), ["80"]);
        assert_eq!(texts("the", false), [] as [&str; 0]);
    }

    #[test]
    fn a_literal_is_found_whole() {
        let literals = literals("7410 Books_Plist", false, false);
        assert_eq!(share_as_typed(&literals, "BOOKS_PLIST = 7410."), 1.0);
        assert_eq!(share_as_typed(&literals, "books.plist on 7410"), 0.5);
        assert_eq!(share_as_typed(&literals, "MY_BOOKS_PLIST on 17410"), 0.0);
        assert_eq!(share_as_typed(&[], "text"), 0.0);
    }
}

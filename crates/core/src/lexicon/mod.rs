//! The lexicon: which terms a text is found by. Words are folded (case, accents), stemmed in
//! their language, and names of code are found whole and by their parts.

mod irregular;
mod stop;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::sentence::is_ideograph;

pub use stop::{asks_about_a_conversation, is_first_person};

/// A term, as a number: equal terms have equal numbers.
pub type TermId = u64;

/// A term of a text, with the word it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The stem, as a number.
    pub id: TermId,
    /// The word, folded.
    pub word: String,
}

/// Which language a text is in, as far as that matters for its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    English,
    French,
}

/// Lower case, without accents.
#[must_use]
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().flat_map(char::to_lowercase).nfd().filter(|c| !is_combining_mark(*c)).collect()
}

/// The words of a text, folded, in order: runs of letters and digits. Of "John's" and "don't" the
/// part before the apostrophe, of "l'été" both; each ideograph with its neighbour.
#[must_use]
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_run(&fold(text), |run| push_word(run, &mut words));
    words
}

/// Terms that a text is found by, in order, stop words left out.
#[must_use]
pub fn terms(text: &str) -> Vec<Term> {
    let words = words(text);
    let language = language(&words);
    let stemmer = Stemmer::create(match language {
        Language::English => Algorithm::English,
        Language::French => Algorithm::French,
    });
    let is_stop: fn(&str) -> bool = match language {
        Language::English => stop::is_english,
        Language::French => stop::is_french,
    };
    let term = |word: String| {
        let base = if language == Language::English { irregular::base(&word) } else { &word };
        Term { id: hash(&stemmer.stem(base)), word }
    };
    let mut terms: Vec<Term> = words.into_iter().filter(|word| !is_stop(word)).map(term).collect();
    // The parts of `camelCase` names: the whole word is there already.
    each_run(text, |run| {
        for part in camel_parts(run) {
            terms.push(term(fold(part)));
        }
    });
    terms
}

/// The terms that single words could be found by, whatever language their text is in.
pub struct Stems {
    english: Stemmer,
    french: Stemmer,
}

impl Stems {
    /// Ready to stem.
    #[must_use]
    pub fn new() -> Self {
        Self { english: Stemmer::create(Algorithm::English), french: Stemmer::create(Algorithm::French) }
    }

    /// Whether one of these terms is that of a word.
    #[must_use]
    pub fn is_one_of(&self, word: &str, terms: &[TermId]) -> bool {
        let folded = fold(word);
        let english = hash(&self.english.stem(irregular::base(&folded)));
        terms.contains(&english) || terms.contains(&hash(&self.french.stem(&folded)))
    }
}

impl Default for Stems {
    fn default() -> Self {
        Self::new()
    }
}

fn language(words: &[String]) -> Language {
    let english = words.iter().filter(|word| stop::is_english(word)).count();
    let french = words.iter().filter(|word| stop::is_french(word)).count();
    if french > english { Language::French } else { Language::English }
}

/// Runs of letters and digits, with apostrophes inside.
fn each_run(text: &str, mut take: impl FnMut(&str)) {
    let mut start = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let inside = c.is_alphanumeric()
            || (matches!(c, '\'' | '’')
                && start.is_some()
                && chars.peek().is_some_and(|(_, next)| next.is_alphanumeric()));
        match (inside, start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                take(&text[from..at]);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        take(&text[from..]);
    }
}

fn push_word(run: &str, words: &mut Vec<String>) {
    if run.chars().any(is_ideograph) {
        let signs: Vec<char> = run.chars().collect();
        match signs.len() {
            1 => words.push(run.to_owned()),
            _ => words.extend(signs.windows(2).map(|pair| pair.iter().collect::<String>())),
        }
        return;
    }
    let mut parts = run.split(['\'', '’']);
    let head = parts.next().unwrap_or(run);
    words.push(head.to_owned());
    if head.chars().nth(1).is_none() {
        words.extend(parts.map(str::to_owned));
    }
}

/// The parts of a name like `parseHttpRequest`; none where it has but one.
fn camel_parts(run: &str) -> Vec<&str> {
    let mut cuts = vec![0];
    let mut before: Option<char> = None;
    for (at, c) in run.char_indices() {
        if c.is_uppercase() && before.is_some_and(char::is_lowercase) {
            cuts.push(at);
        }
        before = Some(c);
    }
    if cuts.len() == 1 {
        return Vec::new();
    }
    cuts.push(run.len());
    cuts.windows(2).map(|pair| &run[pair[0]..pair[1]]).filter(|part| part.len() > 2).collect()
}

/// FNV-1a: the same for ever, since the numbers are kept.
fn hash(stem: &str) -> TermId {
    stem.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        let ids = |text: &str| terms(text).into_iter().map(|term| term.id).collect::<Vec<_>>();
        ids(a).iter().any(|id| ids(b).contains(id))
    }

    #[test]
    fn words_are_folded_and_split_where_people_split_them() {
        assert_eq!(
            words("John's café, don't L'été src/tide_model.rs 3.5 GB"),
            ["john", "cafe", "don", "l", "ete", "src", "tide", "model", "rs", "3", "5", "gb"]
        );
        assert_eq!(words("潮汐表 ok"), ["潮汐", "汐表", "ok"]);
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn what_means_the_same_is_found_by_the_same_terms() {
        for (a, b) in [
            ("running", "runs"),
            ("we went there", "going"),
            ("the children", "one child"),
            ("les réservations sont annulées", "une réservation"),
            ("parseHttpRequest", "http"),
            ("parseHttpRequest()", "parsehttprequest"),
            ("TIDE_WINDOW", "tide"),
            ("潮汐表", "潮汐"),
        ] {
            assert!(same(a, b), "{a} and {b}");
        }
        assert!(!same("the of and", "the of and"), "stop words are no terms");
        assert!(!same("tide", "berth"));
    }
}

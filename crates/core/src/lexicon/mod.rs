//! The lexicon: the terms that index a text. Words are folded (case, accents) and stemmed in
//! their language; code identifiers are indexed whole and by their parts.

mod changes;
mod irregular;
mod stop;

use std::borrow::Cow;
use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::sentence::is_ideograph;

pub(crate) use changes::changes_of;
pub(crate) use stop::{is_conversation_word, is_first_person, is_question_opener};

/// A term as a number; equal terms have equal numbers.
pub type TermId = u64;

/// A term of a text, with the word it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// The stem's number.
    pub id: TermId,
    /// The word, folded.
    pub word: String,
}

/// Folds to lower case without accents.
#[must_use]
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().flat_map(char::to_lowercase).nfd().filter(|c| !is_combining_mark(*c)).collect()
}

/// The folded words of a text, in order: runs of letters and digits. "John's" and "don't" yield
/// the part before the apostrophe, "l'été" yields both parts, and ideographs yield bigrams.
#[must_use]
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_run(text, |run| each_word(run, |word| words.push(word.to_owned())));
    words
}

/// The folded words of a French text, in order, without stop words; `None` if the text has no more
/// French stop words than English ones.
#[must_use]
pub fn french_words(text: &str) -> Option<Vec<String>> {
    let (mut english, mut french) = (0, 0);
    each_run(text, |run| {
        each_word(run, |word| {
            english += u32::from(stop::is_english(word));
            french += u32::from(stop::is_french(word));
        });
    });
    (french > english)
        .then(|| words(text).into_iter().filter(|word| !stop::is_french(word)).collect())
}

/// The terms of a text, in order, without stop words.
#[must_use]
pub(crate) fn terms(text: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    Lexer::default().each_term(text, |word, id| terms.push(Term { id, word: word.to_owned() }));
    terms
}

/// Extracts terms and caches the words it has seen, because most words recur.
#[derive(Default)]
pub struct Lexer {
    stems: Stems,
    cached_words: HashMap<Box<str>, CachedWord>,
    /// The words of a text, concatenated, and the end of each.
    joined: String,
    words: Vec<(usize, CachedWord)>,
}

/// A cached word: its data in each language.
#[derive(Clone, Copy)]
struct CachedWord {
    ids: [TermId; 2],
    is_stop: [bool; 2],
}

impl Lexer {
    /// Maximum number of cached words.
    const MAX_WORDS: usize = 100_000;

    /// An estimate of the cache's memory use, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // An average word, its table entry, and the free slots of the table.
        96 * self.cached_words.len()
    }

    /// Calls `take` with each term of a text and its word, in order.
    pub fn each_term(&mut self, text: &str, mut take: impl FnMut(&str, TermId)) {
        let (mut joined, mut words) =
            (std::mem::take(&mut self.joined), std::mem::take(&mut self.words));
        let mut parts = Vec::new();
        each_run(text, |run| {
            each_word(run, |word| {
                joined.push_str(word);
                words.push((joined.len(), self.cached_word(word)));
            });
            // The parts of `camelCase` names; the whole word is already included.
            parts.extend(camel_parts(run).into_iter().map(fold));
        });
        let stops =
            |language: usize| words.iter().filter(|(_, cached)| cached.is_stop[language]).count();
        let language = if stops(FRENCH) > stops(ENGLISH) { FRENCH } else { ENGLISH };
        let mut from = 0;
        for (until, cached) in &words {
            if !cached.is_stop[language] {
                take(&joined[from..*until], cached.ids[language]);
            }
            from = *until;
        }
        for part in parts {
            let cached = self.cached_word(&part);
            take(&part, cached.ids[language]);
        }
        joined.clear();
        words.clear();
        (self.joined, self.words) = (joined, words);
    }

    /// The byte ranges of the words in a line that match one of these terms.
    #[must_use]
    pub fn matches(&self, line: &str, terms: &[TermId]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut start = None;
        for (at, c) in line.char_indices().chain([(line.len(), ' ')]) {
            match (c.is_alphanumeric(), start) {
                (true, None) => start = Some(at),
                (false, Some(from)) => {
                    let word = folded(&line[from..at]);
                    let ids = self
                        .cached_words
                        .get(&*word)
                        .map_or_else(|| self.stems.of(&word), |cached| cached.ids);
                    if ids.iter().any(|id| terms.contains(id)) {
                        found.push((from, at));
                    }
                    start = None;
                }
                _ => {}
            }
        }
        found
    }

    fn cached_word(&mut self, word: &str) -> CachedWord {
        if let Some(cached) = self.cached_words.get(word) {
            return *cached;
        }
        if self.cached_words.len() >= Self::MAX_WORDS {
            self.cached_words.clear();
        }
        let cached = CachedWord {
            ids: self.stems.of(word),
            is_stop: [stop::is_english(word), stop::is_french(word)],
        };
        self.cached_words.insert(word.into(), cached);
        cached
    }
}

const ENGLISH: usize = 0;
const FRENCH: usize = 1;

/// Stems single words in both languages.
struct Stems {
    english: Stemmer,
    french: Stemmer,
}

impl Stems {
    /// The terms of a folded word, in each language.
    fn of(&self, word: &str) -> [TermId; 2] {
        [hash(&self.english.stem(irregular::base(word))), hash(&self.french.stem(word))]
    }
}

impl Default for Stems {
    fn default() -> Self {
        Self {
            english: Stemmer::create(Algorithm::English),
            french: Stemmer::create(Algorithm::French),
        }
    }
}

/// Calls `take` with each run of letters and digits, including inner apostrophes.
fn each_run(text: &str, mut take: impl FnMut(&str)) {
    let mut start = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let is_word_char = if c.is_ascii() {
            c.is_ascii_alphanumeric() || (c == '\'' && continues(start, chars.peek()))
        } else {
            c.is_alphanumeric()
                || (c == '’' && continues(start, chars.peek()))
                || (start.is_some() && is_combining_mark(c))
        };
        match (is_word_char, start) {
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

/// Whether a run continues after an apostrophe.
fn continues(start: Option<usize>, next: Option<&(usize, char)>) -> bool {
    start.is_some() && next.is_some_and(|(_, next)| next.is_alphanumeric())
}

/// A folded run; borrowed if nothing changes.
fn folded(run: &str) -> Cow<'_, str> {
    let is_folded = run.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_folded { Cow::Borrowed(run) } else { Cow::Owned(fold(run)) }
}

/// Calls `take` with each folded word of a run.
fn each_word(run: &str, mut take: impl FnMut(&str)) {
    let run = folded(run);
    if !run.is_ascii() && run.chars().any(is_ideograph) {
        let signs: Vec<char> = run.chars().collect();
        match signs.len() {
            1 => take(&run),
            _ => signs.windows(2).for_each(|pair| take(&pair.iter().collect::<String>())),
        }
        return;
    }
    let mut parts = run.split(['\'', '’']);
    let head = parts.next().unwrap_or(&run);
    take(head);
    if head.chars().nth(1).is_none() {
        parts.for_each(take);
    }
}

/// The parts of a name like `parseHttpRequest`; empty if there is only one.
fn camel_parts(run: &str) -> Vec<&str> {
    let mut cuts = Vec::new();
    let mut before: Option<char> = None;
    for (at, c) in run.char_indices() {
        if c.is_uppercase() && before.is_some_and(char::is_lowercase) {
            cuts.push(at);
        }
        before = Some(c);
    }
    if cuts.is_empty() {
        return Vec::new();
    }
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let part_ends = cuts.iter().copied().chain([run.len()]);
    starts
        .zip(part_ends)
        .map(|(from, until)| &run[from..until])
        .filter(|part| part.len() > 2)
        .collect()
}

/// FNV-1a. It must never change, because the numbers are stored.
fn hash(stem: &str) -> TermId {
    stem.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
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
    fn french_is_told_by_its_stop_words() {
        let words = french_words("Où est-ce que j'ai garé l'auto ?");
        assert_eq!(words.unwrap(), ["gare", "auto"]);
        for other in ["Where did I park on Sunday?", "garé auto", "On me", ""] {
            assert_eq!(french_words(other), None, "{other}");
        }
    }

    #[test]
    fn inflected_words_share_a_term() {
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
        assert!(!same("the of and", "the of and"), "stop words are not terms");
        assert!(!same("tide", "berth"));
    }
}

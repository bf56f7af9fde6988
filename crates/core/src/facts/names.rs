//! Names: runs of capitalized words, except words that are capitalized only because they start a
//! sentence.

use std::collections::HashSet;

use super::dates::is_calendar;
use super::tokens::FactToken;
use crate::sentence::is_ideograph;
use crate::word_weights::word_weight;

/// Collects names token by token.
#[derive(Debug)]
pub(super) struct Names<'a> {
    text: &'a str,
    certain: Vec<&'a str>,
    run: Option<Run>,
    maybe: Vec<(usize, &'a str)>,
}

/// A run of capitalized words, with the positions of its first, second and last word.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: usize,
    first_end: usize,
    second: usize,
    end: usize,
    words: usize,
    opens_sentence: bool,
}

/// Lower-case particles inside names.
const JOINTS: [&str; 14] =
    ["de", "du", "des", "la", "le", "of", "van", "von", "der", "di", "da", "do", "dos", "d"];

impl<'a> Names<'a> {
    /// Creates a collector for a text.
    pub(super) const fn of(text: &'a str) -> Self {
        Self { text, certain: Vec::new(), run: None, maybe: Vec::new() }
    }

    /// Adds the next token, which is not part of another fact.
    pub(super) fn take(&mut self, token: &FactToken<'a>) {
        let (skipped, word) = stripped(token.core);
        let capital = word.starts_with(char::is_uppercase) && !word.starts_with(is_ideograph);
        if !capital && self.run.is_none() {
            return;
        }
        let lower = word.to_lowercase();
        if self.run.is_some()
            && !token.opens_sentence
            && !token.is_followed_by_punctuation
            && JOINTS.contains(&lower.as_str())
        {
            return;
        }
        if !capital {
            self.end();
            return;
        }
        let is_capitalized_word =
            word.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | '&' | '\'' | '’'));
        if !is_capitalized_word
            || word.len() > 40
            || word_weight(&lower) == 0.0
            || is_calendar(&lower)
        {
            self.end();
            return;
        }
        let start = token.at + skipped;
        let end = start + word.len();
        match &mut self.run {
            Some(run) if !token.opens_sentence && run.words < 5 => {
                run.second = if run.words == 1 { start } else { run.second };
                run.end = end;
                run.words += 1;
            }
            _ => {
                self.end();
                self.run = Some(Run {
                    start,
                    first_end: end,
                    second: end,
                    end,
                    words: 1,
                    opens_sentence: token.opens_sentence,
                });
            }
        }
        if token.is_followed_by_punctuation || skipped + word.len() < token.core.len() {
            self.end();
        }
    }

    /// Ends the current name.
    pub(super) fn end(&mut self) {
        let Some(run) = self.run.take() else { return };
        let (name, first) = (&self.text[run.start..run.end], &self.text[run.start..run.first_end]);
        if name.chars().nth(1).is_none() {
            return;
        }
        match (run.opens_sentence, run.words) {
            (false, _) => self.certain.push(name),
            (true, 1) if is_acronym(name) => self.certain.push(name),
            (true, 1) => self.maybe.push((self.certain.len(), name)),
            (true, _) if word_weight(&first.to_lowercase()) < 1.0 => {
                self.certain.push(&self.text[run.second..run.end]);
            }
            (true, _) => self.certain.push(name),
        }
    }

    /// The names, in order of first mention. A word that starts a sentence counts if it is a
    /// name elsewhere.
    pub(super) fn finish(mut self) -> Vec<&'a str> {
        self.end();
        let known: HashSet<&str> = self.certain.iter().flat_map(|name| name.split(' ')).collect();
        let mut names = Vec::with_capacity(self.certain.len());
        let mut maybe = self.maybe.iter().filter(|(_, name)| known.contains(name)).peekable();
        for (index, name) in self.certain.iter().enumerate() {
            while let Some((_, early)) = maybe.next_if(|(at, _)| *at <= index) {
                names.push(*early);
            }
            names.push(*name);
        }
        names.retain(|name| !name.is_empty());
        names
    }
}

/// A word without a possessive ending and without an elided article, and the number of bytes
/// removed before it.
fn stripped(token: &str) -> (usize, &str) {
    const ELIDED: [&str; 10] = ["l'", "d'", "L'", "D'", "qu'", "l’", "d’", "L’", "D’", "qu’"];
    let word = token.strip_suffix("'s").or_else(|| token.strip_suffix("’s")).unwrap_or(token);
    let stem = ELIDED.iter().find_map(|article| word.strip_prefix(article)).unwrap_or(word);
    (word.len() - stem.len(), stem)
}

/// Whether a word is an acronym: two to eight capital letters or digits, with at least two
/// letters.
fn is_acronym(word: &str) -> bool {
    (2..=8).contains(&word.len())
        && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        && word.bytes().filter(u8::is_ascii_uppercase).count() >= 2
        && !matches!(
            word,
            "TODO" | "FIXME" | "XXX" | "NOTE" | "WARNING" | "ERROR" | "OK" | "NB" | "PS"
        )
}

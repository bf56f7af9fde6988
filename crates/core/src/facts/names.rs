//! Names: runs of capitalized words, except words that are capitalized only because they start a
//! sentence.

use std::collections::HashSet;
use std::ops::Range;

use super::dates::is_calendar;
use super::shapes::has_inner_capital;
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
    titles: Vec<Range<usize>>,
    lower: HashSet<&'a str>,
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
    pub(super) fn of(text: &'a str) -> Self {
        let titles = titles(text);
        let is_word = |word: &&str| word.starts_with(char::is_lowercase);
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(is_word);
        let lower = if titles.is_empty() { HashSet::new() } else { words.collect() };
        Self { text, certain: Vec::new(), run: None, maybe: Vec::new(), titles, lower }
    }

    /// Adds the next token, which is not part of another fact.
    pub(super) fn take(&mut self, token: &FactToken<'a>) {
        let (skipped, word) = stripped(token.core);
        let is_mixed = has_inner_capital(word);
        let capital =
            (word.starts_with(char::is_uppercase) || is_mixed) && !word.starts_with(is_ideograph);
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
        let is_capitalized_word = word
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | '&' | '\'' | '’' | '+'));
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
                    opens_sentence: token.opens_sentence && !is_mixed,
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
        if self.is_titled(&run, name) {
            return;
        }
        let is_capitalized_verb = || {
            let first = first.to_lowercase();
            word_weight(&first) < 1.0 || is_instruction(&first)
        };
        let name = match (run.opens_sentence, run.words) {
            (true, 1) if !is_acronym(name) => {
                self.maybe.push((self.certain.len(), name));
                return;
            }
            (true, 2..) if is_capitalized_verb() => &self.text[run.second..run.end],
            _ => name,
        };
        if !NOTES.contains(&name) {
            self.certain.push(name);
        }
    }

    /// Whether a name is only part of a heading: the heading capitalizes every word, and the text
    /// also has one of the name's words in lower case.
    fn is_titled(&self, run: &Run, name: &str) -> bool {
        self.titles.iter().any(|title| title.contains(&run.start))
            && name.split(|c: char| !c.is_alphanumeric()).any(|word| {
                let lower = word.to_lowercase();
                word_weight(&lower) > 0.0 && self.lower.contains(lower.as_str())
            })
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
        && !NOTES.contains(&word)
}

/// Words in capital letters that mark a note.
const NOTES: [&str; 9] = ["TODO", "FIXME", "XXX", "NOTE", "WARNING", "ERROR", "OK", "NB", "PS"];

/// Whether a lower-case word starts an instruction, such as a commit subject or a step.
fn is_instruction(word: &str) -> bool {
    INSTRUCTIONS.binary_search(&word).is_ok()
}

/// Verbs that start instructions, in byte order.
#[rustfmt::skip]
const INSTRUCTIONS: [&str; 128] = [
    "add", "adjust", "ajoute", "ajouter", "allow", "apply", "archive", "ask", "avoid", "begin", "build", "bump",
    "buy", "call", "change", "check", "choose", "clean", "click", "close", "commit", "compare", "complete",
    "configure", "confirm", "consider", "convert", "copy", "corrige", "corriger", "create", "crée", "créer",
    "define", "delete", "deploy", "describe", "disable", "document", "download", "drop", "edit", "enable",
    "enhance", "ensure", "enter", "explain", "explore", "extend", "extract", "find", "finish", "fix", "follow",
    "format", "generate", "handle", "hide", "identify", "implement", "import", "improve", "include", "initialize",
    "install", "integrate", "introduce", "join", "keep", "learn", "link", "list", "load", "log", "make", "merge",
    "migrate", "move", "open", "optimize", "organize", "plan", "practice", "prepare", "print", "provide", "push",
    "read", "refactor", "remove", "rename", "replace", "restart", "restore", "return", "revert", "review",
    "revise", "rewrite", "run", "save", "schedule", "search", "select", "send", "set", "setup", "show", "simplify",
    "skip", "solve", "sort", "split", "start", "stop", "submit", "summarize", "support", "switch", "test", "try",
    "update", "upgrade", "use", "validate", "verify", "visit", "write",
];

/// The parts of a text that capitalize every word: headings, bold labels, and labels before a
/// colon.
fn titles(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for line in text.lines() {
        let at = line.as_ptr().addr() - text.as_ptr().addr();
        let bold = line.split("**").skip(1).step_by(2);
        let label = line.split(':').next().filter(|label| label.len() < line.len());
        let heading = Some(line).filter(|line| !line.ends_with(['.', '!', '?', ',', ';', ':']));
        for part in bold.chain(label).chain(heading) {
            let from = part.as_ptr().addr() - line.as_ptr().addr();
            if is_title(part) {
                found.push(at + from..at + from + part.len());
            }
        }
    }
    found
}

/// Whether a short text capitalizes all its words except function words.
fn is_title(text: &str) -> bool {
    let words = || {
        let parts = text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’');
        parts.filter(|word| word.starts_with(char::is_alphabetic))
    };
    let is_capitalized = |word: &str| word.starts_with(char::is_uppercase);
    let is_plain = !text.contains(['"', '“', '`']) && text.len() <= 80;
    is_plain
        && words().next().is_some_and(is_capitalized)
        && words().all(|word| is_capitalized(word) || word_weight(word) == 0.0)
}

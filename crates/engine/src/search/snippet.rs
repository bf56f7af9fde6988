//! Snippets: the part of a text that shows why it was found.

use std::collections::BTreeSet;
use std::fmt;

use treering_core::Question;
use treering_core::lexicon::TermId;

/// Maximum length of a snippet, in characters.
const LONGEST: usize = 240;

/// Length of the parts in which a text is searched for a snippet, in characters.
const PART: usize = 20_000;

/// Finds the words of a line that match one of the terms.
pub(super) type Matches<'a> = dyn Fn(&str, &[TermId]) -> Vec<(usize, usize)> + 'a;

/// An excerpt of a text, with byte ranges of its matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snippet {
    /// The excerpt, on one line.
    pub text: String,
    /// The byte ranges that match: start and end.
    pub matches: Vec<(usize, usize)>,
}

impl fmt::Display for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Snippet {
    /// The part of a text that contains most of the query's words.
    pub(super) fn of(text: &str, question: &Question, matches: &Matches<'_>) -> Self {
        let BestLine { line, found, is_start, is_end, .. } = BestLine::of(text, question, matches);
        let (from, until) = window(&line, &found);
        let mut part = String::new();
        if from > 0 || !is_start {
            part.push('…');
        }
        let shift = part.len();
        part.push_str(line[from..until].trim_end());
        let end = part.len();
        if until < line.len() || !is_end {
            part.push('…');
        }
        let visible = found.iter().filter(|(start, stop)| *start >= from && *stop <= until);
        let ranges =
            visible.map(|(start, stop)| (start - from + shift, (stop - from + shift).min(end)));
        Self { matches: ranges.filter(|(start, stop)| start < stop).collect(), text: part }
    }

    /// The snippet with each match between `open` and `close`.
    #[must_use]
    pub fn marked(&self, open: &str, close: &str) -> String {
        let mut text = String::with_capacity(
            self.text.len() + self.matches.len() * (open.len() + close.len()),
        );
        let mut at = 0;
        for (start, stop) in &self.matches {
            text.push_str(&self.text[at..*start]);
            text.push_str(open);
            text.push_str(&self.text[*start..*stop]);
            text.push_str(close);
            at = *stop;
        }
        text.push_str(&self.text[at..]);
        text
    }
}

/// The part of a long text that matches a query best, on one line.
#[derive(Default)]
struct BestLine {
    line: String,
    /// The byte ranges of the matches.
    found: Vec<(usize, usize)>,
    /// The number of different words among the matches.
    words: usize,
    /// Whether it is the start, and the end, of the text.
    is_start: bool,
    is_end: bool,
}

impl BestLine {
    /// The first part that contains the most of the query's words.
    fn of(text: &str, question: &Question, matches: &Matches<'_>) -> Self {
        let terms = question.terms.iter().filter(|term| !term.is_question_word);
        let term_ids: Vec<TermId> = terms.clone().flat_map(|term| term.ids()).collect();
        let mut best: Option<Self> = None;
        let mut rest = text;
        while !rest.is_empty() && best.as_ref().is_none_or(|it| it.words < terms.clone().count()) {
            let is_start = rest.len() == text.len();
            let part = first_part(rest);
            rest = &rest[part.len()..];
            let line = part.split_whitespace().collect::<Vec<_>>().join(" ");
            let found = matches(&line, &term_ids);
            let words: BTreeSet<String> =
                found.iter().map(|(start, stop)| line[*start..*stop].to_lowercase()).collect();
            if best.as_ref().is_none_or(|it| words.len() > it.words) {
                let is_end = rest.is_empty();
                best = Some(Self { line, found, words: words.len(), is_start, is_end });
            }
        }
        best.unwrap_or_else(|| Self { is_start: true, is_end: true, ..Self::default() })
    }
}

/// The first part of a text, up to a gap between words.
fn first_part(text: &str) -> &str {
    let Some((end, _)) = text.char_indices().nth(PART) else { return text };
    let gap = text[..end].rfind(char::is_whitespace).filter(|gap| *gap > 0);
    &text[..gap.unwrap_or(end)]
}

/// The part of a line with the most matches, cut at word boundaries.
fn window(line: &str, found: &[(usize, usize)]) -> (usize, usize) {
    if line.chars().nth(LONGEST).is_none() {
        return (0, line.len());
    }
    let count = |from: usize| {
        let end = from + LONGEST;
        found.iter().filter(|(start, stop)| *start >= from && *stop <= end).count()
    };
    let starts = found.iter().map(|(start, _)| start_for(line, *start)).chain([0]);
    let from = starts.max_by_key(|from| (count(*from), usize::MAX - from)).unwrap_or(0);
    let boundary = |mut at: usize| {
        while !line.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let from = match boundary(from) {
        0 => 0,
        at if line[..at].ends_with(' ') => at,
        at => line[at..].find(' ').map_or(at, |gap| at + gap + 1),
    };
    let end = line[from..].char_indices().nth(LONGEST).map_or(line.len(), |(at, _)| from + at);
    let end = match end < line.len() {
        true => line[from..end].rfind(' ').map_or(end, |gap| from + gap),
        false => end,
    };
    (from, end)
}

/// The start of the sentence with a match, or a little before the match if the sentence is long.
fn start_for(line: &str, at: usize) -> usize {
    let marks = [". ", "! ", "? ", "… ", "。"];
    let ends = marks.iter().filter_map(|mark| Some(line[..at].rfind(mark)? + mark.len()));
    let sentence = ends.max().unwrap_or(0);
    match at - sentence <= LONGEST / 2 {
        true => sentence,
        false => at - 40,
    }
}

#[cfg(test)]
mod tests {
    use treering_core::lexicon::Lexer;

    use super::*;

    #[test]
    fn the_end_of_a_long_text_is_searched_too() {
        let question = Question::new("tannenhof port", "2026-01-01T00:00:00Z".parse().unwrap());
        let lexer = Lexer::default();
        let matches = |line: &str, terms: &[TermId]| lexer.matches(line, terms);
        let filler = "The port is open and the weather is fine. ".repeat(2000);
        let snippet = Snippet::of(&format!("{filler}Tannenhof port."), &question, &matches);
        assert!(snippet.text.starts_with('…') && snippet.text.ends_with("port."), "{snippet}");
        assert!(snippet.marked("[", "]").contains("[Tannenhof] [port]."), "{snippet}");
        let snippet = Snippet::of(&format!("Tannenhof port. {filler}"), &question, &matches);
        assert!(snippet.text.starts_with("Tannenhof port."), "{snippet}");
    }

    #[test]
    fn the_best_part_is_shown_with_its_matches() {
        let question =
            Question::new("Which ports does staging use?", "2026-01-01T00:00:00Z".parse().unwrap());
        let text = format!(
            "{} The staging\n\nport is 7410, é. {}",
            "word ".repeat(100),
            "other ".repeat(100)
        );
        let lexer = Lexer::default();
        let matches = |line: &str, terms: &[TermId]| lexer.matches(line, terms);
        let snippet = Snippet::of(&text, &question, &matches);
        let marked = snippet.marked("[", "]");
        assert!(marked.contains("The [staging] [port] is 7410, é."), "{marked}");
        let sentence =
            "After the outage of last week, Ana and Juno agreed on the staging port 7410.";
        let text = format!("{}Nothing. {sentence} {}", "word ".repeat(99), "Other. ".repeat(99));
        let snippet = Snippet::of(&text, &question, &matches);
        assert!(snippet.text.starts_with(&format!("…{sentence}")), "{snippet}");
        let long =
            format!("{} the staging port is 7410 {}", "word ".repeat(99), "word ".repeat(99));
        let marked_long = Snippet::of(&long, &question, &matches).marked("[", "]");
        assert!(marked_long.contains("the [staging] [port] is 7410"), "{marked_long}");
        assert!(marked.starts_with('…') && marked.ends_with('…'), "{marked}");
        assert_eq!(Snippet::of("short", &question, &matches).text, "short");
        assert_eq!(Snippet::of("", &question, &matches), Snippet::default());
    }
}

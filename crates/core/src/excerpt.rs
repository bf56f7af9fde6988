//! Excerpts: texts shortened to a limit, with an ellipsis for each omission.

use std::ops::Range;

use crate::lexicon::fold;
use crate::question::Question;
use crate::sentence::{SegmentKind, split};

/// Marks an omission.
pub(crate) const ELLIPSIS: &str = "…";

/// Length of the parts in which a text is searched for the sentences that match a question, in
/// bytes.
const PART: usize = 60_000;

/// The beginning of a text, at most `max_chars` characters, cut at the end of a sentence or a word.
/// A short text stays unchanged.
#[must_use]
pub fn head(text: &str, max_chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return text.to_owned() };
    let kept = &text[..end];
    let sentence = kept.rfind(['.', '!', '?', '\n']).map(|at| at + 1).filter(|at| at * 2 > end);
    let word = kept.rfind(char::is_whitespace).filter(|at| at * 2 > end);
    let kept = &kept[..sentence.or(word).unwrap_or(end)];
    format!("{} {ELLIPSIS}", kept.trim_end())
}

/// The sentences of a text that match a question best, in order, at most `max_chars` characters. A
/// short text stays unchanged; without a match, the beginning is returned.
#[must_use]
pub fn best(text: &str, question: &Question, max_chars: usize) -> String {
    if text.char_indices().nth(max_chars).is_none() {
        return text.to_owned();
    }
    let prefixes = beginnings(question);
    let Range { start, end } = best_part(text, &prefixes);
    let mut sentences: Vec<&str> = Vec::new();
    for piece in split(&text[start..end]) {
        match piece.kind {
            SegmentKind::Code => sentences.extend(piece.text.lines()),
            _ => sentences.push(piece.text.trim()),
        }
    }
    let fits: Vec<u32> = sentences.iter().map(|sentence| matches(sentence, &prefixes)).collect();
    let mut order: Vec<usize> =
        (0..sentences.len()).filter(|index| score(&fits, *index) > 0).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(score(&fits, *index)), *index));
    let mut is_selected = vec![false; sentences.len()];
    let mut remaining = max_chars;
    for index in order {
        let chars = sentences[index].chars().count() + 2;
        if chars <= remaining {
            is_selected[index] = true;
            remaining -= chars;
        }
    }
    if !is_selected.contains(&true) {
        // No sentence matches, or every matching sentence is longer than the limit.
        let fitting = (0..sentences.len()).filter(|index| fits[*index] > 0);
        let first = fitting.max_by_key(|index| (fits[*index], std::cmp::Reverse(*index)));
        return first.map_or_else(
            || head(text, max_chars),
            |index| format!("{ELLIPSIS} {}", head(sentences[index], max_chars)),
        );
    }
    joined(&sentences, &is_selected, start > 0, end < text.len())
}

/// The first part of a text that contains the most of the wanted words.
fn best_part(text: &str, prefixes: &[&str]) -> Range<usize> {
    let (mut best, mut most, mut start) = (0..0, None, 0);
    while start < text.len() && most < Some(prefixes.len() as u32) {
        let mut end = text.len().min(start + PART);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        if end < text.len() {
            let gap = text[start..end].rfind(['\n', ' ']).filter(|gap| *gap > 0);
            end = gap.map_or(end, |gap| start + gap);
        }
        let words = Some(matches(&text[start..end], prefixes));
        if words > most {
            (best, most) = (start..end, words);
        }
        start = end;
    }
    best
}

/// The value of a sentence: its own matches, and a smaller bonus for adjacent matches.
fn score(fits: &[u32], index: usize) -> u32 {
    let neighbor =
        |index: Option<usize>| index.and_then(|index| fits.get(index)).copied().unwrap_or(0);
    // A sentence after a match contains the answer more often than one before it.
    6 * fits[index] + 3 * neighbor(index.checked_sub(1)) + 2 * neighbor(Some(index + 1))
}

fn joined(sentences: &[&str], is_selected: &[bool], before: bool, after: bool) -> String {
    let mut text = String::new();
    let mut gap = before;
    for (sentence, is_selected) in sentences.iter().zip(is_selected) {
        if !is_selected {
            gap = true;
            continue;
        }
        if gap {
            text.push_str(if text.is_empty() { "… " } else { " … " });
        } else if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(sentence);
        gap = false;
    }
    if gap || after {
        text.push_str(" …");
    }
    text
}

/// The prefixes of a question's content words. Prefix matching avoids stemming a long text.
fn beginnings(question: &Question) -> Vec<&str> {
    let content_terms = question.terms.iter().filter(|term| !term.is_question_word);
    let of = |word: &str| {
        let kept = word.chars().count().saturating_sub(2).max(4);
        word.char_indices().nth(kept).map_or(word.len(), |(at, _)| at)
    };
    content_terms.map(|term| &term.word[..of(&term.word)]).collect()
}

/// The number of wanted words that a sentence contains.
fn matches(sentence: &str, prefixes: &[&str]) -> u32 {
    let mut is_matched = vec![false; prefixes.len()];
    for word in sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let folded = if word.is_ascii() { None } else { Some(fold(word)) };
        let word = folded.as_deref().unwrap_or(word).as_bytes();
        for (is_matched, prefix) in is_matched.iter_mut().zip(prefixes) {
            let head = word.get(..prefix.len());
            *is_matched = *is_matched
                || head.is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()));
        }
    }
    is_matched.iter().filter(|is_matched| **is_matched).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str) -> Question {
        Question::new(text, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_head_ends_with_a_sentence_or_a_word() {
        assert_eq!(head("short", 10), "short");
        assert_eq!(head("One is here. Two is there. Three.", 28), "One is here. Two is there. …");
        assert_eq!(head("a long line without any end to it", 20), "a long line without …");
        assert_eq!(head(&"é".repeat(30), 10), format!("{} …", "é".repeat(10)));
    }

    #[test]
    fn the_best_part_answers_the_question() {
        let filler = "The weather was fine and nothing happened. ".repeat(20);
        let text = format!("{filler}Staging uses port 7410. It was changed in March. {filler}");
        let part = best(&text, &question("Which port does staging use?"), 60);
        assert_eq!(part, "… Staging uses port 7410. It was changed in March. …");
        assert_eq!(best("As it is.", &question("port"), 60), "As it is.");
        assert!(best(&filler, &question("port"), 60).ends_with('…'));
        let text = format!("{}The port of Tannenhof is 7410.", filler.repeat(80));
        let part = best(&text, &question("Which port does Tannenhof use?"), 60);
        assert_eq!(part, "… The port of Tannenhof is 7410.", "at the end of a long text");
    }
}

//! Topics: the most frequent phrases of a conversation.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use treering_core::sentence::{self, SegmentKind};
use treering_core::word_weight;

use super::unit::SourceDocument;

/// How many topics a node has, if the source has as many content words.
pub(super) const TOPICS: RangeInclusive<usize> = 2..=4;

#[derive(Debug)]
struct Phrase {
    written: String,
    words: usize,
    count: f32,
    weight: f32,
    first: usize,
}

/// The topics as they were written, in order of first mention. The children's topics in `before`
/// count more.
pub(super) fn topics<'a>(
    document: &SourceDocument,
    before: impl Iterator<Item = &'a str>,
    is_grounded: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut phrases: HashMap<String, Phrase> = HashMap::new();
    for topic in before {
        let words: Vec<(&str, String)> =
            topic.split(' ').map(|word| (word, sentence::stem(word))).collect();
        note(&mut phrases, &words, 4.0);
    }
    let mut read = 0;
    for unit in &document.units {
        if unit.kind == SegmentKind::Code || read > 200_000 {
            continue;
        }
        read += unit.text.len();
        for clause in unit.text.split(|c: char| ".,;:!?()[]\"…/—|。、，！？".contains(c)) {
            let mut run: Vec<(&str, String)> = Vec::new();
            for word in sentence::words(clause) {
                if carries(word) {
                    run.push((word, sentence::stem(word)));
                    for length in 1..=run.len().min(3) {
                        note(&mut phrases, &run[run.len() - length..], 1.0);
                    }
                } else {
                    run.clear();
                }
            }
        }
    }
    for name in &document.names {
        for word in sentence::words(name) {
            let stem = sentence::stem(word);
            phrases.retain(|key, _| !key.split(' ').any(|part| part == stem));
        }
    }
    best(phrases, is_grounded)
}

fn best(phrases: HashMap<String, Phrase>, is_grounded: impl Fn(&str) -> bool) -> Vec<String> {
    let mut ranked: Vec<(String, f32, Phrase)> =
        phrases.into_iter().map(|(key, phrase)| (key, score(&phrase), phrase)).collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.2.first.cmp(&other.2.first)));
    let mut kept: Vec<(String, Phrase)> = Vec::new();
    for (key, score, phrase) in ranked {
        let shares = |known: &(String, Phrase)| {
            known.0.split(' ').any(|part| key.split(' ').any(|word| word == part))
        };
        if kept.len() == *TOPICS.end() || kept.len() >= *TOPICS.start() && score < 1.5 {
            break;
        }
        if !kept.iter().any(shares) && is_grounded(&phrase.written) {
            kept.push((key, phrase));
        }
    }
    kept.sort_by_key(|(_, phrase)| phrase.first);
    kept.into_iter().map(|(_, phrase)| phrase.written).collect()
}

/// Whether a word may be part of a topic.
fn carries(word: &str) -> bool {
    let lower = word.to_lowercase();
    word_weight(&lower) > 0.9
        && !word.contains(['\'', '’'])
        && word.chars().nth(2).is_some()
        && word.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
        && !word.bytes().all(|b| b.is_ascii_digit())
        && word.len() <= 32
}

fn note(phrases: &mut HashMap<String, Phrase>, words: &[(&str, String)], count: f32) {
    let key = words.iter().map(|(_, stem)| stem.as_str()).collect::<Vec<_>>().join(" ");
    if let Some(phrase) = phrases.get_mut(&key) {
        phrase.count += count;
        return;
    }
    let weight = |word: &str| if word.starts_with(char::is_uppercase) { 1.2 } else { 1.0 };
    let phrase = Phrase {
        written: words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" "),
        words: words.len(),
        count,
        weight: words.iter().map(|(word, _)| weight(word)).sum(),
        first: phrases.len(),
    };
    phrases.insert(key, phrase);
}

/// Favors frequent phrases of two words; words that end in -ing, -ed or -ly are rarely topics.
fn score(phrase: &Phrase) -> f32 {
    let verbal = ["ing", "ed", "ly"].iter().any(|ending| phrase.written.ends_with(ending));
    let repeated = (phrase.count - if phrase.words > 1 { 0.8 } else { 0.5 }).max(0.1);
    repeated
        * phrase.weight.sqrt()
        * if phrase.words == 2 { 1.4 } else { 1.0 }
        * if verbal { 0.5 } else { 1.0 }
}

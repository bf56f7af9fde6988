//! The baselines: the beginning of the text, and the sentences closest to the centroid of all
//! words.

use std::collections::{HashMap, HashSet};

use treering_core::{sentence, word_weight};

use crate::rouge::tokens;

/// The stemmed content words of a text.
pub(crate) fn content(text: &str) -> HashSet<String> {
    tokens(text).into_iter().filter(|word| word_weight(word) > 0.0).collect()
}

/// The first words.
pub(crate) fn lead(turns: &[(&str, &str)], words: usize) -> String {
    let text: Vec<String> =
        turns.iter().map(|(author, text)| format!("{author}: {text}")).collect();
    text.join(" ").split_whitespace().take(words).collect::<Vec<_>>().join(" ")
}

/// The first whole sentences within a number of characters.
pub(crate) fn lead_chars(turns: &[(&str, &str)], chars: usize) -> String {
    let sentences = sentences(turns);
    let mut used = 0;
    let fitting = sentences.iter().take_while(|(_, sentence)| {
        used += sentence.chars().count() + 1;
        used <= chars
    });
    fitting.map(|(_, sentence)| *sentence).collect::<Vec<_>>().join(" ")
}

/// The most central sentences with their speakers, up to a number of words.
pub(crate) fn centroid(turns: &[(&str, &str)], words: usize) -> String {
    let sentences = sentences(turns);
    let mut chosen = Vec::new();
    let mut used = 0;
    for index in ranked(&sentences) {
        if used >= words {
            break;
        }
        used += sentences[index].1.split_whitespace().count() + 1;
        chosen.push(index);
    }
    chosen.sort_unstable();
    chosen
        .iter()
        .map(|index| format!("{}: {}", sentences[*index].0, sentences[*index].1))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The most central sentences within a number of characters.
pub(crate) fn centroid_chars(turns: &[(&str, &str)], chars: usize) -> String {
    let sentences = sentences(turns);
    let mut chosen = Vec::new();
    let mut used = 0;
    for index in ranked(&sentences) {
        let size = sentences[index].1.chars().count() + 1;
        if used + size <= chars {
            used += size;
            chosen.push(index);
        }
    }
    chosen.sort_unstable();
    chosen.iter().map(|index| sentences[*index].1).collect::<Vec<_>>().join(" ")
}

fn sentences<'a>(turns: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    turns
        .iter()
        .flat_map(|(author, text)| {
            sentence::split(text).into_iter().map(move |piece| (*author, piece.text))
        })
        .collect()
}

/// Sentences ranked by their cosine similarity to the sum of all.
fn ranked(sentences: &[(&str, &str)]) -> Vec<usize> {
    let words: Vec<Vec<String>> = sentences
        .iter()
        .map(|(_, text)| tokens(text).into_iter().filter(|word| word_weight(word) > 0.0).collect())
        .collect();
    let mut center: HashMap<&str, f64> = HashMap::new();
    for word in words.iter().flatten() {
        *center.entry(word).or_default() += 1.0;
    }
    let score = |words: &Vec<String>| {
        let mut counts: HashMap<&str, f64> = HashMap::new();
        for word in words {
            *counts.entry(word).or_default() += 1.0;
        }
        let norm = counts.values().map(|count| count * count).sum::<f64>().sqrt().max(1.0);
        let mut shares: Vec<f64> =
            counts.iter().map(|(word, count)| count * center[word]).collect();
        shares.sort_by(f64::total_cmp);
        shares.iter().sum::<f64>() / norm
    };
    let scores: Vec<f64> = words.iter().map(score).collect();
    let mut order: Vec<usize> = (0..sentences.len()).collect();
    order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]).then(one.cmp(other)));
    order
}

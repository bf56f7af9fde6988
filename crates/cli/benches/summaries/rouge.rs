//! ROUGE-1, ROUGE-2 and ROUGE-L as F1 with one reference: lowercase letters and digits, with
//! Porter stems for words of more than three letters.

use std::collections::HashMap;
use std::hash::Hash;

use crate::stemmer::stem;

/// The three scores of a summary, from 0 to 1.
pub(crate) fn scores(reference: &str, summary: &str) -> [f64; 3] {
    let (reference, summary) = (tokens(reference), tokens(summary));
    let pairs = |tokens: &[String]| tokens.windows(2).map(<[String]>::to_vec).collect::<Vec<_>>();
    let longest = common_sequence(&reference, &summary);
    [
        shared(&reference, &summary),
        shared(&pairs(&reference), &pairs(&summary)),
        f1(longest, reference.len(), summary.len()),
    ]
}

/// The stemmed tokens of a text.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit()));
    words
        .filter(|word| !word.is_empty())
        .map(|word| if word.len() > 3 { stem(word) } else { word.to_owned() })
        .collect()
}

fn f1(common: usize, reference: usize, summary: usize) -> f64 {
    if common == 0 { 0.0 } else { 2.0 * common as f64 / (reference + summary) as f64 }
}

fn shared<T: Hash + Eq>(reference: &[T], summary: &[T]) -> f64 {
    let mut counts: HashMap<&T, usize> = HashMap::new();
    for item in reference {
        *counts.entry(item).or_default() += 1;
    }
    let mut common = 0;
    for item in summary {
        if let Some(left) = counts.get_mut(item).filter(|left| **left > 0) {
            *left -= 1;
            common += 1;
        }
    }
    f1(common, reference.len(), summary.len())
}

fn common_sequence(one: &[String], other: &[String]) -> usize {
    let mut row = vec![0; other.len() + 1];
    for word in one {
        let mut diagonal = 0;
        for (column, candidate) in other.iter().enumerate() {
            let above = row[column + 1];
            row[column + 1] = if word == candidate { diagonal + 1 } else { above.max(row[column]) };
            diagonal = above;
        }
    }
    row[other.len()]
}

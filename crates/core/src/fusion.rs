//! Fusion: combines many signals into one score. The signals are the text of the item, of its
//! neighbors and of its session, the author and the time. Each part is kept, so that a score
//! can be explained.
//!
//! The weights are round numbers that work for chats between people, chats with assistants, and
//! long technical turns; none is fitted to a data set.

use crate::lexicon::TermId;

/// The signals of an item, each from 0 to about 1, or their weights.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signals {
    /// The question's words in the item, weighted by IDF.
    pub exact_terms: f32,
    /// The question's words in the item or its neighbors, weighted by IDF.
    pub nearby_terms: f32,
    /// Semantic similarity.
    pub similarity: f32,
    /// The question's words in the same session.
    pub session: f32,
    /// Term match and semantic similarity of the level-1 node that covers the item.
    pub window: f32,
    /// The question names the author.
    pub author: f32,
    /// The asker refers to themselves, and the user wrote the item.
    pub user: f32,
    /// The question is about the assistant's answers, and the assistant wrote the item.
    pub assistant: f32,
    /// The item is from the time that the question names.
    pub time: f32,
    /// The message before the item asks the question.
    pub answer: f32,
    /// The item states a general preference or rule.
    pub standing_instruction: f32,
}

/// The weight of each signal.
pub(crate) const WEIGHTS: Signals = Signals {
    exact_terms: 0.4,
    nearby_terms: 0.5,
    similarity: 0.6,
    session: 0.1,
    window: 0.1,
    author: 0.15,
    user: 0.4,
    assistant: 0.4,
    time: 0.25,
    answer: 0.3,
    standing_instruction: 0.1,
};

impl Signals {
    /// The weighted parts of the score, by name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f32); 11] {
        [
            ("words", WEIGHTS.exact_terms * self.exact_terms),
            ("nearby words", WEIGHTS.nearby_terms * self.nearby_terms),
            ("similarity", WEIGHTS.similarity * self.similarity),
            ("session", WEIGHTS.session * self.session),
            ("window", WEIGHTS.window * self.window),
            ("author", WEIGHTS.author * self.author),
            ("user", WEIGHTS.user * self.user),
            ("assistant", WEIGHTS.assistant * self.assistant),
            ("time", WEIGHTS.time * self.time),
            ("answer", WEIGHTS.answer * self.answer),
            ("instruction", WEIGHTS.standing_instruction * self.standing_instruction),
        ]
    }

    /// The score.
    #[must_use]
    pub fn score(&self) -> f32 {
        self.parts().iter().map(|(_, part)| part).sum()
    }
}

/// A score in percent. Scores are not calibrated and may exceed 1; the best one then counts as
/// 100 %.
#[must_use]
pub fn relevance_percent(score: f32, best: f32) -> u32 {
    ((score / best.max(1.0)).clamp(0.0, 1.0) * 100.0).round() as u32
}

/// The inverse document frequency of a term that occurs in `holding` of `items` items.
#[must_use]
pub fn idf(items: u32, holding: u32) -> f32 {
    let (items, holding) = (f64::from(items), f64::from(holding));
    (1.0 + (items - holding + 0.5).max(0.0) / (holding + 0.5)).ln() as f32
}

/// Whether more than half of the items contain a term. An unrestricted search does not scan the
/// posting list of such a term.
#[must_use]
pub const fn is_common(items: u32, holding: u32) -> bool {
    holding > items / 2 && items > 100
}

/// Whether more than three quarters of the items contain a term, so that it distinguishes
/// nothing.
#[must_use]
pub(crate) const fn is_everywhere(items: u32, holding: u32) -> bool {
    holding > items / 4 * 3 && items > 100
}

/// The weights of a question's terms; they sum to one. Question words and ubiquitous words have
/// no weight, unless there are no others.
#[must_use]
pub fn term_weights(terms: &[(TermId, bool)], items: u32, holding: &[u32]) -> Vec<f32> {
    let rare: Vec<f32> = holding.iter().map(|holding| idf(items, *holding)).collect();
    let counts = |(index, rare): (usize, &f32)| {
        if terms[index].1 || is_everywhere(items, holding[index]) { 0.0 } else { *rare }
    };
    let mut weights: Vec<f32> = rare.iter().enumerate().map(counts).collect();
    if weights.iter().sum::<f32>() <= 0.0 {
        weights = rare;
    }
    let sum = weights.iter().sum::<f32>().max(1e-9);
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}

/// The weight of a matching term in an item with this many words; lower in long items. It is
/// BM25 with k1 = 0.5 and b = 0.5 for a term frequency of one.
#[must_use]
pub fn length_norm(words: u32) -> f32 {
    const MEAN_WORDS: f32 = 75.0;
    1.5 / (1.25 + 0.25 * words as f32 / MEAN_WORDS)
}

/// The proximity of two items this many characters apart, from 1 down to 0.
#[must_use]
pub fn proximity(chars: f32) -> f32 {
    (-chars / 1200.0).exp()
}

/// How likely an item of this length is an answer to the message before it.
#[must_use]
pub fn brevity(chars: u32) -> f32 {
    (-(chars as f32) / 600.0).exp()
}

/// The BM25 score of a term in a session: `holding` of its `size` items contain the term;
/// `mean` is the average size.
#[must_use]
pub fn session_bm25(holding: u32, size: u32, mean: f32) -> f32 {
    let (holding, k) = (holding as f32, 1.2 * (0.25 + 0.75 * size as f32 / mean.max(1e-6)));
    holding * 2.2 / (holding + k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_count_more_and_asking_words_nothing() {
        let weights = term_weights(&[(1, false), (2, false), (3, true)], 100, &[1, 50, 2]);
        assert!(weights[0] > weights[1] && weights[2] == 0.0);
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        let everywhere = term_weights(&[(1, false), (2, false)], 1000, &[3, 751]);
        assert_eq!(everywhere, [1.0, 0.0]);
        assert_eq!(term_weights(&[(2, false)], 1000, &[751]), [1.0], "the only term");
        let only_asking = term_weights(&[(3, true)], 100, &[2]);
        assert!((only_asking[0] - 1.0).abs() < 1e-5, "the only term");
        assert_eq!(term_weights(&[], 100, &[]), Vec::<f32>::new());
    }

    #[test]
    fn the_parts_add_up() {
        let signals =
            Signals { exact_terms: 0.5, similarity: 0.25, time: 1.0, ..Signals::default() };
        let score = signals.score();
        assert!((score - (0.2 + 0.15 + 0.25)).abs() < 1e-6);
    }
}

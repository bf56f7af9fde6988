//! Fusion: combines many signals into one score. The signals are the text of the item, of its
//! neighbors and of its episode, the author and the time. Each part is kept, so that a score
//! can be explained.
//!
//! The weights are round numbers that work for chats between people, chats with assistants, and
//! long technical turns; none is fitted to a data set. The score is a logistic function of the
//! weighted sum, so that one threshold means the same for every question.

/// Hits below this score are not returned unless the query asks for them.
pub const MIN_SCORE: f32 = 0.02;

/// Hits below this score are marked as weak: a memory that cannot answer the question returns
/// such hits as often as one that can.
pub const WEAK_BELOW: f32 = 0.5;

/// The signals of an item, each from 0 to about 1, or their weights.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signals {
    /// The quoted phrases, names and numbers of the question in the item, as they were typed.
    pub as_typed: f32,
    /// The question's words in the item, weighted by IDF.
    pub exact_terms: f32,
    /// The question's words in the item or its neighbors, weighted by IDF.
    pub nearby_terms: f32,
    /// Semantic similarity.
    pub similarity: f32,
    /// The question's words in the same episode.
    pub episode: f32,
    /// Term match and semantic similarity of the level-1 node that covers the item.
    pub window: f32,
    /// The question names the author.
    pub author: f32,
    /// −1 if the asker refers to themselves, and the user did not write the item.
    pub user: f32,
    /// −1 if the question is about the assistant's answers, and the user wrote the item.
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
    as_typed: 1.0,
    exact_terms: 0.4,
    nearby_terms: 0.5,
    similarity: 0.6,
    episode: 0.1,
    window: 0.1,
    author: 0.15,
    user: 0.4,
    assistant: 0.4,
    time: 0.25,
    answer: 0.3,
    standing_instruction: 0.1,
};

impl Signals {
    /// The weighted signals, by name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f32); 12] {
        [
            ("as typed", WEIGHTS.as_typed * self.as_typed),
            ("words", WEIGHTS.exact_terms * self.exact_terms),
            ("nearby words", WEIGHTS.nearby_terms * self.nearby_terms),
            ("similarity", WEIGHTS.similarity * self.similarity),
            ("episode", WEIGHTS.episode * self.episode),
            ("window", WEIGHTS.window * self.window),
            ("author", WEIGHTS.author * self.author),
            ("user", WEIGHTS.user * self.user),
            ("assistant", WEIGHTS.assistant * self.assistant),
            ("time", WEIGHTS.time * self.time),
            ("answer", WEIGHTS.answer * self.answer),
            ("instruction", WEIGHTS.standing_instruction * self.standing_instruction),
        ]
    }

    /// The sum of the weighted signals, which ranks the hits.
    #[must_use]
    pub fn sum(&self) -> f32 {
        self.parts().iter().map(|(_, part)| part).sum()
    }

    /// The score, from 0 to 1: a logistic function of the sum. The slope and the middle were
    /// fitted to the best hits of questions with and without an answer (`tools/calibrate`), and
    /// rounded.
    #[must_use]
    pub fn score(&self) -> f32 {
        const SLOPE: f32 = 10.0;
        const MIDDLE: f32 = 0.55;
        1.0 / (1.0 + (-SLOPE * (self.sum() - MIDDLE)).exp())
    }
}

/// A score in percent.
#[must_use]
pub fn percent(score: f32) -> u32 {
    (score.clamp(0.0, 1.0) * 100.0).round() as u32
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

/// Whether at most one percent of the items contain a term. Long texts contain common words by
/// chance, but not such a term.
#[must_use]
pub const fn is_rare(items: u32, holding: u32) -> bool {
    holding <= 1 || holding <= items / 100
}

/// The weights of a question's terms, given the share of its IDF that each term counts; they sum
/// to one. Ubiquitous words have no weight, unless there are no others.
#[must_use]
pub fn term_weights(shares: &[f32], items: u32, holding: &[u32]) -> Vec<f32> {
    let weight = |(share, holding): (&f32, &u32)| share * idf(items, *holding);
    let mut weights: Vec<f32> = shares
        .iter()
        .zip(holding)
        .map(|term| if is_everywhere(items, *term.1) { 0.0 } else { weight(term) })
        .collect();
    if weights.iter().sum::<f32>() <= 0.0 {
        weights = shares.iter().zip(holding).map(weight).collect();
    }
    let sum = weights.iter().sum::<f32>().max(1e-9);
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}

/// The weight of a matching term in an item with this many words; lower in long items. It is
/// BM25 with k1 = 0.5 and b = 0.5 for a term frequency of one. The lower bound keeps a very long
/// item that contains every term above the minimum score. A rare term has at least the weight 1, see
/// [`rare_term_bonus`].
#[must_use]
pub fn length_norm(words: u32) -> f32 {
    const MEAN_WORDS: f32 = 75.0;
    const LEAST: f32 = 0.4;
    (1.5 / (1.25 + 0.25 * words as f32 / MEAN_WORDS)).max(LEAST)
}

/// The weight that a matching rare term has in addition to [`length_norm`], so that it counts in a
/// long item as in one of mean length.
#[must_use]
pub fn rare_term_bonus(length_norm: f32) -> f32 {
    (1.0 - length_norm).max(0.0)
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

/// The BM25 score of a term in an episode: `holding` of its `size` items contain the term;
/// `mean` is the average size.
#[must_use]
pub fn episode_bm25(holding: u32, size: u32, mean: f32) -> f32 {
    let (holding, k) = (holding as f32, 1.2 * (0.25 + 0.75 * size as f32 / mean.max(1e-6)));
    holding * 2.2 / (holding + k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_count_more_and_asking_words_less() {
        let weights = term_weights(&[1.0, 1.0, 0.25], 100, &[1, 50, 1]);
        assert!(weights[0] > weights[1]);
        assert!((weights[2] - weights[0] / 4.0).abs() < 1e-6);
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        assert_eq!(term_weights(&[1.0, 1.0], 1000, &[3, 751]), [1.0, 0.0]);
        assert_eq!(term_weights(&[1.0], 1000, &[751]), [1.0], "the only term");
        assert_eq!(term_weights(&[], 100, &[]), Vec::<f32>::new());
    }

    #[test]
    fn the_score_is_a_share_that_grows_with_the_sum() {
        let signals =
            Signals { exact_terms: 0.5, similarity: 0.25, time: 1.0, ..Signals::default() };
        assert!((signals.sum() - (0.2 + 0.15 + 0.25)).abs() < 1e-6);
        let score = |sum: f32| Signals { as_typed: sum, ..Signals::default() }.score();
        assert!((score(0.55) - WEAK_BELOW).abs() < 1e-6);
        assert!(score(0.0) < MIN_SCORE && score(0.0) > 0.0);
        assert!(score(1.0) > 0.98 && score(3.0) <= 1.0);
        assert_eq!((percent(0.0), percent(0.128), percent(1.0)), (0, 13, 100));
    }

    #[test]
    fn a_rare_word_counts_the_same_however_long_the_item_is() {
        for words in [75, 300, 10_000] {
            let norm = length_norm(words);
            assert!((norm + rare_term_bonus(norm) - 1.0).abs() < 1e-6, "{words}");
        }
        assert!(rare_term_bonus(length_norm(10)) == 0.0);
        assert!(is_rare(10, 1) && !is_rare(10, 2) && is_rare(1000, 10) && !is_rare(1000, 11));
    }

    #[test]
    fn a_word_in_a_very_long_item_is_a_hit() {
        let own = length_norm(50_000);
        let signals =
            Signals { exact_terms: own, nearby_terms: own, similarity: -0.1, ..Signals::default() };
        assert!(signals.score() > MIN_SCORE, "{}", signals.score());
    }
}

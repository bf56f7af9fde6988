//! Fusion: one score from many signals. What is said, near by and in the same sitting; who says
//! it; when. Each part is kept, so that a score can be explained.
//!
//! The weights are round numbers that hold for chats between people, with assistants, and for long
//! technical turns alike; nothing is learnt from a data set.

use crate::lexicon::TermId;

/// What each signal says about an item, from 0 to about 1; or how much each of them counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signals {
    /// The question's words that the item holds, by how rare they are.
    pub exact_terms: f32,
    /// The same, where a word may also stand in an item near by.
    pub nearby_terms: f32,
    /// Likeness in meaning.
    pub similarity: f32,
    /// The question's words in the same sitting.
    pub session: f32,
    /// What the node over it says and means.
    pub window: f32,
    /// The question names the author.
    pub author: f32,
    /// The asker speaks of themselves, and the user said it.
    pub user: f32,
    /// The question is about what the assistant said, and the assistant said it.
    pub assistant: f32,
    /// It was said at the time the question names.
    pub time: f32,
    /// What comes before asks about it.
    pub answer: f32,
    /// It tells how things should always be done.
    pub standing_instruction: f32,
}

/// How much each signal counts, everywhere.
pub const WEIGHTS: Signals = Signals {
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
    /// The parts of the score, by name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f32); 11] {
        [
            ("own words", WEIGHTS.exact_terms * self.exact_terms),
            ("words near by", WEIGHTS.nearby_terms * self.nearby_terms),
            ("meaning", WEIGHTS.similarity * self.similarity),
            ("sitting", WEIGHTS.session * self.session),
            ("window", WEIGHTS.window * self.window),
            ("author", WEIGHTS.author * self.author),
            ("user", WEIGHTS.user * self.user),
            ("assistant", WEIGHTS.assistant * self.assistant),
            ("time", WEIGHTS.time * self.time),
            ("answer", WEIGHTS.answer * self.answer),
            ("wish", WEIGHTS.standing_instruction * self.standing_instruction),
        ]
    }

    /// The score.
    #[must_use]
    pub fn score(&self) -> f32 {
        self.parts().iter().map(|(_, part)| part).sum()
    }
}

/// How much a term counts, among `items` of which `holding` hold it.
#[must_use]
pub fn idf(items: u32, holding: u32) -> f32 {
    let (items, holding) = (f64::from(items), f64::from(holding));
    (1.0 + (items - holding + 0.5).max(0.0) / (holding + 0.5)).ln() as f32
}

/// Whether a term that `holding` of `items` hold is so common that looking at all of them is not worth it
/// where everything is searched: half of them hold it.
#[must_use]
pub const fn is_common(items: u32, holding: u32) -> bool {
    holding > items / 2 && items > 100
}

/// Whether a term that `holding` of `items` hold tells nothing apart: more than three quarters of them do.
#[must_use]
pub const fn is_everywhere(items: u32, holding: u32) -> bool {
    holding > items / 4 * 3 && items > 100
}

/// The weights of a question's terms, adding up to one. Words that only ask, and words that are
/// everywhere, count nothing, unless there are no others.
#[must_use]
pub fn term_weights(terms: &[(TermId, bool)], items: u32, holding: &[u32]) -> Vec<f32> {
    let rare: Vec<f32> = holding.iter().map(|holding| idf(items, *holding)).collect();
    let counts = |(place, rare): (usize, &f32)| {
        if terms[place].1 || is_everywhere(items, holding[place]) { 0.0 } else { *rare }
    };
    let mut weights: Vec<f32> = rare.iter().enumerate().map(counts).collect();
    if weights.iter().sum::<f32>() <= 0.0 {
        weights = rare;
    }
    let sum = weights.iter().sum::<f32>().max(1e-9);
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}

/// How much a term that is there counts in an item of so many words: less in long ones. It is the part of BM25
/// (k1 and b 0.5) that a term has which stands there once.
#[must_use]
pub fn length_norm(words: u32) -> f32 {
    const MIDDLING: f32 = 75.0;
    1.5 / (1.25 + 0.25 * words as f32 / MIDDLING)
}

/// How near two items are that are so many characters apart, from 1 down to 0.
#[must_use]
pub fn proximity(chars: f32) -> f32 {
    (-chars / 1200.0).exp()
}

/// How far an item of so many characters can be the answer to what comes before it.
#[must_use]
pub fn brevity(chars: u32) -> f32 {
    (-(chars as f32) / 600.0).exp()
}

/// BM25 of a sitting: `holding` of its items hold the term, of `size`; `mean` is the usual size.
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
        assert_eq!(term_weights(&[(2, false)], 1000, &[751]), [1.0], "better than nothing");
        let only_asking = term_weights(&[(3, true)], 100, &[2]);
        assert!((only_asking[0] - 1.0).abs() < 1e-5, "better than nothing");
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

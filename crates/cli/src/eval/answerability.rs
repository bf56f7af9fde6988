//! Measures whether scores tell questions that a history can answer from those that it cannot.

use treering_core::fusion::{MIN_SCORE, WEAK_BELOW};
use treering_engine::Hit;

/// The best scores of questions with and without an answer.
#[derive(Debug, Default)]
pub(crate) struct Answerability {
    answerable: QuestionCounts,
    unanswerable: QuestionCounts,
    /// Answerable questions whose evidence is among the first ten hits without a minimum score.
    found: u32,
    /// Questions whose evidence was found, but all of it below the minimum score.
    lost: u32,
}

#[derive(Debug, Default)]
struct QuestionCounts {
    all: u32,
    nothing: u32,
    weak: u32,
}

impl QuestionCounts {
    fn add(&mut self, best: f32) {
        self.all += 1;
        self.nothing += u32::from(best < MIN_SCORE);
        self.weak += u32::from(best < WEAK_BELOW);
    }

    fn percent(&self, count: u32) -> f64 {
        100.0 * f64::from(count) / f64::from(self.all.max(1))
    }
}

impl Answerability {
    /// Counts a question with its hits, best first, and whether each of the first ten is evidence.
    pub(super) fn add_answerable(&mut self, hits: &[Hit], is_evidence: &[bool]) {
        self.answerable.add(best_score(hits));
        let mut scores =
            hits.iter().zip(is_evidence).filter(|(_, is)| **is).map(|(hit, _)| hit.score);
        let best = scores.clone().fold(0.0, f32::max);
        if scores.next().is_some() {
            self.found += 1;
            self.lost += u32::from(best < MIN_SCORE);
        }
    }

    pub(super) fn add_unanswerable(&mut self, hits: &[Hit]) {
        self.unanswerable.add(best_score(hits));
    }

    /// The share of unanswerable questions that find nothing, and that find nothing or weak hits
    /// only; the share of answerable ones that find weak hits only, and that lose their evidence.
    /// All in percent.
    pub(crate) fn percents(&self) -> [f64; 4] {
        let (yes, no) = (&self.answerable, &self.unanswerable);
        let lost = 100.0 * f64::from(self.lost) / f64::from(self.found.max(1));
        [no.percent(no.nothing), no.percent(no.weak), yes.percent(yes.weak), lost]
    }
}

/// The score of the best hit.
pub(super) fn best_score(hits: &[Hit]) -> f32 {
    hits.iter().map(|hit| hit.score).fold(0.0, f32::max)
}

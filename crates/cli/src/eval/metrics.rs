//! Retrieval metrics: recall, share of complete evidence, and nDCG.

/// The unit of a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RankedUnit {
    /// Turns.
    Turn,
    /// Sessions, each ranked by its best turn.
    Session,
}

impl RankedUnit {
    /// The name in reports.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Session => "session",
        }
    }
}

/// Metrics summed over questions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct MetricSums {
    /// The number of questions.
    pub(crate) questions: u32,
    recall: [f64; 4],
    all: f64,
    ndcg: f64,
}

/// The ranks at which recall is measured.
const CUTS: [usize; 4] = [1, 5, 10, 20];

impl MetricSums {
    pub(super) fn add(&mut self, ranked: &[&str], gold: &[String]) {
        let mut distinct: Vec<&String> = gold.iter().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let is_gold = |id: &&str| distinct.iter().any(|gold| gold.as_str() == *id);
        let hits: Vec<usize> =
            ranked.iter().enumerate().filter(|(_, id)| is_gold(id)).map(|(rank, _)| rank).collect();
        let hits_within = |cut: usize| hits.iter().filter(|rank| **rank < cut).count();
        let gold_count = distinct.len() as f64;
        self.questions += 1;
        for (sum, cut) in self.recall.iter_mut().zip(CUTS) {
            *sum += hits_within(cut) as f64 / gold_count;
        }
        self.all += f64::from(u8::from(hits_within(5) == distinct.len()));
        let gain = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
        let ideal: f64 = (0..distinct.len().min(10)).map(gain).sum();
        self.ndcg +=
            hits.iter().filter(|rank| **rank < 10).map(|rank| gain(*rank)).sum::<f64>() / ideal;
    }

    /// Recall at 1, 5, 10 and 20, the share of questions with all evidence in the top five, and
    /// nDCG at 10; all in percent.
    #[must_use]
    pub(crate) fn percents(&self) -> [f64; 6] {
        let mean = |sum: f64| 100.0 * sum / f64::from(self.questions.max(1));
        let [one, five, ten, twenty] = self.recall.map(mean);
        [one, five, ten, twenty, mean(self.all), mean(self.ndcg)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_match_the_reference_scorer() {
        let mut figures = MetricSums::default();
        figures.add(&["b", "a", "x", "c"], &["a".into(), "c".into(), "d".into(), "a".into()]);
        let [one, five, ten, _, all, ndcg] = figures.percents();
        assert!(one.abs() < 1e-9 && all.abs() < 1e-9);
        assert!((five - 200.0 / 3.0).abs() < 1e-9 && (ten - five).abs() < 1e-9);
        let ideal = 1.0 + 1.0 / 3_f64.log2() + 0.5;
        let expected = 100.0 * (1.0 / 3_f64.log2() + 1.0 / 5_f64.log2()) / ideal;
        assert!((ndcg - expected).abs() < 1e-9, "{ndcg} {expected}");
    }
}

//! Semantic ranking: by the similarity of embeddings alone.

use treering_core::fusion::Signals;

use super::filter::Filter;
use super::index::ItemIndex;
use super::rank::{RankedItem, by_meaning, by_score};
use super::scan::QuantizedQuery;

/// The items whose embeddings are nearest to that of the query by cosine, nearest first. The words
/// of the query do not count, and neither does the mean of the memory, so that a score means the
/// same in a small memory and in a large one.
pub(super) fn rank_by_similarity(
    index: &ItemIndex,
    vector: &[f32],
    filter: &Filter,
    limit: usize,
) -> Vec<RankedItem> {
    if filter.matches_nothing || limit == 0 || index.items.is_empty() {
        return Vec::new();
    }
    let meaning = QuantizedQuery::of(vector);
    let nearest = by_meaning(index, &meaning, filter, limit.saturating_mul(2));
    let similarity = |item: u32| (item, index.vectors.similarity(item, &meaning));
    let mut scored: Vec<(u32, f32)> = nearest.into_iter().map(similarity).collect();
    scored.retain(|(_, similarity)| *similarity > 0.0);
    scored.sort_unstable_by(|a, b| by_score(index, *a, *b));
    let ranked = scored.into_iter().map(|(item, similarity)| RankedItem {
        item,
        signals: Signals { similarity, ..Signals::default() },
        has_literal_terms: false,
    });
    ranked.collect()
}

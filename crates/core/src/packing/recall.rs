//! Recalling: which originals come back for a question. They are quotations: the cut goes on
//! telling what they are taken from, so that it stays the same whatever is asked.

use std::collections::BTreeMap;

use super::{Forest, Item, PackReason, Piece};

/// Something that may come back.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// What it is. Its costs are asked for when they are needed; those here are a first guess.
    pub piece: Piece,
    /// How well it fits.
    pub score: f32,
    /// Its place among the hits, from 0; of the hit it stands next to.
    pub rank: u32,
    /// Whether it fits the question itself, or only stands next to what does.
    pub reason: PackReason,
    /// The day it was said on: a run of hits is within one day.
    pub day: i64,
}

/// What telling a hit whole is worth beside telling its best part.
const WHOLE: f64 = 0.3;
/// What a neighbour is worth beside the hit.
const NEIGHBOUR: f64 = 0.12;

/// What is recalled, how many hits had no room, and what it costs.
pub(super) struct Recalled {
    pub(super) items: Vec<Item>,
    pub(super) left_out: u32,
    pub(super) cost: u32,
}

/// Takes hits while there is room, the best first: each with its best part, then whole, then with
/// what stands next to it; at most `limit` hits.
pub(super) fn recall<F: Forest>(
    forest: &mut F,
    candidates: &[Candidate],
    limit: usize,
    room: u32,
) -> Recalled {
    let mut steps = Vec::new();
    for (place, candidate) in candidates.iter().enumerate() {
        let near = 1.0 / (1.0 + f64::from(candidate.rank));
        let worth = if candidate.reason == PackReason::Hit { 1.0 } else { NEIGHBOUR };
        for (number, (grain, guess)) in candidate.piece.costs.iter().enumerate() {
            let gain = near * worth * if number == 0 { 1.0 } else { WHOLE };
            steps.push((gain, place, *grain, *guess));
        }
    }
    steps.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let run = forest.cost_of_run();
    let mut taken: Vec<Option<Item>> = vec![None; candidates.len()];
    // What is said about where its run begins, for each that began one.
    let mut heads = vec![0; candidates.len()];
    let mut days: BTreeMap<u32, i64> = BTreeMap::new();
    let (mut cost, mut hits) = (0, 0);
    for (_, place, grain, guess) in steps {
        let candidate = &candidates[place];
        let before = taken[place].as_ref().map_or(0, |item| item.cost);
        let (is_hit, is_finer) = (candidate.reason == PackReason::Hit, taken[place].is_some());
        let is_first = grain == candidate.piece.costs[0].0;
        // A guess may be too high, if another tokenizer made it; it is not that far off.
        let hopeless = cost + guess / 2 > room + before;
        if hopeless || is_finer == is_first || is_hit && is_first && hits >= limit {
            continue;
        }
        let (from, until) = candidate.piece.span();
        let is_beside = |idx: u32| days.get(&idx) == Some(&candidate.day);
        if is_first && !is_beside(from.wrapping_sub(1)) && !is_beside(until) {
            heads[place] = run;
        }
        let own = forest.cost_of_hit(candidate, grain) + heads[place];
        if cost + own > room + before {
            continue;
        }
        cost = cost + own - before;
        days.extend((from..until).map(|idx| (idx, candidate.day)));
        hits += usize::from(is_hit && is_first);
        let Piece { key, from, until, .. } = candidate.piece;
        let (reason, score) = (candidate.reason, candidate.score);
        taken[place] = Some(Item { key, from, until, grain, reason, score, cost: own });
    }
    let all = candidates.iter().filter(|candidate| candidate.reason == PackReason::Hit).count();
    let mut items: Vec<Item> = taken.into_iter().flatten().collect();
    items.sort_by_key(|item| (item.from, item.until));
    Recalled { items, left_out: u32::try_from(all - hits).unwrap_or(u32::MAX), cost }
}

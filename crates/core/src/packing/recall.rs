//! Recall: selects the messages and nodes that match a question. They are quoted in addition to
//! the cut, which therefore stays the same for every question.

use std::collections::BTreeMap;

use super::{BlockStyle, DetailLevel, HeaderStyle, PackReason, PackedItem, Piece, PieceSource};

/// A candidate for recall.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallCandidate {
    /// The piece. Its costs are estimates; the exact costs are computed on demand.
    pub piece: Piece,
    /// The match score.
    pub score: f32,
    /// The rank among the hits, from 0; a neighbor has the rank of its hit.
    pub rank: u32,
    /// Whether it is a hit or the neighbor of one.
    pub reason: PackReason,
    /// The day of the message.
    pub day: i64,
    /// The style of its block.
    pub style: BlockStyle,
}

/// The maximum numbers of hits.
pub(super) struct HitLimits<'a> {
    /// In total.
    pub(super) all: usize,
    /// Of each level, from 0; a level beyond the list has the last quota. No quotas if empty.
    pub(super) quotas: &'a [u32],
}

impl HitLimits<'_> {
    fn allow(&self, level: u8, taken: &[usize]) -> bool {
        let place = usize::from(level).min(self.quotas.len().saturating_sub(1));
        let of_level = taken.get(usize::from(level)).copied().unwrap_or(0);
        let quota = self.quotas.get(place).map_or(usize::MAX, |quota| *quota as usize);
        taken.iter().sum::<usize>() < self.all && of_level < quota
    }
}

/// The size in tokens up to which rendering a hit whole is not penalized.
const WHOLE: f64 = 400.0;
/// The value of a neighbor relative to its hit.
const NEIGHBOR: f64 = 0.05;

/// The recalled items, the number of hits that did not fit, and the cost.
pub(super) struct RecallResult {
    pub(super) items: Vec<PackedItem>,
    pub(super) left_out: u32,
    pub(super) cost: u32,
}

/// Takes hits within the limits while there is room, best first: each with its best part, then
/// whole, then with its neighbors. A neighbor is taken only beside a hit that is taken.
pub(super) fn recall<S: PieceSource>(
    source: &mut S,
    candidates: &[RecallCandidate],
    limits: &HitLimits<'_>,
    room: u32,
) -> RecallResult {
    let mut steps = Vec::new();
    for (place, candidate) in candidates.iter().enumerate() {
        let near = 1.0 / (1.0 + f64::from(candidate.rank));
        let worth = if candidate.reason == PackReason::Hit { 1.0 } else { NEIGHBOR };
        for (number, (detail, guess)) in candidate.piece.costs.iter().enumerate() {
            let share = if number == 0 { 1.0 } else { (WHOLE / f64::from(*guess)).min(1.0) };
            let gain = near * worth * share;
            steps.push((gain, place, *detail, *guess));
        }
    }
    steps.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut taken =
        RecallSet { candidates, by_idx: BTreeMap::new(), items: vec![None; candidates.len()] };
    let (mut cost, mut hits) = (0, vec![0; usize::from(u8::MAX) + 1]);
    for (_, place, detail, guess) in steps {
        let candidate = &candidates[place];
        let before = taken.items[place].as_ref().map_or(0, |item| item.cost);
        let (is_hit, is_finer) =
            (candidate.reason == PackReason::Hit, taken.items[place].is_some());
        let is_first = detail == candidate.piece.costs[0].0;
        // The estimate may come from another tokenizer; assume that it is at most twice the
        // real cost.
        let hopeless = cost + guess / 2 > room + before;
        let level = candidate.piece.key.level();
        let is_allowed = match is_hit {
            true => !is_first || limits.allow(level, &hits),
            false => taken.has_hit_beside(place),
        };
        if hopeless || is_finer == is_first || !is_allowed {
            continue;
        }
        let own = source.cost_of_hit(candidate, detail, taken.lead(place));
        // The next item may need a shorter header now.
        let next = if is_first { taken.next(place) } else { None };
        let next = next.map(|(next, detail, was)| {
            let lead = lead(&candidates[place], &candidates[next]);
            (next, source.cost_of_hit(&candidates[next], detail, lead).min(was), was)
        });
        let saved = next.map_or(0, |(_, less, was)| was - less);
        if cost + own > room + before + saved {
            continue;
        }
        cost = cost + own - before - saved;
        hits[usize::from(level)] += usize::from(is_hit && is_first);
        if let Some((next, less, _)) = next
            && let Some(item) = &mut taken.items[next]
        {
            item.cost = less;
        }
        taken.put(place, detail, own);
    }
    let taken = taken.items;
    let all = candidates.iter().filter(|candidate| candidate.reason == PackReason::Hit).count();
    let mut items: Vec<PackedItem> = taken.into_iter().flatten().collect();
    items.sort_by_key(|item| (item.from, item.until));
    let left_out = all - hits.iter().sum::<usize>();
    RecallResult { items, left_out: u32::try_from(left_out).unwrap_or(u32::MAX), cost }
}

/// The candidates taken so far.
struct RecallSet<'a> {
    candidates: &'a [RecallCandidate],
    /// The index of each candidate by its message number.
    by_idx: BTreeMap<u32, usize>,
    items: Vec<Option<PackedItem>>,
}

impl RecallSet<'_> {
    fn put(&mut self, place: usize, detail: DetailLevel, cost: u32) {
        let candidate = &self.candidates[place];
        let item = PackedItem::of(&candidate.piece, (detail, cost), candidate.reason);
        self.by_idx.insert(item.from.idx.0, place);
        self.items[place] = Some(PackedItem { score: candidate.score, ..item });
    }

    /// Whether the message before or after a candidate is a hit that is taken.
    fn has_hit_beside(&self, place: usize) -> bool {
        let idx = self.candidates[place].piece.from.idx.0;
        let beside = [idx.checked_sub(1), Some(idx + 1)].into_iter().flatten();
        let mut taken = beside.filter_map(|idx| self.by_idx.get(&idx));
        taken.any(|place| self.candidates[*place].reason == PackReason::Hit)
    }

    /// The header of a candidate, given the item taken before it.
    fn lead(&self, place: usize) -> HeaderStyle {
        let it = &self.candidates[place];
        let before = self.by_idx.range(..it.piece.from.idx.0).next_back();
        before.map_or(HeaderStyle::Day, |(_, before)| lead(&self.candidates[*before], it))
    }

    /// The next item taken after this one, with its detail level and cost.
    fn next(&self, place: usize) -> Option<(usize, DetailLevel, u32)> {
        let from = self.candidates[place].piece.from.idx.0;
        let (_, next) = self.by_idx.range(from + 1..).next()?;
        self.items[*next].as_ref().map(|item| (*next, item.detail_level, item.cost))
    }
}

/// The header of a hit, given the one before it.
fn lead(before: &RecallCandidate, it: &RecallCandidate) -> HeaderStyle {
    match (before.day == it.day, before.piece.span().1 == it.piece.span().0) {
        (true, true) => HeaderStyle::None,
        (true, false) => HeaderStyle::Number,
        (false, _) => HeaderStyle::Day,
    }
}

//! The cut: an antichain through the tree that covers the whole history. It starts with the
//! coarsest complete cover and is refined, best gain first, while there is room.
//!
//! The cut does not depend on the question. It is recomputed only when the history has grown by
//! the slack; until then, messages are appended and nothing else changes, so that a model's
//! prompt cache stays valid.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{
    DetailLevel, Omission, PackReason, PackedItem, Piece, PieceKey, PieceSource, SkipReason,
};

/// The split of a budget between the cut and the recall, and within the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetSplit {
    /// The size up to which the cut is refined.
    pub target: u32,
    /// The maximum size of the coarsest complete cover.
    pub most: u32,
    /// The part of the cut reserved for the latest messages.
    pub recent: u32,
    /// The part of the cut reserved for messages that arrive before it is recomputed.
    pub slack: u32,
}

/// The share of the budget for the refined cut if there is a question.
const TARGET: f64 = 0.25;
/// The maximum share of the budget for a complete cover if there is a question.
const MOST: f64 = 0.3;

impl BudgetSplit {
    /// Splits a budget. `whole` is the cost of the whole history, verbatim.
    #[must_use]
    pub fn new(budget: u32, recent: u32, asked: bool, whole: u64) -> Self {
        let share = |of: f64| (f64::from(budget) * of) as u32;
        let fits = whole + u64::from(slack_of(budget)) <= u64::from(budget);
        let (target, most) = match asked && !fits {
            true => (share(TARGET), share(MOST)),
            false => (budget, budget),
        };
        Self { target, most, recent: recent.min(target / 2), slack: slack_of(target) }
    }
}

/// The largest power of two that is at most a twelfth of the target, so that similar budgets
/// have the same slack.
fn slack_of(target: u32) -> u32 {
    (target / 12).checked_ilog2().map_or(0, |power| 1 << power)
}

/// The end of the stable prefix: the first message at which the history reached a multiple of
/// the slack. Takes the total size and the message sizes from the latest back. The end stays
/// the same until the history reaches the next multiple.
#[must_use]
pub fn stable_prefix_end(
    end: u32,
    total: u64,
    sizes: impl Iterator<Item = u32>,
    slack: u32,
) -> u32 {
    let Some(line) = total.checked_div(slack.into()).map(|steps| steps * u64::from(slack)) else {
        return end;
    };
    let (mut place, mut before) = (end, total);
    for size in sizes {
        let earlier = before.saturating_sub(size.into());
        if earlier < line || place == 0 {
            break;
        }
        (place, before) = (place - 1, earlier);
    }
    place
}

/// The distance from the end of the history, in tokens, up to which the gain hardly falls.
const NEAR: f64 = 512.0;

/// A piece that is, was or may become part of the cut.
struct CutEntry {
    piece: Piece,
    /// The index into the piece's costs; `None` while it is not in the cut.
    detail: Option<usize>,
    reason: PackReason,
    /// Tokens of the messages after the piece.
    distance: u64,
}

impl CutEntry {
    fn cost(&self) -> u32 {
        self.detail.map_or(0, |detail| self.piece.costs[detail].1)
    }
}

/// A step that refines the cut at one entry.
struct Refinement {
    gain: f64,
    slot: usize,
    expands: bool,
}

impl PartialEq for Refinement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Refinement {}
impl PartialOrd for Refinement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Refinement {
    fn cmp(&self, other: &Self) -> Ordering {
        // Ties go to the step that became possible first, so that the order is total.
        self.gain
            .total_cmp(&other.gain)
            .then(other.slot.cmp(&self.slot))
            .then(other.expands.cmp(&self.expands))
    }
}

/// The cut, its omissions and its cost.
pub(super) struct Cut {
    pub(super) items: Vec<PackedItem>,
    pub(super) left_out: Vec<Omission>,
    pub(super) cost: u32,
}

pub(super) fn cut<S: PieceSource>(
    source: &mut S,
    allotment: &BudgetSplit,
) -> Result<Cut, S::Error> {
    let mut fresh = source.recent_tail()?;
    let mut fresh_cost = fresh.iter().map(whole_cost).sum::<u32>();
    if fresh_cost > allotment.slack {
        // The tail costs more as rendered than the split estimated.
        source.merge_tail();
        (fresh, fresh_cost) = (Vec::new(), 0);
    }
    let mut cutter = Cutter {
        slots: Vec::new(),
        steps: BinaryHeap::new(),
        used: 0,
        target: allotment.target.saturating_sub(allotment.slack),
        most: allotment.most.saturating_sub(allotment.slack),
        recent: allotment.recent,
    };
    cutter.cover(source.roots()?);
    cutter.refine(source)?;
    let (mut items, left_out) = cutter.finish();
    let whole = |piece: &Piece| {
        let cost = piece.costs.last().copied().unwrap_or((DetailLevel::Text, 0));
        PackedItem::of(piece, cost, PackReason::Recent)
    };
    items.extend(fresh.iter().map(whole));
    let cost = items.iter().map(|item| item.cost).sum();
    debug_assert!(cost >= fresh_cost);
    Ok(Cut { items, left_out, cost })
}

fn whole_cost(piece: &Piece) -> u32 {
    piece.costs.last().map_or(0, |(_, cost)| *cost)
}

struct Cutter {
    slots: Vec<CutEntry>,
    steps: BinaryHeap<Refinement>,
    used: u32,
    target: u32,
    most: u32,
    recent: u32,
}

impl Cutter {
    /// Places the coarsest complete cover, within the available room: the latest messages
    /// first, then a mention of every node, latest first, then messages that no node covers.
    fn cover(&mut self, roots: Vec<Piece>) {
        let mut distance = 0;
        for piece in roots.into_iter().rev() {
            let weight = u64::from(piece.weight);
            let reason = match piece.key {
                PieceKey::Node(..) => PackReason::Cover,
                PieceKey::Turn(_) | PieceKey::Message(_) => PackReason::Unsummarised,
            };
            self.slots.push(CutEntry { piece, detail: None, reason, distance });
            distance += weight;
        }
        let is_message = |slot: &CutEntry| matches!(slot.piece.key, PieceKey::Message(_));
        let tail = self.slots.iter().take_while(|slot| is_message(slot)).count();
        let mut late = 0;
        for slot in 0..tail {
            let whole = whole_cost(&self.slots[slot].piece);
            let fits = self.used + whole <= self.recent || slot == 0 && whole <= self.target / 2;
            if !fits {
                break;
            }
            self.place(slot, self.slots[slot].piece.costs.len() - 1);
            self.slots[slot].reason = PackReason::Recent;
            late = slot + 1;
        }
        let nodes = (tail..self.slots.len())
            .filter(|slot| !is_message(&self.slots[*slot]))
            .collect::<Vec<_>>();
        let others = (tail..self.slots.len()).filter(|slot| is_message(&self.slots[*slot]));
        let messages = (late..tail).chain(others).collect::<Vec<_>>();
        for run in [nodes, messages] {
            for slot in run {
                let fits = self.slots[slot]
                    .piece
                    .costs
                    .first()
                    .is_some_and(|(_, cost)| self.used + cost <= self.most);
                if !fits {
                    break;
                }
                self.place(slot, 0);
            }
        }
        for slot in 0..self.slots.len() {
            self.offer(slot);
        }
    }

    fn place(&mut self, slot: usize, detail: usize) {
        self.used -= self.slots[slot].cost();
        self.slots[slot].detail = Some(detail);
        self.used += self.slots[slot].cost();
    }

    /// Queues the possible refinements of an entry in the cut.
    fn offer(&mut self, slot: usize) {
        let it = &self.slots[slot];
        let Some(detail) = it.detail else { return };
        if let Some((next, _)) = it.piece.costs.get(detail + 1) {
            self.steps.push(Refinement {
                gain: gain(it, Some(*next), self.recent),
                slot,
                expands: false,
            });
        }
        let is_new = detail == 0
            || it.reason == PackReason::Refined && it.piece.costs[detail].0 == DetailLevel::Gist;
        if it.piece.min_expanded_cost.is_some() && is_new {
            self.steps.push(Refinement { gain: gain(it, None, self.recent), slot, expands: true });
        }
    }

    /// Applies the refinements, best gain first, that fit the target.
    fn refine<S: PieceSource>(&mut self, source: &mut S) -> Result<(), S::Error> {
        while let Some(step) = self.steps.pop() {
            let slot = &self.slots[step.slot];
            let Some(detail) = slot.detail else { continue };
            let rest = self.used - slot.cost();
            if !step.expands {
                let (_, cost) = slot.piece.costs[detail + 1];
                if rest + cost <= self.target {
                    self.place(step.slot, detail + 1);
                    self.offer(step.slot);
                }
                continue;
            }
            if slot.piece.min_expanded_cost.is_none_or(|least| rest + least > self.target) {
                continue;
            }
            let (key, distance) = (slot.piece.key, slot.distance);
            let below = source.below(key)?;
            let details: Vec<usize> = below.iter().map(entering_detail).collect();
            let cost: u32 =
                below.iter().zip(&details).map(|(piece, detail)| piece.costs[*detail].1).sum();
            if below.is_empty() || rest + cost > self.target {
                continue;
            }
            self.used -= self.slots[step.slot].cost();
            self.slots[step.slot].detail = None;
            self.slots[step.slot].piece.weight = 0;
            self.expand(below, &details, distance);
        }
        Ok(())
    }

    fn expand(&mut self, below: Vec<Piece>, details: &[usize], mut distance: u64) {
        for (piece, detail) in below.into_iter().zip(details).rev() {
            let weight = u64::from(piece.weight);
            let is_recent = piece.key.level() == 0 && distance + weight <= u64::from(self.recent);
            let reason = if is_recent { PackReason::Recent } else { PackReason::Refined };
            self.slots.push(CutEntry { piece, detail: None, reason, distance });
            let slot = self.slots.len() - 1;
            self.place(slot, *detail);
            self.offer(slot);
            distance += weight;
        }
    }

    fn finish(self) -> (Vec<PackedItem>, Vec<Omission>) {
        let (mut items, mut left_out) = (Vec::new(), Vec::new());
        for slot in &self.slots {
            let (from, until) = slot.piece.span();
            let Some(detail) = slot.detail else {
                // An expanded node is represented by its children.
                if slot.piece.weight > 0 || slot.piece.min_expanded_cost.is_none() {
                    left_out.push(Omission { from, until, why: SkipReason::NoRoom });
                }
                continue;
            };
            let cost = slot.piece.costs[detail];
            if slot.piece.key.level() == 0 && detail + 1 < slot.piece.costs.len() {
                left_out.push(Omission { from, until, why: SkipReason::Cut });
            }
            items.push(PackedItem::of(&slot.piece, cost, slot.reason));
        }
        items.sort_by_key(|item| (item.from, item.until));
        (items, left_out)
    }
}

/// The detail level of a piece that replaces a node: nodes enter as a gist, messages enter
/// whole.
fn entering_detail(piece: &Piece) -> usize {
    match piece.key {
        PieceKey::Turn(_) | PieceKey::Message(_) => piece.costs.len().saturating_sub(1),
        PieceKey::Node(..) => {
            let gist = piece.costs.iter().position(|(detail, _)| *detail >= DetailLevel::Gist);
            gist.unwrap_or(piece.costs.len().saturating_sub(1))
        }
    }
}

/// The gain of a step per token. It is higher near the end and at higher levels, where a token
/// covers more time. A step never gains more than a step that must precede it.
fn gain(slot: &CutEntry, to: Option<DetailLevel>, recent: u32) -> f64 {
    let level = i32::from(slot.piece.key.level());
    let height = match to {
        None => 0,
        Some(DetailLevel::Text) => 1,
        Some(DetailLevel::Gist | DetailLevel::Mention) => 2,
        // Lists only fill room that nothing else can use.
        Some(DetailLevel::Details) => -60,
    };
    if level == 1
        && to.is_none()
        && slot.distance + u64::from(slot.piece.weight) <= u64::from(recent)
    {
        return f64::MAX;
    }
    2_f64.powi(2 * (level - 1) + height) / (slot.distance as f64 + NEAR)
}

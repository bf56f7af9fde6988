//! The cut: an antichain through the tree that covers the whole history. It starts with the
//! coarsest complete cover and is refined while there is room, where a reader learns most per
//! token:
//!
//! - terms that the cut does not have yet;
//! - facts before other words;
//! - recent terms before old ones.
//!
//! Over several conversations the coarsest cover is the list of their headings, with the nodes that
//! stand for many sessions: every other node and message competes for its place.
//!
//! The cut does not depend on the question. It is recomputed only when the history has grown by
//! the slack; until then, messages are appended and nothing else changes, so that a model's
//! prompt cache stays valid.

use std::collections::{BinaryHeap, HashMap, HashSet};

use super::budget_split::BudgetSplit;
use super::refinement::{CutEntry, Refinement, StepKind};
use super::runs::MessageRuns;
use super::{
    DetailLevel, Omission, PackReason, PackedItem, Piece, PieceKey, PieceSource, SkipReason,
    WeightedTerm,
};

/// The distance from the end of the history, in tokens, up to which the gain hardly falls.
const NEAR: f64 = 512.0;
/// How fast the gain falls with the distance: the exponent of a power law.
const AGE: f64 = 0.1;
/// The share of its value that a term keeps each time it is repeated.
const AGAIN: f64 = 0.5;
/// The children of a node may cost this many times as much as the node when they replace it.
const EXPANSION: u32 = 2;

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
    let mut runs = MessageRuns::new(source.cost_of_run());
    runs.add(&fresh);
    let mut cutter = Cutter {
        runs,
        slots: Vec::new(),
        steps: BinaryHeap::new(),
        known: HashMap::new(),
        occurrences: HashMap::new(),
        parts: 0,
        round: 0,
        entries_cost: 0,
        target: allotment.target.saturating_sub(allotment.slack),
        most: allotment.most.saturating_sub(allotment.slack),
        recent: allotment.recent,
        has_headings: false,
    };
    cutter.cover(source.roots()?);
    cutter.refine(source)?;
    let (mut items, left_out, runs) = cutter.finish();
    let whole = |piece: &Piece| {
        let cost = piece.costs.last().copied().unwrap_or((DetailLevel::Text, 0));
        PackedItem::of(piece, cost, PackReason::Recent)
    };
    items.extend(fresh.iter().map(whole));
    runs.mark(&mut items);
    let cost = items.iter().map(|item| item.cost).sum();
    debug_assert!(cost >= fresh_cost);
    Ok(Cut { items, left_out, cost })
}

fn whole_cost(piece: &Piece) -> u32 {
    piece.costs.last().map_or(0, |(_, cost)| *cost)
}

struct Cutter {
    slots: Vec<CutEntry>,
    runs: MessageRuns,
    steps: BinaryHeap<Refinement>,
    /// How often the cut has each term.
    known: HashMap<u64, i32>,
    /// In how many parts of the coarsest cover each term occurs.
    occurrences: HashMap<u64, u32>,
    /// The number of those parts.
    parts: u32,
    round: usize,
    /// The cost of the entries without the headers of runs.
    entries_cost: u32,
    target: u32,
    most: u32,
    recent: u32,
    /// Whether the cover consists of the headings of conversations.
    has_headings: bool,
}

impl Cutter {
    /// Places the coarsest complete cover, within the available room: the headings of
    /// conversations or the best point of every node, latest first, after the latest messages.
    /// Messages that no node covers are refinements.
    fn cover(&mut self, roots: Vec<Piece>) {
        let mut distance = 0;
        for piece in roots.into_iter().rev() {
            let weight = u64::from(piece.weight);
            let reason = match piece.key {
                PieceKey::Heading | PieceKey::Node(..) => PackReason::Cover,
                PieceKey::Turn(_) | PieceKey::Message(_) => PackReason::Unsummarized,
            };
            self.add(piece, reason, distance);
            distance += weight;
        }
        self.count_terms();
        let is_heading = |slot: &CutEntry| slot.piece.key == PieceKey::Heading;
        for slot in 0..self.slots.len() {
            if is_heading(&self.slots[slot]) {
                self.has_headings = true;
                self.place(slot, 0);
            }
        }
        for slot in 0..self.slots.len() {
            let Piece { is_required, costs, .. } = &self.slots[slot].piece;
            let first = costs.first().map(|(_, cost)| *cost).filter(|_| *is_required);
            if first.is_some_and(|cost| self.used() + cost <= self.most) {
                self.place(slot, 0);
            }
        }
        let is_message = |slot: &CutEntry| matches!(slot.piece.key, PieceKey::Message(_));
        let tail = self.slots.iter().take_while(|slot| is_message(slot)).count();
        let mut latest = 0;
        while latest < tail {
            let whole = whole_cost(&self.slots[latest].piece);
            let used = self.used_with(latest, whole);
            let fits = used <= self.recent || latest == 0 && whole <= self.target / 2;
            if !fits {
                break;
            }
            self.place_recent(latest, self.slots[latest].piece.costs.len() - 1);
            latest += 1;
        }
        let left = self.recent.saturating_sub(self.used());
        for slot in tail..self.slots.len() {
            let first = self.slots[slot].piece.costs.first().map(|(_, cost)| *cost);
            if self.has_headings || is_message(&self.slots[slot]) {
                continue;
            }
            if first.is_none_or(|cost| self.used() + cost > self.most) {
                break;
            }
            self.place(slot, 0);
        }
        if latest < tail {
            self.place_beginning(latest, left);
        }
        for slot in 0..self.slots.len() {
            self.offer(slot);
        }
    }

    /// Shows the beginning of the latest message that does not fit whole, in the room left for the
    /// latest messages.
    fn place_beginning(&mut self, slot: usize, left: u32) {
        let fits = |(_, cost): &(DetailLevel, u32)| {
            *cost <= left && self.used_with(slot, *cost) <= self.most
        };
        if let Some(detail) = self.slots[slot].piece.costs.iter().rposition(fits) {
            self.place_recent(slot, detail);
        }
    }

    fn place_recent(&mut self, slot: usize, detail: usize) {
        self.place(slot, detail);
        self.slots[slot].reason = PackReason::Recent;
    }

    /// Counts the terms of the coarsest cover: the rarer a term, the more a reader learns from it.
    fn count_terms(&mut self) {
        for slot in &self.slots {
            for level in 0..slot.piece.costs.len() {
                let terms = slot.piece.information.added(level);
                self.parts += u32::from(!terms.is_empty());
                terms.iter().for_each(|(term, _)| *self.occurrences.entry(*term).or_default() += 1);
            }
        }
    }

    /// The value of a term that the cut has a number of times already.
    fn value_of(&self, (term, weight): &WeightedTerm, times: i32) -> f64 {
        let occurrences = self.occurrences.get(term).copied().unwrap_or(1);
        let rarity = (1.0 + f64::from(self.parts) / f64::from(occurrences)).ln();
        f64::from(*weight) * rarity * AGAIN.powi(times.max(0))
    }

    fn add(&mut self, piece: Piece, reason: PackReason, distance: u64) -> usize {
        self.slots.push(CutEntry { piece, detail: None, reason, distance, is_expanded: false });
        self.slots.len() - 1
    }

    /// Shows an entry at a detail level, or removes it from the cut.
    fn set(&mut self, slot: usize, detail: Option<usize>) {
        let it = &mut self.slots[slot];
        let level = |detail: Option<usize>| detail.map_or(0, |detail| detail + 1);
        let (before, after) = (level(it.detail), level(detail));
        self.entries_cost -= it.cost();
        it.detail = detail;
        self.entries_cost += it.cost();
        let (changed, by) = if after > before { (before..after, 1) } else { (after..before, -1) };
        for level in changed {
            for (term, _) in it.piece.information.added(level) {
                *self.known.entry(*term).or_default() += by;
            }
        }
    }

    fn place(&mut self, slot: usize, detail: usize) {
        let it = &self.slots[slot];
        if it.detail.is_none() {
            self.runs.add(std::slice::from_ref(&it.piece));
        }
        self.set(slot, Some(detail));
        self.round += 1;
    }

    /// The cost of the cut.
    fn used(&self) -> u32 {
        self.entries_cost + self.runs.cost()
    }

    /// The cost of the cut if an entry had this cost.
    fn used_with(&self, slot: usize, cost: u32) -> u32 {
        let it = &self.slots[slot];
        let headers = match it.detail {
            Some(_) => self.runs.cost(),
            None => self.runs.cost_with(std::slice::from_ref(&it.piece)),
        };
        self.entries_cost - it.cost() + cost + headers
    }

    /// Queues the next refinement of an entry.
    fn offer(&mut self, slot: usize) {
        let it = &self.slots[slot];
        let is_node = it.piece.min_expanded_cost.is_some();
        // A node that has no room in the cover is left out as a whole.
        let is_left_out = is_node && it.detail.is_none() && !self.has_headings;
        if it.is_expanded || is_left_out {
            return;
        }
        let is_recent = it.piece.key.level() == 1
            && it.distance + u64::from(it.piece.weight) <= u64::from(self.recent);
        let kind = if is_recent { Some(StepKind::Expansion) } else { it.next_step() };
        let Some(kind) = kind else { return };
        let gain = match kind {
            // The latest messages come first.
            StepKind::Expansion if is_recent => f64::MAX,
            // An estimate, until the children are read: they say as much per token as the node.
            StepKind::Expansion => {
                let value = self.value(slot, 0..it.text_level() + 1, 1);
                self.gain_per_token(slot, value, EXPANSION * it.cost())
            }
            StepKind::Detail(next) => self.gain(slot, next),
        };
        self.steps.push(Refinement { gain, slot, kind, round: None });
    }

    /// The value of the terms of some detail levels. `own` is how often the entry has them in the
    /// cut itself.
    fn value(&self, slot: usize, levels: std::ops::Range<usize>, own: i32) -> f64 {
        let information = &self.slots[slot].piece.information;
        let terms = levels.flat_map(|level| information.added(level));
        terms
            .map(|term| self.value_of(term, self.known.get(&term.0).copied().unwrap_or(0) - own))
            .sum()
    }

    /// Gain per token of a step to `cost`. Sparse parts of the history get a bonus, old parts a
    /// discount.
    fn gain_per_token(&self, slot: usize, value: f64, cost: u32) -> f64 {
        let it = &self.slots[slot];
        let tokens = f64::from(cost.saturating_sub(it.cost()).max(1));
        let compression = f64::from(it.piece.weight.max(1)) / f64::from(cost.max(1));
        let age = (it.distance as f64 + NEAR) / NEAR;
        value / tokens * compression / age.powf(AGE)
    }

    /// The gain of a step to a finer detail level.
    fn gain(&self, slot: usize, next: usize) -> f64 {
        let it = &self.slots[slot];
        let (detail, cost) = it.piece.costs[next];
        if detail == DetailLevel::Details {
            return 0.0;
        }
        let levels = it.detail.map_or(0, |detail| detail + 1)..next + 1;
        self.gain_per_token(slot, self.value(slot, levels, 0), cost)
    }

    /// Applies the refinements, best gain first, that fit the target. Gains fall as the cut
    /// learns more, so a step is applied only if it is still the best one.
    fn refine<S: PieceSource>(&mut self, source: &mut S) -> Result<(), S::Error> {
        while let Some(step) = self.steps.pop() {
            match step.kind {
                StepKind::Detail(next) => self.refine_detail(step, next),
                StepKind::Expansion => self.refine_expansion(source, step)?,
            }
        }
        self.add_lists();
        Ok(())
    }

    /// Whether a step is no longer the best one; then it is queued again.
    fn is_overtaken(&mut self, step: &Refinement, gain: f64) -> bool {
        let is_current = step.round == Some(self.round);
        let overtaken = !is_current && self.steps.peek().is_some_and(|best| best.gain > gain);
        if overtaken {
            let Refinement { slot, kind, .. } = *step;
            self.steps.push(Refinement { gain, slot, kind, round: Some(self.round) });
        }
        overtaken
    }

    fn refine_detail(&mut self, step: Refinement, next: usize) {
        let it = &self.slots[step.slot];
        let fits = self.used_with(step.slot, it.piece.costs[next].1) <= self.target;
        if !fits || self.is_overtaken(&step, self.gain(step.slot, next)) {
            return;
        }
        self.place(step.slot, next);
        self.offer(step.slot);
    }

    /// Replaces a node by its children, if they fit and say more.
    fn refine_expansion<S: PieceSource>(
        &mut self,
        source: &mut S,
        step: Refinement,
    ) -> Result<(), S::Error> {
        let it = &self.slots[step.slot];
        let cost = it.cost();
        let room = self.target.saturating_sub(self.used() - cost);
        if it.piece.min_expanded_cost.is_none_or(|least| least > room) {
            return Ok(());
        }
        let below = source.below(&it.piece)?;
        let headers = self.runs.cost_with(&below);
        let room = self.target.saturating_sub(self.entries_cost - cost + headers);
        let details = entering_details(&below, room.min(cost.saturating_mul(EXPANSION)));
        let added: u32 =
            below.iter().zip(&details).map(|(piece, detail)| piece.costs[*detail].1).sum();
        if below.is_empty() || added > room {
            return Ok(());
        }
        let gain = match step.gain == f64::MAX {
            true => f64::MAX,
            false => self.gain_of_children(step.slot, &below, &details, added),
        };
        if gain > 0.0 && !self.is_overtaken(&step, gain) {
            self.expand(step.slot, below, &details);
        }
        Ok(())
    }

    /// The gain of replacing a node by its children: what they add beyond the node.
    fn gain_of_children(&self, slot: usize, below: &[Piece], details: &[usize], added: u32) -> f64 {
        let it = &self.slots[slot];
        let shown = it.detail.map_or(0, |detail| detail + 1);
        let own: HashSet<u64> = (0..shown)
            .flat_map(|level| it.piece.information.added(level))
            .map(|term| term.0)
            .collect();
        let lost = self.value(slot, 0..shown, 1);
        let mut seen: HashMap<u64, i32> = HashMap::new();
        let mut gained = 0.0;
        for (piece, detail) in below.iter().zip(details) {
            for term in (0..=*detail).flat_map(|level| piece.information.added(level)) {
                let times = seen.entry(term.0).or_insert_with(|| {
                    self.known.get(&term.0).copied().unwrap_or(0) - i32::from(own.contains(&term.0))
                });
                gained += self.value_of(term, *times);
                *times += 1;
            }
        }
        self.gain_per_token(slot, gained - lost, added)
    }

    fn expand(&mut self, slot: usize, below: Vec<Piece>, details: &[usize]) {
        self.set(slot, None);
        self.slots[slot].is_expanded = true;
        let mut distance = self.slots[slot].distance;
        let first = self.slots.len();
        for (piece, detail) in below.into_iter().zip(details).rev() {
            let weight = u64::from(piece.weight);
            let is_recent = piece.key.level() == 0 && distance + weight <= u64::from(self.recent);
            let reason = if is_recent { PackReason::Recent } else { PackReason::Refined };
            let child = self.add(piece, reason, distance);
            self.place(child, *detail);
            distance += weight;
        }
        for child in first..self.slots.len() {
            self.offer(child);
        }
    }

    /// Adds the lists of nodes in the room that nothing else can use.
    fn add_lists(&mut self) {
        for slot in 0..self.slots.len() {
            let it = &self.slots[slot];
            let Some(detail) = it.detail.filter(|detail| *detail >= it.text_level()) else {
                continue;
            };
            let Some((_, cost)) = it.piece.costs.get(detail + 1) else { continue };
            if self.used_with(slot, *cost) <= self.target {
                self.place(slot, detail + 1);
            }
        }
    }

    fn finish(self) -> (Vec<PackedItem>, Vec<Omission>, MessageRuns) {
        let (mut items, mut left_out) = (Vec::new(), Vec::new());
        for slot in &self.slots {
            let (from, until) = slot.piece.span();
            let Some(detail) = slot.detail else {
                // An expanded node is represented by its children.
                if !slot.is_expanded {
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
        (items, left_out, self.runs)
    }
}

/// The detail levels at which children replace their node, within a number of tokens if possible:
/// messages enter whole, nodes with as many points as fit.
fn entering_details(children: &[Piece], room: u32) -> Vec<usize> {
    let coarsest = |piece: &Piece| match piece.key {
        PieceKey::Turn(_) | PieceKey::Message(_) => piece.costs.len().saturating_sub(1),
        PieceKey::Heading | PieceKey::Node(..) => 0,
    };
    let mut details: Vec<usize> = children.iter().map(coarsest).collect();
    let cost = |(piece, detail): (&Piece, &usize)| piece.costs.get(*detail).map_or(0, |it| it.1);
    let mut used: u32 = children.iter().zip(&details).map(cost).sum();
    let mut grows = true;
    while grows {
        grows = false;
        for (piece, detail) in children.iter().zip(&mut details) {
            let next =
                piece.costs.get(*detail + 1).filter(|(level, _)| *level <= DetailLevel::Text);
            let Some((_, finer)) = next else { continue };
            let more = finer - piece.costs[*detail].1;
            if used + more <= room {
                used += more;
                *detail += 1;
                grows = true;
            }
        }
    }
    details
}

//! Properties of packing over random trees: no content appears twice, every message is covered
//! or reported as omitted, the budget holds, items are in time order, packing is deterministic,
//! and a larger budget never loses a more valuable item.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use treering_core::packing::{
    BudgetSplit, ContextPlan, DetailLevel, HeaderStyle, PackReason, PackedItem, Piece, PieceKey,
    PieceSource, Profile, RecallCandidate, Section, SectionSource, SkipReason, pack,
    stable_prefix_end,
};
use treering_core::{Level, MessageIdx, Slice, TextPosition};

/// A tree over messages, given the size of each message, the messages per window and the nodes
/// per group.
#[derive(Debug, Clone)]
struct Wood {
    sizes: Vec<u32>,
    window: usize,
    group: usize,
    settled: usize,
    hits: Vec<(usize, u32)>,
}

impl Wood {
    fn message(&self, idx: usize) -> Piece {
        let size = self.sizes[idx];
        let at = MessageIdx(idx as u32);
        let gist = (size > 60).then_some((DetailLevel::Gist, 30));
        Piece {
            key: PieceKey::Message(Slice { idx: at, from: 0, until: size }),
            from: TextPosition { idx: at, offset: 0 },
            until: TextPosition::after(at),
            weight: size,
            costs: gist.into_iter().chain([(DetailLevel::Text, size + 5)]).collect(),
            min_expanded_cost: None,
        }
    }

    fn width(&self, level: u8) -> usize {
        self.window * self.group.pow(u32::from(level) - 1)
    }

    fn node(&self, level: u8, ordinal: usize) -> Piece {
        let width = self.width(level);
        let (from, until) = (ordinal * width, (ordinal + 1) * width);
        let place = |idx: usize| TextPosition { idx: MessageIdx(idx as u32), offset: 0 };
        let weight: u32 = self.sizes[from..until].iter().sum();
        Piece {
            key: PieceKey::Node(Level::new(level).unwrap(), ordinal as u32),
            from: place(from),
            until: place(until),
            weight,
            costs: [
                (DetailLevel::Mention, 20),
                (DetailLevel::Gist, 40),
                (DetailLevel::Text, 90),
                (DetailLevel::Details, 110),
            ]
            .into_iter()
            .collect(),
            min_expanded_cost: Some(20),
        }
    }

    fn height(&self) -> u8 {
        (1..=6).rev().find(|level| self.width(*level) <= self.settled).unwrap_or(0)
    }
}

impl PieceSource for Wood {
    type Error = std::convert::Infallible;

    fn roots(&mut self) -> Result<Vec<Piece>, Self::Error> {
        let (mut at, mut roots) = (0, Vec::new());
        for level in (1..=self.height()).rev() {
            while at + self.width(level) <= self.settled {
                roots.push(self.node(level, at / self.width(level)));
                at += self.width(level);
            }
        }
        roots.extend((at..self.settled).map(|idx| self.message(idx)));
        Ok(roots)
    }

    fn recent_tail(&mut self) -> Result<Vec<Piece>, Self::Error> {
        Ok((self.settled..self.sizes.len()).map(|idx| self.message(idx)).collect())
    }

    fn merge_tail(&mut self) {
        self.settled = self.sizes.len();
    }

    fn below(&mut self, key: PieceKey) -> Result<Vec<Piece>, Self::Error> {
        let PieceKey::Node(level, ordinal) = key else { return Ok(Vec::new()) };
        let (level, ordinal) = (level.number(), ordinal as usize);
        Ok(match level {
            1 => (ordinal * self.window..(ordinal + 1) * self.window)
                .map(|idx| self.message(idx))
                .collect(),
            _ => {
                let group = self.group;
                (ordinal * group..(ordinal + 1) * group)
                    .map(|child| self.node(level - 1, child))
                    .collect()
            }
        })
    }

    fn latest(&mut self, messages: usize) -> Result<Vec<Piece>, Self::Error> {
        let from = self.sizes.len().saturating_sub(messages);
        Ok((from..self.sizes.len()).map(|idx| self.message(idx)).collect())
    }

    fn turn(&self, idx: MessageIdx) -> Option<u32> {
        Some(idx.0 / 2)
    }

    fn level(&mut self, level: Level, _: usize) -> Result<Vec<Piece>, Self::Error> {
        let nodes = self.settled / self.width(level.number());
        Ok((0..nodes).map(|ordinal| self.node(level.number(), ordinal)).collect())
    }

    fn hits(&mut self) -> Result<Vec<RecallCandidate>, Self::Error> {
        let hit = |(rank, (idx, score)): (usize, &(usize, u32))| RecallCandidate {
            piece: self.message(*idx),
            score: *score as f32,
            rank: rank as u32,
            reason: PackReason::Hit,
            day: (*idx / 10) as i64,
        };
        Ok(self.hits.iter().enumerate().map(hit).collect())
    }

    fn cost_of_hit(
        &mut self,
        hit: &RecallCandidate,
        detail: DetailLevel,
        lead: HeaderStyle,
    ) -> u32 {
        let own = hit.piece.costs.iter().find(|(its, _)| *its == detail).unwrap().1;
        own + match lead {
            HeaderStyle::None => 0,
            HeaderStyle::Number => 3,
            HeaderStyle::Day | HeaderStyle::Minute => 9,
        }
    }

    fn cost_of_run(&self) -> u32 {
        12
    }

    fn cost_of_note(&self) -> u32 {
        15
    }
}

fn woods() -> impl Strategy<Value = Wood> {
    let sizes = prop_oneof![
        3 => prop::collection::vec(prop_oneof![6 => 1_u32..60, 1 => 60_u32..400], 0..160),
        1 => prop::collection::vec(20_u32..60, 40..160),
    ];
    let hits = prop::collection::vec(any::<prop::sample::Index>(), 0..24);
    (sizes, 1_usize..6, 2_usize..4, any::<prop::sample::Index>(), hits).prop_map(
        |(sizes, window, group, settled, places)| {
            let settled = settled.index(sizes.len() + 1).max(sizes.len().saturating_sub(6));
            let mut hits: Vec<(usize, u32)> = Vec::new();
            for place in places.iter().filter(|_| !sizes.is_empty()) {
                let idx = place.index(sizes.len());
                if hits.iter().all(|(known, _)| *known != idx) {
                    hits.push((idx, 100 - hits.len() as u32));
                }
            }
            Wood { sizes, window, group, settled, hits }
        },
    )
}

/// Budgets of every size, often with room for almost nothing.
fn budgets() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 40_u32..3000, 1 => 0_u32..120]
}

fn packed(wood: &Wood, profile: &str, budget: u32) -> ContextPlan {
    let whole = wood.sizes.iter().map(|size| u64::from(size + 5)).sum();
    let allotment = BudgetSplit::new(budget, 400, !wood.hits.is_empty(), whole);
    let profile = Profile::named(profile, 400).unwrap();
    let headings = vec![4; profile.sections.len()];
    pack(&mut wood.clone(), &profile, &headings, budget, &allotment).unwrap()
}

/// The messages that the items cover, once per item.
fn covered<'a>(items: impl Iterator<Item = &'a PackedItem>) -> Vec<u32> {
    let mut covered: Vec<u32> = items.flat_map(|item| item.span().0..item.span().1).collect();
    covered.sort_unstable();
    covered
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_cut_covers_each_message_once_or_reports_it_as_left_out(wood in woods(), budget in budgets()) {
        let plan = packed(&wood, "cut", budget);
        let covered = covered(plan.sections[0].iter());
        prop_assert!(covered.windows(2).all(|pair| pair[0] < pair[1]), "nothing is said twice");
        let missing = plan.left_out.iter().filter(|it| it.why == SkipReason::NoRoom);
        let missing: Vec<u32> = missing.flat_map(|it| it.from..it.until).collect();
        if !plan.sections[0].is_empty() {
            for idx in 0..wood.sizes.len() as u32 {
                prop_assert!(covered.contains(&idx) != missing.contains(&idx), "{idx} is told or left out");
            }
        }
    }

    #[test]
    fn every_profile_keeps_to_the_budget_and_the_order_of_time(
        wood in woods(),
        budget in budgets(),
        profile in prop::sample::select(Profile::NAMES.to_vec()),
    ) {
        let plan = packed(&wood, profile, budget);
        prop_assert!(plan.cost <= budget);
        let items: u32 = plan.items().map(|item| item.cost).sum();
        prop_assert!(items <= plan.cost, "{items} {}", plan.cost);
        for section in &plan.sections {
            prop_assert!(section.is_sorted_by_key(|item| (item.from, item.until)));
        }
        prop_assert_eq!(&plan, &packed(&wood, profile, budget), "the same again");
        let quotes = |item: &&PackedItem| !matches!(item.reason, PackReason::Hit | PackReason::Neighbour);
        let covered = covered(plan.items().filter(quotes));
        prop_assert!(covered.windows(2).all(|pair| pair[0] < pair[1]), "{profile} says nothing twice");
    }

    #[test]
    fn most_of_the_budget_is_used(
        sizes in prop::collection::vec(20_u32..60, 120..200),
        window in 1_usize..4,
        group in 2_usize..4,
        budget in 1500_u32..2500,
    ) {
        let wood = Wood { settled: sizes.len(), sizes, window, group, hits: Vec::new() };
        let plan = packed(&wood, "cut", budget);
        prop_assert!(f64::from(plan.cost) >= 0.85 * f64::from(budget), "{} of {budget}", plan.cost);
    }

    /// At the first difference, in order of gain, the larger budget has more.
    #[test]
    fn more_budget_never_loses_a_hit_for_a_lesser_one(wood in woods(), budget in 50_u32..800, more in 1_u32..400) {
        let mut wood = wood;
        wood.sizes.iter_mut().for_each(|size| *size = (*size).min(59));
        let recall = Profile { name: "hits".into(), sections: vec![Section::new(SectionSource::Recall)] };
        let taken = |budget: u32| {
            let allotment = BudgetSplit::new(budget, 0, true, u64::MAX / 2);
            let plan = pack(&mut wood.clone(), &recall, &[0], budget, &allotment).unwrap();
            let has = |(idx, _): &(usize, u32)| plan.items().any(|item| item.span().0 as usize == *idx);
            wood.hits.iter().map(has).collect::<Vec<bool>>()
        };
        let (less, more) = (taken(budget), taken(budget + more));
        let first = less.iter().zip(&more).find(|(less, more)| less != more);
        prop_assert!(first.is_none_or(|(less, _)| !less), "{less:?} {more:?}");
    }

    #[test]
    fn more_budget_never_loses_a_recent_message(wood in woods(), budget in 50_u32..800, more in 1_u32..400) {
        let recent = Profile { name: "recent".into(), sections: vec![Section::new(SectionSource::Recent)] };
        let taken = |budget: u32| {
            let allotment = BudgetSplit::new(budget, 0, false, 0);
            let plan = pack(&mut wood.clone(), &recent, &[0], budget, &allotment).unwrap();
            plan.items().map(|item| (item.span().0, item.detail_level)).collect::<Vec<_>>()
        };
        let (less, more) = (taken(budget), taken(budget + more));
        for (idx, detail) in less {
            prop_assert!(more.iter().any(|(other, finer)| *other == idx && *finer >= detail), "{idx} {more:?}");
        }
    }

    #[test]
    fn the_cut_of_a_larger_budget_is_nowhere_coarser_at_the_first_difference(
        wood in woods(),
        budget in 200_u32..2000,
        more in 1_u32..600,
    ) {
        let mut wood = wood;
        (wood.settled, wood.hits) = (wood.sizes.len(), Vec::new());
        let allot = |target: u32| BudgetSplit { target, most: target, recent: 100, slack: 0 };
        let cut = |target: u32| {
            let profile = Profile::named("cut", 100).unwrap();
            pack(&mut wood.clone(), &profile, &[0, 0], target + 40, &allot(target)).unwrap()
        };
        let (less, more) = (cut(budget), cut(budget + more));
        // A complete cover stays complete, and omissions for lack of room only shrink.
        let missing = |plan: &ContextPlan| {
            let spans = plan.left_out.iter().filter(|it| it.why == SkipReason::NoRoom);
            spans.map(|it| it.until - it.from).sum::<u32>()
        };
        prop_assert!(missing(&more) <= missing(&less), "{} {}", missing(&more), missing(&less));
    }

    #[test]
    fn the_stable_prefix_grows_in_steps(sizes in prop::collection::vec(1_u32..80, 1..200), slack in 1_u32..600) {
        let ends: Vec<u32> = (0..=sizes.len())
            .map(|end| {
                let total = sizes[..end].iter().map(|size| u64::from(*size)).sum();
                stable_prefix_end(end as u32, total, sizes[..end].iter().rev().copied(), slack)
            })
            .collect();
        prop_assert!(ends.is_sorted(), "it never goes back");
        for (end, settled) in ends.iter().enumerate() {
            let since: u32 = sizes[*settled as usize..end].iter().sum();
            prop_assert!(since < slack, "what came since fits the slack");
        }
    }
}

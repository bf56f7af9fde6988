//! Properties of packing over random trees: no content appears twice, every message is covered
//! or reported as omitted, the budget holds, items are in time order, packing is deterministic,
//! and a larger budget never loses a more valuable item.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use treering_core::packing::{
    BlockStyle, BudgetSplit, ContextPlan, DetailLevel, HeaderStyle, Information, PackReason,
    PackedItem, Piece, PieceKey, PieceSource, Profile, RecallCandidate, Section, SectionSource,
    SkipReason, Strand, pack, stable_prefix_end,
};
use treering_core::{Level, MessageIdx, Slice, TextPosition, TurnNo};

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

/// A word of its own for each part of a message, one for each detail level.
fn words(parts: &[(usize, u32)]) -> Information {
    let words: Vec<String> =
        parts.iter().map(|(idx, part)| format!("message{idx}part{part}")).collect();
    Information::of(words.iter().map(|word| vec![(word.as_str(), 1.0)]))
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
            chars: size,
            costs: gist.into_iter().chain([(DetailLevel::Text, size + 5)]).collect(),
            information: words(&(0..=size / 60).map(|part| (idx, part)).collect::<Vec<_>>()),
            min_expanded_cost: None,
            is_required: false,
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
            chars: weight,
            costs: [
                (DetailLevel::Points(1), 20),
                (DetailLevel::Points(2), 40),
                (DetailLevel::Text, 90),
                (DetailLevel::Details, 110),
            ]
            .into_iter()
            .collect(),
            information: words(&[(from, 0), (from + width / 2, 0), (until - 1, 0)]),
            min_expanded_cost: Some(20),
            is_required: false,
        }
    }

    /// A turn: two messages.
    fn turn_of(&self, idx: usize) -> Piece {
        let (from, until) = (idx / 2 * 2, (idx / 2 * 2 + 2).min(self.sizes.len()));
        let size: u32 = self.sizes[from..until].iter().sum();
        let place = |idx: usize| TextPosition { idx: MessageIdx(idx as u32), offset: 0 };
        let gist = (size > 60).then_some((DetailLevel::Gist, 40));
        Piece {
            key: PieceKey::Turn(TurnNo(idx as u32 / 2)),
            from: place(from),
            until: place(until),
            weight: size,
            chars: size,
            costs: gist.into_iter().chain([(DetailLevel::Text, size + 9)]).collect(),
            information: Information::default(),
            min_expanded_cost: None,
            is_required: false,
        }
    }

    /// The nodes over a message.
    fn nodes_over(&self, idx: usize) -> Vec<Piece> {
        let levels = (1..=self.height()).filter(|level| {
            let width = self.width(*level);
            (idx / width + 1) * width <= self.settled
        });
        levels.map(|level| self.node(level, idx / self.width(level))).collect()
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

    fn below(&mut self, node: &Piece) -> Result<Vec<Piece>, Self::Error> {
        let PieceKey::Node(level, ordinal) = node.key else { return Ok(Vec::new()) };
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

    fn latest_turns(&mut self, turns: usize) -> Result<Vec<Piece>, Self::Error> {
        let all = self.sizes.len().div_ceil(2);
        Ok((all.saturating_sub(turns)..all).map(|turn| self.turn_of(2 * turn)).collect())
    }

    fn strands(
        &mut self,
        _: PieceKey,
        (from, until): (TextPosition, TextPosition),
    ) -> Result<Vec<Strand>, Self::Error> {
        Ok(vec![Strand { thread: 0, from, until }])
    }

    fn styled(&mut self, piece: Piece, _: BlockStyle) -> Piece {
        piece
    }

    fn hits(&mut self, style: BlockStyle) -> Result<Vec<RecallCandidate>, Self::Error> {
        let mut candidates: Vec<RecallCandidate> = Vec::new();
        let mut add = |piece: Piece, score: u32, rank: usize, reason: PackReason| {
            if candidates.iter().all(|it| it.piece.key != piece.key) {
                let (score, rank) = (score as f32, rank as u32);
                let day = i64::from(piece.from.idx.0 / 10);
                candidates.push(RecallCandidate { piece, score, rank, reason, day, style });
            }
        };
        for (rank, (idx, score)) in self.hits.iter().enumerate() {
            let piece = match style {
                BlockStyle::Record => self.message(*idx),
                BlockStyle::Labelled | BlockStyle::Previous => self.turn_of(*idx),
            };
            add(piece, *score, rank, PackReason::Hit);
        }
        for (rank, (idx, score)) in self.hits.iter().enumerate() {
            self.nodes_over(*idx)
                .into_iter()
                .for_each(|node| add(node, *score, rank, PackReason::Hit));
            let beside = [idx.checked_sub(1), Some(idx + 1)].into_iter().flatten();
            for next in beside.filter(|next| *next < self.sizes.len()) {
                if style == BlockStyle::Record {
                    add(self.message(next), *score, rank, PackReason::Neighbour);
                }
            }
        }
        Ok(candidates)
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
                prop_assert!(covered.contains(&idx) != missing.contains(&idx), "{idx} is shown or left out");
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
        let sections = Profile::named(profile, 400).unwrap().sections;
        for (section, items) in sections.iter().zip(&plan.sections) {
            let is_ranked = section.take.is_volatile() && section.style != BlockStyle::Record;
            match is_ranked {
                true => prop_assert!(items.is_sorted_by(|a, b| a.score >= b.score)),
                false => prop_assert!(items.is_sorted_by_key(|item| (item.from, item.until))),
            }
        }
        prop_assert_eq!(&plan, &packed(&wood, profile, budget), "the same again");
        // A hit is a quotation, and an overview may overlap.
        let told = sections.iter().zip(&plan.sections);
        let told = told.filter(|(section, _)| !section.take.is_volatile() && !section.overlap);
        let covered = covered(told.flat_map(|(_, items)| items));
        prop_assert!(covered.windows(2).all(|pair| pair[0] < pair[1]), "{profile} says nothing twice");
    }

    /// Neighbours once filled the budget although their hits were not in.
    #[test]
    fn neighbours_come_only_with_their_hit(mut wood in woods(), budget in budgets(), limit in 0_u32..6) {
        let recall = Section { limit: Some(limit), ..Section::new(SectionSource::Recall) };
        let profile = Profile { name: "hits".into(), sections: vec![recall] };
        let allotment = BudgetSplit::new(budget, 0, true, u64::MAX / 2);
        let plan = pack(&mut wood, &profile, &[0], budget, &allotment).unwrap();
        let hits: Vec<u32> =
            plan.items().filter(|it| it.reason == PackReason::Hit).map(|it| it.span().0).collect();
        prop_assert!(hits.len() <= limit as usize);
        for item in plan.items().filter(|it| it.reason == PackReason::Neighbour) {
            let idx = item.span().0;
            prop_assert!(hits.iter().any(|hit| hit.abs_diff(idx) == 1), "{idx} stands alone");
        }
    }

    /// Nodes that overlapped were once dropped together with messages that nothing else covered.
    #[test]
    fn a_node_that_overlaps_is_trimmed_and_nothing_is_lost_while_it_fits(
        wood in woods(),
        budget in budgets(),
        profile in prop::sample::select(vec!["tiered", "documentation", "frontier"]),
    ) {
        let mut wood = wood;
        wood.settled = wood.sizes.len();
        let plan = packed(&wood, profile, budget);
        let lost: u32 = plan
            .left_out
            .iter()
            .filter(|it| it.why == SkipReason::NotAskedFor)
            .map(|it| it.until - it.from)
            .sum();
        // With fewer than 2000 tokens left, `tiered` stops after level 3.
        let stops = profile == "tiered" && !plan.sections[0].is_empty();
        let free = budget - plan.cost;
        // The smallest piece costs 20 as a mention; a heading 4 and a run header 12. The
        // messages are the dearest: at most 65 without a gist, and 30 with one.
        prop_assert!(lost == 0 || stops || free < 65 + 4 + 12, "{lost} lost, {free} free");
    }

    #[test]
    fn level_three_is_where_the_seeds_put_it(
        sizes in prop::collection::vec(20_u32..60, 120..200),
        budget in 1500_u32..6000,
    ) {
        let wood = Wood { settled: sizes.len(), sizes, window: 3, group: 3, hits: Vec::new() };
        let last = wood.settled / wood.width(3) - 1;
        for profile in ["tiered", "documentation"] {
            let plan = packed(&wood, profile, budget);
            let is_top = |item: &&PackedItem| item.key == wood.node(3, last).key;
            let sections = Profile::named(profile, 400).unwrap().sections;
            let at = plan.sections.iter().position(|items| items.iter().any(|it| is_top(&it)));
            prop_assert_eq!(at.and_then(|at| sections[at].level), Some(3), "{} {}", profile, budget);
            // In `tiered`, level 2 needs 2000 tokens after the latest messages.
            let recent = plan.sections.last().unwrap().iter().map(|it| it.cost).sum::<u32>();
            let has_level_2 = plan.items().any(|it| it.key.level() == 2);
            let is_ample = profile == "documentation" || budget - recent - 4 >= 2000;
            prop_assert_eq!(has_level_2, is_ample, "{} {}", profile, budget);
        }
    }

    #[test]
    fn a_search_keeps_the_quota_of_each_level(wood in woods(), budget in budgets()) {
        let plan = packed(&wood, "semantic", budget);
        let quotas = [10, 5, 3, 1, 1, 1, 1];
        for (level, quota) in quotas.into_iter().enumerate() {
            let taken = plan.items().filter(|it| usize::from(it.key.level()) == level).count();
            prop_assert!(taken <= quota, "{taken} of level {level}");
        }
        if budget > 2900 && !wood.hits.is_empty() {
            let turns: std::collections::BTreeSet<usize> =
                wood.hits.iter().map(|(idx, _)| idx / 2).collect();
            let taken = plan.items().filter(|it| it.key.level() == 0).count();
            prop_assert!(taken > 0 && taken <= turns.len());
        }
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
        // Nodes cover every message. Messages that no node covers compete by what they say.
        wood.sizes.truncate(wood.sizes.len() / wood.window * wood.window);
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

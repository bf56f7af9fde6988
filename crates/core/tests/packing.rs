//! Properties of packing over random trees: no content appears twice, every message is covered
//! or reported as omitted, the budget holds, items are in time order, packing is deterministic,
//! and a larger budget never loses a more valuable item.

#![allow(clippy::unwrap_used)]

mod random_tree;

use proptest::prelude::*;
use random_tree::{RandomTree, packed};
use treering_core::packing::{
    BlockStyle, BudgetSplit, ContextPlan, PackReason, PackedItem, PieceKey, Profile, Section,
    SectionSource, SkipReason, pack, stable_prefix_end,
};

fn random_trees() -> impl Strategy<Value = RandomTree> {
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
            RandomTree { sizes, window, group, settled, hits }
        },
    )
}

/// Budgets of every size, often with room for almost nothing.
fn budgets() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 40_u32..3000, 1 => 0_u32..120]
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
    fn the_cut_covers_each_message_once_or_reports_it_as_left_out(tree in random_trees(), budget in budgets()) {
        let plan = packed(&tree, "cut", budget);
        let covered = covered(plan.sections[0].iter());
        prop_assert!(covered.windows(2).all(|pair| pair[0] < pair[1]), "nothing is said twice");
        let missing = plan.left_out.iter().filter(|it| it.why == SkipReason::NoRoom);
        let missing: Vec<u32> = missing.flat_map(|it| it.from..it.until).collect();
        if !plan.sections[0].is_empty() {
            for idx in 0..tree.sizes.len() as u32 {
                prop_assert!(covered.contains(&idx) != missing.contains(&idx), "{idx} is shown or left out");
            }
        }
    }

    /// A reader sees where messages are missing between two that are shown.
    #[test]
    fn a_message_without_its_predecessor_above_begins_a_run(tree in random_trees(), budget in budgets()) {
        let plan = packed(&tree, "cut", budget);
        let mut end = None;
        for item in &plan.sections[0] {
            let is_message = matches!(item.key, PieceKey::Message(_));
            prop_assert_eq!(item.begins_run, is_message && end != Some(item.from));
            end = is_message.then_some(item.until);
        }
    }

    #[test]
    fn every_profile_keeps_to_the_budget_and_the_order_of_time(
        tree in random_trees(),
        budget in budgets(),
        profile in prop::sample::select(Profile::NAMES.to_vec()),
    ) {
        let plan = packed(&tree, profile, budget);
        prop_assert!(plan.cost <= budget);
        let items: u32 = plan.items().map(|item| item.cost).sum();
        prop_assert!(items <= plan.cost, "{items} {}", plan.cost);
        let sections = Profile::named(profile, 400).unwrap().sections;
        for (section, items) in sections.iter().zip(&plan.sections) {
            let is_ranked = section.take.is_volatile() && section.style != BlockStyle::Plain;
            match is_ranked {
                true => prop_assert!(items.is_sorted_by(|a, b| a.score >= b.score)),
                false => prop_assert!(items.is_sorted_by_key(|item| (item.from, item.until))),
            }
        }
        prop_assert_eq!(&plan, &packed(&tree, profile, budget), "the same again");
        // A hit is a quotation, and an overview may overlap.
        let told = sections.iter().zip(&plan.sections);
        let told = told.filter(|(section, _)| !section.take.is_volatile() && !section.overlap);
        let covered = covered(told.flat_map(|(_, items)| items));
        prop_assert!(covered.windows(2).all(|pair| pair[0] < pair[1]), "{profile} says nothing twice");
    }

    /// Neighbors once filled the budget although their hits were not in.
    #[test]
    fn neighbors_come_only_with_their_hit(mut tree in random_trees(), budget in budgets(), limit in 0_u32..6) {
        let recall = Section { limit: Some(limit), ..Section::new(SectionSource::Recall) };
        let profile = Profile { name: "hits".into(), sections: vec![recall] };
        let allotment = BudgetSplit::new(budget, 0, true, u64::MAX / 2);
        let plan = pack(&mut tree, &profile, &[0], budget, &allotment).unwrap();
        let hits: Vec<u32> =
            plan.items().filter(|it| it.reason == PackReason::Hit).map(|it| it.span().0).collect();
        prop_assert!(hits.len() <= limit as usize);
        for item in plan.items().filter(|it| it.reason == PackReason::Neighbor) {
            let idx = item.span().0;
            prop_assert!(hits.iter().any(|hit| hit.abs_diff(idx) == 1), "{idx} stands alone");
        }
    }

    /// Nodes that overlapped were once dropped together with messages that nothing else covered.
    #[test]
    fn a_node_that_overlaps_is_trimmed_and_nothing_is_lost_while_it_fits(
        tree in random_trees(),
        budget in budgets(),
        profile in prop::sample::select(vec!["tiered", "documentation", "frontier"]),
    ) {
        let mut tree = tree;
        tree.settled = tree.sizes.len();
        let plan = packed(&tree, profile, budget);
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
        let tree = RandomTree { settled: sizes.len(), sizes, window: 3, group: 3, hits: Vec::new() };
        let last = tree.settled / tree.width(3) - 1;
        for profile in ["tiered", "documentation"] {
            let plan = packed(&tree, profile, budget);
            let is_top = |item: &&PackedItem| item.key == tree.node(3, last).key;
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
    fn a_search_keeps_the_quota_of_each_level(tree in random_trees(), budget in budgets()) {
        let plan = packed(&tree, "semantic", budget);
        let quotas = [10, 5, 3, 1, 1, 1, 1];
        for (level, quota) in quotas.into_iter().enumerate() {
            let taken = plan.items().filter(|it| usize::from(it.key.level()) == level).count();
            prop_assert!(taken <= quota, "{taken} of level {level}");
        }
        if budget > 2900 && !tree.hits.is_empty() {
            let turns: std::collections::BTreeSet<usize> =
                tree.hits.iter().map(|(idx, _)| idx / 2).collect();
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
        let tree = RandomTree { settled: sizes.len(), sizes, window, group, hits: Vec::new() };
        let plan = packed(&tree, "cut", budget);
        prop_assert!(f64::from(plan.cost) >= 0.85 * f64::from(budget), "{} of {budget}", plan.cost);
    }

    /// At the first difference, in order of gain, the larger budget has more.
    #[test]
    fn more_budget_never_loses_a_hit_for_a_lesser_one(tree in random_trees(), budget in 50_u32..800, more in 1_u32..400) {
        let mut tree = tree;
        tree.sizes.iter_mut().for_each(|size| *size = (*size).min(59));
        let recall = Profile { name: "hits".into(), sections: vec![Section::new(SectionSource::Recall)] };
        let taken = |budget: u32| {
            let allotment = BudgetSplit::new(budget, 0, true, u64::MAX / 2);
            let plan = pack(&mut tree.clone(), &recall, &[0], budget, &allotment).unwrap();
            let has = |(idx, _): &(usize, u32)| plan.items().any(|item| item.span().0 as usize == *idx);
            tree.hits.iter().map(has).collect::<Vec<bool>>()
        };
        let (less, more) = (taken(budget), taken(budget + more));
        let first = less.iter().zip(&more).find(|(less, more)| less != more);
        prop_assert!(first.is_none_or(|(less, _)| !less), "{less:?} {more:?}");
    }

    #[test]
    fn more_budget_never_loses_a_recent_message(tree in random_trees(), budget in 50_u32..800, more in 1_u32..400) {
        let recent = Profile { name: "recent".into(), sections: vec![Section::new(SectionSource::Recent)] };
        let taken = |budget: u32| {
            let allotment = BudgetSplit::new(budget, 0, false, 0);
            let plan = pack(&mut tree.clone(), &recent, &[0], budget, &allotment).unwrap();
            plan.items().map(|item| (item.span().0, item.detail_level)).collect::<Vec<_>>()
        };
        let (less, more) = (taken(budget), taken(budget + more));
        for (idx, detail) in less {
            prop_assert!(more.iter().any(|(other, finer)| *other == idx && *finer >= detail), "{idx} {more:?}");
        }
    }

    #[test]
    fn the_cut_of_a_larger_budget_is_nowhere_coarser_at_the_first_difference(
        tree in random_trees(),
        budget in 200_u32..2000,
        more in 1_u32..600,
    ) {
        let mut tree = tree;
        // Nodes cover every message. Messages that no node covers compete by what they say.
        tree.sizes.truncate(tree.sizes.len() / tree.window * tree.window);
        (tree.settled, tree.hits) = (tree.sizes.len(), Vec::new());
        let allot = |target: u32| BudgetSplit { target, most: target, recent: 100, slack: 0 };
        let cut = |target: u32| {
            let profile = Profile::named("cut", 100).unwrap();
            pack(&mut tree.clone(), &profile, &[0, 0], target + 40, &allot(target)).unwrap()
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

//! The packer over trees of any shape: the budget holds, and every message is covered at most once.
#![no_main]

#[path = "../../crates/core/tests/random_tree/mod.rs"]
mod random_tree;

use libfuzzer_sys::fuzz_target;
use treering_core::packing::Profile;
use random_tree::{RandomTree, packed};

fuzz_target!(|input: (Vec<u16>, u8, u8, u16, Vec<u16>, u16, u8)| {
    let (sizes, window, group, settled, hits, budget, profile) = input;
    let sizes: Vec<u32> = sizes.iter().take(160).map(|size| u32::from(*size) + 1).collect();
    let mut places: Vec<(usize, u32)> = Vec::new();
    for idx in hits.iter().take(24).filter_map(|hit| usize::from(*hit).checked_rem(sizes.len())) {
        if places.iter().all(|(known, _)| *known != idx) {
            places.push((idx, 100 - places.len() as u32));
        }
    }
    let tree = RandomTree {
        settled: usize::from(settled) % (sizes.len() + 1),
        window: usize::from(window % 6) + 1,
        group: usize::from(group % 3) + 2,
        sizes,
        hits: places,
    };
    let profile = Profile::NAMES[usize::from(profile) % Profile::NAMES.len()];
    let budget = u32::from(budget);
    let plan = packed(&tree, profile, budget);
    assert!(plan.cost <= budget, "{} of {budget}", plan.cost);
    if profile == "cut" {
        let cut = plan.sections[0].iter();
        let mut covered: Vec<u32> = cut.flat_map(|item| item.span().0..item.span().1).collect();
        covered.sort_unstable();
        assert!(covered.windows(2).all(|pair| pair[0] < pair[1]), "something is said twice");
    }
    assert_eq!(plan, packed(&tree, profile, budget), "packing is deterministic");
});

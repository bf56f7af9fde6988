//! Power loss: tests prove durability. Workloads run on a disk that records every write and sync;
//! then the engine opens states that a power cut could have left, with torn, lost and reordered
//! writes. In each state every acknowledged turn is intact, no append is partial, `verify` is
//! clean, and the engine accepts new turns.
//!
//! `TREERING_CRASH_STATES=10000` explores that many states and prints a table (with
//! `--nocapture`); `TREERING_CRASH_SEED` selects other states. A failing state is kept in a
//! folder, and its seed is printed.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of functions marked as tests"
)]

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod turns;
mod workloads;

use std::path::Path;

use common::assert_sound;
use treering_engine::{Engine, Query};
use treering_testkit::disk::{CrashState, explore};
use turns::{append, label, stored, transcript};
use workloads::Workload;

/// States of a default run, over all workloads.
const SHORT_RUN: usize = 420;

/// The share of the states for faults, in percent.
const FAULT_SHARE: usize = 30;

/// The share of the states for a kill after a failed sync, in percent.
const KILL_SHARE: usize = 10;

/// Marks the acknowledgement that a turn was forgotten.
const FORGOTTEN: &str = "forgotten: ";

/// States over all workloads, and whether this is the long run.
fn budget() -> (usize, bool) {
    match std::env::var("TREERING_CRASH_STATES") {
        Ok(states) => (states.parse().unwrap(), true),
        Err(_) => (SHORT_RUN, false),
    }
}

/// Explores crash states of a workload and prints a row of the table.
fn run(workload: &Workload, states: usize) {
    let check = |state: &CrashState, folder: &Path| check(workload, state, folder);
    let explored = explore(&workload.log, &workload.name, states, &check).unwrap();
    // The contents of an older store were acknowledged before the recording began.
    let older = workload.transcript.as_ref().map_or(0, Vec::len) * explored.states;
    println!(
        "{:32} {:6} states {:8} acknowledged turns checked {:6} recorded steps",
        workload.name,
        explored.states,
        explored.acknowledged + older,
        explored.entries
    );
}

/// The guarantees that hold in every crash state.
fn check(workload: &Workload, state: &CrashState, folder: &Path) {
    check_index(workload, folder);
    let engine = workload.setup.open(folder).unwrap();
    assert_sound(&engine);
    let before = contents(workload, &engine);
    if let Some(expected) = &workload.transcript {
        assert_eq!(before, *expected, "the store of the older version has lost something");
    }
    for label in &state.acknowledged {
        if let Some(forgotten) = label.strip_prefix(FORGOTTEN) {
            assert!(!before.iter().any(|it| it == forgotten), "turn {forgotten} is back");
            continue;
        }
        assert!(before.contains(label), "turn {label} was acknowledged and is lost");
    }
    let one_more = label("after", 0, 0);
    append(&engine, &one_more).unwrap();
    // Jobs that the power cut interrupted resume.
    workloads::work(&engine);
    drop(engine);
    let engine = workload.setup.open(folder).unwrap();
    let (new, old): (Vec<String>, _) =
        contents(workload, &engine).into_iter().partition(|turn| turn.contains(&one_more));
    assert!(!new.is_empty(), "the turn after the power cut is lost");
    assert_eq!(old, before);
    assert_sound(&engine);
}

/// Search finds the same with index files of any time as without them.
fn check_index(workload: &Workload, folder: &Path) {
    let search = || {
        let engine = workload.setup.open(folder).unwrap();
        let query = Query { text: "what did sealed 7 say".into(), limit: 100, ..Query::default() };
        let found = engine.search(&query).unwrap().into_iter();
        found.map(|hit| (hit.snippet.text, hit.score.to_bits())).collect::<Vec<_>>()
    };
    let expected = search();
    for index in &workload.indexes {
        workloads::copy_index(index.path(), folder);
        assert_eq!(search(), expected, "an index file of another time was used");
    }
}

/// The labels of the turns, or their full text if no workload filled the store.
fn contents(workload: &Workload, engine: &Engine) -> Vec<String> {
    match workload.transcript {
        Some(_) => transcript(engine),
        None => stored(engine).into_iter().collect(),
    }
}

#[test]
fn acknowledged_turns_survive_every_power_cut() {
    let (all_states, is_long) = budget();
    let recorded = [
        workloads::one_writer(),
        workloads::sealed_index(),
        workloads::sixteen_writers(),
        workloads::sealing(),
        workloads::overrides(),
        workloads::checkpoints(),
        workloads::import(),
        workloads::index(),
        workloads::forgetting(),
    ];
    let mut fixtures = workloads::fixtures();
    if !is_long {
        // The latest version may need no migration.
        fixtures.drain(..fixtures.len() - 2);
    }
    let migrations: Vec<Workload> =
        fixtures.iter().map(|fixture| workloads::migration(fixture)).collect();
    let states = all_states * (100 - FAULT_SHARE - KILL_SHARE) / 100;
    let of_migrations = states / 10;
    for workload in &migrations {
        run(workload, of_migrations.div_ceil(migrations.len()));
    }
    for workload in &recorded {
        run(workload, (states - of_migrations).div_ceil(recorded.len()));
    }
    if is_long {
        run(&workloads::long_log(), states / 50);
    }
}

#[test]
fn acknowledged_turns_survive_failed_writes_and_syncs() {
    let (all_states, _) = budget();
    let recorded: Vec<Workload> = faults::all().into_iter().map(faults::one_fault).collect();
    for workload in &recorded {
        run(workload, (all_states * FAULT_SHARE / 100).div_ceil(recorded.len()));
    }
}

#[test]
fn acknowledged_turns_survive_a_kill_after_a_failed_sync() {
    let (all_states, _) = budget();
    run(&faults::kill_after_failed_sync(), all_states * KILL_SHARE / 100);
}

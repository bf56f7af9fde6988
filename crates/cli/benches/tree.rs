//! Tree benchmarks: the cost of planning as a conversation grows, and the time to build a whole
//! tree with the built-in summarizer.
//!
//! `cargo bench --bench tree`

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::time::{Duration, Instant};

use treering::{
    AppendTarget, Engine, Entry, EntryBatch, JobScope, NewConversation, NewMessage, Options,
    ReplayDetection, Role, Sync, ThreadName, Worker,
};
use treering_core::ports::JobFilter;
use treering_core::{ConversationId, ExternalId, Timestamp};

/// The sample conversation, for realistic sentences.
const SAMPLE: &str = include_str!("../demo/tidewatch.jsonl");

fn main() {
    let texts = texts();
    planning(&texts);
    building(&texts);
}

/// The messages of the sample, with their roles.
fn texts() -> Vec<(Role, String)> {
    let turns = SAMPLE.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let role = line.get("role")?.as_str()?.parse().ok()?;
        Some((role, line.get("text")?.as_str()?.to_owned()))
    });
    let texts: Vec<_> = turns.filter(|(_, text)| !text.is_empty()).collect();
    assert!(texts.len() > 200, "the sample has changed: {}", texts.len());
    texts
}

fn target() -> AppendTarget {
    let external_id = Some(ExternalId::new("bench").unwrap());
    AppendTarget::FindOrCreate(NewConversation { external_id, ..NewConversation::default() })
}

fn incoming(texts: &[(Role, String)], from: usize, count: usize) -> EntryBatch {
    let entry = |number: usize| {
        let (role, text) = &texts[number % texts.len()];
        let at = Timestamp::from_micros(1_700_000_000_000_000 + number as i64 * 30_000_000);
        Entry::message(ThreadName::main(), NewMessage::new(*role, text.clone(), at))
    };
    let entries = (from..from + count).map(entry).collect();
    EntryBatch { target: target(), entries, replay_detection: ReplayDetection::None }
}

/// Appends to a conversation up to a length, one batch at a time.
fn grow(engine: &Engine, texts: &[(Role, String)], from: usize, until: usize) -> ConversationId {
    const BATCH: usize = 500;
    let mut id = None;
    for start in (from..until).step_by(BATCH) {
        let batch = incoming(texts, start, BATCH.min(until - start));
        id = Some(engine.append(batch).unwrap().conversation.id);
    }
    id.unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn open(home: &std::path::Path) -> Engine {
    treering::open_engine_with(home, Options { sync: Sync::Normal, ..Options::default() }).unwrap()
}

/// The cost of planning one more message: all reads and decisions, no writes.
fn planning(texts: &[(Role, String)]) {
    const SAMPLES: usize = 4000;
    println!("{:<44}{:>12}{:>10}{:>10}", "planning one more message", "p50", "ratio", "goal");
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    let worker = Worker::new(engine.clone()).unwrap();
    let (mut length, mut base) = (0, None);
    for goal in [1_000, 10_000, 100_000] {
        grow(&engine, texts, length, goal);
        length = goal;
        worker.run(&JobScope::default(), &|_, _| {}).unwrap();
        let times = (0..SAMPLES).map(|number| {
            let one = incoming(texts, length + number % 97, 1);
            let start = Instant::now();
            engine.preview(one).unwrap();
            start.elapsed()
        });
        let p50 = median(times.collect());
        let base = *base.get_or_insert(p50);
        let ratio = p50.as_secs_f64() / base.as_secs_f64();
        let missed = if ratio > 1.5 { "  MISSED" } else { "" };
        let label = format!("  in a conversation of {goal} messages");
        println!(
            "{label:<44}{:>9.1} µs{ratio:>10.2}{:>10}{missed}",
            p50.as_secs_f64() * 1e6,
            "≤ 1.5"
        );
    }
}

/// The time to build the tree over 100,000 messages.
fn building(texts: &[(Role, String)]) {
    const LENGTH: usize = 100_000;
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    let id = grow(&engine, texts, 0, LENGTH);
    let start = Instant::now();
    let run_report =
        Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
    let elapsed = start.elapsed();
    assert!(engine.jobs(&JobFilter::of(id)).unwrap().is_empty());
    let tree = engine.tree_stats(Some(id)).unwrap();
    let messages_per_second = LENGTH as f64 / elapsed.as_secs_f64();
    let missed = if messages_per_second < 2000.0 { "  MISSED" } else { "" };
    println!(
        "\n{:<44}{:>12}{:>10}{:>10}",
        "building the tree over 100,000 messages", "messages/s", "nodes", "goal"
    );
    println!(
        "  {:<42}{messages_per_second:>12.0}{:>10}{:>10}{missed}",
        format!("in {elapsed:.1?}"),
        run_report.done,
        "≥ 2,000"
    );
    for level in &tree.levels {
        let mean = level.took_ms as f64 / f64::from(level.nodes.max(1));
        println!(
            "  level {}: {} nodes, {:.1} ms each, {:.0} % smaller, {:.0} % of the facts kept",
            level.level,
            level.nodes,
            mean,
            (1.0 - level.chars as f64 / level.source_chars as f64) * 100.0,
            level.retained / f64::from(level.nodes.max(1)) * 100.0
        );
    }
}

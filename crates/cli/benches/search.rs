//! Search benchmarks: query latency, one-shot searches of new processes, time until a new turn is
//! found, and memory and files per item.
//!
//! `cargo bench --bench search`; `-- --million` also searches a million messages, which takes
//! minutes.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod report;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use report::{millis, row};
use treering::{
    AppendTarget, Engine, Entry, EntryBatch, NewConversation, NewMessage, Options, Query,
    ReplayDetection, Role, Sync, ThreadName,
};
use treering_core::ports::Span;
use treering_core::{ConversationId, ExternalId, MessageIdx, Timestamp};
use treering_testkit::generate::sentence;

fn main() {
    println!("{:<56}{:>12}{:>12}{:>10}", "", "measured", "goal", "");
    let home = tempfile::tempdir().unwrap();
    let engine = treering::open_engine_with(
        home.path(),
        Options { sync: Sync::Normal, ..Options::default() },
    )
    .unwrap();
    // 91 conversations, one of them with 10,000 turns.
    let long = fill(&engine, 0, 10_000);
    let others: Vec<ConversationId> = (1..=90).map(|number| fill(&engine, number, 1_000)).collect();
    // Fill the store's own cache first, because it is not part of the index.
    for id in others.into_iter().chain([long]) {
        engine.messages(id, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
    }
    let before = resident();
    let start = Instant::now();
    engine.search(&query("anything", &[])).unwrap();
    println!(
        "{:<56}{:>12}",
        "  building the index of 100,000 turns",
        format!("{:.1?}", start.elapsed())
    );
    engine.seal_index(Engine::SEAL_ITEMS).unwrap();
    let on_disk = folder_bytes(&home.path().join("index"));
    row("resident bytes per item", (resident() - before) as f64 / 100_000.0, 600.0, "bytes");
    row("bytes on disk per item", on_disk as f64 / 100_000.0, 700.0, "bytes");
    let (p50, p99) = ask(&engine, &[], 400);
    row("question of 8 words over 100,000 turns, p50", millis(p50), 2.0, "ms");
    row("question of 8 words over 100,000 turns, p99", millis(p99), 10.0, "ms");
    let (_, p99) = ask(&engine, &[long], 400);
    row("question of 8 words in a conversation of 10,000, p99", millis(p99), 3.0, "ms");
    let small = small_home();
    let (cold_small, cold) = (one_shot(small.path()), one_shot(home.path()));
    row("one-shot `treering search` over 1,000 turns", millis(cold_small), 100.0, "ms");
    row("one-shot `treering search` over 100,000 turns", millis(cold), 100.0, "ms");
    row("the same, against 1,000 turns", millis(cold) / millis(cold_small), 3.0, "times");
    let mut times: Vec<Duration> = (0..200).map(|number| found_after(&engine, number)).collect();
    times.sort_unstable();
    row("a turn is found after `append` returned, p99", millis(times[197]), 5.0, "ms");
    let mut times: Vec<Duration> = (0..8).map(|number| found_by_meaning(&engine, number)).collect();
    times.sort_unstable();
    row("a turn is found by meaning alone, slowest of 8", millis(times[7]), 20.0, "ms");
    if std::env::args().any(|arg| arg == "--million") {
        (91..=990).for_each(|number| {
            fill(&engine, number, 1_000);
        });
        engine.search(&query("anything", &[])).unwrap();
        let (p50, _) = ask(&engine, &[], 200);
        row("question of 8 words over 1,000,000 turns, p50", millis(p50), 10.0, "ms");
        engine.seal_index(Engine::SEAL_ITEMS).unwrap();
        let cold = one_shot(home.path());
        row("one-shot `treering search` over 1,000,000 turns", millis(cold), 500.0, "ms");
    }
}

/// A home with 1,000 turns.
fn small_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let engine = treering::open_engine(home.path()).unwrap();
    fill(&engine, 0, 1_000);
    engine.load_index().unwrap();
    engine.seal_index(Engine::SEAL_ITEMS).unwrap();
    home
}

/// The median wall time of the program, from its start to its end.
fn one_shot(home: &Path) -> Duration {
    let mut state = 4242;
    let mut times: Vec<Duration> = (0..15)
        .map(|_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_treering"));
            command.arg("--home").arg(home).arg("search").arg(sentence(&mut state, 8));
            let start = Instant::now();
            let output = command.output().unwrap();
            assert!(output.status.success() && !output.stdout.is_empty());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[7]
}

/// The size of the files in a folder and below it.
fn folder_bytes(folder: &Path) -> u64 {
    let size = |path: PathBuf| match path.is_dir() {
        true => folder_bytes(&path),
        false => path.metadata().unwrap().len(),
    };
    std::fs::read_dir(folder).unwrap().map(|entry| size(entry.unwrap().path())).sum()
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

fn fill(engine: &Engine, number: u64, turns: usize) -> ConversationId {
    let external_id = Some(ExternalId::new(format!("bench-{number}")).unwrap());
    let target =
        AppendTarget::FindOrCreate(NewConversation { external_id, ..NewConversation::default() });
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut id = None;
    for start in (0..turns).step_by(500) {
        let entries = (start..(start + 500).min(turns))
            .map(|turn| {
                let role = if turn % 2 == 0 { Role::User } else { Role::Assistant };
                let at = Timestamp::from_micros(1_700_000_000_000_000 + (turn as i64) * 40_000_000);
                let message = NewMessage::new(role, sentence(&mut state, 40), at);
                Entry::message(ThreadName::main(), message)
            })
            .collect();
        let incoming =
            EntryBatch { target: target.clone(), entries, replay_detection: ReplayDetection::None };
        id = Some(engine.append(incoming).unwrap().conversation.id);
    }
    id.unwrap()
}

fn query(text: &str, conversations: &[ConversationId]) -> Query {
    Query {
        text: text.to_owned(),
        conversations: conversations.to_vec(),
        limit: 10,
        ..Query::default()
    }
}

fn ask(engine: &Engine, conversations: &[ConversationId], count: usize) -> (Duration, Duration) {
    let mut state = 4242;
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let query_text = query(&sentence(&mut state, 8), conversations);
            let start = Instant::now();
            assert!(!engine.search(&query_text).unwrap().hits.is_empty());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[count / 2], times[count * 99 / 100])
}

fn found_after(engine: &Engine, number: u64) -> Duration {
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(ExternalId::new("fresh").unwrap()),
        ..NewConversation::default()
    });
    let at = Timestamp::from_micros(1_800_000_000_000_000);
    let needle = format!("needle{number}");
    let entries =
        vec![Entry::message(ThreadName::main(), NewMessage::new(Role::User, needle.clone(), at))];
    engine.append(EntryBatch { target, entries, replay_detection: ReplayDetection::None }).unwrap();
    let start = Instant::now();
    let hits = engine.search(&query(&needle, &[])).unwrap().hits;
    assert_eq!(hits[0].snippet.text, needle);
    start.elapsed()
}

/// The time until a turn is found by meaning alone: the query shares no word with it.
fn found_by_meaning(engine: &Engine, number: u64) -> Duration {
    let external_id = Some(ExternalId::new(format!("meaning-{number}")).unwrap());
    let target =
        AppendTarget::FindOrCreate(NewConversation { external_id, ..NewConversation::default() });
    let at = Timestamp::from_micros(1_800_000_000_000_000);
    let text = "The kitten slept on the couch all afternoon";
    let entries = vec![Entry::message(ThreadName::main(), NewMessage::new(Role::User, text, at))];
    let id = engine
        .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })
        .unwrap()
        .conversation
        .id;
    let start = Instant::now();
    let hits = engine.search(&query("cats napping upon sofas", &[])).unwrap().hits;
    let elapsed = start.elapsed();
    let hit = hits.iter().find(|hit| hit.conversation == id).expect("it is found");
    assert!(hit.signals.exact_terms == 0.0 && hit.signals.similarity > 0.2);
    elapsed
}

//! Search benchmarks: query latency, time until a new turn is found, and memory per item.
//!
//! `cargo bench --bench search`; `-- --million` also searches a million messages, which takes
//! minutes.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::time::{Duration, Instant};

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
    let memory = treering::open_engine_with(
        home.path(),
        Options { sync: Sync::Normal, ..Options::default() },
    )
    .unwrap();
    // 91 conversations, one of them with 10,000 turns.
    let long = fill(&memory, 0, 10_000);
    let others: Vec<ConversationId> = (1..=90).map(|number| fill(&memory, number, 1_000)).collect();
    // Fill the store's own cache first, because it is not part of the index.
    for id in others.into_iter().chain([long]) {
        memory.messages(id, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
    }
    let before = resident();
    let start = Instant::now();
    memory.search(&query("anything", &[])).unwrap();
    println!(
        "{:<56}{:>12}",
        "  building the index of 100,000 turns",
        format!("{:.1?}", start.elapsed())
    );
    row("resident bytes per item", (resident() - before) as f64 / 100_000.0, 600.0, "bytes");
    let (p50, p99) = ask(&memory, &[], 400);
    row("question of 8 words over 100,000 turns, p50", millis(p50), 2.0, "ms");
    row("question of 8 words over 100,000 turns, p99", millis(p99), 10.0, "ms");
    let (_, p99) = ask(&memory, &[long], 400);
    row("question of 8 words in a conversation of 10,000, p99", millis(p99), 3.0, "ms");
    let mut times: Vec<Duration> = (0..200).map(|number| found_after(&memory, number)).collect();
    times.sort_unstable();
    row("a turn is found after `append` returned, p99", millis(times[197]), 5.0, "ms");
    let mut times: Vec<Duration> = (0..8).map(|number| found_by_meaning(&memory, number)).collect();
    times.sort_unstable();
    row("a turn is found by meaning alone, slowest of 8", millis(times[7]), 20.0, "ms");
    if std::env::args().any(|arg| arg == "--million") {
        (91..=990).for_each(|number| {
            fill(&memory, number, 1_000);
        });
        memory.search(&query("anything", &[])).unwrap();
        let (p50, _) = ask(&memory, &[], 200);
        row("question of 8 words over 1,000,000 turns, p50", millis(p50), 10.0, "ms");
    }
}

fn row(what: &str, measured: f64, goal: f64, unit: &str) {
    let mark = if measured <= goal { "" } else { "MISSED" };
    println!(
        "  {what:<54}{:>12}{:>12}{mark:>10}",
        format!("{measured:.2} {unit}"),
        format!("≤ {goal:.0} {unit}")
    );
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

fn fill(memory: &Engine, number: u64, turns: usize) -> ConversationId {
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
                let said = NewMessage::new(role, sentence(&mut state, 40), at);
                Entry::message(ThreadName::main(), said)
            })
            .collect();
        let incoming =
            EntryBatch { target: target.clone(), entries, replay_detection: ReplayDetection::None };
        id = Some(memory.append(incoming).unwrap().conversation.id);
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

fn ask(memory: &Engine, conversations: &[ConversationId], times: usize) -> (Duration, Duration) {
    let mut state = 4242;
    let mut took: Vec<Duration> = (0..times)
        .map(|_| {
            let asked = query(&sentence(&mut state, 8), conversations);
            let start = Instant::now();
            assert!(!memory.search(&asked).unwrap().hits.is_empty());
            start.elapsed()
        })
        .collect();
    took.sort_unstable();
    (took[times / 2], took[times * 99 / 100])
}

fn found_after(memory: &Engine, number: u64) -> Duration {
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(ExternalId::new("fresh").unwrap()),
        ..NewConversation::default()
    });
    let at = Timestamp::from_micros(1_800_000_000_000_000);
    let needle = format!("needle{number}");
    let entries =
        vec![Entry::message(ThreadName::main(), NewMessage::new(Role::User, needle.clone(), at))];
    memory.append(EntryBatch { target, entries, replay_detection: ReplayDetection::None }).unwrap();
    let start = Instant::now();
    let hits = memory.search(&query(&needle, &[])).unwrap().hits;
    assert_eq!(hits[0].snippet.text, needle);
    start.elapsed()
}

/// The time until a turn is found by meaning alone: the query shares no word with it.
fn found_by_meaning(memory: &Engine, number: u64) -> Duration {
    let external_id = Some(ExternalId::new(format!("meaning-{number}")).unwrap());
    let target =
        AppendTarget::FindOrCreate(NewConversation { external_id, ..NewConversation::default() });
    let at = Timestamp::from_micros(1_800_000_000_000_000);
    let text = "The kitten slept on the couch all afternoon";
    let entries = vec![Entry::message(ThreadName::main(), NewMessage::new(Role::User, text, at))];
    let id = memory
        .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })
        .unwrap()
        .conversation
        .id;
    let start = Instant::now();
    let hits = memory.search(&query("cats napping upon sofas", &[])).unwrap().hits;
    let took = start.elapsed();
    let hit = hits.iter().find(|hit| hit.conversation == id).expect("it is found");
    assert!(hit.signals.exact_terms == 0.0 && hit.signals.similarity > 0.2);
    took
}

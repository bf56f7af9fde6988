//! Forgetting: the time for one message and for a whole conversation of 10,000 turns, with the
//! built-in summarizer, and the time to erase the bytes.
//!
//! `cargo bench --bench forget`

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::time::{Duration, Instant};

use treering::{
    AppendTarget, Engine, Entry, EntryBatch, ForgetTarget, ItemSelection, JobScope, MessageIdx,
    NewConversation, NewMessage, Options, ReplayDetection, Role, Sync, ThreadName, Timestamp,
    Worker,
};
use treering_engine::Forget;

/// The sample conversation, for realistic sentences.
const SAMPLE: &str = include_str!("../demo/tidewatch.jsonl");
const TURNS: usize = 10_000;

fn main() {
    let home = tempfile::tempdir().unwrap();
    let options = Options { sync: Sync::Normal, ..Options::default() };
    let engine = treering::open_engine_with(home.path(), options).unwrap();
    let id = grow(&engine);
    let worker = Worker::new(engine.clone()).unwrap();
    worker.run(&JobScope::default(), &|_, _| {}).unwrap();
    println!("{:<52}{:>12}{:>12}", "forgetting in a conversation of 10,000 turns", "took", "goal");
    let forget = |target| {
        let start = Instant::now();
        let report = engine.forget(&Forget { fast: true, ..Forget::new(target) }).unwrap();
        (start.elapsed(), report)
    };
    let mut times = Vec::new();
    let mut nodes = 0;
    for idx in (500..19_500).step_by(1_900) {
        let selection = ItemSelection::Message(MessageIdx(idx));
        let (took, report) = forget(ForgetTarget::Items(id, selection));
        nodes = nodes.max(report.new_ids.len());
        times.push(took);
    }
    times.sort_unstable();
    let label = format!("  one message, p50 (at most {nodes} nodes rewritten)");
    row(&label, times[times.len() / 2], Some(Duration::from_millis(200)));
    let start = Instant::now();
    engine.scrub().unwrap();
    let megabytes = engine.stats().unwrap().store.bytes >> 20;
    row(&format!("  the bytes, in a store of {megabytes} MB"), start.elapsed(), None);
    let (took, _) = forget(ForgetTarget::Conversation(id));
    row("  the whole conversation", took, Some(Duration::from_secs(5)));
}

fn row(label: &str, took: Duration, goal: Option<Duration>) {
    let millis = |it: Duration| format!("{:.0} ms", it.as_secs_f64() * 1e3);
    let missed = if goal.is_some_and(|goal| took > goal) { "  MISSED" } else { "" };
    let goal = goal.map_or_else(String::new, |goal| format!("< {}", millis(goal)));
    println!("{label:<52}{:>12}{goal:>12}{missed}", millis(took));
}

fn grow(engine: &Engine) -> treering::ConversationId {
    let texts: Vec<String> = SAMPLE
        .lines()
        .filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(line.get("text")?.as_str()?.to_owned()).filter(|text| !text.is_empty())
        })
        .collect();
    assert!(texts.len() > 200, "the sample has changed: {}", texts.len());
    let target = || {
        let external_id = Some("bench".parse().unwrap());
        AppendTarget::FindOrCreate(NewConversation { external_id, ..NewConversation::default() })
    };
    let entry = |number: usize| {
        let role = if number.is_multiple_of(2) { Role::User } else { Role::Assistant };
        let at = Timestamp::from_micros(1_700_000_000_000_000 + number as i64 * 30_000_000);
        let text = texts[number % texts.len()].clone();
        let external_id = Some(format!("m{number}").parse().unwrap());
        let message = NewMessage { external_id, ..NewMessage::new(role, text, at) };
        Entry::message(ThreadName::main(), message)
    };
    let mut id = None;
    for start in (0..2 * TURNS).step_by(500) {
        let entries = (start..start + 500).map(entry).collect();
        let batch =
            EntryBatch { target: target(), entries, replay_detection: ReplayDetection::None };
        id = Some(engine.append(batch).unwrap().conversation.id);
    }
    id.unwrap()
}

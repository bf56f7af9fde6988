//! The figures of contexts: how long one takes in a conversation of 10,000 turns, and how much of
//! one the next turn can reuse.
//!
//! `cargo bench --bench context`

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use treering::importers::{Options as ImportOptions, Runner};
use treering::{
    Bpe, ContextRequest, Incoming, Matching, Memory, NewConversation, NewMessage, Options, Role, Scope, Sync,
    Target, ThreadName, Worker,
};
use treering_core::ports::ConversationFilter;
use treering_core::{ConversationId, ExternalId, Timestamp, Tokenizer as _, TurnNo};
use treering_testkit::generate::sentence;

fn main() {
    println!("{:<66}{:>12}{:>12}{:>10}", "", "measured", "goal", "");
    assembly();
    stability();
}

fn row(what: &str, measured: f64, goal: &str, met: bool) {
    let mark = if met { "" } else { "MISSED" };
    println!("  {what:<64}{measured:>12.2}{goal:>12}{mark:>10}");
}

fn open(home: &Path) -> Memory {
    treering::open_with(home, Options { sync: Sync::Normal, ..Options::default() }).unwrap()
}

/// Contexts of 8,000 tokens over 10,000 turns and their tree, each with a question of its own.
fn assembly() {
    let home = tempfile::tempdir().unwrap();
    let memory = open(home.path());
    let id = fill(&memory, 10_000);
    Worker::new(memory.clone()).unwrap().run(&Scope::default(), &|_, _| {}).unwrap();
    let nodes = memory.tree(id).unwrap().nodes.len();
    println!("  10,000 turns under {nodes} nodes, budget 8,000");
    let mut state = 4242;
    let mut measure = |asks: bool| {
        let mut took: Vec<Duration> = (0..400)
            .map(|_| {
                let mut request = ContextRequest::new(id);
                request.query = asks.then(|| sentence(&mut state, 8));
                let start = Instant::now();
                let context = memory.context(&request).unwrap();
                let took = start.elapsed();
                assert!(context.receipt.tokens <= 8000 && context.receipt.tokens > 7200);
                took
            })
            .collect();
        took.sort_unstable();
        (took[200].as_secs_f64() * 1e3, took[396].as_secs_f64() * 1e3)
    };
    measure(true);
    let (p50, p99) = measure(true);
    row("assembly with a question, p50, ms", p50, "≤ 5", p50 <= 5.0);
    row("assembly with a question, p99, ms", p99, "≤ 15", p99 <= 15.0);
    let (p50, p99) = measure(false);
    row("standing context, p50, ms", p50, "≤ 5", p50 <= 5.0);
    row("standing context, p99, ms", p99, "≤ 15", p99 <= 15.0);
}

/// Conversations that grow turn by turn: how much of each context the one before begins with.
fn stability() {
    let named = std::env::var_os("TREERING_DATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = named.unwrap_or(beside).join("locomo-dev");
    let Ok(files) = std::fs::read_dir(&data) else {
        return println!("  stability: skipped, set TREERING_DATA to the folder that has locomo-dev");
    };
    let mut shares = Vec::new();
    for file in files.flatten() {
        let home = tempfile::tempdir().unwrap();
        let memory = open(home.path());
        let runner = Runner { memory: &memory, options: ImportOptions::default() };
        let text = std::fs::read_to_string(file.path()).unwrap();
        runner.text("haystack.json", text).unwrap();
        Worker::new(memory.clone()).unwrap().run(&Scope::default(), &|_, _| {}).unwrap();
        let conversation = memory.sessions(&ConversationFilter::all(1)).unwrap().remove(0).conversation;
        let mut before = String::new();
        for turn in 0..conversation.totals.turns {
            let request =
                ContextRequest { as_of: Some(TurnNo(turn)), ..ContextRequest::new(conversation.id) };
            let context = memory.context(&request).unwrap();
            let text = context.markdown();
            if turn > 0 {
                shares.push(reused(&before, &text));
            }
            before = text;
        }
    }
    let mean = 100.0 * shares.iter().sum::<f64>() / shares.len() as f64;
    shares.sort_unstable_by(f64::total_cmp);
    row("locomo-dev turn by turn, 8,000 tokens: reusable prefix, mean %", mean, "≥ 85", mean >= 85.0);
    println!("  {:<64}{:>12.2}", "the same, worst tenth, %", 100.0 * shares[shares.len() / 10]);
}

/// The share of a text's tokens that lies in what another begins with, too.
fn reused(before: &str, now: &str) -> f64 {
    let same = before.bytes().zip(now.bytes()).take_while(|(one, other)| one == other).count();
    let end = (0..=same).rev().find(|end| now.is_char_boundary(*end)).unwrap_or(0);
    f64::from(Bpe::O200k.count(&now[..end])) / f64::from(Bpe::O200k.count(now).max(1))
}

fn fill(memory: &Memory, turns: usize) -> ConversationId {
    let external_id = Some(ExternalId::new("bench").unwrap());
    let target = Target::Named(NewConversation { external_id, ..NewConversation::default() });
    let mut state = 77;
    let mut id = None;
    for start in (0..turns).step_by(500) {
        let mut entries = Vec::new();
        for turn in start..(start + 500).min(turns) {
            for (role, seconds) in [(Role::User, 0), (Role::Assistant, 20)] {
                let at = 1_700_000_000 + turn as i64 * 60 + seconds;
                let text = format!("{}.", sentence(&mut state, 40));
                let said = NewMessage::new(role, text, Timestamp::from_micros(at * 1_000_000));
                entries.push(memory.message(ThreadName::main(), said));
            }
        }
        let incoming = Incoming { target: target.clone(), entries, matching: Matching::None };
        id = Some(memory.append(incoming).unwrap().conversation.id);
    }
    id.unwrap()
}

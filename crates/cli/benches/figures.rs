//! Store benchmarks: durable appends, concurrent writers, imports, opening. Each is compared with
//! plain SQLite in the same run, because machines differ and are noisy.
//!
//! `cargo bench --bench figures`, or a part of it: `-- appends`, `writers`, `import`, `opening`

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use treering::import::{ImportOptions, Importer};
use treering::{
    AppendTarget, Engine, Entry, EntryBatch, NewConversation, NewMessage, ReplayDetection, Role,
    ThreadName,
};
use treering_core::ports::ConversationFilter;
use treering_core::{ConversationId, ExternalId, Timestamp};
use treering_testkit::parts::measure;

fn main() {
    println!("{:<58}{:>12}{:>12}{:>9}{:>9}", "", "bare SQLite", "Treering", "ratio", "goal");
    measure(&[
        ("appends", durable_appends),
        ("writers", many_writers),
        ("import", import_locomo),
        ("opening", open_and_list),
    ]);
}

fn row(label: &str, sqlite: &str, treering: &str, ratio: &str, goal: &str, is_met: bool) {
    let verdict = if is_met { "" } else { "  MISSED" };
    println!("{label:<58}{sqlite:>12}{treering:>12}{ratio:>9}{goal:>9}{verdict}");
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn percentile(times: &mut [Duration], quantile: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * quantile) as usize]
}

/// A plain SQLite database with durable writes.
fn sqlite(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection
}

/// English-like text of a given size, different for each seed.
fn text(seed: usize, size: usize) -> String {
    const WORDS: [&str; 16] = [
        "harbour", "tide", "the", "gauge", "a", "berth", "reserve", "and", "model", "of", "window",
        "sill", "skipper", "morning", "seven", "is",
    ];
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut text = String::with_capacity(size + 8);
    while text.len() < size {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(state >> 60) as usize]);
        text.push(' ');
    }
    text.truncate(size);
    text
}

/// The messages of a turn of 1.5 KB.
fn turn_messages(seed: usize) -> [NewMessage; 2] {
    let at = Timestamp::from_micros(1_700_000_000_000_000 + seed as i64 * 1_000_000);
    [(Role::User, 500), (Role::Assistant, 1000)]
        .map(|(role, size)| NewMessage::new(role, text(seed, size), at))
}

fn append(engine: &Engine, target: AppendTarget, messages: [NewMessage; 2]) -> ConversationId {
    let entries = messages.map(|message| Entry::message(ThreadName::main(), message)).into();
    engine
        .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })
        .unwrap()
        .conversation
        .id
}

/// One writer, one conversation: a turn of 1.5 KB against one insert of the same bytes.
fn durable_appends() {
    const ROUNDS: usize = 30;
    const PER_ROUND: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let connection = sqlite(&folder.path().join("bare.db"));
    connection.execute("CREATE TABLE turns (id INTEGER PRIMARY KEY, body TEXT)", []).unwrap();
    let engine = treering::open_engine(&folder.path().join("home")).unwrap();
    let id =
        append(&engine, AppendTarget::FindOrCreate(NewConversation::default()), turn_messages(0));
    let (mut sqlite_times, mut treering_times) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for seed in 0..PER_ROUND {
            let body = text(seed + round * PER_ROUND, 1500);
            let start = Instant::now();
            connection
                .prepare_cached("INSERT INTO turns (body) VALUES (?1)")
                .unwrap()
                .execute([&body])
                .unwrap();
            sqlite_times.push(start.elapsed());
        }
        for seed in 0..PER_ROUND {
            let messages = turn_messages(seed + round * PER_ROUND);
            let start = Instant::now();
            append(&engine, AppendTarget::Existing(id), messages);
            treering_times.push(start.elapsed());
        }
    }
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let (sqlite, treering) =
            (percentile(&mut sqlite_times, quantile), percentile(&mut treering_times, quantile));
        let ratio = treering.as_secs_f64() / sqlite.as_secs_f64();
        let (goal, is_met) = if quantile == 0.5 { ("≤ 1.5", ratio <= 1.5) } else { ("", true) };
        let label = format!("durable append of a 1.5 KB turn, {name}");
        row(&label, &micros(sqlite), &micros(treering), &format!("{ratio:.2}"), goal, is_met);
    }
}

/// Sixteen writers against one, with a conversation each or one for all, in a new store and in a
/// used one whose jobs nobody runs.
fn many_writers() {
    const ROUNDS: usize = 9;
    for (used, store) in [(false, "new store"), (true, "used store")] {
        for (shared, label) in [(false, "a conversation each"), (true, "one for all")] {
            let home = tempfile::tempdir().unwrap();
            let engine = treering::open_engine(home.path()).unwrap();
            let rate = |writers: usize, each: usize| match used {
                true => append_rate(&engine, writers, shared, each),
                false => {
                    let home = tempfile::tempdir().unwrap();
                    append_rate(&treering::open_engine(home.path()).unwrap(), writers, shared, each)
                }
            };
            if used {
                rate(WRITERS, 800);
            }
            // Measure both rates back to back, because the machine's speed drifts.
            let mut rounds: Vec<(f64, f64)> =
                (0..ROUNDS).map(|_| (rate(1, 1000), rate(WRITERS, 400))).collect();
            rounds.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
            let (one, concurrent) = rounds[ROUNDS / 2];
            let ratio = concurrent / one;
            row(
                &format!("appends/s of 1 and of 16 writers, {store}, {label}"),
                &format!("{one:.0}"),
                &format!("{concurrent:.0}"),
                &format!("{ratio:.2}"),
                "≥ 3.0",
                ratio >= 3.0,
            );
        }
    }
}

const WRITERS: usize = 16;

/// Turns per second that concurrent writers append in total, with `each` turns per writer.
fn append_rate(engine: &Engine, writers: usize, shared: bool, each: usize) -> f64 {
    let new_target = |number: usize| {
        let external_id = Some(ExternalId::new(format!("writer {number}")).unwrap());
        AppendTarget::FindOrCreate(NewConversation { external_id, ..NewConversation::default() })
    };
    let targets: Vec<AppendTarget> = (0..WRITERS)
        .map(|number| {
            AppendTarget::Existing(append(engine, new_target(number), turn_messages(number)))
        })
        .collect();
    let ready = Barrier::new(writers + 1);
    let start = std::thread::scope(|scope| {
        for writer in 0..writers {
            let target = targets[if shared { 0 } else { writer }].clone();
            let (engine, ready) = (engine.clone(), &ready);
            scope.spawn(move || {
                let turns: Vec<[NewMessage; 2]> = (0..each).map(turn_messages).collect();
                ready.wait();
                for messages in turns {
                    append(&engine, target.clone(), messages);
                }
            });
        }
        ready.wait();
        Instant::now()
    });
    (writers * each) as f64 / start.elapsed().as_secs_f64()
}

fn data(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("TREERING_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = root.join(name);
    folder.is_dir().then_some(folder)
}

/// A cold import of five long chats against a plain insert of the same rows.
fn import_locomo() {
    const ROUNDS: usize = 15;
    let Some(source) = data("locomo-dev") else {
        return println!(
            "import of locomo-dev: skipped, set TREERING_DATA to the folder that has it"
        );
    };
    let scratch = tempfile::tempdir().unwrap();
    let import = |home: &Path| {
        let engine = treering::open_engine(home).unwrap();
        let runner = Importer { engine: &engine, options: ImportOptions::default() };
        let report = runner.run(&Importer::files(std::slice::from_ref(&source)), |_| ()).unwrap();
        assert!(report.files.iter().all(|file| file.error.is_none()));
        engine
    };
    let sample = import(&scratch.path().join("sample"));
    let conversations: Vec<Vec<treering_core::Message>> = sample
        .listed_conversations(&ConversationFilter::all(100))
        .unwrap()
        .iter()
        .map(|s| {
            let all =
                treering_core::ports::Span::starting(treering_core::MessageIdx(0), usize::MAX);
            sample.messages(s.conversation.id, all).unwrap()
        })
        .collect();
    let (mut sqlite_times, mut treering_times) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let start = Instant::now();
        bulk_insert(&scratch.path().join(format!("bare-{round}.db")), &conversations);
        sqlite_times.push(start.elapsed());
        let start = Instant::now();
        drop(import(&scratch.path().join(format!("home-{round}"))));
        treering_times.push(start.elapsed());
    }
    let (sqlite, treering) =
        (percentile(&mut sqlite_times, 0.5), percentile(&mut treering_times, 0.5));
    let ratio = treering.as_secs_f64() / sqlite.as_secs_f64();
    let messages: usize = conversations.iter().map(Vec::len).sum();
    let label = format!("import of locomo-dev from cold ({messages} messages)");
    row(&label, &millis(sqlite), &millis(treering), &format!("{ratio:.2}"), "≤ 3.0", ratio <= 3.0);
}

/// Inserts the same rows into a table of the same shape, one transaction per conversation.
fn bulk_insert(path: &Path, conversations: &[Vec<treering_core::Message>]) {
    let mut connection = sqlite(path);
    connection
        .execute_batch(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, conversation INTEGER, idx INTEGER, role TEXT,
                author TEXT, at INTEGER, external_id TEXT, text TEXT)",
        )
        .unwrap();
    for (number, messages) in conversations.iter().enumerate() {
        let transaction = connection.transaction().unwrap();
        for message in messages {
            let body = &message.body;
            let external = body.external_id.as_ref().map(|id| id.as_str());
            let sql =
                "INSERT INTO messages (conversation, idx, role, author, at, external_id, text)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let at = body.at.as_micros();
            let role = body.role.as_str();
            let params =
                params![number as i64, message.idx.0, role, body.author, at, external, body.text];
            transaction.prepare_cached(sql).unwrap().execute(params).unwrap();
        }
        transaction.commit().unwrap();
    }
}

/// Opens a store of 100,000 turns and lists its conversations.
fn open_and_list() {
    const CONVERSATIONS: usize = 1000;
    const TURNS: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let engine = treering::open_engine(folder.path()).unwrap();
    for conversation in 0..CONVERSATIONS {
        let entries = (0..TURNS)
            .flat_map(|seed| turn_messages(conversation * TURNS + seed))
            .map(|message| Entry::message(ThreadName::main(), message))
            .collect();
        let target = AppendTarget::FindOrCreate(NewConversation::default());
        engine
            .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })
            .unwrap();
    }
    drop(engine);
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let start = Instant::now();
            let engine = Arc::new(treering::open_engine(folder.path()).unwrap());
            let listed =
                engine.listed_conversations(&ConversationFilter::all(CONVERSATIONS)).unwrap();
            assert_eq!(listed.len(), CONVERSATIONS);
            start.elapsed()
        })
        .collect();
    let time = percentile(&mut times, 0.5);
    let label = "opening 100,000 turns and listing all 1,000 conversations";
    row(label, "", &millis(time), "", "< 50 ms", time < Duration::from_millis(50));
}

//! Figures of the store on Neo4j, on loopback: an append against one hand-written statement that
//! stores the same turn, contexts at ten thousand turns with their round trips, and a copy.
//!
//! Run with `tools/neo4j/with-server cargo bench --package treering --features neo4j --bench neo4j`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use treering::{
    AppendTarget, EmbeddedStore, Engine, Entry, EntryBatch, Memory, NewConversation, NewMessage,
    Options, ReplayDetection, Role, StoreOptions, StoreUrl, Sync, ThreadName, Timestamp,
    WorkOptions,
};
use treering_stores::{Neo4jCredentials, Neo4jStore, copy, neo4j::BoltValue};

const TURNS: u32 = 10_000;
const COPIED_MESSAGES: u32 = 100_000;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; see the top of this file"))
}

fn graph(url: &str) -> Neo4jStore {
    let password = variable("TREERING_TEST_NEO4J_PASSWORD");
    let credentials = Neo4jCredentials { user: "neo4j".into(), password };
    Neo4jStore::open(url.parse().unwrap(), credentials).unwrap()
}

fn memory(url: &str) -> (Memory, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let store = StoreOptions { url: StoreUrl::new(url).unwrap(), credentials: None };
    // No worker runs, so a context must not wait for one.
    let work = WorkOptions { gate_timeout_ms: 0, ..WorkOptions::default() };
    let options = Options { store, work, ..Options::default() };
    let memory = Memory::builder(home.path()).options(options).without_background_work();
    (memory.open().unwrap(), home)
}

/// The words of a turn: about 700 bytes each for the question and the answer.
fn text(number: u32, role: Role) -> String {
    const WORDS: [&str; 12] = [
        "tide",
        "gauge",
        "harbor",
        "staging",
        "port",
        "proxy",
        "billing",
        "parser",
        "migration",
        "choir",
        "lighthouse",
        "deploy",
    ];
    let mut state = u64::from(number) * 2 + u64::from(role == Role::Assistant) + 1;
    let mut words = vec![format!("{role} {number}:")];
    while words.len() < 100 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words.push(WORDS[(state >> 33) as usize % WORDS.len()].to_owned());
    }
    words.join(" ")
}

fn turn(number: u32) -> Vec<Entry> {
    let at = Timestamp::from_micros(1_760_000_000_000_000 + i64::from(number) * 60_000_000);
    let said =
        |role| Entry::message(ThreadName::main(), NewMessage::new(role, text(number, role), at));
    vec![said(Role::User), said(Role::Assistant), Entry::turn_end(ThreadName::main())]
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{what}: p50 {:.2} ms, p90 {:.2} ms, n {}", at(0.5), at(0.9), times.len());
}

fn timed(count: u32, mut run: impl FnMut(u32)) -> Vec<Duration> {
    let time = |number| {
        let started = Instant::now();
        run(number);
        started.elapsed()
    };
    (0..count).map(time).collect()
}

const BY_HAND: &str = "MATCH (s:ByHandSession {sessionId: $session})
    CREATE (s)-[:HAS_TURN {index: $index}]->(:ByHandTurn {uuid: $uuid, userMessage: $user,
        assistantMessage: $assistant, timestamp: datetime(), turnIndex: $index, charCount: 1400,
        level: 0})
    SET s.lastActivity = datetime()";

/// Appends of turns by the product and by one statement, in turn.
fn appends(url: &str) {
    let graph = graph(url);
    for query in [
        "CREATE INDEX by_hand IF NOT EXISTS FOR (s:ByHandSession) ON (s.sessionId)",
        "CREATE INDEX by_hand_time IF NOT EXISTS FOR (s:ByHandTurn) ON (s.timestamp)",
        "CALL db.awaitIndexes()",
        "CREATE (:ByHandSession {sessionId: 'x'})",
    ] {
        graph.cypher(query, Vec::new()).unwrap();
    }
    let by_hand = |number: u32| {
        let text = |role| BoltValue::Text(text(number, role));
        let parameters = vec![
            ("session", BoltValue::Text("x".into())),
            ("index", BoltValue::Int(number.into())),
            ("uuid", BoltValue::Text(format!("turn-{number}"))),
            ("user", text(Role::User)),
            ("assistant", text(Role::Assistant)),
        ];
        graph.cypher(BY_HAND, parameters).unwrap();
    };
    let (memory, _home) = memory(url);
    let chat = memory.conversation("bench").unwrap();
    let append = |number: u32| drop(chat.append(turn(number)).unwrap());
    drop((timed(300, by_hand), timed(300, append)));
    let by_hand = timed(500, |number| by_hand(1000 + number));
    show("one statement by hand", by_hand);
    // Without a worker the jobs would pile up.
    let mut times = Vec::new();
    for number in 0..500 {
        times.extend(timed(1, |_| append(1000 + number)));
        graph.cypher("MATCH (j:TreeringJob) DELETE j", Vec::new()).unwrap();
    }
    show("append of the same turn", times);
    let (proxied, trips) = counting_proxy(url);
    let (memory, _home) = self::memory(&proxied);
    let chat = memory.conversation("bench").unwrap();
    drop(chat.append(turn(3000)).unwrap());
    let before = trips.load(Ordering::SeqCst);
    drop(chat.append(turn(3001)).unwrap());
    println!("round trips of an append: {}", trips.load(Ordering::SeqCst) - before);
}

/// Contexts for questions at ten thousand turns.
fn contexts(url: &str) {
    let (proxied, trips) = counting_proxy(url);
    let (memory, _home) = memory(&proxied);
    let engine: &Engine = memory.engine();
    let started = Instant::now();
    for page in 0..TURNS / 500 {
        let entries = (page * 500..(page + 1) * 500).flat_map(turn).collect();
        let external_id = Some("history".parse().unwrap());
        let target = AppendTarget::FindOrCreate(NewConversation {
            external_id,
            ..NewConversation::default()
        });
        let batch = EntryBatch { target, entries, replay_detection: ReplayDetection::None };
        engine.append(batch).unwrap();
    }
    println!("stored {TURNS} turns in {:.1} s", started.elapsed().as_secs_f64());
    let chat = memory.conversation("history").unwrap();
    let ask = |number: u32| {
        let question = format!("what did we say about the lighthouse and port {number}");
        let context = chat.context().query(question).budget(4000);
        assert!(!context.build().unwrap().markdown().is_empty());
    };
    let first = timed(1, ask);
    show("the first context of a program", first);
    let before = trips.load(Ordering::SeqCst);
    show("context with a question", timed(60, |number| ask(number + 1)));
    println!("round trips of a context: {}", (trips.load(Ordering::SeqCst) - before) / 60);
}

/// A copy from the embedded store.
fn copies(url: &str) {
    let home = tempfile::tempdir().unwrap();
    let memory = Memory::builder(home.path()).without_background_work().open().unwrap();
    for conversation in 0..20 {
        let chat = memory.conversation(&format!("copied {conversation}")).unwrap();
        let turns = COPIED_MESSAGES / 2 / 20;
        for page in 0..turns / 500 {
            let entries = (page * 500..(page + 1) * 500).flat_map(turn).collect();
            chat.append(entries).unwrap();
        }
    }
    drop(memory);
    let from = EmbeddedStore::open(home.path(), Sync::Normal).unwrap();
    let to = graph(url);
    let started = Instant::now();
    let report = copy(&from, &to, &mut |_| {}).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "copied and compared {} messages in {seconds:.1} s: {:.0} messages/s",
        report.messages,
        report.messages as f64 / seconds
    );
}

/// A proxy that counts how often a client speaks after it has listened.
fn counting_proxy(url: &str) -> (String, Arc<AtomicU64>) {
    let server = url.trim_start_matches("bolt://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxied = format!("bolt://{}", listener.local_addr().unwrap());
    let trips = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&trips);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&server).unwrap();
            let spoke = Arc::new(AtomicU64::new(0));
            let (counted, heard) = (Arc::clone(&counted), Arc::clone(&spoke));
            let (client_in, server_out) =
                (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                forward(client_in, server_out, || {
                    if spoke.swap(1, Ordering::SeqCst) == 0 {
                        counted.fetch_add(1, Ordering::SeqCst);
                    }
                });
            });
            std::thread::spawn(move || {
                forward(server, client, || heard.store(0, Ordering::SeqCst));
            });
        }
    });
    (proxied, trips)
}

fn forward(mut from: TcpStream, mut to: TcpStream, noted: impl Fn()) {
    let _ = (from.set_nodelay(true), to.set_nodelay(true));
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read) = from.read(&mut buffer)
        && read > 0
    {
        noted();
        if to.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
}

fn main() {
    let url = variable("TREERING_TEST_NEO4J");
    let empty = "MATCH (n) CALL { WITH n DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS";
    graph(&url).cypher(empty, Vec::new()).unwrap();
    for run in [appends, contexts, copies] {
        run(&url);
    }
}

//! Server benchmarks: the overhead of MCP on a search, HTTP latency with 200 concurrent clients, and
//! the latency for others while clients attack the server.
//!
//! `cargo bench --bench serve`; `-- --seconds 5` runs the clients and each attack for 5 seconds
//! instead of 60; `-- --tenants 10000` only measures a server with that many tenants, and
//! `-- --attacks 25000` only the attacks, on a conversation with that many turns.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod attacks;
mod report;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use report::{millis, row};
use serde_json::{Value, json};
use treering::{
    AppendTarget, Engine, Entry, EntryBatch, NewConversation, NewMessage, Query, ReplayDetection,
    Role, ThreadName,
};

const CLIENTS: usize = 200;
const WORDS: [&str; 12] = [
    "harbour", "sluice", "gauge", "culvert", "lantern", "ferry", "granite", "tide", "pump",
    "ledger", "signal", "copper",
];

fn main() {
    println!("{:<56}{:>12}{:>12}{:>10}", "", "measured", "goal", "");
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| {
        args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)?.parse::<u64>().ok())
    };
    if let Some(number) = option("--tenants") {
        return tenants(number);
    }
    let lasting = Duration::from_secs(option("--seconds").unwrap_or(60));
    if let Some(turns) = option("--attacks") {
        return attacks::run(lasting, turns as usize);
    }
    stdio();
    clients(lasting);
    tenants(1000);
    attacks::run(lasting, 25_000);
}

fn percentile(times: &mut [Duration], quantile: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * quantile) as usize]
}

fn sentence(number: usize) -> String {
    let word =
        |index: usize| WORDS[(number * 7 + index * index * 3 + number / (index + 1)) % WORDS.len()];
    let words: Vec<&str> = (0..24).map(word).collect();
    format!("Note {number}: {}.", words.join(" "))
}

fn treering(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treering"));
    command.env_clear().env("TREERING_HOME", home).args(args);
    command
}

/// The same searches in process and over MCP, alternating.
fn stdio() {
    let home = tempfile::tempdir().unwrap();
    let engine = treering::open_engine(home.path()).unwrap();
    for conversation in 0..20 {
        let entries = (0..500)
            .map(|number| {
                let role = if number % 2 == 0 { Role::User } else { Role::Assistant };
                let message = NewMessage::new(
                    role,
                    sentence(conversation * 500 + number),
                    engine.clock().now(),
                );
                Entry::message(ThreadName::main(), message)
            })
            .collect();
        let target = AppendTarget::FindOrCreate(NewConversation::default());
        engine
            .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })
            .unwrap();
    }
    treering(home.path(), &["work"]).stdout(Stdio::null()).status().unwrap();

    let mut child = treering(home.path(), &["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |id: usize, method: &str, params: Value| {
        writeln!(
            to,
            "{}",
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        )
        .unwrap();
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        assert!(line.contains("\"result\""), "{line}");
    };
    let client = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
    ask(0, "initialize", client);
    let (mut direct, mut mcp) = (Vec::new(), Vec::new());
    for number in 1..=220 {
        let text = format!(
            "what did we note about the {} {}",
            WORDS[number % 12],
            WORDS[(number / 12 + 5) % 12]
        );
        let start = Instant::now();
        search(&engine, &text);
        direct.push(start.elapsed());
        let start = Instant::now();
        ask(number, "tools/call", json!({ "name": "search", "arguments": { "query": text } }));
        mcp.push(start.elapsed());
    }
    drop(to);
    child.wait().unwrap();
    // The first searches build the indexes.
    let (direct, mcp) = (percentile(&mut direct[20..], 0.5), percentile(&mut mcp[20..], 0.5));
    println!(
        "  {:<54}{:>12}",
        "search over 10,000 messages in this process, p50",
        format!("{:.2} ms", millis(direct))
    );
    println!(
        "  {:<54}{:>12}",
        "the same over MCP on standard input, p50",
        format!("{:.2} ms", millis(mcp))
    );
    row("overhead of MCP", millis(mcp) - millis(direct), 2.0, "ms");
}

fn search(engine: &Engine, text: &str) {
    let query = Query { text: text.to_owned(), limit: 10, ..Query::default() };
    assert!(!engine.search(&query).unwrap().hits.is_empty());
}

/// The measurements of the clients.
#[derive(Default)]
struct Seen {
    appends: Vec<Duration>,
    searches: Vec<Duration>,
    errors: u64,
}

/// Starts the server. Returns it with its address.
fn serve(home: &Path) -> (Child, String) {
    let args = [
        "--json",
        "--set",
        "serve.requests_per_second=1000000",
        "serve",
        "--address",
        "127.0.0.1:0",
    ];
    let mut server =
        treering(home, &args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut text = String::new();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    while !text.ends_with("}\n") {
        assert!(out.read_line(&mut text).unwrap() > 0, "the server did not start");
    }
    let address =
        serde_json::from_str::<Value>(&text).unwrap()["address"].as_str().unwrap().to_owned();
    (server, address)
}

fn stop(mut server: Child) {
    Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap();
    assert!(server.wait().unwrap().success(), "the server did not exit cleanly");
}

/// A number from the status of a process.
fn of_process(server: &Child, name: &str) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// Tenants with ten messages each; every one appends and searches once.
fn tenants(number: u64) {
    /// The default of `search.memory` plus an allowance for everything else, in MiB.
    const MEMORY: f64 = 512.0 + 300.0;
    let home = tempfile::tempdir().unwrap();
    let secrets = write_tokens(home.path(), number);
    let (server, address) = serve(home.path());
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let post = |path: &str, secret: &str, body: &Value| {
        let request = ureq::http::Request::post(format!("{address}{path}"))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {secret}"))
            .body(body.to_string())
            .unwrap();
        let mut response = agent.run(request).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        assert_eq!(response.status(), 200, "{text}");
        text
    };
    // The peak number of threads during a series of requests.
    let threads_of = |run: &mut dyn Iterator<Item = usize>| {
        let mut max_threads = 0;
        for index in run {
            let secret = &secrets[index];
            let turn = |turn: usize| json!({ "type": "turn", "user": sentence(index * 5 + turn), "assistant": sentence(index + turn * 31) });
            let entries: Vec<Value> = (0..5).map(turn).collect();
            post("/v1/append", secret, &json!({ "key": "talk", "entries": entries }));
            let found =
                post("/v1/search", secret, &json!({ "query": sentence(index * 5), "limit": 1 }));
            assert!(found.contains(&format!("Note {}:", index * 5)), "{found}");
            max_threads = of_process(&server, "Threads:").max(max_threads);
        }
        max_threads
    };
    // The same number of requests from ten tenants as from all, so that the thread pool is full
    // in both cases.
    let few_tenants = threads_of(&mut (0..secrets.len()).map(|index| index % 10));
    let start = Instant::now();
    let many_tenants = threads_of(&mut (0..secrets.len()));
    println!(
        "  {number} tenants, one after the other, took {:.1} s",
        start.elapsed().as_secs_f64()
    );
    row(
        &format!("additional threads compared with ten tenants ({few_tenants})"),
        many_tenants.saturating_sub(few_tenants) as f64,
        0.0,
        "",
    );
    row("resident memory", of_process(&server, "VmRSS:") as f64 / 1024.0, MEMORY, "MiB");
    stop(server);
}

/// Writes the token file for many tenants, as `treering token create` would. Returns their
/// secrets.
fn write_tokens(home: &Path, number: u64) -> Vec<String> {
    treering(home, &["token", "create", "--scopes", "read,write"])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let path = home.join("tokens.json");
    let mut tokens_file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let sample = tokens_file["tokens"][0].clone();
    let prefix = treering_server::access_tokens::PREFIX;
    let secrets: Vec<String> =
        (0..number).map(|number| format!("{prefix}_{number:08x}_{:064x}", number * 7919)).collect();
    let token = |(number, secret): (usize, &String)| {
        let mut token = sample.clone();
        token["id"] = json!(format!("{number:08x}"));
        token["tenant"] = json!(format!("tenant-{number}"));
        token["hash"] = json!(blake3::hash(secret.as_bytes()).to_hex().to_string());
        token
    };
    tokens_file["tokens"] = secrets.iter().enumerate().map(token).collect();
    std::fs::write(path, tokens_file.to_string()).unwrap();
    secrets
}

fn clients(lasting: Duration) {
    let home = tempfile::tempdir().unwrap();
    let (server, address) = serve(home.path());
    let (stop, stored) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut all, sizes) = std::thread::scope(|scope| {
        let working: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (address, stop, stored) = (&address, &stop, &stored);
                scope.spawn(move || work(address, number, stop, stored))
            })
            .collect();
        let sizes = watch(&server, lasting);
        stop.store(true, Ordering::Release);
        let mut all = Seen::default();
        for seen in working.into_iter().map(|thread| thread.join().unwrap()) {
            all.appends.extend(seen.appends);
            all.searches.extend(seen.searches);
            all.errors += seen.errors;
        }
        (all, sizes)
    });
    crate::stop(server);
    report(home.path(), &mut all, &sizes, stored.into_inner(), lasting);
}

/// One client: appends to its conversation and searches, alternating.
fn work(address: &str, number: usize, stop: &AtomicBool, stored: &AtomicU64) -> Seen {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let post = |path: &str, body: &Value| {
        let start = Instant::now();
        let request = ureq::http::Request::post(format!("{address}{path}"))
            .header("content-type", "application/json")
            .body(body.to_string())
            .unwrap();
        let ok = agent.run(request).is_ok_and(|mut response| {
            response.status() == 200 && response.body_mut().read_to_vec().is_ok()
        });
        (ok, start.elapsed())
    };
    // Connection setup is not part of the measurement.
    agent.get(format!("{address}/health")).call().unwrap();
    let mut seen = Seen::default();
    for turn in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let entry = json!({ "type": "turn", "user": sentence(number + turn * 31), "assistant": sentence(turn + number * 17) });
        let (ok, elapsed) =
            post("/v1/append", &json!({ "key": format!("client-{number}"), "entries": [entry] }));
        stored.fetch_add(u64::from(ok), Ordering::Relaxed);
        seen.appends.push(elapsed);
        let words = format!("{} {}", WORDS[turn % 12], WORDS[(number + 3) % 12]);
        let (found, elapsed) = post("/v1/search", &json!({ "query": words, "limit": 5 }));
        seen.searches.push(elapsed);
        seen.errors += u64::from(!ok) + u64::from(!found);
    }
    seen
}

/// The resident memory of a process, sampled every second.
fn watch(server: &Child, lasting: Duration) -> Vec<u64> {
    let (start, mut sizes) = (Instant::now(), Vec::new());
    while start.elapsed() < lasting {
        sizes.push(of_process(server, "VmRSS:"));
        std::thread::sleep(Duration::from_secs(1).min(lasting / 10));
    }
    sizes
}

fn report(home: &Path, all: &mut Seen, sizes: &[u64], stored: u64, lasting: Duration) {
    let each = |count: usize| count as f64 / lasting.as_secs_f64();
    let (appends, searches) = (each(all.appends.len()), each(all.searches.len()));
    println!(
        "  {CLIENTS} clients for {lasting:?}: {appends:.0} appends and {searches:.0} searches per second"
    );
    row("append, p99", millis(percentile(&mut all.appends, 0.99)), 100.0, "ms");
    println!(
        "  {:<54}{:>12}",
        "append, p50",
        format!("{:.2} ms", millis(percentile(&mut all.appends, 0.5)))
    );
    println!(
        "  {:<54}{:>12}",
        "search, p50",
        format!("{:.2} ms", millis(percentile(&mut all.searches, 0.5)))
    );
    row("errors", all.errors as f64, 0.0, "");
    let verified = treering(home, &["--json", "verify"]).output().unwrap();
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(verified["clean"], true, "{verified}");
    let missing = 2 * stored as i64 - verified["messages"].as_i64().unwrap();
    row("acknowledged messages that are missing", missing.abs() as f64, 0.0, "");
    // The caches are full after a third of the time; later growth is due to the stored turns.
    let (warm, end) =
        (sizes[sizes.len() / 3] as f64 / 1024.0, sizes[sizes.len() - 1] as f64 / 1024.0);
    println!(
        "  resident memory: {warm:.0} MiB after a third of the time, {end:.0} MiB at the end; {stored} turns stored"
    );
    let bytes_per_message =
        (end - warm) * 1024.0 * 1024.0 / (stored as f64 * 2.0 * 2.0 / 3.0).max(1.0);
    row("resident bytes per message stored after that", bytes_per_message, 1000.0, "B");
}

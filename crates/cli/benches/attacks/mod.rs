//! Attacks on the server: each runs for a while against the same server, and another tenant's
//! searches and the health check are measured meanwhile.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use treering::{
    AppendTarget, Engine, Entry, EntryBatch, NewConversation, NewMessage, ReplayDetection, Role,
    TenantId, ThreadName,
};
use treering_core::ExternalId;

use super::report::{millis, row};
use super::{WORDS, percentile, sentence, serve, stop, treering, write_tokens};

/// Connections that stalled clients hold: more than the server admits.
const STALLED: usize = 600;
/// Clients that ask for contexts of the past at the same time.
const ASKING: usize = 16;
/// Turns of the other tenant.
const OTHER_TURNS: usize = 2_000;

/// An attack: its name, and a client that runs until the flag is set.
type Attack = (&'static str, fn(&Target<'_>, usize, &AtomicBool), usize);

const ATTACKS: [Attack; 5] = [
    ("nothing", |_, _, _| {}, 0),
    ("600 clients that never read /openapi.json", unread_answers, 1),
    ("600 clients with half-sent headers", half_sent_headers, 1),
    ("600 clients with half-sent bodies", half_sent_bodies, 1),
    ("16 clients with contexts of the past", contexts_of_the_past, ASKING),
];

/// The attacked server.
struct Target<'a> {
    address: &'a str,
    secret: &'a str,
    turns: usize,
    contexts: AtomicU64,
}

/// Runs every attack. `turns` is the length of the conversation of the attacking tenant.
pub(crate) fn run(lasting: Duration, turns: usize) {
    let home = tempfile::tempdir().unwrap();
    let secrets = write_tokens(home.path(), 2);
    println!("  storing {turns} turns and their summaries");
    for (tenant, turns) in [("tenant-0", turns), ("tenant-1", OTHER_TURNS)] {
        store(home.path(), tenant, turns);
    }
    let (server, address) = serve(home.path());
    let target =
        Target { address: &address, secret: &secrets[0], turns, contexts: AtomicU64::new(0) };
    measure_contexts(&target);
    // The first search loads the index.
    post(&agent(), (&address, &secrets[1]), "/v1/search", &json!({ "query": "tide" }));
    for (name, client, clients) in ATTACKS {
        let ended = AtomicBool::new(false);
        let (mut searches, mut checks, failed) = std::thread::scope(|scope| {
            for number in 0..clients {
                let (target, ended) = (&target, &ended);
                scope.spawn(move || client(target, number, ended));
            }
            let measured = scope.spawn(|| measure(&address, &secrets[1], lasting));
            let measured = measured.join().unwrap();
            ended.store(true, Ordering::Release);
            measured
        });
        println!("  under attack by {name}, for {lasting:?}: {} searches", searches.len());
        let search = millis(percentile(&mut searches, 0.99));
        row("search of another tenant, p99", search, 100.0, "ms");
        row("/ready, p99", millis(percentile(&mut checks, 0.99)), 100.0, "ms");
        row("/ready, longest", millis(percentile(&mut checks, 1.0)), 100.0, "ms");
        row("failed requests", failed as f64, 0.0, "");
    }
    println!("  {} contexts of the past answered", target.contexts.into_inner());
    stop(server);
}

/// Stores a conversation with its summaries.
fn store(home: &Path, tenant: &str, turns: usize) {
    let engine = treering::open_engine(home).unwrap();
    let engine: Engine = engine.for_tenant(TenantId::new(tenant).unwrap());
    for from in (0..2 * turns).step_by(1000) {
        let until = (from + 1000).min(2 * turns);
        let entries = (from..until).map(|number| {
            let role = if number % 2 == 0 { Role::User } else { Role::Assistant };
            let message = NewMessage::new(role, sentence(number), engine.clock().now());
            Entry::message(ThreadName::main(), message)
        });
        let external_id = Some(ExternalId::new("talk").unwrap());
        let conversation = NewConversation { external_id, ..Default::default() };
        let target = AppendTarget::FindOrCreate(conversation);
        let entries = entries.collect();
        engine
            .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })
            .unwrap();
    }
    drop(engine);
    let args = ["--tenant", tenant, "work"];
    treering(home, &args).stdout(Stdio::null()).status().unwrap();
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

/// Sends a request, and returns whether it was answered with 200.
fn post(agent: &ureq::Agent, target: (&str, &str), path: &str, body: &Value) -> bool {
    let (address, secret) = target;
    let request = ureq::http::Request::post(format!("{address}{path}"))
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {secret}"))
        .body(body.to_string())
        .unwrap();
    agent.run(request).is_ok_and(|mut response| {
        response.body_mut().read_to_vec().is_ok() && response.status() == 200
    })
}

/// Searches and checks the health, each on a connection of its own, as a new client would.
fn measure(
    address: &str,
    secret: &str,
    lasting: Duration,
) -> (Vec<Duration>, Vec<Duration>, usize) {
    let (start, mut failed) = (Instant::now(), 0);
    let (mut searches, mut checks) = (Vec::new(), Vec::new());
    for number in 0.. {
        if start.elapsed() >= lasting {
            break;
        }
        let words = format!("{} {}", WORDS[number % 12], WORDS[(number / 12 + 5) % 12]);
        let body = json!({ "query": words, "limit": 5 });
        let asked = Instant::now();
        failed += usize::from(!post(&agent(), (address, secret), "/v1/search", &body));
        searches.push(asked.elapsed());
        let asked = Instant::now();
        let is_ready = agent().get(format!("{address}/ready")).call();
        failed += usize::from(!is_ready.is_ok_and(|response| response.status() == 200));
        checks.push(asked.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    (searches, checks, failed)
}

/// Compares a context of the past with one of now.
fn measure_contexts(target: &Target<'_>) {
    let agent = agent();
    let context = |as_of: Option<usize>, number: usize| {
        let query = format!("what about the {} {}", WORDS[number % 12], WORDS[number / 12 % 12]);
        let body = json!({ "conversation": "talk", "query": query, "as_of": as_of });
        let start = Instant::now();
        assert!(post(&agent, (target.address, target.secret), "/v1/context", &body));
        start.elapsed()
    };
    context(None, 0);
    let mut now: Vec<Duration> = (0..20).map(|number| context(None, number)).collect();
    let turn = |number: usize| number * target.turns / 20;
    let mut past: Vec<Duration> =
        (0..20).map(|number| context(Some(turn(number)), number)).collect();
    let (now, past) = (percentile(&mut now, 0.5), percentile(&mut past, 0.5));
    println!("  {:<54}{:>12}", "context of now, p50", format!("{:.2} ms", millis(now)));
    row("context of the past compared with it, p50", millis(past) / millis(now), 5.0, "×");
}

fn contexts_of_the_past(target: &Target<'_>, client: usize, ended: &AtomicBool) {
    let agent = agent();
    for number in 0.. {
        if ended.load(Ordering::Acquire) {
            return;
        }
        let turn = (number * 7919 + client * 104_729) % (target.turns - 1);
        let query = format!("what about the {} {}", WORDS[number % 12], WORDS[client % 12]);
        let body = json!({ "conversation": "talk", "query": query, "as_of": turn });
        let is_answered = post(&agent, (target.address, target.secret), "/v1/context", &body);
        target.contexts.fetch_add(u64::from(is_answered), Ordering::Relaxed);
    }
}

fn unread_answers(target: &Target<'_>, _: usize, ended: &AtomicBool) {
    let request = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stall(target, ended, |number| request.repeat(8 + number % 53));
}

fn half_sent_headers(target: &Target<'_>, _: usize, ended: &AtomicBool) {
    stall(target, ended, |_| "GET /health HTTP/1.1\r\nhost: localhost\r\nx-half: ".to_owned());
}

fn half_sent_bodies(target: &Target<'_>, _: usize, ended: &AtomicBool) {
    let secret = target.secret;
    stall(target, ended, |_| {
        format!(
            "POST /v1/search HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {secret}\r\n\
             content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{"
        )
    });
}

/// Holds connections that sent something and then neither read nor write. Opens those again that
/// the server closes, and 200 others each second.
fn stall(target: &Target<'_>, ended: &AtomicBool, sent: impl Fn(usize) -> String) {
    let address = target.address.strip_prefix("http://").unwrap();
    let open = |number: usize| {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_nonblocking(true).ok()?;
        stream.write_all(sent(number).as_bytes()).ok()?;
        Some(stream)
    };
    let is_open = |stream: &TcpStream| match stream.take_error() {
        Ok(None) => stream.peer_addr().is_ok() && !is_closed(stream),
        _ => false,
    };
    let mut streams: Vec<Option<TcpStream>> = (0..STALLED).map(open).collect();
    for round in 0.. {
        if ended.load(Ordering::Acquire) {
            return;
        }
        streams[round % STALLED] = None;
        for (number, stream) in streams.iter_mut().enumerate() {
            if !stream.as_ref().is_some_and(is_open) {
                *stream = open(number);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the server closed a connection on which nothing was sent back.
fn is_closed(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

//! Context benchmarks: latency in a conversation of 10,000 turns, also during a provider outage,
//! and over a project of 1,000 sessions; and the share of a context that the next turn can reuse.
//!
//! `cargo bench --bench context`, or a part of it: `-- assembly`, `project`, `outage`, `stability`

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use treering::import::{ImportOptions, Importer};
use treering::{
    AppendTarget, Bpe, ContextRequest, EmbeddedStore, Engine, EngineParts, Entry, EntryBatch,
    Extractive, JobScope, Models, NewConversation, NewMessage, Options, Policy, ProviderOptions,
    ReplayDetection, Role, StaticEmbedder, Sync, TenantId, ThreadName, WorkOptions, Worker,
    WorkerHandle,
};
use treering_core::ports::ConversationFilter;
use treering_core::{
    Clock, ConversationId, ConversationState, ExternalId, Timestamp, Tokenizer as _, TurnNo,
};
use treering_engine::{ContextScope, ScopeContextRequest};
use treering_providers::ModelSummarizer;
use treering_testkit::FakeClock;
use treering_testkit::fault_server::{FaultServer, ScriptedResponse};
use treering_testkit::generate::sentence;
use treering_testkit::parts::measure;

fn main() {
    println!("{:<66}{:>12}{:>12}{:>10}", "", "measured", "goal", "");
    measure(&[
        ("assembly", assembly),
        ("project", project),
        ("outage", outage),
        ("stability", stability),
    ]);
}

fn row(label: &str, measured: f64, goal: &str, is_met: bool) {
    let mark = if is_met { "" } else { "MISSED" };
    println!("  {label:<64}{measured:>12.2}{goal:>12}{mark:>10}");
}

fn open(home: &Path) -> Engine {
    treering::open_engine_with(home, Options { sync: Sync::Normal, ..Options::default() }).unwrap()
}

/// Contexts of 8,000 tokens over 10,000 turns and their tree, each for a different question.
fn assembly() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    let id = fill(&engine, 10_000);
    Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
    let nodes = engine.tree(id).unwrap().nodes.len();
    println!("  10,000 turns under {nodes} nodes, budget 8,000");
    let mut state = 4242;
    let mut measure = |asks: bool| {
        let mut times: Vec<Duration> = (0..400)
            .map(|_| {
                let mut request = ContextRequest::new(id);
                request.query = asks.then(|| sentence(&mut state, 8));
                let start = Instant::now();
                let context = engine.context(&request).unwrap();
                let elapsed = start.elapsed();
                assert!(context.receipt.tokens <= 8000 && context.receipt.tokens > 7200);
                elapsed
            })
            .collect();
        times.sort_unstable();
        (times[200].as_secs_f64() * 1e3, times[396].as_secs_f64() * 1e3)
    };
    measure(true);
    let (p50, p99) = measure(true);
    row("assembly with a question, p50, ms", p50, "≤ 5", p50 <= 5.0);
    row("assembly with a question, p99, ms", p99, "≤ 15", p99 <= 15.0);
    let (p50, p99) = measure(false);
    row("standing context, p50, ms", p50, "≤ 5", p50 <= 5.0);
    row("standing context, p99, ms", p99, "≤ 15", p99 <= 15.0);
}

/// Standing contexts over a project of 1,000 sessions and 100,000 messages, in one process and each
/// in a new one, which has just opened the store.
fn project() {
    const SESSIONS: usize = 1000;
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    let mut state = 11;
    for session in 0..SESSIONS {
        fill_session(&engine, session, &mut state);
    }
    let started = Instant::now();
    Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
    let built = started.elapsed().as_secs_f64();
    println!("  {SESSIONS} sessions, 100,000 messages; trees written in {built:.0} s");
    drop(engine);
    let request = |budget: u32| ScopeContextRequest {
        scope: ContextScope {
            conversations: Vec::new(),
            filter: ConversationFilter {
                project: Some("/srv/shop".into()),
                ..ConversationFilter::sessions(0)
            },
            exclude: Vec::new(),
            name: "the project /srv/shop".into(),
        },
        query: None,
        min_score: None,
        budget,
        profile: ContextRequest::new(ConversationId::from_bytes([0; 16])).profile,
    };
    for budget in [1500, 8000] {
        let mut cold: Vec<Duration> = (0..20)
            .map(|_| {
                let started = Instant::now();
                let engine = open(home.path());
                let context = engine.scope_context(&request(budget)).unwrap();
                let elapsed = started.elapsed();
                let messages: u32 = context.receipt.sessions.iter().map(|it| it.messages).sum();
                assert_eq!(messages, 100_000, "every session is covered");
                elapsed
            })
            .collect();
        let engine = open(home.path());
        let mut warm: Vec<Duration> = (0..200)
            .map(|_| {
                let started = Instant::now();
                let context = engine.scope_context(&request(budget)).unwrap();
                assert!(context.receipt.tokens <= budget);
                started.elapsed()
            })
            .collect();
        cold.sort_unstable();
        warm.sort_unstable();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let label =
            |figure: &str| format!("project of 1,000 sessions, {budget} tokens, {figure}, ms");
        row(&label("warm p50"), ms(warm[100]), "≤ 20", ms(warm[100]) <= 20.0);
        row(&label("from a new process, p50"), ms(cold[10]), "≤ 300", ms(cold[10]) <= 300.0);
    }
}

/// Stores and closes a session of 50 turns.
fn fill_session(engine: &Engine, session: usize, state: &mut u64) {
    let mut entries = Vec::new();
    for turn in 0..50 {
        for (role, seconds) in [(Role::User, 0), (Role::Assistant, 20)] {
            let at = 1_600_000_000 + session as i64 * 86_400 + turn * 60 + seconds;
            let text = format!("{}.", sentence(state, 40));
            let message = NewMessage::new(role, text, Timestamp::from_micros(at * 1_000_000));
            entries.push(Entry::message(ThreadName::main(), message));
        }
        entries.push(Entry::turn_end(ThreadName::main()));
    }
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(ExternalId::new(format!("session-{session}")).unwrap()),
        cwd: Some("/srv/shop".into()),
        ..NewConversation::default()
    });
    let batch = EntryBatch { target, entries, replay_detection: ReplayDetection::None };
    let id = engine.append(batch).unwrap().conversation.id;
    engine.set_state(id, ConversationState::Closed).unwrap();
}

/// Append and context latency during ten minutes of simulated time in which a provider answers,
/// refuses or hangs, side by side. It had summarized the earlier conversation.
fn outage() {
    const TURNS: usize = 600;
    let mut state = 99;
    // Half as long as a window, as the detailed strategy asks for.
    let overview: Vec<String> = (0..12).map(|_| format!("{}.", sentence(&mut state, 40))).collect();
    let summary = json!({"overview": overview.join(" "), "key_findings": [sentence(&mut state, 12)],
        "decisions": [], "action_items": [], "unresolved": [], "topics": []});
    let answer = json!({"choices": [{"message": {"content": summary.to_string()}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 80}});
    let responses = [
        ScriptedResponse::json(&answer),
        ScriptedResponse::refuse(500, "down"),
        ScriptedResponse::Hang(Duration::from_secs(3600)),
    ];
    let homes = responses.map(|response| {
        let mut home = OutageHome::open(FaultServer::start([ScriptedResponse::json(&answer)]));
        home.wait_for_request(response);
        home
    });
    let mut times: [[Vec<Duration>; 2]; 3] = Default::default();
    for turn in 0..TURNS {
        // A simulated second passes, in which a worker may run jobs.
        homes.iter().for_each(|home| home.clock.set(at(turn as i64)));
        std::thread::sleep(Duration::from_millis(110));
        let text = format!("{}.", sentence(&mut state, 40));
        // Each home goes first in turn.
        for index in (0..homes.len()).map(|index| (index + turn) % homes.len()) {
            let (append, context) = homes[index].turn(turn as i64, &text, None);
            times[index][0].push(append);
            times[index][1].push(context);
        }
    }
    for home in homes {
        let stored = home.engine.stats().unwrap().totals;
        assert_eq!(
            stored.messages as usize,
            2 * (TURNS + HISTORY + TURNS_BEFORE_REQUEST),
            "nothing is lost"
        );
        // A hanging call is abandoned; it ends with the process.
        home.worker.unwrap().stop_with_deadline(Instant::now()).unwrap();
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mean = |times: &[Duration]| ms(times.iter().sum()) / TURNS as f64;
    times.iter_mut().flatten().for_each(|times| times.sort_unstable());
    for (label, operation) in [("append", 0), ("context", 1)] {
        for (percentile, max_ms) in [(Some(50), 0.5), (Some(90), 0.5), (Some(99), 1.0), (None, 0.5)]
        {
            let of = |times: &Vec<Duration>| {
                percentile.map_or_else(
                    || mean(times),
                    |percentile: usize| ms(times[TURNS * percentile / 100]),
                )
            };
            let [healthy, refusing, hanging] =
                [0, 1, 2].map(|home: usize| of(&times[home][operation]));
            let figure =
                percentile.map_or("mean".to_owned(), |percentile| format!("p{percentile}"));
            println!(
                "  {:<64}{healthy:>12.2}",
                format!("{label} with a provider that answers, {figure}, ms")
            );
            for (failure, ms) in [("refuses", refusing), ("hangs", hanging)] {
                let (more, label) =
                    (ms - healthy, format!("additional time if the provider {failure}, ms"));
                row(&label, more, &format!("≤ {max_ms}"), more <= max_ms);
            }
        }
    }
}

/// Turns that are stored and summarized before the outage.
const HISTORY: usize = 600;

/// Turns that are stored before the measurement, so that the outage has been noticed.
const TURNS_BEFORE_REQUEST: usize = 10;

/// A store with a fake clock whose summaries come from a scripted server on loopback.
struct OutageHome {
    engine: Engine,
    clock: Arc<FakeClock>,
    server: FaultServer,
    worker: Option<WorkerHandle>,
    _home: tempfile::TempDir,
}

impl OutageHome {
    fn open(server: FaultServer) -> Self {
        let mut providers = ProviderOptions::default();
        providers.providers.get_mut("compatible").unwrap().base_url = server.url().to_owned();
        let chat = Models::new(providers).chat("compatible", "m").unwrap();
        let (home, clock) = (tempfile::tempdir().unwrap(), Arc::new(FakeClock::at(at(0))));
        let parts = EngineParts {
            store: Arc::new(EmbeddedStore::open(home.path(), Sync::Normal).unwrap()),
            tokenizer: Arc::new(Bpe::O200k),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            summarizer: Arc::new(ModelSummarizer::new(chat, 0.3, Default::default())),
            fallback: Some(Arc::new(Extractive)),
            embedder: Arc::new(StaticEmbedder::new()),
            other_embedders: Vec::new(),
            policy: Policy::default(),
            work: WorkOptions { batch_delay_ms: 0, ..WorkOptions::default() },
            spend: Default::default(),
            search: Default::default(),
            embed_texts: Default::default(),
            exclusions: Default::default(),
            recall: Default::default(),
            index_files: None,
        };
        let engine = Engine::new(parts, TenantId::default());
        let this = Self { engine, clock, server, worker: None, _home: home };
        let mut state = 7;
        for turn in 0..HISTORY {
            let text = format!("{}.", sentence(&mut state, 40));
            this.turn(-60 * (HISTORY - turn) as i64, &text, Some(Duration::ZERO));
        }
        Worker::new(this.engine.clone()).unwrap().run(&JobScope::default(), &|_, _| ()).unwrap();
        this
    }

    /// Changes the server's behavior, then seals a window so that the provider is asked for its
    /// summary, 20 seconds before the measurement.
    fn wait_for_request(&mut self, response: ScriptedResponse) {
        self.server.set_script([response]);
        let before = self.server.requests().len();
        self.worker = Some(self.engine.spawn_worker().unwrap());
        for _ in 0..TURNS_BEFORE_REQUEST {
            self.turn(
                -20,
                &"They wrote about the gauge and the tide. ".repeat(20),
                Some(Duration::ZERO),
            );
        }
        while self.server.requests().len() == before {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stores a turn at the given second and builds a context. Returns the two durations.
    fn turn(
        &self,
        second: i64,
        text: &str,
        gate_timeout: Option<Duration>,
    ) -> (Duration, Duration) {
        self.clock.set(at(second));
        let message = |role: Role| NewMessage::new(role, text, self.clock.now());
        let entries = [Role::User, Role::Assistant];
        let entries = entries.map(|role| Entry::message(ThreadName::main(), message(role))).into();
        let external_id = Some(ExternalId::new("bench").unwrap());
        let target = AppendTarget::FindOrCreate(NewConversation {
            external_id,
            ..NewConversation::default()
        });
        let started = Instant::now();
        let id = self
            .engine
            .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })
            .unwrap()
            .conversation
            .id;
        let append = started.elapsed();
        let started = Instant::now();
        drop(
            self.engine
                .context(&ContextRequest { gate_timeout, ..ContextRequest::new(id) })
                .unwrap(),
        );
        (append, started.elapsed())
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_micros((1_700_000_000 + second) * 1_000_000)
}

/// Conversations that grow turn by turn: the share of each context that the previous one starts
/// with.
fn stability() {
    let configured = std::env::var_os("TREERING_DATA").map(PathBuf::from);
    let default_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = configured.unwrap_or(default_path).join("locomo-dev");
    let Ok(files) = std::fs::read_dir(&data) else {
        return println!(
            "  stability: skipped, set TREERING_DATA to the folder that has locomo-dev"
        );
    };
    let mut shares = Vec::new();
    for file in files.flatten() {
        let home = tempfile::tempdir().unwrap();
        let engine = open(home.path());
        let runner = Importer { engine: &engine, options: ImportOptions::default() };
        let text = std::fs::read_to_string(file.path()).unwrap();
        runner.text("haystack.json", text).unwrap();
        Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
        let conversation = engine
            .listed_conversations(&ConversationFilter::all(1))
            .unwrap()
            .remove(0)
            .conversation;
        let mut before = String::new();
        for turn in 0..conversation.totals.turns {
            let request = ContextRequest {
                as_of: Some(TurnNo(turn)),
                ..ContextRequest::new(conversation.id)
            };
            let context = engine.context(&request).unwrap();
            let text = context.markdown();
            if turn > 0 {
                shares.push(reused(&before, &text));
            }
            before = text;
        }
    }
    let mean = 100.0 * shares.iter().sum::<f64>() / shares.len() as f64;
    shares.sort_unstable_by(f64::total_cmp);
    row(
        "locomo-dev turn by turn, 8,000 tokens: reusable prefix, mean %",
        mean,
        "≥ 85",
        mean >= 85.0,
    );
    println!("  {:<64}{:>12.2}", "the same, worst tenth, %", 100.0 * shares[shares.len() / 10]);
}

/// The share of `now`'s tokens in its common prefix with `before`.
fn reused(before: &str, now: &str) -> f64 {
    let same = before.bytes().zip(now.bytes()).take_while(|(one, other)| one == other).count();
    let end = (0..=same).rev().find(|end| now.is_char_boundary(*end)).unwrap_or(0);
    f64::from(Bpe::O200k.count(&now[..end])) / f64::from(Bpe::O200k.count(now).max(1))
}

fn fill(engine: &Engine, turns: usize) -> ConversationId {
    let external_id = Some(ExternalId::new("bench").unwrap());
    let target =
        AppendTarget::FindOrCreate(NewConversation { external_id, ..NewConversation::default() });
    let mut state = 77;
    let mut id = None;
    for start in (0..turns).step_by(500) {
        let mut entries = Vec::new();
        for turn in start..(start + 500).min(turns) {
            for (role, seconds) in [(Role::User, 0), (Role::Assistant, 20)] {
                let at = 1_700_000_000 + turn as i64 * 60 + seconds;
                let text = format!("{}.", sentence(&mut state, 40));
                let message = NewMessage::new(role, text, Timestamp::from_micros(at * 1_000_000));
                entries.push(Entry::message(ThreadName::main(), message));
            }
        }
        let incoming =
            EntryBatch { target: target.clone(), entries, replay_detection: ReplayDetection::None };
        id = Some(engine.append(incoming).unwrap().conversation.id);
    }
    id.unwrap()
}

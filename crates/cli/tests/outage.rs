//! A provider outage of ten minutes, in simulated time. Capture and contexts continue, nothing is
//! lost, and afterwards the model writes every node exactly once.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use treering::{
    AppendTarget, Bpe, ContextRequest, EmbeddedStore, Engine, EngineParts, Entry, EntryBatch,
    Extractive, JobScope, Models, NewConversation, NewMessage, Policy, ProviderOptions, Query,
    ReplayDetection, Role, StaticEmbedder, Sync, TenantId, ThreadName, Timestamp, Update,
    WorkOptions, Worker,
};
use treering_core::ports::{JobFilter, Span};
use treering_core::{Clock, Conversation, ConversationId, Embedder, JobState, MessageIdx};
use treering_providers::ModelSummarizer;
use treering_testkit::FakeClock;
use treering_testkit::fault_server::{FaultServer, ScriptedResponse};
use treering_testkit::generate::external_id;

const MODEL: &str = "compatible/m-1";
const SECOND: i64 = 1_000_000;

fn start() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000)
}

fn options(server: &FaultServer) -> ProviderOptions {
    let mut options = ProviderOptions::default();
    options.providers.get_mut("compatible").unwrap().base_url = server.url().to_owned();
    options
}

fn models(server: &FaultServer) -> Models {
    Models::new(options(server))
}

fn open(
    folder: &Path,
    server: &FaultServer,
    clock: &Arc<FakeClock>,
    embedder: Arc<dyn Embedder>,
) -> Engine {
    Engine::new(parts(folder, server, clock, embedder), TenantId::default())
}

fn parts(
    folder: &Path,
    server: &FaultServer,
    clock: &Arc<FakeClock>,
    embedder: Arc<dyn Embedder>,
) -> EngineParts {
    let chat = models(server).chat("compatible", "m-1").unwrap();
    let small = ["window_chars=400", "min_flush_chars=0", "group_children=3", "group_chars=off"];
    EngineParts {
        store: Arc::new(EmbeddedStore::open(folder, Sync::Normal).unwrap()),
        tokenizer: Arc::new(Bpe::O200k),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        summarizer: Arc::new(ModelSummarizer::new(chat, 0.3, Default::default())),
        fallback: Some(Arc::new(Extractive)),
        embedder,
        other_embedders: Vec::new(),
        policy: Policy::default().with(&small.map(|text| text.parse().unwrap())).unwrap(),
        // A context that waited for the provider would hang the test for an hour.
        work: WorkOptions {
            batch_delay_ms: 0,
            gate_timeout_ms: 3_600_000,
            query_timeout_ms: 1000,
            ..WorkOptions::default()
        },
        spend: Default::default(),
        search: Default::default(),
        embed_texts: Default::default(),
        exclusions: Default::default(),
        recall: Default::default(),
        index_files: None,
    }
}

fn append_turn(engine: &Engine, turn: u32) -> Conversation {
    let text = |role: Role| {
        format!(
            "{role} in turn {turn}: the harbour office wrote about the gauge, and nobody has answered since the storm \
             took the roof of the old boathouse and rain came in."
        )
    };
    let now = engine.clock().now();
    let message =
        |role: Role| Entry::message(ThreadName::main(), NewMessage::new(role, text(role), now));
    let entries = vec![message(Role::User), message(Role::Assistant)];
    let new_conversation =
        NewConversation { external_id: Some(external_id("outage")), ..NewConversation::default() };
    let incoming = EntryBatch {
        target: AppendTarget::FindOrCreate(new_conversation),
        entries,
        replay_detection: ReplayDetection::None,
    };
    engine.append(incoming).unwrap().conversation
}

fn work(engine: &Engine) {
    Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
}

fn assert_sound(engine: &Engine) {
    let report = engine.verify(|_| ()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
}

/// The models that wrote the nodes, and the number of nodes. Asserts that no node is duplicated.
fn writers(engine: &Engine, id: ConversationId) -> (BTreeSet<String>, usize) {
    let nodes = engine.tree(id).unwrap().nodes;
    let positions: BTreeSet<_> = nodes.iter().map(|node| (node.level(), node.ordinal())).collect();
    let ids: BTreeSet<_> = nodes.iter().map(|node| node.id.clone()).collect();
    assert_eq!((positions.len(), ids.len()), (nodes.len(), nodes.len()), "nothing exists twice");
    (nodes.into_iter().map(|node| node.provenance.by).collect(), positions.len())
}

/// A summary that contradicts nothing in its source.
fn summary() -> ScriptedResponse {
    let summary = json!({"overview": "They spoke of the gauge and of an answer that has not come.", "key_findings": [],
        "decisions": [], "action_items": [], "unresolved": [], "topics": []});
    ScriptedResponse::json(
        &json!({"choices": [{"message": {"content": summary.to_string()}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 30}}),
    )
}

#[test]
fn an_outage_of_ten_minutes_only_causes_fallback_summaries() {
    let folder = tempfile::tempdir().unwrap();
    let server = FaultServer::start([ScriptedResponse::refuse(500, "down")]);
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder.path(), &server, &clock, Arc::new(StaticEmbedder::new()));
    let mut turns = 0;
    let mut id = None;
    for second in (0..600).step_by(10) {
        clock.set(start().plus_micros(second * SECOND));
        let requests = server.requests().len();
        let conversation = append_turn(&engine, turns);
        turns += 1;
        id = Some(conversation.id);
        // Jobs that have not been tried yet keep the gate closed. No worker runs here, so do not
        // wait.
        let gate_timeout = Some(Duration::ZERO);
        let request = ContextRequest { gate_timeout, ..ContextRequest::new(conversation.id) };
        assert!(
            engine.context(&request).unwrap().markdown().contains(&format!("turn {}", turns - 1))
        );
        assert_eq!(
            server.requests().len(),
            requests,
            "neither capture nor a context asks the provider"
        );
        work(&engine);
        // Failed jobs do not hold the gate: this returns despite the timeout of an hour.
        let context = engine.context(&ContextRequest::new(conversation.id)).unwrap();
        assert!(context.markdown().contains(&format!("turn {}", turns - 1)));
        assert!(engine.gate(conversation.id).unwrap().is_clear());
    }
    let id = id.unwrap();
    assert!(server.requests().len() > 20, "the provider was asked all the while");
    let messages = engine.messages(id, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
    assert_eq!(messages.len(), 2 * turns as usize, "nothing is lost");
    let (by, _) = writers(&engine, id);
    assert_eq!(by, BTreeSet::from([format!("extractive for {MODEL}")]));
    let jobs = engine.jobs(&JobFilter::all(usize::MAX)).unwrap();
    assert!(jobs.iter().all(|job| job.state != JobState::Dead), "nothing is given up");
    assert_sound(&engine);

    // The provider recovers.
    server.set_script([summary()]);
    clock.set(start().plus_micros(1200 * SECOND));
    work(&engine);
    assert!(
        engine.jobs(&JobFilter::all(9)).unwrap().is_empty(),
        "what waited for another try is done"
    );
    let waiting = engine.fallback_node_count(Some(id)).unwrap();
    let (_, before) = writers(&engine, id);
    assert!(waiting > 10, "{waiting}");
    engine.update(id, &Update::default()).unwrap();
    work(&engine);
    assert_eq!(writers(&engine, id), (BTreeSet::from([MODEL.to_owned()]), before));
    assert_eq!(engine.fallback_node_count(None).unwrap(), 0);
    assert_eq!(
        engine.update(id, &Update::default()).unwrap().queued,
        0,
        "nothing is left to upgrade"
    );
    assert_sound(&engine);
    let spent = engine.spend(Some(id)).unwrap().account.conversation;
    assert_eq!(
        spent.tokens_in,
        120 * spent.calls,
        "what failed cost nothing, what was answered is accounted"
    );
}

/// With a remote embedder too, only background jobs call it until the first vectors exist.
#[test]
fn search_and_contexts_do_not_call_an_embedder_without_stored_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let server = FaultServer::start([ScriptedResponse::refuse(500, "down")]);
    let clock = Arc::new(FakeClock::at(start()));
    let embedder = models(&server).embedder("compatible", "e-1", None).unwrap();
    let engine = open(folder.path(), &server, &clock, embedder);
    let id = append_turn(&engine, 0).id;
    work(&engine);
    let requests = server.requests().len();
    assert!(requests > 0);
    let context = ContextRequest { query: Some("the boathouse".into()), ..ContextRequest::new(id) };
    assert!(engine.context(&context).unwrap().markdown().contains("turn 0"));
    let query = Query { text: "boathouse".into(), limit: 3, ..Query::default() };
    let answer = engine.search(&query).unwrap();
    assert!(
        answer.lexical_only_reason.unwrap().contains("not returned a vector yet")
            && !answer.hits.is_empty()
    );
    assert_eq!(server.requests().len(), requests);

    let vector =
        json!({"data": [{"index": 0, "embedding": [0.6, 0.8]}], "usage": {"prompt_tokens": 9}});
    let two = json!({"data": [{"index": 0, "embedding": [0.6, 0.8]}, {"index": 1, "embedding": [0.8, 0.6]}]});
    server.set_script([ScriptedResponse::json(&two), ScriptedResponse::json(&vector)]);
    engine.retry_jobs(None).unwrap();
    Worker::new(engine.clone())
        .unwrap()
        .run(&JobScope { only: Some(0), ..JobScope::default() }, &|_, _| {})
        .unwrap();
    let answer = engine.search(&query).unwrap();
    assert_eq!(
        answer.lexical_only_reason, None,
        "once there are vectors, the same memory goes by them"
    );

    // The provider hangs: one query waits until the timeout, later ones not at all, and search
    // falls back to words.
    server.set_script([ScriptedResponse::Hang(Duration::from_secs(600))]);
    let answer = engine.search(&query).unwrap();
    assert!(
        answer.lexical_only_reason.unwrap().contains("within 1000 ms") && !answer.hits.is_empty()
    );
    let requests = server.requests().len();
    for _ in 0..20 {
        let found = engine.context(&context).unwrap();
        assert!(found.receipt.gate.degraded && found.markdown().contains("turn 0"));
        let answer = engine.search(&query).unwrap();
        assert!(answer.lexical_only_reason.unwrap().contains("called again in 15 s"));
    }
    assert_eq!(server.requests().len(), requests, "nobody asks who does not answer");
    server.set_script([ScriptedResponse::json(&vector)]);
    clock.set(start().plus_micros(15 * SECOND));
    assert_eq!(
        engine.search(&query).unwrap().lexical_only_reason,
        None,
        "after its rest it is asked again"
    );
}

/// A call that hangs stops holding the gate once it takes too long, in its own process and in
/// others.
#[test]
fn a_hanging_provider_delays_no_context() {
    let folder = tempfile::tempdir().unwrap();
    let server = FaultServer::start([ScriptedResponse::Hang(Duration::from_secs(3600))]);
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder.path(), &server, &clock, Arc::new(StaticEmbedder::new()));
    let id = (0..4).fold(None, |_, turn| Some(append_turn(&engine, turn).id)).unwrap();
    // The worker waits for an answer forever and ends with the process.
    std::mem::forget(engine.spawn_worker().unwrap());
    while server.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!engine.gate(id).unwrap().is_clear(), "for a while it is waited for");
    clock.set(start().plus_micros(20 * SECOND));
    // This returns despite the timeout of an hour.
    let context = engine.context(&ContextRequest::new(id)).unwrap();
    assert!(context.markdown().contains("turn 3") && context.receipt.gate.degraded);
    let other = open(folder.path(), &server, &clock, Arc::new(StaticEmbedder::new()));
    assert!(other.context(&ContextRequest::new(id)).unwrap().receipt.gate.degraded);
    let jobs = engine.jobs(&JobFilter::of(id)).unwrap();
    assert!(
        jobs.iter().any(|job| job.error.as_deref() == Some("there is no response yet")),
        "{jobs:?}"
    );
}

/// A useless answer is paid for and counts: a model that thinks until it is cut off cannot exceed
/// a cap.
#[test]
fn unusable_answers_count_against_a_cap() {
    let folder = tempfile::tempdir().unwrap();
    let thought = json!({"choices": [{"message": {"content": ""}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 200, "completion_tokens": 3000}});
    let server = FaultServer::start([ScriptedResponse::json(&thought)]);
    let clock = Arc::new(FakeClock::at(start()));
    let mut parts = parts(folder.path(), &server, &clock, Arc::new(StaticEmbedder::new()));
    parts.spend.caps.day.tokens = Some(1000);
    let engine = Engine::new(parts, TenantId::default());
    let id = (0..8).fold(None, |_, turn| Some(append_turn(&engine, turn).id)).unwrap();
    work(&engine);
    let account = engine.spend(Some(id)).unwrap().account;
    assert_eq!((account.day.calls, account.day.tokens_in + account.day.tokens_out), (1, 3200));
    assert_eq!(server.requests().len(), 1, "one call passed the cap, and none after it");
    assert_eq!(writers(&engine, id).0, BTreeSet::from([format!("extractive for {MODEL}")]));
}

/// The provider has probably processed a call that timed out, so its input counts against the
/// cap.
#[test]
fn calls_that_time_out_count_against_a_cap() {
    let folder = tempfile::tempdir().unwrap();
    let server = FaultServer::start([ScriptedResponse::Hang(Duration::from_secs(600))]);
    let clock = Arc::new(FakeClock::at(start()));
    let mut options = options(&server);
    options.providers.get_mut("compatible").unwrap().timeout = Duration::from_millis(300);
    let chat = Models::new(options).chat("compatible", "m-1").unwrap();
    let mut parts = parts(folder.path(), &server, &clock, Arc::new(StaticEmbedder::new()));
    parts.summarizer = Arc::new(ModelSummarizer::new(chat, 0.3, Default::default()));
    parts.spend.caps.day.tokens = Some(1);
    parts.work.concurrency = 1;
    let engine = Engine::new(parts, TenantId::default());
    let id = (0..8).fold(None, |_, turn| Some(append_turn(&engine, turn).id)).unwrap();
    work(&engine);
    clock.set(start().plus_micros(3600 * SECOND));
    work(&engine);
    let day = engine.spend(Some(id)).unwrap().account.day;
    let sent = server.requests()[0].body.len() as i64;
    assert_eq!((day.calls, day.tokens_out), (1, 0));
    assert!(day.tokens_in > sent / 8 && day.tokens_in < sent / 2, "{day} for {sent} bytes");
    assert_eq!(server.requests().len(), 1, "one call passed the cap, and none after it");
    assert_eq!(writers(&engine, id).0, BTreeSet::from([format!("extractive for {MODEL}")]));
    // The provider answers again, and the cap is lifted.
    server.set_script([summary()]);
    let (_, before) = writers(&engine, id);
    let engine = open(folder.path(), &server, &clock, Arc::new(StaticEmbedder::new()));
    engine.update(id, &Update::default()).unwrap();
    work(&engine);
    assert_eq!(writers(&engine, id), (BTreeSet::from([MODEL.to_owned()]), before));
    let messages = engine.messages(id, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
    assert_eq!(messages.len(), 16, "nothing is lost");
    assert_sound(&engine);
}

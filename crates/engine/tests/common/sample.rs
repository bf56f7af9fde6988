//! A small store with rows in every table: two tenants, tool calls, threads, nodes of two levels,
//! jobs of every kind, stored vectors, spend and job events.

use std::path::Path;
use std::sync::Arc;

use treering_core::ports::NodeFilter;
use treering_core::spend::{Charge, Money, SpendAmount};
use treering_core::{
    CommitScope, ConversationId, Embedder, Entry, EntryKind, Job, JobKind, Json, Level, NewMessage,
    NewToolCall, Policy, Role, Store, TenantId, ThreadName, TitleSource, ToolResult, Write,
};
use treering_engine::{
    AppendTarget, Engine, EntryBatch, JobScope, NewConversation, ReplayDetection, Worker,
};
use treering_providers::StaticEmbedder;
use treering_stores::{EmbeddedStore, Sync};
use treering_testkit::generate::external_id;
use treering_testkit::{BagOfWordsEmbedder, FakeClock, PrefixSummarizer};

use super::{parts, start};

/// The name of the second tenant.
pub const OTHER_TENANT: &str = "acme";

/// An engine on the sample store, with the embedder of its vectors.
pub fn open(folder: &Path) -> Engine {
    let assignments = [
        "window_chars=200",
        "wiggle=0.35",
        "min_flush_chars=0",
        "group_children=2",
        "group_chars=off",
    ];
    let policy = Policy::default().with(&assignments.map(|text| text.parse().unwrap())).unwrap();
    let clock = Arc::new(FakeClock::at(start().plus_micros(86_400_000_000)));
    let embedders: Vec<Arc<dyn Embedder>> =
        vec![Arc::new(BagOfWordsEmbedder::named("bags")), Arc::new(StaticEmbedder::new())];
    let mut parts = parts(folder, policy, Arc::new(PrefixSummarizer::default()), clock, embedders);
    // Two threads would assign sequence numbers in an order that depends on the scheduler.
    parts.work.concurrency = 1;
    Engine::new(parts, TenantId::default())
}

/// Runs every due job.
pub fn work(engine: &Engine) {
    Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
}

/// Writes the store into a folder.
pub fn write(folder: &Path) {
    let engine = open(folder);
    let other = engine.for_tenant(TenantId::new(OTHER_TENANT).unwrap());
    let harbour = append(&engine, "harbour", turns("harbour", 0..6));
    append(&engine, "harbour", branch());
    append(&other, "depot", turns("depot", 0..3));
    work(&engine);
    work(&other);
    // The jobs of the following turns stay queued.
    append(&engine, "quay", turns("quay", 0..2));
    let node = {
        let store = EmbeddedStore::open(folder, Sync::Normal).unwrap();
        let reader = store.reader(&TenantId::default()).unwrap();
        reader.nodes(harbour, &NodeFilter::at(Level::FIRST)).unwrap().remove(0)
    };
    let job =
        Job::plan(harbour, JobKind::EmbedNode(node.level(), node.ordinal(), node.id), start());
    let charge = |conversation| Charge {
        at: start(),
        conversation,
        model: "openai/gpt-4o-mini".into(),
        spent: SpendAmount {
            calls: 2,
            tokens_in: 900,
            tokens_out: 120,
            money: Money(207_000),
            unpriced: 0,
        },
    };
    commit(
        folder,
        vec![
            Write::AddJob(job),
            Write::AddSpend(charge(Some(harbour))),
            Write::AddSpend(charge(None)),
        ],
    );
}

/// Appends one more turn to a conversation.
pub fn append_turn(engine: &Engine, name: &str, number: i64) {
    append(engine, name, turns(name, number..number + 1));
}

fn commit(folder: &Path, writes: Vec<Write>) {
    let store = EmbeddedStore::open(folder, Sync::Normal).unwrap();
    let scope = CommitScope::Tenant(TenantId::default());
    store.commit(scope, Box::new(move |_| Ok(writes.clone()))).unwrap();
}

fn append(engine: &Engine, name: &str, entries: Vec<Entry>) -> ConversationId {
    let new_conversation = NewConversation {
        external_id: Some(external_id(name)),
        title: Some(name.to_owned()),
        title_source: TitleSource::Source,
        cwd: Some(format!("/projects/{name}")),
        project_path: Some("/projects".to_owned()),
        ..NewConversation::default()
    };
    let incoming = EntryBatch {
        target: AppendTarget::FindOrCreate(new_conversation),
        entries,
        replay_detection: ReplayDetection::None,
    };
    engine.append(incoming).unwrap().conversation.id
}

/// Turns with a question, a tool call with its result, and an answer.
fn turns(name: &str, numbers: std::ops::Range<i64>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for number in numbers {
        let at = start().plus_micros(number * 60_000_000);
        let ask = format!(
            "What is the depth at berth {number} of the {name} after the dredging in spring?"
        );
        let answer = format!(
            "Berth {number} of the {name} is {number}.4 m deep; the survey was done on Monday."
        );
        let message = |role, text: String, id: &str| {
            let external_id = Some(external_id(&format!("{name}-{id}-{number}")));
            let author = (role == Role::User).then(|| "mara".to_owned());
            NewMessage { external_id, author, ..NewMessage::new(role, text, at) }
        };
        let outcome = ToolResult {
            result: Json::string(&format!("{number}.4 m at berth {number}")),
            success: Some(true),
            duration_ms: Some(12),
        };
        let call = NewToolCall {
            name: "read_gauge".into(),
            args: Json::new(&format!("{{\"berth\":{number},\"of\":\"{name}\"}}")).unwrap(),
            outcome: Some(outcome),
            at,
            external_id: Some(external_id(&format!("{name}-call-{number}"))),
        };
        entries.push(Entry::message(ThreadName::main(), message(Role::User, ask, "ask")));
        entries.push(EntryKind::ToolCall(call).into());
        entries
            .push(Entry::message(ThreadName::main(), message(Role::Assistant, answer, "answer")));
        entries.push(Entry::turn_end(ThreadName::main()));
    }
    entries
}

/// A thread beside the main one.
fn branch() -> Vec<Entry> {
    let thread = ThreadName::new("idea").unwrap();
    let at = start().plus_micros(600_000_000);
    let message =
        |role, text: &str| Entry::message(thread.clone(), NewMessage::new(role, text, at));
    vec![
        message(Role::User, "And if we moved the gauge?"),
        message(Role::Assistant, "Then it reads 0.2 m less."),
        Entry::turn_end(thread.clone()),
    ]
}

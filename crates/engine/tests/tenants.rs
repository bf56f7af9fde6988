//! Many tenants in one store: one worker serves them in turn, index memory is bounded, and no
//! cache crosses a tenant boundary.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::common::{assert_sound, parts, start};
use tempfile::TempDir;
use treering_core::ports::{ConversationFilter, JobFilter};
use treering_core::{
    ConversationId, Entry, JobState, NewMessage, Policy, Role, TenantId, ThreadName, Timestamp,
};
use treering_engine::{
    AppendTarget, ContextRequest, Engine, EntryBatch, JobScope, NewConversation, Query,
    ReplayDetection, SearchOptions, Worker,
};
use treering_providers::StaticEmbedder;
use treering_testkit::generate::external_id;
use treering_testkit::{BagOfWordsEmbedder, FakeClock, PrefixSummarizer};

/// A memory with an index limit. With stored vectors every turn plans a job.
fn engine(memory_bytes: usize, has_jobs: bool) -> (Engine, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let embedders: Vec<Arc<dyn treering_core::Embedder>> = if has_jobs {
        vec![Arc::new(BagOfWordsEmbedder::default())]
    } else {
        vec![Arc::new(StaticEmbedder::new())]
    };
    let mut parts = parts(
        folder.path(),
        Policy::default(),
        Arc::new(PrefixSummarizer::default()),
        clock,
        embedders,
    );
    parts.search = SearchOptions { memory_bytes, ..SearchOptions::default() };
    parts.work.concurrency = 1;
    (Engine::new(parts, TenantId::default()), folder)
}

fn tenant(number: usize) -> TenantId {
    TenantId::new(format!("tenant-{number}")).unwrap()
}

/// Appends turns to a conversation that has the same key and id for every tenant.
fn append(engine: &Engine, turns: std::ops::Range<usize>) -> ConversationId {
    let new_conversation = NewConversation {
        id: Some(ConversationId::from_bytes([7; 16])),
        external_id: Some(external_id("talk")),
        ..NewConversation::default()
    };
    let name = engine.tenant().to_string();
    let entries = turns.flat_map(|turn| {
        let at = Timestamp::from_micros(start().as_micros() + turn as i64 * 1_000_000);
        [
            (Role::User, format!("{name} asks for berth {turn}")),
            (Role::Assistant, format!("berth {turn} is free")),
        ]
        .map(|(role, text)| Entry::message(ThreadName::main(), NewMessage::new(role, text, at)))
    });
    let incoming = EntryBatch {
        target: AppendTarget::FindOrCreate(new_conversation),
        entries: entries.collect(),
        replay_detection: ReplayDetection::None,
    };
    engine.append(incoming).unwrap().conversation.id
}

fn search(engine: &Engine, text: &str) -> Vec<String> {
    let query = Query { text: text.into(), limit: 3, ..Query::default() };
    let hits = engine.search(&query).unwrap().hits;
    hits.iter().map(|hit| hit.snippet.text.clone()).collect()
}

#[test]
fn one_worker_serves_all_tenants_in_turn() {
    const TURNS: usize = 100;
    let (engine, _folder) = engine(512 << 20, true);
    for number in 0..3 {
        append(&engine.for_tenant(tenant(number)), 0..TURNS);
    }
    // The remaining jobs of each tenant show whose job ran.
    let left =
        |number| engine.for_tenant(tenant(number)).jobs(&JobFilter::all(usize::MAX)).unwrap().len();
    assert!((0..3).all(|number| left(number) == TURNS), "a job for each turn");
    let seen = Mutex::new(Vec::new());
    let worker = Worker::for_all_tenants(engine.clone()).unwrap();
    let after = |_: &_, _: &_| {
        let all = [left(0), left(1), left(2)];
        let mut seen = seen.lock().unwrap();
        if seen.last() != Some(&all) {
            seen.push(all);
        }
    };
    let report = worker.run(&JobScope::default(), &after).unwrap();
    assert_eq!(report.done as usize, 3 * TURNS);
    for all in seen.into_inner().unwrap() {
        let (min, max) = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
        assert!(max - min <= 32, "one tenant is a batch ahead of another at most: {all:?}");
    }
    assert_sound(&engine);
}

#[test]
fn a_worker_of_one_tenant_leaves_the_others_alone() {
    let (engine, _folder) = engine(512 << 20, true);
    for number in 0..2 {
        append(&engine.for_tenant(tenant(number)), 0..5);
    }
    let first = engine.for_tenant(tenant(0));
    Worker::new(first.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
    let left = |engine: &Engine| engine.jobs(&JobFilter::all(usize::MAX)).unwrap().len();
    assert_eq!((left(&first), left(&engine.for_tenant(tenant(1)))), (0, 5));
}

#[test]
fn a_stopped_worker_leaves_no_lease() {
    let (engine, _folder) = engine(512 << 20, true);
    append(&engine, 0..80);
    let worker = Worker::new(engine.clone()).unwrap();
    worker.run_until(&AtomicBool::new(true), &JobScope::default(), &|_, _| {}).unwrap();
    let left = engine.jobs(&JobFilter::all(usize::MAX)).unwrap();
    assert!(
        !left.is_empty() && left.iter().all(|job| matches!(job.state, JobState::Waiting { .. })),
        "{left:?}"
    );
}

/// Conversations with the same id and node numbers: a cache without the tenant in its key would
/// mix them.
#[test]
fn no_cache_mixes_tenants() {
    let (engine, _folder) = engine(512 << 20, false);
    let engines = [0, 1].map(|number| engine.for_tenant(tenant(number)));
    for engine in &engines {
        append(engine, 0..400);
        Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
    }
    for _ in 0..2 {
        for (engine, other) in [(&engines[0], "tenant-1"), (&engines[1], "tenant-0")] {
            let id = engine.listed_conversations(&ConversationFilter::all(1)).unwrap()[0]
                .conversation
                .id;
            let request =
                ContextRequest { query: Some("berth 17".into()), ..ContextRequest::new(id) };
            let context = engine.context(&request).unwrap().markdown();
            assert!(
                context.contains(engine.tenant().as_str()) && !context.contains(other),
                "{context}"
            );
            let hits = search(engine, "who asks for berth 17");
            assert!(!hits.is_empty() && hits.iter().all(|hit| !hit.contains(other)), "{hits:?}");
        }
    }
    assert_sound(&engine);
}

/// With room for only one index, each search rebuilds its tenant's index and finds everything.
#[test]
fn search_finds_everything_after_its_index_was_evicted() {
    let (engine, _folder) = engine(1, false);
    let engines = [0, 1, 2].map(|number| engine.for_tenant(tenant(number)));
    for round in 0..3 {
        for engine in &engines {
            append(engine, 10 * round..10 * (round + 1));
            let hits = search(engine, &format!("berth {}", 10 * round + 4));
            assert!(hits[0].contains(&format!("berth {}", 10 * round + 4)), "{hits:?}");
        }
    }
}

//! An engine on a real store, with a clock and a summarizer under the control of the test.

#![allow(dead_code, unreachable_pub)]

pub mod sample;

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use treering_core::{
    CaptureExclusions, Clock, CommitScope, ConversationId, Embedder, Policy, RetryPolicy, Store,
    Summarizer, TenantId, Timestamp, Write,
};
use treering_engine::{
    EmbedTextOptions, Engine, EngineParts, JobScope, RecallOptions, SearchOptions, SpendLimits,
    WorkOptions, Worker,
};
use treering_providers::{Bpe, Extractive, StaticEmbedder};
use treering_stores::{EmbeddedStore, IndexFolder, Sync};
use treering_testkit::{FakeClock, PrefixSummarizer};

/// The initial time of test clocks.
pub fn start() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000)
}

/// An engine with default settings.
pub fn engine_with_defaults() -> (Engine, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (
        open(
            folder.path(),
            Policy::default(),
            Arc::new(PrefixSummarizer::default()),
            Arc::new(FakeClock::at(start())),
        ),
        folder,
    )
}

/// An engine with a policy.
pub fn engine_with_policy(policy: Policy) -> (Engine, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (
        open(
            folder.path(),
            policy,
            Arc::new(PrefixSummarizer::default()),
            Arc::new(FakeClock::at(start())),
        ),
        folder,
    )
}

pub fn open(
    folder: &Path,
    policy: Policy,
    summarizer: Arc<dyn Summarizer>,
    clock: Arc<dyn Clock>,
) -> Engine {
    open_with(folder, policy, summarizer, clock, vec![Arc::new(StaticEmbedder::new())])
}

/// An engine with embedders, the configured one first.
pub fn open_with(
    folder: &Path,
    policy: Policy,
    summarizer: Arc<dyn Summarizer>,
    clock: Arc<dyn Clock>,
    embedders: Vec<Arc<dyn Embedder>>,
) -> Engine {
    Engine::new(parts(folder, policy, summarizer, clock, embedders), TenantId::default())
}

/// The parts of an engine.
pub fn parts(
    folder: &Path,
    policy: Policy,
    summarizer: Arc<dyn Summarizer>,
    clock: Arc<dyn Clock>,
    embedders: Vec<Arc<dyn Embedder>>,
) -> EngineParts {
    let store = EmbeddedStore::open(folder, Sync::Normal).unwrap();
    let parts = parts_over(Arc::new(store), policy, summarizer, clock, embedders);
    EngineParts { index_files: Some(Arc::new(IndexFolder::new(folder))), ..parts }
}

/// The parts of an engine over a store that is already open.
pub fn parts_over(
    store: Arc<dyn Store>,
    policy: Policy,
    summarizer: Arc<dyn Summarizer>,
    clock: Arc<dyn Clock>,
    mut embedders: Vec<Arc<dyn Embedder>>,
) -> EngineParts {
    let work = WorkOptions {
        concurrency: 2,
        batch_delay_ms: 0,
        retry: RetryPolicy { retries: 2, base_delay_ms: 1000, factor: 2.0 },
        gate_timeout_ms: 5000,
        query_timeout_ms: 5000,
    };
    EngineParts {
        store,
        tokenizer: Arc::new(Bpe::O200k),
        clock,
        summarizer,
        fallback: Some(Arc::new(Extractive)),
        embedder: embedders.remove(0),
        other_embedders: embedders,
        policy,
        work,
        spend: SpendLimits::default(),
        search: SearchOptions::default(),
        embed_texts: EmbedTextOptions::default(),
        exclusions: CaptureExclusions::default(),
        recall: RecallOptions::default(),
        index_files: None,
    }
}

/// Runs every due job of a conversation.
pub fn run_due_jobs(engine: &Engine, id: ConversationId) {
    let scope = JobScope { conversation: Some(id), ..JobScope::default() };
    Worker::new(engine.clone()).unwrap().run(&scope, &|_, _| {}).unwrap();
}

pub fn assert_sound(engine: &Engine) {
    let report = engine.verify(|_| ()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
}

/// Writes to the store in a folder as another process would, bypassing the engine.
pub fn commit(folder: &Path, writes: Vec<Write>) {
    let store = EmbeddedStore::open(folder, Sync::Normal).unwrap();
    let scope = CommitScope::Tenant(TenantId::default());
    store.commit(scope, Box::new(move |_| Ok(writes.clone()))).unwrap();
}

//! Spending caps, quotas and metering of model calls, on a real store that several engines share.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{assert_sound, run_due_jobs, start};
use treering_core::chat::Usage;
use treering_core::ports::{
    CommitPlan, Cursor, JobEventFilter, JobFilter, Maintenance, Revision, SpendFilter, StoreResult,
};
use treering_core::quota::Quota;
use treering_core::spend::{Cap, Caps, Money, Price, Prices};
use treering_core::{
    BatchSizes, CommitScope, ConversationId, Embedder, Entry, Job, JobEventKind, JobState, Meter,
    NewMessage, NodeContent, Policy, ProviderError, Reader, Redactions, RetryAdvice, Role, Store,
    StoreError, Summarizer, SummaryRequest, TenantId, ThreadName, Timestamp, redact,
};
use treering_engine::{
    AppendTarget, Engine, EngineParts, EntryBatch, JobScope, NewConversation, Query,
    ReplayDetection, SpendLimits, Update, WorkOptions, Worker,
};
use treering_providers::{Bpe, Extractive, StaticEmbedder};
use treering_stores::{EmbeddedStore, Sync};
use treering_testkit::generate::external_id;
use treering_testkit::{BagOfWordsEmbedder, FakeClock, PrefixSummarizer};

/// The usage of a call.
const CALL: Usage = Usage { calls: 1, tokens_in: 250, tokens_out: 50 };
/// The maximum usage of a call.
const MAX_USAGE: Usage = Usage { calls: 1, tokens_in: 300, tokens_out: 100 };

/// Writes like `PrefixSummarizer`, at a price.
struct Paid;

impl Summarizer for Paid {
    fn name(&self) -> &str {
        "paid/one"
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        PrefixSummarizer::default().summarize(request)
    }

    fn summarize_metered(
        &self,
        request: &SummaryRequest,
        meter: &dyn Meter,
    ) -> Result<NodeContent, ProviderError> {
        let reservation = meter.reserve_usage(self.name(), MAX_USAGE)?;
        // Long enough for other calls to start in the meantime.
        std::thread::sleep(Duration::from_millis(3));
        meter.settle(reservation, CALL, &redact("AKIAIOSFODNN7EXAMPLE").1);
        self.summarize(request)
    }
}

/// Embeds like `BagOfWordsEmbedder`, at a price.
struct PaidEmbedder(BagOfWordsEmbedder);

impl Embedder for PaidEmbedder {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn dims(&self) -> usize {
        self.0.dims()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError> {
        self.0.embed(texts)
    }

    fn embed_metered(
        &self,
        texts: &[&str],
        meter: &dyn Meter,
    ) -> Result<Vec<Vec<f32>>, ProviderError> {
        let reservation = meter.reserve_usage(self.name(), Usage::for_call(40, 0))?;
        meter.settle(reservation, Usage::for_call(20, 0), &redact("AKIAIOSFODNN7EXAMPLE").1);
        self.embed(texts)
    }
}

fn open(folder: &Path, clock: &Arc<FakeClock>, caps: Caps, embedder: Arc<dyn Embedder>) -> Engine {
    Engine::new(parts(folder, clock, caps, embedder, 4), TenantId::default())
}

fn parts(
    folder: &Path,
    clock: &Arc<FakeClock>,
    caps: Caps,
    embedder: Arc<dyn Embedder>,
    concurrency: usize,
) -> EngineParts {
    let models = [("paid/one".to_owned(), Price { input: 1.0, output: 2.0 })].into();
    EngineParts {
        store: Arc::new(EmbeddedStore::open(folder, Sync::Normal).unwrap()),
        tokenizer: Arc::new(Bpe::O200k),
        clock: Arc::clone(clock) as Arc<dyn treering_core::Clock>,
        summarizer: Arc::new(Paid),
        fallback: Some(Arc::new(Extractive)),
        embedder,
        other_embedders: Vec::new(),
        policy: Policy::default()
            .with(&["window_chars=200", "min_flush_chars=0"].map(|text| text.parse().unwrap()))
            .unwrap(),
        work: WorkOptions { concurrency, batch_delay_ms: 0, ..WorkOptions::default() },
        spend: SpendLimits {
            caps,
            prices: Prices { date: "2026-11-16".into(), models },
            quotas: BTreeMap::new(),
        },
        search: Default::default(),
        embed_texts: Default::default(),
        exclusions: Default::default(),
        recall: Default::default(),
        index_files: None,
    }
}

fn append_turns(engine: &Engine, name: &str, turns: u32) -> ConversationId {
    let text = |turn: u32| {
        format!(
            "In {name}, turn {turn}: the harbour office wrote to the town about the gauge, the tide, a ledger and the \
             long pier, and nobody has answered since the storm took the roof of the old boathouse and rain came in \
             for two whole weeks."
        )
    };
    let entries = (0..turns).map(|turn| {
        Entry::message(ThreadName::main(), NewMessage::new(Role::User, text(turn), start()))
    });
    let new_conversation =
        NewConversation { external_id: Some(external_id(name)), ..NewConversation::default() };
    let incoming = EntryBatch {
        target: AppendTarget::FindOrCreate(new_conversation),
        entries: entries.collect(),
        replay_detection: ReplayDetection::None,
    };
    engine.append(incoming).unwrap().conversation.id
}

fn tokens(max_tokens: u64) -> Cap {
    Cap { tokens: Some(max_tokens), money: None }
}

fn bundled() -> Arc<dyn Embedder> {
    Arc::new(StaticEmbedder::new())
}

#[test]
fn concurrent_calls_exceed_a_cap_by_less_than_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let caps = Caps { day: tokens(3000), ..Caps::default() };
    let engine = open(folder.path(), &clock, caps, bundled());
    let mut ids: Vec<ConversationId> =
        (0..6).map(|at| append_turns(&engine, &format!("talk {at}"), 6)).collect();
    // Each engine has its own store handle, as a separate process would.
    let others: Vec<Engine> =
        (0..3).map(|_| open(folder.path(), &clock, caps, bundled())).collect();
    std::thread::scope(|threads| {
        for engine in &others {
            threads.spawn(|| {
                Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
            });
        }
    });
    // While twelve calls are in flight, each reserves a hundred tokens more than it uses, so
    // concurrent calls use the fallback. The rest of the budget suffices for a single call.
    let spent = engine.spend(None).unwrap().account.day.tokens();
    assert!((1800..3300).contains(&spent), "{spent} tokens");
    ids.push(append_turns(&engine, "the last talk", 6));
    let alone = Engine::new(parts(folder.path(), &clock, caps, bundled(), 1), TenantId::default());
    run_due_jobs(&alone, ids[6]);
    let status = engine.spend(None).unwrap();
    let spent = status.account.day.tokens();
    assert!((3000..3300).contains(&spent), "{spent} tokens");
    assert_eq!(spent, 300 * status.account.day.calls, "what was booked is settled");
    assert!(status.cap_reached.unwrap().to_string().contains("3000 tokens a day"));
    let price = Price { input: 1.0, output: 2.0 }.of(CALL);
    assert_eq!(status.account.tenant.money, Money(price.0 * status.account.tenant.calls));

    let all = |engine: &Engine| -> Vec<(u8, u32, String)> {
        let nodes = ids.iter().flat_map(|id| engine.tree(*id).unwrap().nodes);
        nodes.map(|node| (node.level().number(), node.ordinal(), node.provenance.by)).collect()
    };
    let by = |engine: &Engine, name: &str| all(engine).iter().filter(|(.., by)| by == name).count();
    assert_eq!(by(&engine, "paid/one") as i64, status.account.day.calls);
    let fallback_nodes = by(&engine, "extractive for paid/one");
    assert!(
        fallback_nodes > 0 && fallback_nodes == engine.fallback_node_count(None).unwrap() as usize
    );
    assert!(engine.jobs(&JobFilter::all(9)).unwrap().is_empty(), "nothing is held up");
    assert_sound(&engine);
    let queued = engine.update(ids[0], &Update::default()).unwrap().queued;
    assert_eq!(queued, 0, "nobody is asked again while the cap is reached");

    // The next day has its own cap; without a cap, all fallback nodes are regenerated.
    clock.set(start().plus_micros(86_400_000_000));
    assert_eq!(engine.spend(None).unwrap().cap_reached, None);
    let uncapped = open(folder.path(), &clock, Caps::default(), bundled());
    let before = all(&engine).len();
    for id in &ids {
        uncapped.update(*id, &Update::default()).unwrap();
        run_due_jobs(&uncapped, *id);
    }
    assert_eq!(
        (uncapped.fallback_node_count(None).unwrap(), all(&uncapped).len()),
        (0, before),
        "nothing exists twice"
    );
    assert_sound(&uncapped);
}

#[test]
fn a_conversation_at_its_cap_does_not_affect_others() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let dollars = Cap { tokens: None, money: Some(Money::from_dollars(0.0005)) };
    let caps = Caps { conversation: dollars, ..Caps::default() };
    let engine = Engine::new(parts(folder.path(), &clock, caps, bundled(), 1), TenantId::default());
    let ids = [append_turns(&engine, "one", 6), append_turns(&engine, "two", 6)];
    for id in ids {
        run_due_jobs(&engine, id);
        let status = engine.spend(Some(id)).unwrap();
        // A call costs $0.00035: one stays below the cap, two do not.
        assert_eq!(status.account.conversation.calls, 2);
        assert!(status.cap_reached.unwrap().to_string().contains("for this conversation"));
        let log = engine
            .job_events(&JobEventFilter { conversation: Some(id), job_prefix: None, limit: 99 })
            .unwrap();
        let lines = |words: &str| log.iter().filter(|line| line.text.contains(words)).count();
        assert_eq!(
            lines("1 call, 250 tokens in, 50 out, $0.000350; redacted before sending: 1 × API key"),
            2
        );
        assert!(lines("the cap of $0.000500 for this conversation is reached") > 0);
    }
    assert_eq!(engine.spend(None).unwrap().cap_reached, None);
    let by_model = engine.spend_by_model(&SpendFilter::default()).unwrap();
    assert_eq!((by_model.len(), by_model[0].0.as_str(), by_model[0].1.calls), (1, "paid/one", 4));
}

/// The events of model calls outside of jobs and conversations.
fn query_log(engine: &Engine) -> Vec<String> {
    let log = engine
        .job_events(&JobEventFilter { conversation: None, job_prefix: None, limit: 999 })
        .unwrap();
    let lines = log
        .into_iter()
        .filter(|line| line.kind == JobEventKind::Ask && line.conversation.is_none());
    lines.map(|line| line.text).collect()
}

#[test]
fn reindexing_logs_redactions() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    append_turns(&open(folder.path(), &clock, Caps::default(), bundled()), "talk", 2);
    let embedder = Arc::new(PaidEmbedder(BagOfWordsEmbedder::named("bags/one")));
    let mut parts = parts(folder.path(), &clock, Caps::default(), embedder, 1);
    parts.other_embedders = vec![bundled()];
    let engine = Engine::new(parts, TenantId::default());
    engine.reindex(&mut |_| ()).unwrap();
    let query_log = query_log(&engine);
    assert!(!query_log.is_empty());
    for line in query_log {
        assert!(
            line.starts_with("called bags/one for the vectors of a reindex; 1 call, 20 tokens in"),
            "{line}"
        );
        assert!(line.ends_with("redacted before sending: 1 × API key"), "{line}");
    }
}

#[test]
fn embedding_calls_are_metered_and_search_uses_words_past_a_cap() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let embedder = || Arc::new(PaidEmbedder(BagOfWordsEmbedder::named("bags/one")));
    let engine = open(folder.path(), &clock, Caps::default(), embedder());
    let id = append_turns(&engine, "talk", 1);
    run_due_jobs(&engine, id);
    let query = Query { text: "harbour".into(), limit: 3, ..Query::default() };
    assert_eq!(engine.search(&query).unwrap().lexical_only_reason, None);
    let filter = SpendFilter { conversation: Some(id), day: None };
    let of = |filter: &SpendFilter| {
        let spent = engine.spend_by_model(filter).unwrap();
        spent.into_iter().find(|(model, _)| model == "bags/one").unwrap().1
    };
    assert_eq!(
        of(&filter).calls + 1,
        of(&SpendFilter::default()).calls,
        "the question was for no conversation"
    );
    assert_eq!(of(&filter).unpriced, of(&filter).calls, "nobody knows what bags cost");
    let log = engine
        .job_events(&JobEventFilter { conversation: Some(id), job_prefix: None, limit: 99 })
        .unwrap();
    let line = log
        .iter()
        .find(|line| line.text.contains("embed turn") && line.text.contains("done"))
        .unwrap();
    assert!(
        line.text.contains("1 call, 20 tokens in, 0 out, price unknown; redacted"),
        "{}",
        line.text
    );
    assert_eq!(
        query_log(&engine),
        ["called bags/one for the vector of a question; 1 call, 20 tokens in, 0 out, \
        price unknown; redacted before sending: 1 × API key"]
    );
    assert_eq!(query_log(&engine.for_tenant("other".parse().unwrap())), Vec::<String>::new());

    let capped =
        open(folder.path(), &clock, Caps { tenant: tokens(1), ..Caps::default() }, embedder());
    append_turns(&capped, "other", 1);
    let calls = of(&SpendFilter::default()).calls;
    let failed = Mutex::new(Vec::new());
    Worker::new(capped.clone())
        .unwrap()
        .run(&JobScope::default(), &|_, outcome| {
            if let treering_engine::JobOutcome::Failed(error) = outcome {
                failed.lock().unwrap().push(error.reason.clone());
            }
        })
        .unwrap();
    let failed = failed.into_inner().unwrap();
    assert!(
        !failed.is_empty() && failed.iter().all(|reason| reason.contains("cap of 1 tokens")),
        "{failed:?}"
    );
    assert!(capped.jobs(&JobFilter::all(9)).unwrap().iter().all(|job| job.state == JobState::Dead));
    let answer = capped.search(&query).unwrap();
    assert!(
        answer.lexical_only_reason.unwrap().contains("cap of 1 tokens") && answer.hits.len() > 1
    );
    assert_eq!(of(&SpendFilter::default()).calls, calls, "nothing was asked");
    engine.retry_jobs(None).unwrap();
    let other = engine.jobs(&JobFilter::all(9)).unwrap();
    assert!(!other.is_empty());
    Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
    assert!(engine.jobs(&JobFilter::all(9)).unwrap().is_empty(), "made good without the cap");
}

/// Three callers like three processes, one for another tenant, each with more than a minute's
/// quota of calls.
#[test]
fn callers_share_the_quota_of_a_minute_without_starvation() {
    const EACH: usize = 7;
    const STEP: i64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let quota = Quota { requests_per_minute: Some(5), tokens_per_minute: None };
    let open = |tenant: &str| {
        let mut parts = parts(folder.path(), &clock, Caps::default(), bundled(), 1);
        parts.spend.quotas = [("paid".to_owned(), quota)].into();
        Engine::new(parts, tenant.parse().unwrap())
    };
    let engines = ["default", "default", "other"].map(open);
    let slots: [Mutex<Vec<i64>>; 3] = Default::default();
    let mut second = 0;
    while slots.iter().any(|slots| slots.lock().unwrap().len() < EACH) {
        assert!(second < 600, "somebody starves: {slots:?}");
        clock.set(start().plus_micros(second * 1_000_000));
        std::thread::scope(|threads| {
            for (engine, slots) in engines.iter().zip(&slots) {
                threads.spawn(move || {
                    let mut slots = slots.lock().unwrap();
                    while slots.len() < EACH {
                        match engine.spend_meter(None).reserve_usage("paid/one", MAX_USAGE) {
                            Ok(reservation) => slots.push(reservation.0.at.as_micros() / 1_000_000),
                            Err(error) => {
                                let wait_ms = (60 - second % 60) as u64 * 1000;
                                assert_eq!(
                                    error.advice,
                                    RetryAdvice::Throttled(wait_ms),
                                    "{error}"
                                );
                                break;
                            }
                        }
                    }
                });
            }
        });
        second += STEP;
    }
    let all: Vec<i64> = slots.iter().flat_map(|slots| slots.lock().unwrap().clone()).collect();
    for from in &all {
        let minute = all.iter().filter(|at| (*from..from + 60).contains(at)).count();
        assert!(minute <= 5, "{minute} calls in the minute from {from}: {all:?}");
    }
    assert_eq!((all.len(), second - STEP), (3 * EACH, 240), "no minute is left unused");
}

#[test]
fn a_failed_call_uses_its_slot_and_returns_its_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let mut parts = parts(folder.path(), &clock, Caps::default(), bundled(), 1);
    let quota = Quota { requests_per_minute: Some(3), tokens_per_minute: Some(1000) };
    parts.spend.quotas = [("paid".to_owned(), quota)].into();
    let engine = Engine::new(parts, TenantId::default());
    let meter = engine.spend_meter(None);
    let reserve = || meter.reserve_usage("paid/one", MAX_USAGE);
    meter.settle(reserve().unwrap(), CALL, &Redactions::default());
    meter.settle(reserve().unwrap(), Usage::default(), &Redactions::default());
    assert_eq!(
        engine.spend(None).unwrap().account.tenant.tokens(),
        300,
        "what failed costs nothing"
    );
    let (small, large) = (Usage::for_call(300, 0), Usage::for_call(800, 0));
    let reason = meter.reserve_usage("paid/one", large).unwrap_err().reason;
    assert_eq!(
        reason, "paid: the quota for this minute is used up; the next call can start in 60 s",
        "tokens of the first"
    );
    meter.settle(meter.reserve_usage("paid/one", small).unwrap(), small, &Redactions::default());
    assert!(meter.reserve_usage("paid/one", small).is_err(), "three have been asked");
    assert!(meter.reserve_usage("free/one", large).is_ok(), "others have no quota");
}

/// A store that refuses writes with the given error.
struct Unwritable(EmbeddedStore, StoreError);

impl Store for Unwritable {
    fn commit(&self, _: CommitScope, _: CommitPlan) -> StoreResult<()> {
        Err(self.1.clone())
    }

    fn reader(&self, tenant: &TenantId) -> StoreResult<Box<dyn Reader + '_>> {
        self.0.reader(tenant)
    }

    fn lease(&self, _: &TenantId, _: &JobFilter, _: &str, _: BatchSizes) -> StoreResult<Vec<Job>> {
        Err(self.1.clone())
    }

    fn tenant_with_due_jobs(
        &self,
        now: Timestamp,
        after: Option<&TenantId>,
    ) -> StoreResult<Option<TenantId>> {
        self.0.tenant_with_due_jobs(now, after)
    }

    fn cursors(&self) -> StoreResult<Vec<(TenantId, Cursor)>> {
        self.0.cursors()
    }

    fn revision(&self) -> Revision {
        self.0.revision()
    }

    fn wait(&self, seen: Revision, timeout: Duration) -> Revision {
        self.0.wait(seen, timeout)
    }

    fn wake(&self) {
        self.0.wake();
    }

    fn maintenance(&self) -> &dyn Maintenance {
        self.0.maintenance()
    }

    fn concurrency(&self) -> usize {
        self.0.concurrency()
    }
}

#[test]
fn a_read_only_store_does_not_block_calls() {
    let clock = Arc::new(FakeClock::at(start()));
    let quota = Quota { requests_per_minute: Some(1), tokens_per_minute: None };
    let reserve = |error: StoreError| {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = parts(folder.path(), &clock, Caps::default(), bundled(), 1);
        let store = EmbeddedStore::open(folder.path(), Sync::Normal).unwrap();
        parts.store = Arc::new(Unwritable(store, error));
        parts.spend.quotas = [("paid".to_owned(), quota)].into();
        Engine::new(parts, TenantId::default())
            .spend_meter(None)
            .reserve_usage("paid/one", MAX_USAGE)
    };
    let path = || "store".into();
    assert!(
        reserve(StoreError::ReadOnly { path: path(), detail: "by choice".into() }).is_ok(),
        "nothing was asked"
    );
    let error = reserve(StoreError::Full { path: path() }).unwrap_err();
    assert!(
        error.advice == RetryAdvice::Retry && error.reason.contains("no space left"),
        "{error:?}"
    );
}

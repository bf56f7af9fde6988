//! Stored vectors: created in the background, once per content, and replaced by those of another
//! model without an interruption of search.

#![allow(clippy::unwrap_used)]

use crate::common;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::common::{assert_sound, open_with, start};
use treering_core::ports::JobFilter;
use treering_core::{
    ConversationId, Embedder, Entry, EntryKind, JobKind, Json, NewMessage, NewToolCall, Policy,
    ProviderError, Role, ThreadName, ToolResult,
};
use treering_engine::{
    AppendTarget, Engine, EntryBatch, HitItem, JobOutcome, JobScope, KillPoint, NewConversation,
    Query, ReplayDetection, SearchOutcome, Worker,
};
use treering_providers::StaticEmbedder;
use treering_testkit::generate::external_id;
use treering_testkit::{BagOfWordsEmbedder, FakeClock, PrefixSummarizer};

fn bundled() -> Arc<dyn Embedder> {
    Arc::new(StaticEmbedder::new())
}

fn with(folder: &Path, embedders: Vec<Arc<dyn Embedder>>) -> Engine {
    let clock = Arc::new(FakeClock::at(start()));
    open_with(folder, Policy::default(), Arc::new(PrefixSummarizer::default()), clock, embedders)
}

fn append(engine: &Engine, number: i64, text: &str) -> ConversationId {
    let at = start().plus_micros(number * 60_000_000);
    let role = if number % 2 == 0 { Role::User } else { Role::Assistant };
    let new_conversation =
        NewConversation { external_id: Some(external_id("one")), ..NewConversation::default() };
    let entries = vec![Entry::message(ThreadName::main(), NewMessage::new(role, text, at))];
    let incoming = EntryBatch {
        target: AppendTarget::FindOrCreate(new_conversation),
        entries,
        replay_detection: ReplayDetection::None,
    };
    engine.append(incoming).unwrap().conversation.id
}

fn sample_text(number: i64) -> String {
    format!("The buoy {number} lies off pontoon {} since spring.", number % 7)
}

fn say_all(engine: &Engine, numbers: std::ops::Range<i64>) {
    for number in numbers {
        append(engine, number, &sample_text(number));
    }
}

fn ask(engine: &Engine, text: &str) -> SearchOutcome {
    let (text, min_score) = (text.to_owned(), Some(0.0));
    engine.search(&Query { text, limit: 20, min_score, ..Query::default() }).unwrap()
}

/// The similarity of the best hit; 0 if it has no vector yet.
fn similarity_of(engine: &Engine, text: &str) -> f32 {
    ask(engine, text).hits.first().map_or(0.0, |hit| hit.signals.similarity)
}

fn work(engine: &Engine) -> Vec<(JobKind, JobOutcome)> {
    let runs = std::sync::Mutex::new(Vec::new());
    let note = |job: &treering_core::Job, outcome: &JobOutcome| {
        runs.lock().unwrap().push((job.kind.clone(), outcome.clone()));
    };
    Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &note).unwrap();
    runs.into_inner().unwrap()
}

fn reindex(engine: &Engine) -> treering_engine::ReindexReport {
    engine.reindex(&mut |_| ()).unwrap()
}

#[test]
fn a_turn_is_found_by_words_at_once_and_by_meaning_once_embedded() {
    let folder = tempfile::tempdir().unwrap();
    let embedder = Arc::new(BagOfWordsEmbedder::named("bags"));
    let engine = with(folder.path(), vec![embedder, bundled()]);
    let id = append(&engine, 0, "The buoy lies off pontoon two.");
    assert_eq!(
        engine.vector_index().unwrap().model,
        "bags",
        "an empty memory begins with what is wanted"
    );
    let gate = engine.gate(id).unwrap();
    assert_eq!(gate.pending.len(), 1, "embedding the turn is critical");
    assert_eq!(ask(&engine, "buoy").hits.len(), 1);
    assert_eq!(similarity_of(&engine, "buoy off the pontoon"), 0.0);
    work(&engine);
    assert!(engine.gate(id).unwrap().pending.is_empty());
    assert!(similarity_of(&engine, "buoy off the pontoon") != 0.0);
    assert_sound(&engine);
    let other = with(folder.path(), vec![Arc::new(BagOfWordsEmbedder::named("bags")), bundled()]);
    assert!(
        similarity_of(&other, "buoy off the pontoon") != 0.0,
        "another process has it from the store"
    );
}

#[test]
fn equal_texts_are_embedded_once_and_in_batches() {
    let folder = tempfile::tempdir().unwrap();
    let embedder = Arc::new(BagOfWordsEmbedder::named("bags"));
    let engine = with(folder.path(), vec![embedder.clone()]);
    for number in 0..20 {
        append(&engine, number, &sample_text(number % 4));
    }
    work(&engine);
    let calls = embedder.calls();
    assert_eq!(calls.iter().sum::<usize>(), 4, "each content once: {calls:?}");
    assert!(calls.len() <= 2, "{calls:?}");
    for number in 20..24 {
        append(&engine, number, &sample_text(number % 4));
    }
    work(&engine);
    assert_eq!(embedder.calls(), calls, "what is known is not asked for");
}

#[test]
fn tool_calls_are_found_before_and_after_their_results() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with(folder.path(), vec![bundled()]);
    let id = append(&engine, 0, "Please look at the gauge.");
    let call = NewToolCall {
        name: "read_gauge".into(),
        args: Json::new(r#"{"path": "src/tide_model.rs"}"#).unwrap(),
        outcome: None,
        at: start(),
        external_id: Some(external_id("call")),
    };
    let append_entry = |kind: EntryKind| {
        let incoming = EntryBatch {
            target: AppendTarget::Existing(id),
            entries: vec![kind.into()],
            replay_detection: ReplayDetection::None,
        };
        engine.append(incoming).unwrap();
    };
    append_entry(EntryKind::ToolCall(call));
    let found = ask(&engine, "tide_model.rs").hits;
    assert!(
        matches!(&found[0].item, HitItem::ToolCall(call) if call.call.name == "read_gauge"),
        "{found:?}"
    );
    assert!(ask(&engine, "kerzavel").hits.iter().all(|hit| hit.signals.exact_terms == 0.0));
    let outcome = ToolResult {
        result: Json::string("Kerzavel: 7.4 m"),
        success: Some(true),
        duration_ms: None,
    };
    let result = EntryKind::ToolResult { call: external_id("call"), outcome, at: start() };
    append_entry(result);
    let found = ask(&engine, "kerzavel").hits;
    assert!(found[0].snippet.marked("[", "]").contains("[Kerzavel]"), "{found:?}");
    let calls = ask(&engine, "read_gauge")
        .hits
        .into_iter()
        .filter(|hit| matches!(hit.item, HitItem::ToolCall(_)));
    assert_eq!(calls.count(), 1, "once, as it is now");
}

#[test]
fn a_message_added_while_its_turn_is_embedded_is_embedded_too() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with(folder.path(), vec![Arc::new(BagOfWordsEmbedder::named("bags"))]);
    let id = append(&engine, 0, &sample_text(0));
    let job = engine.jobs(&JobFilter::of(id)).unwrap().remove(0);
    append(&engine, 1, "And the lamp of it is green.");
    let jobs = engine.jobs(&JobFilter::of(id)).unwrap();
    assert_eq!(jobs.len(), 1, "the same turn has the same job");
    assert_eq!(jobs[0].id, job.id);
    work(&engine);
    assert!(
        similarity_of(&engine, "green lamp") != 0.0
            && similarity_of(&engine, "buoy off pontoon") != 0.0
    );
}

#[test]
fn a_lost_vector_is_reported_and_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with(folder.path(), vec![Arc::new(BagOfWordsEmbedder::named("bags"))]);
    say_all(&engine, 0..4);
    work(&engine);
    assert_sound(&engine);
    common::commit(folder.path(), vec![treering_core::Write::DropVectors("bags".into())]);
    let report = engine.verify(|_| ()).unwrap();
    let problems: Vec<String> =
        report.problems.iter().map(|problem| problem.description.clone()).collect();
    assert_eq!(
        problems,
        ["no vector and no job to embed turn 0", "no vector and no job to embed turn 1"]
    );
    let repaired = engine.repair().unwrap();
    assert_eq!((repaired.trees.len(), repaired.vectors.len()), (0, 1));
    assert_sound(&engine);
    work(&engine);
    assert!(
        similarity_of(
            &with(folder.path(), vec![Arc::new(BagOfWordsEmbedder::named("bags"))]),
            "the buoy"
        ) != 0.0
    );
}

#[test]
fn a_refused_text_does_not_block_others() {
    let folder = tempfile::tempdir().unwrap();
    let engine =
        with(folder.path(), vec![Arc::new(BagOfWordsEmbedder::named("bags").refusing("secret"))]);
    for number in 0..6 {
        append(&engine, number * 2, &sample_text(number));
        append(
            &engine,
            number * 2 + 1,
            if number == 3 { "this is secret, so to speak" } else { "All right then." },
        );
    }
    let runs = work(&engine);
    let failed: Vec<_> =
        runs.iter().filter(|(_, outcome)| matches!(outcome, JobOutcome::Failed(_))).collect();
    assert_eq!(failed.len(), 1, "{runs:?}");
    assert!(similarity_of(&engine, "The buoy 5 lies off pontoon") != 0.0);
    assert_eq!(
        ask(&engine, "secret").hits[0].signals.similarity,
        0.0,
        "found by its words all the same"
    );
}

#[test]
fn an_unavailable_embedder_is_called_once() {
    let folder = tempfile::tempdir().unwrap();
    let busy = ProviderError::new(
        "429: too many requests",
        treering_core::RetryAdvice::RetryAfter(60_000),
    );
    let embedder = Arc::new(BagOfWordsEmbedder::named("bags").failing([busy]));
    let engine = with(folder.path(), vec![embedder.clone()]);
    say_all(&engine, 0..12);
    let calls = embedder.calls().len();
    let runs = work(&engine);
    assert!(
        runs.len() > 1 && runs.iter().all(|(_, outcome)| matches!(outcome, JobOutcome::Failed(_))),
        "{runs:?}"
    );
    assert_eq!(embedder.calls().len() - calls, 1, "one refusal is enough");
}

#[test]
fn search_falls_back_to_words_and_reports_why() {
    let folder = tempfile::tempdir().unwrap();
    let down = ProviderError::transient("the server is down".to_owned());
    let engine =
        with(folder.path(), vec![Arc::new(BagOfWordsEmbedder::named("bags").failing([down]))]);
    append(&engine, 0, &sample_text(3));
    let answer = ask(&engine, "buoy 3");
    assert_eq!(
        (answer.hits.len(), answer.lexical_only_reason.as_deref()),
        (1, Some("the server is down"))
    );
    assert_eq!(ask(&engine, "buoy 3").lexical_only_reason, None, "it is back");
    let stranger = with(folder.path(), vec![bundled()]);
    let answer = ask(&stranger, "buoy 3");
    assert_eq!(answer.hits.len(), 1);
    assert!(answer.lexical_only_reason.unwrap().contains("bags"), "its model is not known there");
}

#[test]
fn a_reindex_switches_models_atomically_while_search_continues() {
    let folder = tempfile::tempdir().unwrap();
    let old = with(folder.path(), vec![bundled()]);
    say_all(&old, 0..150);
    work(&old);
    let before: Vec<f32> = ask(&old, "buoy 12").hits.iter().map(|hit| hit.score).collect();
    let new = with(folder.path(), vec![Arc::new(BagOfWordsEmbedder::named("bags")), bundled()]);
    let model = |engine: &Engine| engine.vector_index().unwrap().model;
    let (name, mut batches) = (model(&old), 0);
    assert!(new.needs_reindex().unwrap());
    let done = new
        .reindex(&mut |state| {
            batches += 1;
            assert_eq!(
                (model(&old), state.to.as_str()),
                (name.clone(), "bags"),
                "the old one is in use"
            );
            let during: Vec<f32> = ask(&new, "buoy 12").hits.iter().map(|hit| hit.score).collect();
            assert_eq!(during.len(), before.len().min(20));
            if batches == 2 {
                assert_eq!(during, before, "and answers as before");
                // Messages that arrive during the reindex are embedded before the cut-over.
                append(&old, 150, "The kraken was seen at dusk.");
            }
        })
        .unwrap();
    assert!(batches > 2);
    assert_eq!((done.from, done.to.as_str()), (name, "bags"));
    let nodes = new.tree(append(&old, 152, "Done.")).unwrap().nodes.len() as u64;
    assert_eq!(done.done, 151 + nodes);
    assert_eq!(model(&old), "bags");
    assert!(!new.needs_reindex().unwrap());
    let reopened =
        with(folder.path(), vec![Arc::new(BagOfWordsEmbedder::named("bags")), bundled()]);
    assert!(similarity_of(&reopened, "the kraken was seen") != 0.0);
    // A process that has searched with the old model switches automatically.
    for _ in 0..200 {
        if ask(&new, "buoy 12").hits[0].score.to_bits()
            == ask(&reopened, "buoy 12").hits[0].score.to_bits()
        {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let scores = |engine: &Engine| {
        ask(engine, "buoy 12").hits.iter().map(|hit| hit.score).collect::<Vec<_>>()
    };
    assert_eq!(scores(&new), scores(&reopened));
    let jobs = new.jobs(&JobFilter::all(10)).unwrap();
    assert_eq!(jobs.len(), 1, "from now on turns are embedded by it: {jobs:?}");

    let back = with(folder.path(), vec![bundled(), Arc::new(BagOfWordsEmbedder::named("bags"))]);
    reindex(&back);
    assert_eq!(scores(&with(folder.path(), vec![bundled()])).len(), 20);
    assert_sound(&back);
}

#[test]
fn an_interrupted_reindex_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let old = with(folder.path(), vec![bundled()]);
    say_all(&old, 0..200);
    let first = with(folder.path(), vec![Arc::new(BagOfWordsEmbedder::named("bags")), bundled()]);
    let stop = std::cell::Cell::new(0);
    let refusing = with(
        folder.path(),
        vec![Arc::new(BagOfWordsEmbedder::named("bags").refusing("buoy 150 ")), bundled()],
    );
    assert!(refusing.reindex(&mut |_| stop.set(stop.get() + 1)).is_err());
    assert_eq!(stop.get(), 2, "two portions of 64 are there");
    assert_eq!(old.vector_index().unwrap().next.unwrap().model, "bags");
    let done = reindex(&first);
    assert_eq!(done.embedded, 200 - 128, "what was made is not made again");
    // The target model changes during a reindex: the vectors of the first target are dropped.
    let third = with(
        folder.path(),
        vec![Arc::new(BagOfWordsEmbedder::named("third").refusing("buoy 150 ")), bundled()],
    );
    assert!(third.reindex(&mut |_| ()).is_err());
    assert_eq!(reindex(&first).embedded, 0, "the one in use is wanted: nothing is to be done");
    assert_eq!(old.vector_index().unwrap().next, None);
}

/// The body of the child process that is killed; runs only if the parent asks for it.
#[test]
fn child_reindexes() {
    let Ok(home) = std::env::var("TREERING_TEST_REINDEX") else { return };
    let engine =
        with(Path::new(&home), vec![Arc::new(BagOfWordsEmbedder::named("bags")), bundled()]);
    reindex(&engine);
}

#[test]
fn a_reindex_survives_a_crash_at_any_kill_point() {
    let folder = tempfile::tempdir().unwrap();
    let old = with(folder.path(), vec![bundled()]);
    say_all(&old, 0..150);
    let child = |fault: Option<KillPoint>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["vectors::child_reindexes", "--exact", "--test-threads", "1"]);
        command.env("TREERING_TEST_REINDEX", folder.path());
        if let Some(fault) = fault {
            command.env("TREERING_FAULT", fault.as_str());
        }
        command.output().unwrap()
    };
    for fault in KillPoint::REINDEX {
        let killed = child(Some(fault));
        assert!(!killed.status.success(), "{fault:?}");
        assert_eq!(
            ask(&old, "buoy 12").lexical_only_reason,
            None,
            "{fault:?}: the old vectors are in use"
        );
        assert!(similarity_of(&old, "the buoy lies off pontoon") != 0.0);
        assert_sound(&old);
    }
    let done = child(None);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let new = with(folder.path(), vec![Arc::new(BagOfWordsEmbedder::named("bags")), bundled()]);
    assert_eq!(new.vector_index().unwrap(), treering_core::VectorIndex::of("bags"));
    assert!(similarity_of(&new, "the buoy 12 lies off pontoon") != 0.0);
    assert_sound(&new);
}

//! The embedding of a turn: one vector of the text of the whole turn, computed once.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use crate::common::{assert_sound, parts, start};
use treering_core::ports::Span;
use treering_core::{
    ContentHash, ConversationId, Embedder, Entry, EntryKind, Json, NewMessage, NewToolCall, Policy,
    Role, Store, TenantId, ThreadName, ToolResult, TurnNo,
};
use treering_engine::{
    AppendTarget, EmbedTextOptions, Engine, EntryBatch, JobScope, NewConversation, ReplayDetection,
    TurnEmbedding, Worker,
};
use treering_providers::StaticEmbedder;
use treering_stores::{EmbeddedStore, Sync};
use treering_testkit::{BagOfWordsEmbedder, FakeClock, PrefixSummarizer};

const TEXT: &str = "User: Please look at the gauge.\nAssistant: It reads 7.4 m.\nTools used:\n\
                    - read_gauge: Kerzavel: 7.4 m";

fn open(folder: &Path, embedder: Arc<dyn Embedder>, texts: EmbedTextOptions) -> Engine {
    let (summarizer, clock) = (PrefixSummarizer::default(), FakeClock::at(start()));
    let embedders = vec![embedder];
    let mut parts =
        parts(folder, Policy::default(), Arc::new(summarizer), Arc::new(clock), embedders);
    parts.embed_texts = texts;
    Engine::new(parts, TenantId::default())
}

fn message(role: Role, text: &str) -> Entry {
    Entry::message(ThreadName::main(), NewMessage::new(role, text, start()))
}

fn append(engine: &Engine, target: AppendTarget, entries: Vec<Entry>) -> ConversationId {
    let batch = EntryBatch { target, entries, replay_detection: ReplayDetection::None };
    engine.append(batch).unwrap().conversation.id
}

/// A turn with a tool call. Its user message comes first, the rest with `answer`.
fn ask(engine: &Engine) -> ConversationId {
    let target = AppendTarget::FindOrCreate(NewConversation::default());
    append(engine, target, vec![message(Role::User, "Please look at the gauge.")])
}

fn answer(engine: &Engine, id: ConversationId) {
    let outcome = ToolResult {
        result: Json::string("Kerzavel: 7.4 m"),
        success: Some(true),
        duration_ms: None,
    };
    let call = EntryKind::ToolCall(NewToolCall {
        name: "read_gauge".into(),
        args: Json::empty_object(),
        outcome: Some(outcome),
        at: start(),
        external_id: None,
    });
    let entries = vec![call.into(), message(Role::Assistant, "It reads 7.4 m.")];
    append(engine, AppendTarget::Existing(id), entries);
}

fn embeddings(engine: &Engine, id: ConversationId) -> Vec<TurnEmbedding> {
    let turns = engine.turns(id, Span::starting(TurnNo(0), usize::MAX)).unwrap();
    engine.turn_embeddings(id, &turns).unwrap()
}

fn work(engine: &Engine) {
    Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| ()).unwrap();
}

/// Number of texts that an embedder has embedded.
fn embedded(bags: &BagOfWordsEmbedder) -> usize {
    bags.calls().iter().sum()
}

#[test]
fn a_turn_has_one_vector_of_its_whole_text() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), Arc::new(StaticEmbedder::new()), EmbedTextOptions::default());
    let id = ask(&engine);
    answer(&engine, id);
    append(&engine, AppendTarget::Existing(id), vec![message(Role::User, "ok")]);
    let [turn] = embeddings(&engine, id).try_into().unwrap();
    assert_eq!((turn.turn, turn.text.as_str()), (TurnNo(0), TEXT), "\"User: ok\" is too short");
    assert_eq!(turn.hash, ContentHash::of_fields(&[TEXT.as_bytes()]));
    assert_eq!(turn.model, StaticEmbedder::NAME);
    assert_eq!(turn.vector, StaticEmbedder::new().embed(TEXT));
}

#[test]
fn a_paid_model_embeds_a_turn_on_request_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let bags = Arc::new(BagOfWordsEmbedder::named("bags"));
    let engine = open(folder.path(), bags.clone(), EmbedTextOptions::default());
    let id = ask(&engine);
    answer(&engine, id);
    work(&engine);
    assert_eq!(embedded(&bags), 3, "two messages and the tool call");
    let first = embeddings(&engine, id);
    assert_eq!((first.len(), embedded(&bags)), (1, 4), "and now the turn");
    assert_eq!(first[0].vector, bags.embed(&[TEXT]).unwrap()[0]);
    let calls = bags.calls();
    assert_eq!(embeddings(&engine, id), first);
    assert_eq!(bags.calls(), calls, "the vector is stored");
    let report = engine.verify(|_| ()).unwrap();
    assert!(report.is_clean() && report.warnings.is_empty(), "it has an owner: {report:?}");
    engine.repair().unwrap();
    embeddings(&engine, id);
    assert_eq!(bags.calls(), calls, "a repair keeps it");
}

#[test]
fn the_job_of_an_answered_turn_embeds_its_whole_text_if_set() {
    let folder = tempfile::tempdir().unwrap();
    let bags = Arc::new(BagOfWordsEmbedder::named("bags"));
    let with_turns = EmbedTextOptions { turns: true, ..EmbedTextOptions::default() };
    let engine = open(folder.path(), bags.clone(), with_turns);
    let id = ask(&engine);
    work(&engine);
    assert_eq!(embedded(&bags), 1, "the turn has no answer yet");
    answer(&engine, id);
    work(&engine);
    assert_eq!(embedded(&bags), 4, "the other message, the tool call and the turn");
    assert_eq!(embeddings(&engine, id)[0].text, TEXT);
    assert_eq!(embedded(&bags), 4);
    assert_sound(&engine);

    let others = Arc::new(BagOfWordsEmbedder::named("others"));
    let reindexed = open(folder.path(), others.clone(), with_turns);
    reindexed.reindex(&mut |_| ()).unwrap();
    assert_eq!(embedded(&others), 4, "a reindex embeds the turn too");
    embeddings(&reindexed, id);
    assert_eq!(embedded(&others), 4);
    assert_sound(&reindexed);
}

#[test]
fn a_long_text_is_cut_at_the_set_length() {
    let folder = tempfile::tempdir().unwrap();
    let bags = Arc::new(BagOfWordsEmbedder::named("bags"));
    let short = EmbedTextOptions { max_chars: 12, ..EmbedTextOptions::default() };
    let engine = open(folder.path(), bags, short);
    let id = ask(&engine);
    work(&engine);
    assert_eq!(embeddings(&engine, id)[0].text, "User: Please...");
    let store = EmbeddedStore::open(folder.path(), Sync::Normal).unwrap();
    let stored = |text: &str| {
        let hash = ContentHash::of_fields(&[text.as_bytes()]);
        let reader = store.reader(&TenantId::default()).unwrap();
        reader.vectors("bags", &[hash]).unwrap()[0].is_some()
    };
    assert!(stored("Please look ..."), "the message");
    assert!(!stored("Please look at the gauge."));
}

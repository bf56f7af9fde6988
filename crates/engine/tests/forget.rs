//! Forgetting on a real store: what is forgotten is in no row, no summary, no cache and no file,
//! and does not come back. Everything else survives.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{assert_sound, open_with, run_due_jobs, start};
use proptest::prelude::*;
use tempfile::TempDir;
use treering_core::lexicon::Lexer;
use treering_core::ports::{JobEventFilter, NodeFilter, Span};
use treering_core::{
    ConversationId, ConversationState, Embedder, Entry, EntryKind, EntryOutcome, ForgetTarget,
    ItemSelection, Json, Labels, MessageIdx, NewMessage, NewToolCall, Node, NodeContent, Policy,
    ProviderError, RetryAdvice, Role, Store, Summarizer, SummaryRequest, TenantId, ThreadName,
    ToolCall, ToolResult, TurnNo,
};
use treering_engine::{
    AppendTarget, ContextRequest, Engine, EntryBatch, Forget, NewConversation, Query,
    ReplayDetection, Update, UpdateStrategy,
};
use treering_providers::StaticEmbedder;
use treering_stores::{EmbeddedStore, Sync};
use treering_testkit::generate::external_id;
use treering_testkit::{BagOfWordsEmbedder, FakeClock, PrefixSummarizer};

/// A policy with small windows and groups of two.
fn policy() -> Policy {
    let assignments =
        ["window_chars=400", "min_flush_chars=0", "group_children=2", "group_chars=off"];
    Policy::default().with(&assignments.map(|text| text.parse().unwrap())).unwrap()
}

fn engine_in(folder: &Path) -> Engine {
    engine_of(folder, Arc::new(PrefixSummarizer::default()), Arc::new(StaticEmbedder::new()))
}

fn engine_of(
    folder: &Path,
    summarizer: Arc<dyn Summarizer>,
    embedder: Arc<dyn Embedder>,
) -> Engine {
    open_with(folder, policy(), summarizer, Arc::new(FakeClock::at(start())), vec![embedder])
}

/// A word that only the message at this position has.
fn word(idx: u32) -> String {
    format!("zq{idx:03}vk")
}

fn text(idx: u32) -> String {
    format!("{} is the name of crane {idx}, which lifts the boxes at the quay today.", word(idx))
}

fn message(idx: u32) -> NewMessage {
    let role = if idx.is_multiple_of(2) { Role::User } else { Role::Assistant };
    let at = start().plus_micros(i64::from(idx) * 60_000_000);
    let author = (role == Role::User).then(|| if idx < 20 { "Mara" } else { "Ivo" }.to_owned());
    let external_id = Some(external_id(&format!("m{idx}")));
    NewMessage { author, external_id, ..NewMessage::new(role, text(idx), at) }
}

fn call(turn: u32) -> Entry {
    let outcome = ToolResult {
        result: Json::string(&format!("result{turn:03}xj")),
        success: Some(true),
        duration_ms: None,
    };
    EntryKind::ToolCall(NewToolCall {
        name: "gauge".into(),
        args: Json::string(&format!("args{turn:03}xj")),
        outcome: Some(outcome),
        at: start().plus_micros(i64::from(turn) * 120_000_000),
        external_id: Some(external_id(&format!("c{turn}"))),
    })
    .into()
}

/// Turns of a question, a tool call and an answer.
fn turns(count: u32) -> Vec<Entry> {
    let main = ThreadName::main;
    (0..count)
        .flat_map(|turn| {
            [
                Entry::message(main(), message(2 * turn)),
                call(turn),
                Entry::message(main(), message(2 * turn + 1)),
                Entry::turn_end(main()),
            ]
        })
        .collect()
}

fn batch(name: &str, entries: Vec<Entry>) -> EntryBatch {
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(external_id(name)),
        cwd: Some(format!("/projects/{name}")),
        ..NewConversation::default()
    });
    EntryBatch { target, entries, replay_detection: ReplayDetection::None }
}

/// A conversation of 30 turns with a tree of several levels.
fn grown(engine: &Engine, name: &str) -> ConversationId {
    let id = engine.append(batch(name, turns(30))).unwrap().conversation.id;
    run_due_jobs(engine, id);
    id
}

/// A label selects whole conversations; a conversation with another value survives.
#[test]
fn a_label_is_forgotten_with_its_conversations() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_in(folder.path());
    let [gone, kept] = ["harbour", "quay"].map(|name| grown(&engine, name));
    for (id, label) in [(gone, "user=42"), (kept, "user=43")] {
        engine.set_labels(id, &Labels::parse([label]).unwrap(), &[]).unwrap();
    }
    let target = || ForgetTarget::Label("user=42".parse().unwrap());
    let report = engine.forget(&Forget::new(target())).unwrap();
    assert_eq!((report.record.target.as_str(), report.record.conversations.len()), ("label", 1));
    assert!(engine.find("harbour").is_err() && engine.find("quay").is_ok());
    assert!(engine.forget(&Forget::new(target())).is_err(), "there is nothing left");
    let bytes = std::fs::read(folder.path().join(EmbeddedStore::FILE)).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(has(b"user43") && !has(b"user42"), "the label is in no freed page");
    assert_sound(&engine);
}

fn sample() -> (Engine, ConversationId, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_in(folder.path());
    let id = grown(&engine, "harbour");
    (engine, id, folder)
}

fn nodes(folder: &Path, id: ConversationId) -> Vec<Node> {
    let store = EmbeddedStore::open(folder, Sync::Normal).unwrap();
    store.reader(&TenantId::default()).unwrap().nodes(id, &NodeFilter::default()).unwrap()
}

fn calls(folder: &Path, id: ConversationId) -> Vec<ToolCall> {
    let store = EmbeddedStore::open(folder, Sync::Normal).unwrap();
    let reader = store.reader(&TenantId::default()).unwrap();
    reader.tool_calls(id, Span::starting(TurnNo(0), usize::MAX)).unwrap()
}

fn items(id: ConversationId, selection: ItemSelection) -> Forget {
    Forget::new(ForgetTarget::Items(id, selection))
}

fn forget_message(engine: &Engine, id: ConversationId, idx: u32) {
    engine.forget(&items(id, ItemSelection::Message(MessageIdx(idx)))).unwrap();
}

/// Whether a file of the folder contains the bytes.
fn is_in_files(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_in_files(&path, bytes),
            false => {
                let content = std::fs::read(&path).unwrap();
                content.windows(bytes.len()).any(|window| window == bytes)
            }
        }
    })
}

fn is_found(engine: &Engine, word: &str) -> bool {
    let query = Query { text: word.to_owned(), limit: 20, ..Query::default() };
    let outcome = engine.search(&query).unwrap();
    outcome.hits.iter().any(|hit| format!("{hit:?}").contains(word))
}

fn context(engine: &Engine, id: ConversationId, as_of: Option<u32>) -> String {
    let request = ContextRequest { as_of: as_of.map(TurnNo), ..ContextRequest::new(id) };
    format!("{:?}", engine.context(&request).unwrap().sections)
}

#[test]
fn a_forgotten_message_leaves_a_placeholder() {
    let (engine, id, _folder) = sample();
    forget_message(&engine, id, 7);
    let messages = engine.messages(id, Span::starting(MessageIdx(0), 100)).unwrap();
    assert_eq!(messages.len(), 60, "nothing is renumbered");
    let body = &messages[7].body;
    assert!(body.forgotten && body.text.is_empty() && body.author.is_none());
    assert!(body.external_id.is_none() && body.parts.is_none());
    assert_eq!((messages[6].body.text.clone(), messages[8].body.text.clone()), (text(6), text(8)));
    assert_sound(&engine);
}

#[test]
fn only_the_ancestors_are_written_again() {
    let (engine, id, folder) = sample();
    let before = nodes(folder.path(), id);
    let covers = |node: &Node| (node.source.from..node.source.until).contains(&7);
    assert!(before.iter().any(|node| node.content.overview.contains(&word(7))));
    let report = engine.forget(&items(id, ItemSelection::Message(MessageIdx(7)))).unwrap();
    let after = nodes(folder.path(), id);
    assert_eq!(before.len(), after.len());
    let mut rewritten = 0;
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(
            (old.level(), old.ordinal(), old.parent),
            (new.level(), new.ordinal(), new.parent)
        );
        assert!(!new.content.overview.contains(&word(7)) && !new.dirty);
        assert_eq!(old.id != new.id, covers(old), "{} at level {}", old.id, old.level());
        assert!(old.content == new.content || covers(old));
        rewritten += usize::from(covers(old));
    }
    assert!(rewritten >= 3, "a window and its ancestors");
    let listed = &report.record.conversations[0].rewritten;
    assert_eq!(listed.len(), rewritten);
    for (node, new) in listed.iter().zip(&report.new_ids) {
        assert_ne!(Some(&node.old_id), new.as_ref().map(ToString::to_string).as_ref());
        assert!(new.is_some());
    }
    assert!(after.iter().any(|node| node.content.overview.contains(&word(6))), "siblings survive");
    assert_sound(&engine);
}

#[test]
fn nothing_forgotten_is_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let embedder = Arc::new(BagOfWordsEmbedder::named("bags"));
    let engine =
        engine_of(folder.path(), Arc::new(PrefixSummarizer::default()), Arc::clone(&embedder) as _);
    let id = grown(&engine, "harbour");
    engine.backup(&folder.path().join("copy.db")).unwrap();
    let bytes = |idx: u32| -> Vec<u8> {
        let vector = embedder.embed(&[&text(idx)]).unwrap().remove(0);
        vector.iter().flat_map(|number| number.to_le_bytes()).collect()
    };
    let is_unique = |idx: &u32| (0..60).all(|other| other == *idx || bytes(other) != bytes(*idx));
    let idx = (10..50).step_by(2).find(is_unique).unwrap();
    let turn = idx / 2;
    let forgotten =
        [word(idx), word(idx + 1), format!("args{turn:03}xj"), format!("result{turn:03}xj")];
    let (stem, quantized) =
        (|word: &str| term(word).to_le_bytes(), |idx| quantized(&embedder, &text(idx)));
    let index = folder.path().join("index");
    engine.load_index().unwrap();
    engine.seal_index(1).unwrap();
    for needle in &forgotten {
        assert!(is_in_files(folder.path(), needle.as_bytes()), "{needle} is there before");
        assert!(is_in_files(&index, &stem(needle)), "the stem of {needle} is there before");
    }
    assert!(is_in_files(folder.path(), &bytes(idx)), "its vector is there before");
    assert!(is_in_files(&index, &quantized(idx)), "its quantized vector is there before");
    let report = engine.forget(&items(id, ItemSelection::Turn(TurnNo(turn)))).unwrap();
    assert_eq!(report.scrub.unwrap().deleted.len(), 1, "the backup in the home is a copy");
    for step in ["forgotten", "sealed again"] {
        for needle in &forgotten {
            assert!(!is_in_files(folder.path(), needle.as_bytes()), "{step}: {needle}");
            assert!(!is_in_files(folder.path(), &stem(needle)), "{step}: the stem of {needle}");
        }
        assert!(!is_in_files(folder.path(), &bytes(idx)), "{step}: its vector");
        assert!(!is_in_files(folder.path(), &quantized(idx)), "{step}: its quantized vector");
        assert!(is_in_files(folder.path(), &bytes(idx + 2)), "other vectors survive");
        assert!(is_in_files(folder.path(), word(idx + 2).as_bytes()), "other messages survive");
        engine.load_index().unwrap();
        engine.seal_index(1).unwrap();
    }
    assert!(is_in_files(&index, &stem(&word(idx + 2))) && is_in_files(&index, &quantized(idx + 2)));
    assert_sound(&engine);
}

/// Copies below the folder go, too. A folder with a store of its own is another home, and stays.
#[test]
fn copies_below_the_folder_are_deleted_and_other_homes_are_not() {
    let (engine, id, folder) = sample();
    let (backups, other) = (folder.path().join("backups/old"), folder.path().join("other"));
    std::fs::create_dir_all(&backups).unwrap();
    std::fs::write(backups.join("notes.txt"), word(7)).unwrap();
    engine.backup(&backups.join("copy.db")).unwrap();
    grown(&engine_in(&other), "harbour");
    std::fs::copy(backups.join("copy.db"), other.join("copy.db")).unwrap();
    let request = items(id, ItemSelection::Message(MessageIdx(7)));
    let listed = engine.preview_forget(&request).unwrap().copies;
    let report = engine.forget(&request).unwrap();
    assert_eq!(report.scrub.unwrap().deleted, [backups.join("copy.db")]);
    assert_eq!(listed, [backups.join("copy.db")]);
    std::fs::remove_file(backups.join("notes.txt")).unwrap();
    assert!(!is_in_files(&backups, word(7).as_bytes()) && is_in_files(&other, word(7).as_bytes()));
}

/// The id under which the index has a word.
fn term(word: &str) -> u64 {
    let mut ids = Vec::new();
    Lexer::default().each_term(word, |_, id| ids.push(id));
    assert_eq!(ids.len(), 1, "{word} is one term");
    ids[0]
}

/// The bytes of a text's vector in the index.
fn quantized(embedder: &BagOfWordsEmbedder, text: &str) -> Vec<u8> {
    let vector = embedder.embed(&[text]).unwrap().remove(0);
    let largest = vector.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    vector.iter().map(|x| ((x / (largest / 127.0)).round() as i8).cast_unsigned()).collect()
}

#[test]
fn postponed_bytes_are_reported_until_they_are_erased() {
    let (engine, id, folder) = sample();
    let request = Forget { fast: true, ..items(id, ItemSelection::Message(MessageIdx(4))) };
    assert!(engine.forget(&request).unwrap().scrub.is_none());
    assert_eq!(engine.pending_scrubs().unwrap(), 1);
    let warnings = engine.verify(|_| ()).unwrap().warnings;
    assert!(warnings.iter().any(|it| it.contains("forgotten")), "{warnings:?}");
    assert!(is_in_files(folder.path(), word(4).as_bytes()), "the bytes are still there");
    engine.scrub().unwrap();
    assert_eq!(engine.pending_scrubs().unwrap(), 0);
    assert!(!is_in_files(folder.path(), word(4).as_bytes()));
}

#[test]
fn an_import_does_not_bring_it_back() {
    let (engine, id, _folder) = sample();
    let record = engine.forget(&items(id, ItemSelection::Turn(TurnNo(3)))).unwrap().record;
    let again = engine.append(batch("harbour", turns(30))).unwrap();
    let forgotten = again.outcomes.iter().filter(|it| **it == EntryOutcome::Forgotten).count();
    assert_eq!(forgotten, 3, "two messages and a tool call");
    assert_eq!(again.conversation.totals.messages, 60);
    assert!(!is_found(&engine, &word(6)));
    engine.allow_return(&record.id).unwrap();
    let returned = engine.append(batch("harbour", turns(30))).unwrap();
    assert_eq!(returned.conversation.totals.messages, 62);
    assert!(is_found(&engine, &word(6)));
    assert_sound(&engine);
}

#[test]
fn messages_without_ids_stay_forgotten_by_position() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_in(folder.path());
    let entries = || -> Vec<Entry> {
        let plain = |idx| NewMessage { external_id: None, ..message(idx) };
        (0..8).map(|idx| Entry::message(ThreadName::main(), plain(idx))).collect()
    };
    let import = || EntryBatch {
        target: AppendTarget::MatchContent(NewConversation {
            external_id: Some(external_id("file")),
            ..NewConversation::default()
        }),
        entries: entries(),
        replay_detection: ReplayDetection::ByPosition,
    };
    let id = engine.append(import()).unwrap().conversation.id;
    forget_message(&engine, id, 0);
    let again = engine.append(import()).unwrap();
    assert_eq!(again.conversation.id, id, "a placeholder agrees with any message");
    assert_eq!(again.outcomes[0], EntryOutcome::Forgotten);
    assert_eq!(again.conversation.totals.messages, 8);
    engine.forget(&Forget::new(ForgetTarget::Conversation(id))).unwrap();
    let third = engine.append(import()).unwrap();
    assert!(!third.created, "a numbered variant does not bring it back either");
    assert!(
        engine
            .messages(third.conversation.id, Span::starting(MessageIdx(0), 9))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_forgotten_conversation_is_gone_and_others_survive() {
    let (engine, id, folder) = sample();
    let other = engine
        .append(batch(
            "depot",
            vec![Entry::message(
                ThreadName::main(),
                NewMessage {
                    external_id: Some(external_id("depot-0")),
                    ..NewMessage::new(Role::User, "the depot keeps its gate open", start())
                },
            )],
        ))
        .unwrap()
        .conversation
        .id;
    assert!(is_found(&engine, &word(3)));
    let record = engine.forget(&Forget::new(ForgetTarget::Conversation(id))).unwrap().record;
    assert_eq!((record.erased().messages, record.erased().tool_calls), (60, 30));
    assert!(!is_found(&engine, &word(3)));
    assert!(is_found(&engine, "depot"));
    assert!(!is_in_files(folder.path(), word(3).as_bytes()));
    assert!(!is_in_files(folder.path(), b"/projects/harbour"));
    let again = engine.append(batch("harbour", turns(30))).unwrap();
    assert!(
        !again.created
            && again
                .outcomes
                .iter()
                .all(|it| { matches!(it, EntryOutcome::Forgotten | EntryOutcome::TurnEnded) })
    );
    assert!(engine.messages(id, Span::starting(MessageIdx(0), 9)).unwrap().is_empty());
    assert_eq!(engine.messages(other, Span::starting(MessageIdx(0), 9)).unwrap().len(), 1);
    assert_sound(&engine);
    engine.allow_return(&record.id).unwrap();
    assert!(engine.append(batch("harbour", turns(30))).unwrap().created);
}

#[test]
fn an_author_a_project_and_a_tenant_are_forgotten() {
    let (engine, id, _folder) = sample();
    let depot = grown(&engine, "depot");
    let record = engine.forget(&Forget::new(ForgetTarget::Author("mara".into()))).unwrap().record;
    assert_eq!((record.conversations.len(), record.erased().messages), (2, 20));
    assert!(!format!("{record:?}").to_lowercase().contains("mara"));
    assert!(
        !is_found(&engine, &word(2)) && is_found(&engine, &word(3)) && is_found(&engine, &word(22))
    );
    assert_sound(&engine);
    engine.forget(&Forget::new(ForgetTarget::Project("/projects/depot".into()))).unwrap();
    assert!(engine.messages(depot, Span::starting(MessageIdx(0), 9)).unwrap().is_empty());
    assert_eq!(engine.messages(id, Span::starting(MessageIdx(0), 9)).unwrap().len(), 9);
    engine.forget(&Forget::new(ForgetTarget::Tenant)).unwrap();
    assert_eq!(engine.stats().unwrap().conversations, 0);
    assert_eq!(engine.audit("", 10).unwrap().len(), 3);
    assert_sound(&engine);
}

#[test]
fn a_title_and_a_participant_do_not_outlive_their_message() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_in(folder.path());
    let id = grown(&engine, "harbour");
    let range = ItemSelection::Range(MessageIdx(0), MessageIdx(19));
    engine.forget(&items(id, range)).unwrap();
    assert!(
        !is_in_files(folder.path(), word(0).as_bytes()),
        "neither in the title nor in the slug"
    );
    assert!(!is_in_files(folder.path(), b"Mara"));
    assert_sound(&engine);
}

#[test]
fn a_preview_changes_nothing_and_its_token_confirms_only_it() {
    let (engine, id, _folder) = sample();
    let mut request = items(id, ItemSelection::Range(MessageIdx(2), MessageIdx(5)));
    let preview = engine.preview_forget(&request).unwrap();
    assert_eq!(preview.record.conversations[0].messages, [(2, 5)]);
    assert!(is_found(&engine, &word(3)), "a preview forgets nothing");
    forget_message(&engine, id, 3);
    request.token = Some(preview.token);
    assert!(engine.forget(&request).is_err(), "the target has changed");
    request.token = Some(engine.preview_forget(&request).unwrap().token);
    engine.forget(&request).unwrap();
    assert!(engine.forget(&items(id, ItemSelection::Message(MessageIdx(2)))).is_err(), "twice");
}

/// Summaries that are written between a preview and its confirmation do not void the token.
#[test]
fn a_token_survives_the_growth_of_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_in(folder.path());
    let id = engine.append(batch("harbour", turns(30))).unwrap().conversation.id;
    let mut request = items(id, ItemSelection::Message(MessageIdx(3)));
    let preview = engine.preview_forget(&request).unwrap();
    assert!(preview.record.conversations[0].rewritten.is_empty(), "no tree yet");
    run_due_jobs(&engine, id);
    request.token = Some(preview.token);
    let report = engine.forget(&request).unwrap();
    assert!(!report.record.conversations[0].rewritten.is_empty(), "the tree is rewritten");
    assert_sound(&engine);
}

/// Waits before it answers, so that a test can act while a job runs.
struct Paused {
    inner: PrefixSummarizer,
    started: Mutex<Sender<()>>,
    proceed: Mutex<Receiver<()>>,
    needle: String,
}

impl Summarizer for Paused {
    fn name(&self) -> &str {
        "paused"
    }
    fn is_remote(&self) -> bool {
        true
    }
    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        if format!("{request:?}").contains(&self.needle) {
            self.started.lock().unwrap().send(()).unwrap();
            self.proceed.lock().unwrap().recv_timeout(Duration::from_secs(20)).unwrap();
        }
        self.inner.summarize(request)
    }
}

#[test]
fn a_summary_that_was_being_written_is_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let (started, has_started) = channel();
    let (go, proceed) = channel();
    let summarizer = Arc::new(Paused {
        inner: PrefixSummarizer::default(),
        started: Mutex::new(started),
        proceed: Mutex::new(proceed),
        needle: word(7),
    });
    let engine = engine_of(folder.path(), summarizer, Arc::new(StaticEmbedder::new()));
    let id = engine.append(batch("harbour", turns(30))).unwrap().conversation.id;
    std::thread::scope(|scope| {
        let working = scope.spawn(|| run_due_jobs(&engine, id));
        has_started.recv_timeout(Duration::from_secs(20)).unwrap();
        forget_message(&engine, id, 7);
        go.send(()).unwrap();
        working.join().unwrap();
    });
    run_due_jobs(&engine, id);
    let written = nodes(folder.path(), id);
    assert!(written.len() > 5);
    assert!(written.iter().all(|node| !node.content.overview.contains(&word(7))));
    assert_sound(&engine);
}

/// Fails with an error that quotes its input.
struct Quoting(Paused);

impl Summarizer for Quoting {
    fn name(&self) -> &str {
        "quoting"
    }
    fn is_remote(&self) -> bool {
        true
    }
    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        self.0.summarize(request)?;
        Err(ProviderError::new(format!("{request:?}"), RetryAdvice::Retry))
    }
}

#[test]
fn an_error_that_quotes_forgotten_text_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (started, has_started) = channel();
    let (go, proceed) = channel();
    let paused = Paused {
        inner: PrefixSummarizer::default(),
        started: Mutex::new(started),
        proceed: Mutex::new(proceed),
        needle: word(1),
    };
    let summarizer = Arc::new(Quoting(paused));
    let engine = engine_of(folder.path(), summarizer, Arc::new(StaticEmbedder::new()));
    let id = engine.append(batch("harbour", turns(8))).unwrap().conversation.id;
    std::thread::scope(|scope| {
        let working = scope.spawn(|| run_due_jobs(&engine, id));
        has_started.recv_timeout(Duration::from_secs(20)).unwrap();
        engine.forget(&items(id, ItemSelection::Message(MessageIdx(1)))).unwrap();
        go.send(()).unwrap();
        working.join().unwrap();
    });
    assert!(is_in_files(folder.path(), b"zq002vk is the name"), "the message beside it is there");
    let filter = JobEventFilter { conversation: Some(id), job_prefix: None, limit: 1000 };
    let events = format!("{:?}", engine.job_events(&filter).unwrap());
    assert!(events.contains("zq002vk"), "other errors are kept: {events}");
    assert!(!events.contains("zq001vk"), "{events}");
    assert!(!is_in_files(folder.path(), b"zq001vk"));
}

#[test]
fn another_process_learns_of_it() {
    let (engine, id, folder) = sample();
    let other = engine_in(folder.path());
    assert!(is_found(&other, &word(58)) && is_found(&other, &word(20)));
    assert!(context(&other, id, None).contains(&word(58)));
    assert!(context(&other, id, Some(10)).contains(&word(20)));
    let depot = grown(&engine, "depot");
    assert!(is_found(&other, &word(58)));
    engine.forget(&Forget::new(ForgetTarget::Conversation(depot))).unwrap();
    forget_message(&engine, id, 58);
    engine.forget(&items(id, ItemSelection::Turn(TurnNo(10)))).unwrap();
    assert!(!is_found(&other, &word(58)) && !is_found(&other, &word(20)));
    assert!(!context(&other, id, None).contains(&word(58)));
    assert!(context(&other, id, None).contains(&word(59)));
    assert!(!context(&other, id, Some(10)).contains(&word(20)), "the past is built without it");
}

#[test]
fn a_context_says_that_messages_are_missing() {
    let (engine, id, folder) = sample();
    engine.forget(&items(id, ItemSelection::Range(MessageIdx(20), MessageIdx(31)))).unwrap();
    let forgotten = |as_of| {
        let request = ContextRequest { as_of, ..ContextRequest::new(id) };
        let context = engine.context(&request).unwrap();
        let text = format!("{:?}", context.sections);
        assert!((20..32).all(|idx| !text.contains(&word(idx))));
        context.receipt.forgotten
    };
    assert_eq!(forgotten(None), 12);
    assert_eq!(forgotten(Some(TurnNo(12))), 6);
    assert_eq!(forgotten(Some(TurnNo(5))), 0);
    assert!(nodes(folder.path(), id).iter().any(|it| it.content == NodeContent::default()));
}

#[test]
fn a_closed_conversation_gets_a_new_top() {
    let (engine, id, folder) = sample();
    engine.set_state(id, ConversationState::Closed).unwrap();
    run_due_jobs(&engine, id);
    let top = |folder: &Path| nodes(folder, id).into_iter().find(|node| node.spec.is_top());
    let before = top(folder.path()).unwrap();
    engine.forget(&items(id, ItemSelection::Range(MessageIdx(0), MessageIdx(9)))).unwrap();
    let after = top(folder.path()).unwrap();
    assert_ne!(before.id, after.id);
    for idx in 0..10 {
        assert!(!after.content.overview.contains(&word(idx)));
    }
    assert_sound(&engine);
}

fn selection() -> impl Strategy<Value = ItemSelection> {
    prop_oneof![
        4 => (0_u32..60).prop_map(|idx| ItemSelection::Message(MessageIdx(idx))),
        2 => (0_u32..30).prop_map(|turn| ItemSelection::Turn(TurnNo(turn))),
        2 => (0_u32..60, 0_u32..6)
            .prop_map(|(idx, more)| ItemSelection::Range(MessageIdx(idx), MessageIdx(idx + more))),
        1 => Just(ItemSelection::Thread(ThreadName::main())),
        1 => Just(ItemSelection::Author("ivo".into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Forgetting and rebuilding gives the tree of a conversation that had placeholders in these
    /// places from the start.
    #[test]
    fn forgetting_equals_never_having_stored_it(
        count in 3_u32..30,
        targets in prop::collection::vec(selection(), 1..6),
        is_closed in any::<bool>(),
        works_between in any::<bool>(),
    ) {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (forgetting, never) = (engine_in(one.path()), engine_in(other.path()));
        let mut entries = turns(count);
        let id = forgetting.append(batch("harbour", entries.clone())).unwrap().conversation.id;
        let all = Span::starting(MessageIdx(0), usize::MAX);
        let messages = forgetting.messages(id, all).unwrap();
        let calls = calls(one.path(), id);
        if works_between {
            run_due_jobs(&forgetting, id);
        }
        for target in &targets {
            // It is refused if earlier targets left nothing to forget, or it never existed.
            let forget = Forget { fast: true, ..items(id, target.clone()) };
            drop(forgetting.forget(&forget));
            assert_sound(&forgetting);
        }
        let (mut messages, mut calls) = (messages.iter(), calls.iter());
        for entry in &mut entries {
            match &mut entry.kind {
                EntryKind::Message(message) => {
                    let stored = messages.next().unwrap();
                    if targets.iter().any(|target| target.has_message(stored)) {
                        *message = NewMessage::placeholder(message.role, message.at);
                    }
                }
                EntryKind::ToolCall(call) => {
                    let stored = calls.next().unwrap();
                    if targets.iter().any(|target| target.has_call(stored)) {
                        *call = NewToolCall::placeholder(call.at);
                    }
                }
                _ => {}
            }
        }
        prop_assert_eq!(never.append(batch("harbour", entries)).unwrap().conversation.id, id);
        for engine in [&forgetting, &never] {
            if is_closed {
                engine.set_state(id, ConversationState::Closed).unwrap();
            }
            run_due_jobs(engine, id);
            let full = Update { strategy: UpdateStrategy::Full, ..Update::default() };
            engine.update(id, &full).unwrap();
            run_due_jobs(engine, id);
            assert_sound(engine);
        }
        let described = |folder: &Path| -> Vec<_> {
            let described = |node: Node| (node.id, node.content, node.parent, node.source);
            nodes(folder, id).into_iter().map(described).collect()
        };
        prop_assert_eq!(described(one.path()), described(other.path()));
    }
}

//! The search index in files: an index that was loaded from segments answers exactly like one
//! that was built from the store, whatever happened to the files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this is test code")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::common::{open_with, parts, run_due_jobs, start};
use proptest::prelude::*;
use treering_core::ports::{ConversationFilter, IndexFile, IndexFiles, StoreResult};
use treering_core::{
    Embedder, Entry, EntryKind, ForgetTarget, ItemSelection, Json, NewMessage, NewToolCall, Policy,
    Role, StoreError, TenantId, ThreadName, Timestamp, ToolResult,
};
use treering_engine::{
    AppendTarget, Engine, EngineParts, EntryBatch, Error, Forget, HitItem, KillPoint,
    NewConversation, Query, ReplayDetection, Update, UpdateStrategy,
};
use treering_providers::StaticEmbedder;
use treering_stores::IndexFolder;
use treering_testkit::generate::{external_id, sentence};
use treering_testkit::{BagOfWordsEmbedder, FakeClock, PrefixSummarizer};

const QUESTIONS: [&str; 5] = [
    "which harbor did the captain mention",
    "grep result of the build",
    "summary of the river and the market",
    "what about boat 3",
    "zebra",
];

fn policy() -> Policy {
    let small = ["window_chars=600", "min_flush_chars=0", "group_children=3", "group_chars=off"];
    Policy::default().with(&small.map(|text| text.parse().unwrap())).unwrap()
}

fn open_embedding(folder: &Path, embedders: Vec<Arc<dyn Embedder>>) -> Engine {
    let clock = Arc::new(FakeClock::at(start()));
    open_with(folder, policy(), Arc::new(PrefixSummarizer::default()), clock, embedders)
}

fn open(folder: &Path) -> Engine {
    open_embedding(folder, vec![Arc::new(StaticEmbedder::new())])
}

/// An engine on the same store that neither reads nor writes index files.
fn open_without_files(folder: &Path) -> Engine {
    let clock = Arc::new(FakeClock::at(start()));
    let embedders: Vec<Arc<dyn Embedder>> = vec![Arc::new(StaticEmbedder::new())];
    let summarizer = Arc::new(PrefixSummarizer::default());
    let parts = parts(folder, policy(), summarizer, clock, embedders);
    Engine::new(EngineParts { index_files: None, ..parts }, TenantId::default())
}

fn target(conversation: u64) -> AppendTarget {
    let external_id = Some(external_id(&format!("c-{conversation}")));
    AppendTarget::FindOrCreate(NewConversation { external_id, ..NewConversation::default() })
}

fn append(engine: &Engine, conversation: u64, entries: Vec<Entry>) {
    let target = target(conversation);
    let replay_detection = ReplayDetection::None;
    engine.append(EntryBatch { target, entries, replay_detection }).unwrap();
}

fn at(minute: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + minute as i64 * 60_000_000)
}

/// Appends messages with words from a small vocabulary, so that many of them match.
fn talk(engine: &Engine, conversation: u64, seed: u64, messages: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let thread = match seed % 4 {
        0 => ThreadName::new("side").unwrap(),
        _ => ThreadName::main(),
    };
    let entries = (0..messages).map(|number| {
        let role = if number % 2 == 0 { Role::User } else { Role::Assistant };
        let words = ["captain", "harbor", "river", "market", "grep", "boat 3"];
        let word = words[(seed + number) as usize % words.len()];
        let text = format!("{} {word} {}?", sentence(&mut state, 6), seed % 5);
        let mut message = NewMessage::new(role, text, at(seed * 7 + number));
        message.author = seed.is_multiple_of(3).then(|| "Juno".to_owned());
        Entry::message(thread.clone(), message)
    });
    append(engine, conversation, entries.collect());
}

/// Appends a tool call without its result.
fn call(engine: &Engine, conversation: u64, number: u64) {
    let call = NewToolCall {
        name: "grep".into(),
        args: Json::string("harbor"),
        outcome: None,
        at: at(number),
        external_id: Some(external_id(&format!("call-{conversation}-{number}"))),
    };
    append(engine, conversation, vec![EntryKind::ToolCall(call).into()]);
}

/// Appends the result of a tool call.
fn result(engine: &Engine, conversation: u64, number: u64) {
    let text = format!("the build of boat {number} failed in the harbor");
    let outcome = ToolResult { result: Json::string(&text), success: None, duration_ms: None };
    let call = external_id(&format!("call-{conversation}-{number}"));
    let entry = EntryKind::ToolResult { call, outcome, at: at(number) };
    append(engine, conversation, vec![entry.into()]);
}

/// Hits and scores of every question, with all scopes.
fn answers(engine: &Engine) -> Vec<(String, u32)> {
    let mut answers = Vec::new();
    let first = engine.listed_conversations(&ConversationFilter::all(1));
    let first = first.unwrap().pop().map(|listed| listed.conversation.id);
    for text in QUESTIONS {
        for conversations in [Vec::new(), first.into_iter().collect()] {
            let query =
                Query { text: text.to_owned(), conversations, limit: 20, ..Query::default() };
            for hit in engine.search(&query).unwrap() {
                let item = match &hit.item {
                    HitItem::Message(it) => format!("message {}", it.idx),
                    HitItem::ToolCall(it) => format!("call {} {}", it.turn, it.order),
                    HitItem::Node(it) => format!("node {}", it.id),
                };
                answers.push((format!("{text}: {} {item}", hit.conversation), hit.score.to_bits()));
            }
        }
    }
    answers
}

/// Checks that a new process answers like an index that was built from the store.
#[track_caller]
fn assert_same_answers(folder: &Path) {
    let expected = answers(&open_without_files(folder));
    assert!(!expected.is_empty());
    assert_eq!(answers(&open(folder)), expected);
}

fn seal(engine: &Engine) {
    engine.load_index().unwrap();
    engine.seal_index(1).unwrap();
}

fn index_folder(home: &Path) -> PathBuf {
    home.join("index/tenant-default")
}

/// The files of the index, without the lock.
fn files(home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(index_folder(home)).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap() != "lock");
    files.sort();
    files
}

fn segment_files(home: &Path) -> Vec<PathBuf> {
    files(home).into_iter().filter(|path| path.extension().is_some()).collect()
}

/// A home with a sealed index of two segments, and a tail that is not sealed.
fn sealed_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    (0..6).for_each(|seed| talk(&engine, seed % 3, seed, 12));
    call(&engine, 0, 1);
    work(&engine);
    seal(&engine);
    talk(&engine, 1, 77, 4);
    seal(&engine);
    talk(&engine, 2, 78, 4);
    home
}

fn work(engine: &Engine) {
    let all = ConversationFilter::all(usize::MAX);
    for listed in engine.listed_conversations(&all).unwrap() {
        run_due_jobs(engine, listed.conversation.id);
    }
}

/// One step of a random history.
#[derive(Debug, Clone)]
enum Step {
    Talk(u64, u64, u64),
    Call(u64, u64),
    Work,
    Rebuild(u64),
    Seal,
    SealInOtherProcess,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_u64, 0..1000_u64, 1..8_u64).prop_map(|(a, b, c)| Step::Talk(a, b, c)),
        2 => (0..3_u64, 0..3_u64).prop_map(|(a, b)| Step::Call(a, b)),
        2 => Just(Step::Work),
        1 => (0..3_u64).prop_map(Step::Rebuild),
        3 => Just(Step::Seal),
        1 => Just(Step::SealInOtherProcess),
    ];
    prop::collection::vec(step, 1..14)
}

fn apply(engine: &Engine, home: &Path, step: &Step) {
    match step {
        Step::Talk(conversation, seed, messages) => talk(engine, *conversation, *seed, *messages),
        Step::Call(conversation, number) => {
            talk(engine, *conversation, *number, 2);
            call(engine, *conversation, *number);
            engine.load_index().unwrap();
            result(engine, *conversation, *number);
        }
        Step::Work => work(engine),
        Step::Rebuild(conversation) => {
            talk(engine, *conversation, 5, 9);
            let found = engine.append(EntryBatch {
                target: target(*conversation),
                entries: Vec::new(),
                replay_detection: ReplayDetection::None,
            });
            let update = Update { strategy: UpdateStrategy::Full, ..Update::default() };
            engine.update(found.unwrap().conversation.id, &update).unwrap();
        }
        Step::Seal => seal(engine),
        Step::SealInOtherProcess => seal(&open(home)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Random histories with random seal points: the process that followed them, a process that
    /// loads the segments and one that builds the index from the store give the same hits with
    /// the same scores.
    #[test]
    fn segments_and_tail_answer_like_a_new_index(steps in steps()) {
        let home = tempfile::tempdir().unwrap();
        let engine = open(home.path());
        talk(&engine, 0, 1, 3);
        for step in &steps {
            apply(&engine, home.path(), step);
        }
        let expected = answers(&open_without_files(home.path()));
        prop_assert_eq!(&answers(&open(home.path())), &expected);
        prop_assert_eq!(&answers(&engine), &expected);
    }
}

#[test]
fn a_new_process_loads_segments_and_builds_the_tail() {
    let home = sealed_home();
    assert_eq!(segment_files(home.path()).len(), 2);
    assert_same_answers(home.path());
}

#[test]
fn small_segments_are_merged() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    for seed in 0..32 {
        talk(&engine, seed % 3, seed, 4);
        seal(&engine);
    }
    let count = segment_files(home.path()).len();
    assert!(count <= 6, "{count} files");
    assert_same_answers(home.path());
}

#[test]
fn damage_costs_a_rebuild_and_never_an_answer() {
    let home = sealed_home();
    let expected = answers(&open_without_files(home.path()));
    for path in files(home.path()) {
        let intact = fs::read(&path).unwrap();
        let middle = intact.len() / 2;
        let mut flipped = intact.clone();
        flipped[middle] ^= 4;
        let mut zeroed = intact.clone();
        zeroed[middle..].fill(0);
        let longer = [&intact[..], b"x"].concat();
        for damaged in [flipped, zeroed, longer, intact[..middle].to_vec(), Vec::new()] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(answers(&open(home.path())), expected, "{}", path.display());
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(answers(&open(home.path())), expected, "{} is missing", path.display());
        fs::write(&path, intact).unwrap();
    }
    // A process that meets damage replaces the files when it seals.
    let first = &segment_files(home.path())[0];
    fs::write(first, "damaged").unwrap();
    seal(&open(home.path()));
    assert_same_answers(home.path());
    assert!(fs::read(first).map_or(true, |content| content != b"damaged"));
}

#[test]
fn files_of_another_history_are_not_used() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    talk(&engine, 0, 1, 6);
    let backup = home.path().join("backup.db");
    engine.backup(&backup).unwrap();
    talk(&engine, 0, 2, 6);
    seal(&engine);
    drop(engine);
    // The old copy of the store is older than the index; then it grows past it with other messages.
    fs::copy(&backup, home.path().join("treering.db")).unwrap();
    assert_same_answers(home.path());
    let engine = open(home.path());
    talk(&engine, 0, 3, 20);
    drop(engine);
    assert_same_answers(home.path());
    let before = segment_files(home.path());
    let engine = open(home.path());
    engine.load_index().unwrap();
    engine.seal_index(u32::MAX).unwrap();
    assert_ne!(segment_files(home.path()), before, "unusable files are removed at once");
    seal(&engine);
    assert_same_answers(home.path());
    // The files of one home in another.
    let other = tempfile::tempdir().unwrap();
    let engine = open(other.path());
    talk(&engine, 0, 9, 40);
    drop(engine);
    fs::create_dir_all(index_folder(other.path())).unwrap();
    for path in files(home.path()) {
        fs::copy(&path, index_folder(other.path()).join(path.file_name().unwrap())).unwrap();
    }
    assert_same_answers(other.path());
}

#[test]
fn files_of_another_embedder_are_not_used() {
    let home = sealed_home();
    let before = segment_files(home.path());
    let open_bags = || {
        let bags: Arc<dyn Embedder> = Arc::new(BagOfWordsEmbedder::named("bags"));
        open_embedding(home.path(), vec![bags, Arc::new(StaticEmbedder::new())])
    };
    let other = open_bags();
    other.reindex(&mut |_| ()).unwrap();
    seal(&other);
    let after = segment_files(home.path());
    assert!(before.iter().all(|path| !after.contains(path)), "the old files are removed");
    assert!(!after.is_empty());
    assert_eq!(answers(&open_bags()), answers(&other));
}

#[test]
fn forgotten_content_is_in_no_file() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    (0..4).for_each(|seed| talk(&engine, seed % 2, seed, 6));
    seal(&engine);
    talk(&engine, 0, 40, 2);
    let query = Query { text: "captain".into(), limit: 1, ..Query::default() };
    let hit = engine.search(&query).unwrap().hits.remove(0);
    let HitItem::Message(message) = &hit.item else { panic!("{hit:?}") };
    let stale = open(home.path());
    stale.load_index().unwrap();
    assert_eq!(segment_files(home.path()).len(), 1);
    let selection = ItemSelection::Message(message.idx);
    let forget = Forget::new(ForgetTarget::Items(hit.conversation, selection));
    engine.forget(&Forget { fast: true, ..forget }).unwrap();
    assert_eq!(segment_files(home.path()).len(), 1, "the work on files is postponed");
    engine.scrub().unwrap();
    assert_eq!(segment_files(home.path()).len(), 0);
    // A process that still has the item in memory rebuilds its index before it seals.
    stale.seal_index(1).unwrap();
    assert_eq!(segment_files(home.path()).len(), 1);
    let name = format!("{} message {}", hit.conversation, message.idx);
    for engine in [&stale, &engine, &open(home.path())] {
        let found = answers(engine);
        assert!(!found.iter().any(|(item, _)| item.ends_with(&name)), "{name} is still found");
    }
    assert_same_answers(home.path());
}

#[test]
fn two_processes_take_turns() {
    let home = tempfile::tempdir().unwrap();
    let (one, other) = (open(home.path()), open(home.path()));
    for seed in 0..6 {
        talk(&one, seed % 2, seed, 5);
        let (first, second) = if seed % 2 == 0 { (&one, &other) } else { (&other, &one) };
        first.load_index().unwrap();
        second.load_index().unwrap();
        seal(first);
        seal(second);
        assert_same_answers(home.path());
    }
    assert_eq!(answers(&one), answers(&other));
    let listed = fs::read_to_string(index_folder(home.path()).join("manifest")).unwrap();
    for path in segment_files(home.path()) {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(listed.contains(&name), "{name} is obsolete");
    }
}

/// Files on a full or read-only disk.
struct FullDisk(IndexFolder);

impl IndexFiles for FullDisk {
    fn open(&self, tenant: &TenantId, name: &str) -> StoreResult<Option<Box<dyn IndexFile>>> {
        self.0.open(tenant, name)
    }

    fn write(&self, _: &TenantId, _: &str, _: &[&[u8]]) -> StoreResult<()> {
        Err(StoreError::Full { path: PathBuf::from("index") })
    }

    fn retain(&self, tenant: &TenantId, names: &[&str]) -> StoreResult<()> {
        self.0.retain(tenant, names)
    }

    fn lock(&self, tenant: &TenantId, wait: bool) -> StoreResult<Option<Box<dyn Send>>> {
        self.0.lock(tenant, wait)
    }
}

#[test]
fn a_full_disk_only_means_that_nothing_is_sealed() {
    let home = sealed_home();
    let before = files(home.path());
    let clock = Arc::new(FakeClock::at(start()));
    let embedders: Vec<Arc<dyn Embedder>> = vec![Arc::new(StaticEmbedder::new())];
    let parts =
        parts(home.path(), policy(), Arc::new(PrefixSummarizer::default()), clock, embedders);
    let files_on_full_disk = Arc::new(FullDisk(IndexFolder::new(home.path())));
    let parts = EngineParts { index_files: Some(files_on_full_disk), ..parts };
    let engine = Engine::new(parts, TenantId::default());
    engine.load_index().unwrap();
    assert!(matches!(engine.seal_index(1), Err(Error::Store(StoreError::Full { .. }))));
    assert_eq!(files(home.path()), before);
    assert_eq!(answers(&engine), answers(&open_without_files(home.path())));
}

/// Runs as the child of the next test.
#[test]
fn child_seals() {
    if let Ok(home) = std::env::var("TREERING_TEST_SEAL") {
        let engine = open(Path::new(&home));
        seal(&engine);
    }
}

#[test]
fn a_kill_while_sealing_leaves_a_usable_index() {
    let home = sealed_home();
    for kill_point in KillPoint::SEAL {
        let writer = open(home.path());
        talk(&writer, 0, 90, 5);
        drop(writer);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["segments::child_seals", "--exact", "--test-threads", "1"]);
        command.env("TREERING_TEST_SEAL", home.path());
        command.env("TREERING_FAULT", kill_point.as_str());
        assert!(!command.output().unwrap().status.success(), "{kill_point:?}");
        assert_same_answers(home.path());
        // The next process that seals removes what was left behind.
        fs::write(index_folder(home.path()).join("manifest.1-0.part"), "half a man").unwrap();
        let engine = open(home.path());
        talk(&engine, 1, 91, 5);
        seal(&engine);
        assert_same_answers(home.path());
        let listed = fs::read_to_string(index_folder(home.path()).join("manifest")).unwrap();
        assert_eq!(listed.lines().count() - 3, files(home.path()).len() - 1);
    }
}

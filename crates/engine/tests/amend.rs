//! Editing and correcting messages on a real store: the summaries that cover a message follow it, its
//! history stays until it is forgotten, and no import undoes the change.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::common::{assert_sound, open, run_due_jobs, start};
use proptest::prelude::*;
use tempfile::TempDir;
use treering_core::packing::PackReason;
use treering_core::ports::{NodeFilter, Span};
use treering_core::{
    ConversationId, ConversationState, Entry, ForgetTarget, ItemSelection, MessageIdx, NewMessage,
    Node, NodeId, Policy, Role, Store, TenantId, ThreadName, TurnNo,
};
use treering_engine::{
    Amendment, AppendTarget, ContextRequest, Engine, EntryBatch, Forget, HitItem, NewConversation,
    Query, ReplayDetection, Update, UpdateStrategy,
};
use treering_stores::{EmbeddedStore, Sync};
use treering_testkit::generate::external_id;
use treering_testkit::{FakeClock, PrefixSummarizer};

const KEY: &str = "sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8xWz1y";

fn policy() -> Policy {
    let assignments =
        ["window_chars=400", "min_flush_chars=0", "group_children=2", "group_chars=off"];
    Policy::default().with(&assignments.map(|text| text.parse().unwrap())).unwrap()
}

/// An engine whose clock shows a time long after the messages.
fn engine_in(folder: &Path) -> Engine {
    let clock = Arc::new(FakeClock::at(start().plus_micros(1 << 45)));
    open(folder, policy(), Arc::new(PrefixSummarizer::default()), clock)
}

/// A word that only the message at this position has.
fn word(idx: u32) -> String {
    format!("zq{idx:03}vk")
}

fn entry(idx: u32, id: bool) -> Entry {
    let role = if idx.is_multiple_of(2) { Role::User } else { Role::Assistant };
    let text = format!("{} is the name of crane {idx}, which lifts boxes at the quay.", word(idx));
    let at = start().plus_micros(i64::from(idx) * 60_000_000);
    let external_id = id.then(|| external_id(&format!("m{idx}")));
    let message = NewMessage { external_id, ..NewMessage::new(role, text, at) };
    Entry::message(ThreadName::main(), message)
}

fn batch(count: u32) -> EntryBatch {
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(external_id("harbour")),
        ..NewConversation::default()
    });
    let entries = (0..count).map(|idx| entry(idx, true)).collect();
    EntryBatch { target, entries, replay_detection: ReplayDetection::None }
}

fn sample() -> (Engine, ConversationId, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_in(folder.path());
    let id = engine.append(batch(60)).unwrap().conversation.id;
    run_due_jobs(&engine, id);
    (engine, id, folder)
}

fn nodes(folder: &Path, id: ConversationId) -> Vec<Node> {
    let store = EmbeddedStore::open(folder, Sync::Normal).unwrap();
    store.reader(&TenantId::default()).unwrap().nodes(id, &NodeFilter::default()).unwrap()
}

fn ids(nodes: &[Node], is_chosen: impl Fn(&Node) -> bool) -> BTreeSet<NodeId> {
    nodes.iter().filter(|node| is_chosen(node)).map(|node| node.id.clone()).collect()
}

fn covers(node: &Node, idx: u32) -> bool {
    (node.source.from..node.source.until).contains(&idx)
}

fn edit(engine: &Engine, id: ConversationId, idx: u32, text: &str) {
    let amendment = Amendment::Edit { text: text.into(), regenerate: None };
    engine.amend(id, MessageIdx(idx), amendment).unwrap();
}

fn correct(engine: &Engine, id: ConversationId, idx: u32, text: Option<&str>) {
    let amendment = Amendment::Correct { text: text.map(str::to_owned) };
    engine.amend(id, MessageIdx(idx), amendment).unwrap();
}

/// The messages that a search for a word finds.
fn found(engine: &Engine, word: &str) -> Vec<u32> {
    let query =
        Query { text: format!("\"{word}\""), levels: vec![0], limit: 5, ..Query::default() };
    let hits = engine.search(&query).unwrap().hits;
    let idx = |item: &HitItem| match item {
        HitItem::Message(it) if it.body.text.contains(word) => Some(it.idx.0),
        _ => None,
    };
    hits.iter().filter_map(|hit| idx(&hit.item)).collect()
}

fn context(engine: &Engine, id: ConversationId, as_of: Option<u32>) -> String {
    let as_of = as_of.map(TurnNo);
    let request = ContextRequest { as_of, budget: 20_000, ..ContextRequest::new(id) };
    engine.context(&request).unwrap().markdown()
}

fn text_of(engine: &Engine, id: ConversationId, idx: u32) -> String {
    engine.messages(id, Span::starting(MessageIdx(idx), 1)).unwrap().pop().unwrap().body.text
}

fn is_in_files(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_in_files(&path, text),
            false => {
                let bytes = std::fs::read(&path).unwrap();
                bytes.windows(text.len()).any(|window| window == text.as_bytes())
            }
        }
    })
}

fn rebuild(engine: &Engine, id: ConversationId, strategy: UpdateStrategy) {
    engine.update(id, &Update { strategy, ..Update::default() }).unwrap();
    run_due_jobs(engine, id);
}

#[test]
fn an_edit_makes_exactly_the_ancestors_stale_and_an_update_rewrites_them() {
    let (engine, id, folder) = sample();
    let before = nodes(folder.path(), id);
    let over = ids(&before, |node| covers(node, 7));
    assert!(over.len() > 2 && over.len() < before.len());
    edit(&engine, id, 7, "nw007vk is the new name.");
    let stale = nodes(folder.path(), id);
    assert_eq!(ids(&stale, |node| node.dirty), over);
    let report = engine.verify(|_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(report.stale.len(), over.len());

    rebuild(&engine, id, UpdateStrategy::Incremental);
    let after = nodes(folder.path(), id);
    assert!(ids(&after, |node| node.dirty).is_empty());
    assert!(ids(&after, |_| true).is_disjoint(&over), "each has another id");
    assert_eq!(ids(&after, |node| !covers(node, 7)), ids(&before, |node| !covers(node, 7)));
    let says = |node: &Node, word: &str| format!("{:?}", node.content).contains(word);
    assert!(after.iter().all(|node| !says(node, &word(7))));
    assert!(after.iter().any(|node| says(node, "nw007vk")));
    assert!(engine.verify(|_| ()).unwrap().stale.is_empty());
    assert_sound(&engine);
}

#[test]
fn a_policy_rewrites_at_once_also_the_top() {
    let (engine, id, folder) = sample();
    engine.set_state(id, ConversationState::Closed).unwrap();
    run_due_jobs(&engine, id);
    edit(&engine, id, 9, "nw009vk is stale first.");
    assert_sound(&engine);
    assert!(nodes(folder.path(), id).iter().any(|node| node.spec.is_top() && node.dirty));
    engine.set_policy(id, vec!["regenerateSummariesOnEdit=true".parse().unwrap()]).unwrap();
    edit(&engine, id, 8, "nw008vk is rewritten at once.");
    let after = nodes(folder.path(), id);
    assert!(after.iter().any(|node| node.spec.is_top()));
    assert!(!after.iter().any(|node| covers(node, 8) && node.dirty));
    assert_sound(&engine);
}

#[test]
fn an_edit_is_found_shown_and_kept_in_history() {
    let (engine, id, folder) = sample();
    let other = engine_in(folder.path());
    assert_eq!(found(&other, &word(7)), [7]);
    edit(&engine, id, 7, "nw007vk is the new name.");
    edit(&engine, id, 59, "nw059vk is the last one.");
    for engine in [&engine, &other, &engine_in(folder.path())] {
        assert_eq!((found(engine, "nw007vk"), found(engine, &word(7))), (vec![7], vec![]));
        assert_eq!(found(engine, "nw059vk"), [59]);
        assert_eq!((found(engine, &word(6)), found(engine, &word(8))), (vec![6], vec![8]));
    }
    let recent = context(&other, id, None);
    assert!(recent.contains("nw059vk") && !recent.contains(&word(59)));
    assert!(recent.contains("assistant (edited):"), "{recent}");
    edit(&engine, id, 7, "nw107vk is the third name.");
    let history = engine.message_history(id, MessageIdx(7)).unwrap();
    let texts: Vec<&str> = history.iter().map(|version| version.text.as_str()).collect();
    assert!(texts[0].contains(&word(7)) && texts[1].contains("nw007vk"), "{texts:?}");
    let refused = |idx, text: &str| {
        let amendment = Amendment::Edit { text: text.into(), regenerate: None };
        engine.amend(id, MessageIdx(idx), amendment).unwrap_err().to_string()
    };
    assert!(refused(7, "nw107vk is the third name.").contains("already"));
    assert!(refused(7, " ").contains("forget"));
    assert!(refused(60, "x").contains("60 messages"));
    let empty = Amendment::Correct { text: Some(" ".into()) };
    let empty = engine.amend(id, MessageIdx(7), empty).unwrap_err().to_string();
    assert!(empty.contains("correction is empty"), "{empty}");
}

#[test]
fn the_past_is_what_was_known_then() {
    let (engine, id, _folder) = sample();
    edit(&engine, id, 6, "nw006vk is the new name.");
    correct(&engine, id, 8, None);
    rebuild(&engine, id, UpdateStrategy::Full);
    let past = context(&engine, id, Some(10));
    assert!(past.contains(&word(6)) && past.contains(&word(8)) && !past.contains("nw006vk"));
    let request = ContextRequest {
        as_of: Some(TurnNo(10)),
        query: Some(format!("\"{}\"", word(6))),
        ..ContextRequest::new(id)
    };
    let asked = engine.context(&request).unwrap().markdown();
    assert!(asked.contains(&word(6)) && !asked.contains("nw006vk"), "{asked}");
    let now = context(&engine, id, None);
    assert!(!now.contains(&word(6)) && !now.contains(&word(8)));
}

/// Between two corrections, the first one is returned, and never the wrong text.
#[test]
fn the_past_has_the_correction_of_its_time() {
    let (engine, id, folder) = sample();
    let clock = Arc::new(FakeClock::at(start().plus_micros(25 * 60_000_000)));
    let early = open(folder.path(), policy(), Arc::new(PrefixSummarizer::default()), clock);
    correct(&early, id, 8, Some("rt008vk is right."));
    correct(&early, id, 10, None);
    correct(&engine, id, 8, Some("rt108vk is right."));
    edit(&engine, id, 10, "nw010vk is the new name.");
    for (as_of, held) in [(5, [&*word(8), &word(10)]), (14, ["rt008vk", "rt008vk"])] {
        let past = context(&engine, id, Some(as_of));
        for text in [&*word(8), &word(10), "rt008vk", "rt108vk", "nw010vk"] {
            assert_eq!(past.contains(text), held.contains(&text), "{as_of}, {text}: {past}");
        }
    }
    let history = engine.message_history(id, MessageIdx(8)).unwrap();
    let corrections: Vec<_> = history.iter().map(|it| it.correction.as_ref()).collect();
    assert!(corrections[0].is_none(), "{corrections:?}");
    assert_eq!(corrections[1].unwrap().text.as_deref(), Some("rt008vk is right."));
}

/// The title of an edited message may still quote its earlier text.
#[test]
fn a_title_from_an_earlier_version_is_forgotten() {
    let (engine, id, folder) = sample();
    assert!(engine.find(&id.to_string()).unwrap().title.unwrap().contains(&word(0)));
    edit(&engine, id, 0, "…");
    let selection = ItemSelection::Message(MessageIdx(0));
    engine.forget(&Forget::new(ForgetTarget::Items(id, selection))).unwrap();
    let left = engine.find(&id.to_string()).unwrap();
    assert!(!left.slug.contains(&word(0)) && left.title.unwrap().contains(&word(2)));
    assert!(!is_in_files(folder.path(), &word(0)) && is_in_files(folder.path(), &word(2)));
}

/// The messages that a context of the past recalls for a question, without the whole history.
fn recalled(engine: &Engine, id: ConversationId, turn: u32, query: &str) -> (String, Vec<u32>) {
    let request = ContextRequest {
        as_of: Some(TurnNo(turn)),
        query: Some(query.to_owned()),
        budget: 200,
        ..ContextRequest::new(id)
    };
    let context = engine.context(&request).unwrap();
    let items = context.receipt.items.iter();
    let hits = items.filter(|item| item.reason == PackReason::Hit).map(|item| item.from);
    (context.markdown(), hits.collect())
}

#[test]
fn a_question_about_the_past_finds_the_words_of_then() {
    let (engine, id, folder) = sample();
    let [old, new] = ["zq004vk crane", "nw004vk crane"];
    let before = recalled(&engine, id, 20, old);
    assert!(before.1.contains(&4), "{before:?}");
    edit(&engine, id, 4, "nw004vk is the new name.");
    edit(&engine, id, 45, "zq004vk is mentioned again, later.");
    correct(&engine, id, 6, None);
    for engine in [engine, engine_in(folder.path())] {
        let (text, hits) = recalled(&engine, id, 20, old);
        assert!(text.contains(&word(4)) && hits.contains(&4) && !hits.contains(&45), "{text}");
        let (text, hits) = recalled(&engine, id, 20, new);
        assert!(!text.contains("nw004vk") && hits.iter().all(|idx| *idx <= 41), "{text}");
        engine.seal_index(1).unwrap();
    }
}

#[test]
fn a_stored_index_follows_an_edit() {
    let (engine, id, folder) = sample();
    found(&engine, &word(7));
    engine.seal_index(1).unwrap();
    edit(&engine, id, 7, "nw007vk is the new name.");
    correct(&engine, id, 9, None);
    for _ in 0..2 {
        let reopened = engine_in(folder.path());
        assert_eq!((found(&reopened, "nw007vk"), found(&reopened, &word(7))), (vec![7], vec![]));
        assert_eq!((found(&reopened, &word(9)), found(&reopened, &word(10))), (vec![], vec![10]));
        reopened.seal_index(1).unwrap();
    }
}

#[test]
fn an_import_undoes_neither_an_edit_nor_a_correction() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_in(folder.path());
    let by_content = || {
        let target = AppendTarget::MatchContent(NewConversation {
            external_id: Some(external_id("notes")),
            ..NewConversation::default()
        });
        let entries = (0..6).map(|idx| entry(idx, false)).collect();
        EntryBatch { target, entries, replay_detection: ReplayDetection::ByPosition }
    };
    for make in [&by_content as &dyn Fn() -> EntryBatch, &|| batch(6)] {
        let id = engine.append(make()).unwrap().conversation.id;
        edit(&engine, id, 0, "nw000vk is the new name.");
        correct(&engine, id, 3, None);
        let again = engine.append(make()).unwrap();
        assert_eq!((again.conversation.id, again.created), (id, false));
        assert_eq!(again.conversation.totals.messages, 6);
        assert_eq!(text_of(&engine, id, 0), "nw000vk is the new name.");
        rebuild(&engine, id, UpdateStrategy::Full);
        assert!(!context(&engine, id, None).contains(&word(3)));
        // The forgotten conversation does not come back under another number.
        engine.forget(&Forget::new(ForgetTarget::Conversation(id))).unwrap();
        assert!(!engine.append(make()).unwrap().created);
    }
    assert_eq!(engine.stats().unwrap().conversations, 0);
    assert_sound(&engine);
}

#[test]
fn forgetting_erases_the_history_down_to_the_bytes() {
    let (engine, id, folder) = sample();
    edit(&engine, id, 7, "nw007vk is the new name.");
    correct(&engine, id, 7, Some("rt007vk is right."));
    assert!(is_in_files(folder.path(), &word(7)) && is_in_files(folder.path(), "rt007vk"));
    let selection = ItemSelection::Message(MessageIdx(7));
    engine.forget(&Forget::new(ForgetTarget::Items(id, selection))).unwrap();
    for text in [&word(7), "nw007vk", "rt007vk"] {
        assert!(!is_in_files(folder.path(), text), "{text}");
    }
    assert!(engine.message_history(id, MessageIdx(7)).unwrap().is_empty());
    assert_sound(&engine);
}

#[test]
fn a_wrong_message_is_never_handed_out_as_true() {
    let (engine, id, folder) = sample();
    let other = engine_in(folder.path());
    for idx in [7, 58] {
        assert_eq!(found(&other, &word(idx)), [idx]);
        correct(&engine, id, idx, None);
    }
    correct(&engine, id, 20, Some("rt020vk is the right name."));
    for _ in 0..2 {
        for engine in [&engine, &other] {
            let handed_out = context(engine, id, None);
            for idx in [7, 20, 58] {
                assert!(found(engine, &word(idx)).is_empty(), "{idx}");
                assert!(!handed_out.contains(&word(idx)), "{idx}: {handed_out}");
            }
            assert_eq!(found(engine, "rt020vk"), [20]);
            assert_eq!(found(engine, &word(21)), [21]);
        }
        let written = nodes(folder.path(), id);
        let says = |word: &str| written.iter().any(|it| format!("{:?}", it.content).contains(word));
        assert!(!says(&word(7)) && !says(&word(20)) && says("rt020vk"));
        assert_sound(&engine);
        rebuild(&engine, id, UpdateStrategy::Full);
    }
    assert!(text_of(&engine, id, 7).contains(&word(7)), "it stays in the record");
}

#[test]
fn secrets_are_erased_and_the_rest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_in(folder.path());
    let mut entries = batch(20);
    let text = format!("The key is {KEY}, and the crane is zq900vk.");
    let secret = NewMessage::new(Role::User, text, start().plus_micros(1 << 40));
    entries.entries.push(Entry::message(ThreadName::main(), secret));
    let id = engine.append(entries).unwrap().conversation.id;
    engine.set_state(id, ConversationState::Closed).unwrap();
    run_due_jobs(&engine, id);
    edit(&engine, id, 3, &format!("now {KEY}"));
    edit(&engine, id, 3, "nothing to see");
    correct(&engine, id, 5, Some(&format!("the key is {KEY}")));
    let named = engine.rename(id, &format!("About {KEY}")).unwrap();
    let slug = named.slug.strip_prefix("about-").unwrap().to_owned();
    assert!(is_in_files(folder.path(), KEY) && is_in_files(folder.path(), &slug));
    let preview = engine.preview_forget(&Forget::new(ForgetTarget::Secrets)).unwrap();
    assert_eq!(preview.record.erased().messages, 3);
    engine.forget(&Forget::new(ForgetTarget::Secrets)).unwrap();
    assert!(!is_in_files(folder.path(), KEY) && !is_in_files(folder.path(), &slug));
    let left = engine.find(&id.to_string()).unwrap();
    assert_eq!(left.title.as_deref(), Some("About [redacted API key]"));
    assert_eq!(
        text_of(&engine, id, 20),
        "The key is [redacted API key], and the crane is zq900vk."
    );
    assert_eq!(found(&engine, "zq900vk"), [20]);
    let again = engine.preview_forget(&Forget::new(ForgetTarget::Secrets)).unwrap_err();
    assert!(again.to_string().contains("nothing to forget"), "{again}");
    assert_sound(&engine);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Editing and rebuilding gives the tree of a conversation that had the texts from the start.
    #[test]
    fn editing_equals_having_said_it(
        count in 6_u32..50,
        places in prop::collection::btree_map(0_u32..50, 1_usize..90, 1..5),
        regenerates in any::<bool>(),
    ) {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (editing, never) = (engine_in(one.path()), engine_in(other.path()));
        let id = editing.append(batch(count)).unwrap().conversation.id;
        run_due_jobs(&editing, id);
        let mut said = batch(count);
        for (place, length) in places.iter().filter(|(place, _)| **place < count) {
            let text = format!("{} {}", "word ".repeat(*length), word(900 + place));
            let amendment = Amendment::Edit { text: text.clone(), regenerate: Some(regenerates) };
            editing.amend(id, MessageIdx(*place), amendment).unwrap();
            let treering_core::EntryKind::Message(message) = &mut said.entries[*place as usize].kind
            else { panic!("all are messages") };
            message.text = text;
            assert_sound(&editing);
        }
        never.append(said).unwrap();
        run_due_jobs(&never, id);
        for engine in [&editing, &never] {
            rebuild(engine, id, UpdateStrategy::Full);
            assert_sound(engine);
        }
        let described = |folder: &Path| -> Vec<_> {
            let described = |node: Node| (node.id, node.content, node.parent, node.source);
            nodes(folder, id).into_iter().map(described).collect()
        };
        prop_assert_eq!(described(one.path()), described(other.path()));
    }
}

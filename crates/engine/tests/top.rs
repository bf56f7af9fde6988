//! The top: a closed conversation has one node over all of it, and an open one has none. The rest
//! of the tree does not depend on it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use crate::common::{assert_sound, commit, engine_with_policy, open, run_due_jobs, start};
use proptest::prelude::*;
use treering_core::ports::JobFilter;
use treering_core::{
    Conversation, ConversationId, ConversationState, Entry, EntryKind, Json, NewMessage,
    NewToolCall, Node, NodeId, Policy, Preset, ProviderError, Role, ThreadName, ToolResult, Write,
};
use treering_engine::{
    AppendTarget, ContextRequest, Engine, EntryBatch, JobScope, NewConversation, Query,
    ReplayDetection, Update, UpdateStrategy, Worker,
};
use treering_providers::Extractive;
use treering_stores::EmbeddedStore;
use treering_testkit::generate::{conversation, external_id, sentence};
use treering_testkit::{FakeClock, PrefixSummarizer};

fn small() -> Policy {
    let assignments =
        ["window_chars=400", "min_flush_chars=0", "group_children=2", "group_chars=off"];
    Policy::default().with(&assignments.map(|text| text.parse().unwrap())).unwrap()
}

/// Appends entries as a capture that leaves the conversation in this state.
fn append_as(engine: &Engine, state: ConversationState, entries: Vec<Entry>) -> ConversationId {
    let new_conversation = NewConversation {
        external_id: Some(external_id("top")),
        state,
        ..NewConversation::default()
    };
    let target = AppendTarget::FindOrCreate(new_conversation);
    let batch = EntryBatch { target, entries, replay_detection: ReplayDetection::None };
    engine.append(batch).unwrap().conversation.id
}

fn append(engine: &Engine, entries: Vec<Entry>) -> ConversationId {
    append_as(engine, ConversationState::Open, entries)
}

/// Turns of about 400 characters; the numbers determine their words.
fn turns(numbers: std::ops::Range<u64>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for number in numbers {
        let (mut state, at) = (number + 1, start().plus_micros(number as i64 * 60_000_000));
        for role in [Role::User, Role::Assistant] {
            let text = format!("In part {number}, {}.", sentence(&mut state, 32));
            entries.push(Entry::message(ThreadName::main(), NewMessage::new(role, text, at)));
        }
        entries.push(Entry::turn_end(ThreadName::main()));
    }
    entries
}

fn close(engine: &Engine, id: ConversationId) {
    engine.set_state(id, ConversationState::Closed).unwrap();
}

fn work(engine: &Engine, id: ConversationId) {
    run_due_jobs(engine, id);
    assert_sound(engine);
}

fn stored(engine: &Engine, id: ConversationId) -> Conversation {
    engine.tree(id).unwrap().conversation
}

fn top(engine: &Engine, id: ConversationId) -> Option<Node> {
    engine.top(&stored(engine, id)).unwrap()
}

/// The nodes other than the top, and what they contain.
fn ordinary(engine: &Engine, id: ConversationId) -> Vec<String> {
    let nodes = engine.tree(id).unwrap().nodes;
    let ordinary = nodes.iter().filter(|node| !node.spec.is_top());
    ordinary.map(|node| format!("{} {:?} {:?}", node.id, node.parent, node.content)).collect()
}

#[test]
fn closing_gives_one_node_over_all_and_opening_drops_it() {
    let (engine, _folder) = engine_with_policy(small());
    let id = append(&engine, turns(0..9));
    work(&engine, id);
    assert!(top(&engine, id).is_none(), "an open conversation has none");
    let before = ordinary(&engine, id);

    for state in [ConversationState::Closed, ConversationState::Archived] {
        engine.set_state(id, state).unwrap();
        assert_sound(&engine);
        let gate = engine.gate(id).unwrap();
        assert!(gate.is_clear(), "no context waits for it: {gate:?}");
        work(&engine, id);
        let node = top(&engine, id).unwrap();
        let tree = engine.tree(id).unwrap();
        assert_eq!(node.level().number(), tree.growth().sealed.len() as u8 + 1);
        assert_eq!((node.source.messages, node.source.turns), (18, 9));
        assert_eq!((node.source.from, node.source.until), (0, 18));
        let roots = engine.children(id, &node).unwrap();
        let ids: Vec<_> = roots.iter().map(|root| root.id.clone()).collect();
        assert!(ids.len() > 1 && node.spec.covers.nodes() == ids);
        assert!(roots.iter().all(|root| root.superseded && root.parent.is_none()));
        for idx in [0, 7, 17] {
            let over = engine.ancestors_of(id, treering_core::MessageIdx(idx)).unwrap();
            assert_eq!(over.last().map(|node| &node.id), Some(&node.id), "message {idx}");
        }
    }

    engine.set_state(id, ConversationState::Open).unwrap();
    assert_sound(&engine);
    assert!(top(&engine, id).is_none());
    assert_eq!(ordinary(&engine, id), before);
    let roots = engine.tree(id).unwrap().nodes;
    assert!(roots.iter().all(|node| node.superseded == node.parent.is_some()));
}

#[test]
fn an_empty_conversation_needs_no_summary() {
    let (engine, _folder) = engine_with_policy(small());
    let id = append(&engine, Vec::new());
    close(&engine, id);
    work(&engine, id);
    assert!(engine.tree(id).unwrap().nodes.is_empty());
    assert!(top(&engine, id).is_none());
}

#[test]
fn a_single_short_node_is_the_summary_of_the_whole() {
    let (engine, _folder) = engine_with_policy(Policy::default());
    let id = append(&engine, turns(0..1));
    work(&engine, id);
    assert!(top(&engine, id).is_none());
    close(&engine, id);
    assert!(top(&engine, id).is_none(), "its node has yet to be written");
    work(&engine, id);
    let nodes = engine.tree(id).unwrap().nodes;
    assert_eq!(nodes.len(), 1);
    assert_eq!(top(&engine, id).map(|node| node.id), Some(nodes[0].id.clone()));
}

#[test]
fn a_top_has_200_to_400_tokens() {
    for preset in Preset::ALL {
        for turn_count in [5, 20, 80] {
            let folder = tempfile::tempdir().unwrap();
            let clock = Arc::new(FakeClock::at(start()));
            let engine = open(folder.path(), preset.into(), Arc::new(Extractive), clock);
            let id = append(&engine, turns(0..turn_count));
            close(&engine, id);
            work(&engine, id);
            let top = top(&engine, id).unwrap();
            assert!((200..=400).contains(&top.tokens), "{preset}, {turn_count}: {}", top.tokens);
        }
    }
}

#[test]
fn a_change_below_makes_the_top_dirty_until_it_is_written_again() {
    let (engine, _folder) = engine_with_policy(small());
    let call = NewToolCall {
        name: "gauge".into(),
        args: Json::string("berth"),
        outcome: None,
        at: start(),
        external_id: Some(external_id("call")),
    };
    let mut entries = vec![EntryKind::ToolCall(call).into()];
    entries.extend(turns(0..6));
    let closed = ConversationState::Closed;
    let id = append_as(&engine, closed, entries);
    work(&engine, id);
    let before = top(&engine, id).unwrap();

    let result = Json::string("3.25 m");
    let outcome = ToolResult { result, success: Some(true), duration_ms: Some(7) };
    let late = EntryKind::ToolResult { call: external_id("call"), outcome, at: start() };
    append_as(&engine, closed, vec![late.into()]);
    assert_sound(&engine);
    let dirty = top(&engine, id).unwrap();
    assert!(dirty.dirty && dirty.id == before.id);
    work(&engine, id);
    let after = top(&engine, id).unwrap();
    assert!(!after.dirty && after.id != before.id);

    // A source that goes on while it stays closed.
    append_as(&engine, closed, turns(6..12));
    assert_sound(&engine);
    work(&engine, id);
    let larger = top(&engine, id).unwrap();
    assert_eq!(larger.source.turns, 12);
    assert!(larger.level() > after.level(), "groups took its level");
}

#[test]
fn a_failed_top_is_written_by_the_fallback_and_again_by_an_update() {
    let folder = tempfile::tempdir().unwrap();
    let clock = || Arc::new(FakeClock::at(start()));
    let id = {
        let engine = open(folder.path(), small(), Arc::new(PrefixSummarizer::default()), clock());
        let id = append(&engine, turns(0..9));
        work(&engine, id);
        id
    };
    let failing = PrefixSummarizer::failing([ProviderError::permanent("no")]);
    let engine = open(folder.path(), small(), Arc::new(failing), clock());
    close(&engine, id);
    work(&engine, id);
    assert_eq!(top(&engine, id).unwrap().provenance.by, "extractive for heads");
    let foreseen = engine.estimate(id, &Update::default()).unwrap();
    assert_eq!(foreseen.calls, 1);
    engine.update(id, &Update::default()).unwrap();
    work(&engine, id);
    assert_eq!(top(&engine, id).unwrap().provenance.by, "heads");
}

#[test]
fn an_update_adds_the_top_to_a_conversation_closed_before_there_were_tops() {
    let (engine, folder) = engine_with_policy(small());
    let id = append(&engine, turns(0..9));
    close(&engine, id);
    work(&engine, id);
    let written = top(&engine, id).unwrap();
    let mut older = stored(&engine, id);
    older.tree_state.top = None;
    commit(
        folder.path(),
        vec![Write::DropTree(id, written.level()), Write::PutConversation(older)],
    );
    assert_sound(&engine);
    assert!(top(&engine, id).is_none());
    assert_eq!(engine.estimate(id, &Update::default()).unwrap().calls, 1);
    engine.update(id, &Update::default()).unwrap();
    work(&engine, id);
    assert_eq!(top(&engine, id).map(|node| node.id), Some(written.id));
}

#[test]
fn search_finds_the_top_at_the_highest_level_and_forgets_it() {
    let (engine, _folder) = engine_with_policy(small());
    let id = append(&engine, turns(0..9));
    close(&engine, id);
    work(&engine, id);
    let node = top(&engine, id).unwrap();
    let word = node.content.overview.split_whitespace().max_by_key(|it| it.len()).unwrap();
    let query = Query {
        text: word.to_owned(),
        levels: vec![node.level().number()],
        limit: 5,
        ..Query::default()
    };
    let found = |engine: &Engine| -> Vec<u8> {
        engine.search(&query).unwrap().hits.iter().map(treering_engine::Hit::level).collect()
    };
    assert_eq!(found(&engine), [node.level().number()]);
    engine.set_state(id, ConversationState::Open).unwrap();
    assert!(found(&engine).is_empty());
}

#[test]
fn a_context_covers_everything_once_with_or_without_the_top() {
    let (engine, _folder) = engine_with_policy(small());
    let id = append(&engine, turns(0..30));
    close(&engine, id);
    let scope = JobScope { conversation: Some(id), ..JobScope::default() };
    let contexts = |engine: &Engine| -> Vec<Vec<(u8, u32, u32)>> {
        let names = ["cut", "frontier", "tiered", "documentation"];
        let items = |name: &str| {
            let profile = treering_core::packing::Profile::named(name, 200).unwrap();
            let request = ContextRequest { budget: 900, profile, ..ContextRequest::new(id) };
            let items = engine.context(&request).unwrap().receipt.items;
            items.iter().map(|item| (item.level, item.from, item.until)).collect()
        };
        names.into_iter().map(items).collect()
    };
    let worker = Worker::new(engine.clone()).unwrap();
    let height = || stored(&engine, id).tree_state.top.map(|level| level.number());
    // Every node but the top.
    while height().is_none() {
        let lowest = engine.jobs(&JobFilter::of(id)).unwrap()[0].kind.height();
        let lowest = JobScope { only: Some(lowest), ..scope };
        worker.run(&lowest, &|_, _| {}).unwrap();
    }
    assert!(top(&engine, id).is_none());
    let before = contexts(&engine);
    work(&engine, id);
    assert!(top(&engine, id).is_some());
    assert_eq!(contexts(&engine), before);
    let mut next = 0;
    for (_, from, until) in &before[0] {
        assert_eq!(*from, next, "no gap and no overlap: {:?}", before[0]);
        next = *until;
    }
    assert_eq!(next, 60);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// One conversation gets a top at every closing, the other only at the last one.
    #[test]
    fn the_rest_of_the_tree_does_not_depend_on_the_top(
        parts in proptest::collection::vec(conversation(25), 1..4),
        preset in prop::sample::select(Preset::ALL.to_vec()),
        children in 2_u32..4,
        reopens in any::<bool>(),
    ) {
        let mut policy = Policy::from(preset);
        policy.window.window_chars = policy.window.window_chars.map(|_| 300);
        policy.window.min_flush_chars = 0;
        policy.groups[0].children = Some(children);
        let ((with, _w), (without, _o)) = (engine_with_policy(policy.clone()), engine_with_policy(policy));
        let id = append(&with, Vec::new());
        append(&without, Vec::new());
        for (number, part) in parts.into_iter().enumerate() {
            let part: Vec<Entry> = part.into_iter().map(|entry| renamed(entry, number)).collect();
            for engine in [&with, &without] {
                if reopens {
                    engine.set_state(id, ConversationState::Open).unwrap();
                }
                append(engine, part.clone());
                close(engine, id);
            }
            work(&with, id);
        }
        work(&without, id);
        prop_assert_eq!(ordinary(&with, id), ordinary(&without, id));
        let tops = [&with, &without].map(|engine| top(engine, id).map(|node| node.id));
        prop_assert_eq!(&tops[0], &tops[1]);
        let roots = with.tree(id).unwrap().nodes;
        prop_assert_eq!(tops[0].is_some(), !roots.is_empty());
        without.update(id, &Update { strategy: UpdateStrategy::Full, ..Update::default() }).unwrap();
        work(&without, id);
        prop_assert_eq!(&tops[1], &top(&without, id).map(|node| node.id), "a rebuild");
    }
}

/// The entry with an external id of its own.
fn renamed(mut entry: Entry, part: usize) -> Entry {
    let other = |id: &treering_core::ExternalId| external_id(&format!("{part}-{id}"));
    match &mut entry.kind {
        EntryKind::Message(message) => {
            message.external_id = message.external_id.as_ref().map(other);
        }
        EntryKind::ToolCall(call) => call.external_id = call.external_id.as_ref().map(other),
        EntryKind::ToolResult { call, .. } => *call = other(call),
        _ => {}
    }
    entry
}

/// A store with a closed conversation and its top.
fn closed_store() -> (tempfile::TempDir, ConversationId, Vec<Node>) {
    let (engine, folder) = engine_with_policy(small());
    let id = append(&engine, turns(0..9));
    close(&engine, id);
    work(&engine, id);
    let nodes = engine.tree(id).unwrap().nodes;
    (folder, id, nodes)
}

/// Verifies a damaged store and repairs it. Returns the ids of its nodes.
fn found_and_repaired(folder: &Path, id: ConversationId, problem: &str) -> Vec<String> {
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder, small(), Arc::new(PrefixSummarizer::default()), clock);
    let problems = engine.verify(|_| ()).unwrap().problems;
    assert!(problems.iter().any(|it| it.description.contains(problem)), "{problem}: {problems:?}");
    engine.repair().unwrap();
    work(&engine, id);
    ids(&engine.tree(id).unwrap().nodes)
}

fn ids(nodes: &[Node]) -> Vec<String> {
    nodes.iter().map(|node| node.id.to_string()).collect()
}

#[test]
fn verify_finds_a_damaged_top_and_repair_rebuilds_it() {
    let top = "WHERE ordinal = 2147483648";
    for (plant, problem) in [
        (format!("DELETE FROM nodes {top}"), "has neither content nor a job"),
        (format!("UPDATE nodes SET dirty = 1 {top}"), "has neither content nor a job"),
        (
            format!("UPDATE nodes SET task = json_set(task, '$.covers.whole[0]', 'l1-x') {top}"),
            "does not cover the 4 topmost nodes",
        ),
    ] {
        let (folder, id, nodes) = closed_store();
        let file = rusqlite::Connection::open(folder.path().join(EmbeddedStore::FILE)).unwrap();
        file.execute_batch(&plant).unwrap();
        drop(file);
        assert_eq!(found_and_repaired(folder.path(), id, problem), ids(&nodes), "{plant}");
    }
}

#[test]
fn verify_finds_a_top_that_was_never_planned() {
    let (folder, id, nodes) = closed_store();
    let mut second = nodes.last().unwrap().clone();
    second.spec.level = second.level().above();
    second.id = NodeId::from_stored("l9-0123456789abcdef-20270115".into());
    commit(folder.path(), vec![Write::PutNode(id, Box::new(second))]);
    assert_eq!(found_and_repaired(folder.path(), id, "was never planned"), ids(&nodes));

    let (folder, id, nodes) = closed_store();
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder.path(), small(), Arc::new(PrefixSummarizer::default()), clock);
    let opened = Conversation { state: ConversationState::Open, ..stored(&engine, id) };
    commit(folder.path(), vec![Write::PutConversation(opened)]);
    let problem = "an open conversation has a node over all of it";
    let ordinary: Vec<Node> = nodes.into_iter().filter(|node| !node.spec.is_top()).collect();
    assert_eq!(found_and_repaired(folder.path(), id, problem), ids(&ordinary));
}

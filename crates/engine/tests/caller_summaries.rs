//! Summaries that a caller stores or asks for, and trees that are turned off. The tree stays sound
//! after each of them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::Range;

use crate::common::{assert_sound, engine_with_policy, run_due_jobs, start};
use treering_core::ports::JobFilter;
use treering_core::{
    ConversationId, ConversationState, Coverage, Entry, EntryKind, JobKind, Json, Level,
    NewMessage, NewToolCall, Node, NodeContent, NodeId, Policy, Role, ThreadName, ToolResult,
    ToolUse, TurnNo,
};
use treering_engine::{
    AppendTarget, Engine, EntryBatch, NewConversation, NewSummary, ReplayDetection, SummaryParents,
    Update, UpdateStrategy,
};
use treering_testkit::generate::external_id;

/// Stores turns of `chars` characters each, half question and half answer.
fn append_turns(engine: &Engine, turns: Range<u32>, chars: usize) -> ConversationId {
    let mut entries = Vec::new();
    for turn in turns {
        for role in [Role::User, Role::Assistant] {
            let text: String =
                format!("{role} {turn} says a word. ").chars().cycle().take(chars / 2).collect();
            let at = start().plus_micros(i64::from(turn) * 60_000_000);
            entries.push(Entry::message(ThreadName::main(), NewMessage::new(role, text, at)));
        }
        entries.push(Entry::turn_end(ThreadName::main()));
    }
    append(engine, entries)
}

fn append(engine: &Engine, entries: Vec<Entry>) -> ConversationId {
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(external_id("caller")),
        ..Default::default()
    });
    let batch = EntryBatch { target, entries, replay_detection: ReplayDetection::None };
    engine.append(batch).unwrap().conversation.id
}

fn policy(parameters: &[&str]) -> Policy {
    let parsed: Vec<_> = parameters.iter().map(|text| text.parse().unwrap()).collect();
    Policy::default().with(&parsed).unwrap()
}

/// One window for each turn of 200 characters, and groups of three.
fn small() -> Policy {
    policy(&["window_chars=200", "min_flush_chars=0", "group_children=3", "group_chars=off"])
}

/// Windows that no test fills.
fn large() -> Policy {
    policy(&["window_chars=100000", "min_flush_chars=0"])
}

fn of_turns(turns: Range<u32>, text: &str) -> NewSummary {
    summary(SummaryParents::Turns(turns.map(TurnNo).collect()), text)
}

fn of_nodes(nodes: &[&Node], text: &str) -> NewSummary {
    let ids: Vec<NodeId> = nodes.iter().map(|node| node.id.clone()).collect();
    summary(SummaryParents::Nodes(ids), text)
}

fn summary(parents: SummaryParents, text: &str) -> NewSummary {
    let content = NodeContent { overview: text.to_owned(), ..NodeContent::default() };
    NewSummary { parents, content, turns: None }
}

fn nodes(engine: &Engine, id: ConversationId, level: u8) -> Vec<Node> {
    let mut nodes = engine.tree(id).unwrap().nodes;
    nodes.retain(|node| node.level().number() == level);
    nodes
}

fn texts(nodes: &[Node]) -> Vec<&str> {
    nodes.iter().map(|node| node.content.overview.as_str()).collect()
}

#[track_caller]
fn refused(engine: &Engine, id: ConversationId, summary: NewSummary, why: &[&str]) {
    let before = engine.tree(id).unwrap();
    let error = engine.store_summary(id, summary).unwrap_err().to_string();
    for word in why {
        assert!(error.contains(word), "{word}: {error}");
    }
    let after = engine.tree(id).unwrap();
    assert_eq!((before.nodes, before.conversation), (after.nodes, after.conversation));
}

#[test]
fn a_stored_summary_seals_the_first_turns_of_the_open_window() {
    let (engine, _home) = engine_with_policy(large());
    let id = append_turns(&engine, 0..5, 400);
    let node = engine.store_summary(id, of_turns(0..2, "Turns 0 and 1, in my words.")).unwrap();
    assert_eq!((node.level(), node.source.turns, node.ordinal()), (Level::FIRST, 2, 0));
    assert_eq!(node.provenance.by, "caller");
    assert_eq!(node.spec.cause.as_str(), "on request");
    assert!(node.id.as_str().starts_with("l1-"), "{}", node.id);
    assert_sound(&engine);
    assert_eq!(engine.raw_history_chars(id).unwrap(), 3 * 400);

    engine.store_summary(id, of_turns(2..5, "The rest.")).unwrap();
    assert_sound(&engine);
    append_turns(&engine, 5..8, 400);
    engine.set_state(id, ConversationState::Closed).unwrap();
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    let level_1 = nodes(&engine, id, 1);
    assert_eq!(texts(&level_1)[..2], ["Turns 0 and 1, in my words.", "The rest."]);
    let Coverage::Messages(last) = &level_1[2].spec.covers else { panic!("covers nodes") };
    assert_eq!((last.from.idx.0, last.until.idx.0), (10, 16), "no gap and no overlap");
}

#[test]
fn a_stored_summary_replaces_a_job_and_later_a_node() {
    let (engine, _home) = engine_with_policy(small());
    let id = append_turns(&engine, 0..6, 200);
    let jobs = engine.jobs(&JobFilter::of(id)).unwrap().len();
    let first = engine.store_summary(id, of_turns(1..2, "Turn 1, first try.")).unwrap();
    assert_eq!(engine.jobs(&JobFilter::of(id)).unwrap().len(), jobs - 1, "its job is gone");
    assert_sound(&engine);
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    let level_1 = nodes(&engine, id, 1);
    assert_eq!(
        (level_1[1].id.clone(), texts(&level_1)[1]),
        (first.id.clone(), "Turn 1, first try.")
    );
    let parent = nodes(&engine, id, 2).remove(0);
    assert!(matches!(&parent.spec.covers, Coverage::Nodes(ids) if ids.contains(&first.id)));

    let again = engine.store_summary(id, of_turns(1..2, "Turn 1, first try.")).unwrap();
    assert_eq!(again.id, first.id, "the same text is the same node");
    assert!(engine.jobs(&JobFilter::of(id)).unwrap().is_empty(), "nothing has changed");

    let second = engine.store_summary(id, of_turns(1..2, "Turn 1, improved.")).unwrap();
    assert_ne!(second.id, first.id);
    assert!(nodes(&engine, id, 2)[0].dirty, "the node above must be rewritten");
    assert_sound(&engine);
    run_due_jobs(&engine, id);
    let rewritten = nodes(&engine, id, 2).remove(0);
    assert_ne!(rewritten.id, parent.id);
    assert!(!rewritten.dirty && nodes(&engine, id, 1)[1].parent == Some(0));
    assert_sound(&engine);
}

#[test]
fn a_summary_of_nodes_replaces_their_group_or_makes_one() {
    let (engine, _home) = engine_with_policy(small());
    let id = append_turns(&engine, 0..6, 200);
    run_due_jobs(&engine, id);
    let level_1 = nodes(&engine, id, 1);
    assert_eq!((level_1.len(), nodes(&engine, id, 2).len()), (6, 1));
    let [a, b, c, d, e, f] = level_1.as_slice() else { panic!("six nodes") };

    let node = engine.store_summary(id, of_nodes(&[a, b, c], "The first three.")).unwrap();
    assert_eq!((node.level().number(), node.ordinal(), node.source.turns), (2, 0, 3));
    assert_eq!(texts(&nodes(&engine, id, 2)), ["The first three."]);
    refused(&engine, id, of_nodes(&[a, b], "Two."), &["sealed group", c.id.as_str()]);
    refused(&engine, id, of_nodes(&[c, d], "Mixed."), &["sealed group"]);
    refused(&engine, id, of_nodes(&[e, f], "Late."), &["begins with the first", d.id.as_str()]);
    refused(&engine, id, of_nodes(&[d, e, f], "All."), &["leaves the last one"]);
    refused(&engine, id, of_nodes(&[d], "One."), &["at least two"]);
    refused(&engine, id, of_nodes(&[a, &node], "Levels."), &["different levels"]);

    let node = engine.store_summary(id, of_nodes(&[d, e], "Two more.")).unwrap();
    assert_eq!((node.ordinal(), node.spec.cause.as_str()), (1, "on request"));
    assert_sound(&engine);
    append_turns(&engine, 6..10, 200);
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    assert_eq!(texts(&nodes(&engine, id, 2))[..2], ["The first three.", "Two more."]);
}

#[test]
fn spans_that_cross_a_window_are_refused_with_the_spans_that_fit() {
    let (engine, _home) =
        engine_with_policy(policy(&["window_chars=600", "wiggle=0", "min_flush_chars=0"]));
    let id = append_turns(&engine, 0..5, 200);
    run_due_jobs(&engine, id);
    assert_eq!(nodes(&engine, id, 1).len(), 1, "turns 0 to 2 are sealed, 3 and 4 are open");
    refused(&engine, id, of_turns(0..2, "Two."), &["turns 0–1", "turns 0–2", "exactly"]);
    refused(&engine, id, of_turns(2..4, "Across."), &["turns 0–2"]);
    refused(&engine, id, of_turns(4..5, "Late."), &["the open window has turns 3–4", "first"]);
    refused(&engine, id, of_turns(3..9, "Beyond."), &["turn 5 does not exist"]);
    refused(&engine, id, of_turns(3..3, "Nothing."), &["name the turns"]);
    refused(&engine, id, of_turns(3..4, " — "), &["no text"]);
    let gap = summary(SummaryParents::Turns(vec![TurnNo(0), TurnNo(2)]), "Gap.");
    refused(&engine, id, gap, &["turns 0–2"]);
    let wrong = NewSummary { turns: Some(7), ..of_turns(3..4, "Turn 3.") };
    refused(&engine, id, wrong, &["summary of 7 turns", "it covers 1"]);

    let user = NewMessage::new(Role::User, "Not answered yet", start());
    append(&engine, vec![Entry::message(ThreadName::main(), user)]);
    refused(&engine, id, of_turns(3..6, "Too early."), &["turn 5 is not complete"]);
    engine.store_summary(id, of_turns(3..5, "Both.")).unwrap();
    assert_sound(&engine);
}

#[test]
fn a_stored_summary_keeps_its_lists_and_counts_tools() {
    let (engine, _home) = engine_with_policy(large());
    let id = append_turns(&engine, 0..1, 400);
    let call = |name: &str, success: bool| {
        EntryKind::ToolCall(NewToolCall {
            name: name.to_owned(),
            args: Json::empty_object(),
            outcome: ToolResult::of_parts(Some(Json::empty_object()), Some(success), None),
            at: start(),
            external_id: None,
        })
    };
    let user = NewMessage::new(Role::User, "And the port?", start());
    let answer = NewMessage::new(Role::Assistant, "7410.", start());
    append(
        &engine,
        vec![
            Entry::message(ThreadName::main(), user),
            call("grep", true).into(),
            call("grep", false).into(),
            call("read", true).into(),
            Entry::message(ThreadName::main(), answer),
            Entry::turn_end(ThreadName::main()),
        ],
    );
    let mut own = of_turns(0..2, "Invented 4711 in src/none.rs.");
    own.content.key_findings = vec!["A finding".to_owned()];
    own.content.tools_used =
        vec![ToolUse { name: "grep".to_owned(), succeeded: 0, failed: 0, unknown: 0 }];
    let node = engine.store_summary(id, own).unwrap();
    assert_eq!(node.content.key_findings, ["A finding"]);
    let used = &node.content.tools_used[0];
    assert_eq!((used.succeeded, used.failed, used.unknown), (1, 1, 0));
    assert!(node.grounded < 1.0 && !node.invented.is_empty(), "recorded, and not refused");
}

#[test]
fn a_full_rebuild_drops_stored_summaries_and_an_update_keeps_them() {
    let (engine, _home) = engine_with_policy(large());
    let id = append_turns(&engine, 0..4, 400);
    engine.store_summary(id, of_turns(0..2, "Mine.")).unwrap();
    engine.update(id, &Update::default()).unwrap();
    run_due_jobs(&engine, id);
    assert_eq!(texts(&nodes(&engine, id, 1)), ["Mine."]);
    let full = Update { strategy: UpdateStrategy::Full, ..Update::default() };
    let estimate = engine.estimate(id, &full).unwrap();
    assert_eq!((estimate.dropped_nodes, estimate.dropped_caller_nodes), (1, 1));
    engine.update(id, &full).unwrap();
    run_due_jobs(&engine, id);
    assert!(nodes(&engine, id, 1).is_empty());
    assert_eq!(engine.raw_history_chars(id).unwrap(), 4 * 400);
    assert_sound(&engine);
}

#[test]
fn a_turn_is_summarized_without_storing_anything() {
    let (engine, _home) = engine_with_policy(large());
    let id = append_turns(&engine, 0..2, 2000);
    let before = engine.tree(id).unwrap();
    let summary = engine.summarize_turn(id, TurnNo(1)).unwrap();
    assert!(!summary.content.overview.is_empty() && summary.chars < 2000);
    assert_eq!(summary.source_chars, 2000);
    let after = engine.tree(id).unwrap();
    assert_eq!((before.nodes, before.jobs), (after.nodes, after.jobs));
    let error = engine.summarize_turn(id, TurnNo(2)).unwrap_err().to_string();
    assert!(error.contains("turn 2") && error.contains("2 turns"), "{error}");

    let message =
        |role, text: &str| Entry::message(ThreadName::main(), NewMessage::new(role, text, start()));
    let given = [message(Role::User, "Which port?"), message(Role::Assistant, "Port 7410.")];
    let summary = engine.summarize_entries(&given).unwrap();
    assert!(!summary.content.overview.is_empty());
    assert!(engine.summarize_entries(&[]).unwrap_err().to_string().contains("no text"));
}

#[test]
fn a_level_is_summarized_before_its_group_is_full() {
    let (engine, _home) = engine_with_policy(policy(&["window_chars=200", "min_flush_chars=0"]));
    let id = append_turns(&engine, 0..2, 200);
    run_due_jobs(&engine, id);
    let error = engine.summarize_level(id, Level::FIRST).unwrap_err().to_string();
    assert!(error.contains("needs three nodes") && error.contains("there are 2"), "{error}");
    append_turns(&engine, 2..5, 200);
    run_due_jobs(&engine, id);
    assert!(nodes(&engine, id, 2).is_empty(), "no group is full");
    let node = engine.summarize_level(id, Level::FIRST).unwrap();
    assert_eq!((node.level().number(), node.source.turns), (2, 4), "all but the last");
    assert_eq!(node.spec.cause.as_str(), "on request");
    assert_sound(&engine);
}

#[test]
fn a_tree_that_is_turned_off_stays_sound_and_catches_up() {
    let off = small().with(&["enabled=false".parse().unwrap()]).unwrap();
    let (engine, _home) = engine_with_policy(off);
    let id = append_turns(&engine, 0..6, 200);
    run_due_jobs(&engine, id);
    assert!(engine.tree(id).unwrap().nodes.is_empty());
    assert_eq!(engine.raw_history_chars(id).unwrap(), 6 * 200);
    assert_sound(&engine);
    engine.update(id, &Update::default()).unwrap();
    run_due_jobs(&engine, id);
    assert!(engine.tree(id).unwrap().nodes.is_empty(), "an update respects it");
    let full = Update { strategy: UpdateStrategy::Full, ..Update::default() };
    let error = engine.update(id, &full).unwrap_err().to_string();
    assert!(error.contains("turned off") && error.contains("enabled=true"), "{error}");

    engine.store_summary(id, of_turns(0..1, "A caller may still store one.")).unwrap();
    assert_sound(&engine);
    engine.set_state(id, ConversationState::Closed).unwrap();
    run_due_jobs(&engine, id);
    assert_eq!(engine.tree(id).unwrap().nodes.len(), 1);
    assert!(top(&engine, id).is_none(), "no node covers the whole conversation");
    assert_sound(&engine);

    engine.set_policy(id, vec!["enabled=true".parse().unwrap()]).unwrap();
    engine.update(id, &Update::default()).unwrap();
    run_due_jobs(&engine, id);
    assert_eq!(nodes(&engine, id, 1).len(), 6, "one for each turn");
    assert!(!nodes(&engine, id, 2).is_empty(), "groups catch up too");
    assert!(top(&engine, id).is_some(), "and so does the summary of the whole");
    assert_sound(&engine);
}

/// A closed conversation of five turns whose nodes are in no group below the top.
fn closed() -> (Engine, tempfile::TempDir, ConversationId) {
    let (engine, home) = engine_with_policy(policy(&["window_chars=200", "min_flush_chars=0"]));
    let id = append_turns(&engine, 0..5, 200);
    engine.set_state(id, ConversationState::Closed).unwrap();
    run_due_jobs(&engine, id);
    assert_eq!(top(&engine, id).unwrap().level().number(), 2);
    (engine, home, id)
}

fn top(engine: &Engine, id: ConversationId) -> Option<Node> {
    engine.top(&engine.tree(id).unwrap().conversation).unwrap()
}

#[test]
fn the_top_follows_a_stored_summary() {
    let (engine, _home, id) = closed();
    let before = top(&engine, id).unwrap();
    for text in ["My words.", "Other words, before the top was regenerated."] {
        let node = engine.store_summary(id, of_turns(0..1, text)).unwrap();
        assert_sound(&engine);
        assert!(top(&engine, id).unwrap().dirty);
        let [job] = engine.jobs(&JobFilter::of(id)).unwrap().try_into().unwrap();
        let JobKind::Summarize(task) = job.kind else { panic!("not a summary") };
        assert_eq!(task.covers.nodes()[0], node.id);
    }
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    let after = top(&engine, id).unwrap();
    assert!(!after.dirty && after.id != before.id);
}

#[test]
fn the_top_makes_room_for_a_group_on_request() {
    for stored in [true, false] {
        let (engine, _home, id) = closed();
        let level_1 = nodes(&engine, id, 1);
        let group = if stored {
            let children: Vec<&Node> = level_1[..4].iter().collect();
            engine.store_summary(id, of_nodes(&children, "The first four.")).unwrap()
        } else {
            engine.summarize_level(id, Level::FIRST).unwrap()
        };
        assert_sound(&engine);
        run_due_jobs(&engine, id);
        assert_sound(&engine);
        let top = top(&engine, id).unwrap();
        let roots = [group.id.clone(), level_1[4].id.clone()];
        assert_eq!((top.level().number(), top.spec.covers.nodes()), (3, roots.as_slice()));
        assert_eq!(nodes(&engine, id, 1)[0].parent, Some(group.ordinal()));
    }
}

#[test]
fn a_tree_that_is_turned_off_keeps_its_top_and_gets_no_new_one() {
    let off = vec!["enabled=false".parse().unwrap()];
    let (engine, _home, id) = closed();
    engine.set_policy(id, off).unwrap();
    engine.store_summary(id, of_turns(0..1, "My words.")).unwrap();
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    assert!(!top(&engine, id).unwrap().dirty, "it is rewritten");
    engine.set_state(id, ConversationState::Open).unwrap();
    engine.set_state(id, ConversationState::Closed).unwrap();
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    assert!(top(&engine, id).is_none());
}

#[test]
fn a_tree_that_is_turned_on_again_catches_up_with_the_next_message() {
    let (engine, _home) = engine_with_policy(small());
    let id = append_turns(&engine, 0..2, 200);
    run_due_jobs(&engine, id);
    engine.set_policy(id, vec!["enabled=false".parse().unwrap()]).unwrap();
    append_turns(&engine, 2..5, 200);
    run_due_jobs(&engine, id);
    assert_eq!(nodes(&engine, id, 1).len(), 2);
    engine.set_policy(id, Vec::new()).unwrap();
    append_turns(&engine, 5..6, 200);
    run_due_jobs(&engine, id);
    assert_eq!(nodes(&engine, id, 1).len(), 6);
    assert_sound(&engine);
}

#[test]
fn parameters_of_windows_are_refused_above_level_one() {
    let (engine, _home) = engine_with_policy(small());
    let id = append_turns(&engine, 0..6, 200);
    for (strategy, parameter) in [
        (UpdateStrategy::Incremental, "window_chars=400"),
        (UpdateStrategy::Full, "flush_after=1 min"),
        (UpdateStrategy::Full, "length@1=0.3"),
    ] {
        let policy = vec![parameter.parse().unwrap()];
        let update = Update { strategy, level: Level::new(2), policy, ..Update::default() };
        for error in
            [engine.update(id, &update).unwrap_err(), engine.estimate(id, &update).unwrap_err()]
        {
            let error = error.to_string();
            assert!(error.contains("level 1") && error.contains("level 2"), "{error}");
        }
    }
    let policy = vec!["group_children=2".parse().unwrap()];
    engine.update(id, &Update { level: Level::new(2), policy, ..Update::default() }).unwrap();
}

//! Project trees: the nodes that cover the sessions of a project.

use std::collections::BTreeSet;

use proptest::prelude::*;
use treering_core::ports::ConversationFilter;
use treering_core::{
    ConversationId, ConversationKind, ConversationState, ForgetTarget, ItemSelection, MessageIdx,
    Node, Policy, TenantId,
};
use treering_engine::{Amendment, Engine, Forget, JobScope, Update, UpdateStrategy, Worker};

use super::{engine_with, request, session, turns};
use crate::common::assert_sound;

const SHOP: &str = "/srv/shop";

/// A policy whose groups of sessions are small.
fn small_groups() -> Policy {
    let mut policy = Policy::default();
    policy.groups[0].group_chars = Some(300);
    policy
}

fn run_all(engine: &Engine) {
    Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
}

fn owner(engine: &Engine) -> ConversationId {
    let id = ConversationKind::Project.id(&TenantId::default(), Some(SHOP)).unwrap();
    assert!(engine.find(&id.to_string()).is_ok(), "the project has a tree");
    id
}

fn nodes(engine: &Engine) -> Vec<Node> {
    engine.tree(owner(engine)).unwrap().nodes
}

/// The sessions that the nodes of the lowest level cover, in order.
fn covered(nodes: &[Node]) -> Vec<ConversationId> {
    let mut lowest: Vec<&Node> =
        nodes.iter().filter(|node| !node.spec.covers.sessions().is_empty()).collect();
    lowest.sort_by_key(|node| node.range_end);
    let sessions = lowest.iter().flat_map(|node| node.spec.covers.sessions());
    sessions.map(|it| it.conversation).collect()
}

/// The identity of every node: level, id and parent.
fn shape(nodes: &[Node]) -> BTreeSet<(u8, String, Option<u32>)> {
    let shape = |it: &Node| (it.level().number(), it.id.to_string(), it.parent);
    nodes.iter().map(shape).collect()
}

fn sessions(engine: &Engine, number: u32) -> Vec<ConversationId> {
    (0..number).map(|at| session(engine, at, SHOP, &turns(at, 6))).collect()
}

#[test]
fn a_project_tree_covers_the_sessions_in_time_order() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(folder.path(), small_groups());
    let ids = sessions(&engine, 40);
    session(&engine, 50, "/srv/other", &turns(50, 6));
    run_all(&engine);
    let tree = nodes(&engine);
    let covered = covered(&tree);
    assert_eq!(covered, ids[..covered.len()], "every session once, the latest stay ungrouped");
    assert!((30..40).contains(&covered.len()), "{}", covered.len());
    assert!(tree.iter().any(|node| node.level().number() == 3), "groups of groups");
    assert!(tree.iter().all(|node| node.source.messages >= 24));
    let all = engine.listed_conversations(&ConversationFilter::all(100)).unwrap();
    assert_eq!(all.len(), 41, "the owner of the tree is no session");
    assert_sound(&engine);
}

#[test]
fn a_context_over_many_sessions_covers_the_oldest() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(folder.path(), Policy::default());
    let oldest = session(&engine, 0, SHOP, &turns(0, 2));
    for number in 1..300 {
        session(&engine, number, SHOP, &turns(number, 2));
    }
    run_all(&engine);
    for budget in [1500, 8000] {
        let context = engine.scope_context(&request(Some(SHOP), budget, None)).unwrap();
        let (markdown, receipt) = (context.markdown(), context.receipt());
        assert!(receipt.tokens <= budget);
        // A small budget has no room for every period between the oldest and the latest sessions.
        let has_all = receipt.sessions.iter().all(|it| it.omitted == 0);
        assert!(has_all || budget == 1500, "{:#?}", receipt.sessions);
        let which = if has_all { "earlier" } else { "latest" };
        let opening = format!("Record of the {which} conversations");
        assert!(markdown.starts_with(&opening), "{markdown}");
        let messages: u32 = receipt.sessions.iter().map(|it| it.messages).sum();
        assert_eq!(messages, 1200, "every message once");
        assert!(markdown.contains("Service 299-1"), "{markdown}");
        let first = receipt.items.iter().find(|item| item.node.is_some()).unwrap();
        assert_eq!(first.conversation.as_deref(), Some("project-shop"));
        let (project, node) = engine.find_node(first.node.as_deref().unwrap()).unwrap();
        let mut below = vec![node];
        while below[0].spec.covers.sessions().is_empty() {
            below = engine.children(project.id, &below[0]).unwrap();
        }
        assert_eq!(below[0].spec.covers.sessions()[0].conversation, oldest);
    }
}

#[test]
fn a_session_that_goes_on_or_is_left_out_is_not_told_twice() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(folder.path(), small_groups());
    let ids = sessions(&engine, 40);
    run_all(&engine);
    let mut asked = request(Some(SHOP), 1200, None);
    let messages = |engine: &Engine, asked: &_| -> u32 {
        let context = engine.scope_context(asked).unwrap();
        context.receipt().sessions.iter().map(|it| it.messages).sum()
    };
    assert_eq!(messages(&engine, &asked), 480);
    // Session 3 goes on after all others, before the tree is planned again.
    let more = [super::turns(3, 1), super::turns(99, 1)].concat();
    let grown = engine.find("session-3").unwrap();
    super::append(&engine, grown.external_id.unwrap(), 80, &more);
    assert_eq!(messages(&engine, &asked), 484);
    asked.scope.exclude = vec![ids[7], ids[39]];
    let context = engine.scope_context(&asked).unwrap();
    assert_eq!(messages(&engine, &asked), 460);
    assert!(!context.markdown().contains("Service 7-"), "{}", context.markdown());
    run_all(&engine);
    assert_eq!(messages(&engine, &asked), 460);
    assert_eq!(covered(&nodes(&engine)).iter().filter(|id| **id == ids[3]).count(), 0);
    assert_sound(&engine);
}

#[test]
fn forgetting_a_message_rewrites_the_nodes_of_the_project() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(folder.path(), small_groups());
    let secret = (
        "Where does service 0 run?".to_owned(),
        "Decision: service 0 moves to the Quillfish cluster.".to_owned(),
    );
    session(&engine, 0, SHOP, &[vec![secret], turns(0, 1)].concat());
    for number in 1..40 {
        session(&engine, number, SHOP, &turns(number, 6));
    }
    run_all(&engine);
    let before = nodes(&engine);
    assert!(has_text(&before, "Quillfish"), "the fact reaches the project");
    let id = engine.find("session-0").unwrap().id;
    let selection = ItemSelection::Range(MessageIdx(0), MessageIdx(1));
    let report = engine.forget(&Forget::new(ForgetTarget::Items(id, selection))).unwrap();
    let after = nodes(&engine);
    assert!(!has_text(&after, "Quillfish"));
    let project = report.record.conversations.iter().find(|it| it.id == owner(&engine).to_string());
    assert!(!project.unwrap().rewritten.is_empty(), "the report names the nodes");
    assert_eq!(covered(&before).len(), covered(&after).len());
    assert!(report.new_ids.iter().all(Option::is_some), "{:?}", report.new_ids);
    assert_sound(&engine);

    engine.forget(&Forget::new(ForgetTarget::Conversation(id))).unwrap();
    run_all(&engine);
    assert!(!covered(&nodes(&engine)).contains(&id));
    assert_sound(&engine);
}

#[test]
fn edits_and_corrections_reach_the_project() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(folder.path(), small_groups());
    let ids = sessions(&engine, 40);
    run_all(&engine);
    let before = shape(&nodes(&engine));
    let text = "Service 2-0 moved to the Quillfish cluster.".to_owned();
    let edit = Amendment::Edit { text, regenerate: Some(true) };
    engine.amend(ids[2], MessageIdx(1), edit).unwrap();
    run_all(&engine);
    let edited = nodes(&engine);
    assert_ne!(shape(&edited), before);
    assert!(has_text(&edited, "Quillfish"));
    engine.amend(ids[2], MessageIdx(1), Amendment::Correct { text: None }).unwrap();
    assert!(!has_text(&nodes(&engine), "Quillfish"), "at once");
    run_all(&engine);
    assert!(!has_text(&nodes(&engine), "Quillfish"));
    assert_eq!(covered(&nodes(&engine)).len(), covered(&edited).len());
    assert_sound(&engine);
}

fn has_text(nodes: &[Node], text: &str) -> bool {
    nodes.iter().any(|node| format!("{:?}", node.content).contains(text))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// The tree depends on the sessions only, not on the order in which they came, on when the
    /// jobs ran, nor on how often the tree was planned.
    #[test]
    fn the_same_sessions_give_the_same_tree(
        order in Just((0_u32..14).collect::<Vec<_>>()).prop_shuffle(),
        pauses in prop::collection::vec(any::<bool>(), 14),
        open in prop::collection::vec(any::<bool>(), 14),
    ) {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let engines = folders.each_ref().map(|it| engine_with(it.path(), small_groups()));
        let in_order: Vec<u32> = (0..14).collect();
        for (engine, order) in engines.iter().zip([&order, &in_order]) {
            for number in order {
                let id = session(engine, *number, SHOP, &turns(*number, 2 + number % 5));
                if open[*number as usize] {
                    engine.set_state(id, ConversationState::Open).unwrap();
                }
                if pauses[*number as usize] {
                    run_all(engine);
                }
            }
            // A new session brings in the open ones.
            session(engine, 14, SHOP, &turns(14, 2));
            run_all(engine);
        }
        let [one, other] = engines.each_ref().map(|engine| {
            nodes(engine).iter().map(|it| it.id.to_string()).collect::<BTreeSet<_>>()
        });
        prop_assert_eq!(&one, &other);
        let full = Update { strategy: UpdateStrategy::Full, ..Update::default() };
        engines[0].update(owner(&engines[0]), &full).unwrap();
        run_all(&engines[0]);
        let rebuilt: BTreeSet<String> =
            nodes(&engines[0]).iter().map(|it| it.id.to_string()).collect();
        prop_assert_eq!(one, rebuilt);
        prop_assert!(engines[0].verify(|_| ()).unwrap().is_clean());
    }
}

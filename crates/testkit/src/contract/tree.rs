//! The store contract for the nodes of a tree.

#![allow(clippy::unwrap_used, missing_docs)]

use treering_core::grouping::GroupReason;
use treering_core::ports::{JobFilter, LevelTotals, NodeFilter, NodeVersion, Span};
use treering_core::windowing::SealReason;
use treering_core::{
    ContentHash, Coverage, Level, MessageIdx, Node, NodeContent, NodeId, NodeSpec, Provenance,
    RankedLine, SealCause, SourceTotals, Store, Strategy, SummaryLength, SummaryStyle,
    TextPosition, ThreadName, ToolUse, Window, Write, prompt,
};

use crate::contract::jobs::{add_jobs, heights, job};
use crate::contract::{at, commit, key, put, reader};

/// Expands to one test per rule about the tree; part of
/// [`store_contract!`](crate::store_contract).
#[macro_export]
macro_rules! tree_contract {
    ($new_store:expr) => {
        $crate::store_contract!(
            $new_store,
            tree,
            a_node_comes_back_as_it_was_put,
            a_node_replaces_the_one_at_its_place,
            nodes_come_in_order_and_by_filter,
            a_node_is_superseded_once_its_group_has_a_node,
            the_top_supersedes_the_roots,
            parents_and_dirt_reach_exactly_the_nodes_named,
            a_version_changes_when_its_node_is_written_again,
            dropping_a_tree_removes_its_level_and_above,
            dropping_the_whole_tree_keeps_the_jobs_of_turns,
            nodes_are_found_by_how_their_ids_begin,
            levels_are_added_up,
        );
        $crate::store_contract!(
            $new_store,
            jobs,
            a_job_comes_back_as_it_was_added,
            lines_about_no_conversation_are_kept_by_tenant,
            a_commit_may_be_of_two_conversations,
            a_job_is_added_once,
            a_job_that_is_gone_stays_gone,
            replacing_a_job_replaces_its_work,
            jobs_come_lower_levels_first_then_as_planned,
            jobs_at_one_place_with_different_styles_are_distinct,
            a_job_is_due_when_its_moment_has_come,
            lower_levels_are_due_first,
            a_job_given_up_holds_nothing_back,
            jobs_are_found_by_their_first_digits,
            the_newest_lines_of_the_log_come_oldest_first,
            the_log_is_read_by_conversation_and_job,
            trees_of_tenants_are_apart,
            a_tree_without_a_conversation_is_refused_whole,
            a_batch_has_turns_or_else_others,
            no_job_is_leased_twice,
            tenants_with_due_jobs_come_in_turn,
        );
    };
}

pub(crate) fn level(number: u8) -> Level {
    Level::new(number).unwrap()
}

pub(crate) fn id(level: Level, ordinal: u32) -> NodeId {
    let covered = ContentHash::of_fields(&[&[level.number()], &ordinal.to_le_bytes()]);
    NodeId::new(level, covered, at(i64::from(ordinal)))
}

/// A node specification that covers a slice of a side thread's messages, or nodes below.
pub(crate) fn task(number: u8, ordinal: u32) -> NodeSpec {
    let level = level(number);
    let (covers, cause, strategy, length) = match level.below() {
        None => {
            let thread = ThreadName::new("idea: 2").unwrap();
            let from = TextPosition { idx: MessageIdx(3 * ordinal), offset: 4000 };
            let until = TextPosition { idx: MessageIdx(3 * ordinal + 2), offset: 17 };
            let covers = Coverage::Messages(Window { thread, from, until });
            (
                covers,
                SealCause::Window(SealReason::Oversized),
                Strategy::Detailed,
                SummaryLength::Keep(0.3),
            )
        }
        Some(below) => {
            let covers = Coverage::Nodes(vec![id(below, 2 * ordinal), id(below, 2 * ordinal + 1)]);
            let cause = SealCause::Group(GroupReason::NextDoesNotFit);
            (covers, cause, Strategy::Thematic, SummaryLength::Sentences(3, 4))
        }
    };
    let style = SummaryStyle {
        strategy,
        length,
        deduplicate: true,
        overlap_chars: 200,
        prompt: prompt::version(strategy),
    };
    let overrides = vec!["group_chars=4000".parse().unwrap()];
    NodeSpec {
        level,
        ordinal,
        covers,
        style,
        cause,
        sealed_by: Some(MessageIdx(ordinal)),
        turns: level.below().is_none().then_some(2),
        overrides,
        replaces: None,
    }
}

fn content() -> NodeContent {
    let list = |label: &str| vec![format!("{label} one"), format!("{label} 'two' 🌊\n\0")];
    NodeContent {
        overview: "## Tides\n- the berth is 7 m deep; \u{202e}漢".into(),
        files_mentioned: list("file"),
        key_findings: list("finding"),
        decisions: list("decision"),
        action_items: list("item"),
        unresolved: list("question"),
        tools_used: vec![ToolUse { name: "shell".into(), succeeded: 3, failed: 2, unknown: 1 }],
        topics: list("topic"),
        entities: list("name"),
        identifiers: list("identifier"),
        urls: list("address"),
        dates: list("date"),
        numbers: list("number"),
        tags: list("tag"),
        ranking: vec![RankedLine { line: 1, worth: 150, day: Some("8 May 2023".into()) }],
    }
}

/// A node with a value in every field.
pub fn node(number: u8, ordinal: u32) -> Node {
    const LARGE: u64 = u32::MAX as u64;
    let task = task(number, ordinal);
    Node {
        id: id(task.level, ordinal),
        spec: task,
        parent: None,
        superseded: false,
        dirty: false,
        content: content(),
        range_start: at(-60),
        range_end: at(i64::from(ordinal)),
        source: SourceTotals {
            from: 1,
            until: 9,
            messages: 8,
            turns: 4,
            raw_chars: LARGE + 1,
            raw_tokens: LARGE + 2,
            chars: LARGE + 3,
        },
        provenance: Provenance {
            by: "extractive".into(),
            at: at(3600).plus_micros(1),
            took_ms: LARGE + 4,
        },
        chars: 40,
        tokens: 11,
        grounded: 0.9,
        retained: 1.0 / 3.0,
        invented: vec!["Paris".into(), "1987 'x' 🌊".into()],
    }
}

/// Stores conversation `number` with these nodes, each given as level, ordinal and parent.
pub(crate) fn put_nodes(store: &dyn Store, number: u8, nodes: &[(u8, u32, Option<u32>)]) {
    put(store, number);
    let put = |(level, ordinal, parent): &(u8, u32, Option<u32>)| {
        put_node(number, Node { parent: *parent, ..node(*level, *ordinal) })
    };
    commit(store, nodes.iter().map(put).collect()).unwrap();
}

pub(crate) fn put_node(number: u8, node: Node) -> Write {
    Write::PutNode(key(number).id, Box::new(node))
}

pub(crate) fn nodes(store: &dyn Store, number: u8, filter: &NodeFilter) -> Vec<Node> {
    reader(store).nodes(key(number).id, filter).unwrap()
}

/// The node versions of a conversation, after checking that they match the nodes.
fn versions_of(store: &dyn Store, number: u8, nodes: &[Node]) -> Vec<NodeVersion> {
    let versions = reader(store).node_versions(key(number).id, &NodeFilter::default()).unwrap();
    let key = |version: &NodeVersion| (version.level, version.ordinal);
    assert_eq!(
        versions.iter().map(key).collect::<Vec<_>>(),
        nodes.iter().map(|node| (node.level(), node.ordinal())).collect::<Vec<_>>()
    );
    assert!(
        versions.iter().zip(nodes).all(|(version, node)| version.matches(node)),
        "{versions:?}"
    );
    versions
}

pub fn a_version_changes_when_its_node_is_written_again(store: &dyn Store) {
    put_nodes(store, 1, &[(1, 0, None), (1, 1, Some(0)), (2, 0, None)]);
    put_nodes(store, 2, &[(1, 0, None)]);
    let all = || nodes(store, 1, &NodeFilter::default());
    let before = versions_of(store, 1, &all());
    assert!(before[1].superseded && !before[0].superseded);
    let ungrouped = NodeFilter::ungrouped(level(1));
    assert_eq!(reader(store).node_versions(key(1).id, &ungrouped).unwrap(), before[..1]);

    commit(store, vec![put_node(1, node(1, 0)), Write::MarkDirty(key(1).id, level(2), vec![0])])
        .unwrap();
    let after = versions_of(store, 1, &all());
    assert!(
        after[0].seq > before.iter().map(|version| version.seq).max().unwrap(),
        "a regenerated node gets a new sequence number"
    );
    assert_eq!(after[1], before[1]);
    assert_eq!(after[2], NodeVersion { dirty: true, ..before[2] });

    // A sequence number is never reused, even if its node was deleted.
    let highest = after.iter().map(|version| version.seq).max().unwrap();
    commit(store, vec![Write::DropTree(key(1).id, level(1)), put_node(1, node(1, 7))]).unwrap();
    assert!(versions_of(store, 1, &all())[0].seq > highest);
    assert_eq!(reader(store).node_versions(key(9).id, &NodeFilter::default()).unwrap(), []);
}

/// Level and ordinal of each node of a conversation.
fn positions(store: &dyn Store, number: u8, filter: &NodeFilter) -> Vec<(u8, u32)> {
    let found = nodes(store, number, filter);
    found.iter().map(|node| (node.level().number(), node.ordinal())).collect()
}

pub fn a_node_comes_back_as_it_was_put(store: &dyn Store) {
    put(store, 1);
    let window = Node { dirty: true, ..node(1, 0) };
    let group = Node { parent: Some(7), ..node(2, 0) };
    let all = [window, group];
    commit(store, all.iter().map(|node| put_node(1, node.clone())).collect()).unwrap();
    assert_eq!(nodes(store, 1, &NodeFilter::default()), all);
}

pub fn a_node_replaces_the_one_at_its_place(store: &dyn Store) {
    put_nodes(store, 1, &[(1, 0, Some(0)), (1, 1, None), (2, 0, None)]);
    let mut other = Node { tokens: 99, dirty: true, grounded: 0.5, ..node(1, 1) };
    other.id = NodeId::from_stored("l1-otherwise-20260302".into());
    other.spec.style.length = SummaryLength::Keep(0.8);
    other.content = NodeContent { overview: "Otherwise.".into(), ..NodeContent::default() };
    other.provenance.by = "somebody else".into();
    commit(store, vec![put_node(1, other.clone())]).unwrap();
    let all = nodes(store, 1, &NodeFilter::default());
    assert_eq!(all.len(), 3);
    assert_eq!(all[1], other);
    assert_eq!((&all[0].id, &all[2]), (&node(1, 0).id, &node(2, 0)), "other nodes are unchanged");
}

pub fn nodes_come_in_order_and_by_filter(store: &dyn Store) {
    put_nodes(
        store,
        1,
        &[(2, 1, None), (1, 2, Some(1)), (2, 0, Some(1)), (1, 10, None), (1, 0, Some(0))],
    );
    put_nodes(store, 2, &[(1, 0, None)]);
    commit(store, vec![Write::MarkDirty(key(1).id, level(2), vec![1])]).unwrap();
    let check = |filter: NodeFilter, expected: &[(u8, u32)]| {
        assert_eq!(positions(store, 1, &filter), expected, "{filter:?}");
    };
    check(NodeFilter::default(), &[(1, 0), (1, 2), (1, 10), (2, 0), (2, 1)]);
    check(NodeFilter::at(level(1)), &[(1, 0), (1, 2), (1, 10)]);
    check(NodeFilter::at(level(3)), &[]);
    check(NodeFilter::ungrouped(level(1)), &[(1, 10)]);
    check(NodeFilter { parent: Some(None), ..NodeFilter::default() }, &[(1, 10), (2, 1)]);
    check(NodeFilter { parent: Some(Some(1)), ..NodeFilter::default() }, &[(1, 2), (2, 0)]);
    check(NodeFilter { parent: Some(Some(1)), ..NodeFilter::at(level(2)) }, &[(2, 0)]);
    check(NodeFilter { id: Some(id(level(2), 0)), ..NodeFilter::default() }, &[(2, 0)]);
    check(NodeFilter { id: Some(id(level(2), 9)), ..NodeFilter::default() }, &[]);
    check(NodeFilter { dirty: true, ..NodeFilter::default() }, &[(2, 1)]);
    let numbered = |span| NodeFilter { ordinals: Some(span), ..NodeFilter::at(level(1)) };
    check(numbered(Span::between(0, 10)), &[(1, 0), (1, 2)]);
    check(numbered(Span::starting(1, 1)), &[(1, 2)]);
    check(numbered(Span::starting(3, 9)), &[(1, 10)]);
    assert_eq!(positions(store, 2, &NodeFilter::default()), [(1, 0)]);
    assert_eq!(positions(store, 3, &NodeFilter::default()), []);
}

pub fn a_node_is_superseded_once_its_group_has_a_node(store: &dyn Store) {
    put_nodes(store, 1, &[(1, 0, Some(0)), (1, 1, Some(1)), (1, 2, None)]);
    // A group with the same ordinal in another conversation or at another level covers nothing
    // here.
    put_nodes(store, 2, &[(2, 0, None), (2, 1, None)]);
    commit(store, vec![put_node(1, node(3, 0))]).unwrap();
    let superseded = || -> Vec<bool> {
        nodes(store, 1, &NodeFilter::at(level(1))).iter().map(|node| node.superseded).collect()
    };
    assert_eq!(superseded(), [false, false, false]);
    // The store ignores the node's own flag; only a node of its group supersedes it.
    commit(store, vec![put_node(1, Node { superseded: true, ..node(2, 0) })]).unwrap();
    assert_eq!(superseded(), [true, false, false]);
    assert!(!nodes(store, 1, &NodeFilter::at(level(2)))[0].superseded);
}

/// A summary of a whole conversation.
fn top(number: u8) -> Node {
    let mut top = node(number, 0);
    top.spec.ordinal = NodeSpec::TOP_ORDINAL;
    top.spec.covers = Coverage::Whole(vec![id(level(1), 2), id(level(2), 0)]);
    top.spec.cause = SealCause::Closed;
    top.spec.style.length = SummaryLength::Tokens(200, 400);
    top
}

pub fn the_top_supersedes_the_roots(store: &dyn Store) {
    for number in [1, 2] {
        let two = [(1, 0, Some(0)), (1, 1, Some(0)), (1, 2, None), (1, 3, Some(1)), (2, 0, None)];
        put_nodes(store, number, &two);
    }
    let superseded = |number: u8| -> Vec<bool> {
        let all = nodes(store, number, &NodeFilter::default());
        versions_of(store, number, &all);
        all.iter().map(|node| node.superseded).collect()
    };
    let before = superseded(1);
    assert_eq!(before, [true, true, false, false, false]);
    commit(store, vec![put_node(1, top(3))]).unwrap();
    assert_eq!(nodes(store, 1, &NodeFilter::at(level(3))), [top(3)]);
    // The group of the fourth node has none yet, so no node covers that one.
    assert_eq!(superseded(1), [true, true, true, false, true, false]);
    assert_eq!(superseded(2), before, "another conversation");
    let totals = reader(store).level_totals(Some(key(1).id)).unwrap();
    let uncovered: Vec<u32> = totals.iter().map(|level| level.uncovered).collect();
    assert_eq!(uncovered, [1, 0, 1]);
    let Node { tokens, source, chars, .. } = top(3);
    let source_tokens = u64::from(tokens) * source.chars / u64::from(chars);
    assert_eq!(totals[2].source_tokens, source_tokens, "in proportion to its characters");
    commit(store, vec![Write::DropTree(key(1).id, level(3))]).unwrap();
    assert_eq!(superseded(1), before);
    assert_eq!(nodes(store, 1, &NodeFilter::default()), nodes(store, 2, &NodeFilter::default()));
}

pub fn parents_and_dirt_reach_exactly_the_nodes_named(store: &dyn Store) {
    let four = [(1, 0, None), (1, 1, Some(5)), (1, 2, Some(5)), (2, 1, None)];
    put_nodes(store, 1, &four);
    put_nodes(store, 2, &four);
    let of = key(1).id;
    // Unknown ordinals are ignored.
    let writes = vec![
        Write::SetParent(of, level(1), vec![0, 1, 77], Some(3)),
        Write::SetParent(of, level(1), vec![2], None),
        Write::MarkDirty(of, level(1), vec![1, 77]),
        Write::MarkDirty(of, level(2), vec![]),
    ];
    commit(store, writes).unwrap();
    let state = |number: u8| -> Vec<(Option<u32>, bool)> {
        let all = nodes(store, number, &NodeFilter::default());
        versions_of(store, number, &all);
        all.iter().map(|node| (node.parent, node.dirty)).collect()
    };
    assert_eq!(state(1), [(Some(3), false), (Some(3), true), (None, false), (None, false)]);
    assert_eq!(state(2), [(None, false), (Some(5), false), (Some(5), false), (None, false)]);
}

/// Two conversations, each with a tree of three levels and a job at every height.
fn two_trees(store: &dyn Store) {
    for number in [1, 2] {
        put_nodes(
            store,
            number,
            &[(1, 0, Some(0)), (1, 1, Some(0)), (2, 0, Some(0)), (3, 0, None)],
        );
        add_jobs(store, &[0, 1, 2, 3].map(|height| job(number, height, 9)));
    }
}

pub fn dropping_a_tree_removes_its_level_and_above(store: &dyn Store) {
    two_trees(store);
    let others = nodes(store, 2, &NodeFilter::default());
    commit(store, vec![Write::DropTree(key(1).id, level(2))]).unwrap();
    assert_eq!(nodes(store, 1, &NodeFilter::default()), [node(1, 0), node(1, 1)], "ungrouped");
    assert_eq!(heights(store, &JobFilter::of(key(1).id)), [(1, 0), (1, 1)]);
    assert_eq!(nodes(store, 2, &NodeFilter::default()), others);
    assert_eq!(heights(store, &JobFilter::of(key(2).id)), [(2, 0), (2, 1), (2, 2), (2, 3)]);
    // Only the level directly below had a parent in the dropped tree.
    commit(store, vec![Write::DropTree(key(2).id, level(3))]).unwrap();
    let parents: Vec<_> =
        nodes(store, 2, &NodeFilter::default()).iter().map(|node| node.parent).collect();
    assert_eq!(parents, [Some(0), Some(0), None]);
}

pub fn dropping_the_whole_tree_keeps_the_jobs_of_turns(store: &dyn Store) {
    two_trees(store);
    commit(store, vec![Write::DropTree(key(1).id, level(1))]).unwrap();
    assert_eq!(nodes(store, 1, &NodeFilter::default()), []);
    assert_eq!(heights(store, &JobFilter::of(key(1).id)), [(1, 0)]);
    assert_eq!(nodes(store, 2, &NodeFilter::default()).len(), 4);
}

pub fn nodes_are_found_by_how_their_ids_begin(store: &dyn Store) {
    put(store, 1);
    put(store, 2);
    let node_with_id = |ordinal: u32, name: &str| Node {
        id: NodeId::from_stored(name.into()),
        ..node(1, ordinal)
    };
    let names =
        [(1, 0, "l1-ab12-20260302"), (1, 1, "l1-ab99-20260302"), (2, 0, "l1-ab12-20260302")];
    commit(
        store,
        names.map(|(number, ordinal, name)| put_node(number, node_with_id(ordinal, name))).to_vec(),
    )
    .unwrap();
    let find = |prefix: &str, limit: usize| -> Vec<(u8, String)> {
        let reader = reader(store);
        let mut found = reader.nodes_by_id_prefix(prefix, limit).unwrap();
        found.sort();
        found
            .iter()
            .map(|(conversation, id)| (conversation.as_bytes()[0], id.to_string()))
            .collect()
    };
    assert_eq!(find("l1-ab9", 9), [(1, "l1-ab99-20260302".to_owned())]);
    assert_eq!(find("l1-ab12-20260302", 9).iter().map(|found| found.0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(find("l1-a", 9).len(), 3);
    assert_eq!(find("l1-a", 2).len(), 2);
    for nothing in ["l2", "l1-ab12-20260302-", "L1", "l1-%", "l_-ab", "ab12"] {
        assert_eq!(find(nothing, 9), [], "{nothing}");
    }
}

pub fn levels_are_added_up(store: &dyn Store) {
    let sized = |number: u8, ordinal: u32, parent: Option<u32>, weight: u32| {
        let mut node = Node { parent, chars: weight, tokens: 2 * weight, ..node(number, ordinal) };
        node.source.chars = u64::from(weight) * 10;
        node.source.raw_tokens = u64::from(weight) * 20;
        node.provenance.took_ms = u64::from(weight) * 3;
        (node.grounded, node.retained) = (0.5, 0.25);
        node
    };
    put_nodes(store, 2, &[]);
    put_nodes(store, 1, &[]);
    let writes = vec![
        put_node(1, Node { dirty: true, ..sized(1, 0, Some(0), 1) }),
        put_node(1, {
            let mut node = sized(1, 1, Some(1), 4);
            node.provenance.by = Provenance::fallback_label("extractive", "a/b");
            node
        }),
        put_node(1, sized(2, 0, None, 16)),
        put_node(2, sized(1, 0, None, 64)),
    ];
    commit(store, writes).unwrap();
    let first = LevelTotals {
        level: 1,
        nodes: 2,
        dirty: 1,
        fallbacks: 1,
        uncovered: 1, // The second node's group has no node yet.
        chars: 5,
        tokens: 10,
        source_chars: 50,
        source_tokens: 100,
        raw_tokens: 100,
        uncovered_raw_tokens: 80,
        uncovered_tokens: 8,
        took_ms: 15,
        slowest_ms: 12,
        grounded: 1.0,
        retained: 0.5,
    };
    let second = LevelTotals {
        level: 2,
        nodes: 1,
        dirty: 0,
        fallbacks: 0,
        uncovered: 1,
        chars: 16,
        tokens: 32,
        source_chars: 160,
        source_tokens: 2, // The only child is the first node.
        raw_tokens: 320,
        uncovered_raw_tokens: 320,
        uncovered_tokens: 32,
        took_ms: 48,
        slowest_ms: 48,
        grounded: 0.5,
        retained: 0.25,
    };
    let reader = reader(store);
    let totals = |of| reader.level_totals(of).unwrap();
    assert_eq!(totals(Some(key(1).id)), [first, second]);
    assert_eq!(totals(Some(key(3).id)), []);
    let all = totals(None);
    assert_eq!((all[0].nodes, all[0].chars, all[0].slowest_ms, all[0].uncovered), (3, 69, 192, 2));
    assert_eq!(all[1..], [second]);
}

//! The tree on a real store: it is consistent after any input, does not depend on how it was
//! built, and survives every failure of a worker.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{
    assert_sound, commit, engine_with_defaults, engine_with_policy, open, open_with, run_due_jobs,
    start,
};
use proptest::prelude::*;
use treering_core::ports::{JobEventFilter, JobFilter};
use treering_core::{
    ConversationId, ConversationState, Entry, Job, JobEvent, JobEventKind, JobKind, JobState,
    Level, NewMessage, Node, NodeContent, Policy, ProviderError, RetryAdvice, Role, Summarizer,
    SummaryRequest, ThreadName, Timestamp, TurnNo, Write,
};
use treering_engine::{
    AppendTarget, Engine, EntryBatch, JobOutcome, JobScope, NewConversation, ReplayDetection,
    Update, UpdateStrategy, Worker,
};
use treering_stores::EmbeddedStore;
use treering_testkit::generate::{conversation, external_id};
use treering_testkit::{BagOfWordsEmbedder, FakeClock, PrefixSummarizer};

fn target() -> AppendTarget {
    AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(external_id("tree")),
        ..Default::default()
    })
}

fn append(engine: &Engine, entries: Vec<Entry>) -> ConversationId {
    let incoming =
        EntryBatch { target: target(), entries, replay_detection: ReplayDetection::None };
    engine.append(incoming).unwrap().conversation.id
}

/// Turns of `chars` characters each, half question and half answer.
fn append_turns(engine: &Engine, turns: std::ops::Range<u32>, chars: usize) -> ConversationId {
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

/// A policy with small windows and groups of two.
fn small() -> Policy {
    let assignments =
        ["window_chars=200", "min_flush_chars=0", "group_children=2", "group_chars=off"];
    Policy::default().with(&assignments.map(|text| text.parse().unwrap())).unwrap()
}

/// The properties of nodes that must be the same after a rebuild.
fn describe_nodes(engine: &Engine, id: ConversationId) -> Vec<String> {
    let essence = |node: &Node| {
        let Node { id, spec: task, parent, content, range_start, range_end, source, .. } = node;
        format!("{id} {task:?} {parent:?} {content:?} {range_start:?} {range_end:?} {source:?}")
    };
    engine.tree(id).unwrap().nodes.iter().map(essence).collect()
}

fn presets() -> impl Strategy<Value = Policy> {
    let preset = prop::sample::select(treering_core::Preset::ALL.to_vec());
    (preset, 200_u32..1500, 0_u32..150, 2_u32..4).prop_map(
        |(preset, chars, min_flush_chars, children)| {
            let mut policy = Policy::from(preset);
            if policy.window.window_chars.is_some() {
                policy.window.window_chars = Some(chars);
                policy.window.min_flush_chars = min_flush_chars;
            }
            policy.window.chars = policy.window.chars.map(|_| chars);
            policy.groups[0].children = Some(children);
            policy
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_tree_is_consistent_and_independent_of_how_it_was_built(
        events in conversation(60),
        policy in presets(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        close in any::<bool>(),
    ) {
        let ((complete, _w), (parts, folder)) = (engine_with_policy(policy.clone()), engine_with_policy(policy));
        let id = append(&complete, events.clone());
        let mut cut_points: Vec<usize> = cuts.iter().map(|cut| cut.index(events.len() + 1)).collect();
        cut_points.extend([0, events.len()]);
        cut_points.sort_unstable();
        for pair in cut_points.windows(2) {
            append(&parts, events[pair[0]..pair[1]].to_vec());
            run_due_jobs(&parts, id);
        }
        if close {
            complete.set_state(id, ConversationState::Closed).unwrap();
            parts.set_state(id, ConversationState::Closed).unwrap();
        }
        assert_sound(&parts);
        run_due_jobs(&complete, id);
        run_due_jobs(&parts, id);
        let nodes_before = describe_nodes(&complete, id);
        prop_assert_eq!(&nodes_before, &describe_nodes(&parts, id), "portions do not matter");
        assert_sound(&complete);

        complete.update(id, &Update { strategy: UpdateStrategy::Full, ..Update::default() }).unwrap();
        assert_sound(&complete);
        run_due_jobs(&complete, id);
        prop_assert_eq!(&nodes_before, &describe_nodes(&complete, id), "rebuilding it changes nothing");

        drop_derived(folder.path());
        let has_nodes = !nodes_before.is_empty();
        prop_assert_eq!(!parts.verify(|_| ()).unwrap().is_clean(), has_nodes, "what is gone is missed");
        parts.repair().unwrap();
        run_due_jobs(&parts, id);
        assert_sound(&parts);
        prop_assert_eq!(&nodes_before, &describe_nodes(&parts, id), "everything comes back from the messages");
    }
}

#[test]
fn a_rebuild_repeats_the_ends_of_several_threads_in_their_order() {
    let thread = |name: &str| name.parse::<ThreadName>().unwrap();
    let user = |name: &str, text: &str| {
        Entry::message(thread(name), NewMessage::new(Role::User, text, start()))
    };
    for ended in [["main", "other"], ["other", "main"]] {
        for next in ["main", "other"] {
            let (engine, _folder) = engine_with_policy(treering_core::Preset::PerTurn.into());
            let id = append(
                &engine,
                vec![
                    user("other", "One question."),
                    user("main", "Another question."),
                    Entry::turn_end(thread(ended[0])),
                    Entry::turn_end(thread(ended[1])),
                    user(next, "A third question."),
                ],
            );
            run_due_jobs(&engine, id);
            let expected = describe_nodes(&engine, id);
            let full = Update { strategy: UpdateStrategy::Full, ..Update::default() };
            engine.update(id, &full).unwrap();
            run_due_jobs(&engine, id);
            assert_eq!(describe_nodes(&engine, id), expected, "{ended:?}, then {next}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn per_turn_makes_one_node_for_each_turn(
        answers in proptest::collection::vec(0_usize..20, 1..12),
        is_marked in proptest::collection::vec(any::<bool>(), 12),
    ) {
        let (engine, _folder) = engine_with_policy(treering_core::Preset::PerTurn.into());
        let mut id = None;
        for (turn, answers) in answers.iter().enumerate() {
            let roles = std::iter::once(Role::User)
                .chain(std::iter::repeat_n(Role::Assistant, *answers));
            let at = start().plus_micros(turn as i64 * 60_000_000);
            let message = |role| NewMessage::new(role, format!("{role} {turn} {}", "word ".repeat(40)), at);
            let mut entries: Vec<_> = roles
                .map(|role| Entry::message(ThreadName::main(), message(role)))
                .collect();
            if is_marked[turn] {
                entries.push(Entry::turn_end(ThreadName::main()));
            }
            id = Some(append(&engine, entries));
        }
        let id = id.unwrap();
        let closed = engine.set_state(id, ConversationState::Closed).unwrap();
        run_due_jobs(&engine, id);
        let nodes = engine.tree(id).unwrap().nodes;
        let windows = nodes.iter().filter(|node| node.level() == Level::FIRST);
        let turns: Vec<u32> = windows.map(|node| node.source.turns).collect();
        prop_assert_eq!(turns, vec![1; closed.totals.turns as usize]);
    }
}

#[test]
fn higher_levels_of_per_turn_compress() {
    let (engine, _folder) = engine_with_policy(treering_core::Preset::PerTurn.into());
    let id = append_turns(&engine, 0..300, 1600);
    run_due_jobs(&engine, id);
    let nodes = engine.tree(id).unwrap().nodes;
    let count = |level: u8| nodes.iter().filter(|node| node.level().number() == level).count();
    assert_eq!(count(1), 300);
    for level in 1..4 {
        assert!(
            count(level + 1) * 3 <= count(level),
            "{} nodes above {}",
            count(level + 1),
            count(level)
        );
    }
    assert!(count(3) > 0, "{} nodes at level 2", count(2));
}

#[test]
fn an_end_is_not_repeated_and_what_follows_it_opens_a_turn() {
    let (engine, _folder) = engine_with_defaults();
    let message = |role, id: &str| {
        let external_id = Some(external_id(id));
        Entry::message(
            ThreadName::main(),
            NewMessage { external_id, ..NewMessage::new(role, id, start()) },
        )
    };
    let end = || Entry::turn_end(ThreadName::main());
    let first = vec![message(Role::User, "q1"), message(Role::Assistant, "a1"), end()];
    append(&engine, first.clone());
    let id = append(&engine, vec![message(Role::Assistant, "an afterthought")]);
    let turns = || engine.stats().unwrap().totals.turns;
    assert_eq!(turns(), 2, "an answer after the end opens a turn");
    append(&engine, first);
    append(&engine, vec![message(Role::Assistant, "and more of it")]);
    assert_eq!(turns(), 2, "the replayed end of the first turn does not end the second");
    append(&engine, vec![end(), end()]);
    append(&engine, vec![message(Role::System, "a note")]);
    assert_eq!(turns(), 3);
    let later = start().plus_micros(25 * 3_600_000_000);
    append(
        &engine,
        vec![Entry::message(ThreadName::main(), NewMessage::new(Role::Assistant, "Hi", later))],
    );
    assert_eq!(turns(), 4, "a turn does not span a silence of a day");
    run_due_jobs(&engine, id);
    assert_sound(&engine);
}

/// Empties every table that can be rebuilt.
fn drop_derived(folder: &Path) {
    let file = folder.join(EmbeddedStore::FILE);
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.execute_batch("DELETE FROM nodes; DELETE FROM jobs; DELETE FROM log;").unwrap();
}

#[test]
fn planning_and_running_twice_changes_nothing() {
    let (engine, _folder) = engine_with_policy(small());
    let id = append_turns(&engine, 0..9, 200);
    run_due_jobs(&engine, id);
    let nodes_before = describe_nodes(&engine, id);
    assert!(nodes_before.len() > 12, "{nodes_before:#?}");
    engine.update(id, &Update::default()).unwrap();
    run_due_jobs(&engine, id);
    assert_eq!(nodes_before, describe_nodes(&engine, id));
}

#[test]
fn an_estimate_predicts_the_tree() {
    for preset in treering_core::Preset::ALL {
        let (engine, _folder) = engine_with_policy(preset.into());
        // No word repeats, so that every summary has its full length.
        let mut words = (0..).map(|number| format!("thing{number}"));
        let turn = |turn: i64| {
            [Role::User, Role::Assistant].map(|role| {
                let text = words.by_ref().take(200).collect::<Vec<_>>().join(" ");
                let message = NewMessage::new(role, text, start().plus_micros(turn * 60_000_000));
                Entry::message(ThreadName::main(), message)
            })
        };
        let id = append(&engine, (0..40).flat_map(turn).collect());
        let full = Update { strategy: UpdateStrategy::Full, ..Update::default() };
        let estimate = engine.estimate(id, &full).unwrap();
        run_due_jobs(&engine, id);
        assert_eq!(estimate.jobs, nodes_by_level(&engine, id), "{preset}");
        assert!(estimate.exact);
    }
}

/// Overrides of every parameter; those of groups and summaries also for one level.
fn some_overrides() -> impl Strategy<Value = Vec<String>> {
    let values = [
        "preset=turns",
        "preset=per-turn",
        "preset=triggers",
        "preset=chars",
        "window_chars=300",
        "window_chars=900",
        "wiggle=0.4",
        "min_flush_chars=0",
        "flush_after=2 min",
        "overlap_chars=50",
        "seal_policy=time",
        "ensure_assistant=false",
        "messages=4",
        "tokens=60",
        "age=4 min",
        "turns=3",
        "chars=500",
        "min_turns=2",
        "keep_recent_turns=1",
        "group_chars=400",
        "group_chars@2=300",
        "group_chars@3=off",
        "group_children=2",
        "group_children@3=3",
        "group_tokens=50",
        "group_messages=6",
        "group_limit=300",
        "raw_chars=500",
        "min_children=3",
        "length=0.3",
        "length@2=0.2",
        "length=1-2 sentences",
        "strategy@2=chronological",
        "strategy@3=technical",
        "deduplicate=false",
    ];
    proptest::collection::vec(prop::sample::select(values.map(str::to_owned).to_vec()), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_dry_run_foresees_exactly_what_an_update_makes(
        events in conversation(60),
        later in conversation(20),
        policy in presets(),
        some in some_overrides(),
        full in any::<bool>(),
        level in proptest::option::of(1_u8..4),
        close in any::<[bool; 2]>(),
    ) {
        let parsed: Vec<treering_core::Assignment> =
            some.iter().map(|text| text.parse().unwrap()).collect();
        let Ok(overridden) = policy.with(&parsed) else { return Ok(()) };
        if level.is_some_and(|level| level > 1) && parsed.iter().any(|it| it.is_of_level_one()) {
            return Ok(());
        }
        let (engine, _folder) = engine_with_policy(policy);
        let id = append(&engine, events);
        let close_if = |close: bool| {
            let state = if close { ConversationState::Closed } else { ConversationState::Open };
            engine.set_state(id, state).unwrap();
        };
        close_if(close[0]);
        run_due_jobs(&engine, id);
        append(&engine, later.into_iter().map(renamed).collect());
        close_if(close[1]);
        let strategy = if full { UpdateStrategy::Full } else { UpdateStrategy::Incremental };
        let update = Update {
            strategy,
            level: level.and_then(Level::new),
            policy: parsed,
            ..Update::default()
        };
        let estimate = engine.estimate(id, &update).unwrap();

        engine.update(id, &update).unwrap();
        let nodes_per_level = std::sync::Mutex::new([0; 8]);
        let only = level.filter(|_| !full);
        let scope = JobScope { conversation: Some(id), only, ..JobScope::default() };
        let count = |job: &Job, outcome: &JobOutcome| {
            if let (JobKind::Summarize(task), JobOutcome::Done) = (&job.kind, outcome) {
                // The last entry counts all levels from the eighth up.
                nodes_per_level.lock().unwrap()[usize::from(task.level.number() - 1).min(7)] += 1;
            }
        };
        Worker::new(engine.clone()).unwrap().run(&scope, &count).unwrap();
        prop_assert_eq!(estimate.jobs, nodes_per_level.into_inner().unwrap());
        if !full {
            return Ok(());
        }
        let from = level.unwrap_or(1);
        let nodes = engine.tree(id).unwrap().nodes;
        for node in nodes.iter().filter(|node| node.level().number() >= from) {
            let style = match node.spec.is_top() {
                true => overridden.top_style(),
                false => overridden.style(node.level()),
            };
            prop_assert_eq!(&node.spec.style, &style);
        }
        if from == 1 {
            let tokens: u64 = nodes.iter().map(|node| u64::from(node.tokens)).sum();
            prop_assert_eq!(estimate.tokens_out, tokens);
        }
    }
}

#[test]
fn an_update_of_one_level_waits_for_the_levels_below_as_foreseen() {
    let policy = small().with(&overrides(&["group_children=4"])).unwrap();
    let (engine, _folder) = engine_with_policy(policy);
    let id = append_turns(&engine, 0..4, 200);
    run_due_jobs(&engine, id);
    append_turns(&engine, 4..5, 200);
    let (level, policy) = (Level::new(2), overrides(&["group_children=2"]));
    let update = Update { level, policy, ..Update::default() };
    assert_eq!(engine.estimate(id, &update).unwrap().calls, 0);
    engine.update(id, &update).unwrap();
    let scope = JobScope { conversation: Some(id), only: Some(2), ..JobScope::default() };
    let stats = Worker::new(engine.clone()).unwrap().run(&scope, &|_, _| {}).unwrap();
    assert_eq!(stats.done, 0);
    assert_eq!(nodes_by_level(&engine, id)[..2], [4, 0]);
    run_due_jobs(&engine, id);
    assert_eq!(nodes_by_level(&engine, id)[..2], [5, 2]);
}

/// The entry with an external id of its own.
fn renamed(mut entry: Entry) -> Entry {
    let other = |id: &treering_core::ExternalId| external_id(&format!("later-{id}"));
    match &mut entry.kind {
        treering_core::EntryKind::Message(message) => {
            message.external_id = message.external_id.as_ref().map(other);
        }
        treering_core::EntryKind::ToolCall(call) => {
            call.external_id = call.external_id.as_ref().map(other);
        }
        treering_core::EntryKind::ToolResult { call, .. } => *call = other(call),
        _ => {}
    }
    entry
}

/// The number of nodes at each level.
fn nodes_by_level(engine: &Engine, id: ConversationId) -> [u32; 8] {
    let mut counts = [0; 8];
    for node in engine.tree(id).unwrap().nodes {
        counts[usize::from(node.level().number()) - 1] += 1;
    }
    counts
}

fn overrides(assignments: &[&str]) -> Vec<treering_core::Assignment> {
    assignments.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn overrides_hold_at_every_level_and_end_with_their_update() {
    let (engine, _folder) = engine_with_policy(small());
    let id = append_turns(&engine, 0..40, 200);
    run_due_jobs(&engine, id);
    let before = nodes_by_level(&engine, id);
    assert_eq!(before[..3], [40, 19, 9]);

    let policy =
        overrides(&["group_children=4", "strategy@2=chronological", "strategy@3=technical"]);
    let full =
        Update { strategy: UpdateStrategy::Full, policy: policy.clone(), ..Update::default() };
    engine.update(id, &full).unwrap();
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    assert_eq!(nodes_by_level(&engine, id)[..4], [40, 9, 2, 0]);
    let overridden = small().with(&policy).unwrap();
    for node in engine.tree(id).unwrap().nodes {
        assert_eq!(node.spec.style, overridden.style(node.level()), "{}", node.id);
    }

    append_turns(&engine, 40..44, 200);
    run_due_jobs(&engine, id);
    let nodes = engine.tree(id).unwrap().nodes;
    let last = nodes.iter().rfind(|node| node.level().number() == 2).unwrap();
    assert_eq!(last.spec.style, small().style(last.level()), "new messages follow the policy");
    engine.update(id, &Update { strategy: UpdateStrategy::Full, ..Update::default() }).unwrap();
    run_due_jobs(&engine, id);
    assert_eq!(nodes_by_level(&engine, id)[..3], [44, 21, 10]);

    // Only level 2 and above, and then only what is still ungrouped.
    let level = Level::new(2);
    let upper = Update { strategy: UpdateStrategy::Full, policy, level, ..Update::default() };
    engine.update(id, &upper).unwrap();
    run_due_jobs(&engine, id);
    assert_eq!(nodes_by_level(&engine, id)[..4], [44, 10, 2, 0]);
    let policy = overrides(&["group_children=2"]);
    engine.update(id, &Update { policy, ..Update::default() }).unwrap();
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    let [first, second, ..] = nodes_by_level(&engine, id);
    assert_eq!((first, second), (44, 11), "the ungrouped nodes make one more group");
}

#[test]
fn a_change_rewrites_exactly_the_ancestors() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder.path(), small(), Arc::new(PrefixSummarizer::default()), clock.clone());
    let id = append_turns(&engine, 0..10, 200);
    run_due_jobs(&engine, id);
    let before = engine.tree(id).unwrap();

    // The third window must be regenerated, with another text.
    commit(folder.path(), vec![Write::MarkDirty(id, Level::FIRST, vec![2])]);
    assert!(!engine.verify(|_| ()).unwrap().is_clean(), "a dirty node without a job is a problem");
    clock.set(start().plus_micros(3_600_000_000));
    let other = open(folder.path(), small(), Arc::new(FnSummarizer(shout)), clock);
    other.update(id, &Update::default()).unwrap();
    assert_sound(&other);
    run_due_jobs(&other, id);
    assert_sound(&other);

    let after = other.tree(id).unwrap();
    let rewritten: Vec<(u8, u32)> = before
        .nodes
        .iter()
        .zip(&after.nodes)
        .filter(|(before, after)| before.provenance != after.provenance)
        .map(|(_, after)| (after.level().number(), after.ordinal()))
        .collect();
    assert_eq!(rewritten, [(1, 2), (2, 1), (3, 0)], "the window and the nodes above it");
    assert!(after.nodes.iter().all(|node| !node.dirty));
    assert_eq!(
        before.nodes.iter().map(|node| &node.id).collect::<Vec<_>>(),
        after.nodes.iter().map(|node| &node.id).collect::<Vec<_>>(),
        "what they cover is the same, and so are they"
    );
}

/// A summarizer that calls a function.
struct FnSummarizer<F>(F);

impl<F> Summarizer for FnSummarizer<F>
where
    F: Fn(&SummaryRequest) -> Result<NodeContent, ProviderError> + Send + Sync,
{
    fn name(&self) -> &str {
        "function"
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        self.0(request)
    }
}

/// Writes the output of `PrefixSummarizer` in capitals.
fn shout(request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
    let content = PrefixSummarizer::default().summarize(request)?;
    Ok(NodeContent { overview: content.overview.to_uppercase(), ..content })
}

#[test]
fn an_outgrown_group_is_split() {
    let folder = tempfile::tempdir().unwrap();
    let assignments = ["window_chars=200", "min_flush_chars=0", "group_chars=400", "length@1=0.5"];
    let policy = Policy::default().with(&assignments.map(|text| text.parse().unwrap())).unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder.path(), policy, Arc::new(PrefixSummarizer::default()), clock);
    let id = append_turns(&engine, 0..6, 200);
    run_due_jobs(&engine, id);
    let groups = |engine: &Engine| {
        let tree = engine.tree(id).unwrap();
        let of = |level: u8| {
            tree.nodes.iter().filter(move |node| node.level().number() == level).count()
        };
        (of(1), of(2))
    };
    assert_eq!(groups(&engine), (6, 1));

    // Every window is regenerated at twice the length.
    let nodes = engine.tree(id).unwrap().nodes;
    let writes = nodes
        .into_iter()
        .filter(|node| node.level() == Level::FIRST)
        .map(|node| {
            let mut task = node.spec;
            task.style.length = treering_core::SummaryLength::Keep(1.0);
            Write::AddJob(Job::plan(id, JobKind::Summarize(task), start()))
        })
        .collect();
    commit(folder.path(), writes);
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    assert_eq!(groups(&engine), (6, 2), "its four children make two groups now");
}

#[test]
fn the_fallback_writes_failed_summaries_and_update_retries_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let unusable = |_| ProviderError::new("it wrote of Paris", RetryAdvice::UseFallback);
    let heads = Arc::new(PrefixSummarizer::failing((0..3).map(unusable)));
    let engine = open(folder.path(), small(), heads, clock);
    let id = append_turns(&engine, 0..4, 200);
    run_due_jobs(&engine, id);
    let by = |engine: &Engine| -> Vec<String> {
        engine.tree(id).unwrap().nodes.into_iter().map(|node| node.provenance.by).collect()
    };
    let before = engine.tree(id).unwrap();
    assert!(before.jobs.is_empty(), "nothing is held up");
    assert_eq!(by(&engine).iter().filter(|by| *by == "extractive for heads").count(), 3);
    let log = engine
        .job_events(&JobEventFilter { conversation: Some(id), job_prefix: None, limit: 100 })
        .unwrap();
    assert!(log.iter().any(|line| line.text.contains("it wrote of Paris")), "the log says why");

    engine.update(id, &Update::default()).unwrap();
    run_due_jobs(&engine, id);
    assert!(by(&engine).iter().all(|by| by == "heads"), "{:?}", by(&engine));
    let after = engine.tree(id).unwrap();
    assert_eq!(after.nodes.len(), before.nodes.len(), "nothing exists twice");
    assert_sound(&engine);
    assert_eq!(
        engine.update(id, &Update::default()).unwrap().queued,
        0,
        "nothing is left to upgrade"
    );
}

#[test]
fn fallbacks_run_one_at_a_time_and_summarizers_concurrently() {
    for with_fallback in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (running, max_concurrent) = (AtomicU32::new(0), Arc::new(AtomicU32::new(0)));
        let max = Arc::clone(&max_concurrent);
        let counting = Arc::new(FnSummarizer(move |request: &SummaryRequest| {
            max.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            running.fetch_sub(1, Ordering::SeqCst);
            PrefixSummarizer::default().summarize(request)
        }));
        let down = std::iter::repeat_n(ProviderError::permanent("no such model"), 1000);
        let summarizer: Arc<dyn Summarizer> = if with_fallback {
            Arc::new(PrefixSummarizer::failing(down))
        } else {
            counting.clone()
        };
        let embedders: Vec<Arc<dyn treering_core::Embedder>> =
            vec![Arc::new(treering_providers::StaticEmbedder::new())];
        let clock = Arc::new(FakeClock::at(start()));
        let parts = common::parts(folder.path(), small(), summarizer, clock, embedders);
        let parts = treering_engine::EngineParts { fallback: Some(counting.clone()), ..parts };
        let engine = Engine::new(parts, treering_core::TenantId::default());
        for name in ["one", "two", "three", "four"] {
            let external_id = Some(external_id(name));
            let target =
                AppendTarget::FindOrCreate(NewConversation { external_id, ..Default::default() });
            let message =
                |role| NewMessage::new(role, "The tide is high today. ".repeat(60), start());
            let mut entries: Vec<_> = [Role::User, Role::Assistant]
                .map(|role| Entry::message(ThreadName::main(), message(role)))
                .into();
            entries.push(Entry::turn_end(ThreadName::main()));
            engine
                .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })
                .unwrap();
        }
        Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
        assert_sound(&engine);
        assert_eq!(
            max_concurrent.load(Ordering::SeqCst),
            if with_fallback { 1 } else { 2 },
            "with a worker of two threads"
        );
    }
}

#[test]
fn a_rate_limited_job_waits_without_failing() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    // More often than the maximum number of attempts.
    let quota =
        |_| ProviderError::new("the quota of this minute is used up", RetryAdvice::Throttled(1));
    let heads = Arc::new(PrefixSummarizer::failing((0..9).map(quota)));
    let engine = open(folder.path(), small(), heads.clone(), clock);
    let id = append_turns(&engine, 0..4, 200);
    run_due_jobs(&engine, id);
    let tree = engine.tree(id).unwrap();
    assert!(tree.jobs.is_empty() && heads.calls() > 9, "the worker waits for its turn");
    assert!(tree.nodes.iter().all(|node| node.provenance.by == "heads"), "nobody has to stand in");
    let log = engine
        .job_events(&JobEventFilter { conversation: Some(id), job_prefix: None, limit: 100 })
        .unwrap();
    assert!(log.iter().all(|line| line.kind.as_str() != "fail"), "{log:?}");
    assert_sound(&engine);
}

#[test]
fn transient_failures_are_retried_and_permanent_ones_use_the_fallback() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let failures = [ProviderError::new("slow down", RetryAdvice::RetryAfter(60_000))];
    let heads = Arc::new(PrefixSummarizer::failing(failures));
    let engine = open(folder.path(), small(), heads.clone(), clock.clone());
    let id = append_turns(&engine, 0..1, 200);
    run_due_jobs(&engine, id);
    let job = engine.jobs(&JobFilter::of(id)).unwrap().remove(0);
    assert_eq!((job.failures, job.error.as_deref()), (1, Some("slow down")));
    let JobState::Waiting { not_before } = job.state else { panic!("{:?}", job.state) };
    assert!(not_before >= start().plus_micros(60_000_000), "the provider's advice is taken");
    let gate = engine.gate(id).unwrap();
    assert!(
        gate.is_clear() && gate.failed.len() == 1,
        "nobody waits for a provider that failed: {gate:?}"
    );
    run_due_jobs(&engine, id);
    assert_eq!(heads.calls(), 1, "not before its time");
    clock.set(not_before);
    run_due_jobs(&engine, id);
    assert_eq!(engine.tree(id).unwrap().nodes.len(), 1);

    let lasting = Arc::new(PrefixSummarizer::failing([ProviderError::permanent("no such model")]));
    let engine = open(folder.path(), small(), lasting, clock);
    append_turns(&engine, 1..2, 200);
    run_due_jobs(&engine, id);
    let nodes = engine.tree(id).unwrap().nodes;
    assert_eq!(nodes[1].provenance.by, "extractive for heads");
    assert!(engine.gate(id).unwrap().is_clear() && engine.gate(id).unwrap().failed.is_empty());
    assert_eq!(
        (engine.fallback_node_count(Some(id)).unwrap(), engine.fallback_node_count(None).unwrap()),
        (1, 1)
    );
    assert_sound(&engine);
    engine.update(id, &Update::default()).unwrap();
    run_due_jobs(&engine, id);
    assert_eq!(engine.fallback_node_count(None).unwrap(), 0);
    let log = engine
        .job_events(&JobEventFilter { conversation: Some(id), job_prefix: None, limit: 100 })
        .unwrap();
    let events: Vec<&str> = log.iter().map(|line| line.kind.as_str()).collect();
    assert_eq!(
        events,
        [
            "acquire", "fail", "release", "clear", "acquire", "release", "clear", "update",
            "acquire", "release", "clear", "updated"
        ]
    );
    assert!(log[5].text.contains("no such model"), "{}", log[5].text);
}

#[test]
fn retries_back_off_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let failing =
        PrefixSummarizer::failing(std::iter::repeat_n(ProviderError::transient("busy"), 10));
    let engine = open(folder.path(), small(), Arc::new(failing), clock.clone());
    let id = append_turns(&engine, 0..1, 200);
    let mut delays = Vec::new();
    loop {
        run_due_jobs(&engine, id);
        let Some(job) = engine.jobs(&JobFilter::of(id)).unwrap().pop() else { break };
        let JobState::Waiting { not_before } = job.state else { panic!("{:?}", job.state) };
        delays.push(not_before.as_micros() - treering_core::Clock::now(&*clock).as_micros());
        clock.set(not_before);
    }
    assert_eq!(delays.len(), 2, "{delays:?}");
    assert!(delays[1] > delays[0], "{delays:?}");
    let node = engine.tree(id).unwrap().nodes.remove(0);
    assert_eq!(node.provenance.by, "extractive for heads", "somebody stands in in the end");
}

#[test]
fn an_expired_lease_passes_to_another_worker() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder.path(), small(), Arc::new(PrefixSummarizer::default()), clock.clone());
    let id = append_turns(&engine, 0..1, 200);
    let mut job = engine.jobs(&JobFilter::of(id)).unwrap().remove(0);
    job.lease("somebody who is gone", start());
    commit(folder.path(), vec![Write::PutJob(job)]);
    run_due_jobs(&engine, id);
    assert!(engine.tree(id).unwrap().nodes.is_empty(), "it is somebody else's");
    assert!(!engine.gate(id).unwrap().is_clear());
    clock.set(start().plus_micros(10_000_001));
    run_due_jobs(&engine, id);
    assert_eq!(engine.tree(id).unwrap().nodes.len(), 1);
}

#[test]
fn a_clock_that_goes_back_strands_no_job() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder.path(), small(), Arc::new(PrefixSummarizer::default()), clock.clone());
    let id = append_turns(&engine, 0..2, 200);
    let mut job = engine.jobs(&JobFilter::of(id)).unwrap().remove(0);
    job.lease("gone", start());
    commit(folder.path(), vec![Write::PutJob(job)]);
    clock.set(start().plus_micros(-86_400_000_000));
    run_due_jobs(&engine, id);
    assert_eq!(engine.tree(id).unwrap().nodes.len(), 2);
}

#[test]
fn concurrent_workers_write_every_node_once() {
    let folder = tempfile::tempdir().unwrap();
    let heads = Arc::new(PrefixSummarizer::default());
    let clock = Arc::new(FakeClock::at(start()));
    let engines: Vec<Engine> =
        (0..4).map(|_| open(folder.path(), small(), heads.clone(), clock.clone())).collect();
    let id = append_turns(&engines[0], 0..120, 200);
    std::thread::scope(|threads| {
        for engine in &engines {
            threads.spawn(move || run_due_jobs(engine, id));
        }
    });
    run_due_jobs(&engines[0], id);
    assert_sound(&engines[0]);
    let nodes = engines[0].tree(id).unwrap().nodes;
    assert_eq!(nodes.iter().filter(|node| node.level() == Level::FIRST).count(), 120);
    assert_eq!(heads.calls() as usize, nodes.len(), "nothing was written twice");

    let (alone, _folder) = engine_with_policy(small());
    let same = append_turns(&alone, 0..120, 200);
    run_due_jobs(&alone, same);
    assert_eq!(
        describe_nodes(&alone, same),
        describe_nodes(&engines[0], id),
        "and the tree is the one a single worker grows"
    );
}

#[test]
fn jobs_run_by_level_and_in_conversation_order() {
    let (engine, _folder) = engine_with_policy(small());
    let id = append_turns(&engine, 0..6, 200);
    let worker = Worker::new(engine.clone()).unwrap();
    worker.run(&JobScope::default(), &|_, outcome| assert_eq!(*outcome, JobOutcome::Done)).unwrap();
    // Threads report out of order; the job events have the actual order.
    let log = engine
        .job_events(&JobEventFilter { conversation: Some(id), job_prefix: None, limit: 1000 })
        .unwrap();
    let done = log.iter().filter(|line| line.kind == JobEventKind::Release);
    let level =
        |text: &str| text.split("(level ").nth(1).and_then(|rest| rest[..1].parse().ok()).unwrap();
    let heights: Vec<u8> = done.map(|line| level(&line.text)).collect();
    assert!(heights.is_sorted(), "{heights:?}");
    assert!(heights.contains(&2));
    assert!(engine.jobs(&JobFilter::of(id)).unwrap().is_empty());
}

#[test]
fn the_gate_counts_embeddings_and_never_waits_for_level_two() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder.path(), small(), Arc::new(PrefixSummarizer::default()), clock);
    let id = append_turns(&engine, 0..4, 200);
    assert_eq!(engine.gate(id).unwrap().pending.len(), 4);
    let scope = JobScope { conversation: Some(id), max_height: Some(1), only: None };
    Worker::new(engine.clone()).unwrap().run(&scope, &|_, _| {}).unwrap();
    let jobs = engine.jobs(&JobFilter::of(id)).unwrap();
    assert!(jobs.iter().all(|job| job.kind.height() == 2) && !jobs.is_empty());
    let passage = engine.wait(id, Duration::from_secs(5)).unwrap();
    assert!(passage.status.is_clear());

    let embed = Job::plan(id, JobKind::EmbedTurn(TurnNo(3)), start());
    commit(folder.path(), vec![Write::AddJob(embed)]);
    let passage = engine.wait(id, Duration::from_millis(60)).unwrap();
    assert_eq!(passage.status.pending[0].description, "embed turn 3");
    assert!(passage.waited >= Duration::from_millis(60));
    let text = passage.status.describe(start().plus_micros(2_000_000));
    assert!(text.starts_with("gate: waiting for 1 operation\n  pending: embed turn 3 ["), "{text}");
    assert!(text.ends_with("], 2.0 s"), "{text}");
}

/// The log of a conversation.
fn log_of(engine: &Engine, id: ConversationId) -> Vec<JobEvent> {
    let filter = JobEventFilter { conversation: Some(id), job_prefix: None, limit: 1000 };
    engine.job_events(&filter).unwrap()
}

/// An engine whose embeddings are jobs.
fn with_embedding_jobs(folder: &Path, embedder: BagOfWordsEmbedder) -> Engine {
    let clock = Arc::new(FakeClock::at(start()));
    let summarizer = Arc::new(PrefixSummarizer::default());
    open_with(folder, small(), summarizer, clock, vec![Arc::new(embedder)])
}

#[test]
fn the_log_counts_what_is_pending_and_says_when_all_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_embedding_jobs(folder.path(), BagOfWordsEmbedder::default());
    let id = append_turns(&engine, 0..3, 200);
    run_due_jobs(&engine, id);
    let (mut pending, mut clear) = (0, 0);
    for line in log_of(&engine, id) {
        let text = &line.text;
        if text.contains("(level 2)") || text.contains(" l2-") {
            assert!(!text.contains(" pending)") && !text.contains(" remaining)"), "{text}");
            continue;
        }
        match line.kind {
            JobEventKind::Acquire => {
                pending += 1;
                assert!(text.ends_with(&format!(" ({pending} pending)")), "{text}");
            }
            JobEventKind::Release => {
                pending -= 1;
                assert!(text.ends_with(&format!(" ms, {pending} remaining)")), "{text}");
            }
            JobEventKind::Clear => {
                assert_eq!((pending, text.as_str()), (0, "all critical operations complete"));
                clear += 1;
            }
            other => panic!("{other:?}: {text}"),
        }
    }
    assert_eq!((pending, clear), (0, 1));
}

#[test]
fn a_job_planned_twice_is_acquired_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_embedding_jobs(folder.path(), BagOfWordsEmbedder::default());
    let append_message = |role: Role, text: &str| {
        let entries =
            vec![Entry::message(ThreadName::main(), NewMessage::new(role, text, start()))];
        let replay_detection = ReplayDetection::None;
        let report = engine.append(EntryBatch { target: target(), entries, replay_detection });
        report.unwrap().conversation.id
    };
    let id = append_message(Role::User, "Where does the buoy lie?");
    assert_eq!(append_message(Role::Assistant, "Off pontoon three."), id);
    let log = log_of(&engine, id);
    let embeds = log.iter().filter(|line| line.text.starts_with("embed turn 0"));
    assert_eq!(embeds.count(), 1, "{log:?}");
}

#[test]
fn a_job_that_is_given_up_no_longer_counts() {
    let folder = tempfile::tempdir().unwrap();
    let broken = BagOfWordsEmbedder::default().failing([ProviderError::permanent("no key")]);
    let engine = with_embedding_jobs(folder.path(), broken);
    let id = append_turns(&engine, 0..1, 20);
    run_due_jobs(&engine, id);
    let log = log_of(&engine, id);
    let dead = log.iter().position(|line| line.kind == JobEventKind::Dead).unwrap();
    assert!(log[dead].text.ends_with("no key (0 ms, 0 remaining)"), "{log:?}");
    assert_eq!(log[dead + 1].kind, JobEventKind::Clear, "{log:?}");
    engine.retry_jobs(None).unwrap();
    let log = log_of(&engine, id);
    assert!(log.last().unwrap().text.ends_with("(1 pending)"), "{log:?}");
}

#[test]
fn the_gate_opens_when_another_process_finishes_the_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let first = open(folder.path(), small(), Arc::new(PrefixSummarizer::default()), clock.clone());
    let second = open(folder.path(), small(), Arc::new(PrefixSummarizer::default()), clock);
    let id = append_turns(&first, 0..3, 200);
    let waiting = std::thread::spawn(move || first.wait(id, Duration::from_secs(60)).unwrap());
    run_due_jobs(&second, id);
    assert!(waiting.join().unwrap().status.is_clear());
}

#[test]
fn a_worker_in_the_background_keeps_up() {
    let (engine, _folder) = engine_with_defaults();
    let _worker = engine.spawn_worker().unwrap();
    let id = append_turns(&engine, 0..3, 7000);
    let passage = engine.wait(id, Duration::from_secs(60)).unwrap();
    assert!(passage.status.is_clear());
    assert_eq!(engine.tree(id).unwrap().nodes.len(), 3);
}

#[test]
fn a_conversation_has_its_own_policy() {
    let (engine, _folder) = engine_with_defaults();
    let id = append_turns(&engine, 0..1, 100);
    let refused = engine.set_policy(id, vec!["window_chars=10".parse().unwrap()]);
    assert!(refused.unwrap_err().to_string().contains("at least 200"));
    engine.set_policy(id, vec!["preset=per-turn".parse().unwrap()]).unwrap();
    append_turns(&engine, 1..3, 100);
    run_due_jobs(&engine, id);
    let tree = engine.tree(id).unwrap();
    assert_eq!(tree.nodes.len(), 2, "the first turn was open when the policy changed");
    assert_sound(&engine);
}

#[test]
fn a_store_without_a_tree_gets_one_with_the_next_message() {
    let (engine, folder) = engine_with_policy(small());
    let id = append_turns(&engine, 0..5, 200);
    run_due_jobs(&engine, id);
    let nodes_before = describe_nodes(&engine, id);
    // The state that an older version leaves: messages and nothing else.
    drop_derived(folder.path());
    let connection = rusqlite::Connection::open(folder.path().join(EmbeddedStore::FILE)).unwrap();
    let empty = "[0,[],[],[],[]]";
    connection.execute("UPDATE conversations SET growth = ?1", [empty]).unwrap();
    append_turns(&engine, 5..5, 200);
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    assert_eq!(describe_nodes(&engine, id), nodes_before);
}

#[test]
fn identical_windows_make_separate_nodes() {
    let (engine, _folder) = engine_with_policy(small());
    let mut id = None;
    for _ in 0..4 {
        id = Some(append_turns(&engine, 0..1, 200));
    }
    let id = id.unwrap();
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    let nodes = engine.tree(id).unwrap().nodes;
    assert_eq!(nodes.iter().filter(|node| node.level() == Level::FIRST).count(), 4);
}

#[test]
fn node_times_are_those_of_its_messages() {
    let (engine, _folder) = engine_with_policy(small());
    let id = append_turns(&engine, 0..3, 200);
    run_due_jobs(&engine, id);
    for node in engine.tree(id).unwrap().nodes {
        assert_eq!(node.created_at(), node.range_end);
        assert!(node.range_start <= node.range_end);
        assert!(node.id.as_str().ends_with(&node.range_end.day()));
        assert_eq!(node.provenance.at, start(), "the real moment is kept apart");
        assert_ne!(node.range_end, Timestamp::from_micros(0));
    }
}

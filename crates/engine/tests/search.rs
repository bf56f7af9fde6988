//! Search on a real store: it finds every acknowledged message from any process, filters are
//! exact, and results are deterministic.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Barrier};

use crate::common::{
    engine_with_defaults, engine_with_policy, open, open_with, run_due_jobs, start,
};
use proptest::prelude::*;
use treering_core::{
    Assignment, ConversationId, ConversationState, Coverage, Embedder, Entry, NewMessage, Node,
    Policy, ProviderError, Role, TenantId, ThreadName, Timestamp,
};
use treering_engine::{
    AppendTarget, Engine, EntryBatch, Hit, HitItem, NewConversation, Query, ReplayDetection,
    Update, UpdateStrategy,
};
use treering_providers::StaticEmbedder;
use treering_testkit::generate::{external_id, text};
use treering_testkit::{FakeClock, PrefixSummarizer};

struct Line<'a> {
    conversation: &'a str,
    thread: &'a str,
    role: Role,
    author: &'a str,
    minute: i64,
    text: &'a str,
}

fn at(minute: i64) -> Timestamp {
    start().plus_micros(minute * 60_000_000)
}

fn append(engine: &Engine, line: &Line<'_>) -> ConversationId {
    let mut message = NewMessage::new(line.role, line.text, at(line.minute));
    message.author = Some(line.author.to_owned());
    let new_conversation = NewConversation {
        external_id: Some(external_id(line.conversation)),
        cwd: Some(format!("/home/ana/{}", line.conversation)),
        ..NewConversation::default()
    };
    let thread = ThreadName::new(line.thread).unwrap();
    let mut entries = vec![Entry::message(thread.clone(), message)];
    if line.role == Role::Assistant {
        entries.push(Entry::turn_end(thread));
    }
    let incoming = EntryBatch {
        target: AppendTarget::FindOrCreate(new_conversation),
        entries,
        replay_detection: ReplayDetection::None,
    };
    engine.append(incoming).unwrap().conversation.id
}

fn line<'a>(
    conversation: &'a str,
    role: Role,
    author: &'a str,
    minute: i64,
    text: &'a str,
) -> Line<'a> {
    Line { conversation, thread: "main", role, author, minute, text }
}

fn query(text: &str) -> Query {
    Query { text: text.to_owned(), limit: 10, ..Query::default() }
}

fn texts(hits: &[Hit]) -> Vec<String> {
    let texts = hits.iter().map(|hit| match &hit.item {
        HitItem::Message(message) => message.body.text.clone(),
        HitItem::ToolCall(call) => call.call.name.clone(),
        HitItem::Node(node) => node.id.to_string(),
    });
    texts.collect()
}

/// Two conversations about the same port that differ in every filterable field.
fn append_sample(engine: &Engine) -> (ConversationId, ConversationId) {
    let one = append(
        engine,
        &line("one", Role::User, "Ana", 0, "Which port does the staging server use?"),
    );
    append(engine, &line("one", Role::Assistant, "Juno", 1, "The staging port is 7410."));
    let branch =
        Line { thread: "idea", ..line("one", Role::User, "Ana", 2, "What if the port were 9000?") };
    append(engine, &branch);
    let two = append(
        engine,
        &line("two", Role::User, "Yann", 90, "The port of Kerzavel is closed on Monday."),
    );
    append(engine, &line("two", Role::Assistant, "Juno", 91, "Noted: the port is closed."));
    (one, two)
}

#[test]
fn messages_of_another_process_are_found_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let searcher = open(
        folder.path(),
        Policy::default(),
        Arc::new(PrefixSummarizer::default()),
        clock.clone(),
    );
    let writer =
        open(folder.path(), Policy::default(), Arc::new(PrefixSummarizer::default()), clock);
    assert!(searcher.search(&query("staging port")).unwrap().hits.is_empty());
    for number in 0..20 {
        let text = format!("The staging port number {number} is 74{number:02}.");
        append(&writer, &line("one", Role::User, "Ana", number, &text));
        let found = texts(&searcher.search(&query(&format!("74{number:02}"))).unwrap().hits);
        assert_eq!(found[0], text);
    }
}

const EARLY: &str = "The staging port is 7410.";
const LATE: &str = "The staging port is 7422 from today.";

/// The bundled embedder, delayed so that of two threads that build an index the first reader
/// finishes first.
struct Paced {
    embedder: StaticEmbedder,
    has_looked: Barrier,
    may_end: Barrier,
    has_ended: Barrier,
}

impl Embedder for Paced {
    fn name(&self) -> &str {
        self.embedder.name()
    }

    fn dims(&self) -> usize {
        self.embedder.dims()
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError> {
        if texts == [EARLY] {
            self.has_looked.wait();
            self.may_end.wait();
        } else if texts == [EARLY, LATE] {
            self.may_end.wait();
            self.has_ended.wait();
        }
        Embedder::embed(&self.embedder, texts)
    }
}

#[test]
fn a_first_search_finds_turns_stored_during_the_index_build() {
    let folder = tempfile::tempdir().unwrap();
    let pair = || Barrier::new(2);
    let embedder = Arc::new(Paced {
        embedder: StaticEmbedder::new(),
        has_looked: pair(),
        may_end: pair(),
        has_ended: pair(),
    });
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open_with(
        folder.path(),
        Policy::default(),
        Arc::new(PrefixSummarizer::default()),
        clock,
        vec![Arc::clone(&embedder) as Arc<dyn Embedder>],
    );
    append(&engine, &line("one", Role::User, "Ana", 0, EARLY));
    let query_text = query("staging port");
    std::thread::scope(|scope| {
        let quicker = scope.spawn(|| {
            let found = texts(&engine.search(&query_text).unwrap().hits);
            embedder.has_ended.wait();
            found
        });
        embedder.has_looked.wait();
        append(&engine, &line("one", Role::User, "Ana", 1, LATE));
        let mut found = texts(&engine.search(&query_text).unwrap().hits);
        found.sort();
        assert_eq!(found, [EARLY, LATE]);
        assert_eq!(quicker.join().unwrap(), [EARLY]);
    });
}

#[test]
fn filters_are_exact() {
    let (engine, _folder) = engine_with_defaults();
    let (one, two) = append_sample(&engine);
    let all = engine.search(&query("port")).unwrap().hits;
    assert_eq!(all.len(), 5, "everything is there to be let through");
    let check = |change: &dyn Fn(&mut Query), expected: &[&str]| {
        let mut query = query("port");
        change(&mut query);
        let mut found = texts(&engine.search(&query).unwrap().hits);
        found.sort();
        assert_eq!(found, expected);
    };
    let staging = "The staging port is 7410.";
    let question = "Which port does the staging server use?";
    let idea = "What if the port were 9000?";
    let (closed, noted) =
        ("The port of Kerzavel is closed on Monday.", "Noted: the port is closed.");
    check(&|q| q.conversations = vec![one], &[staging, idea, question]);
    check(&|q| q.conversations = vec![two], &[noted, closed]);
    check(&|q| q.conversations = vec![ConversationId::from_bytes([9; 16])], &[]);
    check(&|q| q.cwd = Some("/home/ana/two".into()), &[noted, closed]);
    check(&|q| q.cwd = Some("/home/an".into()), &[]);
    let everything = [noted, closed, staging, idea, question];
    check(&|q| q.cwd = Some("/home/ana".into()), &everything);
    check(&|q| q.project = Some("/home/ana/two".into()), &[noted, closed]);
    check(&|q| q.thread = Some(ThreadName::new("idea").unwrap()), &[idea]);
    check(&|q| q.thread = Some(ThreadName::new("nowhere").unwrap()), &[]);
    check(&|q| q.author = Some("yann".into()), &[closed]);
    check(&|q| q.author = Some("nobody".into()), &[]);
    check(&|q| q.role = Some(Role::Assistant), &[noted, staging]);
    check(&|q| q.since = Some(at(90)), &[noted, closed]);
    check(&|q| q.until = Some(at(1)), &[question]);
    check(&|q| q.levels = vec![1], &[]);
    check(&|q| (q.conversations, q.cwd) = (vec![one], Some("/home/ana/two".into())), &[]);
    engine.set_state(two, ConversationState::Archived).unwrap();
    check(
        &|q| (q.states, q.levels) = (vec![ConversationState::Open], vec![0]),
        &[staging, idea, question],
    );
    let other = engine.for_tenant(TenantId::new("other").unwrap());
    assert!(other.search(&query("port")).unwrap().hits.is_empty(), "another tenant sees nothing");
    append_sample(&other);
    assert_eq!(other.search(&query("port")).unwrap().hits.len(), 5, "but what is its own");
    let all = Query { levels: vec![0], archived: true, ..query("port") };
    assert_eq!(engine.search(&all).unwrap().hits.len(), 5);
}

/// A forked conversation: 24 messages of the main thread and 24 of a side thread by turns, two
/// windows of each thread before a group seals over both.
fn forked(engine: &Engine) -> ConversationId {
    let mut id = None;
    for number in 0..24_i64 {
        let role = if number % 2 == 0 { Role::User } else { Role::Assistant };
        let main = format!("Main {number}: the port of the harbour is deep and wide and open.");
        let idea = format!("Idea {number}: the port of the lake would be shallow and closed.");
        id = Some(append(engine, &line("one", role, "Ana", 10 * number, &main)));
        let idea = Line { thread: "idea", ..line("one", role, "Ana", 10 * number + 1, &idea) };
        append(engine, &idea);
    }
    let id = id.unwrap();
    run_due_jobs(engine, id);
    id
}

fn forked_engine() -> (Engine, tempfile::TempDir, Vec<Node>) {
    let assignments: Vec<Assignment> =
        ["window_chars=400", "min_flush_chars=0", "group_children=3", "group_chars=off"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
    let (engine, folder) = engine_with_policy(Policy::default().with(&assignments).unwrap());
    let id = forked(&engine);
    let everything = Query { limit: 200, levels: vec![1, 2, 3], ..query("port") };
    let nodes = engine.search(&everything).unwrap().hits.into_iter().filter_map(|hit| {
        assert_eq!(hit.conversation, id);
        if let HitItem::Node(node) = hit.item { Some(*node) } else { None }
    });
    let nodes: Vec<Node> = nodes.collect();
    (engine, folder, nodes)
}

#[test]
fn a_thread_has_its_nodes() {
    let (engine, _folder, nodes) = forked_engine();
    let windows = |thread: &str| {
        let of = |node: &&Node| match &node.spec.covers {
            Coverage::Messages(window) => window.thread.as_str() == thread,
            Coverage::Nodes(_) | Coverage::Whole(_) | Coverage::Sessions(_) => false,
        };
        nodes.iter().filter(of).map(|node| node.id.clone()).collect::<Vec<_>>()
    };
    for (thread, other) in [("main", "idea"), ("idea", "main")] {
        let (own_windows, others) = (windows(thread), windows(other));
        let query_text = Query {
            thread: Some(ThreadName::new(thread).unwrap()),
            levels: vec![1, 2],
            limit: 200,
            ..query("port")
        };
        let found = texts(&engine.search(&query_text).unwrap().hits);
        assert!(
            own_windows.len() > 2 && own_windows.iter().all(|id| found.contains(&id.to_string())),
            "{thread}"
        );
        assert!(others.iter().all(|id| !found.contains(&id.to_string())), "{thread}");
        for node in nodes.iter().filter(|node| node.level().number() == 2) {
            let Coverage::Nodes(children) = &node.spec.covers else { unreachable!() };
            let covers = children.iter().any(|child| own_windows.contains(child));
            assert_eq!(found.contains(&node.id.to_string()), covers, "{thread}: {}", node.id);
        }
    }
}

#[test]
fn a_node_is_found_by_any_time_that_it_covers() {
    let (engine, _folder, nodes) = forked_engine();
    let node = nodes.iter().max_by_key(|node| node.source.messages).unwrap();
    let mid_time = (node.range_start.as_micros() + node.range_end.as_micros()) / 2;
    let mid_time = Timestamp::from_micros(mid_time);
    let found = |since: Option<Timestamp>, until: Option<Timestamp>| {
        let query_text = Query { since, until, limit: 200, levels: vec![1, 2, 3], ..query("port") };
        texts(&engine.search(&query_text).unwrap().hits).contains(&node.id.to_string())
    };
    let later = node.range_end.plus_micros(1);
    assert!(found(Some(mid_time), None) && found(None, Some(mid_time)), "half of it is enough");
    assert!(found(Some(mid_time), Some(mid_time.plus_micros(1))), "it covers this moment");
    assert!(found(Some(node.range_end), None) && !found(Some(later), None));
    assert!(!found(None, Some(node.range_start)), "nothing of it is before its first message");
    assert!(found(None, Some(node.range_start.plus_micros(1))));
}

#[test]
fn searches_are_counted_without_a_write() {
    let (engine, _folder) = engine_with_defaults();
    append_sample(&engine);
    let cursor = engine.event_cursor().unwrap();
    assert!(!engine.search(&query("port")).unwrap().hits.is_empty());
    let nobody = Query { author: Some("Nobody".into()), ..query("port") };
    assert!(engine.search(&nobody).unwrap().hits.is_empty());
    let measures = engine.measures();
    assert_eq!((measures.searches_found, measures.searches_empty), (1, 1));
    assert_eq!((measures.search.count, measures.store_turn.count > 1), (2, true));
    assert_eq!(engine.event_cursor().unwrap(), cursor, "a search writes nothing");
    let other = engine.for_tenant(TenantId::new("other").unwrap());
    assert_eq!(other.measures().search.count, 0);
}

#[test]
fn limit_and_min_score_are_respected() {
    let (engine, _folder) = engine_with_defaults();
    append_sample(&engine);
    let all = engine.search(&query("staging port")).unwrap().hits;
    assert!(all.is_sorted_by(|a, b| a.score >= b.score));
    for limit in 0..=all.len() {
        let some = engine.search(&Query { limit, ..query("staging port") }).unwrap().hits;
        assert_eq!(texts(&some), texts(&all)[..limit]);
    }
    let min_score = all[1].score;
    let above_score =
        engine.search(&Query { min_score: Some(min_score), ..query("staging port") }).unwrap().hits;
    assert_eq!(texts(&above_score), texts(&all)[..2]);
    for hit in &all {
        let sum: f32 = hit.parts().iter().map(|(_, part)| part).sum();
        assert!((sum - hit.signals.sum()).abs() < 1e-4, "the parts explain the order");
        assert!((0.0..=1.0).contains(&hit.score), "{}", hit.score);
    }
    assert!(all[0].snippet.marked("[", "]").contains("[staging]"));
}

#[test]
fn a_smaller_limit_returns_a_prefix_of_the_hits() {
    let (engine, _folder) = engine_with_policy(Policy::default());
    let objects = ["berth", "sill", "gauge", "ledger", "crane", "buoy", "dredger"];
    for number in 0..600_usize {
        let text = format!(
            "The {} stands by the {} since week {}, and the {} by boat {}.",
            objects[number % 7],
            objects[number / 7 % 7],
            number % 31,
            objects[number / 49 % 7],
            number % 11,
        );
        append(&engine, &line("one", Role::User, "Ana", number as i64 * 3, &text));
    }
    for query_text in ["which berth is by the crane", "boat 7 in week 12", "the ledger"] {
        let hits =
            |limit| texts(&engine.search(&Query { limit, ..query(query_text) }).unwrap().hits);
        let all = hits(100);
        assert_eq!(all.len(), 100);
        for limit in [1, 5, 40] {
            assert_eq!(hits(limit), all[..limit], "{query_text}");
        }
    }
}

#[test]
fn a_rebuilt_index_returns_the_same_hits() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let small = ["window_chars=300", "min_flush_chars=0"].map(|text| text.parse().unwrap());
    let policy = Policy::default().with(&small).unwrap();
    let first = open(folder.path(), policy, Arc::new(PrefixSummarizer::default()), clock.clone());
    // One process has followed the change feed, with a query after every message.
    for number in 0..60 {
        let text =
            format!("Berth {number} is {} m long and belongs to boat {}.", number % 13, number % 7);
        append(&first, &line("one", Role::User, "Ana", number * 7, &text));
        let id = append(
            &first,
            &line("one", Role::Assistant, "Juno", number * 7 + 1, "Noted, as always."),
        );
        if number % 9 == 0 {
            run_due_jobs(&first, id);
        }
        first.search(&query("berth")).unwrap();
    }
    let again =
        open(folder.path(), Policy::default(), Arc::new(PrefixSummarizer::default()), clock);
    for query_text in ["how long is berth 12", "which boat", "Ana", "", "9 m", "noted"] {
        let (old, new) = (
            first.search(&query(query_text)).unwrap().hits,
            again.search(&query(query_text)).unwrap().hits,
        );
        let scores = |hits: &[Hit]| hits.iter().map(|hit| hit.score).collect::<Vec<_>>();
        assert_eq!((texts(&old), scores(&old)), (texts(&new), scores(&new)), "{query_text:?}");
        assert_eq!(
            texts(&new),
            texts(&again.search(&query(query_text)).unwrap().hits),
            "{query_text:?}"
        );
    }
}

#[test]
fn nodes_are_found_until_they_are_deleted() {
    let assignments = ["window_chars=300", "min_flush_chars=0"].map(|text| text.parse().unwrap());
    let (engine, _folder) = engine_with_policy(Policy::default().with(&assignments).unwrap());
    let mut id = None;
    for number in 0..4 {
        let text = format!(
            "Turn {number}: the tide gauge of pontoon {number} is read. {}",
            "Fine. ".repeat(20)
        );
        append(&engine, &line("one", Role::User, "Ana", number * 2, &text));
        id = Some(append(&engine, &line("one", Role::Assistant, "Juno", number * 2 + 1, &text)));
    }
    let id = id.unwrap();
    run_due_jobs(&engine, id);
    let nodes = Query { levels: vec![1], min_score: Some(0.0), ..query("tide gauge pontoon 2") };
    let found = engine.search(&nodes).unwrap().hits;
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|hit| hit.level() == 1));
    let hits = engine.search(&query("tide gauge")).unwrap().hits;
    assert!(hits.iter().any(|hit| hit.level() == 0) && hits.iter().any(|hit| hit.level() == 1));
    let in_main = Query { thread: Some(ThreadName::main()), ..nodes.clone() };
    assert_eq!(engine.search(&in_main).unwrap().hits.len(), 4, "nodes belong to a thread");

    engine.update(id, &Update { strategy: UpdateStrategy::Full, ..Update::default() }).unwrap();
    assert!(engine.search(&nodes).unwrap().hits.is_empty(), "the tree was deleted");
    run_due_jobs(&engine, id);
    assert_eq!(engine.search(&nodes).unwrap().hits.len(), 4, "each node once");
}

#[test]
fn authors_times_and_roles_affect_the_ranking() {
    let (engine, _folder) = engine_with_defaults();
    for (minute, author, text) in [
        (0, "Ana", "I like sailing most."),
        (1, "Yann", "I like sailing most."),
        (60 * 24 * 40, "Ana", "We met at the harbour."),
        (60 * 24 * 80, "Ana", "We met at the harbour."),
    ] {
        append(&engine, &line("one", Role::User, author, minute, text));
    }
    let best = |query_text: &str| {
        let hit = engine.search(&query(query_text)).unwrap().hits.remove(0);
        let HitItem::Message(message) = hit.item else { unreachable!("there are no nodes") };
        (message.body.author.unwrap(), message.idx.0)
    };
    assert_eq!(best("What does Yann like?").0, "Yann");
    assert_eq!(best("What does Ana like?").0, "Ana");
    let day = at(60 * 24 * 80).to_string();
    assert_eq!(best(&format!("Where did we meet on {}?", &day[..10])).1, 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_text_can_be_stored_and_searched(texts in proptest::collection::vec(text(), 1..6), query_text in text()) {
        let (engine, _folder) = engine_with_defaults();
        for (minute, text) in texts.iter().enumerate() {
            append(&engine, &line("one", Role::User, "Ana", minute as i64, text));
        }
        let hits = engine.search(&query(&query_text)).unwrap().hits;
        prop_assert!(hits.len() <= texts.len());
        for hit in hits {
            prop_assert!(hit.score.is_finite());
            prop_assert!(hit.snippet.text.chars().count() <= 242);
            let mark_chars = 2 * hit.snippet.matches.len();
            prop_assert_eq!(hit.snippet.marked("[", "]").len(), hit.snippet.text.len() + mark_chars);
        }
    }
}

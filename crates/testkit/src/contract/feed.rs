//! The store contract for the change feed, waiting for commits, and vectors.

#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use treering_core::ports::{Change, ChangeFilter, Changes, Cursor};
use treering_core::{
    ContentHash, ConversationId, JobEvent, JobEventKind, JobId, Json, MessageIdx, Role, Store,
    StoreError, TenantId, Timestamp, ToolResult, TurnNo, VectorIndex, Write,
};

use super::tree::node;
use super::{commit, commit_for, conversation, key, message, put, reader, tenant, tool_call};

/// Expands to one test per rule about the change feed; part of
/// [`store_contract!`](crate::store_contract).
#[macro_export]
macro_rules! feed_contract {
    ($new_store:expr) => {
        $crate::store_contract!(
            $new_store,
            feed,
            changes_come_in_the_order_of_their_commits,
            changes_are_paged_by_cursors,
            a_follower_misses_nothing_while_many_write,
            a_tool_call_comes_again_with_its_result,
            a_node_that_is_written_again_comes_again,
            log_lines_come_in_order,
            a_cursor_of_another_store_is_refused,
            a_commit_wakes_waiters,
            the_end_of_every_feed_is_known,
            a_history_is_known_by_its_messages,
            nodes_are_counted,
            vectors_are_kept_by_model_and_content,
            vectors_of_tenants_and_models_are_apart,
            the_vector_index_comes_back,
        );
    };
}

/// Every kind of change, with the vectors of model `a`.
const ALL: ChangeFilter<'static> = ChangeFilter {
    messages: true,
    tool_calls: true,
    nodes: true,
    job_events: true,
    vectors_of: Some("a"),
};

fn changes(store: &dyn Store, after: &Cursor, limit: usize) -> Changes {
    reader(store).changes(after, &ALL, limit).unwrap()
}

/// A short label for each change.
fn words(changes: &Changes) -> Vec<String> {
    let word = |change: &Change| match change {
        Change::Message(_, message) => message.body.text.clone(),
        Change::ToolCall(_, call) => {
            format!("call {}{}", call.order, if call.call.outcome.is_some() { " done" } else { "" })
        }
        Change::Node(_, node) => format!("node {}", node.ordinal()),
        Change::JobEvent(_, line) => line.text.clone(),
        Change::Vector(_, vector) => format!("vector {}", vector[0]),
        Change::Removed(id) => format!("removed {}", id.as_bytes()[0]),
    };
    changes.items.iter().map(word).collect()
}

/// Five commits of different kinds, and one of another tenant in between.
fn five_commits(store: &dyn Store) {
    put(store, 1);
    let id = key(1).id;
    commit(store, vec![Write::AddToolCall(id, tool_call(0, 0, None))]).unwrap();
    let it = conversation(2);
    let other = message(0, 0, Role::User, "theirs");
    let writes = vec![Write::PutConversation(it.clone()), Write::AddMessage(it.id, other)];
    commit_for(store, tenant("others"), writes).unwrap();
    commit(store, vec![Write::PutNode(id, Box::new(node(1, 7)))]).unwrap();
    commit(store, vec![Write::AddJobEvent(log_line(id, "line"))]).unwrap();
    let vectors =
        |model: &str, value: f32| Write::PutVectors(model.into(), vec![(hash(1), vec![value])]);
    commit(store, vec![vectors("b", 2.0), vectors("a", 1.0)]).unwrap();
}

pub fn changes_come_in_the_order_of_their_commits(store: &dyn Store) {
    five_commits(store);
    let all = changes(store, &Cursor::start(), 100);
    assert_eq!(words(&all), ["hello", "call 0", "node 7", "line", "vector 1"]);
    assert!(all.is_last);
    let only = |filter: &ChangeFilter<'_>| {
        words(&reader(store).changes(&Cursor::start(), filter, 100).unwrap())
    };
    assert_eq!(only(&ChangeFilter::content()), ["hello", "call 0", "node 7"]);
    assert_eq!(only(&ChangeFilter { job_events: true, ..ChangeFilter::default() }), ["line"]);
    assert_eq!(
        only(&ChangeFilter { vectors_of: Some("b"), ..ChangeFilter::default() }),
        ["vector 2"]
    );
    assert_eq!(only(&ChangeFilter { vectors_of: Some("c"), ..ChangeFilter::default() }), [""; 0]);
    let other =
        store.reader(&tenant("others")).unwrap().changes(&Cursor::start(), &ALL, 100).unwrap();
    assert_eq!(words(&other), ["theirs"]);
    let nobody =
        store.reader(&tenant("nobody")).unwrap().changes(&Cursor::start(), &ALL, 100).unwrap();
    assert_eq!((nobody.items, nobody.cursor, nobody.is_last), (vec![], Cursor::start(), true));
}

pub fn changes_are_paged_by_cursors(store: &dyn Store) {
    five_commits(store);
    for limit in 1..=6 {
        let (mut cursor, mut found, mut pages) = (Cursor::start(), Vec::new(), 0);
        loop {
            let page = changes(store, &cursor, limit);
            assert!(page.items.len() <= limit);
            found.extend(words(&page));
            cursor = page.cursor;
            pages += 1;
            assert!(pages < 20, "the cursor must advance");
            if page.is_last {
                break;
            }
        }
        assert_eq!(found, ["hello", "call 0", "node 7", "line", "vector 1"], "by {limit}");
        assert_eq!(changes(store, &cursor, limit).items, []);
    }
    let end = changes(store, &Cursor::start(), 100).cursor;
    commit(store, vec![Write::AddJobEvent(log_line(key(1).id, "later"))]).unwrap();
    assert_eq!(words(&changes(store, &end, 100)), ["later"]);
    let none = changes(store, &Cursor::start(), 0);
    assert_eq!((none.items.len(), none.cursor, none.is_last), (0, Cursor::start(), false));
}

/// Writers commit to several conversations concurrently while a follower reads small pages.
pub fn a_follower_misses_nothing_while_many_write(store: &dyn Store) {
    const WRITERS: u8 = 8;
    const EACH: u32 = 40;
    let done = AtomicBool::new(false);
    let mut followed: Vec<(u8, u32)> = Vec::new();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=WRITERS)
            .map(|number| {
                scope.spawn(move || {
                    put(store, number);
                    for idx in 1..EACH {
                        let message = message(idx, 0, Role::User, "x");
                        commit(store, vec![Write::AddMessage(key(number).id, message)]).unwrap();
                    }
                })
            })
            .collect();
        let follower = scope.spawn(|| {
            let (mut cursor, mut seen) = (Cursor::start(), Vec::new());
            loop {
                let was_done = done.load(Ordering::Acquire);
                let page = changes(store, &cursor, 7);
                seen.extend(page.items.iter().map(|change| match change {
                    Change::Message(id, message) => (id.as_bytes()[0], message.idx.0),
                    other => unreachable!("{other:?}"),
                }));
                cursor = page.cursor;
                if page.is_last && was_done {
                    return seen;
                }
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Release);
        followed = follower.join().unwrap();
    });
    for number in 1..=WRITERS {
        let of_one: Vec<u32> =
            followed.iter().filter(|(of, _)| *of == number).map(|(_, idx)| *idx).collect();
        assert_eq!(of_one, (0..EACH).collect::<Vec<_>>(), "conversation {number}");
    }
}

pub fn a_tool_call_comes_again_with_its_result(store: &dyn Store) {
    put(store, 1);
    let id = key(1).id;
    let calls = [0, 1].map(|order| Write::AddToolCall(id, tool_call(0, order, None)));
    commit(store, calls.to_vec()).unwrap();
    let before = changes(store, &Cursor::start(), 10);
    assert_eq!(words(&before), ["hello", "call 0", "call 1"]);
    for order in [1, 0] {
        let outcome = ToolResult { result: Json::string("ok"), success: None, duration_ms: None };
        commit(store, vec![Write::FinishToolCall(id, TurnNo(0), order, outcome)]).unwrap();
    }
    assert_eq!(words(&changes(store, &before.cursor, 10)), ["call 1 done", "call 0 done"]);
    assert_eq!(changes(store, &Cursor::start(), 10).items.len(), 3, "each item appears once");
}

pub fn a_node_that_is_written_again_comes_again(store: &dyn Store) {
    put(store, 1);
    let write = || Write::PutNode(key(1).id, Box::new(node(1, 0)));
    commit(store, vec![write()]).unwrap();
    let before = changes(store, &Cursor::start(), 10);
    commit(store, vec![write()]).unwrap();
    assert_eq!(words(&changes(store, &before.cursor, 10)), ["node 0"]);
    assert_eq!(words(&changes(store, &Cursor::start(), 10)), ["hello", "node 0"], "one each");
}

pub fn log_lines_come_in_order(store: &dyn Store) {
    put(store, 1);
    let lines = ["one", "two"].map(|text| Write::AddJobEvent(log_line(key(1).id, text)));
    commit(store, lines.to_vec()).unwrap();
    let of_none = JobEvent { conversation: None, ..log_line(key(1).id, "about no conversation") };
    commit(store, vec![Write::AddJobEvent(of_none)]).unwrap();
    let filter = ChangeFilter { job_events: true, ..ChangeFilter::default() };
    let all = reader(store).changes(&Cursor::start(), &filter, 10).unwrap();
    assert_eq!(words(&all), ["one", "two"]);
    assert_eq!(all.items[0], Change::JobEvent(key(1).id, log_line(key(1).id, "one")));
}

pub fn a_cursor_of_another_store_is_refused(store: &dyn Store) {
    put(store, 1);
    let foreign: Cursor = "no-cursor-of-ours".parse().unwrap();
    let refused = reader(store).changes(&foreign, &ALL, 10).unwrap_err();
    assert!(matches!(refused, StoreError::Refused(_)), "{refused}");
}

pub fn a_commit_wakes_waiters(store: &dyn Store) {
    const LONG: Duration = Duration::from_secs(60);
    let seen = store.revision();
    // The first wait may return at once, because it may report an earlier commit.
    let seen = store.wait(seen, Duration::from_millis(1));
    assert_eq!(store.wait(seen, Duration::from_millis(1)), seen, "nothing was committed");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || store.wait(seen, LONG));
        put(store, 1);
        assert_ne!(waiting.join().unwrap(), seen);
    });
    assert_ne!(store.wait(seen, LONG), seen, "a commit before the call counts");
}

pub fn the_end_of_every_feed_is_known(store: &dyn Store) {
    five_commits(store);
    let mut cursors = store.cursors().unwrap();
    cursors.sort_by(|a, b| a.0.cmp(&b.0));
    let end = |tenant: &TenantId| {
        store.reader(tenant).unwrap().changes(&Cursor::start(), &ALL, 100).unwrap().cursor
    };
    let tenants = [TenantId::default(), tenant("others")];
    assert_eq!(cursors, tenants.map(|tenant| (tenant.clone(), end(&tenant))));
}

pub fn a_history_is_known_by_its_messages(store: &dyn Store) {
    put(store, 1);
    let early = changes(store, &Cursor::start(), 10).cursor;
    let history = |at: &Cursor| reader(store).history(at).unwrap();
    let before = history(&early);
    assert!(before.is_some());
    let more = |idx, text| Write::AddMessage(key(1).id, message(1, idx, Role::User, text));
    commit(store, vec![more(1, "more")]).unwrap();
    let late = changes(store, &early, 10).cursor;
    assert_eq!(history(&early), before, "later commits do not change it");
    assert_ne!(history(&late), before);
    commit(store, vec![Write::PutNode(key(1).id, Box::new(node(1, 0)))]).unwrap();
    assert_eq!(history(&early), before);
    let others = store.reader(&tenant("others")).unwrap();
    assert_eq!(others.history(&late).unwrap(), None, "the feed of the others ends earlier");
}

pub fn nodes_are_counted(store: &dyn Store) {
    put(store, 1);
    let count = || reader(store).node_count().unwrap();
    assert_eq!(count(), 0);
    let write = |ordinal| Write::PutNode(key(1).id, Box::new(node(1, ordinal)));
    commit(store, vec![write(0), write(1), write(0)]).unwrap();
    assert_eq!(count(), 2);
    assert_eq!(store.reader(&tenant("others")).unwrap().node_count().unwrap(), 0);
    commit(store, vec![Write::DropTree(key(1).id, treering_core::Level::FIRST)]).unwrap();
    assert_eq!(count(), 0);
}

fn log_line(conversation: ConversationId, text: &str) -> JobEvent {
    let (at, job, event) = (Timestamp::from_micros(5), JobId(hash(7)), JobEventKind::Acquire);
    JobEvent {
        at,
        conversation: Some(conversation),
        job,
        kind: event,
        text: text.into(),
        took_ms: Some(3),
    }
}

fn hash(number: u8) -> ContentHash {
    ContentHash::of_fields(&[&[number]])
}

pub fn vectors_are_kept_by_model_and_content(store: &dyn Store) {
    let exact = vec![0.1_f32, -1.0, f32::MIN_POSITIVE, 1e-20];
    let first = vec![(hash(1), exact.clone()), (hash(2), vec![0.5])];
    commit(store, vec![Write::PutVectors("a".into(), first)]).unwrap();
    let again = vec![(hash(1), vec![9.0]), (hash(3), vec![0.25])];
    commit(store, vec![Write::PutVectors("a".into(), again)]).unwrap();
    let hashes = [hash(3), hash(4), hash(1)];
    let found = reader(store).vectors("a", &hashes).unwrap();
    assert_eq!(
        found,
        [Some(vec![0.25]), None, Some(exact.clone())],
        "the first vector stays, bit for bit"
    );
    let all = changes(store, &Cursor::start(), 9).items;
    let expected = [(hash(1), exact), (hash(2), vec![0.5]), (hash(3), vec![0.25])];
    assert_eq!(all, expected.map(|(hash, vector)| Change::Vector(hash, vector)));
    let remove = vec![
        Write::RemoveVectors("a".into(), vec![hash(1), hash(4)]),
        Write::RemoveVectors("b".into(), vec![hash(3)]),
    ];
    commit(store, remove).unwrap();
    let left = reader(store).vectors("a", &hashes).unwrap();
    assert_eq!(
        left,
        [Some(vec![0.25]), None, None],
        "only the model's vectors of these contents are removed"
    );
}

pub fn vectors_of_tenants_and_models_are_apart(store: &dyn Store) {
    let others = tenant("others");
    let put = |model: &str| vec![Write::PutVectors(model.into(), vec![(hash(1), vec![1.0])])];
    commit(store, put("a")).unwrap();
    commit(store, put("b")).unwrap();
    commit_for(store, others.clone(), put("a")).unwrap();
    commit(store, vec![Write::DropVectors("a".into())]).unwrap();
    let is_stored = |tenant: &TenantId, model: &str| {
        store.reader(tenant).unwrap().vectors(model, &[hash(1)]).unwrap()[0].is_some()
    };
    assert!(!is_stored(&TenantId::default(), "a"));
    assert!(is_stored(&TenantId::default(), "b") && is_stored(&others, "a"));
    assert!(!is_stored(&others, "b"));
}

pub fn the_vector_index_comes_back(store: &dyn Store) {
    put(store, 1);
    commit(store, vec![Write::AddMessage(key(1).id, message(1, 0, Role::User, "more"))]).unwrap();
    assert_eq!(
        reader(store).messages(key(1).id, super::everything(MessageIdx(0))).unwrap().len(),
        2
    );
    let read = || reader(store).vector_index().unwrap();
    assert_eq!(read(), None);
    let done = changes(store, &Cursor::start(), 1).cursor;
    for index in [
        VectorIndex::of("a"),
        VectorIndex::of("a").rebuilding_for("b").advanced("b", done),
        VectorIndex::of("a").rebuilding_for("b"),
        VectorIndex::of("a").rebuilding_for("b").cut_over(),
    ] {
        commit(store, vec![Write::PutVectorIndex(index.clone())]).unwrap();
        assert_eq!(read(), Some(index));
    }
    assert_eq!(store.reader(&tenant("others")).unwrap().vector_index().unwrap(), None);
}

//! The change feed while transactions overlap.

use std::time::{Duration, Instant};

use treering_core::ports::{Change, ChangeFilter, Changes, Cursor};
use treering_core::{CommitScope, Reader, Store, TenantId};
use treering_testkit::contract::writers::{add_next, next_message};
use treering_testkit::contract::{key, put};

use crate::server::new_store;

const MESSAGES: ChangeFilter<'static> = ChangeFilter {
    messages: true,
    tool_calls: false,
    nodes: false,
    job_events: false,
    vectors_of: None,
};

fn changes(store: &dyn Store, after: &Cursor) -> Changes {
    store.reader(&TenantId::default()).unwrap().changes(after, &MESSAGES, 100).unwrap()
}

fn conversations(changes: &Changes) -> Vec<u8> {
    let number = |change: &Change| match change {
        Change::Message(id, _) => id.as_bytes()[0],
        other => panic!("{other:?}"),
    };
    changes.items.iter().map(number).collect()
}

/// A transaction takes its number first and commits last. A reader that asks for everything after the largest number it
/// has seen never reads it.
#[test]
fn a_change_that_commits_late_is_not_missed() {
    let (store, schema) = new_store();
    put(&store, 1);
    put(&store, 2);
    let before = changes(&store, &Cursor::start());
    assert_eq!(conversations(&before), [1, 2]);
    let blocker = schema.connect();
    blocker.execute("SET treering.tenant = '*'");
    blocker.execute("BEGIN");
    blocker.execute("SELECT FROM conversations WHERE slug = 'slug-1' FOR UPDATE");
    let naive = schema.connect();
    naive.execute("SET treering.tenant = '*'");
    let numbers = |order: &str| -> i64 {
        let sql = format!("SELECT seq FROM messages WHERE idx = 1 ORDER BY seq {order} LIMIT 1");
        naive.first(&sql).unwrap().parse().unwrap()
    };
    std::thread::scope(|scope| {
        // This commit has its number, and waits for the row.
        let late = scope.spawn(|| add_next(&store));
        let blocked = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))";
        while blocker.first(blocked).unwrap() == "0" {
            std::thread::sleep(Duration::from_millis(5));
        }
        let plan = |reader: &dyn Reader| next_message(reader, 2);
        store.commit(CommitScope::Conversation(key(2)), Box::new(plan)).unwrap();
        let seen_by_naive = numbers("DESC");
        let page = changes(&store, &before.cursor);
        assert_eq!(conversations(&page), [0_u8; 0], "nothing is read before an earlier number");
        blocker.execute("COMMIT");
        late.join().unwrap();
        assert!(numbers("ASC") < seen_by_naive, "a naive reader has passed the late change");
        assert_eq!(conversations(&changes(&store, &page.cursor)), [1, 2]);
    });
}

/// A transaction of another program that stays open for long does not hold the feed back.
#[test]
fn transactions_of_others_do_not_hold_the_feed_back() {
    let (store, schema) = new_store();
    put(&store, 1);
    let other = schema.connect();
    other.execute("BEGIN");
    other.execute("SELECT pg_current_xact_id()");
    put(&store, 2);
    let started = Instant::now();
    assert_eq!(conversations(&changes(&store, &Cursor::start())), [1, 2]);
    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
    other.execute("ROLLBACK");
}

/// A commit of one process wakes the waiting callers of another.
#[test]
fn commits_of_other_processes_are_noticed() {
    let (store, schema) = new_store();
    let other = schema.open();
    let seen = other.revision();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let started = Instant::now();
            let seen = other.wait(seen, Duration::from_secs(20));
            (seen, started.elapsed())
        });
        std::thread::sleep(Duration::from_millis(50));
        put(&store, 1);
        let (revision, waited) = waiting.join().unwrap();
        assert_ne!(revision, seen);
        assert!(waited < Duration::from_secs(2), "{waited:?}");
    });
}

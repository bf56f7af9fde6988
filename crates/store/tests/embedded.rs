//! The embedded store keeps the contract of stores, opens old files, and leaves others alone.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use tempfile::TempDir;
use treering_core::ports::{JobFilter, LogFilter, Span, SpendFilter};
use treering_core::{
    Commit, ConversationId, ConversationKey, MessageIdx, Store, StoreError, TenantId, Timestamp, Write,
};
use treering_store::{EmbeddedStore, Sync};
use treering_testkit::{contract, contract_writers, store_contract};

fn fresh() -> (EmbeddedStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (EmbeddedStore::open(folder.path(), Sync::Full).unwrap(), folder)
}

mod synced_in_full {
    use super::*;
    store_contract!(fresh());
}

mod synced_normally {
    use super::*;

    fn fresh() -> (EmbeddedStore, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (EmbeddedStore::open(folder.path(), Sync::Normal).unwrap(), folder)
    }

    store_contract!(fresh());
}

/// Every released schema leaves a store behind; this program opens all of them.
#[test]
fn stores_of_every_released_version_open() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut opened = 0;
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(entry.unwrap().path(), folder.path().join(EmbeddedStore::FILE)).unwrap();
        let store = EmbeddedStore::open(folder.path(), Sync::Full).unwrap();
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
        let (conversations, totals) = store.reader().unwrap().totals(&TenantId::default()).unwrap();
        assert_eq!((conversations, totals.messages, totals.tool_calls), (1, 279, 88));
        opened += 1;
    }
    assert_eq!(opened, 7);
}

/// A store that was kept from an older version.
fn kept(name: &str) -> (EmbeddedStore, TempDir) {
    let fixture = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(fixture, folder.path().join(EmbeddedStore::FILE)).unwrap();
    (EmbeddedStore::open(folder.path(), Sync::Full).unwrap(), folder)
}

/// What is to be done in the stores that were kept for it.
const TO_BE_DONE: [&str; 3] = [
    "embed turn 70 at 70",
    "summarise messages #245–#260 (level 1) at 16",
    "embed node l1-e79131b4db10b0cf-20260409 at 16",
];

/// Opens a store in a folder and does away with its jobs, of every kind; tells what they worked on.
fn do_jobs(folder: &Path) -> Vec<String> {
    let store = EmbeddedStore::open(folder, Sync::Full).unwrap();
    let tenant = TenantId::default();
    let jobs = store.reader().unwrap().jobs(&tenant, &JobFilter::all(usize::MAX)).unwrap();
    for job in &jobs {
        let conversation = JobFilter::of(job.conversation);
        assert!(store.reader().unwrap().jobs(&tenant, &conversation).unwrap().contains(job));
        assert_eq!(store.reader().unwrap().job(&tenant, job).unwrap().as_ref(), Some(job));
        let writes = vec![Write::AddJob(job.clone()), Write::RemoveJob(job.clone())];
        let commit = Commit { tenant: tenant.clone(), writes };
        store.commit(Box::new(move |_| Ok(commit.clone()))).unwrap();
        assert_eq!(store.reader().unwrap().job(&tenant, job).unwrap(), None);
    }
    assert_eq!(store.reader().unwrap().jobs(&tenant, &JobFilter::all(1)).unwrap(), []);
    jobs.iter().map(|job| format!("{} at {}", job.kind, job.kind.place())).collect()
}

/// Until version 6 jobs did not have the place of what they work on.
#[test]
fn what_was_to_be_done_in_a_store_of_version_6_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(EmbeddedStore::FILE);
    std::fs::copy(format!("{}/tests/fixtures/schema-0006.sqlite", env!("CARGO_MANIFEST_DIR")), &path)
        .unwrap();
    let job = "INSERT INTO jobs (conversation, id, kind, height, state, moment, failures, planned_at, work)
        SELECT 1, unhex(printf('%032x', pk * 3 + KIND)), KIND, HEIGHT, 0, 0, 0, 0, WORK FROM nodes
        WHERE conversation = 1 AND level = 1 AND ordinal = 16";
    let kinds = [("0", "0", "'70'"), ("1", "1", "task"), ("2", "1", "json_quote(id)")];
    for (kind, height, work) in kinds {
        let sql = job.replace("KIND", kind).replace("HEIGHT", height).replace("WORK", work);
        assert_eq!(rusqlite::Connection::open(&path).unwrap().execute(&sql, []).unwrap(), 1);
    }
    assert_eq!(do_jobs(folder.path()), TO_BE_DONE);
}

#[test]
fn what_is_to_be_done_in_a_store_of_version_7_is_found() {
    let (store, folder) = kept("schema-0007.sqlite");
    drop(store);
    assert_eq!(do_jobs(folder.path()), TO_BE_DONE);
}

/// Conversations that took turns, some of whose messages have their places in the table and some in the
/// conversation's own row.
#[test]
fn what_was_said_in_a_store_of_version_6_is_there() {
    let (store, _folder) = kept("schema-0006.sqlite");
    let (reader, tenant) = (store.reader().unwrap(), TenantId::new("other").unwrap());
    for slug in ["one-asks-1", "two-asks-1"] {
        let id = reader.conversation_by_slug(&tenant, slug).unwrap().unwrap().id;
        let key = ConversationKey { tenant: tenant.clone(), id };
        let said = reader.messages(&key, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
        let said: Vec<&str> = said.iter().map(|message| message.said.text.as_str()).collect();
        let expected = |turn| [format!("{} asks {turn}", &slug[..3]), format!("answer {turn}")];
        assert_eq!(said, (1..=20).flat_map(expected).collect::<Vec<_>>());
    }
}

/// Messages that cannot be found, or not where they should be, and conversations that are out of order are told of by a
/// check; after a repair all is in its place again.
#[test]
fn what_is_out_of_place_is_found_out_and_put_back() {
    let (store, folder) = kept("schema-0006.sqlite");
    let tenant = TenantId::new("other").unwrap();
    let said = |slug: &str| {
        let reader = store.reader().unwrap();
        let id = reader.conversation_by_slug(&tenant, slug).unwrap().unwrap().id;
        let key = ConversationKey { tenant: tenant.clone(), id };
        reader.messages(&key, Span::starting(MessageIdx(0), usize::MAX)).unwrap()
    };
    let both = || (said("one-asks-1"), said("two-asks-1"));
    let before = both();
    let connection = rusqlite::Connection::open(folder.path().join(EmbeddedStore::FILE)).unwrap();
    let lost = |slug: &str, placed: u32| {
        format!("conversation {slug}: 40 messages are stored, and {placed} have a place")
    };
    let moved = |slug: &str| format!("conversation {slug}: its 40 messages are not where their places say");
    let damages = [
        ("UPDATE conversations SET latest = '[]' WHERE slug = 'two-asks-1'", vec![lost("two-asks-1", 32)]),
        (
            "UPDATE places SET runs = json_remove(runs, '$[2]') WHERE idx = 0",
            vec![lost("one-asks-1", 38), lost("two-asks-1", 38)],
        ),
        (
            "UPDATE places SET runs = json_set(runs, '$[3][1]', 1 + (runs ->> '$[3][1]')) WHERE idx = 0",
            vec![moved("one-asks-1"), moved("two-asks-1")],
        ),
        ("DELETE FROM places WHERE conversation > 1", vec![lost("one-asks-1", 0), lost("two-asks-1", 0)]),
        (
            "UPDATE conversations SET hour = hour + 1 WHERE slug = 'two-asks-1'",
            vec!["conversation two-asks-1: it is not listed by the hour of its last activity".into()],
        ),
    ];
    for (damage, expected) in damages {
        connection.execute(damage, []).unwrap();
        assert_eq!(store.check().unwrap(), expected, "{damage}");
        let repaired = store.repair().unwrap();
        assert_eq!(repaired.len(), expected.len(), "{repaired:?}");
        assert_eq!(store.check().unwrap(), Vec::<String>::new(), "{damage}");
        assert!(both() == before, "{damage}");
    }
}

#[test]
fn what_was_asked_in_a_store_of_version_5_is_there() {
    let (store, _folder) = kept("schema-0005.sqlite");
    let reader = store.reader().unwrap();
    let taken = reader.taken("openai", Timestamp::from_micros(0)).unwrap();
    assert_eq!(taken.iter().map(|taken| (taken.calls, taken.tokens)).collect::<Vec<_>>(), [(2, 1450)]);
    let newest = LogFilter { conversation: None, job_prefix: None, limit: 1 };
    let line = reader.log(&TenantId::default(), &newest).unwrap().pop().unwrap();
    assert!(line.conversation.is_none() && line.text.contains("1 × API key"), "{line:?}");
}

#[test]
fn what_was_spent_in_a_store_of_version_4_is_there() {
    let (store, _folder) = kept("schema-0004.sqlite");
    let spent = store.reader().unwrap().spent(&TenantId::default(), &SpendFilter::default()).unwrap();
    let spent: Vec<_> =
        spent.iter().map(|(model, spent)| (model.as_str(), spent.calls, spent.money.0)).collect();
    assert_eq!(spent, [("openai/gpt-4o-mini", 3, 990_000), ("openai/text-embedding-3-small", 1, 240)]);
}

#[test]
fn a_store_from_the_future_is_left_alone() {
    let (store, folder) = fresh();
    drop(store);
    let path = folder.path().join(EmbeddedStore::FILE);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let error = EmbeddedStore::open(folder.path(), Sync::Full).err().unwrap();
    assert!(matches!(error, StoreError::TooNew { found: 999, .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// What a store keeps of the conversations it wrote is what is in the file, whoever wrote there.
#[test]
fn a_plan_sees_what_others_committed_before() {
    let (one, folder) = fresh();
    let other = EmbeddedStore::open(folder.path(), Sync::Full).unwrap();
    contract::commits_are_seen_at_once(&one);
    for store in [&one, &other, &other, &one, &other, &one, &one] {
        contract_writers::add_next(store);
    }
    let key = ConversationKey { tenant: TenantId::default(), id: ConversationId::from_bytes([1; 16]) };
    let counted = |store: &EmbeddedStore| {
        let reader = store.reader().unwrap();
        let messages = reader.messages(&key, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
        assert!(messages.iter().map(|message| message.idx.0).eq(0..8));
        reader.conversation(&key).unwrap().unwrap().totals.messages
    };
    assert_eq!((counted(&one), counted(&other)), (8, 8));
}

/// The log is carried over into the file from 4,000 pages on; at 8,000, writers wait for it.
#[test]
fn the_log_does_not_grow_without_end() {
    const LONGEST: u64 = 9000 * 4120;
    for writers in [1, 8] {
        let (store, folder) = fresh();
        let log = folder.path().join(format!("{}-wal", EmbeddedStore::FILE));
        contract_writers::write_much(&store, writers, 60_000_000);
        let length = std::fs::metadata(log).unwrap().len();
        assert!(length < LONGEST, "{writers} writers left a log of {length} bytes");
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_store_that_was_closed_is_one_file() {
    let (store, folder) = fresh();
    contract::commits_are_seen_at_once(&store);
    drop(store);
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [EmbeddedStore::FILE]);
}

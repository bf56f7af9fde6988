//! The embedded store passes the contract suite, opens files of every released version, and
//! refuses those of a newer one.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use tempfile::TempDir;
use treering_core::ports::{JobEventFilter, JobFilter, Span, SpendFilter};
use treering_core::{
    CommitScope, ConversationId, ExternalId, MessageIdx, Reader, Store, StoreError, TenantId,
    Timestamp, Tombstone, TurnNo, Write,
};
use treering_stores::{EmbeddedStore, Sync};
use treering_testkit::contract::{basics, key, put, writers};
use treering_testkit::store_contract;

fn new_store() -> (EmbeddedStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (EmbeddedStore::open(folder.path(), Sync::Full).unwrap(), folder)
}

fn reader(store: &EmbeddedStore) -> Box<dyn Reader + '_> {
    store.reader(&TenantId::default()).unwrap()
}

mod synced_in_full {
    use super::*;
    store_contract!(new_store());
    treering_testkit::tenants_contract!(new_store());
}

mod synced_normally {
    use super::*;

    fn new_store() -> (EmbeddedStore, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (EmbeddedStore::open(folder.path(), Sync::Normal).unwrap(), folder)
    }

    store_contract!(new_store());
}

/// Every released schema leaves a fixture; this version opens all of them.
#[test]
fn stores_of_every_released_version_open() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut opened = 0;
    for entry in std::fs::read_dir(fixtures).unwrap().map(Result::unwrap) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(entry.path(), folder.path().join(EmbeddedStore::FILE)).unwrap();
        let store = EmbeddedStore::open(folder.path(), Sync::Full).unwrap();
        assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
        let (conversations, totals) = store.reader(&TenantId::default()).unwrap().totals().unwrap();
        let expected = match entry.file_name().to_string_lossy().as_ref() {
            "schema-0008.sqlite" | "schema-0009.sqlite" | "schema-0010.sqlite"
            | "schema-0011.sqlite" | "schema-0012.sqlite" => (2, 18, 8),
            _ => (1, 279, 88),
        };
        assert_eq!((conversations, totals.messages, totals.tool_calls), expected);
        opened += 1;
    }
    assert_eq!(opened, 12);
}

/// A copy of a store of an older version is a valid backup.
#[test]
fn backups_of_every_released_version_are_restored() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let (folder, backup) = (tempfile::tempdir().unwrap(), entry.unwrap().path());
        let contents = EmbeddedStore::inspect_backup(&backup).unwrap();
        assert_eq!(EmbeddedStore::restore(folder.path(), &backup).unwrap(), None);
        let store = EmbeddedStore::open(folder.path(), Sync::Full).unwrap();
        let tenants = store.maintenance().tenants().unwrap();
        let totals = tenants.iter().map(|tenant| store.reader(tenant).unwrap().totals().unwrap());
        let sums = totals.fold((0, 0), |sums, (conversations, totals)| {
            (sums.0 + conversations, sums.1 + totals.messages)
        });
        assert_eq!((contents.conversations, contents.messages), (sums.0.into(), sums.1.into()));
    }
}

/// Opens a copy of a fixture.
fn kept(name: &str) -> (EmbeddedStore, TempDir) {
    let fixture = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(fixture, folder.path().join(EmbeddedStore::FILE)).unwrap();
    (EmbeddedStore::open(folder.path(), Sync::Full).unwrap(), folder)
}

/// The jobs in the fixtures of versions 6 and 7.
const QUEUED_JOBS: [&str; 3] = [
    "embed turn 70 at 70",
    "summarize messages #245–#260 (level 1) at 16",
    "embed node l1-e79131b4db10b0cf-20260409 at 16",
];

/// Opens the store in a folder and removes its jobs, of every kind. Returns a description of
/// each.
fn do_jobs(folder: &Path) -> Vec<String> {
    let store = EmbeddedStore::open(folder, Sync::Full).unwrap();
    let tenant = TenantId::default();
    let jobs = store.reader(&tenant).unwrap().jobs(&JobFilter::all(usize::MAX)).unwrap();
    for job in &jobs {
        let conversation = JobFilter::of(job.conversation);
        assert!(store.reader(&tenant).unwrap().jobs(&conversation).unwrap().contains(job));
        assert_eq!(store.reader(&tenant).unwrap().job(job).unwrap().as_ref(), Some(job));
        let writes = vec![Write::AddJob(job.clone()), Write::RemoveJob(job.clone())];
        store
            .commit(CommitScope::Tenant(tenant.clone()), Box::new(move |_| Ok(writes.clone())))
            .unwrap();
        assert_eq!(store.reader(&tenant).unwrap().job(job).unwrap(), None);
    }
    assert_eq!(store.reader(&tenant).unwrap().jobs(&JobFilter::all(1)).unwrap(), []);
    jobs.iter().map(|job| format!("{} at {}", job.kind, job.kind.position())).collect()
}

/// Jobs of version 6 have no `place` column.
#[test]
fn jobs_survive_the_migration_from_version_6() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(EmbeddedStore::FILE);
    std::fs::copy(
        format!("{}/tests/fixtures/schema-0006.sqlite", env!("CARGO_MANIFEST_DIR")),
        &path,
    )
    .unwrap();
    let job = "INSERT INTO jobs (conversation, id, kind, height, state, moment, failures, planned_at, work)
        SELECT 1, unhex(printf('%032x', pk * 3 + KIND)), KIND, HEIGHT, 0, 0, 0, 0, WORK FROM nodes
        WHERE conversation = 1 AND level = 1 AND ordinal = 16";
    let kinds = [("0", "0", "'70'"), ("1", "1", "task"), ("2", "1", "json_quote(id)")];
    for (kind, height, work) in kinds {
        let sql = job.replace("KIND", kind).replace("HEIGHT", height).replace("WORK", work);
        assert_eq!(rusqlite::Connection::open(&path).unwrap().execute(&sql, []).unwrap(), 1);
    }
    assert_eq!(do_jobs(folder.path()), QUEUED_JOBS);
}

#[test]
fn jobs_survive_the_migration_from_version_7() {
    let (store, folder) = kept("schema-0007.sqlite");
    drop(store);
    assert_eq!(do_jobs(folder.path()), QUEUED_JOBS);
}

/// The fixture of the first release with this schema, written by
/// `crates/engine/tests/fixtures.rs`.
#[test]
fn a_store_of_version_8_is_read_completely() {
    let (store, folder) = kept("schema-0008.sqlite");
    let other = store.reader(&TenantId::new("acme").unwrap()).unwrap();
    let conversation = other.conversation_by_slug("depot").unwrap().unwrap();
    assert_eq!(
        (conversation.totals.messages, conversation.totals.turns, conversation.totals.tool_calls),
        (6, 3, 3)
    );
    drop(other);
    let reader = reader(&store);
    let harbour = reader.conversation_by_slug("harbour").unwrap().unwrap();
    assert_eq!(harbour.threads.len(), 2);
    let messages = reader.messages(harbour.id, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
    assert_eq!(messages[13].body.text, "Then it reads 0.2 m less.");
    let calls = reader.tool_calls(harbour.id, Span::starting(TurnNo(0), usize::MAX)).unwrap();
    let outcome = calls[5].call.outcome.as_ref().unwrap();
    assert_eq!(
        (calls.len(), outcome.success, outcome.result.to_text().as_ref()),
        (6, Some(true), "5.4 m at berth 5")
    );
    let levels = reader.level_totals(Some(harbour.id)).unwrap();
    assert_eq!(levels.iter().map(|level| level.nodes).collect::<Vec<_>>(), [5, 2]);
    assert_eq!(reader.vector_index().unwrap().unwrap().model, "bags");
    let spent = reader.ledger().spent(&SpendFilter::default()).unwrap();
    assert_eq!(
        spent.iter().map(|(_, spent)| (spent.calls, spent.money.0)).collect::<Vec<_>>(),
        [(4, 414_000)]
    );
    let newest = JobEventFilter { conversation: Some(harbour.id), job_prefix: None, limit: 1 };
    assert!(reader.job_events(&newest).unwrap()[0].text.starts_with("embed node"));
    drop(reader);
    drop(store);
    let kinds = ["embed turn 0 at 0", "embed turn 1 at 1", "summarize messages", "embed node"];
    let jobs = do_jobs(folder.path());
    assert!(
        jobs.len() == 4 && kinds.iter().all(|kind| jobs.iter().any(|job| job.starts_with(kind))),
        "{jobs:?}"
    );
}

/// The store of version 8 with a forgotten turn, whose bytes are still in the file.
#[test]
fn a_store_of_version_9_keeps_what_was_forgotten() {
    let (store, _folder) = kept("schema-0009.sqlite");
    let reader = reader(&store);
    let harbour = reader.conversation_by_slug("harbour").unwrap().unwrap();
    let messages = reader.messages(harbour.id, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
    let forgotten = messages.iter().filter(|it| it.body.forgotten).map(|it| it.idx.0);
    assert_eq!(forgotten.collect::<Vec<_>>(), [2, 3]);
    let records = reader.audit().records("", 9).unwrap();
    assert_eq!((records.len(), records[0].erased().tool_calls), (1, 1));
    let item = Tombstone::Item(harbour.id, ExternalId::new("harbour-ask-1").unwrap());
    assert_eq!(reader.audit().are_forgotten(&[item]).unwrap(), [true]);
    assert_eq!(store.maintenance().pending_scrubs().unwrap(), 1);
}

/// The store of version 9, with labels.
#[test]
fn a_store_of_version_10_keeps_labels() {
    let labels = |fixture: &str| {
        let (store, _folder) = kept(fixture);
        let harbour = reader(&store).conversation_by_slug("harbour").unwrap().unwrap();
        harbour.labels.to_string()
    };
    assert_eq!(labels("schema-0010.sqlite"), "source=codex, user=42");
    assert_eq!(labels("schema-0009.sqlite"), "");
}

/// The store of version 11 with a correction that was replaced, whose text version 11 did not keep.
#[test]
fn a_store_of_version_12_keeps_replaced_corrections() {
    let corrections = |fixture: &str| -> Vec<Option<String>> {
        let (store, _folder) = kept(fixture);
        let reader = reader(&store);
        let harbour = reader.conversation_by_slug("harbour").unwrap().unwrap();
        let span = Span::between(MessageIdx(1), MessageIdx(2));
        let versions = reader.versions(harbour.id, span).unwrap();
        versions.into_iter().map(|(_, it)| it.correction.and_then(|it| it.text)).collect()
    };
    assert_eq!(corrections("schema-0011.sqlite"), [None]);
    assert_eq!(corrections("schema-0012.sqlite"), [None, Some("It is berth 13.".into())]);
}

/// Interleaved conversations: some message positions are in the table `places`, others in the
/// conversation's own row.
#[test]
fn messages_survive_the_migration_from_version_6() {
    let (store, _folder) = kept("schema-0006.sqlite");
    let reader = store.reader(&TenantId::new("other").unwrap()).unwrap();
    for slug in ["one-asks-1", "two-asks-1"] {
        let id = reader.conversation_by_slug(slug).unwrap().unwrap().id;
        let messages = reader.messages(id, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
        let messages: Vec<&str> =
            messages.iter().map(|message| message.body.text.as_str()).collect();
        let expected = |turn| [format!("{} asks {turn}", &slug[..3]), format!("answer {turn}")];
        assert_eq!(messages, (1..=20).flat_map(expected).collect::<Vec<_>>());
    }
}

#[test]
fn requests_survive_the_migration_from_version_5() {
    let (store, _folder) = kept("schema-0005.sqlite");
    let reader = store.reader(&TenantId::default()).unwrap();
    let requests = reader.ledger().requests_since("openai", Timestamp::from_micros(0)).unwrap();
    assert_eq!(
        requests.iter().map(|request| (request.calls, request.tokens)).collect::<Vec<_>>(),
        [(2, 1450)]
    );
    let newest = JobEventFilter { conversation: None, job_prefix: None, limit: 1 };
    let line = reader.job_events(&newest).unwrap().pop().unwrap();
    assert!(line.conversation.is_none() && line.text.contains("1 × API key"), "{line:?}");
}

#[test]
fn spending_survives_the_migration_from_version_4() {
    let (store, _folder) = kept("schema-0004.sqlite");
    let spent = reader(&store).ledger().spent(&SpendFilter::default()).unwrap();
    let spent: Vec<_> =
        spent.iter().map(|(model, spent)| (model.as_str(), spent.calls, spent.money.0)).collect();
    assert_eq!(
        spent,
        [("openai/gpt-4o-mini", 3, 990_000), ("openai/text-embedding-3-small", 1, 240)]
    );
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let (store, folder) = new_store();
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

#[test]
fn a_plan_sees_earlier_commits() {
    let (first, folder) = new_store();
    let second = EmbeddedStore::open(folder.path(), Sync::Full).unwrap();
    basics::commits_are_seen_at_once(&first);
    for store in [&first, &second, &second, &first, &second, &first, &first] {
        writers::add_next(store);
    }
    let id = ConversationId::from_bytes([1; 16]);
    let counted = |store: &EmbeddedStore| {
        let reader = reader(store);
        let messages = reader.messages(id, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
        assert!(messages.iter().map(|message| message.idx.0).eq(0..8));
        reader.conversation(id).unwrap().unwrap().totals.messages
    };
    assert_eq!((counted(&first), counted(&second)), (8, 8));
}

/// A checkpoint starts at 1,000 WAL pages; from 4,000 on, writers wait for it.
#[test]
fn the_size_of_the_wal_is_bounded() {
    const LONGEST: u64 = 9000 * 4120;
    for writers in [1, 8] {
        let (store, folder) = new_store();
        let log = folder.path().join(format!("{}-wal", EmbeddedStore::FILE));
        writers::write_much(&store, writers, 60_000_000);
        let length = std::fs::metadata(log).unwrap().len();
        assert!(length < LONGEST, "{writers} writers left a log of {length} bytes");
        assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_closed_store_is_one_file_and_its_locks() {
    let (store, folder) = new_store();
    basics::commits_are_seen_at_once(&store);
    drop(store);
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [EmbeddedStore::FILE, "treering.lock", "treering.opening"]);
}

#[test]
fn a_reader_sees_one_snapshot() {
    let (store, _folder) = new_store();
    put(&store, 1);
    let before = reader(&store);
    assert_eq!(before.totals().unwrap().0, 1);
    put(&store, 2);
    assert_eq!(before.totals().unwrap().0, 1);
    assert_eq!(before.conversation(key(2).id).unwrap(), None);
    assert_eq!(reader(&store).totals().unwrap().0, 2);
}

/// A session by id and by folder, the latest sessions, a message, and the nodes of a level are
/// found by an index or a key.
#[test]
fn look_ups_use_an_index() {
    let folder = tempfile::tempdir().unwrap();
    drop(EmbeddedStore::open(folder.path(), Sync::Full).unwrap());
    let database = rusqlite::Connection::open(folder.path().join(EmbeddedStore::FILE)).unwrap();
    for look_up in [
        "SELECT * FROM conversations WHERE tenant = 1 AND id = x'00'",
        "SELECT * FROM conversations WHERE tenant = 1 AND cwd = '/srv'",
        "SELECT * FROM conversations WHERE tenant = 1 ORDER BY last_activity DESC LIMIT 1",
        "SELECT * FROM messages WHERE tenant = 1 AND conversation = 1 AND turn = 1",
        "SELECT * FROM nodes WHERE tenant = 1 AND conversation = 1 AND level = 1",
    ] {
        let mut plan = database.prepare(&format!("EXPLAIN QUERY PLAN {look_up}")).unwrap();
        let steps: Vec<String> =
            plan.query_map([], |row| row.get("detail")).unwrap().map(Result::unwrap).collect();
        let is_search = steps.iter().all(|step| step.contains("USING") && !step.contains("TEMP"));
        assert!(is_search, "{look_up}: {steps:?}");
    }
}

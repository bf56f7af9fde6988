//! `verify` finds every kind of damage, planted in every table behind the engine's back, and
//! describes it exactly. `repair` fixes damage to derived data and never changes messages or tool
//! calls.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod derived;
mod ground_truth;

use std::path::Path;
use std::sync::OnceLock;

use common::sample;
use rusqlite::Connection;
use treering_core::TenantId;
use treering_engine::{Engine, JobScope, Worker};
use treering_stores::EmbeddedStore;

/// One kind of damage.
struct Damage {
    kind: &'static str,
    /// The SQL statements that cause it.
    plant: &'static str,
    /// The problems that `verify` reports.
    expected: &'static [&'static str],
    after_repair: AfterRepair,
}

/// The problems that `verify` reports after `repair` and the jobs that it planned.
enum AfterRepair {
    Clean,
    /// The same as before: no other data tells the original value.
    Same,
    Only(&'static [&'static str]),
}

/// Plants each damage in its own store, and compares every sentence.
fn check(table: &str, damages: &[Damage]) {
    for Damage { kind, plant, expected, after_repair } in damages {
        let home = sample_store();
        let file = home.path().join(EmbeddedStore::FILE);
        execute(&file, plant).unwrap();
        let engine = sample::open(home.path());
        assert_eq!(problems(&engine), *expected, "{table}: {kind}");
        let before = ground_truth(&file);
        engine.repair().unwrap();
        work(&engine);
        let left = match after_repair {
            AfterRepair::Clean => &[][..],
            AfterRepair::Same => expected,
            AfterRepair::Only(left) => left,
        };
        assert_eq!(problems(&engine), *left, "{table}: {kind}, after the repair");
        assert!(
            ground_truth(&file) == before,
            "{table}: {kind}: messages or tool calls were touched"
        );
    }
}

/// A copy of the sample store.
fn sample_store() -> tempfile::TempDir {
    static STORE: OnceLock<Vec<u8>> = OnceLock::new();
    let make = || {
        let home = tempfile::tempdir().unwrap();
        sample::write(home.path());
        std::fs::read(home.path().join(EmbeddedStore::FILE)).unwrap()
    };
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(EmbeddedStore::FILE), STORE.get_or_init(make)).unwrap();
    home
}

/// Runs statements on a closed store, without foreign keys.
fn execute(file: &Path, sql: &str) -> rusqlite::Result<()> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "ignore_check_constraints", true)?;
    connection.execute_batch(sql)
}

fn problems(engine: &Engine) -> Vec<String> {
    engine.verify(|_| ()).unwrap().problems.iter().map(ToString::to_string).collect()
}

/// Runs the jobs of every tenant. Workers stop at damage that remains.
fn work(engine: &Engine) {
    for tenant in [TenantId::default(), TenantId::new(sample::OTHER_TENANT).unwrap()] {
        let worker = Worker::new(engine.for_tenant(tenant)).unwrap();
        drop(worker.run(&JobScope::default(), &|_, _| {}));
    }
}

/// Every value of every message and tool call.
fn ground_truth(file: &Path) -> Vec<String> {
    let connection = Connection::open(file).unwrap();
    let mut rows = Vec::new();
    for table in ["messages", "tool_calls"] {
        let mut statement =
            connection.prepare(&format!("SELECT * FROM {table} ORDER BY pk")).unwrap();
        let columns = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<String> {
            (0..columns).map(|column| Ok(format!("{:?}|", row.get_ref(column)?))).collect()
        };
        rows.extend(statement.query_map([], read).unwrap().map(Result::unwrap));
    }
    rows
}

#[test]
fn a_store_without_damage_is_clean() {
    let home = sample_store();
    let engine = sample::open(home.path());
    let report = engine.verify(|_| ()).unwrap();
    assert!(report.is_clean() && report.leftovers.is_empty(), "{report:#?}");
    assert_eq!(
        (report.conversations, report.messages, report.tool_calls, report.nodes),
        (3, 24, 11, 9)
    );
    assert_eq!(engine.repair().unwrap(), treering_engine::RepairReport::default());
}

#[test]
fn damage_to_tenants_is_found() {
    check("tenants", ground_truth::TENANTS);
}

#[test]
fn damage_to_conversations_is_found() {
    check("conversations", ground_truth::CONVERSATIONS);
}

#[test]
fn damage_to_messages_is_found() {
    check("messages", ground_truth::MESSAGES);
}

#[test]
fn damage_to_tool_calls_is_found() {
    check("tool_calls", ground_truth::TOOL_CALLS);
}

#[test]
fn damage_to_nodes_is_found() {
    check("nodes", derived::NODES);
}

#[test]
fn damage_to_jobs_is_found() {
    check("jobs", derived::JOBS);
}

#[test]
fn damage_to_log_is_found() {
    check("log", derived::LOG);
}

#[test]
fn damage_to_vectors_is_found() {
    check("vectors", derived::VECTORS);
}

#[test]
fn damage_to_spend_is_found() {
    check("spend", ground_truth::SPEND);
}

#[test]
fn damage_to_tables_is_found() {
    check("tables", derived::TABLES);
}

/// Replaced content leaves its vector behind for reuse. That is not damage, and a repair removes
/// it.
#[test]
fn a_vector_without_an_owner_is_a_leftover() {
    let home = sample_store();
    let plant = "INSERT INTO vectors (tenant, seq, model, hash, vector)
        SELECT pk, seq + 1, 1, zeroblob(16), zeroblob(384) FROM tenants WHERE pk = 1;
        UPDATE tenants SET seq = seq + 1 WHERE pk = 1";
    execute(&home.path().join(EmbeddedStore::FILE), plant).unwrap();
    let engine = sample::open(home.path());
    let leftovers = |engine: &Engine| -> Vec<String> {
        let report = engine.verify(|_| ()).unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
        report.leftovers.iter().map(ToString::to_string).collect()
    };
    let expected = "store: tenant default: 1 vectors of model bags belong to deleted text";
    assert_eq!(leftovers(&engine), [expected]);
    let removed = "tenant default: removed 1 vectors of deleted text";
    assert_eq!(engine.repair().unwrap().store, [removed]);
    assert_eq!(leftovers(&engine), [""; 0]);
}

/// Constraints refuse these duplicates, so they cannot be planted in the tables of this version.
#[test]
fn duplicates_are_refused_by_the_store() {
    let home = sample_store();
    let file = home.path().join(EmbeddedStore::FILE);
    for duplicate in [
        "INSERT INTO tenants (name) VALUES ('default')",
        "UPDATE conversations SET id = (SELECT id FROM conversations WHERE slug = 'harbour') WHERE slug = 'quay'",
        "UPDATE conversations SET slug = 'harbour' WHERE slug = 'quay'",
        "UPDATE conversations SET external_id = 'harbour' WHERE slug = 'quay'",
        "UPDATE messages SET idx = 5 WHERE conversation = 1 AND idx = 6",
        "UPDATE messages SET seq = 1 WHERE conversation = 1 AND idx = 6",
        "UPDATE messages SET external_id = 'harbour-ask-2' WHERE external_id = 'harbour-ask-3'",
        "UPDATE tool_calls SET turn = 2 WHERE external_id = 'harbour-call-3'",
        "UPDATE tool_calls SET external_id = 'harbour-call-2' WHERE external_id = 'harbour-call-3'",
        "UPDATE nodes SET ordinal = 0 WHERE conversation = 1 AND level = 1 AND ordinal = 1",
        "UPDATE nodes SET id = (SELECT id FROM nodes WHERE conversation = 1 AND level = 2 AND ordinal = 0)
            WHERE conversation = 1 AND level = 1 AND ordinal = 1",
        "INSERT INTO jobs SELECT 99, tenant, conversation, height, place, id, kind, state, moment, failures, planned_at,
            worker, error, work FROM jobs LIMIT 1",
        "UPDATE log SET seq = (SELECT seq FROM log WHERE pk = 1) WHERE pk = 2",
        "INSERT INTO vector_models (tenant, model) VALUES (1, 'bags')",
        "INSERT INTO vectors SELECT 99, tenant, 999, model, hash, vector FROM vectors LIMIT 1",
        "INSERT INTO vector_indexes VALUES (1, 'old', NULL, 0)",
        "INSERT INTO spend SELECT * FROM spend",
    ] {
        let refusal = execute(&file, duplicate).unwrap_err().to_string();
        assert!(refusal.contains("UNIQUE constraint failed"), "{duplicate}: {refusal}");
    }
    assert_eq!(problems(&sample::open(home.path())), [""; 0]);
}

/// Later writes to a damaged conversation or tool call do not hide the damage.
#[test]
fn later_writes_do_not_hide_damage() {
    let home = sample_store();
    let file = home.path().join(EmbeddedStore::FILE);
    execute(&file, "UPDATE conversations SET title = 'x' WHERE slug = 'harbour'").unwrap();
    let engine = sample::open(home.path());
    sample::append_turn(&engine, "harbour", 6);
    work(&engine);
    let changed = "store: conversation harbour has a corrupt record: its checksum differs";
    assert_eq!(problems(&engine), [changed]);
}

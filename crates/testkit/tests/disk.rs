//! Tests the recording disk with plain SQLite: durable settings survive every crash state, and the
//! disk detects settings that are not durable.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use treering_testkit::disk::{
    CrashState, Disk, DiskTrace, ExplorationStats, Fault, FaultKind, FaultPoint, FileRole, explore,
    scratch_folder,
};

const FILE: &str = "plain.db";
const STATES: usize = 200;
/// A fault that shows in few states needs more of them to be found.
const STATES_OF_A_SEARCH: usize = 1500;

/// The settings of a connection.
#[derive(Debug, Clone, Copy)]
struct Settings {
    journal_mode: &'static str,
    synchronous: &'static str,
}

const WAL_FULL: Settings = Settings { journal_mode: "WAL", synchronous: "FULL" };

fn open(folder: &Path, settings: Settings) -> Connection {
    let connection = Connection::open(folder.join(FILE)).unwrap();
    let set = |name, value| connection.pragma_update(None, name, value).unwrap();
    set("journal_mode", settings.journal_mode);
    set("synchronous", settings.synchronous);
    connection.pragma_update(None, "wal_autocheckpoint", 20).unwrap();
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS t (key INTEGER PRIMARY KEY, text TEXT)")
        .unwrap();
    connection
}

fn text_of(key: u64) -> String {
    format!("row {key} ").repeat(40 + (key as usize * 37) % 400)
}

/// The key of a row in its table. Consecutive rows are far apart, so that transactions change pages
/// all over the database.
fn scattered(key: u64) -> i64 {
    (key * 7_919 % 1_000_003 * 1_000_003 + key) as i64
}

/// Stores a row under a key and under the negated key, so that a partial transaction is visible.
fn store(connection: &mut Connection, key: u64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let sql = "INSERT INTO t (key, text) VALUES (?1, ?2)";
    transaction.execute(sql, (scattered(key), text_of(key)))?;
    transaction.execute(sql, (-scattered(key), text_of(key)))?;
    transaction.commit()
}

fn rows(connection: &Connection) -> rusqlite::Result<Vec<(i64, String)>> {
    let mut statement = connection.prepare("SELECT key, text FROM t ORDER BY key")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn record(settings: Settings) -> DiskTrace {
    let folder = scratch_folder().unwrap();
    let disk = Disk::watch(folder.path()).unwrap();
    for round in 0..2 {
        let mut connection = open(folder.path(), settings);
        for key in 1..=30 {
            let key = 100 * round + key;
            store(&mut connection, key).unwrap();
            disk.acknowledge(&key.to_string());
        }
    }
    disk.log()
}

/// Panics if a crash state violates a guarantee.
fn check(state: &CrashState, folder: &Path) {
    let mut connection = open(folder, WAL_FULL);
    let found: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
    let stored = rows(&connection).unwrap();
    for (key, text) in &stored {
        assert_eq!(*text, text_of(key.unsigned_abs() % 1_000_003));
        assert!(stored.iter().any(|(other, _)| *other == -key), "half of a transaction: {key}");
    }
    for label in &state.acknowledged {
        let key = scattered(label.parse().unwrap());
        assert!(stored.iter().any(|(other, _)| *other == key), "row {key} is lost");
    }
    store(&mut connection, 999_999).unwrap();
    drop(connection);
    assert_eq!(rows(&open(folder, WAL_FULL)).unwrap().len(), stored.len() + 2);
}

fn all_states_hold(log: &DiskTrace, name: &str) -> ExplorationStats {
    explore(log, name, STATES, &check).unwrap()
}

/// Whether a crash state violates a guarantee. Catches the panic of the check.
fn some_state_fails(log: &DiskTrace, name: &str) -> bool {
    let broken = AtomicBool::new(false);
    let note = |state: &CrashState, folder: &Path| {
        let is_broken = || catch_unwind(AssertUnwindSafe(|| check(state, folder))).is_err();
        if !broken.load(Ordering::SeqCst) && is_broken() {
            broken.store(true, Ordering::SeqCst);
        }
    };
    explore(log, name, STATES_OF_A_SEARCH, &note).unwrap();
    broken.into_inner()
}

#[test]
fn a_wal_with_full_syncs_keeps_every_acknowledged_commit() {
    let explored = all_states_hold(&record(WAL_FULL), "wal full");
    assert_eq!(explored.states, STATES);
    assert!(explored.acknowledged > STATES, "the power was cut before anything was acknowledged");
}

#[test]
fn a_rollback_journal_with_extra_syncs_keeps_every_acknowledged_commit() {
    let settings = Settings { journal_mode: "DELETE", synchronous: "EXTRA" };
    all_states_hold(&record(settings), "journal extra");
}

#[test]
fn settings_that_skip_syncs_are_detected() {
    for settings in [
        Settings { journal_mode: "WAL", synchronous: "NORMAL" },
        Settings { journal_mode: "WAL", synchronous: "OFF" },
        Settings { journal_mode: "DELETE", synchronous: "OFF" },
    ] {
        assert!(some_state_fails(&record(settings), "weak"), "{settings:?} pass for durable");
    }
}

/// Stores rows while one operation fails, and continues with the same connection after errors.
fn record_with_fault(fault: Fault) -> DiskTrace {
    let folder = scratch_folder().unwrap();
    let disk = Disk::watch(folder.path()).unwrap();
    let mut connection = open(folder.path(), WAL_FULL);
    disk.inject(fault);
    for key in 1..=40 {
        if store(&mut connection, key).is_ok() {
            disk.acknowledge(&key.to_string());
        }
    }
    assert_eq!(disk.faults_triggered(), 1, "{fault:?} did not strike");
    disk.log()
}

#[test]
fn commits_survive_io_errors() {
    for (role, point, skip) in [
        (FileRole::Wal, FaultPoint::Sync, 7),
        (FileRole::Wal, FaultPoint::Write, 41),
        (FileRole::Database, FaultPoint::Sync, 1),
        (FileRole::Database, FaultPoint::Write, 3),
    ] {
        for kind in [FaultKind::Io, FaultKind::Full] {
            let log = record_with_fault(Fault { role, point, skip, kind });
            all_states_hold(&log, &format!("{role:?} {point:?} {kind:?}"));
        }
    }
}

#[test]
fn a_disk_that_lies_about_a_sync_is_detected() {
    let lying_sync =
        Fault { role: FileRole::Wal, point: FaultPoint::Sync, skip: 9, kind: FaultKind::Lie };
    assert!(some_state_fails(&record_with_fault(lying_sync), "lie"));
}

/// The process is killed right after a failed sync, and the next process checkpoints the WAL before
/// it writes. The WAL reads as complete, although part of it is not on disk.
fn record_kill_after_failed_sync(recover: fn(&Path)) -> DiskTrace {
    let (first, second) = (scratch_folder().unwrap(), scratch_folder().unwrap());
    let disk = Disk::watch(first.path()).unwrap();
    let mut connection = open(first.path(), WAL_FULL);
    let mut key = 1;
    while key < 60 {
        store(&mut connection, key).unwrap();
        disk.acknowledge(&key.to_string());
        key += 1;
    }
    checkpoint(first.path());
    disk.crash_from_here();
    disk.inject(Fault {
        role: FileRole::Wal,
        point: FaultPoint::Sync,
        skip: 2,
        kind: FaultKind::Io,
    });
    while store(&mut connection, key).is_ok() {
        disk.acknowledge(&key.to_string());
        key += 1;
    }
    let disk = Disk::restart(disk.log(), second.path()).unwrap();
    recover(second.path());
    let mut connection = open(second.path(), WAL_FULL);
    for key in 100..110 {
        store(&mut connection, key).unwrap();
        disk.acknowledge(&key.to_string());
    }
    disk.log()
}

fn checkpoint(folder: &Path) {
    let connection = Connection::open(folder.join(FILE)).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

/// Replaces the WAL with a synced copy, so that the disk holds what a process reads.
fn replace_wal_and_checkpoint(folder: &Path) {
    let (wal, copy) = (folder.join(format!("{FILE}-wal")), folder.join("copy"));
    std::fs::copy(&wal, &copy).unwrap();
    std::fs::File::open(&copy).unwrap().sync_all().unwrap();
    std::fs::rename(&copy, &wal).unwrap();
    std::fs::File::open(folder).unwrap().sync_all().unwrap();
    checkpoint(folder);
}

#[test]
fn a_wal_that_is_rewritten_before_its_checkpoint_is_safe() {
    all_states_hold(&record_kill_after_failed_sync(replace_wal_and_checkpoint), "copy after kill");
}

#[test]
fn a_checkpoint_of_an_unsynced_wal_is_detected() {
    assert!(some_state_fails(&record_kill_after_failed_sync(checkpoint), "checkpoint after kill"));
}

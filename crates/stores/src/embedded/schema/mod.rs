//! The schema of the embedded store and its forward migrations.
//!
//! Each migration leads from one version to the next and never changes once it is released. The
//! tests open a file of every released version from `tests/fixtures`. A new file starts at
//! version 8 and skips the earlier steps.

use rusqlite::{Connection, TransactionBehavior};

/// The SQLite application id of Treering's files ("TRNG").
pub(super) const APPLICATION_ID: i64 = 0x5452_4e47;

/// Creates all tables of version 8.
const TABLES_8: &str = include_str!("0008_tables.sql");

/// The statements that lead to each version from the previous one.
const MIGRATIONS: &[&[&str]] = &[
    &[include_str!("0001_ground_truth.sql")],
    &[include_str!("0002_tree.sql")],
    &[include_str!("0003_vectors.sql")],
    &[include_str!("0004_spend.sql")],
    &[include_str!("0005_quotas.sql")],
    &[include_str!("0006_places.sql")],
    &[include_str!("0007_fewer_pages.sql")],
    &[include_str!("0008_rename.sql"), TABLES_8, include_str!("0008_copy.sql")],
    &[include_str!("0009_forget.sql")],
    &[include_str!("0010_labels.sql")],
    &[include_str!("0011_amend.sql")],
    &[include_str!("0012_version_corrections.sql")],
];

/// The newest schema version that this program knows.
pub(super) const NEWEST: u32 = MIGRATIONS.len() as u32;

/// Migrates the file to the newest version in one transaction. Processes that open it at the
/// same time wait for the first. Returns `Ok(Err(found))` if the file has a newer version.
pub(super) fn migrate(connection: &mut Connection) -> Result<Result<(), u32>, rusqlite::Error> {
    if version(connection)? == NEWEST {
        return Ok(Ok(()));
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    if found > NEWEST {
        return Ok(Err(found));
    }
    let before = ground_truth(&transaction, found)?;
    apply(&transaction, found)?;
    if ground_truth(&transaction, NEWEST)? != before {
        return Err(rusqlite::Error::QueryReturnedNoRows);
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", NEWEST)?;
    transaction.commit()?;
    Ok(Ok(()))
}

/// Creates an empty in-memory database with the newest schema.
pub(super) fn blank() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.pragma_update(None, "foreign_keys", false)?;
    super::checksum::register(&connection)?;
    apply(&connection, 0)?;
    Ok(connection)
}

/// Runs the statements that lead from a version to the newest; version 0 is an empty file.
fn apply(connection: &Connection, found: u32) -> rusqlite::Result<()> {
    let done = if found == 0 { 8 } else { found as usize };
    let first = if found == 0 { &[TABLES_8][..] } else { &[] };
    let steps = MIGRATIONS[done..].iter().copied().flatten();
    first.iter().chain(steps).try_for_each(|statements| connection.execute_batch(statements))
}

/// Counts conversations, messages and tool calls: no migration may lose a row of ground truth.
pub(super) fn ground_truth(
    connection: &Connection,
    version: u32,
) -> rusqlite::Result<(i64, i64, i64)> {
    if version == 0 {
        return Ok((0, 0, 0));
    }
    let sql = "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM messages),
        (SELECT count(*) FROM tool_calls)";
    connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

pub(super) fn version(connection: &Connection) -> Result<u32, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

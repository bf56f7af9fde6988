//! The schema of the embedded store and its forward migrations.
//!
//! Each migration is one step from a version to the next, never changed once released: a file
//! of every released version is kept in `tests/fixtures` and opened by the tests.

use rusqlite::{Connection, TransactionBehavior};

/// Marks our files among all SQLite files ("TRNG").
pub(super) const APPLICATION_ID: i64 = 0x5452_4e47;

const MIGRATIONS: &[&str] = &[
    include_str!("schema/0001_ground_truth.sql"),
    include_str!("schema/0002_tree.sql"),
    include_str!("schema/0003_vectors.sql"),
    include_str!("schema/0004_spend.sql"),
    include_str!("schema/0005_quotas.sql"),
    include_str!("schema/0006_places.sql"),
    include_str!("schema/0007_fewer_pages.sql"),
];

/// The newest version this program knows.
pub(super) const NEWEST: u32 = MIGRATIONS.len() as u32;

/// Brings the file to the newest version. Processes that open it together wait for the first.
/// `Err(Some(found))` when the file is of a version that is not known yet.
pub(super) fn migrate(connection: &mut Connection) -> Result<Result<(), u32>, rusqlite::Error> {
    if version(connection)? == NEWEST {
        return Ok(Ok(()));
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    if found > NEWEST {
        return Ok(Err(found));
    }
    for migration in &MIGRATIONS[found as usize..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", NEWEST)?;
    transaction.commit()?;
    Ok(Ok(()))
}

pub(super) fn version(connection: &Connection) -> Result<u32, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

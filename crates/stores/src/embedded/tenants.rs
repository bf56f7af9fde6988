//! Adds and removes tenants.

use rusqlite::{Connection, OptionalExtension};

/// The tables with rows of a tenant, those first that refer to others.
const TABLES: [&str; 14] = [
    "labels",
    "messages",
    "versions",
    "tool_calls",
    "nodes",
    "jobs",
    "log",
    "conversations",
    "removals",
    "tombstones",
    "audit",
    "vectors",
    "vector_models",
    "vector_indexes",
];

/// Adds a tenant without data.
pub(super) fn add(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO tenants (name) VALUES (?1) ON CONFLICT DO NOTHING";
    connection.execute(sql, [name]).map(drop)
}

/// Removes a tenant inside the open transaction. With a sequence number, only if it is the latest.
pub(super) fn remove(
    connection: &Connection,
    name: &str,
    only_at: Option<i64>,
) -> rusqlite::Result<bool> {
    let find = "SELECT pk, seq FROM tenants WHERE name = ?1";
    let row = connection.query_row(find, [name], |row| Ok((row.get(0)?, row.get(1)?)));
    let (tenant, seq): (i64, i64) = row.optional()?.unwrap_or_default();
    if only_at.is_some_and(|only_at| only_at != seq) {
        return Ok(false);
    }
    for table in TABLES.into_iter().chain(["spend"]) {
        connection.execute(&format!("DELETE FROM {table} WHERE tenant = ?1"), [tenant])?;
    }
    connection.execute("DELETE FROM tenants WHERE pk = ?1", [tenant])?;
    Ok(true)
}

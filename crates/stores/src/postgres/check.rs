//! Finds rows that this program cannot have written: rows without a conversation, and rows that it cannot decode.

use super::PostgresStore;
use super::connection::{Access, Grouping, SqlQuery};
use super::error::Outcome;
use super::value::{Columns, values};

/// The tables whose rows belong to a conversation, and whether their content can be made again.
const OWNED: [(&str, bool); 6] = [
    ("messages", false),
    ("tool_calls", false),
    ("versions", false),
    ("nodes", true),
    ("jobs", true),
    ("job_events", true),
];

/// Columns that hold JSON.
const JSON: [(&str, &str); 8] = [
    ("conversations", "participants"),
    ("conversations", "threads"),
    ("conversations", "policy"),
    ("conversations", "tree_state"),
    ("nodes", "spec"),
    ("nodes", "content"),
    ("nodes", "invented"),
    ("jobs", "work"),
];

/// The condition that a row `x` belongs to no conversation.
const IS_ORPHAN: &str = "x.conversation IS NOT NULL
    AND NOT EXISTS (SELECT FROM conversations c WHERE c.tenant = x.tenant AND c.id = x.conversation)";

/// Describes every problem.
pub(super) fn problems(store: &PostgresStore) -> Outcome<Vec<String>> {
    let mut queries = Vec::new();
    for (table, _) in OWNED {
        let sql = format!(
            "SELECT $1::text, x.tenant, count(*) FROM {table} x WHERE {IS_ORPHAN} GROUP BY x.tenant ORDER BY x.tenant"
        );
        queries.push(SqlQuery::new(
            sql,
            values![format!("rows of {table} that belong to no conversation")],
        ));
    }
    for (table, column) in JSON {
        let sql = format!(
            "SELECT $1::text, x.tenant, count(*) FROM {table} x WHERE NOT ({column} IS JSON)
            GROUP BY x.tenant ORDER BY x.tenant"
        );
        queries.push(SqlQuery::new(
            sql,
            values![format!("rows of {table} whose column {column} is not JSON")],
        ));
    }
    let rows = store.read(&Access::AllTenants, &queries, Grouping::Snapshot)?;
    let describe = |row: &tokio_postgres::Row| {
        Ok(format!("tenant {}: {} {}", row.text(1)?, row.long(2)?, row.text(0)?))
    };
    rows.concat().iter().map(describe).collect()
}

/// Removes derived rows that belong to no conversation.
pub(super) fn repair(store: &PostgresStore) -> Outcome<Vec<String>> {
    let derived = OWNED.iter().filter(|(_, is_derived)| *is_derived);
    let queries: Vec<SqlQuery> = derived
        .map(|(table, _)| {
            let sql = format!(
                "WITH removed AS (DELETE FROM {table} x WHERE {IS_ORPHAN} RETURNING x.tenant)
                SELECT $1::text, tenant, count(*) FROM removed GROUP BY tenant ORDER BY tenant"
            );
            SqlQuery::new(sql, values![*table])
        })
        .collect();
    let rows = store
        .pool
        .take()?
        .with(|connection| connection.run(&Access::AllTenants, &queries, Grouping::Transaction))?;
    let describe = |row: &tokio_postgres::Row| {
        let (tenant, count, table) = (row.text(1)?, row.long(2)?, row.text(0)?);
        Ok(format!(
            "tenant {tenant}: removed {count} rows of {table} that belonged to no conversation"
        ))
    };
    rows.concat().iter().map(describe).collect()
}

//! The schema of the PostgreSQL store and its forward migrations: numbered SQL, each applied once, under a lock.
//!
//! A migration never changes once it is released. It may only add what the previous version of the program does not
//! notice, so that servers of two adjacent versions can run side by side; what a version stops using is dropped
//! by the one after it.

use treering_core::StoreError;
use treering_core::ports::StoreResult;

use super::connection::{Access, FirstRow, Grouping, PgConnection, SqlQuery};
use super::error::{Failure, Outcome};
use super::locks::migration_key;
use super::options::ServerTarget;
use super::value::{Columns, SqlValue, UndecodableRow, values};

const MIGRATIONS: &[&str] =
    &[include_str!("schema/0001_tables.sql"), include_str!("schema/0002_commit.sql")];

/// The newest schema version that this program knows.
pub(super) const NEWEST: u32 = MIGRATIONS.len() as u32;

/// The oldest version of the server that has everything the statements use.
const OLDEST_SERVER: i64 = 160_000;

/// Tables with a sequence number, which make up the change feed of a tenant, and others whose numbers must not repeat.
const NUMBERED: [&str; 9] = [
    "messages",
    "tool_calls",
    "nodes",
    "job_events",
    "removals",
    "vectors",
    "jobs",
    "versions",
    "audit",
];

/// Brings the schema to the newest version. Of several processes that start at once, one migrates and the others wait.
pub(super) fn migrate(connection: &PgConnection, target: &ServerTarget) -> StoreResult<()> {
    let explain = |failure: Failure| failure.explain(&target.location);
    let lock = migration_key(&target.schema);
    connection.execute_batch(&format!("SELECT pg_advisory_lock({lock})")).map_err(explain)?;
    let migrated = migrate_locked(connection, target);
    connection.execute_batch(&format!("SELECT pg_advisory_unlock({lock})")).map_err(explain)?;
    migrated
}

fn migrate_locked(connection: &PgConnection, target: &ServerTarget) -> StoreResult<()> {
    let schema = &target.schema;
    let found = version(connection, schema).map_err(|failure| failure.explain(&target.location))?;
    if found > NEWEST {
        // A newer version of the program has added to the tables. One version more is compatible.
        if found == NEWEST + 1 {
            return Ok(());
        }
        return Err(StoreError::TooNew {
            path: target.location.clone().into(),
            found,
            known: NEWEST,
        });
    }
    if found == NEWEST {
        return Ok(());
    }
    let script = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '60s';";
    let script = format!("{script}\n{}\nCOMMIT", steps(schema, found));
    connection.execute_batch(&script).map_err(|failure| {
        drop(connection.execute_batch("ROLLBACK"));
        failure.explain(&target.location)
    })
}

/// The statements that lead from a version to the newest.
fn steps(schema: &str, found: u32) -> String {
    let mut steps = String::new();
    if found == 0 {
        steps.push_str(&format!("CREATE SCHEMA IF NOT EXISTS {schema};\n"));
        steps.push_str("CREATE TABLE migrations (version bigint PRIMARY KEY);\n");
    }
    for (number, sql) in (1..).zip(MIGRATIONS).skip(found as usize) {
        steps.push_str(&format!("{sql}\nINSERT INTO migrations (version) VALUES ({number});\n"));
    }
    steps
}

/// The version of the schema; 0 if there is none.
fn version(connection: &PgConnection, schema: &str) -> Outcome<u32> {
    let server = first_number(connection, "SHOW server_version_num")?;
    if server < OLDEST_SERVER {
        let reason = format!(
            "the server has version {}; Treering needs PostgreSQL 16 or newer",
            server / 10_000
        );
        return Err(UndecodableRow(reason).into());
    }
    let exists = format!(
        "SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}' AND tablename = 'migrations'"
    );
    if first_number(connection, &exists)? == 0 {
        return Ok(0);
    }
    let version = first_number(
        connection,
        &format!("SELECT coalesce(max(version), 0) FROM {schema}.migrations"),
    )?;
    Ok(u32::try_from(version).unwrap_or(0))
}

fn first_number(connection: &PgConnection, sql: &str) -> Outcome<i64> {
    let text = connection.first_text(sql)?;
    Ok(text.as_deref().unwrap_or_default().parse().unwrap_or(0))
}

/// Keeps sequence numbers rising. They come from the ids of transactions, so after the tables were restored on another
/// server, whose ids are lower, an offset lifts them above every number in the tables.
pub(super) fn adopt_server(connection: &mut PgConnection, target: &ServerTarget) -> Outcome<()> {
    let current = "SELECT system_identifier::text FROM pg_control_system()";
    let known = SqlQuery::new("SELECT system FROM store", Vec::new());
    let all = Access::AllTenants;
    let system = connection.first_text(current)?.unwrap_or_default();
    let rows = connection.run(&all, std::slice::from_ref(&known), Grouping::None)?;
    if rows.concat_first().map(|row| row.text(0)).transpose()?.as_ref() == Some(&system) {
        return Ok(());
    }
    let lock = migration_key(&target.schema);
    let newest: Vec<String> =
        NUMBERED.iter().map(|table| format!("(SELECT max(seq) FROM {table})")).collect();
    let adopt = format!(
        "UPDATE store SET system = $1, xid_offset = greatest(xid_offset,
            (coalesce(greatest({}), 0) >> 20) + 1 - pg_current_xact_id()::text::bigint) WHERE system <> $1",
        newest.join(", ")
    );
    let queries = [
        SqlQuery::new("SELECT pg_advisory_xact_lock($1)", values![lock]),
        SqlQuery::new(adopt, vec![SqlValue::from(system)]),
    ];
    connection.run(&all, &queries, Grouping::Transaction).map(drop)
}

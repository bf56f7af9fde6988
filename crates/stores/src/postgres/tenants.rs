//! Adds and removes tenants.

use treering_core::ports::{Cursor, StoreResult};
use treering_core::{CommitScope, TenantId};

use super::PostgresStore;
use super::connection::{Access, FirstRow, Grouping, PgConnection, SqlQuery};
use super::error::Outcome;
use super::locks::Locks;
use super::read::{newest, sequence_number};
use super::value::{Columns, values};

/// The tables with rows of a tenant. The row of the tenant goes last.
pub(super) const TABLES: [&str; 15] = [
    "conversations",
    "messages",
    "tool_calls",
    "versions",
    "nodes",
    "jobs",
    "job_events",
    "removals",
    "vectors",
    "vector_indexes",
    "spend",
    "audit",
    "tombstones",
    "salts",
    "tenants",
];

/// Adds a tenant without data.
pub(super) fn add(store: &PostgresStore, tenant: &TenantId) -> Outcome<()> {
    let sql = "INSERT INTO tenants (tenant) VALUES ($1) ON CONFLICT DO NOTHING";
    let query = SqlQuery::new(sql, values![tenant.as_str()]);
    let access = Access::Tenant(tenant.clone());
    store
        .pool
        .take()?
        .with(|connection| connection.run(&access, &[query], Grouping::None))
        .map(drop)
}

/// Removes a tenant, under the lock that keeps commits away. With a cursor, only if its change feed still ends there.
pub(super) fn remove(
    store: &PostgresStore,
    tenant: &TenantId,
    only_at: Option<&Cursor>,
) -> StoreResult<bool> {
    let only_at = only_at.map(sequence_number).transpose()?;
    let mut pooled = store.pool.take().map_err(|failure| store.explain(failure))?;
    let removed = pooled.with(|connection| {
        let removed = remove_locked(connection, store, tenant, only_at);
        if !matches!(removed, Ok(true)) {
            connection.execute_batch("ROLLBACK")?;
        }
        removed
    });
    drop(pooled);
    if matches!(removed, Ok(true)) {
        store.notifier.committed();
    }
    removed.map_err(|failure| store.explain(failure))
}

fn remove_locked(
    connection: &mut PgConnection,
    store: &PostgresStore,
    tenant: &TenantId,
    only_at: Option<i64>,
) -> Outcome<bool> {
    let (shared, exclusive) =
        Locks::of(store.schema(), &CommitScope::Tenant(tenant.clone())).values();
    let access = Access::Tenant(tenant.clone());
    let lock = "SELECT begin_commit($1, $2, $3, NULL, NULL)";
    let lock = SqlQuery::new(lock, values![tenant.as_str(), shared, exclusive]);
    let end = SqlQuery::new(
        format!("SELECT {}", newest("9223372036854775807")),
        values![tenant.as_str()],
    );
    connection.run(&access, &[lock], Grouping::Begin)?;
    if let Some(only_at) = only_at {
        let rows = connection.run(&access, &[end], Grouping::None)?;
        if rows.concat_first().map(|row| row.long(0)).transpose()? != Some(only_at) {
            return Ok(false);
        }
    }
    let delete = |table: &&str| {
        SqlQuery::new(format!("DELETE FROM {table} WHERE tenant = $1"), values![tenant.as_str()])
    };
    let deletes: Vec<SqlQuery> = TABLES.iter().map(delete).collect();
    connection.run(&access, &deletes, Grouping::Commit)?;
    Ok(true)
}

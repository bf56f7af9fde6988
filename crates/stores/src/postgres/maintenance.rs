//! Check, repair, backup and description of the PostgreSQL store.

use std::path::{Path, PathBuf};

use treering_core::ports::{
    ConnectionUsage, Cursor, Description, Maintenance, ScrubReport, StoreResult,
};
use treering_core::{StoreError, TenantId};

use super::connection::{Access, FirstRow, Grouping, SqlQuery};
use super::error::Outcome;
use super::value::{Columns, UndecodableRow};
use super::{PostgresStore, check, migrate, tenants};

/// The tables with content, which a scrub cleans.
const CONTENT: &str =
    "messages, versions, tool_calls, nodes, job_events, jobs, vectors, conversations, tombstones";

impl PostgresStore {
    /// The first column of the first row of a statement that concerns all tenants.
    fn first_number(&self, sql: &'static str) -> StoreResult<i64> {
        let query = SqlQuery::new(sql, Vec::new());
        let found = self.read(&Access::AllTenants, &[query], Grouping::None).and_then(|rows| {
            Ok(rows.concat_first().map(|row| row.long(0)).transpose()?.unwrap_or(0))
        });
        found.map_err(|failure| self.explain(failure))
    }

    /// Removes dead rows, so that PostgreSQL overwrites their bytes.
    fn vacuum(&self) -> Outcome<()> {
        self.pool.take()?.with(|connection| {
            connection.execute_batch("SET statement_timeout = 0")?;
            connection.execute_batch(&format!("VACUUM {CONTENT}"))?;
            connection
                .execute_batch("UPDATE audit SET is_scrubbed = true WHERE NOT is_scrubbed")?;
            connection.execute_batch("SET statement_timeout = '120s'")
        })
    }
}

impl Maintenance for PostgresStore {
    fn tenants(&self) -> StoreResult<Vec<TenantId>> {
        let query = SqlQuery::new("SELECT tenant FROM tenants ORDER BY tenant", Vec::new());
        let rows = self.read(&Access::AllTenants, &[query], Grouping::None).and_then(|rows| {
            let tenant = |row: &_| -> Outcome<TenantId> {
                Ok(TenantId::new(Columns::text(row, 0)?).map_err(UndecodableRow::new)?)
            };
            rows.concat().iter().map(tenant).collect()
        });
        rows.map_err(|failure| self.explain(failure))
    }

    fn add_tenant(&self, tenant: &TenantId) -> StoreResult<()> {
        tenants::add(self, tenant).map_err(|failure| self.explain(failure))
    }

    fn remove_tenant(&self, tenant: &TenantId, only_at: Option<&Cursor>) -> StoreResult<bool> {
        tenants::remove(self, tenant, only_at)
    }

    fn connections(&self) -> Option<ConnectionUsage> {
        Some(self.pool.usage())
    }

    fn check(&self) -> StoreResult<Vec<String>> {
        check::problems(self).map_err(|failure| self.explain(failure))
    }

    fn repair(&self) -> StoreResult<Vec<String>> {
        check::repair(self).map_err(|failure| self.explain(failure))
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn open_warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn failure(&self) -> Option<StoreError> {
        self.first_number("SELECT 1::bigint").err()
    }

    fn backup(&self, to: &Path) -> StoreResult<()> {
        crate::copy::backup(self, to)
    }

    fn pending_scrubs(&self) -> StoreResult<u32> {
        let pending = self.first_number("SELECT count(*) FROM audit WHERE NOT is_scrubbed")?;
        Ok(u32::try_from(pending).unwrap_or(u32::MAX))
    }

    fn copies(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn scrub(&self) -> StoreResult<ScrubReport> {
        self.vacuum().map_err(|failure| self.explain(failure))?;
        Ok(ScrubReport::default())
    }

    fn describe(&self) -> StoreResult<Description> {
        let bytes = self.first_number(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
            WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')",
        )?;
        Ok(Description {
            kind: "postgres",
            location: self.location().to_owned(),
            schema_version: migrate::NEWEST,
            bytes: bytes.unsigned_abs(),
        })
    }
}

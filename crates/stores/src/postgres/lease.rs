//! Leases jobs: looks for due jobs without a lock, then takes them with one statement that checks them again. Between the two,
//! the locks of their conversations keep commits and other workers away.

use tokio_postgres::Row;
use treering_core::ports::{JobFilter, StoreResult};
use treering_core::{BatchSizes, ConversationKey, Job, TenantId, Timestamp};

use super::PostgresStore;
use super::connection::{Access, Grouping, SqlQuery};
use super::error::Outcome;
use super::locks::Locks;
use super::read::{DUE, JOB, due_values, job, job_query};
use super::value::{Columns, SqlValue, UndecodableRow, blobs, integers, values};
use crate::row_codec::lease_of;

/// Attempts while other workers take the jobs that this one has seen.
const ATTEMPTS: usize = 3;

/// Leases due jobs to a worker, in the order they should run.
pub(super) fn lease(
    store: &PostgresStore,
    tenant: &TenantId,
    filter: &JobFilter,
    worker: &str,
    sizes: BatchSizes,
) -> StoreResult<Vec<Job>> {
    let Some(now) = filter.due else { return Ok(Vec::new()) };
    let filter = JobFilter { limit: sizes.largest(), ..filter.clone() };
    let access = Access::Tenant(tenant.clone());
    for _ in 0..ATTEMPTS {
        let due = find(store, &access, job_query(tenant, &filter))
            .map_err(|failure| store.explain(failure))?;
        let jobs = sizes.take(due);
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let leased = take(store, &access, tenant, jobs, worker, now)
            .map_err(|failure| store.explain(failure))?;
        if !leased.is_empty() {
            store.notifier.committed();
            return Ok(leased);
        }
    }
    Ok(Vec::new())
}

fn find(store: &PostgresStore, access: &Access, query: SqlQuery) -> Outcome<Vec<Job>> {
    let rows = store.read(access, &[query], Grouping::None)?;
    rows.concat().iter().map(|row| Ok(job(row)?)).collect()
}

/// Leases those of the jobs that are still due, and gives their conversations a new version, so that a commit that was planned
/// with the previous lease is planned again.
fn take(
    store: &PostgresStore,
    access: &Access,
    tenant: &TenantId,
    mut jobs: Vec<Job>,
    worker: &str,
    now: Timestamp,
) -> Outcome<Vec<Job>> {
    jobs.iter_mut().for_each(|job| job.lease(worker, now));
    let keys: Vec<ConversationKey> = jobs
        .iter()
        .map(|job| ConversationKey { tenant: tenant.clone(), id: job.conversation })
        .collect();
    let locks = Locks::of_conversations(store.schema(), tenant, &keys);
    let (shared, exclusive) = locks.values();
    let lock = "SELECT begin_commit($1, $2, $3, NULL, NULL)";
    let lock = SqlQuery::new(lock, values![tenant.as_str(), shared, exclusive]);
    let taken = format!(
        "WITH leased AS (
            UPDATE jobs j SET state = 1, worker = $4, due_at = $5
            FROM unnest($6::bytea[], $7::bigint[], $8::bigint[], $9::bytea[]) AS d (conversation, height, position, id)
            WHERE j.tenant = $1 AND j.conversation = d.conversation AND j.height = d.height
                AND j.position = d.position AND j.id = d.id AND {DUE}
            RETURNING {JOB}
        ), versioned AS (
            UPDATE conversations SET version = seq($10) WHERE tenant = $1 AND id IN (SELECT conversation FROM leased)
        )
        SELECT * FROM leased"
    );
    let until = jobs.first().map_or(0, |job| lease_of(job).0);
    let columns: [SqlValue; 4] = [
        blobs(jobs.iter().map(|job| &job.conversation.as_bytes()[..])),
        integers(jobs.iter().map(|job| u32::from(job.kind.height()))),
        integers(jobs.iter().map(|job| job.kind.position())),
        blobs(jobs.iter().map(|job| &job.id.0.as_bytes()[..])),
    ];
    let rows = store.pool.take()?.with(|connection| {
        let mut values = values![tenant.as_str()];
        values.extend(due_values(now));
        values.extend(values![worker, until]);
        values.extend(columns);
        values.push((connection.seq_offset() + 1).into());
        connection.run(access, &[lock, SqlQuery::new(taken, values)], Grouping::Transaction)
    })?;
    let rows: &[Row] = rows.get(1).map_or(&[], Vec::as_slice);
    let leased = rows.iter().map(job).collect::<Result<Vec<_>, UndecodableRow>>()?;
    // In the order in which they should run.
    jobs.retain(|job| {
        leased.iter().any(|it| (it.conversation, it.id) == (job.conversation, job.id))
    });
    Ok(jobs)
}

/// The next tenant with a due job. Visits only tenants with jobs.
pub(super) fn tenant_with_due_jobs(
    store: &PostgresStore,
    now: Timestamp,
    after: Option<&TenantId>,
) -> StoreResult<Option<TenantId>> {
    let sql = format!(
        "WITH RECURSIVE visited (tenant) AS (
            SELECT min(tenant) FROM jobs WHERE tenant > $1
            UNION ALL
            SELECT (SELECT min(tenant) FROM jobs WHERE tenant > visited.tenant) FROM visited WHERE tenant IS NOT NULL
        )
        SELECT v.tenant FROM visited v
        WHERE EXISTS (SELECT FROM jobs j WHERE j.tenant = v.tenant AND {DUE}) LIMIT 1"
    );
    let mut values = values![after.map_or("", |tenant| tenant.as_str())];
    values.extend(due_values(now));
    let found = store
        .read(&Access::AllTenants, &[SqlQuery::new(sql, values)], Grouping::None)
        .and_then(|rows| match rows.concat().first() {
            Some(row) => Ok(Some(TenantId::new(row.text(0)?).map_err(UndecodableRow::new)?)),
            None => Ok(None),
        });
    found.map_err(|failure| store.explain(failure))
}

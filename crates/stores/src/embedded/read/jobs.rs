//! Reads jobs and their events.

use std::ops::Deref;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use treering_core::ports::{JobEventFilter, JobFilter, StoreResult};
use treering_core::{
    ContentHash, ConversationId, Job, JobEvent, JobId, LEASE_MS, TenantId, Timestamp,
};

use super::{TenantView, rows, timestamp, unreadable};
use crate::codes;
use crate::row_codec::{decode_work, id_pattern, job_state};

pub(super) const JOB: &str =
    "j.id, j.kind, j.height, j.state, j.moment, j.failures, j.planned_at, j.worker, j.error, j.work,
    c.id, j.place";

pub(super) const LOG_LINE: &str = "l.at, c.id, l.job, l.event, l.text, l.took_ms";

/// Whether a job is due. A lease that ends impossibly late was taken before the clock was set
/// back, and counts as expired.
const IS_DUE: &str = "((j.state = 0 AND (j.moment <= ? OR j.failures = 0))
    OR (j.state = 1 AND (j.moment <= ? OR j.moment > ?)))";

/// Whether no unfinished job of the same conversation has a smaller height.
const IS_LOWEST: &str = "NOT EXISTS (SELECT 1 FROM jobs k WHERE k.tenant = j.tenant
    AND k.conversation = j.conversation AND k.height < j.height AND k.state < 2)";

/// The parameters of [`IS_DUE`].
fn due_params(now: Timestamp) -> [Value; 3] {
    let impossible = now.plus_micros(2 * LEASE_MS as i64 * 1000);
    [now, now, impossible].map(|at| Value::from(at.as_micros()))
}

/// Whether a tenant has a due job.
pub(in crate::embedded) fn has_due_jobs(
    connection: &Connection,
    now: Timestamp,
    tenant: &TenantId,
) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT 1 FROM jobs j WHERE j.tenant = (SELECT pk FROM tenants WHERE name = ?) AND {IS_DUE} LIMIT 1"
    );
    let name = [Value::from(tenant.as_str().to_owned())];
    connection
        .prepare_cached(&sql)?
        .exists(params_from_iter(name.into_iter().chain(due_params(now))))
}

/// The next tenant with a due job. Visits only tenants with jobs.
pub(in crate::embedded) fn tenant_with_due_jobs(
    connection: &Connection,
    now: Timestamp,
    after: Option<&TenantId>,
) -> rusqlite::Result<Option<TenantId>> {
    let sql = format!(
        "WITH RECURSIVE visited (pk) AS (
            SELECT min(tenant) FROM jobs
            WHERE tenant > ifnull((SELECT pk FROM tenants WHERE name = ?), 0)
            UNION ALL
            SELECT (SELECT min(tenant) FROM jobs WHERE tenant > visited.pk) FROM visited WHERE pk IS NOT NULL
        )
        SELECT t.name FROM visited v JOIN tenants t ON t.pk = v.pk
        WHERE EXISTS (SELECT 1 FROM jobs j WHERE j.tenant = v.pk AND {IS_DUE}) LIMIT 1"
    );
    let params = [Value::from(after.map_or("", |tenant| tenant.as_str()).to_owned())];
    let params = params_from_iter(params.into_iter().chain(due_params(now)));
    connection.prepare_cached(&sql)?.query_row(params, crate::embedded::tenant).optional()
}

impl<C: Deref<Target = Connection>> TenantView<'_, C> {
    pub(super) fn read_jobs(&self, filter: &JobFilter) -> StoreResult<Vec<Job>> {
        // Either way an index returns the jobs in order, so that the scan stops at the limit.
        let (from, order) = match filter.conversation {
            Some(_) => ("conversations c CROSS JOIN jobs j", "j.height, j.place, j.pk"),
            None => ("jobs j CROSS JOIN conversations c", "j.height, j.pk"),
        };
        let mut sql = format!(
            "SELECT {JOB} FROM {from} ON c.pk = j.conversation AND c.tenant = j.tenant WHERE j.tenant = ?"
        );
        let mut params: Vec<Value> = vec![self.tenant.into()];
        if let Some(id) = filter.conversation {
            sql.push_str(" AND c.tenant = ? AND c.id = ?");
            params.extend([self.tenant.into(), id.as_bytes().to_vec().into()]);
        }
        if let Some((min_height, max_height)) = filter.heights {
            sql.push_str(" AND j.height BETWEEN ? AND ?");
            params.extend([i64::from(min_height).into(), i64::from(max_height).into()]);
        }
        if let Some(prefix) = &filter.id_prefix {
            sql.push_str(" AND hex(j.id) LIKE ?");
            params.push(id_pattern(prefix).into());
        }
        if let Some((position, id)) = &filter.only {
            sql.push_str(" AND j.place = ? AND j.id = ?");
            params.extend([i64::from(*position).into(), id.0.as_bytes().to_vec().into()]);
        }
        if filter.summaries {
            sql.push_str(" AND j.kind = 1");
        }
        if let Some(now) = filter.due {
            sql.push_str(&format!(" AND {IS_DUE} AND {IS_LOWEST}"));
            params.extend(due_params(now));
        }
        sql.push_str(&format!(" ORDER BY {order} LIMIT ?"));
        params.push(rows(filter.limit).into());
        self.query_all(&sql, params_from_iter(params), job)
    }

    pub(super) fn read_log(&self, filter: &JobEventFilter) -> StoreResult<Vec<JobEvent>> {
        let mut sql = format!(
            "SELECT {LOG_LINE} FROM log l LEFT JOIN conversations c ON c.pk = l.conversation WHERE l.tenant = ?"
        );
        let mut params: Vec<Value> = vec![self.tenant.into()];
        if let Some(id) = filter.conversation {
            sql.push_str(" AND c.id = ?");
            params.push(id.as_bytes().to_vec().into());
        }
        if let Some(prefix) = &filter.job_prefix {
            sql.push_str(" AND hex(l.job) LIKE ?");
            params.push(id_pattern(prefix).into());
        }
        sql.push_str(" ORDER BY l.seq DESC LIMIT ?");
        params.push(rows(filter.limit).into());
        let mut lines = self.query_all(&sql, params_from_iter(params), log_line)?;
        lines.reverse();
        Ok(lines)
    }
}

/// Reads a job event from the columns [`LOG_LINE`].
pub(super) fn log_line(row: &Row<'_>) -> rusqlite::Result<JobEvent> {
    Ok(JobEvent {
        at: timestamp(row, 0)?,
        conversation: row.get::<_, Option<_>>(1)?.map(ConversationId::from_bytes),
        job: JobId(ContentHash::from_bytes(row.get(2)?)),
        kind: codes::event(row.get(3)?).ok_or_else(|| unreadable(3, "no such event"))?,
        text: row.get(4)?,
        took_ms: row.get::<_, Option<i64>>(5)?.map(i64::unsigned_abs),
    })
}

/// Reads a job from the columns [`JOB`].
pub(super) fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let place = (row.get(2)?, row.get(11)?);
    let kind = decode_work(row.get(1)?, place, row.get_ref(9)?.as_str()?);
    let kind = kind.map_err(|error| unreadable(9, error))?;
    let state = job_state(row.get(3)?, timestamp(row, 4)?, row.get(7)?);
    let state = state.map_err(|error| unreadable(3, error))?;
    Ok(Job {
        id: JobId(ContentHash::from_bytes(row.get(0)?)),
        conversation: ConversationId::from_bytes(row.get(10)?),
        kind,
        state,
        failures: row.get(5)?,
        planned_at: timestamp(row, 6)?,
        error: row.get(8)?,
    })
}

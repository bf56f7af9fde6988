//! Reads jobs and their events.

use tokio_postgres::Row;
use treering_core::ports::{JobEventFilter, JobFilter, StoreResult};
use treering_core::{ContentHash, Job, JobEvent, JobId, LEASE_MS, TenantId, Timestamp};

use super::{TenantReader, limit};
use crate::codes;
use crate::postgres::connection::SqlQuery;
use crate::postgres::value::{Columns, Decoded, SqlValue, values};
use crate::row_codec::{decode_work, id_pattern, job_state};

/// Read by [`job`].
pub(in crate::postgres) const JOB: &str =
    "j.id, j.kind, j.height, j.state, j.due_at, j.failures, j.planned_at, j.worker, j.error, j.work,
    j.conversation, j.position";

/// Read by [`job_event`].
pub(super) const JOB_EVENT: &str = "l.at, l.conversation, l.job, l.event, l.text, l.took_ms";

/// Whether a job is due at the second parameter. A lease that ends after the third was taken before the clock was
/// set back, and counts as expired.
pub(in crate::postgres) const DUE: &str = "((j.state = 0 AND (j.due_at <= $2 OR j.failures = 0))
    OR (j.state = 1 AND (j.due_at <= $2 OR j.due_at > $3)))";

/// Whether no unfinished job of the same conversation has a smaller height.
const IS_LOWEST: &str = "NOT EXISTS (SELECT FROM jobs k WHERE k.tenant = j.tenant
    AND k.conversation = j.conversation AND k.height < j.height AND k.state < 2)";

/// The parameters of [`DUE`].
pub(in crate::postgres) fn due_values(now: Timestamp) -> [SqlValue; 2] {
    [now.into(), now.plus_micros(2 * LEASE_MS as i64 * 1000).into()]
}

/// The statement for the jobs of a filter.
pub(in crate::postgres) fn job_query(tenant: &TenantId, filter: &JobFilter) -> SqlQuery {
    let mut values = values![tenant.as_str()];
    values.extend(due_values(filter.due.unwrap_or(Timestamp::from_micros(0))));
    let mut bind = |value: SqlValue| {
        values.push(value);
        format!("${}", values.len())
    };
    // The parameters of the time have a place of their own whether or not they are used.
    let mut sql =
        format!("SELECT {JOB} FROM jobs j WHERE j.tenant = $1 AND $2::bigint <= $3::bigint");
    if let Some(id) = filter.conversation {
        sql.push_str(&format!(" AND j.conversation = {}", bind(id.into())));
    }
    if let Some((min_height, max_height)) = filter.heights {
        let (min_height, max_height) = (bind(min_height.into()), bind(max_height.into()));
        sql.push_str(&format!(" AND j.height BETWEEN {min_height} AND {max_height}"));
    }
    if let Some(prefix) = &filter.id_prefix {
        let pattern = bind(id_pattern(prefix).into());
        sql.push_str(&format!(" AND upper(encode(j.id, 'hex')) LIKE {pattern}"));
    }
    if let Some((position, id)) = &filter.only {
        let (position, id) = (bind((*position).into()), bind(id.0.as_bytes().into()));
        sql.push_str(&format!(" AND j.position = {position} AND j.id = {id}"));
    }
    if filter.summaries {
        sql.push_str(" AND j.kind = 1");
    }
    if filter.due.is_some() {
        sql.push_str(&format!(" AND {DUE} AND {IS_LOWEST}"));
    }
    let order = match filter.conversation {
        Some(_) => "j.height, j.position, j.seq",
        None => "j.height, j.seq",
    };
    sql.push_str(&format!(" ORDER BY {order} LIMIT {}", bind(limit(filter.limit))));
    SqlQuery::new(sql, values)
}

impl TenantReader<'_> {
    pub(super) fn read_jobs(&self, filter: &JobFilter) -> StoreResult<Vec<Job>> {
        self.query_all(job_query(&self.tenant, filter), job)
    }

    pub(super) fn read_job_events(&self, filter: &JobEventFilter) -> StoreResult<Vec<JobEvent>> {
        let sql = format!(
            "SELECT {JOB_EVENT} FROM job_events l WHERE l.tenant = $1
                AND ($2::bytea IS NULL OR l.conversation = $2)
                AND ($3::text IS NULL OR upper(encode(l.job, 'hex')) LIKE $3)
            ORDER BY l.seq DESC LIMIT $4"
        );
        let pattern = filter.job_prefix.as_deref().map(id_pattern);
        let values = values![self.tenant.as_str(), filter.conversation, pattern, filter.limit];
        let mut events = self.query_all(SqlQuery::new(sql, values), job_event)?;
        events.reverse();
        Ok(events)
    }
}

/// Reads a job event from the columns [`JOB_EVENT`].
pub(super) fn job_event(row: &Row) -> Decoded<JobEvent> {
    let conversation = match row.value::<Option<&[u8]>>(1)? {
        None => None,
        Some(_) => Some(row.conversation(1)?),
    };
    Ok(JobEvent {
        at: row.time(0)?,
        conversation,
        job: JobId(ContentHash::from_bytes(row.bytes(2)?)),
        kind: codes::event(row.long(3)?).ok_or("no such event")?,
        text: row.text(4)?,
        took_ms: row.optional_number(5)?,
    })
}

/// Reads a job from the columns [`JOB`].
pub(in crate::postgres) fn job(row: &Row) -> Decoded<Job> {
    let place = (row.number(2)?, row.number(11)?);
    Ok(Job {
        id: JobId(ContentHash::from_bytes(row.bytes(0)?)),
        conversation: row.conversation(10)?,
        kind: decode_work(row.long(1)?, place, &row.text(9)?)?,
        state: job_state(row.long(3)?, row.time(4)?, row.optional_text(7)?)?,
        failures: row.number(5)?,
        planned_at: row.time(6)?,
        error: row.optional_text(8)?,
    })
}

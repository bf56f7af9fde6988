//! Writes jobs and their events.

use std::sync::atomic::{AtomicU64, Ordering};

use treering_core::{Job, JobEvent};

use super::CommitWriter;
use crate::codes::{event_code, job_kind_code, job_state_code};
use crate::postgres::error::Outcome;
use crate::postgres::value::{UndecodableRow, values};
use crate::row_codec::{encode_work, lease_of};

/// Minimum number of job events that are kept for each tenant.
const KEPT_EVENTS: u32 = 100_000;
/// Number of events of this process between two removals of old events.
const TRIM_EVERY: u64 = 2000;

/// Counts job events of this process.
static EVENTS: AtomicU64 = AtomicU64::new(0);

impl CommitWriter {
    pub(super) fn add_job(&mut self, job: &Job) -> Outcome<()> {
        let sql = "INSERT INTO jobs (tenant, conversation, height, position, id, seq, kind, state, due_at, failures,
                planned_at, worker, error, work)
            VALUES ($1, $2, $3, $4, $5, seq($6), $7, $8, $9, $10, $11, $12, $13, $14)
            ON CONFLICT (tenant, conversation, height, position, id) DO NOTHING";
        let (number, (due_at, worker)) = (self.number(), lease_of(job));
        let values = values![
            job.kind.height(),
            job.kind.position(),
            job.id.0.as_bytes(),
            number,
            job_kind_code(&job.kind),
            job_state_code(&job.state),
            due_at,
            job.failures,
            job.planned_at,
            worker,
            job.error.as_deref(),
            encode_work(&job.kind).map_err(UndecodableRow::new)?,
        ];
        self.push_for(job.conversation, sql, values);
        Ok(())
    }

    pub(super) fn put_job(&mut self, job: &Job) -> Outcome<()> {
        let sql = "UPDATE jobs SET state = $6, due_at = $7, failures = $8, worker = $9, error = $10, work = $11
            WHERE tenant = $1 AND conversation = $2 AND height = $3 AND position = $4 AND id = $5";
        let (due_at, worker) = lease_of(job);
        let values = values![
            job.kind.height(),
            job.kind.position(),
            job.id.0.as_bytes(),
            job_state_code(&job.state),
            due_at,
            job.failures,
            worker,
            job.error.as_deref(),
            encode_work(&job.kind).map_err(UndecodableRow::new)?,
        ];
        self.push_for(job.conversation, sql, values);
        Ok(())
    }

    pub(super) fn remove_job(&mut self, job: &Job) {
        let sql = "DELETE FROM jobs
            WHERE tenant = $1 AND conversation = $2 AND height = $3 AND position = $4 AND id = $5";
        let values = values![job.kind.height(), job.kind.position(), job.id.0.as_bytes()];
        self.push_for(job.conversation, sql, values);
    }

    pub(super) fn add_job_event(&mut self, event: &JobEvent) {
        let sql =
            "INSERT INTO job_events (tenant, seq, conversation, at, job, event, took_ms, text)
            VALUES ($1, seq($2), $3, $4, $5, $6, $7, $8)";
        self.touched.extend(event.conversation);
        let number = self.number();
        let values = values![
            number,
            event.conversation,
            event.at,
            event.job.0.as_bytes(),
            event_code(event.kind),
            event.took_ms,
            event.text.as_str(),
        ];
        self.push(sql, values);
        if EVENTS.fetch_add(1, Ordering::Relaxed) % TRIM_EVERY == TRIM_EVERY - 1 {
            let trim = "DELETE FROM job_events WHERE tenant = $1 AND seq <
                (SELECT seq FROM job_events WHERE tenant = $1 ORDER BY seq DESC OFFSET $2 LIMIT 1)";
            self.push(trim, values![KEPT_EVENTS]);
        }
    }
}

//! Writes jobs and their events.

use rusqlite::params;
use treering_core::{Job, JobEvent};

use super::{Commit, Result, stored_json};
use crate::codes::{event_code, job_kind_code, job_state_code};
use crate::row_codec::{encode_work, lease_of};

/// Minimum number of job events that are kept.
const KEPT_LINES: i64 = 100_000;

impl Commit<'_> {
    pub(super) fn add_job(&mut self, job: &Job) -> Result<()> {
        let sql = "INSERT INTO jobs (tenant, conversation, height, place, id, kind, state, moment, failures,
                planned_at, worker, error, work)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
            ON CONFLICT (tenant, conversation, height, place, id) DO NOTHING";
        self.execute_for_job(sql, job)
    }

    pub(super) fn put_job(&mut self, job: &Job) -> Result<()> {
        let sql =
            "UPDATE jobs SET state = ?7, moment = ?8, failures = ?9, worker = ?11, error = ?12,
                work = ?13
            WHERE tenant = ?1 AND conversation = ?2 AND height = ?3 AND place = ?4 AND id = ?5";
        self.execute_for_job(sql, job)
    }

    /// Executes a statement whose parameters are the columns of a job, in the order of the table.
    /// The statement may leave some of them out.
    fn execute_for_job(&mut self, sql: &str, job: &Job) -> Result<()> {
        let (conversation, (due_at, worker)) = (self.pk(job.conversation)?, lease_of(job));
        self.execute(
            sql,
            params![
                self.tenant,
                conversation,
                job.kind.height(),
                job.kind.position(),
                job.id.0.as_bytes(),
                job_kind_code(&job.kind),
                job_state_code(&job.state),
                due_at,
                job.failures,
                job.planned_at.as_micros(),
                worker,
                job.error,
                stored_json(encode_work(&job.kind))?,
            ],
        )?;
        Ok(())
    }

    pub(super) fn remove_job(&mut self, job: &Job) -> Result<()> {
        let sql = "DELETE FROM jobs
            WHERE tenant = ?1 AND conversation = ?2 AND height = ?3 AND place = ?4 AND id = ?5";
        let (conversation, id) = (self.pk(job.conversation)?, job.id.0.as_bytes());
        self.execute(
            sql,
            params![self.tenant, conversation, job.kind.height(), job.kind.position(), id],
        )?;
        Ok(())
    }

    pub(super) fn add_log(&mut self, line: &JobEvent) -> Result<()> {
        let sql = "INSERT INTO log (tenant, seq, conversation, at, job, event, took_ms, text)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let conversation = line.conversation.map(|id| self.pk(id)).transpose()?;
        let seq = self.next_seq();
        let pk = self.connection.prepare_cached(sql)?.insert(params![
            self.tenant,
            seq,
            conversation,
            line.at.as_micros(),
            line.job.0.as_bytes(),
            event_code(line.kind),
            line.took_ms.map(|ms| ms as i64),
            line.text,
        ])?;
        if pk % 1000 == 0 {
            self.execute("DELETE FROM log WHERE pk < ?1", [pk - KEPT_LINES])?;
        }
        Ok(())
    }
}

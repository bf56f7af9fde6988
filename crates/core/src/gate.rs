//! The gate: the jobs that the next context of a conversation waits on. It is computed from the
//! unfinished critical jobs, so that it is correct after a crash and across processes.

use std::fmt::Write as _;

use crate::job::{Job, JobId, JobKind, JobState};
use crate::time::Timestamp;

/// A critical operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateOperation {
    /// The kind of job.
    pub kind: &'static str,
    /// The job's id.
    pub hash: JobId,
    /// A description of the work.
    pub description: String,
    /// The time of planning.
    pub since: Timestamp,
    /// The state: `pending`, `generating` or `failed`.
    pub state: &'static str,
    /// The last error.
    pub error: Option<String>,
}

/// The status of a conversation's gate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GateStatus {
    /// The operations that hold the gate, oldest first.
    pub pending: Vec<GateOperation>,
    /// Operations that were given up, that wait for a retry, or that depend on such an
    /// operation. They do not hold the gate: raw turns replace their results, so that a failing
    /// provider never blocks a context.
    pub failed: Vec<GateOperation>,
}

impl GateStatus {
    /// Computes the status from the unfinished jobs of a conversation. `is_troubled`
    /// returns whether the provider of a kind of job does not respond.
    #[must_use]
    pub fn of(jobs: &[Job], is_troubled: impl Fn(&JobKind) -> bool) -> Self {
        let mut status = Self::default();
        // If one job fails or stalls, the others of its level wait for the same provider, and
        // higher levels depend on it.
        let has_trouble =
            |job: &Job| job.failures > 0 || job.error.is_some() || is_troubled(&job.kind);
        let in_trouble = |job: &&Job| job.state != JobState::Dead && has_trouble(job);
        let lowest_failed_height =
            jobs.iter().filter(in_trouble).map(|job| job.kind.height()).min();
        let holds = |job: &Job| {
            job.state != JobState::Dead
                && lowest_failed_height.is_none_or(|height| job.kind.height() < height)
        };
        for job in jobs.iter().filter(|job| job.kind.is_critical()) {
            let operation = GateOperation {
                kind: job.kind.as_str(),
                hash: job.id,
                description: job.kind.to_string(),
                since: job.planned_at,
                state: job.state.as_str(),
                error: job.error.clone(),
            };
            if holds(job) {
                status.pending.push(operation);
            } else {
                status.failed.push(operation);
            }
        }
        status
    }

    /// Whether the next context can be built from complete data.
    #[must_use]
    pub const fn is_clear(&self) -> bool {
        self.pending.is_empty()
    }

    /// The status as human-readable text.
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        let mut text = match self.pending.len() {
            0 => "gate: open".to_owned(),
            1 => "gate: waiting for 1 operation".to_owned(),
            n => format!("gate: waiting for {n} operations"),
        };
        for operation in self.pending.iter().chain(&self.failed) {
            let GateOperation { description, hash, state, since, .. } = operation;
            let age = now.as_micros().saturating_sub(since.as_micros()).max(0) as f64 / 1e6;
            // Writing to a string does not fail.
            _ = write!(text, "\n  {state}: {description} [{}], {age:.1} s", hash.short());
            if let Some(error) = &operation.error {
                _ = write!(text, ": {error}");
            }
        }
        text
    }
}

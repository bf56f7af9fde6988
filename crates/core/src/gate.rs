//! The gate: what the next context of a conversation waits on. It is read off the unfinished
//! critical jobs, so that it is right after a crash and across processes.

use std::fmt::Write as _;

use crate::job::{Job, JobId, JobKind, JobState};
use crate::time::Timestamp;

/// A critical operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The kind of job.
    pub kind: &'static str,
    /// The identity of what it works on.
    pub hash: JobId,
    /// What it does, in words.
    pub description: String,
    /// When it was planned.
    pub since: Timestamp,
    /// Where it stands: `pending`, `generating` or `failed`.
    pub state: &'static str,
    /// Why it failed last.
    pub error: Option<String>,
}

/// How the gate of a conversation stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GateStatus {
    /// What holds it, the oldest first.
    pub pending: Vec<Operation>,
    /// What was given up, what failed and is tried again later, and what comes after that. It holds nothing: raw turns
    /// stand in, so that a provider that fails keeps nobody waiting.
    pub failed: Vec<Operation>,
}

impl GateStatus {
    /// How the gate stands, given the unfinished jobs of a conversation, and which of them a model has to do that does
    /// not answer, as far as that is known from elsewhere.
    #[must_use]
    pub fn of(jobs: &[Job], is_troubled: impl Fn(&JobKind) -> bool) -> Self {
        let mut status = Self::default();
        // Where one has failed or waits in vain, others of its height would wait for the same provider, and those above
        // come after it.
        let has_trouble =
            |job: &Job| job.failures > 0 || job.error.is_some() || is_troubled(&job.kind);
        let in_trouble = |job: &&Job| job.state != JobState::Dead && has_trouble(job);
        let trouble = jobs.iter().filter(in_trouble).map(|job| job.kind.height()).min();
        let holds = |job: &Job| {
            job.state != JobState::Dead && trouble.is_none_or(|height| job.kind.height() < height)
        };
        for job in jobs.iter().filter(|job| job.kind.is_critical()) {
            let operation = Operation {
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

    /// Whether the next context can be built with everything in it.
    #[must_use]
    pub const fn is_clear(&self) -> bool {
        self.pending.is_empty()
    }

    /// The status as people read it.
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        let mut text = match self.pending.len() {
            0 => "gate: open".to_owned(),
            1 => "gate: waiting for 1 operation".to_owned(),
            many => format!("gate: waiting for {many} operations"),
        };
        for operation in self.pending.iter().chain(&self.failed) {
            let Operation { description, hash, state, since, .. } = operation;
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

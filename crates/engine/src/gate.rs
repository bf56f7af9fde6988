//! The gate: waits until the critical jobs of a conversation are done, up to a timeout.

use std::time::{Duration, Instant};

use treering_core::ports::JobFilter;
use treering_core::{ConversationId, GateStatus, Job, Reader};

use crate::engine::Engine;
use crate::error::Result;

/// How often the gate is polled: a model that stops answering makes no commit to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The result of waiting for the gate.
#[derive(Debug, Clone)]
pub struct GateWait {
    /// The final status: clear, or a list of the unfinished jobs.
    pub status: GateStatus,
    /// The time spent waiting.
    pub waited: Duration,
}

/// The status of the gate, with the read snapshot that it was taken from.
pub(crate) struct GateSnapshot<'a> {
    pub(crate) reader: Box<dyn Reader + 'a>,
    /// The unfinished jobs of the conversation.
    pub(crate) jobs: Vec<Job>,
    status: GateStatus,
}

impl Engine {
    /// The status of a conversation's gate.
    pub fn gate(&self, id: ConversationId) -> Result<GateStatus> {
        Ok(self.gate_snapshot(id)?.status)
    }

    /// Waits until the gate of a conversation is clear, at most for `timeout`. Jobs that another
    /// process runs count as well.
    pub fn wait(&self, id: ConversationId, timeout: Duration) -> Result<GateWait> {
        Ok(self.wait_for_gate_snapshot(id, timeout)?.1)
    }

    /// Like [`Self::wait`], but also returns the snapshot for further reads.
    pub(crate) fn wait_for_gate_snapshot(
        &self,
        id: ConversationId,
        timeout: Duration,
    ) -> Result<(GateSnapshot<'_>, GateWait)> {
        let started = Instant::now();
        loop {
            // Taken before the read, so that no commit in between is missed.
            let revision = self.store().revision();
            let mut seen = self.gate_snapshot(id)?;
            let waited = started.elapsed();
            // No worker of this process can make progress while the store refuses writes.
            if seen.status.is_clear() || waited >= timeout || self.failure().is_some() {
                let status = std::mem::take(&mut seen.status);
                return Ok((seen, GateWait { status, waited }));
            }
            drop(seen);
            self.store().wait(revision, POLL_INTERVAL.min(timeout.saturating_sub(waited)));
        }
    }

    fn gate_snapshot(&self, id: ConversationId) -> Result<GateSnapshot<'_>> {
        let reader = self.reader()?;
        let jobs = reader.jobs(&JobFilter::of(id))?;
        let status =
            GateStatus::of(&jobs, |kind| self.is_circuit_open(&*reader, kind).unwrap_or(false));
        Ok(GateSnapshot { reader, jobs, status })
    }
}

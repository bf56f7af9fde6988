//! The gate: waits until the critical work of a conversation is done, at most for a while.

use std::time::{Duration, Instant};

use treering_core::gate::GateStatus;
use treering_core::ports::JobFilter;
use treering_core::{ConversationId, Job, Reader};

use crate::engine::Engine;
use crate::error::Result;

/// How often the gate is read without a commit: a model that stops answering commits nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How waiting for the gate ended.
#[derive(Debug, Clone)]
pub struct GateWait {
    /// How the gate stood at the end: clear, or naming what was still to be done.
    pub status: GateStatus,
    /// How long it took.
    pub waited: Duration,
}

/// A gate that was looked at: what is read next is of the same moment.
pub(crate) struct GateSnapshot<'a> {
    pub(crate) reader: Box<dyn Reader + 'a>,
    /// The unfinished jobs of the conversation.
    pub(crate) jobs: Vec<Job>,
    status: GateStatus,
}

impl Engine {
    /// How the gate of a conversation stands.
    pub fn gate(&self, id: ConversationId) -> Result<GateStatus> {
        Ok(self.gate_snapshot(id)?.status)
    }

    /// Waits until the gate of a conversation is clear, at most for `timeout`. Work that another
    /// process does counts as well.
    pub fn wait(&self, id: ConversationId, timeout: Duration) -> Result<GateWait> {
        Ok(self.wait_for_gate_snapshot(id, timeout)?.1)
    }

    /// The same, to go on from there.
    pub(crate) fn wait_for_gate_snapshot(
        &self,
        id: ConversationId,
        timeout: Duration,
    ) -> Result<(GateSnapshot<'_>, GateWait)> {
        let started = Instant::now();
        loop {
            // Taken before the store is read: a commit in between is not missed.
            let revision = self.store().revision();
            let mut seen = self.gate_snapshot(id)?;
            let waited = started.elapsed();
            // Nobody in this process can do the work while the store refuses writes.
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

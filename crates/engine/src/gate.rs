//! The gate: waits until the critical work of a conversation is done, at most for a while.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use treering_core::ConversationId;
use treering_core::gate::GateStatus;
use treering_core::ports::JobFilter;

use crate::error::Result;
use crate::memory::Memory;

/// How often the store is asked what other processes have done.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// How waiting for the gate ended.
#[derive(Debug, Clone)]
pub struct Passage {
    /// How the gate stood at the end: clear, or naming what was still to be done.
    pub status: GateStatus,
    /// How long it took.
    pub waited: Duration,
}

impl Memory {
    /// How the gate of a conversation stands.
    pub fn gate(&self, id: ConversationId) -> Result<GateStatus> {
        let filter = JobFilter { heights: Some((0, 1)), ..JobFilter::of(id) };
        let reader = self.store().reader()?;
        let jobs = reader.jobs(self.tenant(), &filter)?;
        Ok(GateStatus::of(&jobs, |kind| self.is_troubled(&*reader, kind).unwrap_or(false)))
    }

    /// Waits until the gate of a conversation is clear, at most for `timeout`. Work that another
    /// process does counts as well.
    pub fn wait(&self, id: ConversationId, timeout: Duration) -> Result<Passage> {
        let started = Instant::now();
        loop {
            // The mark is taken before the store is asked: what ends in between is not missed.
            let mark = self.signal().mark();
            let status = self.gate(id)?;
            let waited = started.elapsed();
            if status.is_clear() || waited >= timeout {
                return Ok(Passage { status, waited });
            }
            self.signal().wait(mark, LOOK_AGAIN.min(timeout.saturating_sub(waited)));
        }
    }
}

/// Tells the threads of a process that work was planned or done.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    /// What to wait against.
    pub(crate) fn mark(&self) -> u64 {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn raise(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Waits until it was raised after `mark`, at most for `timeout`.
    pub(crate) fn wait(&self, mark: u64, timeout: Duration) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(count, timeout, |count| *count == mark));
    }
}

//! The gate: waits until the critical work of a conversation is done, at most for a while.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use treering_core::gate::GateStatus;
use treering_core::ports::JobFilter;
use treering_core::{ConversationId, Job, Reader};

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

/// A gate that was looked at: what is read next is of the same moment.
pub(crate) struct Seen<'a> {
    pub(crate) reader: Box<dyn Reader + 'a>,
    /// The unfinished jobs of the conversation.
    pub(crate) jobs: Vec<Job>,
    status: GateStatus,
}

impl Memory {
    /// How the gate of a conversation stands.
    pub fn gate(&self, id: ConversationId) -> Result<GateStatus> {
        Ok(self.look(id)?.status)
    }

    /// Waits until the gate of a conversation is clear, at most for `timeout`. Work that another
    /// process does counts as well.
    pub fn wait(&self, id: ConversationId, timeout: Duration) -> Result<Passage> {
        Ok(self.pass(id, timeout)?.1)
    }

    /// The same, to go on from there.
    pub(crate) fn pass(&self, id: ConversationId, timeout: Duration) -> Result<(Seen<'_>, Passage)> {
        let started = Instant::now();
        loop {
            // The mark is taken before the store is asked: what ends in between is not missed.
            let mark = self.signal().mark();
            let mut seen = self.look(id)?;
            let waited = started.elapsed();
            if seen.status.is_clear() || waited >= timeout {
                let status = std::mem::take(&mut seen.status);
                return Ok((seen, Passage { status, waited }));
            }
            drop(seen);
            self.signal().wait(mark, LOOK_AGAIN.min(timeout.saturating_sub(waited)));
        }
    }

    fn look(&self, id: ConversationId) -> Result<Seen<'_>> {
        let reader = self.store().reader()?;
        let jobs = reader.jobs(self.tenant(), &JobFilter::of(id))?;
        let status = GateStatus::of(&jobs, |kind| self.is_troubled(&*reader, kind).unwrap_or(false));
        Ok(Seen { reader, jobs, status })
    }
}

/// Tells the threads of a process that work was planned or done.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: Mutex<Raised>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Raised {
    /// How often.
    count: u64,
    /// How many threads wait for the next time: with none, the system need not be asked to wake them.
    waiting: usize,
}

impl Signal {
    /// What to wait against.
    pub(crate) fn mark(&self) -> u64 {
        self.lock().count
    }

    pub(crate) fn raise(&self) {
        let mut state = self.lock();
        state.count += 1;
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until it was raised after `mark`, at most for `timeout`.
    pub(crate) fn wait(&self, mark: u64, timeout: Duration) {
        let mut state = self.lock();
        state.waiting += 1;
        let waited = self.changed.wait_timeout_while(state, timeout, |state| state.count == mark);
        waited.unwrap_or_else(PoisonError::into_inner).0.waiting -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, Raised> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

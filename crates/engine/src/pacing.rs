//! The pace of updates: how many jobs of a conversation run at once in this process, and the pause
//! after each. It ends with the last job of the update.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use treering_core::{ConversationKey, JobId};

/// The limits of an update on its own jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpdateLimits {
    /// Maximum number of jobs at once; the setting of the worker if absent.
    pub concurrency: Option<u16>,
    /// The pause after each job, in milliseconds; the setting of the worker if absent.
    pub batch_delay_ms: Option<u64>,
}

/// An update whose jobs are not finished yet.
#[derive(Debug, Clone)]
struct RunningUpdate {
    id: JobId,
    pace: UpdateLimits,
    started: Instant,
    /// Jobs that run now.
    running: u16,
    /// Nodes written and milliseconds spent, by level from 1.
    written: Vec<(u32, u64)>,
    failed: u32,
}

/// The result of a finished update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinishedUpdate {
    pub(crate) id: JobId,
    pub(crate) elapsed: Duration,
    /// Nodes written and milliseconds spent, by level from 1.
    pub(crate) written: Vec<(u32, u64)>,
    pub(crate) failed: u32,
}

/// The updates that run in this process.
#[derive(Debug, Default)]
pub(crate) struct RunningUpdates {
    updates: Mutex<HashMap<ConversationKey, RunningUpdate>>,
    freed: Condvar,
}

impl RunningUpdates {
    /// Begins an update. It replaces an earlier one of the conversation.
    pub(crate) fn begin(&self, key: ConversationKey, id: JobId, pace: UpdateLimits) {
        let update = RunningUpdate {
            id,
            pace,
            started: Instant::now(),
            running: 0,
            written: Vec::new(),
            failed: 0,
        };
        self.lock().insert(key, update);
    }

    /// Whether an update of the conversation is running.
    pub(crate) fn contains(&self, key: &ConversationKey) -> bool {
        self.lock().contains_key(key)
    }

    /// Waits until another job of the conversation may run. Returns the pause after it.
    pub(crate) fn enter(&self, key: &ConversationKey) -> Option<Duration> {
        let mut updates = self.lock();
        loop {
            let update = updates.get_mut(key)?;
            let limit = update.pace.concurrency.unwrap_or(u16::MAX);
            if update.running < limit {
                update.running += 1;
                return Some(Duration::from_millis(update.pace.batch_delay_ms.unwrap_or(0)));
            }
            updates = self.freed.wait(updates).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records the end of a job: the level of the node that it wrote, and its duration.
    pub(crate) fn leave(&self, key: &ConversationKey, written: Option<(u8, u64)>, failed: bool) {
        if let Some(update) = self.lock().get_mut(key) {
            update.running = update.running.saturating_sub(1);
            update.failed += u32::from(failed);
            if let Some((level, ms)) = written {
                let levels = usize::from(level.max(1));
                let length = update.written.len().max(levels);
                update.written.resize(length, (0, 0));
                let (nodes, spent) = &mut update.written[levels - 1];
                (*nodes, *spent) = (*nodes + 1, *spent + ms);
            }
        }
        self.freed.notify_all();
    }

    /// Ends the update of a conversation whose jobs are all finished.
    pub(crate) fn end(&self, key: &ConversationKey) -> Option<FinishedUpdate> {
        let mut updates = self.lock();
        let update = updates.get(key).filter(|update| update.running == 0)?;
        let finished = FinishedUpdate {
            id: update.id,
            elapsed: update.started.elapsed(),
            written: update.written.clone(),
            failed: update.failed,
        };
        updates.remove(key);
        Some(finished)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ConversationKey, RunningUpdate>> {
        self.updates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Detects commits: those of this process immediately, those of other processes by asking the
//! server for the number of commits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use treering_core::ports::Revision;

/// Interval at which a process that waits asks the server.
const POLL: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(super) struct RemoteWatch {
    state: Mutex<Polled>,
    committed: Condvar,
}

#[derive(Default)]
struct Polled {
    revision: u64,
    /// The number of commits at the last poll.
    commits: Option<i64>,
    /// The time of the last poll. All callers that wait share it.
    at: Option<Instant>,
}

impl RemoteWatch {
    pub(super) fn revision(&self) -> Revision {
        Revision(self.lock().revision)
    }

    /// Records a commit of this process.
    pub(super) fn notify(&self) {
        self.lock().revision += 1;
        self.committed.notify_all();
    }

    /// Waits for a commit after `seen`. `poll` asks the server for the number of commits.
    pub(super) fn wait(
        &self,
        seen: Revision,
        timeout: Duration,
        poll: impl Fn() -> Option<i64>,
    ) -> Revision {
        let started = Instant::now();
        let mut state = self.lock();
        loop {
            if state.revision == seen.0 && state.at.is_none_or(|at| at.elapsed() >= POLL) {
                state.at = Some(Instant::now());
                drop(state);
                let commits = poll();
                state = self.lock();
                // The server may be away for a moment.
                if commits.is_some() && state.commits != commits {
                    state.commits = commits;
                    state.revision += 1;
                    self.committed.notify_all();
                }
            }
            let left = timeout.saturating_sub(started.elapsed());
            if state.revision != seen.0 || left.is_zero() {
                return Revision(state.revision);
            }
            let waited = self.committed.wait_timeout(state, left.min(POLL));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Polled> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Detects commits: those of this process immediately, those of other processes by polling SQLite's
//! `data_version`.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use treering_core::ports::Revision;

use super::unwritable::FileState;

/// Interval at which a waiting caller polls for commits of other processes.
const POLL: Duration = Duration::from_millis(25);

#[derive(Default)]
pub(super) struct Watch {
    state: Mutex<WatchState>,
    committed: Condvar,
}

#[derive(Default)]
struct WatchState {
    revision: u64,
    /// The file state at the last poll, for a read-only store.
    files: Option<FileState>,
    /// The connection for polling, opened by the first caller that waits.
    connection: Option<Connection>,
    data_version: Option<i64>,
}

impl Watch {
    pub(super) fn revision(&self) -> Revision {
        Revision(self.lock().revision)
    }

    /// Records a commit of this process.
    pub(super) fn notify(&self) {
        self.lock().revision += 1;
        self.committed.notify_all();
    }

    /// Closes the connection for polling.
    pub(super) fn close(&self) {
        self.lock().connection = None;
    }

    /// Waits for a commit after `seen`. `open` opens the connection for polling.
    pub(super) fn wait(
        &self,
        seen: Revision,
        timeout: Duration,
        open: impl Fn() -> Option<Connection>,
    ) -> Revision {
        self.wait_with(seen, timeout, |state| state.poll(&open))
    }

    /// Like `wait`, but polls the file state of a read-only store.
    pub(super) fn wait_for_files(
        &self,
        seen: Revision,
        timeout: Duration,
        files: impl Fn() -> FileState,
    ) -> Revision {
        self.wait_with(seen, timeout, |state| {
            let files = files();
            if state.files.replace(files) != Some(files) {
                state.revision += 1;
            }
        })
    }

    fn wait_with(
        &self,
        seen: Revision,
        timeout: Duration,
        poll: impl Fn(&mut WatchState),
    ) -> Revision {
        let started = Instant::now();
        let mut state = self.lock();
        loop {
            if state.revision == seen.0 {
                poll(&mut state);
            }
            let left = timeout.saturating_sub(started.elapsed());
            if state.revision != seen.0 || left.is_zero() {
                return Revision(state.revision);
            }
            let waited = self.committed.wait_timeout(state, left.min(POLL));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchState {
    /// Increments the revision if another connection has committed since the last poll.
    fn poll(&mut self, open: impl Fn() -> Option<Connection>) {
        if self.connection.is_none() {
            self.connection = open();
        }
        let Some(connection) = &self.connection else { return };
        let version = connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        match version {
            Ok(version) => {
                let before = self.data_version.replace(version);
                if before != Some(version) {
                    self.revision += 1;
                }
            }
            Err(_) => self.connection = None,
        }
    }
}

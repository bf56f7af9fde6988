//! Checkpoints: moves the pages of the log into the database, on a thread and a connection of its own, so that no
//! commit waits for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use treering_core::ports::StoreResult;

use super::Sync;
use super::error::{explain, is_io_failure, no_thread};
use super::health::StoreHealth;
use super::open::open_existing;

/// The log is checkpointed from this many pages on, as SQLite does it by default.
const LONG_PAGES: usize = 1_000;
/// From this many pages on, writers wait for the checkpoint. Otherwise the log would grow without end while they never
/// pause.
const TOO_LONG_PAGES: usize = 4 * LONG_PAGES;
/// How long writers wait for readers of an old snapshot while the log is too long.
const MAX_WAIT: Duration = Duration::from_millis(250);

/// Runs checkpoints until it is dropped.
pub(super) struct Checkpointer {
    requests: Option<SyncSender<CheckpointRequest>>,
    thread: Option<JoinHandle<()>>,
}

enum CheckpointRequest {
    /// Move what can be moved without making anybody wait.
    Passive,
    /// Move everything, so that the log starts over, and say when it is done.
    Restart(SyncSender<()>),
}

impl Checkpointer {
    pub(super) fn start(path: &Path, sync: Sync, health: Arc<StoreHealth>) -> StoreResult<Self> {
        let connection = open_existing(path, sync)
            .and_then(|connection| connection.busy_timeout(MAX_WAIT).map(|()| connection))
            .map_err(|error| explain(path, &error))?;
        let (requests, received) = sync_channel(1);
        let path: PathBuf = path.into();
        let thread = thread::Builder::new()
            .name("treering-checkpoint".into())
            .spawn(move || run(&path, &connection, &received, &health))
            .map_err(|error| no_thread(&error))?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Checkpoints a log with this number of pages. Waits for it only if the log is too long.
    pub(super) fn checkpoint(&self, pages: usize) {
        let Some(requests) = self.requests.as_ref().filter(|_| pages >= LONG_PAGES) else { return };
        if pages < TOO_LONG_PAGES {
            // One that is already waiting will do.
            let _ = requests.try_send(CheckpointRequest::Passive);
            return;
        }
        let (done, wait) = sync_channel(1);
        if requests.send(CheckpointRequest::Restart(done)).is_ok() {
            let _ = wait.recv();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn run(
    path: &Path,
    connection: &Connection,
    requests: &Receiver<CheckpointRequest>,
    health: &StoreHealth,
) {
    for request in requests {
        let mode =
            if matches!(request, CheckpointRequest::Passive) { "PASSIVE" } else { "RESTART" };
        let done = connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
        // A checkpoint that found the store busy is tried again after a later commit.
        if let Err(error) = done
            && is_io_failure(&error)
        {
            health.fail(path, &error, connection);
        }
        if let CheckpointRequest::Restart(done) = request {
            let _ = done.send(());
        }
    }
}

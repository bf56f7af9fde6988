//! Runs checkpoints on a thread and a connection of their own, so that commits do not wait for
//! them unless the WAL grows too long.

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

/// Number of WAL pages from which it is checkpointed; the same as SQLite's default.
const LONG_PAGES: usize = 1_000;
/// Number of WAL pages from which writers wait for the checkpoint. Without a limit, the WAL
/// would grow forever under continuous writes.
const TOO_LONG_PAGES: usize = 4 * LONG_PAGES;
/// Maximum time that writers wait for readers of an old snapshot while the WAL is too long.
const MAX_WAIT: Duration = Duration::from_millis(250);

/// The checkpointing thread. Dropping it stops the thread.
pub(super) struct Checkpointer {
    requests: Option<SyncSender<CheckpointRequest>>,
    thread: Option<JoinHandle<()>>,
}

enum CheckpointRequest {
    /// Checkpoint as much as possible without blocking anyone.
    Passive,
    /// Checkpoint everything, so that the WAL starts over, and signal completion.
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

    /// Checkpoints a WAL of this many pages. Waits for completion only if the WAL is too long.
    pub(super) fn checkpoint(&self, pages: usize) {
        let Some(requests) = self.requests.as_ref().filter(|_| pages >= LONG_PAGES) else { return };
        if pages < TOO_LONG_PAGES {
            // If the channel is full, the request that is already queued is enough.
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
        // A checkpoint that found the store busy is retried after a later commit.
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

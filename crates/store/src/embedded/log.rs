//! The write-ahead log as a file: what makes commits durable.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts commits, and syncs the log so that one sync serves all that were applied before it.
///
/// SQLite itself would sync inside each commit, while nobody else can write. Done here, after
/// it, the next commits can be applied meanwhile. All else that write-ahead mode needs synced
/// (the log before a checkpoint, the file after it, a new log's header) SQLite still does.
#[derive(Default)]
pub(super) struct Log {
    applied: AtomicU64,
    synced: Mutex<Synced>,
}

#[derive(Default)]
struct Synced {
    file: Option<File>,
    upto: u64,
}

impl Log {
    /// Notes that something was applied.
    pub(super) fn advance(&self) {
        self.applied.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns when everything that was applied before the call is on the disk.
    pub(super) fn sync(&self, log: &Path) -> io::Result<()> {
        let wanted = self.applied.load(Ordering::SeqCst);
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if synced.upto >= wanted {
            return Ok(());
        }
        // Whoever came in while the disk was busy is served by this sync too.
        let reached = self.applied.load(Ordering::SeqCst);
        if synced.file.is_none() {
            // The log stays the same file for as long as a connection is open.
            synced.file = Some(File::options().read(true).write(true).open(log)?);
        }
        if let Some(file) = &synced.file {
            file.sync_data()?;
        }
        synced.upto = reached;
        Ok(())
    }
}

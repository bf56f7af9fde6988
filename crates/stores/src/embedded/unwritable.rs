//! Reading a store where nothing can be written, while others may write to it.
//!
//! With a log beside the file, SQLite reads both, and its locks keep what is read in place. Without one the file is all
//! there is, and nobody can be kept from changing it: it is read as it stands, and every read checks that it still
//! stands so.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode};
use treering_core::StoreError;
use treering_core::ports::StoreResult;

use super::error::explain;
use super::open::{configure, open_immutable, open_reader, sidecar_path};

/// How often opening is tried while writers come and go, and the pause before trying again.
const ATTEMPTS: usize = 40;
const PAUSE: Duration = Duration::from_millis(5);

/// Size and time of change of a file; none where it is missing.
type Stamp = Option<(u64, SystemTime)>;

/// The state of the store's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileState {
    database: Stamp,
    log: Stamp,
}

impl FileState {
    pub(super) fn of(path: &Path) -> Self {
        let stamp = |suffix| {
            let file = fs::metadata(sidecar_path(path, suffix)).ok()?;
            Some((file.len(), file.modified().ok()?))
        };
        Self { database: stamp(""), log: stamp("-wal") }
    }

    /// Refuses what was read if the database has changed since. A log that came meanwhile does no harm.
    pub(super) fn check_unchanged(&self, path: &Path) -> StoreResult<()> {
        match Self::of(path).database == self.database {
            true => Ok(()),
            false => Err(StoreError::Changed { path: path.to_path_buf() }),
        }
    }
}

/// A connection inside a read transaction; with the state that every read has to check, where nothing else keeps it.
pub(super) fn begin(path: &Path) -> StoreResult<(Connection, Option<FileState>)> {
    let mut attempt = 1;
    loop {
        let state = FileState::of(path);
        let opened = if state.log.is_some() { open_reader(path) } else { open_alone(path) };
        // The first read decides what is seen, and needs the log.
        let begun = opened.and_then(|connection| {
            connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
            Ok(connection)
        });
        match begun {
            Ok(connection) if state.log.is_some() => return Ok((connection, None)),
            Ok(connection) if FileState::of(path) == state => return Ok((connection, Some(state))),
            Err(error) if attempt >= ATTEMPTS || !is_passing(path, &error, state) => {
                return Err(unreadable(path, &error));
            }
            Ok(_) if attempt >= ATTEMPTS => {
                return Err(StoreError::Changed { path: path.to_path_buf() });
            }
            // A writer came or went in between.
            _ => thread::sleep(PAUSE),
        }
        attempt += 1;
    }
}

fn open_alone(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_immutable(path)?;
    configure(&connection)?;
    Ok(connection)
}

/// Whether an error may be gone at the next attempt: a log was there without its index, or the other way round.
fn is_passing(path: &Path, error: &rusqlite::Error, state: FileState) -> bool {
    let is_of_log =
        matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
    FileState::of(path) != state || (is_of_log && state.log.is_some())
}

fn unreadable(path: &Path, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => StoreError::ReadOnly {
            path: path.to_path_buf(),
            detail: "turns are in its log, which can be read only where its index can be written"
                .into(),
        },
        _ => explain(path, error),
    }
}

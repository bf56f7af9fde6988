//! Reads a store on read-only media or without write permission, while other processes may
//! write to it. It never creates or changes a file.
//!
//! If the database has a WAL, SQLite reads both, and its locks protect the snapshot.
//! Without a WAL, nothing prevents other processes from changing the database: it is opened as
//! immutable, and every read checks that the file is unchanged.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode};
use treering_core::StoreError;
use treering_core::ports::StoreResult;

use super::error::explain;
use super::open::{configure, open_immutable, open_reader, sidecar_path};

/// Maximum number of attempts to open while writers come and go, and the pause between
/// attempts.
const ATTEMPTS: usize = 40;
const PAUSE: Duration = Duration::from_millis(5);

/// Size and modification time of a file; `None` if it does not exist.
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

    /// Fails if the database has changed since this state was taken. A new WAL does not matter.
    pub(super) fn check_unchanged(&self, path: &Path) -> StoreResult<()> {
        match Self::of(path).database == self.database {
            true => Ok(()),
            false => Err(StoreError::Changed { path: path.to_path_buf() }),
        }
    }
}

/// Opens a connection and begins a read transaction. Also returns the file state that every
/// read has to check, if no lock protects the snapshot.
pub(super) fn begin(path: &Path) -> StoreResult<(Connection, Option<FileState>)> {
    let mut attempt = 1;
    loop {
        let state = FileState::of(path);
        let opened = if state.log.is_some() { open_reader(path) } else { open_without_wal(path) };
        // The first read fixes the snapshot and needs the WAL.
        let begin_result = opened.and_then(|connection| {
            connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
            Ok(connection)
        });
        match begin_result {
            Ok(connection) if state.log.is_some() => return Ok((connection, None)),
            Ok(connection) if FileState::of(path) == state => return Ok((connection, Some(state))),
            Err(error) if attempt >= ATTEMPTS || !is_transient(path, &error, state) => {
                return Err(unreadable(path, &error));
            }
            Ok(_) if attempt >= ATTEMPTS => {
                return Err(StoreError::Changed { path: path.to_path_buf() });
            }
            // A writer opened or closed the store in the meantime.
            _ => thread::sleep(PAUSE),
        }
        attempt += 1;
    }
}

fn open_without_wal(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_immutable(path)?;
    configure(&connection)?;
    Ok(connection)
}

/// Whether a retry may succeed: a WAL was present without its index, or the reverse.
fn is_transient(path: &Path, error: &rusqlite::Error, state: FileState) -> bool {
    let is_wal_error =
        matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
    FileState::of(path) != state || (is_wal_error && state.log.is_some())
}

fn unreadable(path: &Path, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => StoreError::ReadOnly {
            path: path.to_path_buf(),
            detail: "some turns are in its write-ahead log, which can be read only with write access to the folder"
                .into(),
        },
        _ => explain(path, error),
    }
}

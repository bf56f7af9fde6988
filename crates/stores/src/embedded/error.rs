//! Converts SQLite and I/O errors into store errors that say what to do.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use treering_core::StoreError;

/// Converts an SQLite error of the store at `path`.
pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_path_buf();
    let detail = error.to_string();
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
                StoreError::ReadOnly { path, detail }
            }
            ErrorCode::CannotOpen => StoreError::Failed { path, detail },
            ErrorCode::DiskFull => StoreError::Full { path },
            // No space for the WAL index (`-shm`).
            ErrorCode::SystemIoFailure if failure.extended_code == SQLITE_IOERR_SHMSIZE => {
                StoreError::Full { path }
            }
            ErrorCode::DatabaseCorrupt => StoreError::Corrupt { path, detail },
            ErrorCode::NotADatabase => StoreError::Corrupt {
                path,
                detail: "it is not a Treering store, or its beginning was overwritten".into(),
            },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                StoreError::Busy { path, seconds: super::open::MAX_WAIT.as_secs() }
            }
            _ => StoreError::Failed { path, detail },
        },
        // The row does not hold the type or the value that it was written with.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => StoreError::Corrupt { path, detail: reason(error) },
        // Only rows that another row refers to are read without `optional()`.
        rusqlite::Error::QueryReturnedNoRows => {
            StoreError::Corrupt { path, detail: "a row that another refers to is missing".into() }
        }
        _ => StoreError::Failed { path, detail },
    }
}

/// The reason why a row could not be read, without the column number.
pub(super) fn reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::FromSqlConversionFailure(_, _, error) => error.to_string(),
        rusqlite::Error::IntegralValueOutOfRange(_, value) => format!("{value} is out of range"),
        rusqlite::Error::InvalidColumnType(_, column, _) => format!("{column} has the wrong type"),
        other => other.to_string(),
    }
}

/// Whether a write failed below SQLite or hit corruption. The store must not write after such
/// an error.
pub(super) fn is_io_failure(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::SystemIoFailure => failure.extended_code != SQLITE_IOERR_SHMSIZE,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => true,
            _ => false,
        },
        _ => false,
    }
}

/// Converts an I/O error on one of the store's files.
pub(super) fn explain_io(path: &Path, action: &str, error: &io::Error) -> StoreError {
    let (path, detail) = (path.to_path_buf(), format!("{action}: {error}"));
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly { path, detail }
        }
        io::ErrorKind::StorageFull => StoreError::Full { path },
        _ => StoreError::Failed { path, detail },
    }
}

/// The operating system could not start a thread.
pub(super) fn no_thread(error: &io::Error) -> StoreError {
    StoreError::Failed {
        path: Default::default(),
        detail: format!("cannot start a thread: {error}"),
    }
}

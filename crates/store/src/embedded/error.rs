//! From SQLite's errors to ones that say what to do.

use std::path::Path;

use rusqlite::ErrorCode;
use treering_core::StoreError;

/// What an error of SQLite means for the store at `path`.
pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_path_buf();
    let detail = error.to_string();
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { path, detail },
            ErrorCode::CannotOpen => StoreError::Failed { path, detail },
            ErrorCode::DiskFull => StoreError::Full { path },
            // No room for the index of the log.
            ErrorCode::SystemIoFailure if failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => {
                StoreError::Full { path }
            }
            ErrorCode::DatabaseCorrupt => StoreError::Corrupt { path, detail },
            ErrorCode::NotADatabase => StoreError::Corrupt {
                path,
                detail: "it is not a Treering store, or its beginning was overwritten".into(),
            },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                StoreError::Busy { path, seconds: super::open::PATIENCE.as_secs() }
            }
            _ => StoreError::Failed { path, detail },
        },
        // A row that does not have the type or the value that it was written with.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => StoreError::Corrupt { path, detail },
        // Every row that is asked for by itself is one that another row refers to.
        rusqlite::Error::QueryReturnedNoRows => {
            StoreError::Corrupt { path, detail: "a row that another refers to is missing".into() }
        }
        _ => StoreError::Failed { path, detail },
    }
}

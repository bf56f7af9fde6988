//! Converts PostgreSQL errors into store errors, and decides which of them a retry can fix.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use treering_core::StoreError;

use super::value::UndecodableRow;

/// The conversation or tenant has changed since the plan was made (schema/0002_commit.sql).
const CHANGED: &str = "TR001";

/// Why a statement failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server refused it, or the connection broke.
    Server(tokio_postgres::Error),
    /// The server did not answer in time.
    TimedOut(Duration),
    /// No connection of the pool became free in time.
    PoolExhausted(Duration),
    /// The state that a plan saw has changed, and nothing was written.
    Changed,
    /// A row does not hold what this program writes.
    Unreadable(UndecodableRow),
    /// Anything else, such as a plan that refused.
    Store(StoreError),
}

pub(super) type Outcome<T> = Result<T, Failure>;

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<UndecodableRow> for Failure {
    fn from(error: UndecodableRow) -> Self {
        Self::Unreadable(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// Whether the connection cannot be used any more.
    pub(super) fn is_disconnect(&self) -> bool {
        match self {
            Self::TimedOut(_) => true,
            Self::Server(error) => match error.code() {
                None => error.is_closed() || error.as_db_error().is_none(),
                Some(code) => matches!(
                    *code,
                    SqlState::ADMIN_SHUTDOWN
                        | SqlState::CRASH_SHUTDOWN
                        | SqlState::CANNOT_CONNECT_NOW
                        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                        | SqlState::READ_ONLY_SQL_TRANSACTION
                ),
            },
            _ => false,
        }
    }

    /// Whether the same commit may succeed if it is planned again.
    pub(super) fn is_conflict(&self) -> bool {
        let Self::Server(error) = self else { return matches!(self, Self::Changed) };
        let Some(code) = error.code() else { return false };
        code.code() == CHANGED
            || matches!(
                *code,
                SqlState::UNIQUE_VIOLATION
                    | SqlState::T_R_SERIALIZATION_FAILURE
                    | SqlState::T_R_DEADLOCK_DETECTED
            )
    }

    /// Whether a prepared statement was planned for tables that have changed since.
    pub(super) fn is_stale_plan(&self) -> bool {
        matches!(self, Self::Server(error) if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED))
    }

    pub(super) fn explain(self, location: &str) -> StoreError {
        let path = PathBuf::from(location);
        match self {
            Self::Store(error) => error,
            Self::Changed => StoreError::Busy { path, seconds: 0 },
            Self::Unreadable(error) => StoreError::Corrupt { path, detail: error.0 },
            Self::PoolExhausted(waited) => StoreError::Busy { path, seconds: waited.as_secs() },
            Self::TimedOut(waited) => {
                let detail = format!("the server did not answer for {} s", waited.as_secs());
                StoreError::Failed { path, detail }
            }
            Self::Server(error) => of_server(path, &error),
        }
    }
}

fn of_server(path: PathBuf, error: &tokio_postgres::Error) -> StoreError {
    let detail = detail_of(error);
    let Some(code) = error.code() else {
        let detail = match error.is_closed() {
            true => "the connection to the server was lost".into(),
            false => format!(
                "cannot reach the server ({detail}); check the address and that it is running"
            ),
        };
        return StoreError::Failed { path, detail };
    };
    match *code {
        SqlState::INSUFFICIENT_PRIVILEGE | SqlState::READ_ONLY_SQL_TRANSACTION => {
            StoreError::ReadOnly { path, detail }
        }
        SqlState::DISK_FULL => StoreError::Full { path },
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
            StoreError::Corrupt { path, detail }
        }
        SqlState::LOCK_NOT_AVAILABLE => {
            StoreError::Busy { path, seconds: super::connection::LOCK_TIMEOUT.as_secs() }
        }
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            let detail = format!(
                "the server refused the credentials: {detail}; check the user and the password"
            );
            StoreError::Failed { path, detail }
        }
        SqlState::INVALID_CATALOG_NAME => {
            StoreError::Failed { path, detail: format!("{detail}; create it with CREATE DATABASE") }
        }
        _ => StoreError::Failed { path, detail },
    }
}

/// The message of the server, or the error and its causes.
fn detail_of(error: &tokio_postgres::Error) -> String {
    if let Some(database) = error.as_db_error() {
        return match database.detail() {
            // The detail of a violated constraint quotes the row.
            Some(_) if *database.code() == SqlState::UNIQUE_VIOLATION => {
                format!("{} ({})", database.message(), database.constraint().unwrap_or_default())
            }
            Some(detail) => format!("{}: {detail}", database.message()),
            None => database.message().to_owned(),
        };
    }
    let mut detail = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        detail = format!("{detail}: {error}");
        cause = error.source();
    }
    detail
}

//! Fail-stop: after an I/O error on the write path, the store refuses to write until it is
//! reopened. It is unknown how much of the failed write the operating system kept, so a later
//! success would prove nothing.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use treering_core::StoreError;

#[derive(Default)]
pub(super) struct StoreHealth(Mutex<Option<StoreError>>);

impl StoreHealth {
    /// The error that stopped all writes, if any.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops all writes because of an error. Keeps the first error and returns it.
    pub(super) fn fail(
        &self,
        path: &Path,
        error: &rusqlite::Error,
        connection: &Connection,
    ) -> StoreError {
        // Closing the connection must not checkpoint. If this call fails too, SQLite's own
        // checks remain.
        drop(connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true));
        let failure = StoreError::Stopped { path: path.to_path_buf(), detail: error.to_string() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure).clone()
    }
}

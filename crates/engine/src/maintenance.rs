//! The health of the underlying store: whether it accepts writes, and which data may be missing.

use std::path::Path;

use treering_core::ports::ConnectionUsage;

use crate::engine::Engine;
use crate::error::{Error, Result};

impl Engine {
    /// The I/O error after which the store refuses writes until it is reopened. Reads still work.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.store().maintenance().failure().map(Error::from)
    }

    /// The connections to the server of the store; `None` without a server.
    #[must_use]
    pub fn connections(&self) -> Option<ConnectionUsage> {
        self.store().maintenance().connections()
    }

    /// Warnings about data that may be missing after damage, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.store().maintenance().warnings()
    }

    /// The warnings to show when the store is opened: acknowledged commits may be missing, or
    /// damage was found while opening it.
    #[must_use]
    pub fn open_warnings(&self) -> Vec<String> {
        self.store().maintenance().open_warnings()
    }

    /// Copies the store, with all tenants, to a file that must not exist. Writers are not
    /// blocked; the copy has every commit acknowledged before the call.
    pub fn backup(&self, to: &Path) -> Result<()> {
        Ok(self.store().maintenance().backup(to)?)
    }

    /// Problems of the store itself, below the level of conversations.
    pub fn check_store(&self) -> Result<Vec<String>> {
        Ok(self.store().maintenance().check()?)
    }
}

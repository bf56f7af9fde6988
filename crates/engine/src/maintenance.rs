//! The health of the store below a memory: whether it accepts writes, and what may be missing from it.

use std::path::Path;

use crate::engine::Engine;
use crate::error::{Error, Result};

impl Engine {
    /// Why the store refuses every write until it is reopened, if it does: an I/O error stopped it. Reads go on.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.store().maintenance().failure().map(Error::from)
    }

    /// What may be missing after damage that the store survived, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.store().maintenance().warnings()
    }

    /// The warnings that whoever opens the store should see: acknowledged commits may be missing, or this opening
    /// found something.
    #[must_use]
    pub fn open_warnings(&self) -> Vec<String> {
        self.store().maintenance().open_warnings()
    }

    /// Copies the store, with all tenants, to a file that must not exist. Others go on writing; the copy has every
    /// commit that was acknowledged before.
    pub fn backup(&self, to: &Path) -> Result<()> {
        Ok(self.store().maintenance().backup(to)?)
    }

    /// What is wrong with the store itself, below what is kept in it.
    pub fn check_store(&self) -> Result<Vec<String>> {
        Ok(self.store().maintenance().check()?)
    }
}

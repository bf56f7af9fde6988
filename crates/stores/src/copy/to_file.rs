//! Backups of stores on servers: a copy into an embedded store, which is a file.

use std::fs;
use std::path::Path;

use treering_core::ports::{Maintenance as _, StoreResult};
use treering_core::{Store, StoreError};

use super::copy;
use crate::embedded::{EmbeddedStore, Sync};

/// Copies a store to a file, which is an embedded store. Refuses a file that exists.
pub(crate) fn backup(from: &dyn Store, to: &Path) -> StoreResult<()> {
    let failed = |detail: String| StoreError::Failed { path: to.into(), detail };
    if to.exists() {
        return Err(failed("the file exists, and a backup never overwrites one".into()));
    }
    let mut name = to.as_os_str().to_owned();
    name.push(".partial");
    let folder = Path::new(&name);
    let copied = (|| {
        let store = EmbeddedStore::open(folder, Sync::Normal)?;
        copy(from, &store, &mut |_| {})?;
        store.backup(to)
    })();
    let removed = fs::remove_dir_all(folder);
    copied?;
    removed.map_err(|error| failed(format!("cannot remove {}: {error}", folder.display())))
}

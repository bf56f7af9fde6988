//! The files of the search index. They hold derived data only: losing one costs time, never an
//! answer.

use super::StoreResult;
use crate::ids::TenantId;

/// Stores files of the search index, by tenant. Several processes may use the same files.
pub trait IndexFiles: Send + Sync {
    /// Opens a file; `None` if there is no such file. The content stays the same while it is
    /// read, even if the file is replaced or removed.
    fn open(&self, tenant: &TenantId, name: &str) -> StoreResult<Option<Box<dyn IndexFile>>>;

    /// Creates or replaces a file atomically with these parts. It is durable when this returns.
    fn write(&self, tenant: &TenantId, name: &str, parts: &[&[u8]]) -> StoreResult<()>;

    /// Removes every file of the tenant except these. Requires the lock.
    fn retain(&self, tenant: &TenantId, names: &[&str]) -> StoreResult<()>;

    /// Locks the files of the tenant against other writers until the result is dropped. If
    /// another writer holds the lock, waits for it with `wait`, and returns `None` without.
    fn lock(&self, tenant: &TenantId, wait: bool) -> StoreResult<Option<Box<dyn Send>>>;
}

/// An open file of the search index, read from its beginning to its end.
pub trait IndexFile {
    /// Appends the next bytes to `content`: `max_bytes`, or all if there are fewer.
    fn read(&mut self, max_bytes: u64, content: &mut Vec<u8>) -> StoreResult<()>;
}

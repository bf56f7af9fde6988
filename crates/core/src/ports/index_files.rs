//! The files of the search index. They hold derived data only: losing one costs time, never an
//! answer.

use super::StoreResult;
use crate::ids::TenantId;

/// Stores files of the search index, by tenant. Several processes may use the same files.
pub trait IndexFiles: Send + Sync {
    /// Reads a file into `content`, which keeps its memory. Returns `false` if there is no such
    /// file.
    fn read(&self, tenant: &TenantId, name: &str, content: &mut Vec<u8>) -> StoreResult<bool>;

    /// Creates or replaces a file atomically. It is durable when this returns.
    fn write(&self, tenant: &TenantId, name: &str, content: &[u8]) -> StoreResult<()>;

    /// Removes every file of the tenant except these. Requires the lock.
    fn retain(&self, tenant: &TenantId, names: &[&str]) -> StoreResult<()>;

    /// Locks the files of the tenant against other writers until the result is dropped. If
    /// another writer holds the lock, waits for it with `wait`, and returns `None` without.
    fn lock(&self, tenant: &TenantId, wait: bool) -> StoreResult<Option<Box<dyn Send>>>;
}

//! Reads the audit and the tombstones.

use std::ops::Deref;

use rusqlite::{Connection, params};
use treering_core::ports::{Audit, StoreResult};
use treering_core::{AuditRecord, ConversationId, MessageIdx, Tombstone};

use super::{TenantView, parsed, rows, unsigned};
use crate::embedded::error::explain;

impl<C: Deref<Target = Connection>> Audit for TenantView<'_, C> {
    fn revision(&self) -> StoreResult<u64> {
        let sql = "SELECT ifnull(max(pk), 0) FROM audit WHERE tenant = ?1";
        Ok(self.query_one(sql, [self.tenant], |row| unsigned(row, 0))?.unwrap_or(0))
    }

    fn records(&self, prefix: &str, limit: usize) -> StoreResult<Vec<AuditRecord>> {
        let sql = "SELECT record FROM audit WHERE tenant = ?1 AND substr(id, 1, length(?2)) = ?2
            ORDER BY pk DESC LIMIT ?3";
        let params = params![self.tenant, prefix, rows(limit)];
        let mut records = self.query_all(sql, params, |row| parsed(row, 0))?;
        records.reverse();
        Ok(records)
    }

    fn are_forgotten(&self, of: &[Tombstone]) -> StoreResult<Vec<bool>> {
        let any = "SELECT 1 FROM tombstones WHERE tenant = ?1 LIMIT 1";
        if of.is_empty() || self.query_one(any, [self.tenant], |_| Ok(()))?.is_none() {
            return Ok(vec![false; of.len()]);
        }
        let salt = salt(&self.connection).map_err(|error| explain(self.path, &error))?;
        let sql = "SELECT 1 FROM tombstones WHERE tenant = ?1 AND hash = ?2";
        let find = |tombstone: &Tombstone| {
            let hash = tombstone.hash(&salt);
            let found = self.query_one(sql, params![self.tenant, hash.as_bytes()], |_| Ok(()))?;
            Ok(found.is_some())
        };
        of.iter().map(find).collect()
    }

    fn placeholders(&self, id: ConversationId, end: MessageIdx) -> StoreResult<u32> {
        let Some(row) = self.row(id)? else { return Ok(0) };
        let sql = "SELECT count(*) FROM messages
            WHERE tenant = ?1 AND conversation = ?2 AND idx < ?3 AND forgotten = 1";
        let count = self.query_one(sql, params![self.tenant, row.pk, end.0], |row| row.get(0))?;
        Ok(count.unwrap_or(0))
    }
}

/// The salt of the store's tombstones.
pub(in crate::embedded) fn salt(connection: &Connection) -> rusqlite::Result<Vec<u8>> {
    connection
        .prepare_cached("SELECT salt FROM salts ORDER BY pk LIMIT 1")?
        .query_row([], |row| row.get(0))
}

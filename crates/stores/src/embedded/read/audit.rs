//! Reads the audit and the tombstones.

use std::ops::Deref;

use rusqlite::{Connection, Row, params};
use treering_core::ports::{Audit, StoreResult};
use treering_core::{
    AuditRecord, ContentHash, ConversationId, MessageIdx, Tombstone, TombstoneSet,
};

use super::{TenantView, parsed, rows, unsigned};

impl<C: Deref<Target = Connection>> Audit for TenantView<'_, C> {
    fn revision(&self) -> StoreResult<u64> {
        let sql = "SELECT ifnull((SELECT max(pk) FROM audit WHERE tenant = ?1), 0)
            + ifnull((SELECT amendments FROM tenants WHERE pk = ?1), 0)";
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
        let salts = self.salts()?;
        let sql = "SELECT 1 FROM tombstones WHERE tenant = ?1 AND hash = ?2";
        let find = |tombstone: &Tombstone| {
            for salt in &salts {
                let hash = tombstone.hash(salt);
                if self.query_one(sql, params![self.tenant, hash.as_bytes()], |_| Ok(()))?.is_some()
                {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        of.iter().map(find).collect()
    }

    fn tombstones(&self) -> StoreResult<TombstoneSet> {
        let sql = "SELECT hash FROM tombstones WHERE tenant = ?1 ORDER BY hash";
        let read = |row: &Row<'_>| Ok(ContentHash::from_bytes(row.get(0)?));
        let hashes = self.query_all(sql, [self.tenant], read)?;
        let salts = if hashes.is_empty() { Vec::new() } else { self.salts()? };
        Ok(TombstoneSet { salts, hashes })
    }

    fn placeholders(&self, id: ConversationId, end: MessageIdx) -> StoreResult<u32> {
        let Some(row) = self.row(id)? else { return Ok(0) };
        let sql = "SELECT count(*) FROM messages
            WHERE tenant = ?1 AND conversation = ?2 AND idx < ?3 AND forgotten = 1";
        let count = self.query_one(sql, params![self.tenant, row.pk, end.0], |row| row.get(0))?;
        Ok(count.unwrap_or(0))
    }
}

impl<C: Deref<Target = Connection>> TenantView<'_, C> {
    /// The salt of the store's own tombstones, and those of stores whose tombstones it took over.
    fn salts(&self) -> StoreResult<Vec<Vec<u8>>> {
        self.query_all("SELECT salt FROM salts ORDER BY pk", [], |row| row.get(0))
    }
}

/// The salt of the store's tombstones.
pub(in crate::embedded) fn salt(connection: &Connection) -> rusqlite::Result<Vec<u8>> {
    connection
        .prepare_cached("SELECT salt FROM salts ORDER BY pk LIMIT 1")?
        .query_row([], |row| row.get(0))
}

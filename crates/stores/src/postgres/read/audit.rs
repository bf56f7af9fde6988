//! Reads the audit and the tombstones.

use treering_core::ports::{Audit, StoreResult};
use treering_core::{
    AuditRecord, ContentHash, ConversationId, MessageIdx, TenantId, Tombstone, TombstoneSet,
};

use super::{TenantReader, limit};
use crate::postgres::connection::{Access, Grouping, PgConnection, SqlQuery};
use crate::postgres::error::Outcome;
use crate::postgres::value::{Columns, UndecodableRow, blobs, values};

impl Audit for TenantReader<'_> {
    fn revision(&self) -> StoreResult<u64> {
        let sql = "SELECT revision FROM tenants WHERE tenant = $1";
        let query = SqlQuery::new(sql, vec![self.tenant_value()]);
        Ok(self.query_one(query, |row| row.number(0))?.unwrap_or(0))
    }

    fn records(&self, prefix: &str, count: usize) -> StoreResult<Vec<AuditRecord>> {
        let sql = "SELECT record FROM audit WHERE tenant = $1 AND starts_with(id, $2)
            ORDER BY seq DESC LIMIT $3";
        let query = SqlQuery::new(sql, vec![self.tenant_value(), prefix.into(), limit(count)]);
        let mut records = self.query_all(query, |row| row.parsed(0))?;
        records.reverse();
        Ok(records)
    }

    fn are_forgotten(&self, of: &[Tombstone]) -> StoreResult<Vec<bool>> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let has_none = self.facts()?.is_some_and(|(_, facts)| !facts.has_tombstones);
        let salts = if has_none { Vec::new() } else { self.salts()? };
        if salts.is_empty() {
            return Ok(vec![false; of.len()]);
        }
        let hashes: Vec<ContentHash> =
            of.iter().flat_map(|tombstone| salts.iter().map(|salt| tombstone.hash(salt))).collect();
        let sql = "SELECT hash FROM tombstones WHERE tenant = $1 AND hash = ANY ($2)";
        let of_hashes = blobs(hashes.iter().map(|hash| &hash.as_bytes()[..]));
        let query = SqlQuery::new(sql, vec![self.tenant_value(), of_hashes]);
        let found = self.query_all(query, |row| row.bytes(0).map(ContentHash::from_bytes))?;
        let is_found = |hashes: &[ContentHash]| hashes.iter().any(|hash| found.contains(hash));
        Ok(hashes.chunks(salts.len()).map(is_found).collect())
    }

    fn tombstones(&self) -> StoreResult<TombstoneSet> {
        let sql = "SELECT hash FROM tombstones WHERE tenant = $1 ORDER BY hash";
        let query = SqlQuery::new(sql, vec![self.tenant_value()]);
        let hashes = self.query_all(query, |row| row.bytes(0).map(ContentHash::from_bytes))?;
        let salts = if hashes.is_empty() { Vec::new() } else { self.salts()? };
        Ok(TombstoneSet { salts, hashes })
    }

    fn placeholders(&self, id: ConversationId, end: MessageIdx) -> StoreResult<u32> {
        let sql = "SELECT count(*) FROM messages
            WHERE tenant = $1 AND conversation = $2 AND idx < $3 AND forgotten";
        let query = SqlQuery::new(sql, values![self.tenant.as_str(), id, end.0]);
        Ok(self.query_one(query, |row| row.number(0))?.unwrap_or(0))
    }
}

impl TenantReader<'_> {
    /// The salt of the tenant's own tombstones, and those that came with tombstones of other stores.
    fn salts(&self) -> StoreResult<Vec<Vec<u8>>> {
        let sql = "SELECT salt FROM salts WHERE tenant = $1 ORDER BY seq, salt";
        self.query_all(SqlQuery::new(sql, vec![self.tenant_value()]), |row| row.value(0))
    }
}

/// A salt for the tenant's tombstones, created at the first use.
pub(in crate::postgres) fn own_salt(
    connection: &mut PgConnection,
    tenant: &TenantId,
) -> Outcome<Vec<u8>> {
    let create = "INSERT INTO salts (tenant, salt, seq)
        SELECT $1, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), seq($2)
        WHERE NOT EXISTS (SELECT FROM salts WHERE tenant = $1)";
    let read = "SELECT salt FROM salts WHERE tenant = $1 ORDER BY seq, salt LIMIT 1";
    let offset = connection.seq_offset();
    let queries = [
        SqlQuery::new(create, values![tenant.as_str(), offset]),
        SqlQuery::new(read, values![tenant.as_str()]),
    ];
    let rows = connection.run(&Access::Tenant(tenant.clone()), &queries, Grouping::None)?;
    let salt = rows.get(1).and_then(|rows| rows.first());
    let salt = salt.ok_or_else(|| UndecodableRow::new("the tenant has no salt"))?;
    Ok(salt.value(0)?)
}

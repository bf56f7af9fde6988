//! Reads the audit and the tombstones.

use std::collections::HashSet;

use treering_core::ports::{Audit, StoreResult};
use treering_core::{
    AuditRecord, ContentHash, ConversationId, MessageIdx, Tombstone, TombstoneSet,
};

use super::{GraphView, rows};
use crate::neo4j::values::BoltRow;

impl Audit for GraphView<'_> {
    fn revision(&self) -> StoreResult<u64> {
        if let Some(state) = &self.state {
            return Ok(state.tenant.revision);
        }
        let query = "MATCH (x:TreeringTenant {name: $tenant}) RETURN x.auditRevision";
        Ok(self.query_one(self.statement(query), BoltRow::take)?.unwrap_or(0))
    }

    fn records(&self, prefix: &str, limit: usize) -> StoreResult<Vec<AuditRecord>> {
        let statement = self.of_tenant(
            "MATCH (a:TreeringAudit) WHERE a.tenant = $tenant AND a.id STARTS WITH $prefix
            RETURN a.record ORDER BY a.number DESC LIMIT $limit",
        );
        let statement = statement.with("prefix", prefix).with("limit", rows(limit));
        let mut records = self.query(statement, BoltRow::json)?;
        records.reverse();
        Ok(records)
    }

    fn are_forgotten(&self, of: &[Tombstone]) -> StoreResult<Vec<bool>> {
        let has_none = self.state.as_ref().is_some_and(|state| !state.tenant.has_tombstones);
        if of.is_empty() || has_none {
            return Ok(vec![false; of.len()]);
        }
        let salts = self.salts()?;
        let hashes_of =
            |tombstone: &Tombstone| salts.iter().map(|salt| tombstone.hash(salt)).collect();
        let hashes: Vec<Vec<ContentHash>> = of.iter().map(hashes_of).collect();
        let statement = self.statement(
            "UNWIND $hashes AS hash
            MATCH (d:TreeringTombstone {tenant: $tenant, hash: hash}) RETURN d.hash",
        );
        let statement = statement.with("hashes", hashes.concat());
        let found: HashSet<ContentHash> =
            self.query(statement, BoltRow::take)?.into_iter().collect();
        let is_forgotten = |of_one: &Vec<ContentHash>| of_one.iter().any(|it| found.contains(it));
        Ok(hashes.iter().map(is_forgotten).collect())
    }

    fn tombstones(&self) -> StoreResult<TombstoneSet> {
        let statement = self.of_tenant(
            "MATCH (d:TreeringTombstone) WHERE d.tenant = $tenant AND d.hash IS NOT NULL
            RETURN d.hash ORDER BY d.hash",
        );
        let hashes: Vec<ContentHash> = self.query(statement, BoltRow::take)?;
        let salts = if hashes.is_empty() { Vec::new() } else { self.salts()? };
        Ok(TombstoneSet { salts, hashes })
    }

    fn placeholders(&self, id: ConversationId, end: MessageIdx) -> StoreResult<u32> {
        let statement = self.of_conversation(
            id,
            "MATCH (m:TreeringMessage) WHERE m.tenant = $tenant AND m.sessionId = $session
                AND m.idx < $end AND m.forgotten
            RETURN count(m)",
        );
        Ok(self.query_one(statement.with("end", end.0), BoltRow::take)?.unwrap_or(0))
    }
}

impl GraphView<'_> {
    /// The salt of the store's own tombstones, and those of stores whose tombstones it took over.
    fn salts(&self) -> StoreResult<Vec<Vec<u8>>> {
        let query = "MATCH (s:TreeringStore {name: 'treering'}) RETURN s.salts";
        let salts = self.query_one(self.statement(query), BoltRow::take::<Vec<String>>)?;
        Ok(salts.unwrap_or_default().iter().map(|salt| from_hex(salt)).collect())
    }
}

/// The bytes of hexadecimal digits.
pub(in crate::neo4j) fn from_hex(digits: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| {
        std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    digits.as_bytes().chunks(2).map(|digits| pair(digits).unwrap_or_default()).collect()
}

/// Bytes as hexadecimal digits.
pub(in crate::neo4j) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

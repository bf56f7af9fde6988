//! What search follows: everything in the order it arrived, and the vectors of models.

use rusqlite::{Connection, Row, params};
use treering_core::index::{Progress, Rebuild, VectorIndex, Vectors};
use treering_core::ports::{Arrivals, StoreResult};
use treering_core::{ContentHash, ConversationId, Message, TenantId, ThreadName, ToolCall};

use super::read::{Access, CALL, View, message, rows, tool_call, unreadable};
use super::threads;

impl<C: Access> View<'_, C> {
    pub(super) fn read_arrivals(
        &self,
        tenant: &TenantId,
        after: u64,
        limit: usize,
    ) -> StoreResult<Arrivals<Message>> {
        let sql = "SELECT m.idx, m.turn, m.thread, m.role, m.at, m.chars, m.tokens, m.hash, m.author,
                m.external_id, m.text, m.parts, m.turns, m.seq, c.id, c.threads
            FROM messages m CROSS JOIN conversations c ON c.pk = m.conversation
            WHERE m.seq > ?2 AND c.tenant = ?1 ORDER BY m.seq LIMIT ?3";
        let mut names = Names::default();
        let items = self.many(sql, params![tenant.as_str(), after as i64, rows(limit)], |row| {
            let id = names.read(row, 14)?;
            Ok((number(row, 13)?, id, message(row, &names.names)?))
        })?;
        self.arrived(items, "messages", "seq", after, limit)
    }

    pub(super) fn read_call_arrivals(
        &self,
        tenant: &TenantId,
        after: u64,
        limit: usize,
    ) -> StoreResult<Arrivals<ToolCall>> {
        let sql = format!(
            "SELECT {CALL}, t.pk, c.id, c.threads
            FROM tool_calls t CROSS JOIN conversations c ON c.pk = t.conversation
            WHERE t.pk > ?2 AND c.tenant = ?1 ORDER BY t.pk LIMIT ?3"
        );
        let mut names = Names::default();
        let items = self.many(&sql, params![tenant.as_str(), after as i64, rows(limit)], |row| {
            let id = names.read(row, 12)?;
            Ok((number(row, 11)?, id, tool_call(row, &names.names)?))
        })?;
        self.arrived(items, "tool_calls", "pk", after, limit)
    }

    /// What arrived, and how far it was looked for: to the end where there was room for more.
    pub(super) fn arrived<T>(
        &self,
        items: Vec<(u64, ConversationId, T)>,
        table: &str,
        key: &str,
        after: u64,
        limit: usize,
    ) -> StoreResult<Arrivals<T>> {
        let through = match items.last() {
            Some((last, ..)) if items.len() >= limit => *last,
            _ => self.end(table, key)?.max(after),
        };
        Ok(Arrivals { items, through })
    }

    pub(super) fn read_vector_index(&self, tenant: &TenantId) -> StoreResult<Option<VectorIndex>> {
        let sql = "SELECT model, next_model, next_messages, next_calls, next_nodes
            FROM vector_indexes WHERE tenant = ?1";
        self.one(sql, params![tenant.as_str()], |row| {
            let done = Progress { messages: number(row, 2)?, calls: number(row, 3)?, nodes: number(row, 4)? };
            let next: Option<String> = row.get(1)?;
            Ok(VectorIndex { model: row.get(0)?, next: next.map(|model| Rebuild { model, done }) })
        })
    }

    fn model(&self, tenant: &TenantId, model: &str) -> StoreResult<Option<i64>> {
        let sql = "SELECT pk FROM vector_models WHERE tenant = ?1 AND model = ?2";
        self.one(sql, params![tenant.as_str(), model], |row| row.get(0))
    }

    pub(super) fn read_vectors(
        &self,
        tenant: &TenantId,
        model: &str,
        of: &[ContentHash],
    ) -> StoreResult<Vec<Option<Vec<f32>>>> {
        let Some(model) = self.model(tenant, model)? else { return Ok(vec![None; of.len()]) };
        let sql = "SELECT vector FROM vectors WHERE model = ?1 AND hash = ?2";
        of.iter().map(|hash| self.one(sql, params![model, hash.as_bytes()], |row| vector(row, 0))).collect()
    }

    pub(super) fn read_vector_arrivals(
        &self,
        tenant: &TenantId,
        model: &str,
        after: u64,
        limit: usize,
    ) -> StoreResult<(Vectors, u64)> {
        let Some(model) = self.model(tenant, model)? else { return Ok((Vec::new(), after)) };
        let sql = "SELECT pk, hash, vector FROM vectors WHERE pk > ?2 AND model = ?1 ORDER BY pk LIMIT ?3";
        let mut last = after;
        let found = self.many(sql, params![model, after as i64, rows(limit)], |row| {
            last = number(row, 0)?;
            Ok((ContentHash::from_bytes(row.get(1)?), vector(row, 2)?))
        })?;
        let through = if found.len() < limit { self.end("vectors", "pk")?.max(last) } else { last };
        Ok((found, through))
    }

    /// The last number of a table.
    fn end(&self, table: &str, key: &str) -> StoreResult<u64> {
        let end = self.one(&format!("SELECT max({key}) FROM {table}"), [], |row| row.get(0))?;
        Ok(end.flatten().map_or(0, i64::unsigned_abs))
    }
}

/// The threads of the conversation that was read last: what follows is mostly of the same one.
#[derive(Default)]
struct Names {
    of: Option<ConversationId>,
    names: Vec<ThreadName>,
}

impl Names {
    /// The conversation whose id stands at a place and its threads behind it.
    fn read(&mut self, row: &Row<'_>, place: usize) -> rusqlite::Result<ConversationId> {
        let id = ConversationId::from_bytes(row.get(place)?);
        if self.of != Some(id) {
            self.names = threads::read(row, place + 1)?.into_iter().map(|thread| thread.name).collect();
            self.of = Some(id);
        }
        Ok(id)
    }
}

pub(super) fn number(row: &Row<'_>, place: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(place)?.unsigned_abs())
}

fn vector(row: &Row<'_>, place: usize) -> rusqlite::Result<Vec<f32>> {
    let bytes = row.get_ref(place)?.as_blob()?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(unreadable(place, "a vector of broken length"));
    }
    Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

pub(super) fn put_vectors(
    connection: &Connection,
    tenant: &TenantId,
    model: &str,
    vectors: &[(ContentHash, Vec<f32>)],
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO vector_models (tenant, model) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![tenant.as_str(), model])?;
    let pk: i64 = connection
        .prepare_cached("SELECT pk FROM vector_models WHERE tenant = ?1 AND model = ?2")?
        .query_row(params![tenant.as_str(), model], |row| row.get(0))?;
    let sql = "INSERT INTO vectors (model, hash, vector) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    let mut insert = connection.prepare_cached(sql)?;
    for (hash, vector) in vectors {
        let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
        insert.execute(params![pk, hash.as_bytes(), bytes])?;
    }
    Ok(())
}

pub(super) fn drop_vectors(connection: &Connection, tenant: &TenantId, model: &str) -> rusqlite::Result<()> {
    let which = "(SELECT pk FROM vector_models WHERE tenant = ?1 AND model = ?2)";
    for sql in [
        &format!("DELETE FROM vectors WHERE model = {which}"),
        "DELETE FROM vector_models WHERE tenant = ?1 AND model = ?2",
    ] {
        connection.prepare_cached(sql)?.execute(params![tenant.as_str(), model])?;
    }
    Ok(())
}

pub(super) fn put_vector_index(
    connection: &Connection,
    tenant: &TenantId,
    index: &VectorIndex,
) -> rusqlite::Result<()> {
    let done = index.next.as_ref().map_or_else(Progress::default, |next| next.done);
    let sql = "INSERT OR REPLACE INTO vector_indexes
            (tenant, model, next_model, next_messages, next_calls, next_nodes)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(sql)?.execute(params![
        tenant.as_str(),
        index.model,
        index.next.as_ref().map(|next| &next.model),
        done.messages as i64,
        done.calls as i64,
        done.nodes as i64,
    ])?;
    Ok(())
}

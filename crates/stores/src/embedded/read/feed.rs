//! Reads the change feed and vectors. Every row of the feed has the sequence number of its last
//! write. A tenant's commits assign these numbers in increasing order, so that no smaller
//! number appears later.

use std::ops::Deref;

use rusqlite::{Connection, Row, params};
use treering_core::ports::{Change, ChangeFilter, Changes, Cursor, StoreResult};
use treering_core::{ContentHash, ConversationId, IndexRebuild, Invalid, ThreadName, VectorIndex};

use super::jobs::{LOG_LINE, log_line};
use super::messages::{MESSAGE, TOOL_CALL, message, tool_call};
use super::tree::{node, node_columns};
use super::{TenantView, rows, threads, unreadable};

/// A change and its sequence number.
type Numbered = (i64, Change);

impl<C: Deref<Target = Connection>> TenantView<'_, C> {
    pub(super) fn read_changes(
        &self,
        after: &Cursor,
        filter: &ChangeFilter<'_>,
        limit: usize,
    ) -> StoreResult<Changes> {
        let after = sequence_number(after)?;
        let latest =
            self.query_one("SELECT seq FROM tenants WHERE pk = ?1", [self.tenant], |row| {
                row.get(0)
            })?;
        let latest: i64 = latest.unwrap_or(0);
        let model = filter.vectors_of.map(|model| self.model(model)).transpose()?.flatten();
        let sources = [
            (filter.messages, "messages"),
            (filter.messages, "removals"),
            (filter.tool_calls, "tool_calls"),
            (filter.nodes, "nodes"),
            (filter.job_events, "log"),
            (model.is_some(), "vectors"),
        ];
        // The sequence numbers come from indexes alone and bound the rows to read.
        let mut numbers = Vec::new();
        for (_, table) in sources.iter().filter(|(is_wanted, _)| *is_wanted) {
            let sql = format!(
                "SELECT seq FROM {table} WHERE tenant = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
            );
            let params = params![self.tenant, after, rows(limit.saturating_add(1))];
            numbers.extend(self.query_all(&sql, params, |row| row.get::<_, i64>(0))?);
        }
        numbers.sort_unstable();
        let until = match limit.checked_sub(1).map(|last| numbers.get(last)) {
            _ if numbers.len() <= limit => latest.max(after),
            Some(Some(last)) => *last,
            _ => after,
        };
        let mut changes = Vec::new();
        for (_, table) in sources.iter().filter(|(is_wanted, _)| *is_wanted) {
            changes.extend(self.read_changes_of(table, (after, until), model)?);
        }
        changes.sort_by_key(|(seq, _)| *seq);
        Ok(Changes {
            items: changes.into_iter().map(|(_, change)| change).collect(),
            cursor: cursor(until),
            is_last: until >= latest,
        })
    }

    fn read_changes_of(
        &self,
        table: &str,
        (after, until): (i64, i64),
        model: Option<i64>,
    ) -> StoreResult<Vec<Numbered>> {
        let of_conversations = |columns: &str, alias: &str| {
            format!(
                "SELECT {columns}, {alias}.seq, c.id, c.threads
                FROM {table} {alias} CROSS JOIN conversations c ON c.pk = {alias}.conversation
                WHERE {alias}.tenant = ?1 AND {alias}.seq > ?2 AND {alias}.seq <= ?3 ORDER BY {alias}.seq"
            )
        };
        let params = params![self.tenant, after, until];
        let mut names = ThreadNames::default();
        match table {
            "messages" => self.query_all(&of_conversations(MESSAGE, "m"), params, |row| {
                let id = names.read(row, 18)?;
                Ok((row.get(17)?, Change::Message(id, message(row, &names.names)?)))
            }),
            "tool_calls" => self.query_all(&of_conversations(TOOL_CALL, "t"), params, |row| {
                let id = names.read(row, 12)?;
                Ok((row.get(11)?, Change::ToolCall(id, tool_call(row, &names.names)?)))
            }),
            "nodes" => self.query_all(&of_conversations(&node_columns(), "n"), params, |row| {
                let id = ConversationId::from_bytes(row.get(24)?);
                Ok((row.get(23)?, Change::Node(id, Box::new(node(row)?))))
            }),
            "log" => self.query_all(&of_conversations(LOG_LINE, "l"), params, |row| {
                let id = ConversationId::from_bytes(row.get(7)?);
                Ok((row.get(6)?, Change::JobEvent(id, log_line(row)?)))
            }),
            "removals" => {
                let sql = "SELECT seq, id FROM removals
                    WHERE tenant = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq";
                self.query_all(sql, params, |row| {
                    let id = ConversationId::from_bytes(row.get(1)?);
                    Ok((row.get(0)?, Change::Removed(id)))
                })
            }
            _ => {
                let sql = "SELECT seq, hash, vector FROM vectors
                    WHERE tenant = ?1 AND seq > ?2 AND seq <= ?3 AND model = ?4 ORDER BY seq";
                self.query_all(sql, params![self.tenant, after, until, model], |row| {
                    let hash = ContentHash::from_bytes(row.get(1)?);
                    Ok((row.get(0)?, Change::Vector(hash, vector(row, 2)?)))
                })
            }
        }
    }

    /// Hashes the last messages up to a cursor with their sequence numbers. Messages keep their
    /// number, and another history has another message at one of these numbers.
    pub(super) fn read_history(&self, at: &Cursor) -> StoreResult<Option<ContentHash>> {
        const MESSAGES: usize = 16;
        let at = sequence_number(at)?;
        let latest =
            self.query_one("SELECT seq FROM tenants WHERE pk = ?1", [self.tenant], |row| {
                row.get::<_, i64>(0)
            })?;
        if latest.unwrap_or(0) < at {
            return Ok(None);
        }
        let sql = "SELECT m.seq, c.id, m.idx, m.hash, m.checksum
            FROM messages m CROSS JOIN conversations c ON c.pk = m.conversation
            WHERE m.tenant = ?1 AND m.seq <= ?2 ORDER BY m.seq DESC LIMIT ?3";
        let read = |row: &Row<'_>| {
            let [seq, idx]: [i64; 2] = [row.get(0)?, row.get(2)?];
            let mut fields = [seq.to_le_bytes(), idx.to_le_bytes()].concat();
            for column in [1, 3, 4] {
                fields.extend(row.get_ref(column)?.as_blob()?);
            }
            Ok(fields)
        };
        let messages = self.query_all(sql, params![self.tenant, at, rows(MESSAGES)], read)?;
        let fields: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        Ok(Some(ContentHash::of_fields(&fields)))
    }

    pub(super) fn read_vector_index(&self) -> StoreResult<Option<VectorIndex>> {
        let sql = "SELECT model, next_model, next_seq FROM vector_indexes WHERE tenant = ?1";
        self.query_one(sql, [self.tenant], |row| {
            let done = cursor(row.get(2)?);
            let next: Option<String> = row.get(1)?;
            Ok(VectorIndex {
                model: row.get(0)?,
                next: next.map(|model| IndexRebuild { model, done }),
            })
        })
    }

    fn model(&self, model: &str) -> StoreResult<Option<i64>> {
        let sql = "SELECT pk FROM vector_models WHERE tenant = ?1 AND model = ?2";
        self.query_one(sql, params![self.tenant, model], |row| row.get(0))
    }

    pub(super) fn read_vectors(
        &self,
        model: &str,
        of: &[ContentHash],
    ) -> StoreResult<Vec<Option<Vec<f32>>>> {
        let Some(model) = self.model(model)? else { return Ok(vec![None; of.len()]) };
        let sql = "SELECT vector FROM vectors WHERE tenant = ?1 AND model = ?2 AND hash = ?3";
        let read = |hash: &ContentHash| {
            self.query_one(sql, params![self.tenant, model, hash.as_bytes()], |row| vector(row, 0))
        };
        of.iter().map(read).collect()
    }
}

/// The threads of the conversation that was read last: consecutive rows mostly share one.
#[derive(Default)]
struct ThreadNames {
    of: Option<ConversationId>,
    names: Vec<ThreadName>,
}

impl ThreadNames {
    /// Reads the conversation's id from a column, and its threads from the next one.
    fn read(&mut self, row: &Row<'_>, column: usize) -> rusqlite::Result<ConversationId> {
        let id = ConversationId::from_bytes(row.get(column)?);
        if self.of != Some(id) {
            self.names =
                threads::read(row, column + 1)?.into_iter().map(|thread| thread.name).collect();
            self.of = Some(id);
        }
        Ok(id)
    }
}

/// The cursor after a sequence number.
pub(in crate::embedded) fn cursor(seq: i64) -> Cursor {
    if seq == 0 { Cursor::start() } else { seq.to_string().parse().unwrap_or_default() }
}

/// The sequence number behind a cursor of this store.
pub(in crate::embedded) fn sequence_number(cursor: &Cursor) -> Result<i64, Invalid> {
    if *cursor == Cursor::start() {
        return Ok(0);
    }
    let number = cursor.as_str().parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| {
        Invalid::new(format!("cursor {:?}", cursor.as_str()), "this store did not return it")
    })
}

fn vector(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<f32>> {
    let bytes = row.get_ref(column)?.as_blob()?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(unreadable(column, "a vector of invalid length"));
    }
    Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

//! Reads the change feed and vectors.
//!
//! Every row has the sequence number of its last write: the id of the transaction, then the number of the write. A
//! transaction with a smaller id may still commit after one with a larger id, so a page ends below the horizon: the
//! oldest transaction that is still open. Nothing appears below it later.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::Row;
use treering_core::ports::{Change, ChangeFilter, Changes, Cursor, Maintenance, StoreResult};
use treering_core::{ContentHash, IndexRebuild, Invalid, TenantId, VectorIndex};

use super::TenantReader;
use super::jobs::{JOB_EVENT, job_event};
use super::messages::{MESSAGE, TOOL_CALL, message, tool_call};
use super::tree::{node, node_columns};
use crate::postgres::PostgresStore;
use crate::postgres::connection::SqlQuery;
use crate::postgres::error::Outcome;
use crate::postgres::locks::tenant_key;
use crate::postgres::value::{Columns, Decoded, UndecodableRow, blobs, values};

/// A change and its sequence number.
type NumberedRow = (i64, Change);

/// How long a page waits for open transactions, so that it includes what was committed before the call.
const MAX_WAIT: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_millis(1);

/// The tables of the feed.
const TABLES: [&str; 6] = ["messages", "removals", "tool_calls", "nodes", "job_events", "vectors"];

/// The horizon as a sequence number, by the oldest open transaction of the server.
const HORIZON: &str = "(((pg_snapshot_xmin(pg_current_snapshot())::text::bigint) << 20)
    + (SELECT xid_offset << 20 FROM store))";

/// The number of the next transaction, and whether a commit of the tenant is in progress. If there is none, everything below
/// that number is final, however long other transactions of the server stay open: a commit takes the lock of its tenant
/// before it has an id.
const NEXT_AND_BUSY: &str = "SELECT ((pg_snapshot_xmax(pg_current_snapshot())::text::bigint) << 20)
        + (SELECT xid_offset << 20 FROM store),
    EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::bigint = ($1::bigint >> 32) & 4294967295 AND objid::bigint = $1 & 4294967295)";

/// The newest sequence number of a tenant, below a bound.
pub(in crate::postgres) fn newest(bound: &str) -> String {
    let of = |table: &&str| {
        format!("(SELECT max(seq) FROM {table} WHERE tenant = $1 AND seq < {bound})")
    };
    format!("coalesce(greatest({}), 0)", TABLES.iter().map(of).collect::<Vec<_>>().join(", "))
}

/// One look at the feed.
struct FeedPage {
    changes: Vec<NumberedRow>,
    /// The newest sequence number below the horizon.
    end: i64,
    /// Whether committed changes lie above the horizon.
    is_behind: bool,
}

impl TenantReader<'_> {
    pub(super) fn read_changes(
        &self,
        after: &Cursor,
        filter: &ChangeFilter<'_>,
        count: usize,
    ) -> StoreResult<Changes> {
        let after = sequence_number(after)?;
        let started = Instant::now();
        let mut final_below = 0;
        let mut page = self.read_page(after, filter, count, final_below)?;
        while page.is_behind && page.changes.len() <= count && started.elapsed() < MAX_WAIT {
            thread::sleep(WAIT);
            final_below = self.final_below()?.max(final_below);
            page = self.read_page(after, filter, count, final_below)?;
        }
        let is_complete = page.changes.len() <= count;
        page.changes.truncate(count);
        let until = match (is_complete, page.changes.last()) {
            (true, _) => page.end.max(after),
            (false, Some((last, _))) => *last,
            (false, None) => after,
        };
        Ok(Changes {
            items: page.changes.into_iter().map(|(_, change)| change).collect(),
            cursor: cursor(until),
            is_last: until >= page.end,
        })
    }

    /// A bound below which no change of the tenant will appear; 0 if a commit is in progress.
    fn final_below(&self) -> StoreResult<i64> {
        let key = tenant_key(self.store.schema(), &self.tenant);
        let query = SqlQuery::new(NEXT_AND_BUSY, values![key]);
        let found = self.query_one(query, |row| Ok((row.long(0)?, row.flag(1)?)))?;
        Ok(found.filter(|(_, is_busy)| !is_busy).map_or(0, |(next, _)| next))
    }

    fn read_page(
        &self,
        after: i64,
        filter: &ChangeFilter<'_>,
        count: usize,
        final_below: i64,
    ) -> StoreResult<FeedPage> {
        let bound = format!("greatest({HORIZON}, $2)");
        let ends = format!("SELECT {}, {}", newest(&bound), newest("9223372036854775807"));
        let mut queries = vec![SqlQuery::new(ends, values![self.tenant.as_str(), final_below])];
        let wanted = [
            filter.messages,
            filter.messages,
            filter.tool_calls,
            filter.nodes,
            filter.job_events,
            filter.vectors_of.is_some(),
        ];
        let tables: Vec<&str> = TABLES
            .into_iter()
            .zip(wanted)
            .filter_map(|(table, is_wanted)| is_wanted.then_some(table))
            .collect();
        for table in &tables {
            let (columns, from) = source(table);
            let sql = format!(
                "SELECT {columns}, seq FROM {from} WHERE tenant = $1 AND seq < {bound} AND seq > $3 {}
                ORDER BY seq LIMIT $4",
                match *table {
                    "vectors" => "AND model = $5",
                    "job_events" => "AND conversation IS NOT NULL",
                    _ => "",
                }
            );
            let mut values =
                values![self.tenant.as_str(), final_below, after, count.saturating_add(1)];
            if let Some(model) = filter.vectors_of.filter(|_| *table == "vectors") {
                values.push(model.into());
            }
            queries.push(SqlQuery::new(sql, values));
        }
        self.page_of(&queries, &tables).map_err(|failure| self.store.explain(failure))
    }

    fn page_of(&self, queries: &[SqlQuery], tables: &[&str]) -> Outcome<FeedPage> {
        let mut rows = self.rows_of(queries)?.into_iter();
        let ends = rows.next().unwrap_or_default();
        let (end, newest) = match ends.first() {
            Some(row) => (row.long(0)?, row.long(1)?),
            None => (0, 0),
        };
        let mut changes = Vec::new();
        for (table, rows) in tables.iter().zip(rows) {
            for row in &rows {
                changes.push((row.long(row.len() - 1)?, change(table, row)?));
            }
        }
        changes.sort_by_key(|(seq, _)| *seq);
        Ok(FeedPage { changes, end, is_behind: newest > end })
    }
}

/// The columns of a change, and the table with the alias that they use.
fn source(table: &str) -> (String, String) {
    let (columns, alias) = match table {
        "messages" => (format!("{MESSAGE}, m.conversation"), "m"),
        "tool_calls" => (format!("{TOOL_CALL}, t.conversation"), "t"),
        "nodes" => (format!("{}, n.conversation", node_columns()), "n"),
        "job_events" => (JOB_EVENT.to_owned(), "l"),
        "removals" => ("r.conversation".to_owned(), "r"),
        _ => ("v.hash, v.vector".to_owned(), "v"),
    };
    (columns, format!("{table} {alias}"))
}

fn change(table: &str, row: &Row) -> Decoded<Change> {
    Ok(match table {
        "messages" => Change::Message(row.conversation(17)?, message(row)?),
        "tool_calls" => Change::ToolCall(row.conversation(11)?, tool_call(row)?),
        "nodes" => Change::Node(row.conversation(23)?, Box::new(node(row)?)),
        "job_events" => Change::JobEvent(row.conversation(1)?, job_event(row)?),
        "removals" => Change::Removed(row.conversation(0)?),
        _ => Change::Vector(ContentHash::from_bytes(row.bytes(0)?), vector(row, 1)?),
    })
}

impl TenantReader<'_> {
    /// Hashes the last messages up to a cursor with their sequence numbers. Messages keep their
    /// number, and another history has another message at one of these numbers.
    pub(super) fn read_history(&self, at: &Cursor) -> StoreResult<Option<ContentHash>> {
        const MESSAGES: usize = 16;
        let at = sequence_number(at)?;
        let ends = format!("SELECT {}", newest("9223372036854775807"));
        let sql = "SELECT seq, idx, conversation, hash FROM messages
            WHERE tenant = $1 AND seq <= $2 ORDER BY seq DESC LIMIT $3";
        let [ends, messages] = self.query_each(&[
            SqlQuery::new(ends, vec![self.tenant_value()]),
            SqlQuery::new(sql, values![self.tenant.as_str(), at, MESSAGES]),
        ])?;
        let newest = self.decoded(ends, |row| row.long(0))?.pop().unwrap_or(0);
        if newest < at {
            return Ok(None);
        }
        let fields = self.decoded(messages, |row| {
            let mut fields = [row.long(0)?.to_le_bytes(), row.long(1)?.to_le_bytes()].concat();
            fields.extend(row.value::<&[u8]>(2)?);
            fields.extend(row.value::<&[u8]>(3)?);
            Ok(fields)
        })?;
        let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
        Ok(Some(ContentHash::of_fields(&fields)))
    }

    pub(super) fn read_vector_index(&self) -> StoreResult<Option<VectorIndex>> {
        if let Some((_, facts)) = self.facts()? {
            return Ok(facts.vector_index.clone());
        }
        let sql = "SELECT model, next_model, next_cursor FROM vector_indexes WHERE tenant = $1";
        self.query_one(SqlQuery::new(sql, vec![self.tenant_value()]), vector_index)
    }

    pub(super) fn read_vectors(
        &self,
        model: &str,
        of: &[ContentHash],
    ) -> StoreResult<Vec<Option<Vec<f32>>>> {
        let sql =
            "SELECT hash, vector FROM vectors WHERE tenant = $1 AND model = $2 AND hash = ANY ($3)";
        let hashes = blobs(of.iter().map(|hash| &hash.as_bytes()[..]));
        let query = SqlQuery::new(sql, vec![self.tenant_value(), model.into(), hashes]);
        let found = self.query_all(query, |row| {
            Ok((ContentHash::from_bytes(row.bytes(0)?), vector(row, 1)?))
        })?;
        let found: HashMap<ContentHash, Vec<f32>> = found.into_iter().collect();
        Ok(of.iter().map(|hash| found.get(hash).cloned()).collect())
    }
}

/// The end of the change feed of every tenant.
pub(in crate::postgres) fn cursors(store: &PostgresStore) -> StoreResult<Vec<(TenantId, Cursor)>> {
    let tenants = store.tenants()?;
    let end = |tenant: TenantId| {
        let filter = ChangeFilter::default();
        let reader = TenantReader::new(store, &tenant);
        // Nothing is wanted, so the page reaches the end of the feed.
        let end = reader.read_changes(&Cursor::start(), &filter, 0)?.cursor;
        Ok((tenant, end))
    };
    tenants.into_iter().map(end).collect()
}

/// The cursor after a sequence number.
fn cursor(seq: i64) -> Cursor {
    if seq == 0 { Cursor::start() } else { seq.to_string().parse().unwrap_or_default() }
}

/// The sequence number behind a cursor of this store.
pub(in crate::postgres) fn sequence_number(cursor: &Cursor) -> Result<i64, Invalid> {
    if *cursor == Cursor::start() {
        return Ok(0);
    }
    let number = cursor.as_str().parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| {
        Invalid::new(format!("cursor {:?}", cursor.as_str()), "this store did not return it")
    })
}

pub(super) fn vector_index(row: &Row) -> Decoded<VectorIndex> {
    let done = row.text(2)?.parse().map_err(UndecodableRow::new)?;
    let next = row.optional_text(1)?.map(|model| IndexRebuild { model, done });
    Ok(VectorIndex { model: row.text(0)?, next })
}

fn vector(row: &Row, column: usize) -> Decoded<Vec<f32>> {
    let bytes: &[u8] = row.value(column)?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err("a vector of invalid length".into());
    }
    Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

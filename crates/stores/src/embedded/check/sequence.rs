//! Checks sequence numbers: they are unique within a tenant, and none exceeds the counter of
//! its tenant.

use rusqlite::{Connection, params};

use super::names::{DERIVED, kind_of, name_of};

/// The tables of the change feed, ground truth first.
const FEED: [&str; 6] = ["messages", "tool_calls", "removals", "nodes", "log", "vectors"];

pub(super) fn problems(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut problems = counters_behind(connection)?;
    for twice in used_twice(connection)? {
        problems.push(format!(
            "{} has sequence number {}, which a {} also has",
            twice.name,
            twice.seq,
            kind_of(twice.other)
        ));
    }
    problems.extend(unfinished(connection)?);
    Ok(problems)
}

/// Rows beyond the counter of their tenant: a later write would get the same number.
fn counters_behind(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut problems = Vec::new();
    for table in FEED {
        let sql = format!(
            "SELECT {}, max(x.seq), o.seq FROM tenants o JOIN {table} x ON x.tenant = o.pk AND x.seq > o.seq
            GROUP BY o.pk",
            name_of(table)
        );
        let sentence = |row: &rusqlite::Row<'_>| -> rusqlite::Result<String> {
            let (name, seq, latest): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(format!(
                "{name} has sequence number {seq}, but the latest of its tenant is {latest}"
            ))
        };
        problems.extend(
            connection.prepare(&sql)?.query_map([], sentence)?.collect::<Result<Vec<_>, _>>()?,
        );
    }
    Ok(problems)
}

/// A row with the same sequence number as a row of an earlier table.
struct DuplicateSeq {
    table: &'static str,
    rowid: i64,
    name: String,
    seq: i64,
    other: &'static str,
}

fn used_twice(connection: &Connection) -> rusqlite::Result<Vec<DuplicateSeq>> {
    let mut duplicates = Vec::new();
    for (index, table) in FEED.into_iter().enumerate() {
        for other in FEED.into_iter().take(index) {
            let sql = format!(
                "SELECT x.rowid, {}, x.seq FROM {table} x
                WHERE EXISTS (SELECT 1 FROM {other} y WHERE y.tenant = x.tenant AND y.seq = x.seq)",
                name_of(table)
            );
            let read = |row: &rusqlite::Row<'_>| {
                Ok(DuplicateSeq {
                    table,
                    rowid: row.get(0)?,
                    name: row.get(1)?,
                    seq: row.get(2)?,
                    other,
                })
            };
            duplicates.extend(
                connection.prepare(&sql)?.query_map([], read)?.collect::<Result<Vec<_>, _>>()?,
            );
        }
    }
    Ok(duplicates)
}

/// Rebuilds of a vector index whose progress lies beyond the end of the change feed.
fn unfinished(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT t.name, i.next_model, i.next_seq, t.seq FROM vector_indexes i JOIN tenants t ON t.pk = i.tenant
        WHERE i.next_seq > t.seq OR i.next_seq < 0";
    let sentence = |row: &rusqlite::Row<'_>| -> rusqlite::Result<String> {
        let (tenant, next): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        let (done, latest): (i64, i64) = (row.get(2)?, row.get(3)?);
        let next = next.unwrap_or_else(|| "none".to_owned());
        Ok(format!(
            "tenant {tenant}: the index of model {next} is recorded as built up to sequence number {done}, but the latest is {latest}"
        ))
    };
    connection.prepare(sql)?.query_map([], sentence)?.collect()
}

/// Raises counters to the latest number, and gives derived rows with a duplicate number a new
/// one.
pub(super) fn repair(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut repaired = Vec::new();
    if !counters_behind(connection)?.is_empty() {
        for table in FEED {
            let latest = format!("(SELECT max(x.seq) FROM {table} x WHERE x.tenant = tenants.pk)");
            connection
                .execute(&format!("UPDATE tenants SET seq = max(seq, ifnull({latest}, 0))"), [])?;
        }
        repaired.push("the sequence numbers of tenants were set to the latest".to_owned());
    }
    // A row is found once for each table that has its number.
    let mut renumbered = Vec::new();
    for twice in used_twice(connection)?.into_iter().filter(|twice| DERIVED.contains(&twice.table))
    {
        if renumbered.contains(&(twice.table, twice.rowid)) {
            continue;
        }
        let owner = format!("(SELECT tenant FROM {} WHERE rowid = ?1)", twice.table);
        connection.execute(
            &format!("UPDATE tenants SET seq = seq + 1 WHERE pk = {owner}"),
            [twice.rowid],
        )?;
        let next = format!(
            "UPDATE {table} SET seq = (SELECT t.seq FROM tenants t WHERE t.pk = tenant) WHERE rowid = ?1",
            table = twice.table
        );
        connection.execute(&next, params![twice.rowid])?;
        repaired.push(format!("{} got a sequence number of its own", twice.name));
        renumbered.push((twice.table, twice.rowid));
    }
    if !unfinished(connection)?.is_empty() {
        let sql = "UPDATE vector_indexes SET next_seq = 0
            WHERE next_seq > (SELECT t.seq FROM tenants t WHERE t.pk = tenant) OR next_seq < 0";
        connection.execute(sql, [])?;
        repaired.push("the reindex starts over".to_owned());
    }
    Ok(repaired)
}

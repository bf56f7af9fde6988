//! Finds corrupt rows in the store and repairs derived data. It never changes ground truth.
//!
//! Every table is read as a stream, and each problem names its row. The engine, not the store,
//! checks whether conversations are consistent and their trees complete.

mod names;
mod sequence;
mod shape;

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Connection, Row};
use treering_core::TenantId;

use super::checksum::COVERED;
use super::error::reason;
use super::read::{CheckedRecord, is_of_tree_state};
use names::{DERIVED, kind_of, name_of};
use shape::SchemaDiff;

/// The pseudo-table of a finding about the tree state of a conversation.
const GROWTH: &str = "growth";

/// A row with a problem.
struct RowFinding {
    table: String,
    rowid: i64,
    problem: String,
}

/// A condition that no row `x` of a table may meet, and the problem to report if one does.
struct Rule {
    table: &'static str,
    wrong: &'static str,
    message: &'static str,
}

const RULES: [Rule; 3] = [
    Rule {
        table: "messages",
        wrong: "x.parts IS NOT NULL AND NOT json_valid(x.parts)",
        message: "has parts that are not JSON",
    },
    Rule {
        table: "vector_models",
        wrong: "NOT EXISTS (SELECT 1 FROM vector_indexes i WHERE i.tenant = x.tenant
            AND x.model IN (i.model, i.next_model))",
        message: "has vectors but is neither the current model nor the next one",
    },
    Rule {
        table: "vectors",
        wrong: "length(x.hash) <> 16 OR length(x.vector) % 4 <> 0 OR length(x.vector) = 0",
        message: "cannot be read: its length is invalid",
    },
];

/// Reads every row and describes each problem.
pub(super) fn problems(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut problems: Vec<String> = connection
        .prepare("PRAGMA integrity_check")?
        .query_map([], |row| row.get::<_, String>(0))?
        .filter(|line| !matches!(line, Ok(text) if text == "ok"))
        .collect::<Result<_, _>>()?;
    let shape = SchemaDiff::read(connection)?;
    problems.extend(shape.problems.iter().cloned());
    if shape.lacks_tables {
        return Ok(problems);
    }
    problems.extend(findings(connection, &shape)?.into_iter().map(|finding| finding.problem));
    problems.extend(unnamed_tenants(connection)?);
    problems.extend(unowned_spend(connection)?);
    problems.extend(sequence::problems(connection)?);
    Ok(problems)
}

/// The rows with a problem, each reported once.
fn findings(connection: &Connection, shape: &SchemaDiff) -> rusqlite::Result<Vec<RowFinding>> {
    let mut findings = orphans(connection)?;
    findings.extend(shape.duplicates(connection)?);
    findings.extend(changed_rows(connection)?);
    for rule in &RULES {
        let sql = format!(
            "SELECT x.rowid, {} FROM {} x WHERE {}",
            name_of(rule.table),
            rule.table,
            rule.wrong
        );
        let finding = |row: &Row<'_>| finding(rule.table, row, rule.message);
        findings.extend(
            connection.prepare(&sql)?.query_map([], finding)?.collect::<Result<Vec<_>, _>>()?,
        );
    }
    findings.extend(odd_vectors(connection)?);
    findings.extend(unreadable_rows(connection)?);
    let mut seen = HashSet::new();
    findings.retain(|finding| seen.insert((finding.table.clone(), finding.rowid)));
    Ok(findings)
}

/// A finding about the row whose rowid and name are the first two columns.
fn finding(table: &str, row: &Row<'_>, message: &str) -> rusqlite::Result<RowFinding> {
    let name: String = row.get(1)?;
    Ok(RowFinding {
        table: table.to_owned(),
        rowid: row.get(0)?,
        problem: format!("{name} {message}"),
    })
}

/// Rows that refer to a missing row.
fn orphans(connection: &Connection) -> rusqlite::Result<Vec<RowFinding>> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    let mut findings = Vec::new();
    while let Some(row) = rows.next()? {
        let (table, owner): (String, String) = (row.get(0)?, row.get(2)?);
        // Rows of `spend` have no rowid; `unowned_spend` checks them.
        let Some(rowid) = row.get::<_, Option<i64>>(1)? else { continue };
        let sql = format!("SELECT x.rowid, {} FROM {table} x WHERE x.rowid = ?1", name_of(&table));
        let message = format!("belongs to no {}", kind_of(&owner));
        let found = connection
            .prepare_cached(&sql)?
            .query_row([rowid], |row| finding(&table, row, &message))?;
        findings.push(found);
    }
    Ok(findings)
}

/// Rows whose content does not match their checksum.
fn changed_rows(connection: &Connection) -> rusqlite::Result<Vec<RowFinding>> {
    let mut findings = Vec::new();
    for (table, columns) in COVERED {
        let sql = format!(
            "SELECT x.rowid, {} FROM {table} x WHERE checksum IS NOT checksum({columns}) ORDER BY x.rowid",
            name_of(table)
        );
        let message = match table {
            "conversations" => "has a corrupt record: its checksum differs",
            _ => "is corrupt: its checksum differs",
        };
        let finding = |row: &Row<'_>| finding(table, row, message);
        findings.extend(
            connection.prepare(&sql)?.query_map([], finding)?.collect::<Result<Vec<_>, _>>()?,
        );
    }
    Ok(findings)
}

/// Vectors with a different length than most vectors of their model.
fn odd_vectors(connection: &Connection) -> rusqlite::Result<Vec<RowFinding>> {
    let sql = "SELECT model, length(vector) FROM vectors GROUP BY model, length(vector) ORDER BY model, count(*)";
    let mut lengths: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        lengths.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    let mut findings = Vec::new();
    for (model, lengths) in lengths {
        let Some((common_length, [_, ..])) = lengths.split_last() else { continue };
        let sql = format!(
            "SELECT x.rowid, {} FROM vectors x WHERE x.model = ?1 AND length(x.vector) <> ?2",
            name_of("vectors")
        );
        let finding = |row: &Row<'_>| {
            finding("vectors", row, "has a different number of dimensions than the others")
        };
        let mut statement = connection.prepare(&sql)?;
        findings.extend(
            statement
                .query_map([model, *common_length], finding)?
                .collect::<Result<Vec<_>, _>>()?,
        );
    }
    Ok(findings)
}

/// Rows with columns that no checksum covers and values that this program cannot have written.
fn unreadable_rows(connection: &Connection) -> rusqlite::Result<Vec<RowFinding>> {
    let mut findings = Vec::new();
    for record in CheckedRecord::ALL {
        let table = record.table();
        let mut statement = connection.prepare(&record.select(&name_of(table)))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Err(error) = record.read(row) {
                let (rowid, name): (i64, String) = record.label(row)?;
                let table = if is_of_tree_state(&error) { GROWTH } else { table };
                let problem = format!("{name} cannot be read: {}", reason(&error));
                findings.push(RowFinding { table: table.to_owned(), rowid, problem });
            }
        }
    }
    Ok(findings)
}

/// Tenants with an invalid name.
fn unnamed_tenants(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM tenants ORDER BY pk")?;
    let names =
        statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let invalid_name =
        |name: &String| TenantId::new(name.clone()).err().map(|error| error.to_string());
    Ok(names.iter().filter_map(invalid_name).collect())
}

/// Spend of a missing tenant or conversation. It is reported but never repaired, because spend
/// is not derived from anything.
fn unowned_spend(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT t.name, x.tenant, date(x.day * 86400, 'unixepoch'), x.model
        FROM spend x LEFT JOIN tenants t ON t.pk = x.tenant
        WHERE t.pk IS NULL OR (length(x.conversation) > 0 AND NOT EXISTS (SELECT 1 FROM conversations c
            WHERE c.tenant = x.tenant AND c.id = x.conversation))";
    let sentence = |row: &Row<'_>| -> rusqlite::Result<String> {
        let (name, number): (Option<String>, i64) = (row.get(0)?, row.get(1)?);
        let (day, model): (Option<String>, String) = (row.get(2)?, row.get(3)?);
        let owner = kind_of(if name.is_some() { "conversations" } else { "tenants" });
        let tenant = name.unwrap_or_else(|| number.to_string());
        let day = day.unwrap_or_else(|| "an invalid day".to_owned());
        Ok(format!("tenant {tenant}: the cost of model {model} on {day} belongs to no {owner}"))
    };
    connection.prepare(sql)?.query_map([], sentence)?.collect()
}

/// Removes corrupt derived rows, which the engine then rebuilds, and corrects sequence numbers.
/// Describes each repair.
pub(super) fn repair(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut repaired = Vec::new();
    let shape = SchemaDiff::read(connection)?;
    if shape.lacks_tables {
        return Ok(repaired);
    }
    for finding in findings(connection, &shape)? {
        if finding.table == GROWTH {
            // The engine finds the windows that were never sealed and rebuilds the tree.
            let sql = "UPDATE conversations SET growth = '[0,[],[],[],[]]' WHERE pk = ?1";
            connection.execute(sql, [finding.rowid])?;
            repaired.push(format!("{}; its tree is rebuilt", finding.problem));
        }
        if !DERIVED.contains(&finding.table.as_str()) {
            continue;
        }
        if finding.table == "vector_models" {
            connection.execute("DELETE FROM vectors WHERE model = ?1", [finding.rowid])?;
        }
        connection
            .execute(&format!("DELETE FROM {} WHERE rowid = ?1", finding.table), [finding.rowid])?;
        repaired.push(format!("{}; it was removed", finding.problem));
    }
    for (name, sql) in &shape.missing_indexes {
        // This fails if two rows of ground truth share the key. They stay, and every check
        // reports them.
        if connection.execute_batch(&format!("DROP INDEX IF EXISTS {name}; {sql}")).is_ok() {
            repaired.push(format!("the index {name} was created"));
        }
    }
    repaired.extend(sequence::repair(connection)?);
    Ok(repaired)
}

//! Compares the tables and indexes of a file with those that this version creates. If a
//! constraint is missing from the file, it also searches for the duplicates that the constraint
//! would have prevented.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::RowFinding;
use super::names::{kind_of, name_of};
use crate::embedded::schema;

/// The tables without rowids.
const WITHOUT_ROWID: [&str; 3] = ["spend", "requests", "tombstones"];

/// The difference between a file and the schema of this version.
pub(super) struct SchemaDiff {
    /// A description of each difference.
    pub(super) problems: Vec<String>,
    /// The statements that create the missing indexes, by name.
    pub(super) missing_indexes: BTreeMap<String, String>,
    /// Whether a table is missing, so that no further check can run.
    pub(super) lacks_tables: bool,
    /// The keys that may occur twice: a table and its columns.
    unguarded: Vec<(String, Vec<String>)>,
}

impl SchemaDiff {
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let reference = schema::blank()?;
        let (expected, found) = (objects(&reference)?, objects(connection)?);
        let mut shape = Self {
            problems: Vec::new(),
            missing_indexes: BTreeMap::new(),
            lacks_tables: false,
            unguarded: Vec::new(),
        };
        for ((kind, name), (table, sql)) in &expected {
            match found.get(&(kind.clone(), name.clone())) {
                Some(actual) if actual.1 == *sql => continue,
                Some(_) => {
                    shape.problems.push(format!(
                        "the {kind} {name} differs from the one that this version creates"
                    ));
                }
                None => shape.problems.push(format!("the {kind} {name} is missing")),
            }
            if kind == "index" {
                shape.missing_indexes.insert(name.clone(), sql.clone());
            }
            shape.lacks_tables |=
                kind == "table" && !found.contains_key(&(kind.clone(), name.clone()));
            shape.unguarded.extend(unique_keys(&reference, table)?);
        }
        let others = found.keys().filter(|object| !expected.contains_key(*object));
        shape.problems.extend(
            others.map(|(kind, name)| format!("the {kind} {name} does not belong to this program")),
        );
        shape.unguarded.sort();
        shape.unguarded.dedup();
        Ok(shape)
    }

    /// Rows with the same key as an earlier row.
    pub(super) fn duplicates(&self, connection: &Connection) -> rusqlite::Result<Vec<RowFinding>> {
        let mut findings = Vec::new();
        // Tables without rowids are ordered by their primary key, so it is always unique.
        for (table, key) in
            self.unguarded.iter().filter(|(table, _)| !WITHOUT_ROWID.contains(&table.as_str()))
        {
            let key_columns =
                key.iter().filter(|column| *column != "tenant" && *column != "conversation");
            let key_columns = key_columns.map(String::as_str).collect::<Vec<_>>().join(", ");
            let group =
                key.iter().map(|column| format!("x.{column}")).collect::<Vec<_>>().join(", ");
            let present = key.iter().map(|column| format!("x.{column} IS NOT NULL"));
            let present = present.collect::<Vec<_>>().join(" AND ");
            let sql = format!(
                "SELECT max(x.rowid), {} FROM {table} x WHERE {present} GROUP BY {group} HAVING count(*) > 1",
                name_of(table)
            );
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let name: String = row.get(1)?;
                let problem =
                    format!("{name} has the same {key_columns} as another {}", kind_of(table));
                findings.push(RowFinding { table: table.clone(), rowid: row.get(0)?, problem });
            }
        }
        Ok(findings)
    }
}

/// The tables, indexes, views and triggers of a database by type and name, each with its table
/// and its SQL definition.
fn objects(
    connection: &Connection,
) -> rusqlite::Result<BTreeMap<(String, String), (String, String)>> {
    let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok((
            (row.get(0)?, row.get(1)?),
            (row.get(2)?, row.get::<_, Option<String>>(3)?.unwrap_or_default()),
        ))
    };
    statement.query_map([], read)?.collect()
}

/// The columns of each unique key of a table.
fn unique_keys(
    reference: &Connection,
    table: &str,
) -> rusqlite::Result<Vec<(String, Vec<String>)>> {
    let sql = "SELECT name FROM pragma_index_list(?1) WHERE \"unique\"";
    let mut statement = reference.prepare(sql)?;
    let indexes: Vec<String> =
        statement.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let columns = |index: &String| {
        let mut statement =
            reference.prepare("SELECT name FROM pragma_index_info(?1) ORDER BY seqno")?;
        let columns = statement.query_map([index], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok((table.to_owned(), columns))
    };
    indexes.iter().map(columns).collect()
}

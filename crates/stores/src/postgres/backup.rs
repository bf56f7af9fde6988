//! Writes a backup: an SQL script with the rows of one snapshot, which `psql` runs in an empty database.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use treering_core::StoreError;
use treering_core::ports::StoreResult;

use super::PostgresStore;
use super::connection::{Access, Grouping, Query};
use super::error::{Failure, Outcome};
use super::migrate;
use super::value::Columns;

/// Copies the store to a file that does not exist yet.
pub(super) fn backup(store: &PostgresStore, to: &Path) -> StoreResult<()> {
    let failed = |error: io::Error| StoreError::Failed {
        path: to.to_path_buf(),
        detail: format!("cannot write the backup: {error}"),
    };
    let file = OpenOptions::new().write(true).create_new(true).open(to).map_err(failed)?;
    let mut out = BufWriter::new(file);
    let written = write_script(store, &mut out).and_then(|()| {
        out.flush().map_err(failed)?;
        out.get_ref().sync_all().map_err(failed)?;
        Ok(())
    });
    written.map_err(|failure| {
        // A backup that is not whole is worse than none.
        drop(fs::remove_file(to));
        store.explain(failure)
    })
}

fn write_script(store: &PostgresStore, out: &mut impl Write) -> Outcome<()> {
    let schema = store.schema();
    let mut pooled = store.pool.take()?;
    pooled.with(|connection| {
        let access = Access::AllTenants;
        let tables = "SELECT c.relname::text, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> 'migrations'
            GROUP BY c.relname ORDER BY c.relname";
        let tables = connection.run(&access, &[Query::new(tables, Vec::new())], Grouping::None)?;
        connection.execute_batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        let copied = (|| {
            write(out, migrate::script(schema).as_bytes())?;
            for row in tables.concat() {
                let (table, columns) = (row.text(0)?, row.text(1)?);
                write(out, format!("TRUNCATE {table};\nCOPY {table} ({columns}) FROM stdin;\n").as_bytes())?;
                let copy = format!("COPY (SELECT {columns} FROM {table}) TO STDOUT");
                connection.copy_out(&copy, |bytes| write(out, bytes))?;
                write(out, b"\\.\n")?;
            }
            write(out, b"COMMIT;\n")
        })();
        connection.execute_batch("ROLLBACK")?;
        copied
    })
}

fn write(out: &mut impl Write, bytes: &[u8]) -> Outcome<()> {
    out.write_all(bytes).map_err(|error| {
        let detail = format!("cannot write the backup: {error}");
        Failure::Store(StoreError::Failed { path: "backup".into(), detail })
    })
}

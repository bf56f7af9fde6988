//! Erases the bytes of forgotten content from the files of the store.
//!
//! SQLite leaves deleted rows in free pages, in the gaps of pages that it rebalanced and in the
//! WAL. `VACUUM` copies every live row into fresh pages, and a truncating checkpoint replaces the
//! old ones. `secure_delete` would be cheaper, but it does not reach the copies that rebalancing
//! leaves behind.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use treering_core::ports::{ScrubReport, StoreResult};

use super::Sync;
use super::error::{explain, explain_io};
use super::open::{open_existing, sync_folder};
use super::schema::APPLICATION_ID;

/// The number of forgets whose bytes may still be in the files.
pub(super) fn pending(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("SELECT count(*) FROM scrubs", [], |row| row.get(0))
}

/// Rewrites the database, empties the WAL and deletes the copies of the store in its folder and below
/// it.
pub(super) fn scrub(path: &Path, sync: Sync) -> StoreResult<ScrubReport> {
    let failed = |error: rusqlite::Error| explain(path, &error);
    let connection = open_existing(path, sync).map_err(failed)?;
    // A large store does not fit into memory a second time.
    connection.pragma_update(None, "temp_store", "FILE").map_err(failed)?;
    let newest: Option<i64> = connection
        .query_row("SELECT max(audit) FROM scrubs", [], |row| row.get(0))
        .map_err(failed)?;
    connection.execute_batch("VACUUM").map_err(failed)?;
    let mut report = ScrubReport::default();
    let is_busy: bool = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(failed)?;
    if is_busy {
        report.pending = Some("another process reads an old state of the store".to_owned());
        return Ok(report);
    }
    for copy in copies(path) {
        let cannot_delete = |error| explain_io(&copy, "cannot delete a copy of the store", &error);
        fs::remove_file(&copy).map_err(cannot_delete)?;
        report.deleted.push(copy);
    }
    for folder in report.deleted.iter().filter_map(|copy| copy.parent()).chain(path.parent()) {
        sync_folder(folder)
            .map_err(|error| explain_io(path, "cannot sync a folder of the store", &error))?;
    }
    connection.execute("DELETE FROM scrubs WHERE audit <= ?1", [newest]).map_err(failed)?;
    Ok(report)
}

/// The copies of the store in its folder and below it: backups, replaced stores and saved WALs. A
/// folder with a store of its own is another home.
pub(super) fn copies(path: &Path) -> Vec<PathBuf> {
    let (Some(home), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let name = name.to_string_lossy();
    let live = [name.to_string(), format!("{name}-wal"), format!("{name}-shm")];
    let (mut copies, mut folders) = (Vec::new(), vec![home.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let is_home = folder == home;
        if !is_home && folder.join(&*name).exists() {
            continue;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (file, own) = (entry.path(), entry.file_name());
            let own = own.to_string_lossy();
            // Links are not followed.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(file),
                Ok(kind) if kind.is_file() => {
                    let is_live = is_home && live.iter().any(|it| *it == own);
                    let is_beside = is_home && own.starts_with(&*name);
                    copies.extend((!is_live && (is_beside || is_of_store(&file))).then_some(file));
                }
                _ => {}
            }
        }
    }
    copies.sort();
    copies
}

/// Whether a file is a database of this program, or belongs to one.
fn is_of_store(file: &Path) -> bool {
    let name = file.to_string_lossy();
    let database = ["-wal", "-shm", "-journal"].iter().find_map(|end| name.strip_suffix(end));
    is_store(Path::new(database.unwrap_or(&name))).unwrap_or(false)
}

/// Whether a file is a database of this program.
fn is_store(file: &Path) -> io::Result<bool> {
    // The application id is a big-endian number at this offset of the header.
    const ID_AT: usize = 68;
    let mut header = [0; ID_AT + 4];
    File::open(file)?.read_exact(&mut header)?;
    let id = u32::from_be_bytes([
        header[ID_AT],
        header[ID_AT + 1],
        header[ID_AT + 2],
        header[ID_AT + 3],
    ]);
    Ok(header.starts_with(b"SQLite format 3\0") && i64::from(id) == APPLICATION_ID)
}

//! Opening the store's file, for writing and for reading, and saying why it cannot be opened.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use treering_core::StoreError;
use treering_core::ports::StoreResult;

use super::error::explain;
use super::{schema, vfs};

/// How long a writer waits for other processes before it gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the store's folder, for this user alone: conversations are private.
pub(super) fn make_folder(folder: &Path, path: &Path) -> StoreResult<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| {
        let (path, detail) = (path.to_path_buf(), format!("cannot make {}: {error}", folder.display()));
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { path, detail }
            }
            io::ErrorKind::StorageFull => StoreError::Full { path },
            _ => StoreError::Failed { path, detail },
        }
    })
}

/// Opens the file for writing, making it where it is missing.
pub(super) fn open_writer(path: &Path) -> StoreResult<Connection> {
    let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
        // SQLite says only "unable to open"; the file system knows why.
        Some(ErrorCode::CannotOpen) => cannot_open(path),
        _ => explain(path, &error),
    };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    make_private(path);
    let mut connection = open_in_way(path, flags, vfs::gathering()).map_err(failed)?;
    // Asked before anything is read: a connection that only reads would leave a log behind.
    if connection.is_readonly("main").map_err(failed)? {
        return Err(StoreError::ReadOnly { path: path.to_path_buf(), detail: "no write access".into() });
    }
    // Until it is known whose file this is, closing it must not carry its log over.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log(path)).map_err(failed)?;
    prepare(&mut connection).map_err(failed)?;
    refuse_others(&connection, path)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(failed)?;
    // Nothing is written before its commit: what of a transaction that is taken back was gathered must not reach the
    // log later, where others may have written meanwhile.
    connection.pragma_update(None, "cache_spill", false).map_err(failed)?;
    write_ahead(&connection).map_err(failed)?;
    set_syncs(&connection).map_err(failed)?;
    // Most of what is written is new, and after a commit in which pages were shared out SQLite goes through all that it
    // has room for: more of it makes each append slower.
    connection.pragma_update(None, "cache_size", -4_000).map_err(failed)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20).map_err(failed)?;
    match schema::migrate(&mut connection).map_err(failed)? {
        Ok(()) => Ok(connection),
        Err(found) => Err(StoreError::TooNew { path: path.to_path_buf(), found, known: schema::NEWEST }),
    }
}

/// Opens the file once more, to carry its log over.
pub(super) fn open_carrier(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = open_in_way(path, flags, vfs::giving_way())?;
    prepare(&mut connection)?;
    set_syncs(&connection)?;
    Ok(connection)
}

/// Opens the file in a way of ours, if there is one.
fn open_in_way(path: &Path, flags: OpenFlags, way: Option<&CStr>) -> rusqlite::Result<Connection> {
    match way {
        Some(way) => Connection::open_with_flags_and_vfs(path, flags, way),
        None => Connection::open_with_flags(path, flags),
    }
}

/// What SQLite is to sync: the log before it is carried over, and the file after it. Commits are
/// synced by `log`, which lets others write meanwhile.
fn set_syncs(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "fullfsync", true)
}

/// Makes the file for this user alone, whatever folder it is in; SQLite gives the files beside it
/// the same rights. Where it cannot be made, opening it says why.
fn make_private(path: &Path) {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(path));
}

/// Why a file could not be opened, by trying what SQLite tried.
fn cannot_open(path: &Path) -> StoreError {
    let attempt = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let (path, detail) = match attempt {
        Ok(_) => (path.to_path_buf(), "files beside it cannot be written".to_owned()),
        Err(error) => (path.to_path_buf(), error.to_string()),
    };
    if path.is_dir() {
        return StoreError::Failed { path, detail: "it is a folder, not a file".into() };
    }
    StoreError::ReadOnly { path, detail }
}

/// A file of another program or of a newer Treering is left alone.
pub(super) fn refuse_others(connection: &Connection, path: &Path) -> StoreResult<()> {
    let read = || -> rusqlite::Result<(i64, i64, u32)> {
        // The tables first: whoever makes the store meanwhile makes them together with the rest.
        let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let id = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        Ok((tables, id, schema::version(connection)?))
    };
    let (tables, id, found) = read().map_err(|error| explain(path, &error))?;
    if tables > 0 && id != schema::APPLICATION_ID {
        let detail = "it is an SQLite database of another program".into();
        return Err(StoreError::Corrupt { path: path.to_path_buf(), detail });
    }
    if found > schema::NEWEST {
        return Err(StoreError::TooNew { path: path.to_path_buf(), found, known: schema::NEWEST });
    }
    Ok(())
}

/// Settings that every connection needs.
pub(super) fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait_a_little))?;
    connection.set_prepared_statement_cache_capacity(64);
    // Plans that do not depend on the values bound to them: otherwise SQLite compiles a cached
    // statement again for every call.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

/// Turns write-ahead mode on. Two processes that do so at once make SQLite answer "busy" without
/// asking the busy handler, so it is asked here.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && wait_a_little(tries) =>
            {
                tries += 1;
            }
            other => return other.map(drop),
        }
    }
}

/// Waits for another process: briefly at first, so that short writes cost little, and with an
/// uneven step, so that two who wait do not keep meeting.
fn wait_a_little(tries: i32) -> bool {
    const STEPS_MICROS: [u64; 8] = [100, 230, 470, 910, 1700, 2900, 4300, 6100];
    let place = usize::try_from(tries).unwrap_or(0);
    let step = STEPS_MICROS[place.min(STEPS_MICROS.len() - 1)];
    std::thread::sleep(Duration::from_micros(step + u64::from(std::process::id() % 7) * 50));
    let longest = STEPS_MICROS[STEPS_MICROS.len() - 1];
    (place as u128) < PATIENCE.as_micros() / u128::from(longest)
}

/// Opens a file in a place where nothing can be written. Without its log beside it, the file is
/// all there is; with one, SQLite has to be able to read both.
pub(super) fn open_unwritable(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    if has_log(path) {
        return Connection::open_with_flags(path, flags);
    }
    let escaped: String = path
        .to_string_lossy()
        .chars()
        .map(|c| match c {
            '%' => "%25".into(),
            '?' => "%3f".into(),
            '#' => "%23".into(),
            other => other.to_string(),
        })
        .collect();
    let uri = format!("file:{escaped}?immutable=1");
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
}

/// Whether some of what is stored may be in the log only.
fn has_log(path: &Path) -> bool {
    fs::metadata(beside(path, "-wal")).is_ok_and(|file| file.len() > 0)
}

/// The file that SQLite keeps beside the store's.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(suffix);
    name.into()
}

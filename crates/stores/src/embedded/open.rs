//! Opens the database file for writing or reading, and explains why it cannot be opened. It
//! never touches a file of another program or of a newer version.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use treering_core::StoreError;
use treering_core::ports::StoreResult;

use super::error::{explain, explain_io};
use super::{Sync, checksum, schema};

/// Maximum time that a connection waits for locks of other processes.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);

/// The lock file that processes hold while they have the store open. It is a separate file
/// because closing a descriptor of SQLite's own files would release SQLite's POSIX locks.
const LOCK: &str = "treering.lock";

/// The lock file that a process holds from before it asks for the other lock until it shares it.
/// Downgrading a lock is not atomic: without this one, another process could take the exclusive
/// lock in between, and repair the WAL of a process that writes.
const OPENING: &str = "treering.opening";

/// A lock on the store: exclusive while the first process opens it, shared afterwards.
pub(super) struct Lock {
    file: Option<File>,
    /// The lock that keeps others from asking, while this one is exclusive.
    opening: Option<File>,
    /// Whether no other process has the store open.
    pub(super) is_exclusive: bool,
}

impl Lock {
    /// Locks the store in a folder, exclusively if no other process has it open. On a read-only
    /// folder or a file system without locks, the result holds no lock.
    pub(super) fn acquire(folder: &Path) -> Self {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        private(&mut options);
        let files = (options.open(folder.join(OPENING)), options.open(folder.join(LOCK)));
        let (Ok(opening), Ok(file)) = files else {
            return Self { file: None, opening: None, is_exclusive: false };
        };
        drop(opening.lock());
        let is_exclusive = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => {
                drop(file.lock_shared());
                false
            }
            Err(TryLockError::Error(_)) => false,
        };
        Self { file: Some(file), opening: Some(opening).filter(|_| is_exclusive), is_exclusive }
    }

    /// Fails if another process has the store open, or if that cannot be determined.
    pub(super) fn check_exclusive(&self, path: &Path) -> StoreResult<()> {
        let path = path.to_path_buf();
        match &self.file {
            Some(_) if self.is_exclusive => Ok(()),
            Some(_) => Err(StoreError::InUse { path }),
            None => Err(StoreError::ReadOnly { path, detail: "no write access".into() }),
        }
    }

    /// Downgrades to a shared lock, so that other processes can open the store.
    pub(super) fn share(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| self.is_exclusive) {
            drop(file.unlock());
            drop(file.lock_shared());
        }
        self.is_exclusive = false;
        self.opening = None;
    }
}

/// Creates the store's folder with permissions for this user only, because conversations are
/// private.
pub(super) fn make_folder(folder: &Path, path: &Path) -> StoreResult<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let action = format!("cannot create {}", folder.display());
    builder.create(folder).map_err(|error| explain_io(path, &action, &error))
}

/// Makes files created with `options` accessible to this user only.
pub(super) fn private(options: &mut fs::OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

/// Opens the database for writing, and creates it if it does not exist. With `is_first`, no
/// other process has it open, and its WAL is checkpointed before migrations run.
pub(super) fn open_writer(path: &Path, sync: Sync, is_first: bool) -> StoreResult<Connection> {
    let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
        // SQLite reports only "unable to open"; the file system knows the reason.
        Some(ErrorCode::CannotOpen) => cannot_open(path),
        _ => explain(path, &error),
    };
    create_private(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    // Check before the first read: a read-only connection would leave a WAL behind.
    if connection.is_readonly("main").map_err(failed)? {
        return Err(StoreError::ReadOnly {
            path: path.to_path_buf(),
            detail: "no write access".into(),
        });
    }
    // Closing a file that may belong to another program must not checkpoint its WAL.
    let keep_log =
        |keep| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop);
    keep_log(has_wal(path)).map_err(failed)?;
    configure(&connection).map_err(failed)?;
    check_application_id(&connection, path)?;
    keep_log(false).map_err(failed)?;
    write_ahead(&connection).map_err(failed)?;
    set_durability(&connection, sync).map_err(failed)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20).map_err(failed)?;
    if is_first {
        // Commits that a crash left in the WAL move into the database before new ones are
        // acknowledged.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)?;
    }
    // Migrations rebuild tables, so foreign keys hold only afterwards.
    connection.pragma_update(None, "foreign_keys", false).map_err(failed)?;
    match schema::migrate(&mut connection).map_err(failed)? {
        Ok(()) => {}
        Err(found) => {
            return Err(StoreError::TooNew {
                path: path.to_path_buf(),
                found,
                known: schema::NEWEST,
            });
        }
    }
    connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
    Ok(connection)
}

/// Sets how commits and checkpoints are fsynced.
pub(super) fn set_durability(connection: &Connection, sync: Sync) -> rusqlite::Result<()> {
    let level = match sync {
        Sync::Full => "FULL",
        Sync::Normal => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", level)?;
    connection.pragma_update(None, "fullfsync", true)
}

/// Creates the database file with permissions for this user only; SQLite gives its sidecar
/// files the same permissions. An error is ignored here, because opening the file reports it.
fn create_private(path: &Path) {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    private(&mut options);
    drop(options.open(path));
}

/// Determines why SQLite could not open a file, by opening it in the same way.
fn cannot_open(path: &Path) -> StoreError {
    let attempt =
        fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let (path, detail) = match attempt {
        Ok(_) => (path.to_path_buf(), "files beside it cannot be written".to_owned()),
        Err(error) => (path.to_path_buf(), error.to_string()),
    };
    if path.is_dir() {
        return StoreError::Failed { path, detail: "it is a folder, not a file".into() };
    }
    StoreError::ReadOnly { path, detail }
}

/// Refuses a file of another program or of a newer version.
pub(super) fn check_application_id(connection: &Connection, path: &Path) -> StoreResult<()> {
    let read = || -> rusqlite::Result<(i64, i64, u32)> {
        // Read the tables first: another process that creates the store commits them together
        // with the application id.
        let tables =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
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

/// Applies the settings that every connection needs.
pub(super) fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(MAX_WAIT)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Query plans must not depend on bound values, or SQLite recompiles cached statements on
    // every call.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    checksum::register(connection)
}

/// Turns WAL mode on. Retries, because SQLite returns "busy" without calling the busy handler
/// if two processes do this at the same time.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    const PAUSE: Duration = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    loop {
        match connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))
        {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && waited < MAX_WAIT =>
            {
                std::thread::sleep(PAUSE);
                waited += PAUSE;
            }
            other => return other.map(drop),
        }
    }
}

/// Opens another writing connection to a store that is already open.
pub(super) fn open_existing(path: &Path, sync: Sync) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection)?;
    set_durability(&connection, sync)?;
    Ok(connection)
}

/// Opens a read-only connection.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection)?;
    Ok(connection)
}

/// Opens a file as immutable: without locks, and without its WAL.
pub(super) fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
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
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
}

/// Whether the WAL may hold commits that the database lacks.
pub(super) fn has_wal(path: &Path) -> bool {
    fs::metadata(sidecar_path(path, "-wal")).is_ok_and(|file| file.len() > 0)
}

/// The path of a file beside the database: its name with a suffix appended.
pub(super) fn sidecar_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(suffix);
    name.into()
}

/// Fsyncs a folder, so that new and renamed entries are durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn nobody_gets_the_exclusive_lock_while_it_becomes_shared() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..200 {
            let mut first = Lock::acquire(folder.path());
            assert!(first.is_exclusive, "round {round}");
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !is_over.load(Ordering::Relaxed) {
                            assert!(!Lock::acquire(folder.path()).is_exclusive, "round {round}");
                        }
                    });
                }
                thread::yield_now();
                first.share();
                is_over.store(true, Ordering::Relaxed);
            });
        }
    }
}

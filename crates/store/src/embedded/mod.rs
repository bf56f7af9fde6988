//! The embedded store: one SQLite file in write-ahead mode, no server, several processes at
//! once.
//!
//! Writers of a process share one connection through a queue (see `queue`), readers take one of
//! a small pool. A commit is durable when it returns; `Sync` says how durable.

mod codes;
mod error;
mod follow;
mod log;
mod queue;
mod read;
mod schema;
mod spend;
mod threads;
mod tree_read;
mod tree_write;
mod write;

use std::fs;
use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use treering_core::ports::{Description, Plan, Reader, Store, StoreResult};
use treering_core::{Commit, StoreError};

use error::explain;
use read::View;

/// How long a writer waits for other processes before it gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the log grows before it is carried over into the file: long enough that a page which
/// changes with every commit is carried over once for many.
const CHECKPOINT_PAGES: u32 = 4000;

/// Readers that are kept open for the next one.
const POOLED_READERS: usize = 8;

/// What a commit has survived when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// Power loss: the disk has it.
    #[default]
    Full,
    /// The end of the process, but not a power loss.
    Normal,
}

/// A store in one file.
pub struct EmbeddedStore {
    path: PathBuf,
    /// Closed before the writer: whoever closes last carries the log over into the file, and
    /// readers cannot.
    readers: Mutex<Vec<Connection>>,
    writer: Option<Mutex<Connection>>,
    queue: queue::Queue,
    sync: Sync,
    log: log::Log,
}

impl EmbeddedStore {
    /// The name of the store's file in its folder.
    pub const FILE: &'static str = "treering.db";

    /// Opens the store in `folder`, making both where they are missing. A store that this user
    /// cannot write to is opened for reading.
    pub fn open(folder: &Path, sync: Sync) -> StoreResult<Self> {
        let path = folder.join(Self::FILE);
        make_folder(folder, &path)?;
        let writer = match open_writer(&path) {
            Ok(writer) => Some(Mutex::new(writer)),
            Err(StoreError::ReadOnly { .. }) if path.exists() => None,
            Err(error) => return Err(error),
        };
        let (queue, log, readers) = Default::default();
        let store = Self { path, writer, queue, sync, log, readers };
        if store.writer.is_none() {
            let reader = store.open_reader()?;
            refuse_others(&reader, &store.path)?;
            let found = schema::version(&reader).map_err(|error| explain(&store.path, &error))?;
            if found != schema::NEWEST {
                return Err(StoreError::ReadOnly {
                    path: store.path,
                    detail: format!(
                        "it has schema version {found} and must be brought to {}",
                        schema::NEWEST
                    ),
                });
            }
            store.give_back(reader);
        }
        Ok(store)
    }

    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open_reader(&self) -> StoreResult<Connection> {
        let open = || -> rusqlite::Result<Connection> {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let mut reader = match &self.writer {
                Some(_) => Connection::open_with_flags(&self.path, flags)?,
                None => open_unwritable(&self.path, flags)?,
            };
            prepare(&mut reader)?;
            Ok(reader)
        };
        open().map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::CannotOpen) if self.writer.is_none() => StoreError::ReadOnly {
                path: self.path.clone(),
                detail: "turns are in its log, which can be read only where its index can be written".into(),
            },
            _ => explain(&self.path, &error),
        })
    }

    fn give_back(&self, reader: Connection) {
        let mut pool = lock(&self.readers);
        if pool.len() < POOLED_READERS {
            pool.push(reader);
        }
    }

    /// Applies plans in one transaction and one sync. Where one of them cannot be written, each
    /// is applied on its own, so that it alone fails.
    fn apply(&self, connection: &mut Connection, plans: &mut [Plan]) -> Vec<StoreResult<()>> {
        match self.apply_together(connection, plans) {
            Ok(results) => results,
            Err(error) if plans.len() == 1 || !is_own_fault(&error) => vec![Err(error); plans.len()],
            Err(_) => plans
                .chunks_mut(1)
                .map(|plan| self.apply_together(connection, plan)?.pop().unwrap_or(Ok(())))
                .collect(),
        }
    }

    /// The result of each plan; `Err` when none of them was kept.
    fn apply_together(
        &self,
        connection: &mut Connection,
        plans: &mut [Plan],
    ) -> StoreResult<Vec<StoreResult<()>>> {
        let failed = |error: rusqlite::Error| explain(&self.path, &error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let mut results = Vec::with_capacity(plans.len());
        let mut writer = write::Writer::new(&transaction);
        for plan in plans {
            // A plan that refuses has written nothing.
            results.push(match self.decide(&transaction, plan) {
                Ok(commit) => {
                    writer.apply(&commit).map_err(failed)?;
                    Ok(())
                }
                Err(refused) => Err(refused),
            });
        }
        drop(writer);
        transaction.commit().map_err(failed)?;
        self.log.advance();
        Ok(results)
    }

    fn make_durable(&self) -> StoreResult<()> {
        if self.sync == Sync::Normal {
            return Ok(());
        }
        self.log.sync(&beside(&self.path, "-wal")).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => StoreError::Full { path: self.path.clone() },
            _ => {
                let detail = format!("the disk did not confirm the write: {error}");
                StoreError::Failed { path: self.path.clone(), detail }
            }
        })
    }

    fn decide(&self, connection: &Connection, plan: &mut Plan) -> StoreResult<Commit> {
        let view = View::new(connection, &self.path);
        catch_unwind(AssertUnwindSafe(|| plan(&view))).unwrap_or_else(|_| {
            let detail = "the plan of a commit panicked; nothing of it was written".into();
            Err(StoreError::Failed { path: self.path.clone(), detail })
        })
    }
}

/// Whether a commit failed for what was in it, and not for the state of the store.
fn is_own_fault(error: &StoreError) -> bool {
    matches!(error, StoreError::Failed { .. } | StoreError::Corrupt { .. } | StoreError::Refused(_))
}

impl Store for EmbeddedStore {
    fn commit(&self, plan: Plan) -> StoreResult<()> {
        let Some(writer) = &self.writer else {
            let detail = "this user cannot write to it".into();
            return Err(StoreError::ReadOnly { path: self.path.clone(), detail });
        };
        self.queue.commit(plan, |plans| self.apply(&mut lock(writer), plans), || self.make_durable())
    }

    fn reader(&self) -> StoreResult<Box<dyn Reader + '_>> {
        let pooled = lock(&self.readers).pop();
        let connection = match pooled {
            Some(connection) => connection,
            None => self.open_reader()?,
        };
        let begun = connection.prepare_cached("BEGIN").and_then(|mut s| s.execute([]));
        begun.map_err(|error| explain(&self.path, &error))?;
        let connection = Pooled { store: self, connection: Some(connection) };
        Ok(Box::new(View::new(connection, &self.path)))
    }

    fn check(&self) -> StoreResult<Vec<String>> {
        let reader = self.open_reader()?;
        let found = || -> rusqlite::Result<Vec<String>> {
            let mut problems: Vec<String> = reader
                .prepare("PRAGMA integrity_check")?
                .query_map([], |row| row.get::<_, String>(0))?
                .filter(|line| !matches!(line, Ok(text) if text == "ok"))
                .collect::<Result<_, _>>()?;
            let mut orphans = reader.prepare("PRAGMA foreign_key_check")?;
            let rows = orphans.query_map([], |row| {
                Ok(format!("a row of {} belongs to no conversation", row.get::<_, String>(0)?))
            })?;
            problems.extend(rows.collect::<Result<Vec<_>, _>>()?);
            Ok(problems)
        };
        match found().map_err(|error| explain(&self.path, &error)) {
            Err(StoreError::Corrupt { detail, .. }) => Ok(vec![detail]),
            other => other,
        }
    }

    fn describe(&self) -> StoreResult<Description> {
        let size = |suffix: &str| fs::metadata(beside(&self.path, suffix)).map_or(0, |file| file.len());
        Ok(Description {
            kind: "embedded",
            location: self.path.display().to_string(),
            schema_version: schema::NEWEST,
            bytes: size("") + size("-wal"),
        })
    }
}

/// A connection inside a read transaction; it goes back to the pool.
struct Pooled<'a> {
    store: &'a EmbeddedStore,
    /// Present until it is dropped.
    connection: Option<Connection>,
}

impl Deref for Pooled<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        let Some(connection) = &self.connection else { unreachable!("taken only when dropped") };
        connection
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && connection.prepare_cached("COMMIT").and_then(|mut s| s.execute([])).is_ok()
        {
            self.store.give_back(connection);
        }
    }
}

/// Makes the store's folder, for this user alone: conversations are private.
fn make_folder(folder: &Path, path: &Path) -> StoreResult<()> {
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

fn open_writer(path: &Path) -> StoreResult<Connection> {
    let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
        // SQLite says only "unable to open"; the file system knows why.
        Some(ErrorCode::CannotOpen) => cannot_open(path),
        _ => explain(path, &error),
    };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    make_private(path);
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    // Asked before anything is read: a connection that only reads would leave a log behind.
    if connection.is_readonly("main").map_err(failed)? {
        return Err(StoreError::ReadOnly { path: path.to_path_buf(), detail: "no write access".into() });
    }
    // Until it is known whose file this is, closing it must not carry its log over.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log(path)).map_err(failed)?;
    prepare(&mut connection).map_err(failed)?;
    refuse_others(&connection, path)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(failed)?;
    write_ahead(&connection).map_err(failed)?;
    // Commits are synced by `log`, which lets others write meanwhile.
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(failed)?;
    connection.pragma_update(None, "fullfsync", true).map_err(failed)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20).map_err(failed)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(failed)?;
    match schema::migrate(&mut connection).map_err(failed)? {
        Ok(()) => Ok(connection),
        Err(found) => Err(StoreError::TooNew { path: path.to_path_buf(), found, known: schema::NEWEST }),
    }
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
fn refuse_others(connection: &Connection, path: &Path) -> StoreResult<()> {
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
fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
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
fn open_unwritable(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
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
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(suffix);
    name.into()
}

/// A panic in a plan is caught before it can leave a connection half-used, so poison is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

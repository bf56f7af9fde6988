//! The embedded store: one SQLite file in write-ahead mode, no server, several processes at
//! once.
//!
//! Writers of a process share one connection through a queue (see `queue`), readers take one of
//! a small pool. A commit is durable when it returns; `Sync` says how durable.

mod ahead;
mod carry;
mod codes;
mod conversations;
mod error;
mod follow;
mod gather;
mod log;
mod open;
mod places;
mod queue;
mod read;
mod ready;
mod schema;
mod spend;
mod threads;
mod tree_read;
mod tree_write;
mod turns;
mod vfs;
mod vigil;
mod write;

use std::cell::RefCell;
use std::fs;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use treering_core::StoreError;
use treering_core::ports::{Description, Plan, Reader, Store, StoreResult};

use ahead::Planned;
use carry::Carrier;
use conversations::Kept;
use error::explain;
use open::{beside, make_folder, open_unwritable, open_writer, prepare, refuse_others};
use queue::Batch;
use read::{Access, View};
use tree_read::Tasks;
use write::Writer;

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
    /// Ended before the writer is closed, for the same reason.
    carrier: Carrier,
    writer: Option<Mutex<Connection>>,
    /// What is kept of what the writer wrote.
    kept: Kept,
    queue: queue::Queue,
    sync: Sync,
    log: log::Log,
    tasks: Tasks,
}

impl EmbeddedStore {
    /// The name of the store's file in its folder.
    pub const FILE: &'static str = "treering.db";

    /// Opens the store in `folder`, making both where they are missing. A store that this user
    /// cannot write to is opened for reading.
    pub fn open(folder: &Path, sync: Sync) -> StoreResult<Self> {
        let path = folder.join(Self::FILE);
        make_folder(folder, &path)?;
        let carrier = Carrier::default();
        let writer = match open_writer(&path) {
            Ok(mut connection) => {
                carrier.watch(&mut connection).map_err(|error| explain(&path, &error))?;
                Some(Mutex::new(connection))
            }
            Err(StoreError::ReadOnly { .. }) if path.exists() => None,
            Err(error) => return Err(error),
        };
        let (kept, queue, log, readers, tasks) = Default::default();
        let store = Self { path, writer, kept, queue, sync, log, carrier, readers, tasks };
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

    fn writer(&self) -> StoreResult<&Mutex<Connection>> {
        self.writer.as_ref().ok_or_else(|| {
            let detail = "this user cannot write to it".into();
            StoreError::ReadOnly { path: self.path.clone(), detail }
        })
    }

    fn give_back(&self, reader: Connection) {
        let mut pool = lock(&self.readers);
        if pool.len() < POOLED_READERS {
            pool.push(reader);
        }
    }

    /// Applies a batch in one transaction and one sync. Where one of its plans cannot be written,
    /// each is applied on its own, so that it alone fails.
    fn apply(&self, writer: &mut Connection, batch: &mut Batch<'_>) -> Vec<StoreResult<()>> {
        let together = self.transact(writer, |transaction| {
            let mut results = Vec::new();
            while let Some(plan) = batch.next() {
                results.push(transaction.write(plan)?);
            }
            Ok(results)
        });
        match together {
            Ok(results) => results,
            Err(error) if !is_own_fault(&error) => vec![Err(error); batch.give_all()],
            Err(error) if batch.given().len() <= 1 => vec![Err(error)],
            Err(_) => {
                let alone =
                    |plan: &mut Planned| self.transact(writer, |transaction| transaction.write(plan))?;
                batch.given().iter_mut().map(alone).collect()
            }
        }
    }

    /// Runs what writes in a transaction; on an error nothing of it is kept.
    fn transact<T>(
        &self,
        writer: &mut Connection,
        write: impl FnOnce(&Open<'_, '_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let failed = |error: rusqlite::Error| explain(&self.path, &error);
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let kept = &self.kept;
        kept.begin(&transaction).map_err(failed)?;
        let writer = RefCell::new(Writer::new(&transaction, kept));
        let open =
            Open { path: &self.path, connection: &transaction, tasks: &self.tasks, kept, writer: &writer };
        let written = write(&open).and_then(|written| {
            writer.borrow_mut().settle().map_err(failed)?;
            Ok(written)
        });
        drop(writer);
        let committed = written.and_then(|written| {
            transaction.commit().map_err(failed)?;
            self.log.advance();
            Ok(written)
        });
        if committed.is_err() {
            kept.forget();
        }
        committed
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
}

/// An open transaction.
struct Open<'a, 'w> {
    path: &'a Path,
    connection: &'w Connection,
    tasks: &'a Tasks,
    kept: &'a Kept,
    writer: &'a RefCell<Writer<'w>>,
}

impl Open<'_, '_> {
    /// Writes what a plan decides. `Ok(Err(_))` when it refused and wrote nothing.
    fn write(&self, plan: &mut Planned) -> StoreResult<StoreResult<()>> {
        let view = View::planning(self, self.path, self.tasks, self.kept);
        match plan.decide(&view, self.path, self.kept) {
            Ok(ready) => {
                let applied = self.writer.borrow_mut().apply(ready);
                applied.map(Ok).map_err(|error| explain(self.path, &error))
            }
            Err(refused) => Ok(Err(refused)),
        }
    }
}

/// Whoever reads in an open transaction reads what is written in it.
impl Access for &Open<'_, '_> {
    fn open(&self) -> rusqlite::Result<&Connection> {
        self.writer.borrow_mut().settle()?;
        Ok(self.connection)
    }
}

/// What does not follow, as it should, from what it is made from.
fn derived_problems(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    Ok([places::check(connection)?, conversations::check(connection)?].concat())
}

/// Whether a commit failed for what was in it, and not for the state of the store.
fn is_own_fault(error: &StoreError) -> bool {
    matches!(error, StoreError::Failed { .. } | StoreError::Corrupt { .. } | StoreError::Refused(_))
}

impl Store for EmbeddedStore {
    fn commit(&self, plan: Plan) -> StoreResult<()> {
        let writer = self.writer()?;
        let mut plan = Planned::new(plan);
        if self.queue.is_led() {
            plan.look_ahead(&self.path, &self.tasks, &self.kept);
        }
        self.queue.commit(plan, |batch| self.apply(&mut lock(writer), batch), || self.make_durable())?;
        self.carrier.carry(&self.path);
        Ok(())
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
        Ok(Box::new(View::new(connection, &self.path, &self.tasks)))
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
            problems.extend(derived_problems(&reader)?);
            Ok(problems)
        };
        match found().map_err(|error| explain(&self.path, &error)) {
            Err(StoreError::Corrupt { detail, .. }) => Ok(vec![detail]),
            other => other,
        }
    }

    fn repair(&self) -> StoreResult<Vec<String>> {
        let failed = |error: rusqlite::Error| explain(&self.path, &error);
        // Nobody waits while all is well.
        if derived_problems(&self.open_reader()?).map_err(failed)?.is_empty() {
            return Ok(Vec::new());
        }
        let mut writer = lock(self.writer()?);
        let repaired = self.transact(&mut writer, |open| {
            let places = places::repair(open.connection).map_err(failed)?;
            let hours = conversations::repair(open.connection).map_err(failed)?;
            Ok([places, hours].concat())
        })?;
        self.kept.forget();
        drop(writer);
        self.make_durable()?;
        Ok(repaired)
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

/// A panic in a plan is caught before it can leave a connection half-used, so poison is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

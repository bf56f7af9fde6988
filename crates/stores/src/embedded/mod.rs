//! The embedded store: one SQLite file in write-ahead mode, no server, several processes at once.
//!
//! One thread owns the writing connection and commits in groups (`writer`), a second connection checkpoints
//! (`checkpointer`), readers take a connection from a small pool. A commit is durable when it returns; `Sync` says
//! against what. After an I/O error the store stops (`health`).

mod backup;
mod check;
mod checkpointer;
mod checksum;
mod codes;
mod error;
mod health;
mod open;
mod read;
mod schema;
mod unwritable;
mod wal;
mod watch;
mod write;
mod writer;

pub use backup::BackupContents;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Row, TransactionBehavior};
use treering_core::job::BatchSizes;
use treering_core::ports::{
    CommitPlan, CommitScope, Cursor, Description, JobFilter, Maintenance, Reader, Revision, Store,
    StoreResult,
};
use treering_core::{Job, StoreError, TenantId, Timestamp, Write};

use checkpointer::Checkpointer;
use error::{explain, explain_io};
use health::StoreHealth;
use open::{
    Lock, check_application_id, make_folder, open_existing, open_reader, open_writer, sidecar_path,
};
use read::TenantView;
use unwritable::FileState;
use wal::WalFinding;
use watch::Watch;
use writer::Writer;

/// Reading connections that are kept open.
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
    readers: Mutex<Vec<Connection>>,
    watch: Arc<Watch>,
    /// Why the store can only be read, where it cannot be written.
    writer: Result<Writer, StoreError>,
    health: Arc<StoreHealth>,
    /// What was wrong with the log when this process opened it first.
    found: Option<WalFinding>,
    /// Released last.
    _lock: Lock,
}

impl EmbeddedStore {
    /// The name of the store's file in its folder.
    pub const FILE: &'static str = "treering.db";

    /// Opens the store in `folder`, and creates both where they are missing. A store that cannot be written to, for want
    /// of rights or of space, is opened for reading.
    pub fn open(folder: &Path, sync: Sync) -> StoreResult<Self> {
        let path = folder.join(Self::FILE);
        make_folder(folder, &path)?;
        let mut lock = Lock::acquire(folder);
        let (health, watch) = (Arc::new(StoreHealth::default()), Arc::new(Watch::default()));
        wal::check_database(&path)?;
        let mut found = None;
        let checked = match lock.is_exclusive {
            true => wal::check_before_recovery(&path).map(|finding| found = finding),
            false => Ok(()),
        };
        let writer = match checked.and_then(|()| open_writer(&path, sync, lock.is_exclusive)) {
            Ok(connection) => {
                let checkpointer = Checkpointer::start(&path, sync, Arc::clone(&health))?;
                let (health, watch) = (Arc::clone(&health), Arc::clone(&watch));
                Ok(Writer::start(&path, connection, checkpointer, health, watch)?)
            }
            Err(error @ (StoreError::ReadOnly { .. } | StoreError::Full { .. }))
                if path.exists() =>
            {
                Err(error)
            }
            Err(error) => return Err(error),
        };
        lock.share();
        let store =
            Self { path, readers: Mutex::default(), watch, writer, health, found, _lock: lock };
        if let Err(error) = &store.writer {
            // Without space for a migration, the space is what matters.
            let is_full = matches!(error, StoreError::Full { .. });
            store
                .check_readable()
                .map_err(|unreadable| if is_full { error.clone() } else { unreadable })?;
        }
        Ok(store)
    }

    /// Replaces the store in `folder` by a backup, and creates the folder where it is missing. Nobody may have the store
    /// open. The store that was there is kept beside it; returns where.
    pub fn restore(folder: &Path, from: &Path) -> StoreResult<Option<PathBuf>> {
        backup::restore(folder, &folder.join(Self::FILE), from)
    }

    /// Reads all of a backup, and says what it holds. One that is damaged, no store, or of a newer version is refused.
    pub fn inspect_backup(file: &Path) -> StoreResult<BackupContents> {
        backup::inspect(file)
    }

    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a store that can only be read and is not of this version.
    fn check_readable(&self) -> StoreResult<()> {
        let reader = self.pooled()?;
        check_application_id(&reader, &self.path)?;
        let found = schema::version(&reader).map_err(|error| explain(&self.path, &error))?;
        if found == schema::NEWEST {
            return Ok(());
        }
        let detail =
            format!("it has schema version {found} and must be migrated to {}", schema::NEWEST);
        Err(StoreError::ReadOnly { path: self.path.clone(), detail })
    }

    /// Damaged logs, one sentence each: those that were copied aside, and that of a store that can only be read.
    fn damaged_logs(&self) -> Vec<String> {
        let aside = wal::set_aside(&self.path).into_iter().filter(WalFinding::is_damage);
        let live = self.writer.is_err().then(|| wal::live_damage(&self.path)).flatten();
        aside
            .map(|finding| finding.describe())
            .chain(live.map(|live| live.describe_live()))
            .collect()
    }

    fn open_reader(&self) -> StoreResult<Connection> {
        open_reader(&self.path).map_err(|error| explain(&self.path, &error))
    }

    fn writer(&self) -> StoreResult<&Writer> {
        self.writer.as_ref().map_err(Clone::clone)
    }

    /// A connection inside a read transaction.
    fn pooled(&self) -> StoreResult<Pooled<'_>> {
        if self.writer.is_err() {
            let (connection, state) = unwritable::begin(&self.path)?;
            return Ok(Pooled { store: self, connection: Some(connection), state });
        }
        let connection = match lock(&self.readers).pop() {
            Some(connection) => connection,
            None => self.open_reader()?,
        };
        let begun = connection.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([]));
        begun.map_err(|error| explain(&self.path, &error))?;
        Ok(Pooled { store: self, connection: Some(connection), state: None })
    }

    fn query<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> StoreResult<T> {
        let pooled = self.pooled()?;
        let read = read(&pooled);
        pooled.check_unchanged()?;
        read.map_err(|error| explain(&self.path, &error))
    }
}

impl Store for EmbeddedStore {
    fn commit(&self, scope: CommitScope, plan: CommitPlan) -> StoreResult<()> {
        self.writer()?.commit(scope, plan)
    }

    fn reader(&self, tenant: &TenantId) -> StoreResult<Box<dyn Reader + '_>> {
        let pooled = self.pooled()?;
        let state = pooled.state;
        Ok(Box::new(TenantView::with_state(pooled, &self.path, tenant, state)?))
    }

    fn lease(
        &self,
        tenant: &TenantId,
        filter: &JobFilter,
        worker: &str,
        sizes: BatchSizes,
    ) -> StoreResult<Vec<Job>> {
        let Some(now) = filter.due else { return Ok(Vec::new()) };
        // A look costs less than the write lock, and mostly nothing is due.
        if !self.query(|connection| read::has_due_jobs(connection, now, tenant))? {
            return Ok(Vec::new());
        }
        let (filter, worker) =
            (JobFilter { limit: sizes.largest(), ..filter.clone() }, worker.to_owned());
        let leased = Arc::new(Mutex::new(Vec::new()));
        let slot = Arc::clone(&leased);
        let plan = move |reader: &dyn Reader| {
            let mut jobs = sizes.take(reader.jobs(&filter)?);
            jobs.iter_mut().for_each(|job| job.lease(&worker, now));
            lock(&slot).clone_from(&jobs);
            Ok(jobs.into_iter().map(Write::PutJob).collect())
        };
        self.commit(CommitScope::Tenant(tenant.clone()), Box::new(plan))?;
        let leased = std::mem::take(&mut *lock(&leased));
        Ok(leased)
    }

    fn tenant_with_due_jobs(
        &self,
        now: Timestamp,
        after: Option<&TenantId>,
    ) -> StoreResult<Option<TenantId>> {
        self.query(|connection| read::tenant_with_due_jobs(connection, now, after))
    }

    fn cursors(&self) -> StoreResult<Vec<(TenantId, Cursor)>> {
        let sql = "SELECT name, seq FROM tenants";
        self.query(|connection| {
            let read = |row: &Row<'_>| Ok((tenant(row)?, read::cursor(row.get(1)?)));
            connection.prepare_cached(sql)?.query_map([], read)?.collect()
        })
    }

    fn revision(&self) -> Revision {
        self.watch.revision()
    }

    fn wait(&self, seen: Revision, timeout: Duration) -> Revision {
        match &self.writer {
            Ok(_) => self.watch.wait(seen, timeout, || self.open_reader().ok()),
            // A connection that reads the file as it stands notices nothing.
            Err(_) => self.watch.wait_for_files(seen, timeout, || FileState::of(&self.path)),
        }
    }

    fn wake(&self) {
        self.watch.notify();
    }

    fn maintenance(&self) -> &dyn Maintenance {
        self
    }

    fn concurrency(&self) -> usize {
        POOLED_READERS
    }
}

impl Maintenance for EmbeddedStore {
    fn tenants(&self) -> StoreResult<Vec<TenantId>> {
        let sql = "SELECT name FROM tenants ORDER BY name";
        self.query(|connection| connection.prepare_cached(sql)?.query_map([], tenant)?.collect())
    }

    fn check(&self) -> StoreResult<Vec<String>> {
        let mut problems = self.damaged_logs();
        match self.query(check::problems) {
            Err(StoreError::Corrupt { detail, .. }) => problems.push(detail),
            other => problems.extend(other?),
        }
        Ok(problems)
    }

    fn repair(&self) -> StoreResult<Vec<String>> {
        self.writer()?;
        let repair = || -> rusqlite::Result<Vec<String>> {
            let mut connection = open_existing(&self.path, Sync::Full)?;
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let repaired = check::repair(&transaction)?;
            transaction.commit()?;
            Ok(repaired)
        };
        repair().map_err(|error| explain(&self.path, &error))
    }

    fn warnings(&self) -> Vec<String> {
        let incomplete =
            wal::set_aside(&self.path).into_iter().filter(|finding| !finding.is_damage());
        let mut warnings = self.damaged_logs();
        warnings.extend(incomplete.map(|finding| finding.describe()));
        warnings
    }

    fn open_warnings(&self) -> Vec<String> {
        let mut warnings = self.damaged_logs();
        warnings.extend(
            self.found.as_ref().filter(|found| !found.is_damage()).map(WalFinding::describe),
        );
        warnings
    }

    fn failure(&self) -> Option<StoreError> {
        self.health.failure()
    }

    fn backup(&self, to: &Path) -> StoreResult<()> {
        if self.writer.is_ok() {
            return backup::backup(&self.open_reader()?, &self.path, to);
        }
        let (connection, state) = unwritable::begin(&self.path)?;
        // A backup needs a transaction of its own.
        connection.execute_batch("COMMIT").map_err(|error| explain(&self.path, &error))?;
        backup::backup(&connection, &self.path, to)?;
        match state.map_or(Ok(()), |state| state.check_unchanged(&self.path)) {
            Ok(()) => Ok(()),
            Err(changed) => fs::remove_file(to).map_or_else(
                |error| {
                    Err(explain_io(to, "cannot remove a backup that is not consistent", &error))
                },
                |()| Err(changed),
            ),
        }
    }

    fn describe(&self) -> StoreResult<Description> {
        let size = |suffix: &str| {
            fs::metadata(sidecar_path(&self.path, suffix)).map_or(0, |file| file.len())
        };
        Ok(Description {
            kind: "embedded",
            location: self.path.display().to_string(),
            schema_version: schema::NEWEST,
            bytes: size("") + size("-wal"),
        })
    }
}

fn tenant(row: &Row<'_>) -> rusqlite::Result<TenantId> {
    TenantId::new(row.get::<_, String>(0)?).map_err(|why| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, why.into())
    })
}

impl Drop for EmbeddedStore {
    /// The last connection to close empties the log, which only the writer can.
    fn drop(&mut self) {
        lock(&self.readers).clear();
        self.watch.close();
    }
}

/// A connection inside a read transaction; it goes back to the pool.
struct Pooled<'a> {
    store: &'a EmbeddedStore,
    /// Present until it is dropped.
    connection: Option<Connection>,
    /// The state of the files that reads are checked against, where nothing keeps others from changing them.
    state: Option<FileState>,
}

impl Pooled<'_> {
    fn check_unchanged(&self) -> StoreResult<()> {
        self.state.map_or(Ok(()), |state| state.check_unchanged(&self.store.path))
    }
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
        let Some(connection) = self.connection.take() else { return };
        // A store that can only be read has no pool: whether a log has to be read changes from time to time.
        let ended = connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        let mut pool = lock(&self.store.readers);
        if ended.is_ok() && self.store.writer.is_ok() && pool.len() < POOLED_READERS {
            pool.push(connection);
        }
    }
}

/// No lock is held while a plan runs, so that a poisoned one still guards sound data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

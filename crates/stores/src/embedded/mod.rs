//! The embedded store: one SQLite file in WAL mode, shared by several processes without a
//! server.
//!
//! One thread owns the writing connection and does group commit (`writer`), a second connection
//! checkpoints (`checkpointer`), and readers take a connection from a small pool. A commit is
//! durable when it returns; `Sync` chooses against which failures. After an I/O error the
//! store accepts no more writes (`health`).

mod backup;
mod check;
mod checkpointer;
mod checksum;
mod error;
mod health;
mod index_folder;
mod open;
mod read;
mod schema;
mod scrub;
mod tenants;
mod unwritable;
mod wal;
mod watch;
mod write;
mod writer;

pub use backup::BackupContents;
pub use index_folder::IndexFolder;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Row, TransactionBehavior};
use treering_core::ports::{
    CommitPlan, Cursor, Description, JobFilter, Maintenance, Revision, ScrubReport, StoreResult,
};
use treering_core::{
    BatchSizes, CommitScope, Job, Reader, Store, StoreError, TenantId, Timestamp, Write,
};

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

/// Maximum number of idle reading connections.
const POOLED_READERS: usize = 8;

/// The failures that a commit survives once it has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// Survives power loss: every commit is fsynced.
    #[default]
    Full,
    /// Survives a crash of the process, but not power loss.
    Normal,
}

/// A store in one SQLite file.
pub struct EmbeddedStore {
    path: PathBuf,
    sync: Sync,
    readers: Mutex<Vec<Connection>>,
    watch: Arc<Watch>,
    /// The writer, or the reason why the store is read-only.
    writer: Result<Writer, StoreError>,
    health: Arc<StoreHealth>,
    /// The problem that was found in the WAL, if this process was the first to open the store.
    wal_finding: Option<WalFinding>,
    /// Declared last, so that it is released last.
    _lock: Lock,
}

impl EmbeddedStore {
    /// The name of the database file in the store's folder.
    pub const FILE: &'static str = "treering.db";

    /// Opens the store in `folder`, and creates both if they do not exist. The store is opened
    /// read-only if permissions or disk space do not allow writes.
    pub fn open(folder: &Path, sync: Sync) -> StoreResult<Self> {
        let path = folder.join(Self::FILE);
        make_folder(folder, &path)?;
        let mut lock = Lock::acquire(folder);
        let (health, watch) = (Arc::new(StoreHealth::default()), Arc::new(Watch::default()));
        wal::check_database(&path)?;
        let mut wal_finding = None;
        let checked = match lock.is_exclusive {
            true => wal::check_before_recovery(&path).map(|finding| wal_finding = finding),
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
        let store = Self {
            path,
            sync,
            readers: Mutex::default(),
            watch,
            writer,
            health,
            wal_finding,
            _lock: lock,
        };
        if let Err(error) = &store.writer {
            // A migration that failed for lack of space is reported as such.
            let is_full = matches!(error, StoreError::Full { .. });
            store
                .check_readable()
                .map_err(|unreadable| if is_full { error.clone() } else { unreadable })?;
        }
        Ok(store)
    }

    /// Replaces the store in `folder` with a backup, and creates the folder if it does not
    /// exist. No process may have the store open. Keeps the previous store beside the new one
    /// and returns its path.
    pub fn restore(folder: &Path, from: &Path) -> StoreResult<Option<PathBuf>> {
        backup::restore(folder, &folder.join(Self::FILE), from)
    }

    /// Reads a whole backup and returns its contents. Refuses a file that is damaged, not a
    /// store, or of a newer version.
    pub fn inspect_backup(file: &Path) -> StoreResult<BackupContents> {
        backup::inspect(file)
    }

    /// The path of the database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a read-only store whose schema version differs from this program's.
    fn check_readable(&self) -> StoreResult<()> {
        let reader = self.pooled()?;
        check_application_id(&reader, &self.path)?;
        let version = schema::version(&reader).map_err(|error| explain(&self.path, &error))?;
        if version == schema::NEWEST {
            return Ok(());
        }
        let detail =
            format!("it has schema version {version} and must be migrated to {}", schema::NEWEST);
        Err(StoreError::ReadOnly { path: self.path.clone(), detail })
    }

    /// Describes each damaged WAL: the copies set aside, and the live WAL of a read-only store.
    fn damaged_logs(&self) -> Vec<String> {
        let saved = wal::set_aside(&self.path).into_iter().filter(WalFinding::is_damage);
        let live = self.writer.is_err().then(|| wal::live_damage(&self.path)).flatten();
        saved
            .map(|finding| finding.describe())
            .chain(live.map(|live| live.describe_live()))
            .collect()
    }

    fn open_reader(&self) -> StoreResult<Connection> {
        open_reader(&self.path).map_err(|error| explain(&self.path, &error))
    }

    /// Runs one transaction on a connection of its own, beside the writer's.
    fn write_directly<T>(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> StoreResult<T> {
        self.writer()?;
        let write = || -> rusqlite::Result<T> {
            let mut connection = open_existing(&self.path, Sync::Full)?;
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let written = write(&transaction)?;
            transaction.commit()?;
            Ok(written)
        };
        write().map_err(|error| explain(&self.path, &error))
    }

    fn writer(&self) -> StoreResult<&Writer> {
        self.writer.as_ref().map_err(Clone::clone)
    }

    /// Takes a connection and begins a read transaction on it.
    fn pooled(&self) -> StoreResult<Pooled<'_>> {
        if self.writer.is_err() {
            let (connection, state) = unwritable::begin(&self.path)?;
            return Ok(Pooled { store: self, connection: Some(connection), state });
        }
        let connection = match lock(&self.readers).pop() {
            Some(connection) => connection,
            None => self.open_reader()?,
        };
        let begin_result =
            connection.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([]));
        begin_result.map_err(|error| explain(&self.path, &error))?;
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
        // Usually nothing is due, and a read is cheaper than taking the write lock.
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
            // `data_version` never changes on a connection that was opened as immutable.
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

    fn add_tenant(&self, tenant: &TenantId) -> StoreResult<()> {
        self.write_directly(|transaction| tenants::add(transaction, tenant.as_str()))
    }

    fn remove_tenant(&self, tenant: &TenantId, only_at: Option<&Cursor>) -> StoreResult<bool> {
        let only_at = only_at.map(read::sequence_number).transpose()?;
        let removed = self
            .write_directly(|transaction| tenants::remove(transaction, tenant.as_str(), only_at))?;
        self.watch.notify();
        Ok(removed)
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
        self.write_directly(check::repair)
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
            self.wal_finding
                .as_ref()
                .filter(|finding| !finding.is_damage())
                .map(WalFinding::describe),
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
        // `VACUUM INTO` cannot run inside a transaction.
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

    fn pending_scrubs(&self) -> StoreResult<u32> {
        self.query(scrub::pending)
    }

    fn copies(&self) -> Vec<PathBuf> {
        scrub::copies(&self.path)
    }

    fn scrub(&self) -> StoreResult<ScrubReport> {
        self.writer()?;
        scrub::scrub(&self.path, self.sync)
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
    TenantId::new(row.get::<_, String>(0)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
    })
}

impl Drop for EmbeddedStore {
    /// Closes the reading connections first: only a writing connection that closes last can
    /// checkpoint and remove the WAL.
    fn drop(&mut self) {
        lock(&self.readers).clear();
        self.watch.close();
    }
}

/// A connection inside a read transaction. Returns to the pool when dropped.
struct Pooled<'a> {
    store: &'a EmbeddedStore,
    /// `None` only while it is being dropped.
    connection: Option<Connection>,
    /// The file state to check reads against, if no lock protects the files from other
    /// processes.
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
        // A read-only store keeps no pool, because whether it has a WAL may change between
        // reads.
        let ended = connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        let mut pool = lock(&self.store.readers);
        if ended.is_ok() && self.store.writer.is_ok() && pool.len() < POOLED_READERS {
            pool.push(connection);
        }
    }
}

/// Ignores poisoning: no lock is held while a plan runs, so the guarded data is always
/// consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

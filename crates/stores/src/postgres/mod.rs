//! The PostgreSQL store: many processes on one database, the tenant first in every key and statement.
//!
//! Calls block; a runtime of the store's own drives the connections (`connection`, `pool`). A commit is planned against
//! what the process sees and then verified and written in one flight (`commit`, `locks`). Sequence numbers come from
//! transaction ids, and readers of the change feed stay below the oldest open one (`read/feed`). Other processes
//! learn of commits through `notify`.

mod check;
mod commit;
mod connection;
mod error;
mod lease;
mod locks;
mod maintenance;
mod migrate;
mod notify;
mod options;
mod pool;
mod read;
mod tenants;
mod value;
mod write;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::Row;
use treering_core::ports::{CommitPlan, Cursor, JobFilter, Maintenance, Revision, StoreResult};
use treering_core::{BatchSizes, CommitScope, Job, Reader, Store, StoreError, TenantId, Timestamp};

use connection::{Access, Grouping, SqlQuery};
use error::{Failure, Outcome};
use notify::Notifier;
pub use options::PostgresOptions;
use pool::ConnectionPool;
use read::TenantReader;

/// Maximum time to wait for the connection that listens for commits.
const LISTENER_TIMEOUT: Duration = Duration::from_secs(5);

/// Threads that drive the connections. They only move bytes.
const RUNTIME_THREADS: usize = 2;

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pool: ConnectionPool,
    notifier: Arc<Notifier>,
    /// Declared last: the connections end before the threads that drive them. `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl PostgresStore {
    /// Connects to the database and brings the schema to the newest version.
    pub fn open(options: &PostgresOptions) -> StoreResult<Self> {
        let target = options.parse()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name("treering-postgres")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Failed {
                path: target.location.clone().into(),
                detail: format!("cannot start a thread: {error}"),
            })?;
        let pool = ConnectionPool::new(target, runtime.handle().clone());
        let explain = |failure: Failure| failure.explain(&pool.target().location);
        let mut connection = pool.connect().map_err(explain)?;
        migrate::migrate(&connection, pool.target())?;
        migrate::adopt_server(&mut connection, pool.target()).map_err(explain)?;
        drop(connection);
        let notifier = Notifier::start(pool.target(), runtime.handle());
        notifier.wait_for_listener(LISTENER_TIMEOUT);
        Ok(Self { pool, notifier, runtime: Some(runtime) })
    }

    fn location(&self) -> &str {
        &self.pool.target().location
    }

    fn schema(&self) -> &str {
        &self.pool.target().schema
    }

    fn explain(&self, failure: Failure) -> StoreError {
        failure.explain(self.location())
    }

    /// Runs statements that only read. They are repeated once if the connection broke.
    fn read(
        &self,
        access: &Access,
        queries: &[SqlQuery],
        grouping: Grouping,
    ) -> Outcome<Vec<Vec<Row>>> {
        let mut attempts = 0;
        loop {
            let read =
                self.pool.take()?.with(|connection| connection.run(access, queries, grouping));
            attempts += 1;
            match read {
                Err(failure)
                    if attempts < 3 && (failure.is_disconnect() || failure.is_stale_plan()) => {}
                other => return other,
            }
        }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // Dropping a runtime inside an asynchronous task panics, so its threads end in the background.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Store for PostgresStore {
    fn commit(&self, scope: CommitScope, plan: CommitPlan) -> StoreResult<()> {
        commit::commit(self, &scope, plan)
    }

    fn reader(&self, tenant: &TenantId) -> StoreResult<Box<dyn Reader + '_>> {
        Ok(Box::new(TenantReader::new(self, tenant)))
    }

    fn lease(
        &self,
        tenant: &TenantId,
        filter: &JobFilter,
        worker: &str,
        sizes: BatchSizes,
    ) -> StoreResult<Vec<Job>> {
        lease::lease(self, tenant, filter, worker, sizes)
    }

    fn tenant_with_due_jobs(
        &self,
        now: Timestamp,
        after: Option<&TenantId>,
    ) -> StoreResult<Option<TenantId>> {
        lease::tenant_with_due_jobs(self, now, after)
    }

    fn cursors(&self) -> StoreResult<Vec<(TenantId, Cursor)>> {
        read::cursors(self)
    }

    fn revision(&self) -> Revision {
        self.notifier.revision()
    }

    fn wait(&self, seen: Revision, timeout: Duration) -> Revision {
        self.notifier.wait(seen, timeout)
    }

    fn wake(&self) {
        self.notifier.increment();
    }

    fn maintenance(&self) -> &dyn Maintenance {
        self
    }

    fn concurrency(&self) -> usize {
        self.pool.target().pool
    }
}

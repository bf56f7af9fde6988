//! The store on Neo4j: the graph of the source documents, with what the product needs beside it.
//!
//! A commit plans against what it read, then locks its tenant, checks that nothing it read has
//! changed, and writes everything in one transaction (`commit`). Reads take the lock of what they
//! read, because Neo4j has no snapshots (`read`). The schema is in `schema` and `docs/neo4j.md`.

mod bolt;
mod commit;
mod error;
mod maintenance;
mod pool;
mod read;
mod schema;
mod values;
mod watch;
mod write;

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use treering_core::ports::{CommitPlan, Cursor, JobFilter, Maintenance, Revision, StoreResult};
use treering_core::{BatchSizes, CommitScope, Job, Reader, Store, StoreError, TenantId, Timestamp};

pub use bolt::{BoltError, BoltValue, Neo4jAddress};
use bolt::{Cypher, Rows};
use error::{explain, is_read_only, unreadable};
use pool::{BoltPool, MAX_IDLE, PooledBolt};
use read::GraphView;
use values::BoltRow;
use watch::RemoteWatch;

/// The user of a database and the password.
#[derive(Clone)]
pub struct Neo4jCredentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

/// Never shows the password.
impl fmt::Debug for Neo4jCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Neo4jCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A store in a Neo4j database.
pub struct Neo4jStore {
    pool: BoltPool,
    watch: RemoteWatch,
    /// The salt of the store's own tombstones.
    salt: Vec<u8>,
    /// The number of dimensions of the vector indexes that exist; 0 until one was needed.
    indexed_dims: AtomicUsize,
    /// Why the store refuses writes, if it does.
    read_only: Option<StoreError>,
}

impl Neo4jStore {
    /// Connects to a database and creates the schema if it has none. A database that refuses
    /// writes is opened for reading.
    pub fn open(address: Neo4jAddress, credentials: Neo4jCredentials) -> StoreResult<Self> {
        let pool = BoltPool::new(address, credentials);
        let mut store = Self {
            pool,
            watch: RemoteWatch::default(),
            salt: Vec::new(),
            indexed_dims: AtomicUsize::new(0),
            read_only: None,
        };
        let mut connection = store.take()?;
        check_server(connection.server()).map_err(|error| store.remote(error.0, error.1))?;
        let opened = schema::open(&mut connection);
        drop(connection);
        let found = match opened {
            Err(error) if is_read_only(&error) => {
                let error = explain(store.address(), &error);
                let mut connection = store.take()?;
                let found = schema::find(&mut connection);
                drop(connection);
                store.read_only = Some(error.clone());
                found.map_err(|error| explain(store.address(), &error))?.ok_or(error)?
            }
            opened => opened.map_err(|error| explain(store.address(), &error))?,
        };
        if found.version > schema::VERSION {
            return Err(StoreError::TooNew {
                path: store.address().to_string().into(),
                found: found.version,
                known: schema::VERSION,
            });
        }
        store.salt = found.salt;
        Ok(store)
    }

    /// Runs a Cypher query of your own on the graph and returns its rows.
    pub fn cypher(
        &self,
        query: &str,
        parameters: Vec<(&str, BoltValue)>,
    ) -> StoreResult<Vec<Vec<BoltValue>>> {
        let add = |statement: Cypher, (name, value)| statement.with(name, value);
        self.query(&parameters.into_iter().fold(Cypher::new(query), add))
    }

    fn address(&self) -> &Neo4jAddress {
        self.pool.address()
    }

    fn is_writable(&self) -> bool {
        self.read_only.is_none()
    }

    fn take(&self) -> StoreResult<PooledBolt<'_>> {
        self.pool.take().map_err(|error| explain(self.address(), &error))
    }

    fn reopen(&self) -> StoreResult<PooledBolt<'_>> {
        self.pool.reopen().map_err(|error| explain(self.address(), &error))
    }

    fn remote(&self, detail: String, hint: &str) -> StoreError {
        let location = self.address().to_string();
        StoreError::Remote { location, detail, hint: Some(hint.to_owned()) }
    }

    /// Runs a statement that only reads. A broken connection is replaced once.
    fn query(&self, statement: &Cypher) -> StoreResult<Rows> {
        let mut connection = self.take()?;
        match connection.run(statement) {
            Err(BoltError::Broken(_)) if !connection.is_new => {
                connection = self.reopen()?;
                connection.run(statement)
            }
            result => result,
        }
        .map_err(|error| explain(self.address(), &error))
    }

    /// Decodes the first column of each row.
    fn column<T: values::FromValue>(&self, rows: Rows) -> StoreResult<Vec<T>> {
        let values = rows.into_iter().map(|row| BoltRow::new(row).take());
        values.collect::<Result<_, _>>().map_err(|error| unreadable(self.address(), error))
    }

    fn tenant_names(&self, query: &str) -> StoreResult<Vec<(TenantId, i64)>> {
        let rows = self.query(&Cypher::new(query))?;
        let decode = |row| {
            let mut row = BoltRow::new(row);
            let name = TenantId::new(row.take::<String>()?).or_else(values::unreadable)?;
            Ok((name, row.take()?))
        };
        let tenants = rows.into_iter().map(decode);
        tenants.collect::<Result<_, _>>().map_err(|error| unreadable(self.address(), error))
    }

    /// The number of commits of all tenants.
    fn commits(&self) -> Option<i64> {
        let query = Cypher::new("MATCH (x:TreeringTenant) RETURN sum(x.commits)");
        self.column(self.query(&query).ok()?).ok()?.pop()
    }
}

/// Refuses servers that are too old.
fn check_server(server: &str) -> Result<(), (String, &'static str)> {
    let version = server.strip_prefix("Neo4j/").unwrap_or(server);
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match found >= (5, 26) {
        true => Ok(()),
        false => Err((
            format!("the server is {server}, and Treering needs Neo4j 5.26 or later"),
            "nothing was changed; upgrade the server",
        )),
    }
}

/// Waits before an attempt is repeated; a little longer each time.
fn back_off(attempt: u32) {
    thread::sleep(Duration::from_millis(u64::from(5 * attempt * attempt).min(500)));
}

impl Store for Neo4jStore {
    fn commit(&self, scope: CommitScope, plan: CommitPlan) -> StoreResult<()> {
        self.commit_plan(&scope, plan, true)
    }

    fn reader(&self, tenant: &TenantId) -> StoreResult<Box<dyn Reader + '_>> {
        Ok(Box::new(GraphView::new(self, self.take()?, tenant)))
    }

    fn lease(
        &self,
        tenant: &TenantId,
        filter: &JobFilter,
        worker: &str,
        sizes: BatchSizes,
    ) -> StoreResult<Vec<Job>> {
        let Some(now) = filter.due else { return Ok(Vec::new()) };
        // Usually nothing is due, and a read is cheaper than the lock of the tenant.
        if self.query(&read::has_due_jobs(tenant, now))?.is_empty() {
            return Ok(Vec::new());
        }
        self.lease_due(tenant, filter, (worker, now), sizes)
    }

    fn tenant_with_due_jobs(
        &self,
        now: Timestamp,
        after: Option<&TenantId>,
    ) -> StoreResult<Option<TenantId>> {
        let rows = self.query(&read::tenant_with_due_jobs(after, now))?;
        let name = self.column::<String>(rows)?.pop();
        Ok(name.map(TenantId::new).transpose()?)
    }

    fn cursors(&self) -> StoreResult<Vec<(TenantId, Cursor)>> {
        let tenants = self.tenant_names("MATCH (x:TreeringTenant) RETURN x.name, x.seq")?;
        Ok(tenants.into_iter().map(|(name, seq)| (name, read::cursor(seq))).collect())
    }

    fn revision(&self) -> Revision {
        self.watch.revision()
    }

    fn wait(&self, seen: Revision, timeout: Duration) -> Revision {
        self.watch.wait(seen, timeout, || self.commits())
    }

    fn wake(&self) {
        self.watch.notify();
    }

    fn keeps_embeddings(&self) -> bool {
        true
    }

    fn maintenance(&self) -> &dyn Maintenance {
        self
    }

    fn concurrency(&self) -> usize {
        MAX_IDLE
    }
}

//! A bounded pool of connections. A broken connection is dropped, and the next call opens a new one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use treering_core::ports::ConnectionUsage;

use super::connection::PgConnection;
use super::error::{Failure, Outcome};
use super::options::ServerTarget;

/// Maximum time to wait for a free connection.
const MAX_WAIT: Duration = Duration::from_secs(30);

pub(super) struct ConnectionPool {
    target: ServerTarget,
    runtime: Handle,
    state: Mutex<PoolState>,
    released: Condvar,
    broken: AtomicU64,
    counters: Arc<Counters>,
}

/// Counts the work of the connections of a pool.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) statements: AtomicU64,
    pub(super) round_trips: AtomicU64,
    pub(super) waited_micros: AtomicU64,
    pub(super) conflicts: AtomicU64,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<PgConnection>,
    /// Connections that exist, idle or not.
    size: usize,
}

impl ConnectionPool {
    pub(super) fn new(target: ServerTarget, runtime: Handle) -> Self {
        Self {
            target,
            runtime,
            state: Mutex::default(),
            released: Condvar::new(),
            broken: AtomicU64::new(0),
            counters: Arc::default(),
        }
    }

    pub(super) const fn target(&self) -> &ServerTarget {
        &self.target
    }

    pub(super) fn usage(&self) -> ConnectionUsage {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let state = self.lock();
        ConnectionUsage {
            limit: self.target.pool,
            open: state.size,
            idle: state.idle.len(),
            broken: count(&self.broken),
            statements: count(&self.counters.statements),
            round_trips: count(&self.counters.round_trips),
            waited_micros: count(&self.counters.waited_micros),
            conflicts: count(&self.counters.conflicts),
        }
    }

    pub(super) fn count_conflict(&self) {
        self.counters.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes an idle connection, or opens one.
    pub(super) fn take(&self) -> Outcome<PooledConnection<'_>> {
        let started = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(connection) = state.idle.pop() {
                if connection.is_closed() {
                    self.broken.fetch_add(1, Ordering::Relaxed);
                    state.size -= 1;
                    continue;
                }
                return Ok(PooledConnection {
                    pool: self,
                    connection: Some(connection),
                    is_broken: false,
                });
            }
            if state.size < self.target.pool {
                state.size += 1;
                drop(state);
                return self.open();
            }
            let left = MAX_WAIT.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(Failure::PoolExhausted(MAX_WAIT));
            }
            let waited = self.released.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Opens a connection beside the pool.
    pub(super) fn connect(&self) -> Outcome<PgConnection> {
        PgConnection::open(&self.target, &self.runtime, Arc::clone(&self.counters))
    }

    fn open(&self) -> Outcome<PooledConnection<'_>> {
        // Gives its place back if connecting fails.
        let mut place = PooledConnection { pool: self, connection: None, is_broken: false };
        let mut connection = self.connect()?;
        connection.read_server_state()?;
        place.connection = Some(connection);
        Ok(place)
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection of the pool. Returns to it when dropped.
pub(super) struct PooledConnection<'a> {
    pool: &'a ConnectionPool,
    /// `None` only while it is opened or dropped.
    connection: Option<PgConnection>,
    is_broken: bool,
}

impl PooledConnection<'_> {
    /// Runs a call, and drops the connection afterwards if it broke.
    pub(super) fn with<T>(
        &mut self,
        call: impl FnOnce(&mut PgConnection) -> Outcome<T>,
    ) -> Outcome<T> {
        let Some(connection) = &mut self.connection else {
            unreachable!("taken only when dropped")
        };
        let called = call(connection);
        self.is_broken |= called.as_ref().is_err_and(Failure::is_disconnect);
        called
    }

    /// Drops the connection instead of returning it: its transaction has to end.
    pub(super) const fn discard(&mut self) {
        self.is_broken = true;
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        let connection = self.connection.take();
        let mut state = self.pool.lock();
        match connection.filter(|connection| !self.is_broken && !connection.is_closed()) {
            Some(connection) => state.idle.push(connection),
            None => {
                self.pool.broken.fetch_add(1, Ordering::Relaxed);
                state.size -= 1;
            }
        }
        drop(state);
        self.pool.released.notify_one();
    }
}

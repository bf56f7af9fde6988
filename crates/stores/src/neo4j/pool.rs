//! Idle connections, and those in use.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Neo4jCredentials;
use super::bolt::{BoltConnection, BoltError, Neo4jAddress};

/// Maximum number of idle connections.
pub(super) const MAX_IDLE: usize = 16;

pub(super) struct BoltPool {
    address: Neo4jAddress,
    credentials: Neo4jCredentials,
    idle: Mutex<Vec<BoltConnection>>,
}

impl BoltPool {
    pub(super) const fn new(address: Neo4jAddress, credentials: Neo4jCredentials) -> Self {
        Self { address, credentials, idle: Mutex::new(Vec::new()) }
    }

    pub(super) const fn address(&self) -> &Neo4jAddress {
        &self.address
    }

    /// Takes an idle connection, or opens one.
    pub(super) fn take(&self) -> Result<PooledBolt<'_>, BoltError> {
        let idle = self.idle().pop();
        match idle {
            Some(connection) => {
                Ok(PooledBolt { pool: self, connection: Some(connection), is_new: false })
            }
            None => self.open(),
        }
    }

    /// Opens a connection, and closes the idle ones, which a restart of the server has cut.
    pub(super) fn reopen(&self) -> Result<PooledBolt<'_>, BoltError> {
        self.idle().clear();
        self.open()
    }

    fn open(&self) -> Result<PooledBolt<'_>, BoltError> {
        let Neo4jCredentials { user, password } = &self.credentials;
        let connection = BoltConnection::open(&self.address, user, password)?;
        Ok(PooledBolt { pool: self, connection: Some(connection), is_new: true })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<BoltConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that returns to the pool when it is dropped, without an open transaction.
pub(super) struct PooledBolt<'a> {
    pool: &'a BoltPool,
    /// `None` only while it is being dropped.
    connection: Option<BoltConnection>,
    /// Whether it was just opened. An idle one may have been cut in the meantime.
    pub(super) is_new: bool,
}

impl Deref for PooledBolt<'_> {
    type Target = BoltConnection;
    fn deref(&self) -> &BoltConnection {
        let Some(connection) = &self.connection else { unreachable!("taken only when dropped") };
        connection
    }
}

impl DerefMut for PooledBolt<'_> {
    fn deref_mut(&mut self) -> &mut BoltConnection {
        let Some(connection) = &mut self.connection else {
            unreachable!("taken only when dropped")
        };
        connection
    }
}

impl Drop for PooledBolt<'_> {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        if connection.rollback().is_err() || connection.is_broken() {
            return;
        }
        let mut idle = self.pool.idle();
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }
}

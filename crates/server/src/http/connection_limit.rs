//! The limit on open connections. When it is reached, the server closes the connection that has
//! waited for its client longest and accepts the next one, so that stalled connections lock
//! nobody out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

/// The number of connections beyond the limit that answer health checks, while the server works on
/// requests of all others.
const HEALTH_CHECK_CONNECTIONS: usize = 16;

/// The open connections of a server, and their limits.
pub(super) struct ConnectionLimit {
    connections: usize,
    connections_per_address: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    next_id: u64,
    by_id: BTreeMap<u64, Arc<Connection>>,
}

/// An open connection.
pub(super) struct Connection {
    peer: IpAddr,
    health_checks_only: bool,
    activity: Mutex<Activity>,
    closed: CancellationToken,
}

/// The last activity on a connection.
struct Activity {
    /// Whether the server works on a request.
    has_request: bool,
    /// Whether that request waits for its body.
    awaits_body: bool,
    /// Whether a response waits until the client reads.
    awaits_reader: bool,
    /// The time of the last byte from or to the client.
    last_byte: Instant,
}

/// The reason why a connection is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LimitReached {
    /// The server works on requests of all connections of the address.
    Address,
    /// The server works on requests of all connections.
    Server,
}

impl ConnectionLimit {
    pub(super) fn new(connections: usize, connections_per_address: usize) -> Arc<Self> {
        Arc::new(Self { connections, connections_per_address, open: Mutex::default() })
    }

    /// Admits a connection, if need be in place of one that keeps the server waiting.
    pub(super) fn admit(
        self: &Arc<Self>,
        peer: IpAddr,
    ) -> Result<AdmittedConnection, LimitReached> {
        let mut open = lock(&self.open);
        // The programs of this machine share an address, and so do the clients of a proxy on it.
        let of_peer = |it: &Connection| it.peer == peer && !peer.is_loopback();
        if !open.make_room(self.connections_per_address, of_peer) {
            return Err(LimitReached::Address);
        }
        let health_checks_only = !open.make_room(self.connections, |it| !it.health_checks_only);
        if health_checks_only
            && !open.make_room(HEALTH_CHECK_CONNECTIONS, |it| it.health_checks_only)
        {
            return Err(LimitReached::Server);
        }
        let (id, connection) = (open.next_id, Arc::new(Connection::new(peer, health_checks_only)));
        open.next_id += 1;
        open.by_id.insert(id, Arc::clone(&connection));
        Ok(AdmittedConnection { limit: Arc::clone(self), id, connection })
    }
}

impl OpenConnections {
    /// Returns whether fewer than `limit` of some connections are open. Closes the one that has
    /// waited for its client longest, if it is necessary and there is one.
    fn make_room(&mut self, limit: usize, is_counted: impl Fn(&Connection) -> bool) -> bool {
        let counted = || self.by_id.iter().filter(|(_, it)| is_counted(it));
        if counted().count() < limit {
            return true;
        }
        let waiting = counted().filter_map(|(id, it)| Some((it.waiting_since()?, *id)));
        let longest = waiting.min().and_then(|(_, id)| self.by_id.remove(&id));
        longest.inspect(|connection| connection.closed.cancel()).is_some()
    }
}

impl Connection {
    fn new(peer: IpAddr, health_checks_only: bool) -> Self {
        let activity = Activity {
            has_request: false,
            awaits_body: false,
            awaits_reader: false,
            last_byte: Instant::now(),
        };
        let (activity, closed) = (Mutex::new(activity), CancellationToken::new());
        Self { peer, health_checks_only, activity, closed }
    }

    /// Whether the connection serves only health checks.
    pub(super) const fn health_checks_only(&self) -> bool {
        self.health_checks_only
    }

    /// Start of the wait for the client; `None` while the server works on a request.
    fn waiting_since(&self) -> Option<Instant> {
        let activity = lock(&self.activity);
        let waits = !activity.has_request || activity.awaits_body || activity.awaits_reader;
        waits.then_some(activity.last_byte)
    }

    /// Marks the start or the end of the work on a request.
    pub(super) fn set_has_request(&self, has_request: bool) {
        let mut activity = lock(&self.activity);
        (activity.has_request, activity.awaits_body) = (has_request, false);
        activity.last_byte = Instant::now();
    }

    /// Marks that a request waits for its body, or that more of it came.
    pub(super) fn set_awaits_body(&self, awaits: bool) {
        lock(&self.activity).awaits_body = awaits;
    }

    /// Marks that bytes came from the client.
    pub(super) fn received(&self) {
        lock(&self.activity).last_byte = Instant::now();
    }

    /// Marks that the client took bytes, or does not read.
    pub(super) fn sent(&self, is_taken: bool) {
        let mut activity = lock(&self.activity);
        activity.awaits_reader = !is_taken;
        if is_taken {
            activity.last_byte = Instant::now();
        }
    }

    /// Returns when the server closes the connection for another client.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// Counts a connection as open until it is dropped.
pub(super) struct AdmittedConnection {
    limit: Arc<ConnectionLimit>,
    id: u64,
    connection: Arc<Connection>,
}

impl AdmittedConnection {
    pub(super) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.connection)
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        lock(&self.limit.open).by_id.remove(&self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn admitted(limit: &Arc<ConnectionLimit>, last: u8) -> AdmittedConnection {
        limit.admit(address(last)).ok().unwrap()
    }

    fn is_closed(admitted: &AdmittedConnection) -> bool {
        admitted.connection.closed.is_cancelled()
    }

    #[test]
    fn the_next_client_takes_over_from_the_longest_waiting_connection() {
        let limit = ConnectionLimit::new(2, 9);
        let (first, second) = (admitted(&limit, 1), admitted(&limit, 2));
        first.connection.received();
        let third = admitted(&limit, 3);
        assert!(is_closed(&second) && !is_closed(&first));
        assert!(!third.connection.health_checks_only);
    }

    #[test]
    fn connections_with_requests_stay_and_health_checks_have_their_own() {
        let limit = ConnectionLimit::new(1, 99);
        let busy = admitted(&limit, 1);
        busy.connection.set_has_request(true);
        let further: Vec<AdmittedConnection> =
            (0..HEALTH_CHECK_CONNECTIONS).map(|_| admitted(&limit, 2)).collect();
        assert!(further.iter().all(|it| it.connection.health_checks_only));
        further.iter().for_each(|it| it.connection.set_has_request(true));
        assert_eq!(limit.admit(address(3)).err(), Some(LimitReached::Server));
        busy.connection.set_awaits_body(true);
        let next = admitted(&limit, 3);
        assert!(is_closed(&busy) && !next.connection.health_checks_only);
        drop(further);
    }

    #[test]
    fn an_address_has_a_limit_of_its_own() {
        let limit = ConnectionLimit::new(9, 1);
        let first = admitted(&limit, 1);
        first.connection.set_has_request(true);
        assert_eq!(limit.admit(address(1)).err(), Some(LimitReached::Address));
        let other = admitted(&limit, 2);
        first.connection.sent(false);
        let second = admitted(&limit, 1);
        assert!(is_closed(&first) && !is_closed(&other));
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let local: Vec<_> = (0..3).map(|_| limit.admit(loopback)).collect();
        assert!(local.iter().all(Result::is_ok));
        drop(second);
    }
}

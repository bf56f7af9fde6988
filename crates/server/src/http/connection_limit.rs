//! The places of open connections. A connection that keeps the server waiting gives its place to
//! the next client, so that stalled connections lock nobody out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The places that only health checks get, when all others are busy.
const RESERVE: usize = 16;
/// The time after which a full server looks again for a connection that keeps it waiting.
const RETRY: Duration = Duration::from_millis(50);

/// The places of a server.
pub(super) struct Places {
    limit: usize,
    limit_per_address: usize,
    open: Mutex<OpenPlaces>,
    freed: Notify,
}

#[derive(Default)]
struct OpenPlaces {
    next: u64,
    places: BTreeMap<u64, Arc<Place>>,
}

/// The place of one connection.
pub(super) struct Place {
    peer: IpAddr,
    is_reserve: bool,
    state: Mutex<PlaceState>,
    evicted: CancellationToken,
}

struct PlaceState {
    /// Whether the server works on a request.
    is_busy: bool,
    /// Whether a request waits for its body.
    awaits_body: bool,
    /// Whether an answer waits until the client reads.
    awaits_reader: bool,
    /// The time of the last byte from or to the client.
    progress: Instant,
}

/// The reason why a client gets no place.
#[derive(Debug, PartialEq)]
pub(super) enum Refusal {
    /// Its address has as many connections as one may have, all of them busy.
    Address,
    /// All places are busy.
    Full,
}

impl Places {
    pub(super) fn new(limit: usize, limit_per_address: usize) -> Arc<Self> {
        let (open, freed) = (Mutex::default(), Notify::new());
        Arc::new(Self { limit, limit_per_address, open, freed })
    }

    /// A place for a client. Waits while all places are busy.
    pub(super) async fn place(self: &Arc<Self>, peer: IpAddr) -> Result<PlaceGuard, Refusal> {
        loop {
            match self.try_place(peer) {
                Err(Refusal::Full) => {
                    // A connection that stalls frees its place without a notice.
                    drop(tokio::time::timeout(RETRY, self.freed.notified()).await);
                }
                placed => return placed,
            }
        }
    }

    fn try_place(self: &Arc<Self>, peer: IpAddr) -> Result<PlaceGuard, Refusal> {
        let mut open = lock(&self.open);
        // The programs of this machine share an address, and so do the clients of a proxy on it.
        let of_peer = |place: &Place| place.peer == peer && !peer.is_loopback();
        if open.count(of_peer) >= self.limit_per_address && !open.evict(of_peer) {
            return Err(Refusal::Address);
        }
        let regular = |place: &Place| !place.is_reserve;
        let reserve = |place: &Place| place.is_reserve;
        let is_reserve = open.count(regular) >= self.limit && !open.evict(regular);
        if is_reserve && open.count(reserve) >= RESERVE && !open.evict(reserve) {
            return Err(Refusal::Full);
        }
        let id = open.next;
        let place = Arc::new(Place::new(peer, is_reserve));
        open.next += 1;
        open.places.insert(id, Arc::clone(&place));
        Ok(PlaceGuard { places: Arc::clone(self), id, place })
    }
}

impl OpenPlaces {
    fn count(&self, which: impl Fn(&Place) -> bool) -> usize {
        self.places.values().filter(|place| which(place)).count()
    }

    /// Closes the connection that has kept the server waiting for longest. Returns whether there
    /// was one.
    fn evict(&mut self, which: impl Fn(&Place) -> bool) -> bool {
        let waiting = self.places.iter().filter(|(_, place)| which(place));
        let waiting = waiting.filter_map(|(id, place)| Some((place.waits_since()?, *id)));
        let longest = waiting.min().and_then(|(_, id)| self.places.remove(&id));
        longest.inspect(|place| place.evicted.cancel()).is_some()
    }
}

impl Place {
    fn new(peer: IpAddr, is_reserve: bool) -> Self {
        let (is_busy, awaits_body, awaits_reader) = (false, false, false);
        let progress = Instant::now();
        let state = Mutex::new(PlaceState { is_busy, awaits_body, awaits_reader, progress });
        Self { peer, is_reserve, state, evicted: CancellationToken::new() }
    }

    /// Whether the connection serves only health checks.
    pub(super) const fn is_reserve(&self) -> bool {
        self.is_reserve
    }

    /// The time since which the server waits for the client; `None` while it works.
    fn waits_since(&self) -> Option<Instant> {
        let state = lock(&self.state);
        let waits = !state.is_busy || state.awaits_body || state.awaits_reader;
        waits.then_some(state.progress)
    }

    /// Marks the start or the end of the work on a request.
    pub(super) fn set_busy(&self, is_busy: bool) {
        let mut state = lock(&self.state);
        (state.is_busy, state.awaits_body, state.progress) = (is_busy, false, Instant::now());
    }

    /// Marks that a request waits for its body, or that more of it came.
    pub(super) fn set_awaits_body(&self, awaits: bool) {
        lock(&self.state).awaits_body = awaits;
    }

    /// Marks that bytes came from the client.
    pub(super) fn received(&self) {
        lock(&self.state).progress = Instant::now();
    }

    /// Marks that the client took bytes, or does not read.
    pub(super) fn sent(&self, is_taken: bool) {
        let mut state = lock(&self.state);
        state.awaits_reader = !is_taken;
        if is_taken {
            state.progress = Instant::now();
        }
    }

    /// Returns when the connection has to close: another client needs its place, or the client
    /// did not read for `write_timeout`.
    pub(super) async fn ended(&self, write_timeout: Duration) {
        loop {
            let wait = {
                let state = lock(&self.state);
                let quiet = state.progress.elapsed();
                match state.awaits_reader {
                    true if quiet >= write_timeout => return,
                    true => write_timeout - quiet,
                    false => write_timeout,
                }
            };
            tokio::select! {
                () = self.evicted.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

/// Holds the place of a connection until it is dropped.
pub(super) struct PlaceGuard {
    places: Arc<Places>,
    id: u64,
    place: Arc<Place>,
}

impl PlaceGuard {
    pub(super) fn place(&self) -> Arc<Place> {
        Arc::clone(&self.place)
    }
}

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        lock(&self.places.open).places.remove(&self.id);
        self.places.freed.notify_one();
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

    fn refused(placed: Result<PlaceGuard, Refusal>) -> Option<Refusal> {
        placed.err()
    }

    #[test]
    fn the_longest_waiting_connection_gives_up_its_place() {
        let places = Places::new(2, 9);
        let first = places.try_place(address(1)).ok().unwrap();
        let second = places.try_place(address(2)).ok().unwrap();
        first.place.received();
        let third = places.try_place(address(3)).ok().unwrap();
        assert!(second.place.evicted.is_cancelled() && !first.place.evicted.is_cancelled());
        assert!(!third.place.is_reserve);
    }

    #[test]
    fn busy_connections_stay_and_health_checks_get_the_reserve() {
        let places = Places::new(1, 99);
        let busy = places.try_place(address(1)).ok().unwrap();
        busy.place.set_busy(true);
        let reserve: Vec<PlaceGuard> =
            (0..RESERVE).map(|_| places.try_place(address(2)).ok().unwrap()).collect();
        assert!(reserve.iter().all(|guard| guard.place.is_reserve));
        reserve.iter().for_each(|guard| guard.place.set_busy(true));
        assert_eq!(refused(places.try_place(address(3))), Some(Refusal::Full));
        busy.place.set_awaits_body(true);
        let next = places.try_place(address(3)).ok().unwrap();
        assert!(busy.place.evicted.is_cancelled() && !next.place.is_reserve);
        drop(reserve);
    }

    #[test]
    fn an_address_takes_only_its_share() {
        let places = Places::new(9, 1);
        let first = places.try_place(address(1)).ok().unwrap();
        first.place.set_busy(true);
        assert_eq!(refused(places.try_place(address(1))), Some(Refusal::Address));
        let other = places.try_place(address(2)).ok().unwrap();
        first.place.sent(false);
        let second = places.try_place(address(1)).ok().unwrap();
        assert!(first.place.evicted.is_cancelled() && !other.place.evicted.is_cancelled());
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let local: Vec<_> = (0..3).map(|_| places.try_place(loopback)).collect();
        assert!(local.iter().all(Result::is_ok));
        drop(second);
    }
}

//! The tenants of the store that is served: one worker for all of them, and one follower that counts events and wakes
//! streams of events. Neither depends on how many tenants there are.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use treering_core::TenantId;
use treering_engine::{Engine, FeedCursors, WorkerHandle};

use super::metrics::Metrics;
use crate::service::{Service, ServiceError};
use crate::views::kind_of;

/// How long the follower waits for a commit before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(250);

/// The tenants of a store.
pub(super) struct TenantRegistry {
    /// The service of one of them, from which the others are made.
    root: Service,
    /// Absent once it was stopped.
    background: Mutex<Option<Background>>,
    streams: Arc<Streams>,
}

struct Background {
    worker: WorkerHandle,
    follower: Follower,
}

impl TenantRegistry {
    pub(super) fn new(root: Service, metrics: Arc<Metrics>) -> Result<Self, ServiceError> {
        let memory = root.memory();
        memory.prewarm();
        let (worker, streams) =
            (memory.spawn_worker_for_all_tenants()?, Arc::new(Streams::default()));
        let follower = Follower::spawn(memory.clone(), Arc::clone(&streams), metrics)?;
        let background = Mutex::new(Some(Background { worker, follower }));
        Ok(Self { root, background, streams })
    }

    /// The service of the tenant that the program was started for.
    pub(super) const fn root(&self) -> &Service {
        &self.root
    }

    /// The service of a tenant.
    pub(super) fn service_for(&self, tenant: &TenantId) -> Service {
        self.root.of_tenant(tenant.clone())
    }

    /// Changes after commits to a tenant.
    pub(super) fn commits(&self, tenant: &TenantId) -> watch::Receiver<u64> {
        self.streams.subscribe(tenant)
    }

    /// Stops the worker and the follower. Jobs that run longer than until a moment are given back; returns how many these
    /// are.
    pub(super) fn stop_by(&self, deadline: Instant) -> Result<usize, ServiceError> {
        let background = self.background.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Background { worker, follower }) = background else { return Ok(0) };
        follower.ask_to_stop();
        Ok(worker.stop_with_deadline(deadline)?)
    }
}

/// The streams of events that are open, by tenant.
#[derive(Default)]
struct Streams(Mutex<HashMap<TenantId, watch::Sender<u64>>>);

impl Streams {
    fn subscribe(&self, tenant: &TenantId) -> watch::Receiver<u64> {
        let mut senders = self.lock();
        senders.retain(|_, sender| sender.receiver_count() > 0);
        senders.entry(tenant.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    fn wake(&self, tenant: &TenantId) {
        if let Some(sender) = self.lock().get(tenant) {
            sender.send_modify(|count| *count += 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows the change feeds of all tenants, whichever process commits.
struct Follower {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    fn spawn(
        memory: Engine,
        streams: Arc<Streams>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ServiceError> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        // From before the first request.
        let mut ends = memory.feed_cursors()?;
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Acquire) {
                if let Err(error) = follow(&memory, &mut ends, &streams, &metrics) {
                    tracing::warn!(%error, "the store cannot be followed");
                    std::thread::sleep(PATIENCE);
                }
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Has it end soon, without waiting for it.
    fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// Waits for a commit, and counts the events of the tenants that it changed.
fn follow(
    memory: &Engine,
    ends: &mut FeedCursors,
    streams: &Streams,
    metrics: &Metrics,
) -> treering_engine::Result<()> {
    for (tenant, after) in memory.wait_for_changes(ends, PATIENCE)? {
        let memory = memory.for_tenant(tenant.clone());
        let (mut cursor, mut has_events) = (after, false);
        loop {
            let (news, now) = memory.events_after(&cursor)?;
            news.iter().for_each(|news| metrics.count(&tenant, kind_of(news)));
            has_events |= !news.is_empty();
            if now == cursor {
                break;
            }
            cursor = now;
        }
        ends.advance(tenant.clone(), cursor);
        if has_events {
            streams.wake(&tenant);
        }
    }
    Ok(())
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

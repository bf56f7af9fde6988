//! The tenants of the served store: one worker for all of them, and one follower thread that
//! counts events and wakes event streams. The number of threads does not depend on the number of
//! tenants.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use treering_core::TenantId;
use treering_engine::{Engine, FeedCursors, WorkerHandle};

use super::metrics::Metrics;
use crate::service::{RetentionTask, RetentionTenants, Service, ServiceError};
use crate::views::kind_of;

/// How long the follower waits for a commit before it checks whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The tenants of a store.
pub(super) struct TenantRegistry {
    /// The template from which the services of the other tenants are made.
    root: Service,
    /// `None` once stopped.
    background: Mutex<Option<Background>>,
    streams: Arc<Streams>,
}

struct Background {
    worker: WorkerHandle,
    follower: Follower,
    _retention: Option<RetentionTask>,
}

impl TenantRegistry {
    pub(super) fn new(root: Service, metrics: Arc<Metrics>) -> Result<Self, ServiceError> {
        let engine = root.engine();
        engine.prewarm();
        let (worker, streams) =
            (engine.spawn_worker_for_all_tenants()?, Arc::new(Streams::default()));
        let follower = Follower::spawn(engine.clone(), Arc::clone(&streams), metrics)?;
        let retention = root.spawn_retention(RetentionTenants::All);
        let background = Background { worker, follower, _retention: retention };
        let background = Mutex::new(Some(background));
        Ok(Self { root, background, streams })
    }

    /// The service of the tenant that the process was started for.
    pub(super) const fn root(&self) -> &Service {
        &self.root
    }

    /// The service of a tenant.
    pub(super) fn service_for(&self, tenant: &TenantId) -> Service {
        self.root.of_tenant(tenant.clone())
    }

    /// A channel that signals commits to a tenant.
    pub(super) fn commits(&self, tenant: &TenantId) -> watch::Receiver<u64> {
        self.streams.subscribe(tenant)
    }

    /// Stops the worker and the follower. Jobs that still run at the deadline are released.
    /// Returns their number.
    pub(super) fn stop_by(&self, deadline: Instant) -> Result<usize, ServiceError> {
        let background = self.background.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Background { worker, follower, .. }) = background else { return Ok(0) };
        follower.ask_to_stop();
        Ok(worker.stop_with_deadline(deadline)?)
    }
}

/// The open event streams, by tenant.
#[derive(Default)]
struct Streams(Mutex<HashMap<TenantId, watch::Sender<u64>>>);

impl Streams {
    fn subscribe(&self, tenant: &TenantId) -> watch::Receiver<u64> {
        let mut senders = self.lock();
        senders.retain(|_, sender| sender.receiver_count() > 0);
        senders.entry(tenant.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    fn notify(&self, tenant: &TenantId) {
        if let Some(sender) = self.lock().get(tenant) {
            sender.send_modify(|count| *count += 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that follows the change feeds of all tenants, whichever process commits.
struct Follower {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    fn spawn(
        engine: Engine,
        streams: Arc<Streams>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ServiceError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stop_requested = Arc::clone(&stop);
        // Start the feed before the first request.
        let mut cursors = engine.feed_cursors()?;
        let thread = std::thread::spawn(move || {
            while !stop_requested.load(Ordering::Acquire) {
                if let Err(error) = follow(&engine, &mut cursors, &streams, &metrics) {
                    tracing::warn!(%error, "cannot read the change feed");
                    std::thread::sleep(STOP_CHECK_INTERVAL);
                }
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Asks the thread to end, without waiting for it.
    fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// Waits for commits, counts the events of each changed tenant and wakes its streams.
fn follow(
    engine: &Engine,
    cursors: &mut FeedCursors,
    streams: &Streams,
    metrics: &Metrics,
) -> treering_engine::Result<()> {
    for (tenant, after) in engine.wait_for_changes(cursors, STOP_CHECK_INTERVAL)? {
        let engine = engine.for_tenant(tenant.clone());
        let (mut cursor, mut has_events) = (after, false);
        loop {
            let (events, now) = engine.events_after(&cursor)?;
            events.iter().for_each(|event| metrics.count(&tenant, kind_of(event)));
            has_events |= !events.is_empty();
            if now == cursor {
                break;
            }
            cursor = now;
        }
        cursors.advance(tenant.clone(), cursor);
        if has_events {
            streams.notify(&tenant);
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

//! Tenancies: the memory of each tenant that is served, with its worker and with somebody who follows
//! what comes into it. Made when a credential of the tenant first comes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use treering_core::TenantId;
use treering_engine::{Mark, Memory, WorkerHandle};

use super::metrics::Metrics;
use crate::service::{Refusal, Service};
use crate::views::kind_of;

/// How long the follower waits for news before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(250);

/// The tenants of a store.
pub(super) struct Tenancies {
    /// The service of one of them, from which the others are made.
    root: Service,
    metrics: Arc<Metrics>,
    there: Mutex<HashMap<TenantId, Tenancy>>,
    /// Held by who makes one.
    making: tokio::sync::Mutex<()>,
}

struct Tenancy {
    service: Service,
    news: watch::Receiver<u64>,
    worker: WorkerHandle,
    follower: Follower,
}

impl Tenancies {
    pub(super) fn new(root: Service, metrics: Arc<Metrics>) -> Result<Self, Refusal> {
        let tenancies =
            Self { root, metrics, there: Mutex::default(), making: tokio::sync::Mutex::default() };
        tenancies.make(tenancies.root.memory().tenant())?;
        Ok(tenancies)
    }

    /// The service of the tenant that the program was started for.
    pub(super) const fn root(&self) -> &Service {
        &self.root
    }

    /// The service of a tenant. One that has not come yet is made ready on a thread that may block, and keeps nobody
    /// waiting but those who ask for it too, or for another that is new.
    pub(super) async fn of(self: &Arc<Self>, tenant: &TenantId) -> Result<Service, Refusal> {
        let find = || self.find(tenant, |tenancy| tenancy.service.clone());
        if let Some(service) = find() {
            return Ok(service);
        }
        let _turn = self.making.lock().await;
        if let Some(service) = find() {
            return Ok(service);
        }
        let (tenancies, tenant) = (Arc::clone(self), tenant.clone());
        let made = tokio::task::spawn_blocking(move || tenancies.make(&tenant)).await;
        made.unwrap_or_else(|error| Err(Refusal::Broken(error.to_string())))
    }

    /// The services of all tenants that came so far.
    pub(super) fn all(&self) -> Vec<Service> {
        self.lock().values().map(|tenancy| tenancy.service.clone()).collect()
    }

    /// Changes whenever something came into the memory of a tenant that is there.
    pub(super) fn news(&self, tenant: &TenantId) -> Result<watch::Receiver<u64>, Refusal> {
        self.find(tenant, |tenancy| tenancy.news.clone()).ok_or(Refusal::Stopping)
    }

    fn find<T>(&self, tenant: &TenantId, take: impl FnOnce(&Tenancy) -> T) -> Option<T> {
        self.lock().get(tenant).map(take)
    }

    fn make(&self, tenant: &TenantId) -> Result<Service, Refusal> {
        let service = self.root.of_tenant(tenant.clone());
        service.memory().warm_up();
        let worker = service.memory().work_in_background()?;
        let (tell, news) = watch::channel(0);
        // From before anybody can bring something.
        let mark = service.memory().news_mark()?;
        let follower = Follower::spawn(service.memory().clone(), mark, tell, Arc::clone(&self.metrics));
        let tenancy = Tenancy { service: service.clone(), news, worker, follower };
        let mut there = self.lock();
        if let Some(first) = there.get(tenant) {
            // Who asked for it first is gone, but it was made nevertheless. The other one goes, after the lock.
            let service = first.service.clone();
            drop(there);
            return Ok(service);
        }
        there.insert(tenant.clone(), tenancy);
        Ok(service)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, Tenancy>> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops workers and followers, each after what it has at hand; jobs that are at hand longer than until a moment
    /// are given back. Tells how many these are.
    pub(super) fn stop_by(&self, deadline: Instant) -> Result<usize, Refusal> {
        let there = std::mem::take(&mut *self.lock());
        for tenancy in there.values() {
            tenancy.worker.ask_to_stop();
            tenancy.follower.ask_to_stop();
        }
        let stopped: Vec<_> = there.into_values().map(|tenancy| tenancy.worker.stop_by(deadline)).collect();
        Ok(stopped.into_iter().sum::<Result<usize, _>>()?)
    }
}

/// Follows what comes into a memory, and tells that something came.
struct Follower {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    fn spawn(memory: Memory, mut mark: Mark, tell: watch::Sender<u64>, metrics: Arc<Metrics>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Acquire) {
                match memory.await_news(mark, PATIENCE) {
                    Ok((news, now)) => {
                        mark = now;
                        news.iter().for_each(|news| metrics.count(memory.tenant(), kind_of(news)));
                        if !news.is_empty() {
                            tell.send_modify(|count| *count += 1);
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the store cannot be followed");
                        std::thread::sleep(PATIENCE);
                    }
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Has it end soon. It is not waited for.
    fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

//! Tenancies: the memory of each tenant that is served, with its worker and with somebody who follows
//! what comes into it. Made when a credential of the tenant first comes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use treering_core::TenantId;
use treering_engine::{Memory, WorkerHandle};

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
}

struct Tenancy {
    service: Service,
    news: watch::Receiver<u64>,
    worker: WorkerHandle,
    follower: Follower,
}

impl Tenancies {
    pub(super) fn new(root: Service, metrics: Arc<Metrics>) -> Result<Self, Refusal> {
        let tenancies = Self { root, metrics, there: Mutex::default() };
        tenancies.of(tenancies.root.memory().tenant())?;
        Ok(tenancies)
    }

    /// The service of the tenant that the program was started for.
    pub(super) const fn root(&self) -> &Service {
        &self.root
    }

    /// The service of a tenant.
    pub(super) fn of(&self, tenant: &TenantId) -> Result<Service, Refusal> {
        self.with(tenant, |tenancy| tenancy.service.clone())
    }

    /// The services of all tenants that came so far.
    pub(super) fn all(&self) -> Vec<Service> {
        let there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        there.values().map(|tenancy| tenancy.service.clone()).collect()
    }

    /// Changes whenever something came into the memory of a tenant.
    pub(super) fn news(&self, tenant: &TenantId) -> Result<watch::Receiver<u64>, Refusal> {
        self.with(tenant, |tenancy| tenancy.news.clone())
    }

    fn with<T>(&self, tenant: &TenantId, take: impl FnOnce(&Tenancy) -> T) -> Result<T, Refusal> {
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tenancy) = there.get(tenant) {
            return Ok(take(tenancy));
        }
        let service = self.root.of_tenant(tenant.clone());
        service.memory().warm_up();
        let worker = service.memory().work_in_background()?;
        let (tell, news) = watch::channel(0);
        let follower = Follower::spawn(service.memory().clone(), tell, Arc::clone(&self.metrics));
        let tenancy = Tenancy { service, news, worker, follower };
        Ok(take(there.entry(tenant.clone()).or_insert(tenancy)))
    }

    /// Stops workers and followers, each after what it has at hand; jobs that are at hand longer than until a moment
    /// are given back. Tells how many these are.
    pub(super) fn stop_by(&self, deadline: Instant) -> Result<usize, Refusal> {
        let there = std::mem::take(&mut *self.there.lock().unwrap_or_else(PoisonError::into_inner));
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
    fn spawn(memory: Memory, tell: watch::Sender<u64>, metrics: Arc<Metrics>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut mark = None;
            while !asked.load(Ordering::Acquire) {
                let followed = match mark {
                    None => memory.news_mark().map(|mark| (Vec::new(), mark)),
                    Some(mark) => memory.await_news(mark, PATIENCE),
                };
                match followed {
                    Ok((news, now)) => {
                        mark = Some(now);
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

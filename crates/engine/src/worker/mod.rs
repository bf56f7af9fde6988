//! The worker: leases due jobs, runs them, and commits each result together with the jobs that
//! follow from it. Several workers, in one process or many, share the work.

mod paced;
mod run;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use treering_core::ports::JobFilter;
use treering_core::{BatchSizes, ConversationId, Job, ProviderError, RetryAdvice, TenantId};

use crate::embed;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::kill_points::{self, KillPoint};
use crate::leases::Leases;

pub(crate) use run::store_node;

/// Jobs that a thread leases at once for a local summarizer.
const LOCAL_BATCH: usize = 4;
/// Jobs whose texts are embedded in one batch.
const EMBED_BATCH: usize = 32;
/// How often a pausing worker checks whether it should stop.
const PAUSE_STEP: Duration = Duration::from_millis(100);
/// How often an idle worker looks for jobs that other processes planned.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often [`WorkerHandle::stop_with_deadline`] checks whether the worker has ended.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Selects the jobs to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobScope {
    /// Only jobs of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only jobs up to this height: 0 for turns, then the levels.
    pub max_height: Option<u8>,
    /// Only jobs of exactly this height.
    pub only: Option<u8>,
}

/// The outcome of one run of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobOutcome {
    /// The job is done.
    Done,
    /// Another worker finished the job, its input no longer exists, or its input has changed and
    /// the job runs again.
    Stale,
    /// The run failed. The job is retried or was given up.
    Failed(ProviderError),
}

/// Counters of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkStats {
    /// Jobs that are done.
    pub done: u32,
    /// Runs that failed.
    pub failed: u32,
}

/// Jobs of one tenant that were leased together.
struct Batch {
    engine: Engine,
    jobs: Vec<Job>,
}

/// The tenants whose jobs a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tenants {
    /// Only the engine's own tenant.
    Own,
    /// Every tenant of the store, one batch each in round-robin order.
    All,
}

/// Runs the jobs of an engine.
#[derive(Clone)]
pub struct Worker {
    engine: Engine,
    tenants: Tenants,
    leases: Arc<Leases>,
    /// The tenant that was served last.
    last: Arc<Mutex<Option<TenantId>>>,
    /// Held while a fallback summarizer writes.
    fallback_lock: Arc<Mutex<()>>,
}

impl Worker {
    /// A worker for the engine's own tenant.
    pub fn new(engine: Engine) -> Result<Self> {
        Self::with(engine, Tenants::Own)
    }

    /// A worker for every tenant of the engine's store.
    pub fn for_all_tenants(engine: Engine) -> Result<Self> {
        Self::with(engine, Tenants::All)
    }

    fn with(engine: Engine, tenants: Tenants) -> Result<Self> {
        let mut random = [0; 6];
        getrandom::fill(&mut random).map_err(|error| {
            treering_core::Invalid::new(
                "worker",
                format!("the random number generator of the system failed: {error}"),
            )
        })?;
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let leases = Arc::new(Leases::new(format!("{}-{digits}", std::process::id())));
        Ok(Self { engine, tenants, leases, last: Arc::default(), fallback_lock: Arc::default() })
    }

    /// Runs due jobs concurrently until none is due. Calls `after` for each run.
    pub fn run(
        &self,
        scope: &JobScope,
        after: &(dyn Fn(&Job, &JobOutcome) + Sync),
    ) -> Result<WorkStats> {
        self.run_until(&AtomicBool::new(false), scope, after)
    }

    /// Like [`Self::run`], but leases no more jobs once `stop` is set. Running jobs are finished.
    pub fn run_until(
        &self,
        stop: &AtomicBool,
        scope: &JobScope,
        after: &(dyn Fn(&Job, &JobOutcome) + Sync),
    ) -> Result<WorkStats> {
        // A background worker checks after every commit, so the check must not start threads.
        let Some(first) = self.lease(scope)? else { return Ok(WorkStats::default()) };
        let (stats, first) = (Mutex::new(WorkStats::default()), Mutex::new(Some(first)));
        let running = AtomicBool::new(true);
        let settings = self.engine.work();
        let first_error = thread::scope(|scoped| {
            let lease_thread =
                scoped.spawn(|| self.leases.renew_until_stopped(self.engine.store(), &running));
            let work = || self.work(scope, after, &stats, &first, [&running, stop]);
            let workers: Vec<_> =
                (0..settings.concurrency.max(1)).map(|_| scoped.spawn(work)).collect();
            let results: Vec<Result<()>> =
                workers.into_iter().map(|worker| worker.join().unwrap_or_else(panicked)).collect();
            running.store(false, Ordering::Release);
            self.engine.store().wake();
            drop(lease_thread.join());
            results.into_iter().find_map(Result::err)
        });
        match first_error {
            Some(error) => Err(error),
            None => Ok(*lock(&stats)),
        }
    }

    /// Runs jobs in the background until the handle is dropped.
    pub fn spawn(self) -> WorkerHandle {
        let stop = Arc::new(AtomicBool::new(false));
        let (leases, engine, stop_requested) =
            (Arc::clone(&self.leases), self.engine.clone(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut reindexing = ReindexQueue::new(&self);
            while !stop_requested.load(Ordering::Acquire) {
                let revision = self.engine.store().revision();
                // A store that has failed refuses every lease until it is reopened.
                if self.engine.failure().is_some() {
                    self.engine.store().wait(revision, IDLE_POLL_INTERVAL);
                    continue;
                }
                let stats = self.run_until(&stop_requested, &JobScope::default(), &|_, _| {});
                if stats.is_err() || stats.is_ok_and(|stats| stats == WorkStats::default()) {
                    reindexing.step(&self.engine);
                    self.engine.seal_indexes();
                    self.engine.store().wait(revision, IDLE_POLL_INTERVAL);
                }
            }
        });
        WorkerHandle { stop, leases, engine, thread: Some(thread) }
    }

    /// One thread's share of the work. The first batch is already leased.
    fn work(
        &self,
        scope: &JobScope,
        after: &(dyn Fn(&Job, &JobOutcome) + Sync),
        stats: &Mutex<WorkStats>,
        first: &Mutex<Option<Batch>>,
        [running, stop]: [&AtomicBool; 2],
    ) -> Result<()> {
        let remote = !self.engine.is_local();
        let goes_on = || running.load(Ordering::Acquire) && !stop.load(Ordering::Acquire);
        loop {
            let revision = self.engine.store().revision();
            let batch = match lock(first).take() {
                // A leased batch is run even if the worker was asked to stop since.
                Some(batch) => Some(batch),
                None if goes_on() => self.lease(scope)?,
                None => return Ok(()),
            };
            let Some(Batch { engine, jobs }) = batch else {
                // A running job may plan more jobs, so the work ends only when no thread holds a
                // lease.
                if self.leases.is_empty() {
                    return Ok(());
                }
                self.engine.store().wait(revision, Duration::from_millis(20));
                continue;
            };
            let mut pause_ms = if remote { self.engine.work().batch_delay_ms } else { 0 };
            let (embeddings, others): (Vec<Job>, Vec<Job>) =
                jobs.into_iter().partition(embed::is_embedding);
            let batches = std::iter::once(embeddings).filter(|jobs| !jobs.is_empty());
            for jobs in batches.chain(others.into_iter().map(|job| vec![job])) {
                let outcomes = self.run_paced(&engine, &jobs);
                self.leases.remove(&engine, &jobs);
                self.engine.store().wake();
                let (outcomes, pause) =
                    outcomes.inspect_err(|_| running.store(false, Ordering::Release))?;
                pause_ms = pause_ms.max(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
                for (job, outcome) in jobs.iter().zip(&outcomes) {
                    match outcome {
                        JobOutcome::Done => lock(stats).done += 1,
                        JobOutcome::Failed(ProviderError {
                            advice: RetryAdvice::Throttled(ms),
                            ..
                        }) => {
                            pause_ms = pause_ms.max(*ms);
                            continue;
                        }
                        JobOutcome::Failed(_) => lock(stats).failed += 1,
                        JobOutcome::Stale => {}
                    }
                    after(job, outcome);
                }
            }
            let until = Instant::now() + Duration::from_millis(pause_ms);
            while goes_on() && Instant::now() < until {
                thread::sleep(PAUSE_STEP.min(until.saturating_duration_since(Instant::now())));
            }
        }
    }

    /// Selects the jobs of a scope that are due now.
    fn due(&self, scope: &JobScope, limit: usize) -> JobFilter {
        let heights = match (scope.only, scope.max_height) {
            (Some(only), _) => Some((only, only)),
            (None, Some(max_height)) => Some((0, max_height)),
            (None, None) => None,
        };
        let due = Some(self.engine.clock().now());
        JobFilter { conversation: scope.conversation, heights, due, ..JobFilter::all(limit) }
    }

    /// Leases a batch of due jobs: many embedding jobs or a few others.
    fn lease(&self, scope: &JobScope) -> Result<Option<Batch>> {
        let others = if self.engine.is_local() { LOCAL_BATCH } else { 1 };
        let sizes = BatchSizes { turns: EMBED_BATCH, others };
        let filter = self.due(scope, sizes.largest());
        let lease = |engine: &Engine| -> Result<Option<Batch>> {
            let jobs =
                engine.store().lease(engine.tenant(), &filter, self.leases.worker(), sizes)?;
            self.leases.add(engine, &jobs);
            kill_points::check(KillPoint::Leased);
            Ok((!jobs.is_empty()).then(|| Batch { engine: engine.clone(), jobs }))
        };
        match self.tenants {
            Tenants::Own => lease(&self.engine),
            Tenants::All => self.lease_in_turn(lease),
        }
    }

    /// Leases a batch from the next tenant that has due jobs, in round-robin order.
    fn lease_in_turn(
        &self,
        lease: impl Fn(&Engine) -> Result<Option<Batch>>,
    ) -> Result<Option<Batch>> {
        let (store, now) = (self.engine.store(), self.engine.clock().now());
        let mut last = lock(&self.last);
        let started_at = last.clone();
        loop {
            let next = store.tenant_with_due_jobs(now, last.as_ref())?;
            // A round ends at the tenant where it started, or when no tenant has due jobs even from
            // the start of the order.
            let is_round = next.is_none() && last.is_none();
            last.clone_from(&next);
            if let Some(tenant) = &next
                && let Some(batch) = lease(&self.engine.for_tenant(tenant.clone()))?
            {
                return Ok(Some(batch));
            }
            if is_round || (next.is_some() && next == started_at) {
                return Ok(None);
            }
        }
    }
}

/// Tenants whose vectors may come from another model than the configured one. New tenants start
/// with the configured model.
struct ReindexQueue {
    waiting: VecDeque<TenantId>,
    /// The earliest time of the next attempt after a failure.
    not_before: Instant,
}

impl ReindexQueue {
    fn new(worker: &Worker) -> Self {
        let waiting = match worker.tenants {
            Tenants::Own => vec![worker.engine.tenant().clone()],
            Tenants::All => worker.engine.store().maintenance().tenants().unwrap_or_default(),
        };
        Self { waiting: waiting.into(), not_before: Instant::now() }
    }

    /// Reindexes one tenant if its search does not use the configured model yet. A failed attempt
    /// is retried later, and `status` reports it until then.
    fn step(&mut self, engine: &Engine) {
        if Instant::now() < self.not_before {
            return;
        }
        let Some(tenant) = self.waiting.pop_front() else { return };
        let of_tenant = engine.for_tenant(tenant.clone());
        let done = of_tenant.needs_reindex().and_then(|wants| match wants {
            true => of_tenant.reindex(&mut |_| ()).map(drop),
            false => Ok(()),
        });
        if done.is_err() {
            self.waiting.push_back(tenant);
            self.not_before =
                Instant::now() + Duration::from_millis(engine.work().retry.base_delay_ms);
        }
    }
}

/// A background worker. Dropping the handle stops it after its running jobs.
#[must_use]
pub struct WorkerHandle {
    stop: Arc<AtomicBool>,
    leases: Arc<Leases>,
    engine: Engine,
    thread: Option<JoinHandle<()>>,
}

impl WorkerHandle {
    /// Asks the worker to lease no more jobs, without waiting for it.
    pub fn request_stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.engine.store().wake();
    }

    /// Stops the worker and waits for its running jobs until `deadline`. Returns the number of
    /// jobs that still ran then. Their leases are released so that another worker can take them;
    /// their calls are not interrupted, and a late result does no harm.
    pub fn stop_with_deadline(mut self, deadline: Instant) -> Result<usize> {
        self.request_stop();
        let Some(thread) = self.thread.take() else { return Ok(0) };
        while !thread.is_finished() {
            if Instant::now() >= deadline {
                return self.leases.release_all();
            }
            thread::sleep(STOP_POLL_INTERVAL);
        }
        Ok(0)
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.request_stop();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Result<()> {
    let reason = "a worker thread panicked; its jobs run again when their leases expire";
    Err(Error::Invalid(treering_core::Invalid::new("worker", reason)))
}

//! The leases of a worker: renewed while its jobs run, released if it has to stop before they
//! end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use treering_core::ports::StoreResult;
use treering_core::{Job, LEASE_MS, Reader, Store, Timestamp, Write};

use crate::engine::Engine;
use crate::error::Result;

/// A leased job with its tenant's engine and the start of its lease.
struct LeasedJob {
    engine: Engine,
    job: Job,
    since: Instant,
}

/// The leases of one worker.
pub(crate) struct Leases {
    worker: String,
    leased: Mutex<Vec<LeasedJob>>,
}

impl Leases {
    pub(crate) fn new(worker: String) -> Self {
        Self { worker, leased: Mutex::default() }
    }

    /// The name of the worker.
    pub(crate) fn worker(&self) -> &str {
        &self.worker
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Starts renewing the leases of these jobs.
    pub(crate) fn add(&self, engine: &Engine, jobs: &[Job]) {
        let since = Instant::now();
        let leased =
            jobs.iter().map(|job| LeasedJob { engine: engine.clone(), job: job.clone(), since });
        self.lock().extend(leased);
    }

    /// Stops renewing the leases of finished jobs.
    pub(crate) fn remove(&self, engine: &Engine, jobs: &[Job]) {
        let is_one = |leased: &LeasedJob| {
            leased.engine.tenant() == engine.tenant()
                && jobs.iter().any(|job| job.id == leased.job.id)
        };
        self.lock().retain(|leased| !is_one(leased));
    }

    /// Renews the leases of long-running jobs until `running` is cleared.
    pub(crate) fn renew_until_stopped(&self, store: &dyn Store, running: &AtomicBool) {
        let third = Duration::from_millis(LEASE_MS / 3);
        while running.load(Ordering::Acquire) {
            store.wait(store.revision(), third);
            let mut old = Vec::new();
            for leased in self.lock().iter_mut().filter(|leased| leased.since.elapsed() >= third) {
                leased.since = Instant::now();
                old.push((leased.engine.clone(), leased.job.clone()));
            }
            // If the renewal fails, the lease expires and another worker takes the job.
            for (engine, job) in old {
                let (worker, other_engine) = (self.worker.clone(), engine.clone());
                let renewed = self.change(&engine, job, move |reader, job, now| {
                    job.lease(&worker, now);
                    if other_engine.is_circuit_open(reader, &job.kind)? {
                        job.mark_stalled("there is no response yet");
                    }
                    Ok(())
                });
                drop(renewed);
            }
        }
    }

    /// Releases every job without counting an attempt, and stops renewing their leases. Returns
    /// the number of jobs.
    pub(crate) fn release_all(&self) -> Result<usize> {
        let leased: Vec<_> = self.lock().drain(..).collect();
        let count = leased.len();
        for LeasedJob { engine, job, .. } in leased {
            self.change(&engine, job, |_, job, now| {
                job.release(now);
                Ok(())
            })?;
        }
        Ok(count)
    }

    /// Changes a job if this worker still holds its lease.
    fn change(
        &self,
        engine: &Engine,
        job: Job,
        change: impl Fn(&dyn Reader, &mut Job, Timestamp) -> StoreResult<()> + Send + 'static,
    ) -> Result<()> {
        let (worker, now) = (self.worker.clone(), engine.clock().now());
        engine.commit_with(engine.scope_of(job.conversation), move |reader| {
            let mut writes = Vec::new();
            if let Some(mut job) = reader.job(&job)?.filter(|job| job.is_leased_by(&worker)) {
                change(reader, &mut job, now)?;
                writes.push(Write::PutJob(job));
            }
            Ok((writes, ()))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LeasedJob>> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

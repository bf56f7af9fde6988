//! The leases that a worker holds: renewed while its jobs run, given back when it has to end before they do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use treering_core::job::LEASE_MS;
use treering_core::ports::StoreResult;
use treering_core::{Commit, Job, Reader, Timestamp, Write};

use crate::error::Result;
use crate::memory::Memory;

/// A job that is held, and since when its lease runs.
struct Held {
    job: Job,
    since: Instant,
}

/// What one worker holds.
pub(crate) struct Leases {
    memory: Memory,
    worker: String,
    held: Mutex<Vec<Held>>,
}

impl Leases {
    pub(crate) fn new(memory: Memory, worker: String) -> Self {
        Self { memory, worker, held: Mutex::default() }
    }

    /// Who holds them.
    pub(crate) fn worker(&self) -> &str {
        &self.worker
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Looks after the leases of jobs that were taken.
    pub(crate) fn add(&self, jobs: &[Job]) {
        let since = Instant::now();
        self.lock().extend(jobs.iter().map(|job| Held { job: job.clone(), since }));
    }

    /// Looks after those of jobs that have run no longer.
    pub(crate) fn remove(&self, jobs: &[Job]) {
        self.lock().retain(|held| jobs.iter().all(|job| job.id != held.job.id));
    }

    /// Renews the leases of jobs that take long, while there is work.
    pub(crate) fn keep(&self, running: &AtomicBool) {
        let third = Duration::from_millis(LEASE_MS / 3);
        while running.load(Ordering::Acquire) {
            let mark = self.memory.signal().mark();
            self.memory.signal().wait(mark, third);
            let renew = |held: &mut Held| {
                held.since = Instant::now();
                held.job.clone()
            };
            let is_old = |held: &&mut Held| held.since.elapsed() >= third;
            let old: Vec<_> = self.lock().iter_mut().filter(is_old).map(renew).collect();
            // A lease that cannot be renewed runs out, and another worker takes the job.
            let (memory, worker) = (self.memory.clone(), self.worker.clone());
            let renewed = self.change(old, move |reader, job, now| {
                job.lease(&worker, now);
                if memory.is_troubled(reader, &job.kind)? {
                    job.wait_in_vain("there is no answer yet");
                }
                Ok(())
            });
            drop(renewed);
        }
    }

    /// Gives every job back untried, and renews nothing of what is held now any more. How many jobs there were.
    pub(crate) fn give_back(&self) -> Result<usize> {
        let held: Vec<_> = self.lock().drain(..).map(|held| held.job).collect();
        let count = held.len();
        self.change(held, |_, job, now| {
            job.release(now);
            Ok(())
        })?;
        Ok(count)
    }

    /// Changes those of the jobs that this worker still has.
    fn change(
        &self,
        jobs: Vec<Job>,
        change: impl Fn(&dyn Reader, &mut Job, Timestamp) -> StoreResult<()> + Send + 'static,
    ) -> Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let (tenant, worker) = (self.memory.tenant().clone(), self.worker.clone());
        let now = self.memory.clock().now();
        self.memory.commit_with(move |reader| {
            let mut writes = Vec::new();
            for job in &jobs {
                if let Some(mut job) = reader.job(&tenant, job)?.filter(|job| job.is_held_by(&worker)) {
                    change(reader, &mut job, now)?;
                    writes.push(Write::PutJob(job));
                }
            }
            Ok((Commit { tenant: tenant.clone(), writes }, ()))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

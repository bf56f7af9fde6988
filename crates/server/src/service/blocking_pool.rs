//! The blocking pool: limits on concurrent blocking work, with fair scheduling between tenants.
//! Writes are serialized by the store anyway. Reads are CPU-bound, so one core stays free for
//! writers while only one tenant reads.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use treering_core::TenantId;
use treering_engine::Cancellation;

use super::ServiceError;

/// Maximum number of concurrent writers of a tenant. Concurrent writers share an fsync (group
/// commit).
const WRITERS: usize = 64;

/// The kind of a task. Tasks of one kind never wait for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// The task only reads.
    Read,
    /// The task commits.
    Write,
    /// The task is a health check.
    HealthCheck,
}

/// The task queues of a process.
#[derive(Clone)]
pub struct BlockingPool {
    reads: Arc<TaskQueue>,
    writes: Arc<TaskQueue>,
    health_checks: Arc<TaskQueue>,
}

impl BlockingPool {
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            reads: TaskQueue::new(2 * cores, cores.saturating_sub(1)),
            writes: TaskQueue::new(2 * WRITERS, WRITERS),
            health_checks: TaskQueue::new(1, 1),
        }
    }

    /// Runs work of a tenant on a blocking thread. If the caller stops waiting, drops work that
    /// has not begun, and cancels reads that have; writes that have begun run to completion.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        kind: TaskKind,
        work: impl FnOnce(Cancellation) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let queue = match kind {
            TaskKind::Read => &self.reads,
            TaskKind::Write => &self.writes,
            TaskKind::HealthCheck => &self.health_checks,
        };
        let cancellation = Cancellation::default();
        let _guard = (kind != TaskKind::Write).then(|| CancelOnDrop(cancellation.clone()));
        let (result, received) = oneshot::channel();
        let task = Box::new(move || {
            if !result.is_closed() {
                // The caller may have stopped waiting.
                drop(result.send(work(cancellation)));
            }
        });
        queue.add(tenant, task);
        let ended = || ServiceError::Internal("a task ended without a result".into());
        received.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// Cancels the work on a result when nobody waits for it any longer.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// Tasks that wait for a bounded number of threads. Tenants take turns, and no tenant has all
/// threads, so that a slow task of one does not keep the tasks of another waiting.
struct TaskQueue {
    max_threads: usize,
    max_threads_per_tenant: usize,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    /// The tenants with a task that may start, in round-robin order.
    turns: VecDeque<TenantId>,
    tenants: HashMap<TenantId, TenantTasks>,
    threads: usize,
}

/// The tasks of a tenant.
#[derive(Default)]
struct TenantTasks {
    waiting: VecDeque<Task>,
    running: usize,
    /// Whether the tenant is among the turns.
    has_turn: bool,
}

impl TaskQueue {
    fn new(max_threads: usize, max_threads_per_tenant: usize) -> Arc<Self> {
        Arc::new(Self {
            max_threads: max_threads.max(1),
            max_threads_per_tenant: max_threads_per_tenant.max(1),
            state: Mutex::default(),
        })
    }

    fn add(self: &Arc<Self>, tenant: &TenantId, task: Task) {
        let mut state = self.lock();
        let tasks = state.tenants.entry(tenant.clone()).or_default();
        tasks.waiting.push_back(task);
        let may_start = tasks.running + tasks.waiting.len() <= self.max_threads_per_tenant;
        state.give_turn(tenant, self.max_threads_per_tenant);
        if may_start && state.threads < self.max_threads {
            state.threads += 1;
            let queue = Arc::clone(self);
            tokio::task::spawn_blocking(move || queue.run_tasks());
        }
    }

    /// Runs tasks until none may start. A thread that finishes a task takes the next one without
    /// waking another thread.
    fn run_tasks(&self) {
        let mut finished = None;
        while let Some((tenant, task)) = self.next(finished.take()) {
            // A panic drops the sender, so the caller receives an error, and the thread
            // continues.
            drop(catch_unwind(AssertUnwindSafe(task)));
            finished = Some(tenant);
        }
    }

    /// Takes the next task, after one of the tenant `finished`. Without one, the thread ends and
    /// is no longer counted.
    fn next(&self, finished: Option<TenantId>) -> Option<(TenantId, Task)> {
        let mut state = self.lock();
        if let Some(tenant) = finished {
            state.finish(&tenant, self.max_threads_per_tenant);
        }
        let next = state.take(self.max_threads_per_tenant);
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Enqueues the tenant, if it has a task that may start.
    fn give_turn(&mut self, tenant: &TenantId, max_running: usize) {
        let Some(tasks) = self.tenants.get_mut(tenant) else { return };
        if !tasks.has_turn && !tasks.waiting.is_empty() && tasks.running < max_running {
            tasks.has_turn = true;
            self.turns.push_back(tenant.clone());
        }
    }

    /// Takes a task of the tenant whose turn it is.
    fn take(&mut self, max_running: usize) -> Option<(TenantId, Task)> {
        let tenant = self.turns.pop_front()?;
        let tasks = self.tenants.get_mut(&tenant)?;
        tasks.has_turn = false;
        let task = tasks.waiting.pop_front()?;
        tasks.running += 1;
        self.give_turn(&tenant, max_running);
        Some((tenant, task))
    }

    /// Counts a task of a tenant as finished.
    fn finish(&mut self, tenant: &TenantId, max_running: usize) {
        let Some(tasks) = self.tenants.get_mut(tenant) else { return };
        tasks.running -= 1;
        if tasks.running == 0 && tasks.waiting.is_empty() {
            self.tenants.remove(tenant);
        }
        self.give_turn(tenant, max_running);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn pool(readers: usize) -> BlockingPool {
        BlockingPool {
            reads: TaskQueue::new(readers, 1),
            writes: TaskQueue::new(2, 2),
            health_checks: TaskQueue::new(1, 1),
        }
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    /// Starts a read of tenant `a` that lasts until the returned sender is used or dropped.
    async fn keep_busy(pool: &BlockingPool) -> mpsc::Sender<()> {
        let (resume, wait) = mpsc::channel::<()>();
        let (started, has_started) = oneshot::channel();
        let pool = pool.clone();
        tokio::spawn(async move {
            let work = move |_| {
                started.send(()).unwrap();
                let _ = wait.recv();
                Ok(())
            };
            pool.run(&tenant("a"), TaskKind::Read, work).await.unwrap();
        });
        has_started.await.unwrap();
        resume
    }

    /// Starts reads that report their names when they run.
    fn reads(pool: &BlockingPool, names: &[&'static str]) -> mpsc::Receiver<&'static str> {
        let (report, reported) = mpsc::channel();
        for name in names {
            let (report, name, pool) = (report.clone(), *name, pool.clone());
            let tenant = tenant(&name[..1]);
            let task = Box::new(move || report.send(name).unwrap());
            pool.reads.add(&tenant, task);
        }
        reported
    }

    #[tokio::test]
    async fn tenants_take_turns() {
        let pool = pool(1);
        let resume = keep_busy(&pool).await;
        let order = reads(&pool, &["a1", "a2", "a3", "b1", "b2", "c1"]);
        assert_eq!(pool.run(&tenant("a"), TaskKind::Write, |_| Ok(7)).await.unwrap(), 7);
        assert_eq!(pool.run(&tenant("a"), TaskKind::HealthCheck, |_| Ok(8)).await.unwrap(), 8);
        drop(resume);
        assert_eq!(order.into_iter().collect::<Vec<_>>(), ["b1", "c1", "a1", "b2", "a2", "a3"]);
    }

    #[tokio::test]
    async fn a_slow_task_delays_its_own_tenant_only() {
        let pool = pool(2);
        let resume = keep_busy(&pool).await;
        let order = reads(&pool, &["a1", "b1", "b2"]);
        assert_eq!([order.recv().unwrap(), order.recv().unwrap()], ["b1", "b2"]);
        drop(resume);
        assert_eq!(order.recv().unwrap(), "a1");
    }

    #[tokio::test]
    async fn a_tenant_uses_all_threads_that_it_may() {
        let queue = TaskQueue::new(4, 2);
        let (meet, barrier) = (mpsc::channel(), Arc::new(std::sync::Barrier::new(2)));
        for _ in 0..4 {
            let (sender, barrier) = (meet.0.clone(), Arc::clone(&barrier));
            let task = Box::new(move || {
                barrier.wait();
                sender.send(()).unwrap();
            });
            queue.add(&tenant("a"), task);
        }
        drop(meet.0);
        assert_eq!(meet.1.into_iter().count(), 4, "two at a time");
        while queue.lock().threads > 0 {
            tokio::task::yield_now().await;
        }
        assert!(queue.lock().tenants.is_empty() && queue.lock().turns.is_empty());
    }

    #[tokio::test]
    async fn work_of_a_canceled_caller_is_not_started() {
        let pool = pool(1);
        let resume = keep_busy(&pool).await;
        let (sender, received) = mpsc::channel();
        {
            let tenant = tenant("a");
            let canceled = pool.run(&tenant, TaskKind::Read, move |_| {
                sender.send(()).unwrap();
                Ok(())
            });
            tokio::select! {
                biased;
                _ = canceled => panic!("the reader is busy"),
                () = std::future::ready(()) => {}
            }
        }
        resume.send(()).unwrap();
        pool.run(&tenant("a"), TaskKind::Read, |_| Ok(())).await.unwrap();
        assert_eq!(received.recv(), Err(mpsc::RecvError), "it was dropped");
    }

    #[tokio::test]
    async fn a_read_that_has_begun_is_canceled_with_its_caller_and_a_write_is_not() {
        let pool = pool(1);
        for (kind, is_canceled) in [(TaskKind::Read, true), (TaskKind::Write, false)] {
            let (started, has_started) = oneshot::channel();
            let (resume, wait) = mpsc::channel::<()>();
            let (report, reported) = oneshot::channel();
            let of_caller = pool.clone();
            let caller = tokio::spawn(async move {
                let work = move |cancellation: Cancellation| {
                    started.send(()).unwrap();
                    let _ = wait.recv();
                    report.send(cancellation.is_canceled()).unwrap();
                    Ok(())
                };
                of_caller.run(&tenant("a"), kind, work).await
            });
            has_started.await.unwrap();
            caller.abort();
            assert!(caller.await.unwrap_err().is_cancelled());
            drop(resume);
            assert_eq!(reported.await.unwrap(), is_canceled, "{kind:?}");
        }
    }

    #[tokio::test]
    async fn a_panic_is_reported_and_blocks_nothing() {
        let pool = pool(1);
        let broken = pool.run::<()>(&tenant("a"), TaskKind::Read, |_| panic!("on purpose")).await;
        assert!(matches!(broken, Err(ServiceError::Internal(_))));
        assert_eq!(pool.run(&tenant("a"), TaskKind::Read, |_| Ok(7)).await.unwrap(), 7);
    }
}

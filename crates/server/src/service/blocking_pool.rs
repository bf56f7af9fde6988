//! The blocking pool: limits on concurrent blocking work. Writes are serialized by the store
//! anyway. Reads are CPU-bound, so one core stays free for writers.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::ServiceError;

/// Maximum number of concurrent writers. Concurrent writers share an fsync (group commit).
const WRITERS: usize = 64;

/// The kind of a task. Tasks of one kind never wait for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// The task only reads.
    Read,
    /// The task commits.
    Write,
}

/// The task queues of a process.
#[derive(Clone)]
pub struct BlockingPool {
    reads: Arc<TaskQueue>,
    writes: Arc<TaskQueue>,
}

impl BlockingPool {
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { reads: TaskQueue::new(cores.saturating_sub(1)), writes: TaskQueue::new(WRITERS) }
    }

    /// Runs work on a blocking thread. Drops work whose caller stopped waiting before it began;
    /// work that has begun runs to completion.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: TaskKind,
        work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let lane = match lane {
            TaskKind::Read => &self.reads,
            TaskKind::Write => &self.writes,
        };
        let (tell, done) = oneshot::channel();
        lane.add(Box::new(move || {
            if !tell.is_closed() {
                // The caller may have stopped waiting.
                drop(tell.send(work()));
            }
        }));
        done.await
            .unwrap_or_else(|_| Err(ServiceError::Internal("a task ended without a result".into())))
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// Tasks that wait for a bounded number of threads. A thread that finishes a task takes the next
/// one without waking another thread.
struct TaskQueue {
    max_threads: usize,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Work>,
    threads: usize,
}

impl TaskQueue {
    fn new(max_threads: usize) -> Arc<Self> {
        Arc::new(Self { max_threads: max_threads.max(1), state: Mutex::default() })
    }

    fn add(self: &Arc<Self>, work: Work) {
        let mut state = self.lock();
        state.waiting.push_back(work);
        if state.threads < self.max_threads {
            state.threads += 1;
            let queue = Arc::clone(self);
            tokio::task::spawn_blocking(move || queue.run_tasks());
        }
    }

    fn run_tasks(&self) {
        while let Some(work) = self.next() {
            // A panic drops the sender, so the caller receives an error, and the thread
            // continues.
            drop(catch_unwind(AssertUnwindSafe(work)));
        }
    }

    /// Takes the next task. Without one, the thread ends and is no longer counted.
    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn one_reader() -> BlockingPool {
        BlockingPool { reads: TaskQueue::new(1), writes: TaskQueue::new(2) }
    }

    /// Blocks the only reader thread until the returned sender is used.
    async fn keep_busy(pool: &BlockingPool) -> mpsc::Sender<()> {
        let (resume, wait) = mpsc::channel::<()>();
        let (started, has_started) = oneshot::channel();
        let pool = pool.clone();
        tokio::spawn(async move {
            let work = move || {
                started.send(()).unwrap();
                wait.recv().unwrap();
                Ok(())
            };
            pool.run(TaskKind::Read, work).await.unwrap();
        });
        has_started.await.unwrap();
        resume
    }

    #[tokio::test]
    async fn reads_run_in_order_and_writes_do_not_wait_for_them() {
        let pool = one_reader();
        let resume = keep_busy(&pool).await;
        assert_eq!(pool.run(TaskKind::Write, || Ok(7)).await.unwrap(), 7);
        let (sender, received) = mpsc::channel();
        let reads = [0, 1, 2].map(|number| {
            let sender = sender.clone();
            pool.run(TaskKind::Read, move || {
                sender.send(number).unwrap();
                Ok(())
            })
        });
        let [first, second, third] = reads;
        let all = async { tokio::join!(first, second, third) };
        let unblock = async { resume.send(()).unwrap() };
        let ((one, two, three), ()) = tokio::join!(all, unblock);
        assert!(one.is_ok() && two.is_ok() && three.is_ok());
        assert_eq!(received.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[tokio::test]
    async fn work_of_a_canceled_caller_is_not_started() {
        let pool = one_reader();
        let resume = keep_busy(&pool).await;
        let (sender, received) = mpsc::channel();
        {
            let canceled = pool.run(TaskKind::Read, move || {
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
        pool.run(TaskKind::Read, || Ok(())).await.unwrap();
        assert_eq!(received.recv(), Err(mpsc::RecvError), "it was dropped");
    }

    #[tokio::test]
    async fn a_panic_is_reported_and_blocks_nothing() {
        let pool = one_reader();
        let broken = pool.run::<()>(TaskKind::Read, || panic!("on purpose")).await;
        assert!(matches!(broken, Err(ServiceError::Internal(_))));
        assert_eq!(pool.run(TaskKind::Read, || Ok(7)).await.unwrap(), 7);
    }
}

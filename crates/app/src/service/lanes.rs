//! Lanes: how much blocking work is done at once. Writes go one after another through the store's one
//! write door anyway, and reading is work for the processor: one core is left for those who write.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::Refusal;

/// How many writers stand at the door of the store at once: those that stand there together share a sync.
const WRITERS: usize = 64;

/// Which way a piece of work goes. Neither kind waits for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// It only reads.
    Read,
    /// It commits something.
    Write,
}

/// The lanes of a process.
#[derive(Debug, Clone)]
pub struct Lanes {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

impl Lanes {
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let readers = cores.saturating_sub(1).max(1);
        Self { reads: Arc::new(Semaphore::new(readers)), writes: Arc::new(Semaphore::new(WRITERS)) }
    }

    /// Does blocking work on a thread that may block. Work that nobody waits for any more is not begun;
    /// what was begun is finished.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let lane = match lane {
            Lane::Read => &self.reads,
            Lane::Write => &self.writes,
        };
        let permit = Arc::clone(lane).acquire_owned().await.map_err(|_| Refusal::Stopping)?;
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.unwrap_or_else(|error| Err(Refusal::Broken(error.to_string())))
    }
}

//! The writing thread, which owns the only writing connection and does group commit. Commits
//! that wait together share one transaction and its fsync. Each runs in a savepoint, so that
//! one that fails does not affect the others.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, TransactionBehavior};
use treering_core::ports::{CommitPlan, StoreResult};
use treering_core::{CommitScope, Invalid, StoreError};

use super::checkpointer::Checkpointer;
use super::error::{explain, is_io_failure, no_thread};
use super::health::StoreHealth;
use super::read::TenantView;
use super::watch::Watch;
use super::write;
use crate::planning::plan_writes;

/// Maximum number of commits that share one fsync, so that no caller waits for an endless
/// group.
const MAX_GROUP: usize = 256;

/// A handle to the writing thread. Dropping it finishes the waiting commits and closes the
/// connection.
pub(super) struct Writer {
    requests: Option<Sender<CommitRequest>>,
    thread: Option<JoinHandle<()>>,
}

/// A waiting commit.
struct CommitRequest {
    scope: CommitScope,
    plan: CommitPlan,
    reply: SyncSender<StoreResult<()>>,
}

impl Writer {
    pub(super) fn start(
        path: &Path,
        mut connection: Connection,
        checkpointer: Checkpointer,
        health: Arc<StoreHealth>,
        watch: Arc<Watch>,
    ) -> StoreResult<Self> {
        let wal_pages = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&wal_pages);
        // The hook also replaces SQLite's automatic checkpoints, which would run inside
        // commits.
        let hook = move |_: &mut Wal, pages: i32| {
            seen.store(usize::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(|error| explain(path, &error))?;
        let (requests, received) = channel();
        let group =
            GroupCommit { path: path.into(), connection, checkpointer, wal_pages, health, watch };
        let thread = thread::Builder::new()
            .name("treering-writer".into())
            .spawn(move || group.run(&received))
            .map_err(|error| no_thread(&error))?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Runs a plan and commits its writes. The commit is durable when this returns.
    pub(super) fn commit(&self, scope: CommitScope, plan: CommitPlan) -> StoreResult<()> {
        let (reply, answer) = sync_channel(1);
        let request = CommitRequest { scope, plan, reply };
        let sent = self.requests.as_ref().is_some_and(|requests| requests.send(request).is_ok());
        match answer.recv() {
            Ok(answer) if sent => answer,
            _ => Err(Invalid::new("commit", "the store was closed").into()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// The state of the writing thread.
struct GroupCommit {
    path: PathBuf,
    /// Declared before `connection`, so that it closes first: the writing connection closes
    /// last and removes the WAL.
    checkpointer: Checkpointer,
    connection: Connection,
    wal_pages: Arc<AtomicUsize>,
    health: Arc<StoreHealth>,
    watch: Arc<Watch>,
}

impl GroupCommit {
    fn run(mut self, requests: &Receiver<CommitRequest>) {
        while let Ok(first) = requests.recv() {
            let mut answered = Vec::new();
            let waiting =
                std::iter::once(first).chain(std::iter::from_fn(|| requests.try_recv().ok()));
            let committed = match self.health.failure() {
                Some(failure) => {
                    answered.extend(waiting.map(|request| (request.reply, Ok(()))));
                    Err(failure)
                }
                None => self.commit(waiting.take(MAX_GROUP), &mut answered),
            };
            for (reply, outcome) in answered {
                // The caller may have stopped waiting.
                let _ = reply.send(committed.clone().and(outcome));
            }
            if self.health.failure().is_none() {
                self.checkpointer.checkpoint(self.wal_pages.load(Ordering::Relaxed));
            }
        }
    }

    /// Commits a group. Returns an error that affects the whole group; `answered` holds the
    /// outcome of each commit.
    fn commit(
        &mut self,
        group: impl Iterator<Item = CommitRequest>,
        answered: &mut Vec<(SyncSender<StoreResult<()>>, StoreResult<()>)>,
    ) -> StoreResult<()> {
        let mut failed = None;
        let committed = (|| {
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let before = transaction.total_changes();
            for mut request in group {
                let outcome = apply(&self.path, &transaction, &mut request);
                let (outcome, error) = match outcome {
                    Ok(()) => (Ok(()), None),
                    Err(CommitFailure::Plan(refused)) => (Err(refused), None),
                    Err(CommitFailure::Sqlite(error)) => {
                        (Err(explain(&self.path, &error)), Some(error))
                    }
                };
                answered.push((request.reply, outcome));
                // SQLite has rolled back the whole transaction, or nothing more may be written.
                if let Some(error) =
                    error.filter(|e| transaction.is_autocommit() || is_io_failure(e))
                {
                    return Err(error);
                }
            }
            let changed = transaction.total_changes() != before;
            transaction.commit()?;
            Ok(changed)
        })();
        match committed {
            Ok(true) => self.watch.notify(),
            Ok(false) => {}
            Err(error) if is_io_failure(&error) => {
                failed = Some(self.health.fail(&self.path, &error, &self.connection));
            }
            Err(error) => failed = Some(explain(&self.path, &error)),
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Why one commit of a group failed.
enum CommitFailure {
    /// Its plan returned an error.
    Plan(StoreError),
    /// Its writes failed.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for CommitFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Plans and writes one commit inside the open transaction. Rolls it back on an error.
fn apply(
    path: &Path,
    connection: &Connection,
    request: &mut CommitRequest,
) -> Result<(), CommitFailure> {
    let execute = |sql: &str| connection.prepare_cached(sql)?.execute([]).map(drop);
    execute("SAVEPOINT plan")?;
    let applied = plan_and_write(path, connection, request);
    if applied.is_err() && !connection.is_autocommit() {
        execute("ROLLBACK TO plan")?;
    }
    if !connection.is_autocommit() {
        execute("RELEASE plan")?;
    }
    applied
}

fn plan_and_write(
    path: &Path,
    connection: &Connection,
    request: &mut CommitRequest,
) -> Result<(), CommitFailure> {
    let CommitRequest { scope, plan, .. } = request;
    let view = TenantView::new(connection, path, scope.tenant()).map_err(CommitFailure::Plan)?;
    let writes = plan_writes(plan, &view, scope).map_err(CommitFailure::Plan)?;
    Ok(write::apply(connection, scope.tenant(), &writes)?)
}

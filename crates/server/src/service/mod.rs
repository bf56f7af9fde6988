//! The service that HTTP, MCP and the command line share: its operations, and the async layer over
//! the synchronous ports (ADR 11). Knows nothing of HTTP or MCP.

mod amend;
mod authorization;
mod blocking_pool;
mod context;
mod error;
mod forget;
mod handlers;
mod notes;
mod recall;
pub mod requests;
mod retention;
mod summaries;

use std::sync::{Arc, Once};
use std::time::Duration;

use treering_core::{Conversation, ConversationId, GateStatus, TenantId};
use treering_engine::{Cancellation, Engine};

pub use authorization::{Grant, TokenScope, TokenScopes};
pub use blocking_pool::{BlockingPool, TaskKind};
pub use context::ContextSubject;
pub use error::ServiceError;
pub use handlers::{
    ConversationList, ExpandedItem, Expansion, JobList, LogList, NodeList, SearchAnswer,
};
pub use notes::Remembered;
pub use retention::{RetentionTask, RetentionTenants};
use treering::config::{EffectiveSetting, Settings};

/// The poll interval while a request waits for the gate.
const GATE_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The poll interval while a request waits for an update.
const JOB_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The memory of one tenant, callable from async code. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    engine: Engine,
    settings: Arc<Settings>,
    /// The origins of the settings.
    effective: Arc<[EffectiveSetting]>,
    pool: BlockingPool,
    /// Whether the caller may see facts about the whole store and the process.
    is_operator: bool,
    /// Ensures that a refused write is logged only once.
    stopped: Arc<Once>,
}

impl Service {
    /// Creates the service over an engine.
    #[must_use]
    pub fn new(engine: Engine, settings: Arc<Settings>) -> Self {
        let (pool, stopped) = (BlockingPool::new(), Arc::new(Once::new()));
        Self { engine, settings, effective: Arc::default(), pool, is_operator: true, stopped }
    }

    /// The service, with the origins of its settings.
    #[must_use]
    pub fn with_origins(self, effective: Vec<EffectiveSetting>) -> Self {
        Self { effective: effective.into(), ..self }
    }

    /// The service of a tenant of the same store. Its caller is not the operator of the store.
    #[must_use]
    pub fn of_tenant(&self, tenant: TenantId) -> Self {
        Self { engine: self.engine.for_tenant(tenant), is_operator: false, ..self.clone() }
    }

    /// Whether the caller may see facts about the whole store and the process.
    #[must_use]
    pub const fn is_operator(&self) -> bool {
        self.is_operator
    }

    /// The engine of the tenant.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The active settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Runs blocking work on the blocking pool. Dropping the future cancels work that only reads.
    pub async fn run<T: Send + 'static>(
        &self,
        kind: TaskKind,
        work: impl FnOnce(&Self) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let service = self.clone();
        let work = move |cancellation: Cancellation| {
            let engine = service.engine.with_cancellation(cancellation);
            let service = Self { engine, ..service };
            let done = work(&service);
            service.log_failure();
            done
        };
        self.pool.run(self.engine.tenant(), kind, work).await
    }

    /// Logs, once, that the store refuses writes.
    fn log_failure(&self) {
        if let Some(failure) = self.engine.failure() {
            let hint = failure.hint().unwrap_or_default();
            self.stopped
                .call_once(|| tracing::error!(error = %failure, hint, "the store refuses writes"));
        }
    }

    /// Waits until the gate of a conversation is clear, at most `timeout`. Calls `report` with the
    /// number of pending operations whenever it changes. Dropping the future stops the wait; the
    /// jobs continue.
    pub async fn wait_for_gate<Reported: Future<Output = ()> + Send>(
        &self,
        id: ConversationId,
        timeout: Duration,
        mut report: impl FnMut(usize) -> Reported + Send,
    ) -> Result<GateStatus, ServiceError> {
        let started = tokio::time::Instant::now();
        let mut left = None;
        loop {
            let status =
                self.run(TaskKind::Read, move |service| Ok(service.engine.gate(id)?)).await?;
            // No worker of this process can clear the gate while the store refuses writes.
            if status.is_clear() || started.elapsed() >= timeout || self.engine.failure().is_some()
            {
                if left.is_some() {
                    self.log_end_of_wait(id, &status, started.elapsed());
                }
                return Ok(status);
            }
            if left.is_none() {
                let pending = status.describe(self.engine.clock().now());
                tracing::info!(conversation = %id, pending, "waiting for critical operations");
            }
            if left.replace(status.pending.len()) != Some(status.pending.len()) {
                report(status.pending.len()).await;
            }
            tokio::time::sleep(GATE_POLL_INTERVAL).await;
        }
    }

    fn log_end_of_wait(&self, id: ConversationId, status: &GateStatus, waited: Duration) {
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        if status.is_clear() {
            tracing::info!(conversation = %id, waited_ms, "critical operations complete");
        } else {
            let pending = status.describe(self.engine.clock().now());
            tracing::warn!(conversation = %id, waited_ms, pending, "timeout: still pending");
        }
    }

    /// Waits until a conversation has no unfinished jobs up to a level, at most `timeout`. Calls
    /// `report` with the number of unfinished jobs after each poll.
    pub async fn wait_for_jobs<Reported: Future<Output = ()> + Send>(
        &self,
        conversation: &Conversation,
        max_level: Option<u8>,
        timeout: Duration,
        mut report: impl FnMut(u32) -> Reported + Send,
    ) -> Result<(), ServiceError> {
        let started = tokio::time::Instant::now();
        loop {
            let polled = conversation.clone();
            let counts =
                self.run(TaskKind::Read, move |service| service.job_counts(&polled, max_level));
            let (left, _) = counts.await?;
            if left == 0 || started.elapsed() >= timeout {
                return Ok(());
            }
            report(left).await;
            tokio::time::sleep(JOB_POLL_INTERVAL).await;
        }
    }

    /// Plans an update and waits for level 1, or for every level if the request asks for it, at
    /// most `timeout`. Workers run the jobs. Calls `report` with the number of unfinished jobs
    /// after each poll.
    pub async fn update_and_wait<Reported: Future<Output = ()> + Send>(
        &self,
        request: requests::UpdateRequest,
        timeout: Duration,
        report: impl FnMut(u32) -> Reported + Send,
    ) -> Result<crate::views::UpdateView, ServiceError> {
        let (wait, dry_run) = (request.wait, request.dry_run);
        let planned = self.run(TaskKind::Write, move |service| {
            let found = service.named_or_latest(request.conversation.as_deref())?;
            let view = service.update(&found, &request)?;
            Ok((found, view))
        });
        let (found, mut view) = planned.await?;
        if !dry_run {
            let max_level = (!wait).then_some(1);
            self.wait_for_jobs(&found, max_level, timeout, report).await?;
        }
        let counts = self.run(TaskKind::Read, move |service| service.job_counts(&found, None));
        (view.left, view.failed) = counts.await?;
        Ok(view)
    }
}

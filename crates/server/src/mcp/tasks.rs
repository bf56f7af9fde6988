//! Long calls as tasks (SEP-2663): a client that supports them gets a handle at once and polls for
//! the result. A task belongs to the tenant that started it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, DetailedTask, InputResponses, Task};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use treering_core::TenantId;

/// How long a task may run, and how long its result is kept. Longer than any call waits.
const TASK_TTL: Duration = Duration::from_secs(1200);
/// How often a client should poll.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of running tasks. Further calls are answered without one.
const MAX_RUNNING: usize = 64;

/// The tasks of a server. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Tasks {
    manager: TaskManager,
    /// The tenants of the tasks, by id.
    owners: Arc<Mutex<HashMap<String, TenantId>>>,
}

impl Tasks {
    /// Runs a call as a task; `None` if too many are running.
    pub(super) fn start<Call>(
        &self,
        owner: &TenantId,
        call: impl FnOnce(TaskContext) -> Call,
    ) -> Option<Task>
    where
        Call: Future<Output = Result<CallToolResult, ErrorData>> + Send + 'static,
    {
        if self.manager.running_task_count() >= MAX_RUNNING {
            return None;
        }
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let options = TaskOptions::new()
            .with_ttl_ms(millis(TASK_TTL))
            .with_poll_interval_ms(millis(POLL_INTERVAL));
        let mut owners = self.owners();
        owners.retain(|id, _| self.manager.get_task(id).is_ok());
        let task = self.manager.spawn(options, |context| {
            let called = call(context.clone());
            Box::pin(async move {
                tokio::select! {
                    result = called => result.map_err(TaskExit::Error),
                    () = context.cancelled() => Err(TaskExit::Cancelled),
                }
            })
        });
        owners.insert(task.task_id.clone(), owner.clone());
        Some(task)
    }

    /// The state of a task.
    pub(super) fn get(&self, caller: &TenantId, id: &str) -> Result<DetailedTask, ErrorData> {
        self.check_owner(caller, id)?;
        self.manager.get_task(id)
    }

    /// Accepts input for a task. No task asks for any.
    pub(super) fn update(
        &self,
        caller: &TenantId,
        id: &str,
        input: InputResponses,
    ) -> Result<(), ErrorData> {
        self.check_owner(caller, id)?;
        self.manager.update_task(id, input)
    }

    /// Stops waiting. Jobs that the call has planned still run.
    pub(super) fn cancel(&self, caller: &TenantId, id: &str) -> Result<(), ErrorData> {
        self.check_owner(caller, id)?;
        self.manager.cancel_task(id)
    }

    fn check_owner(&self, caller: &TenantId, id: &str) -> Result<(), ErrorData> {
        match self.owners().get(id) == Some(caller) {
            true => Ok(()),
            false => Err(ErrorData::invalid_params(
                format!("unknown task {id:?}; it may have expired, call the tool again"),
                None,
            )),
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, TenantId>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

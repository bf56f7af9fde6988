//! The progress of a call: notifications, if the client provided a progress token, or the status
//! message of a task.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use rmcp::task_manager::TaskContext;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sends the progress of one call.
pub(super) struct Progress {
    to: Recipient,
    /// The last reported progress plus one; 0 before the first report.
    reported: AtomicU64,
}

enum Recipient {
    Nobody,
    Client(Peer<RoleServer>, ProgressToken),
    Task(TaskContext),
}

impl Progress {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let to = match context.meta.get_progress_token() {
            Some(token) => Recipient::Client(context.peer.clone(), token),
            None => Recipient::Nobody,
        };
        Self { to, reported: AtomicU64::new(0) }
    }

    pub(super) const fn of_task(task: TaskContext) -> Self {
        Self { to: Recipient::Task(task), reported: AtomicU64::new(0) }
    }

    /// Reports progress unless it has not increased: MCP requires progress to increase with every
    /// notification.
    pub(super) async fn report(&self, done: usize, of: Option<usize>, message: String) {
        let (peer, token) = match &self.to {
            Recipient::Nobody => return,
            Recipient::Task(task) => return task.set_status_message(message),
            Recipient::Client(peer, token) => (peer, token),
        };
        if self.reported.fetch_max(done as u64 + 1, Ordering::AcqRel) > done as u64 {
            return;
        }
        let mut note =
            ProgressNotificationParam::new(token.clone(), done as f64).with_message(message);
        if let Some(of) = of {
            note = note.with_total(of as f64);
        }
        // Ignore a client that has disconnected.
        drop(peer.notify_progress(note).await);
    }
}

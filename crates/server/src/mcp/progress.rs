//! Progress notifications, sent only if the client provided a progress token.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use std::sync::atomic::{AtomicU64, Ordering};

/// Sends the progress of one request.
pub(super) struct Progress {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    /// The last reported progress plus one; 0 before the first report.
    reported: AtomicU64,
}

impl Progress {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let to = context.meta.get_progress_token().map(|token| (context.peer.clone(), token));
        Self { to, reported: AtomicU64::new(0) }
    }

    /// Reports progress unless it has not increased: MCP requires progress to increase with every
    /// notification.
    pub(super) async fn report(&self, done: usize, of: Option<usize>, message: String) {
        let Some((peer, token)) = &self.to else { return };
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

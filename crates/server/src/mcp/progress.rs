//! Progress: tells a client how far its request is, if it asked to be told.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where progress is told.
pub(super) struct Progress {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    /// One more than was told last; nothing was told yet where it is 0.
    told: AtomicU64,
}

impl Progress {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let to = context.meta.get_progress_token().map(|token| (context.peer.clone(), token));
        Self { to, told: AtomicU64::new(0) }
    }

    /// Tells that so much of so much is done, if that is more than was told before: progress goes up with every
    /// notification.
    pub(super) async fn tell(&self, done: usize, of: Option<usize>, message: String) {
        let Some((peer, token)) = &self.to else { return };
        if self.told.fetch_max(done as u64 + 1, Ordering::AcqRel) > done as u64 {
            return;
        }
        let mut note =
            ProgressNotificationParam::new(token.clone(), done as f64).with_message(message);
        if let Some(of) = of {
            note = note.with_total(of as f64);
        }
        // A client that is gone needs no progress.
        drop(peer.notify_progress(note).await);
    }
}

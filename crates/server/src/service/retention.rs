//! Applies the retention rules in the background.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::{Service, ServiceError};

/// The time between two applications of the rules.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The tenants that the rules are applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionTenants {
    /// The tenant of the service.
    Own,
    /// Every tenant of the store.
    All,
}

/// Applies the retention rules until it is dropped.
#[must_use]
pub struct RetentionTask {
    _stop: mpsc::Sender<()>,
}

impl Service {
    /// Applies the retention rules now and then every hour. Does nothing if there are none.
    pub fn spawn_retention(&self, tenants: RetentionTenants) -> Option<RetentionTask> {
        if self.settings().retention.rules.is_empty() {
            return None;
        }
        let (stop, stopped) = mpsc::channel();
        let service = self.clone();
        // The thread is detached; an interrupted forget is completed later.
        std::thread::spawn(move || {
            loop {
                if let Err(error) = service.retain_for(tenants) {
                    tracing::warn!(%error, "cannot apply the retention rules");
                }
                match stopped.recv_timeout(INTERVAL) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Some(RetentionTask { _stop: stop })
    }

    fn retain_for(&self, tenants: RetentionTenants) -> Result<(), ServiceError> {
        let tenants = match tenants {
            RetentionTenants::Own => vec![self.engine().tenant().clone()],
            RetentionTenants::All => self.engine().tenants()?,
        };
        for tenant in tenants {
            if let Some(forgotten) = self.of_tenant(tenant).retain(false)? {
                let (conversations, record) = (forgotten.conversations.len(), forgotten.record);
                tracing::info!(conversations, record, "forgot what the retention rules say");
            }
        }
        Ok(())
    }
}

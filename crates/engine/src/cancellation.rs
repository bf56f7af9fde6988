//! Cooperative cancellation: a caller that no longer waits for a result can end the work on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Asks an operation to end early. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Asks every operation with this cancellation to end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::cancel`] was called.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Engine {
    /// The engine for one operation that can be canceled. Searches and contexts check between
    /// their steps and then fail with [`Error::Canceled`]. Commits are not affected, and neither
    /// is the work on the search index, which later searches share.
    #[must_use]
    pub fn with_cancellation(&self, cancellation: Cancellation) -> Self {
        let mut engine = self.clone();
        engine.cancellation = cancellation;
        engine
    }

    pub(crate) fn check_canceled(&self) -> Result<()> {
        match self.cancellation.is_canceled() {
            true => Err(Error::Canceled),
            false => Ok(()),
        }
    }
}

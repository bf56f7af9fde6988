//! Why the service did not do what it was asked. Each wire says it in its own words.

use treering_core::Invalid;
use treering_engine::Error;

/// Why something was not done. Nothing is half-done.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The engine could not do it.
    #[error(transparent)]
    Engine(#[from] Error),
    /// What was asked does not make sense.
    #[error("{0}")]
    InvalidRequest(String),
    /// There is nothing to do it with yet.
    #[error("{0}")]
    NotFound(String),
    /// The credential does not go that far.
    #[error("this token may not {0}")]
    Forbidden(super::TokenScope),
    /// The service is about to end.
    #[error("the service is stopping")]
    Stopping,
    /// Something broke that should not break.
    #[error("something broke inside: {0}")]
    Internal(String),
}

impl From<Invalid> for ServiceError {
    fn from(invalid: Invalid) -> Self {
        Self::Engine(invalid.into())
    }
}

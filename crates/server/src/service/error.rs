//! Errors of the service. HTTP and MCP each render them in their own way.

use treering_core::Invalid;
use treering_engine::Error;

/// The reason why an operation failed. A failed operation leaves no partial changes.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The engine reported an error.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The request is invalid.
    #[error("{0}")]
    InvalidRequest(String),
    /// The latest conversation was requested, but there is none.
    #[error("no conversations yet")]
    NoConversations,
    /// The requested item does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The credential lacks this scope.
    #[error("the token lacks the scope {0}")]
    Forbidden(super::TokenScope),
    /// The service is shutting down.
    #[error("the server is shutting down")]
    Stopping,
    /// An internal error.
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<Invalid> for ServiceError {
    fn from(invalid: Invalid) -> Self {
        Self::Engine(invalid.into())
    }
}

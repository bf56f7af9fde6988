//! A small client for Bolt, the protocol of Neo4j: values, one connection, and requests that are
//! sent together, so that a whole transaction takes one round trip.

mod address;
mod connection;
mod packstream;
mod stream;

pub use address::Neo4jAddress;
pub(super) use connection::{BoltConnection, Cypher, Rows};
pub use packstream::BoltValue;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoltError {
    /// The address could not be resolved or reached.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The connection broke. A request that was sent may or may not have taken effect.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The server answered something that the protocol does not allow, or a value that this
    /// program does not read.
    #[error("unexpected answer: {0}")]
    Protocol(String),
    /// The server speaks none of the versions of the protocol that this client knows.
    #[error("the server does not speak Bolt 5.1 to 5.4")]
    Version,
    /// The server refused the request.
    #[error("{message} ({code})")]
    Refused {
        /// The server's code, e.g. `Neo.ClientError.Schema.ConstraintValidationFailed`.
        code: String,
        /// The server's message.
        message: String,
    },
}

impl BoltError {
    /// The server's code; empty if the server did not refuse the request.
    pub(super) fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            _ => "",
        }
    }

    /// Whether the request had no effect and may succeed if it is sent again.
    pub(super) fn is_transient(&self) -> bool {
        self.code().starts_with("Neo.TransientError.")
    }
}

type Result<T> = std::result::Result<T, BoltError>;

//! The errors of the engine.

use treering_core::text::did_you_mean;
use treering_core::{ConversationId, Invalid, StoreError};

/// The result of an engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. A failed call leaves nothing half-done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// An argument is invalid.
    #[error(transparent)]
    Invalid(Invalid),
    /// A provider failed.
    #[error(transparent)]
    Provider(treering_core::ProviderError),
    /// The model gave no answer or only part of one. The question and the partial answer are
    /// stored.
    #[error("{0}")]
    Unanswered(treering_core::ProviderError),
    /// No conversation matches.
    #[error("no conversation matches {reference:?}{}", did_you_mean(.suggestions))]
    ConversationNotFound {
        /// The reference that was looked up.
        reference: String,
        /// Similar slugs.
        suggestions: Vec<String>,
    },
    /// No node matches.
    #[error("no node matches {0:?}")]
    NodeNotFound(String),
    /// More than one item matches the abbreviation.
    #[error("{reference:?} matches {} items: {}", .candidates.len(), .candidates.join(", "))]
    Ambiguous {
        /// The reference that was looked up.
        reference: String,
        /// The matching slugs or node ids.
        candidates: Vec<String>,
    },
    /// The caller canceled the operation.
    #[error("the operation was canceled")]
    Canceled,
    /// The slug is taken.
    #[error("another conversation has the name {0:?}; choose another one")]
    SlugTaken(String),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(invalid) => Self::Invalid(invalid),
            other => Self::Store(other),
        }
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl Error {
    /// The error for an unknown conversation id.
    pub(crate) fn no_conversation(id: ConversationId) -> Self {
        Self::ConversationNotFound { reference: id.to_string(), suggestions: Vec::new() }
    }

    /// Advice for the user, in one sentence.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Invalid(_) | Self::Provider(_) | Self::Canceled => None,
            Self::Unanswered(_) => {
                Some("your message is stored; ask again when the model is available".into())
            }
            Self::ConversationNotFound { .. } => {
                Some("use a slug, an id or its first digits; `treering sessions` lists them".into())
            }
            Self::NodeNotFound(_) => {
                Some("`treering show --tree` lists the nodes of a conversation".into())
            }
            Self::Ambiguous { .. } => Some("add a few more digits, or use the slug".into()),
            Self::SlugTaken(_) => Some("choose another name".into()),
        }
    }
}

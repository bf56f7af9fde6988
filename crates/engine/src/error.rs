//! What a caller of the library can get back instead of an answer.

use treering_core::text::did_you_mean;
use treering_core::{ConversationId, Invalid, StoreError};

/// What a call answers with.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. Nothing is half-done when it does.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store could not do it.
    #[error(transparent)]
    Store(StoreError),
    /// Something that was handed in is not valid.
    #[error(transparent)]
    Invalid(Invalid),
    /// A provider could not do it.
    #[error(transparent)]
    Provider(treering_core::ProviderError),
    /// The model gave no answer, or only part of one. What was said is stored all the same.
    #[error("{0}")]
    Unanswered(treering_core::ProviderError),
    /// There is no such conversation.
    #[error("no conversation is called {reference:?}{}", did_you_mean(.suggestions))]
    ConversationNotFound {
        /// What was asked for.
        reference: String,
        /// The slugs that may have been meant.
        suggestions: Vec<String>,
    },
    /// There is no such node.
    #[error("no node is called {0:?}")]
    NodeNotFound(String),
    /// More than one conversation goes by that abbreviation.
    #[error("{reference:?} fits {}: {}", .candidates.len(), .candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        reference: String,
        /// The slugs of those that fit.
        candidates: Vec<String>,
    },
    /// The slug is taken.
    #[error("another conversation is called {0:?} already")]
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
    /// There is no conversation with this id.
    pub(crate) fn no_conversation(id: ConversationId) -> Self {
        Self::ConversationNotFound { reference: id.to_string(), suggestions: Vec::new() }
    }

    /// What a person can do about it, in one sentence.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Invalid(_) | Self::Provider(_) => None,
            Self::Unanswered(_) => {
                Some("what was said is stored; ask again when the model answers".into())
            }
            Self::ConversationNotFound { .. } => Some(
                "`treering sessions` lists them; a slug, an id or the first digits of one will do"
                    .into(),
            ),
            Self::NodeNotFound(_) => {
                Some("`treering show --tree` lists the nodes of a conversation".into())
            }
            Self::Ambiguous { .. } => Some("give a few more digits, or the slug".into()),
            Self::SlugTaken(_) => Some("choose another name".into()),
        }
    }
}

//! Errors: the failure, its cause, and whether to retry. Where the user can fix the cause, a hint
//! says how.

use std::path::PathBuf;

use crate::chat::Usage;
use crate::redact::Redactions;

/// A refused value, with the reason and the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject}: {reason}")]
pub struct Invalid {
    /// The refused value, e.g. "tenant name \"A B\"".
    pub subject: String,
    /// The reason, and the expected form.
    pub reason: String,
}

impl Invalid {
    /// Refuses `subject` because of `reason`.
    pub fn new(subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { subject: subject.into(), reason: reason.into() }
    }
}

/// A store operation failed. A failed commit writes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store's files are not writable for this user or on this file system.
    #[error("the store {path} is read-only: {detail}")]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
        /// The error from the operating system.
        detail: String,
    },
    /// The disk is full.
    #[error("no space left for the store {path}")]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// The file is damaged or not a store.
    #[error("the store {path} is damaged: {detail}")]
    Corrupt {
        /// The store's file.
        path: PathBuf,
        /// The damage found.
        detail: String,
    },
    /// The store was written by a newer version of Treering.
    #[error("the store {path} has schema version {found}; this program supports up to {known}")]
    TooNew {
        /// The store's file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The newest version that this program supports.
        known: u32,
    },
    /// Another process held the write lock for longer than the timeout.
    #[error("another process held the lock on the store {path} for {seconds} s")]
    Busy {
        /// The store's file.
        path: PathBuf,
        /// The timeout, in seconds.
        seconds: u64,
    },
    /// Another process has the store open, and the operation needs exclusive access.
    #[error("another process has the store {path} open")]
    InUse {
        /// The store's file.
        path: PathBuf,
    },
    /// Another process wrote during a read without locks.
    #[error("another process wrote to the store {path} while it was read")]
    Changed {
        /// The store's file.
        path: PathBuf,
    },
    /// The store stopped accepting writes after an I/O error. Acknowledged commits are kept.
    #[error("the store {path} stopped accepting writes after an I/O error: {detail}")]
    Stopped {
        /// The store's file.
        path: PathBuf,
        /// The error that stopped it.
        detail: String,
    },
    /// The server of the store cannot be reached, or refused a request.
    #[error("the store {location} failed: {detail}")]
    Remote {
        /// The address of the store, without credentials.
        location: String,
        /// The error of the connection or of the server.
        detail: String,
        /// Advice for the user, if there is any.
        hint: Option<String>,
    },
    /// The plan of a commit was refused; nothing was written.
    #[error(transparent)]
    Refused(#[from] Invalid),
    /// Any other failure.
    #[error("the store {path} failed: {detail}")]
    Failed {
        /// The store's file.
        path: PathBuf,
        /// The error from the storage engine.
        detail: String,
    },
}

impl StoreError {
    /// A hint for the user, in one sentence.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::ReadOnly { .. } => "nothing was changed; give this user write access to the \
                                      folder, or choose another home with --home"
                .into(),
            Self::Full { .. } => "no data was lost; free some disk space and try again".into(),
            Self::Corrupt { path, .. } => format!(
                "the file was not changed; restore a backup with `treering restore`, or move {} \
                 away and import the sources again (if the store still opens, `treering verify` \
                 lists the damage)",
                path.display()
            ),
            Self::TooNew { .. } => {
                "the file was not changed; install a newer version of Treering to open it".into()
            }
            Self::Busy { .. } => "nothing was written; try again".into(),
            Self::Changed { .. } => {
                "try again; with write access to the folder, this error does not occur".into()
            }
            Self::InUse { .. } => "nothing was changed; stop `treering serve`, agents and other \
                                   programs that use this home, then try again"
                .into(),
            Self::Stopped { .. } => "no acknowledged data was lost; check the disk, restart \
                                     Treering, then run `treering verify`"
                .into(),
            Self::Remote { hint, .. } => return hint.clone(),
            Self::Refused(_) | Self::Failed { .. } => return None,
        })
    }
}

/// A provider call failed, with advice on whether to retry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ProviderError {
    /// The reason for the failure.
    pub reason: String,
    /// Whether to retry.
    pub advice: RetryAdvice,
    /// The call, if a request left the machine.
    pub call: Option<Box<FailedCall>>,
}

/// A failed call whose request left the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedCall {
    /// Whether the provider probably charges for it: at least part of a reply arrived, or the
    /// request was sent and the reply timed out.
    pub is_charged: bool,
    /// The usage, known or estimated.
    pub usage: Usage,
    /// The redactions made before the request left.
    pub redacted: Redactions,
}

/// Whether retrying a provider call can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Retry after the usual delay.
    Retry,
    /// Retry after at least this many milliseconds.
    RetryAfter(u64),
    /// The rate limiter did not send the request; the next slot is in this many milliseconds.
    Throttled(u64),
    /// Do not retry: the same request will fail again.
    GiveUp,
    /// Do not retry, but use the fallback: the reply is unusable, or the provider may not be
    /// called.
    UseFallback,
}

impl ProviderError {
    /// An error with advice.
    pub fn new(reason: impl Into<String>, advice: RetryAdvice) -> Self {
        Self { reason: reason.into(), advice, call: None }
    }

    /// The same error, with the call that was made.
    #[must_use]
    pub fn with_call(self, call: FailedCall) -> Self {
        Self { call: Some(Box::new(call)), ..self }
    }

    /// An error that will recur with the same request.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self::new(reason, RetryAdvice::GiveUp)
    }

    /// An error that may go away.
    pub fn transient(reason: impl Into<String>) -> Self {
        Self::new(reason, RetryAdvice::Retry)
    }
}

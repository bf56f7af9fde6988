//! What can go wrong, and whose fault it is. No message here names a backend's own words
//! without saying what a user can do about them.

use std::path::PathBuf;

use crate::chat::Usage;
use crate::redact::Redactions;

/// A value that was refused, with the reason and what would be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Invalid {
    /// The thing that was refused, e.g. "tenant name \"A B\"".
    pub what: String,
    /// Why, and what is expected instead.
    pub why: String,
}

impl Invalid {
    /// A refusal of `what` because of `why`.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

/// A store could not do what was asked. Nothing of the refused commit is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store's files cannot be written by this user or on this file system.
    #[error("the store {path} is read-only: {detail}")]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
    /// No room is left where the store lives.
    #[error("no space left for the store {path}")]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// The file is damaged or is not a store at all.
    #[error("the store {path} is damaged: {detail}")]
    Corrupt {
        /// The store's file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// The store was written by a newer Treering.
    #[error("the store {path} has schema version {found}; this program knows up to {known}")]
    TooNew {
        /// The store's file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The newest version this program knows.
        known: u32,
    },
    /// Another process held the store for longer than the patience allowed.
    #[error("the store {path} stayed busy for {seconds} s")]
    Busy {
        /// The store's file.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Another process has the store open, and nobody may.
    #[error("another process has the store {path} open")]
    InUse {
        /// The store's file.
        path: PathBuf,
    },
    /// Another process wrote to the store while it was read where nothing could keep it from doing so.
    #[error("another process wrote to the store {path} while it was read")]
    Changed {
        /// The store's file.
        path: PathBuf,
    },
    /// The store stopped accepting writes after an I/O error. What was acknowledged before is kept.
    #[error("the store {path} stopped accepting writes after an I/O error: {detail}")]
    Stopped {
        /// The store's file.
        path: PathBuf,
        /// The error that stopped it.
        detail: String,
    },
    /// The plan of a commit refused to go on; nothing was written.
    #[error(transparent)]
    Refused(#[from] Invalid),
    /// The system failed in another way.
    #[error("the store {path} failed: {detail}")]
    Failed {
        /// The store's file.
        path: PathBuf,
        /// What the engine said.
        detail: String,
    },
}

impl StoreError {
    /// What a person can do about it, in one sentence.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::ReadOnly { .. } => "nothing was changed; give this user write access to the folder, or choose another home with --home".into(),
            Self::Full { .. } => "nothing was lost and nothing was half-written; free some space and try again".into(),
            Self::Corrupt { path, .. } => format!(
                "the file was left as it is; restore a backup with `treering restore`, or move {} away and import the sources again (where the store still opens, `treering verify` lists the damage)",
                path.display()
            ),
            Self::TooNew { .. } => "the file was left as it is; install the newer Treering to open it".into(),
            Self::Busy { .. } => "nothing was written; another process is writing a lot, try again".into(),
            Self::Changed { .. } => "try again; with write access to its folder this does not happen".into(),
            Self::InUse { .. } => "nothing was changed; stop `treering serve`, agents and other programs that use this home, then try again".into(),
            Self::Stopped { .. } => "nothing that was acknowledged is lost; check the disk, then restart Treering, which checks the store as it opens, and run `treering verify`".into(),
            Self::Refused(_) | Self::Failed { .. } => return None,
        })
    }
}

/// A provider did not do what was asked, and says whether asking again can help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ProviderError {
    /// What went wrong.
    pub reason: String,
    /// Whether to ask again.
    pub advice: RetryAdvice,
    /// The call that was made all the same; nothing where there was none.
    pub call: Option<Box<FailedCall>>,
}

/// A call that left this machine, and failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedCall {
    /// Whether it has to be paid for: an answer came, or the beginning of one, or none in time to a question that had
    /// left and was probably read.
    pub is_charged: bool,
    /// What it took, as far as that is known or can be thought.
    pub usage: Usage,
    /// What was taken out before it left.
    pub redacted: Redactions,
}

/// Whether asking a provider again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// It can, after the usual delay.
    Retry,
    /// It can, after at least this many milliseconds.
    RetryAfter(u64),
    /// It was not asked: its turn comes after so many milliseconds.
    Throttled(u64),
    /// It cannot: the same request will fail again.
    GiveUp,
    /// It cannot, but it was not the provider that failed: what it made cannot be used, or it may not be asked, and
    /// somebody else should make it.
    UseFallback,
}

impl ProviderError {
    /// An error with what to do about it.
    pub fn new(reason: impl Into<String>, advice: RetryAdvice) -> Self {
        Self { reason: reason.into(), advice, call: None }
    }

    /// The same error, of a call that was made.
    #[must_use]
    pub fn with_call(self, call: FailedCall) -> Self {
        Self { call: Some(Box::new(call)), ..self }
    }

    /// An error that the same request will meet again.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self::new(reason, RetryAdvice::GiveUp)
    }

    /// An error that may pass.
    pub fn transient(reason: impl Into<String>) -> Self {
        Self::new(reason, RetryAdvice::Retry)
    }
}

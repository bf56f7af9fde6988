//! Named places where tests kill the process. They are not there in a release build.

use std::sync::OnceLock;

/// A place in the run of a job, in a reindex, in a forget or in the sealing of a search
/// index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillPoint {
    /// The job is leased; nothing is read yet.
    Leased,
    /// The input is read; nothing is written yet.
    Read,
    /// The summary exists in memory only.
    Written,
    /// The node is about to be committed.
    Finishing,
    /// The node is committed, but not reported yet.
    Finished,
    /// Vectors of the new model exist in memory only.
    Reindexing,
    /// A batch of vectors is committed.
    Reindexed,
    /// All vectors are committed; the old model is still in use.
    CuttingOver,
    /// A segment of the search index is in its file; the manifest does not list it yet.
    SegmentWritten,
    /// The manifest of the search index lists the new segments; obsolete files still exist.
    ManifestWritten,
    /// Rows are erased; vectors and the bytes in the files are not.
    Forgotten,
    /// Vectors are removed; the bytes in the files are about to be erased.
    Scrubbing,
}

impl KillPoint {
    /// Every place in the run of a job.
    pub const ALL: [Self; 5] =
        [Self::Leased, Self::Read, Self::Written, Self::Finishing, Self::Finished];
    /// Every place in a reindex.
    pub const REINDEX: [Self; 3] = [Self::Reindexing, Self::Reindexed, Self::CuttingOver];

    /// Every place in the sealing of a search index.
    pub const SEAL: [Self; 2] = [Self::SegmentWritten, Self::ManifestWritten];

    /// Every place in a forget.
    pub const FORGET: [Self; 2] = [Self::Forgotten, Self::Scrubbing];

    /// Its name in the environment variable.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Read => "read",
            Self::Written => "written",
            Self::Finishing => "finishing",
            Self::Finished => "finished",
            Self::Reindexing => "reindexing",
            Self::Reindexed => "reindexed",
            Self::CuttingOver => "cutting-over",
            Self::SegmentWritten => "segment-written",
            Self::ManifestWritten => "manifest-written",
            Self::Forgotten => "forgotten",
            Self::Scrubbing => "scrubbing",
        }
    }
}

/// Aborts the process, like a power cut, if `TREERING_FAULT` names this place. Active only in
/// builds with debug assertions.
pub(crate) fn check(fault: KillPoint) {
    if cfg!(debug_assertions) {
        static NAMED: OnceLock<Option<String>> = OnceLock::new();
        let configured = NAMED.get_or_init(|| std::env::var("TREERING_FAULT").ok());
        if configured.as_deref() == Some(fault.as_str()) {
            std::process::abort();
        }
    }
}

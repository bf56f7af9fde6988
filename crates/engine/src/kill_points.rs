//! Named places where tests kill the process. They are not there in a release build.

use std::sync::OnceLock;

/// A place in the run of a job or in a change of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillPoint {
    /// The job was leased; nothing was read.
    Leased,
    /// What it covers was read; nothing was written.
    Read,
    /// The summary is there, in memory only.
    Written,
    /// The node is about to be committed.
    Finishing,
    /// The node was committed; nobody was told.
    Finished,
    /// Vectors of another model are there, in memory only.
    Reindexing,
    /// A portion of them was committed.
    Reindexed,
    /// All of them are there; the old ones are still in use.
    CuttingOver,
}

impl KillPoint {
    /// Every place in the run of a job.
    pub const ALL: [Self; 5] =
        [Self::Leased, Self::Read, Self::Written, Self::Finishing, Self::Finished];
    /// Every place in a change of the model.
    pub const REINDEX: [Self; 3] = [Self::Reindexing, Self::Reindexed, Self::CuttingOver];

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
        }
    }
}

/// Ends the process as a power cut would when this place is the one that `TREERING_FAULT` names.
/// Only in builds with debug assertions.
pub(crate) fn reach(fault: KillPoint) {
    if cfg!(debug_assertions) {
        static NAMED: OnceLock<Option<String>> = OnceLock::new();
        let named = NAMED.get_or_init(|| std::env::var("TREERING_FAULT").ok());
        if named.as_deref() == Some(fault.as_str()) {
            std::process::abort();
        }
    }
}

//! The recording: every file operation of a workload and every acknowledgement, in one order.

use std::fmt;

/// One file of the recording. A file that is deleted and created again is another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub usize);

/// One step of the recording.
///
/// The `start` of a sync is the length of the log when the sync began: a write that another thread
/// recorded later is not covered by it.
#[derive(Clone, PartialEq, Eq)]
pub enum DiskOp {
    /// A file that somebody else has made, and that counts as durable.
    Found {
        /// The file.
        file: FileId,
        /// Its name in the folder.
        name: String,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// A file was created; its directory entry is not durable yet.
    Created {
        /// The file.
        file: FileId,
        /// Its name in the folder.
        name: String,
    },
    /// A directory entry was removed; the removal is not durable yet.
    Deleted {
        /// The name in the folder.
        name: String,
    },
    /// Bytes were written.
    Write {
        /// The file.
        file: FileId,
        /// The position of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// No sync makes this write durable: the disk lied about it.
        is_lie: bool,
    },
    /// The length was set.
    Truncate {
        /// The file.
        file: FileId,
        /// The new length.
        size: u64,
        /// No sync makes this change durable: the disk lied about it.
        is_lie: bool,
    },
    /// The file's content was made durable.
    Sync {
        /// The file.
        file: FileId,
        /// The length of the log when the sync began.
        start: usize,
    },
    /// A sync failed. The kernel marks the pages clean, so that no later sync writes them; they stay
    /// readable.
    FailedSync {
        /// The file.
        file: FileId,
        /// The length of the log when the sync began.
        start: usize,
    },
    /// The folder's entries were made durable.
    DirectorySync {
        /// The length of the log when the sync began.
        start: usize,
    },
    /// The workload was told that something is stored.
    Acknowledged {
        /// The workload's name for it.
        label: String,
    },
}

/// A write has an own form: its bytes would fill the screen.
impl fmt::Debug for DiskOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { file, name, bytes } => {
                write!(f, "found {name} as {}, {} bytes", file.0, bytes.len())
            }
            Self::Created { file, name } => write!(f, "create {name} as {}", file.0),
            Self::Deleted { name } => write!(f, "delete {name}"),
            Self::Write { file, offset, bytes, is_lie } => {
                write!(f, "write {} at {offset}, {} bytes", file.0, bytes.len())?;
                if *is_lie { f.write_str(", a lie") } else { Ok(()) }
            }
            Self::Truncate { file, size, is_lie } => {
                write!(f, "truncate {} to {size}", file.0)?;
                if *is_lie { f.write_str(", a lie") } else { Ok(()) }
            }
            Self::Sync { file, start } => write!(f, "sync {} since step {start}", file.0),
            Self::FailedSync { file, start } => {
                write!(f, "failed sync {} since step {start}", file.0)
            }
            Self::DirectorySync { start } => write!(f, "sync the directory since step {start}"),
            Self::Acknowledged { label } => write!(f, "acknowledged {label}"),
        }
    }
}

/// A recording.
#[derive(Debug, Clone, Default)]
pub struct DiskTrace {
    /// The steps, in order.
    pub entries: Vec<DiskOp>,
    /// The power is cut after so many entries at the earliest.
    pub first_cut: usize,
}

impl DiskTrace {
    /// The acknowledgements before a cut.
    pub fn acknowledged(&self, cut: usize) -> impl Iterator<Item = &str> {
        self.entries[..cut].iter().filter_map(|entry| match entry {
            DiskOp::Acknowledged { label } => Some(label.as_str()),
            _ => None,
        })
    }

    /// How many files the recording has had.
    #[must_use]
    pub fn files(&self) -> usize {
        let is_new =
            |entry: &&DiskOp| matches!(entry, DiskOp::Found { .. } | DiskOp::Created { .. });
        self.entries.iter().filter(is_new).count()
    }

    /// The possible cuts that directly follow an acknowledgement.
    #[must_use]
    pub fn cuts_after_acknowledgements(&self) -> Vec<usize> {
        let is_marker = |entry: &DiskOp| matches!(entry, DiskOp::Acknowledged { .. });
        let places = self.entries.iter().enumerate().filter(|(_, entry)| is_marker(entry));
        places.map(|(place, _)| place + 1).filter(|cut| *cut >= self.first_cut).collect()
    }

    /// The last steps before a cut, for a person who looks into a failure.
    #[must_use]
    pub fn describe(&self, cut: usize) -> String {
        const SHOWN: usize = 24;
        let from = cut.saturating_sub(SHOWN);
        let lines = self.entries[from..cut].iter().zip(from..);
        lines.map(|(entry, place)| format!("{place:6} {entry:?}\n")).collect()
    }
}

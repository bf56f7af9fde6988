//! The recording: all file operations and acknowledgements of a workload in one sequence.

use std::fmt;

/// A file in the recording. A file that is deleted and created again gets a new id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub usize);

/// One entry of the recording.
///
/// The `start` of a sync is the length of the log when the sync began. The sync does not cover
/// writes that another thread recorded later.
#[derive(Clone, PartialEq, Eq)]
pub enum DiskOp {
    /// A file that existed before the recording and counts as durable.
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
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether the disk lied: no sync makes this write durable.
        is_lie: bool,
    },
    /// The file was resized.
    Truncate {
        /// The file.
        file: FileId,
        /// The new length.
        size: u64,
        /// Whether the disk lied: no sync makes this change durable.
        is_lie: bool,
    },
    /// The file's content was made durable.
    Sync {
        /// The file.
        file: FileId,
        /// The length of the log when the sync began.
        start: usize,
    },
    /// A sync failed. The kernel marks the pages clean: they stay readable, but no later sync
    /// writes them.
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
    /// The store acknowledged a write to the workload.
    Acknowledged {
        /// The workload's label for the write.
        label: String,
    },
}

/// Prints the length of a write instead of its bytes.
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
    /// The entries, in order.
    pub entries: Vec<DiskOp>,
    /// The smallest number of entries after which the power may be cut.
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

    /// Number of files that ever existed in the recording.
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
        let markers = self.entries.iter().enumerate().filter(|(_, entry)| is_marker(entry));
        markers.map(|(index, _)| index + 1).filter(|cut| *cut >= self.first_cut).collect()
    }

    /// Formats the last entries before a cut, to diagnose a failure.
    #[must_use]
    pub fn describe(&self, cut: usize) -> String {
        const SHOWN: usize = 24;
        let from = cut.saturating_sub(SHOWN);
        let lines = self.entries[from..cut].iter().zip(from..);
        lines.map(|(entry, index)| format!("{index:6} {entry:?}\n")).collect()
    }
}

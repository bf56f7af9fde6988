//! Faults: which operation on which file fails, and how.

/// The role of a file in SQLite, derived from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRole {
    /// The database.
    Database,
    /// The write-ahead log.
    Wal,
    /// The rollback journal.
    Journal,
}

impl FileRole {
    /// The role of the file with this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            wal if wal.ends_with("-wal") => Self::Wal,
            journal if journal.ends_with("-journal") => Self::Journal,
            _ => Self::Database,
        }
    }
}

/// An operation that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultPoint {
    /// A write.
    Write,
    /// A truncate.
    Truncate,
    /// A sync.
    Sync,
}

/// The way an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The operation has no effect and reports an I/O error. After a failed sync, earlier
    /// writes stay readable, but no later sync makes them durable.
    Io,
    /// The disk is full: a write stores the first half of its bytes; other operations have no
    /// effect.
    Full,
    /// The operation reports success and is visible, but never becomes durable. A sync has no
    /// effect.
    Lie,
}

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The role of the file.
    pub role: FileRole,
    /// The operation.
    pub point: FaultPoint,
    /// Number of matching operations that succeed first.
    pub skip: usize,
    /// The way the operation fails.
    pub kind: FaultKind,
}

/// The faults of one disk.
#[derive(Debug, Default)]
pub(super) struct Faults {
    armed: Vec<Fault>,
    pub(super) triggered: usize,
}

impl Faults {
    pub(super) fn arm(&mut self, fault: Fault) {
        self.armed.push(fault);
    }

    /// Counts an operation, and returns the fault that it triggers, if any.
    pub(super) fn strike(&mut self, role: FileRole, point: FaultPoint) -> Option<FaultKind> {
        let matches = |fault: &Fault| fault.role == role && fault.point == point;
        let due = self.armed.iter().position(|fault| matches(fault) && fault.skip == 0);
        for fault in self.armed.iter_mut().filter(|fault| matches(fault)) {
            fault.skip = fault.skip.saturating_sub(1);
        }
        let kind = self.armed.remove(due?).kind;
        self.triggered += 1;
        Some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, FaultKind, FaultPoint, Faults, FileRole};

    #[test]
    fn a_fault_strikes_the_nth_matching_operation_once() {
        let mut faults = Faults::default();
        faults.arm(Fault {
            role: FileRole::Wal,
            point: FaultPoint::Sync,
            skip: 2,
            kind: FaultKind::Io,
        });
        let mut sync = |role| faults.strike(role, FaultPoint::Sync);
        assert_eq!(sync(FileRole::Wal), None);
        assert_eq!(sync(FileRole::Database), None);
        assert_eq!(sync(FileRole::Wal), None);
        assert_eq!(sync(FileRole::Wal), Some(FaultKind::Io));
        assert_eq!(sync(FileRole::Wal), None);
        assert_eq!(faults.triggered, 1);
    }

    #[test]
    fn names_tell_the_role() {
        let roles = ["a.db", "a.db-wal", "a.db-journal"].map(FileRole::of);
        assert_eq!(roles, [FileRole::Database, FileRole::Wal, FileRole::Journal]);
    }
}

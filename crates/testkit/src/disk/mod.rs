//! A disk for crash tests: a SQLite VFS that records every write, truncate, sync, creation and
//! deletion in a watched folder, injects faults, and derives from the recording the files that
//! a power cut could have left behind.
//!
//! The VFS becomes the default of the process, so the store under test needs no hook. It only
//! sees file operations that go through SQLite: a sync that a program issues directly does not
//! count. It ignores files outside watched folders.

mod crash;
mod explore;
mod fault;
mod recorder;
mod rng;
mod trace;
mod vfs;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub use crash::{CrashPoint, CrashState, Replay, SurvivalPattern};
pub use explore::{ExplorationStats, explore, scratch_folder, seed};
pub use fault::{Fault, FaultKind, FaultPoint, FileRole};
pub use rng::Rng;
pub use trace::{DiskOp, DiskTrace, FileId};

use recorder::Recorder;

/// The recorders of all folders that are being watched.
static WATCHED: Mutex<Vec<Arc<Recorder>>> = Mutex::new(Vec::new());

/// A watched folder. Dropping it ends the recording; open connections continue to work.
pub struct Disk {
    recorder: Arc<Recorder>,
}

impl Disk {
    /// Starts recording SQLite's file operations in `folder`. Existing files count as durable.
    pub fn watch(folder: &Path) -> io::Result<Self> {
        vfs::register()?;
        let recorder = Arc::new(Recorder::new(folder)?);
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).push(recorder.clone());
        Ok(Self { recorder })
    }

    /// Simulates a process restart without a power cut, and continues the recording in
    /// `folder`. The new process sees all writes of the old one, but unsynced writes are still
    /// not durable.
    pub fn restart(log: DiskTrace, folder: &Path) -> io::Result<Self> {
        vfs::register()?;
        let mut replay = Replay::new(&log);
        replay.advance(log.entries.len());
        for (name, bytes) in replay.readable() {
            std::fs::write(folder.join(name), bytes)?;
        }
        let names = replay.readable_names();
        let recorder = Arc::new(Recorder::resume(folder, names, log)?);
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).push(recorder.clone());
        Ok(Self { recorder })
    }

    /// Records an acknowledgement: every later crash state must contain the data that `label`
    /// identifies.
    pub fn acknowledge(&self, label: &str) {
        self.recorder.push(DiskOp::Acknowledged { label: label.to_owned() });
    }

    /// Excludes the operations so far from power cuts; they are the setup of a test.
    pub fn crash_from_here(&self) {
        self.recorder.cut_from_here();
    }

    /// Arms a fault. It triggers once.
    pub fn inject(&self, fault: Fault) {
        self.recorder.inject(fault);
    }

    /// Number of injected faults that have triggered.
    #[must_use]
    pub fn faults_triggered(&self) -> usize {
        self.recorder.faults_struck()
    }

    /// A copy of the recording so far.
    #[must_use]
    pub fn log(&self) -> DiskTrace {
        self.recorder.log()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|recorder| !Arc::ptr_eq(recorder, &self.recorder));
    }
}

/// The recorder of a file's folder, and the file's name in it.
fn recorder_of(path: &Path) -> Option<(Arc<Recorder>, String)> {
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let recorder = watched.iter().find(|recorder| recorder.folder() == folder)?;
    Some((recorder.clone(), name.to_owned()))
}

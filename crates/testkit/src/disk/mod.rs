//! A disk for crash tests: a SQLite VFS that records every write, truncate, sync, creation and
//! deletion below a watched folder, injects faults, and derives from the recording the files that
//! a power cut could have left behind.
//!
//! The VFS becomes the default of the process, so the store under test needs no hook. It sees file
//! operations that go through SQLite and nothing else: a program that syncs a file on its own has
//! not synced it here. Files outside of watched folders are left alone.

mod crash;
mod explore;
mod fault;
mod log;
mod recorder;
mod rng;
mod vfs;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub use crash::{CrashPoint, CrashState, Replay, SurvivalPattern};
pub use explore::{Explored, explore, scratch_folder, seed};
pub use fault::{Fault, FaultKind, FaultPoint, FileRole};
pub use log::{DiskOp, DiskTrace, FileId};
pub use rng::Rng;

use recorder::Recorder;

/// The recorders of the folders that are watched now.
static WATCHED: Mutex<Vec<Arc<Recorder>>> = Mutex::new(Vec::new());

/// A watched folder. Recording ends when it is dropped; connections that are open then still work.
pub struct Disk {
    recorder: Arc<Recorder>,
}

impl Disk {
    /// Records what SQLite does to files in `folder` from now on. Files that are already there
    /// count as durable.
    pub fn watch(folder: &Path) -> io::Result<Self> {
        vfs::register()?;
        let recorder = Arc::new(Recorder::new(folder)?);
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).push(recorder.clone());
        Ok(Self { recorder })
    }

    /// Ends the recorded process without cutting the power, and goes on recording for the next process: the
    /// files as that process reads them are put into `folder`. Writes that were not durable still are not.
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

    /// Notes in the recording that the workload got an acknowledgement: from here on, every crash
    /// state must contain what `label` stands for.
    pub fn acknowledge(&self, label: &str) {
        self.recorder.push(DiskOp::Acknowledged { label: label.to_owned() });
    }

    /// Has the power cut from this point of the recording on, and not before. The operations so far are the
    /// preparation of a test.
    pub fn crash_from_here(&self) {
        self.recorder.cut_from_here();
    }

    /// Arms a fault. It strikes once.
    pub fn inject(&self, fault: Fault) {
        self.recorder.inject(fault);
    }

    /// How many of the injected faults have struck.
    #[must_use]
    pub fn faults_triggered(&self) -> usize {
        self.recorder.faults_struck()
    }

    /// The recording so far.
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

/// The recorder of the folder that a file lies in, and the file's name there.
fn recorder_of(path: &Path) -> Option<(Arc<Recorder>, String)> {
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let recorder = watched.iter().find(|recorder| recorder.folder() == folder)?;
    Some((recorder.clone(), name.to_owned()))
}

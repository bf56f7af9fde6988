//! The recorder of one folder: converts the VFS's observations into log entries.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::fault::{Fault, FaultKind, FaultPoint, Faults, FileRole};
use super::trace::{DiskOp, DiskTrace, FileId};

pub(super) struct Recorder {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: DiskTrace,
    /// The files by name, with their inodes: a new inode is a new file.
    files: HashMap<String, (FileId, u64)>,
    next_file: usize,
    faults: Faults,
}

impl State {
    fn new_file(&mut self, name: &str, inode: u64) -> FileId {
        let file = FileId(self.next_file);
        self.next_file += 1;
        self.files.insert(name.to_owned(), (file, inode));
        file
    }
}

impl Recorder {
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let recorder = Self { folder: folder.canonicalize()?, state: Mutex::default() };
        for entry in fs::read_dir(&recorder.folder)? {
            if let Ok(name) = entry?.file_name().into_string()
                && !name.ends_with("-shm")
            {
                recorder.record_open(&name, true)?;
            }
        }
        recorder.cut_from_here();
        Ok(recorder)
    }

    /// Continues a log whose files are in `folder` under these names.
    pub(super) fn resume(
        folder: &Path,
        names: BTreeMap<String, FileId>,
        log: DiskTrace,
    ) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        let mut state = State { next_file: log.files(), log, ..State::default() };
        for (name, file) in names {
            let inode = fs::metadata(folder.join(&name))?.ino();
            state.files.insert(name, (file, inode));
        }
        Ok(Self { folder, state: Mutex::new(state) })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, entry: DiskOp) {
        self.state().log.entries.push(entry);
    }

    pub(super) fn log(&self) -> DiskTrace {
        self.state().log.clone()
    }

    pub(super) fn cut_from_here(&self) {
        let mut state = self.state();
        state.log.first_cut = state.log.entries.len();
    }

    pub(super) fn inject(&self, fault: Fault) {
        self.state().faults.arm(fault);
    }

    pub(super) fn faults_struck(&self) -> usize {
        self.state().faults.triggered
    }

    pub(super) fn strike(&self, name: &str, point: FaultPoint) -> Option<FaultKind> {
        self.state().faults.strike(FileRole::of(name), point)
    }

    /// Records that a file was opened. `existed` says whether it existed before.
    ///
    /// The store may create a file before SQLite opens it. An empty file counts as just
    /// created, because nothing has synced its directory entry. A file with content predates
    /// the workload.
    pub(super) fn record_open(&self, name: &str, existed: bool) -> io::Result<FileId> {
        let path = self.folder.join(name);
        let inode = fs::metadata(&path)?.ino();
        let mut state = self.state();
        if let Some((file, known)) = state.files.get(name)
            && *known == inode
        {
            return Ok(*file);
        }
        let bytes = if existed { fs::read(&path)? } else { Vec::new() };
        let file = state.new_file(name, inode);
        let name = name.to_owned();
        state.log.entries.push(match bytes.is_empty() {
            true => DiskOp::Created { file, name },
            false => DiskOp::Found { file, name, bytes },
        });
        Ok(file)
    }

    pub(super) fn deleted(&self, name: &str, sync_directory: bool) {
        let mut state = self.state();
        state.files.remove(name);
        let start = state.log.entries.len() + 1;
        state.log.entries.push(DiskOp::Deleted { name: name.to_owned() });
        if sync_directory {
            state.log.entries.push(DiskOp::DirectorySync { start });
        }
    }

    /// The length of the log, used as the start of a sync.
    pub(super) fn position(&self) -> usize {
        self.state().log.entries.len()
    }
}

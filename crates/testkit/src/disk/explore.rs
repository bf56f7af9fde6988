//! Explores the crash states of a recording: writes each to its own folder and checks it there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use tempfile::TempDir;

use super::crash::{CrashPoint, CrashState, Replay};
use super::trace::DiskTrace;

/// The default seed.
const DEFAULT_SEED: u64 = 0x7472_6565;

/// Number of states that are checked in parallel.
const THREADS: usize = 2;

/// Statistics of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExplorationStats {
    /// Number of crash states checked.
    pub states: usize,
    /// Number of acknowledgements checked, over all states.
    pub acknowledged: usize,
    /// Number of entries in the recording.
    pub entries: usize,
}

/// The seed of this run: `TREERING_CRASH_SEED`, or a fixed default.
#[must_use]
pub fn seed() -> u64 {
    let seed = std::env::var("TREERING_CRASH_SEED").ok().and_then(|seed| seed.parse().ok());
    seed.unwrap_or(DEFAULT_SEED)
}

/// A temporary folder, in memory if possible, because a run writes thousands of states.
/// `TREERING_CRASH_FOLDER` overrides the location.
pub fn scratch_folder() -> io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let base = match std::env::var_os("TREERING_CRASH_FOLDER") {
        Some(folder) => PathBuf::from(folder),
        None if memory.is_dir() => memory.to_path_buf(),
        None => std::env::temp_dir(),
    };
    tempfile::Builder::new().prefix("treering-crash-").tempdir_in(base)
}

/// Checks `states` crash states of a recording. `check` gets each state and the folder with its
/// files, and panics if the state is wrong. The folder is then kept, and the seed is printed.
pub fn explore(
    log: &DiskTrace,
    name: &str,
    states: usize,
    check: &(dyn Fn(&CrashState, &Path) + Sync),
) -> io::Result<ExplorationStats> {
    let seed = seed();
    let mut probes: Vec<CrashPoint> =
        (0..states).map(|number| CrashPoint::sample(log, seed, name, number)).collect();
    probes.sort_by_key(|probe| probe.cut);
    let explored =
        Mutex::new(ExplorationStats { entries: log.entries.len(), ..ExplorationStats::default() });
    let check_some = |probes: &[CrashPoint]| -> io::Result<()> {
        let mut replay = Replay::new(log);
        for probe in probes {
            let state = replay.crash(probe);
            check_one(log, name, &state, check)?;
            let mut explored = explored.lock().unwrap_or_else(PoisonError::into_inner);
            explored.states += 1;
            explored.acknowledged += state.acknowledged.len();
        }
        Ok(())
    };
    thread::scope(|scope| {
        let parts = probes.chunks(probes.len().div_ceil(THREADS).max(1));
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || check_some(part))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    Ok(explored.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn check_one(
    log: &DiskTrace,
    name: &str,
    state: &CrashState,
    check: &(dyn Fn(&CrashState, &Path) + Sync),
) -> io::Result<()> {
    let folder = Evidence { folder: Some(scratch_folder()?), log, name, state };
    let Some(path) = folder.folder.as_ref().map(TempDir::path) else { return Ok(()) };
    for (file, bytes) in &state.files {
        fs::write(path.join(file), bytes)?;
    }
    check(state, path);
    Ok(())
}

/// The folder of a state. If the check panics, dropping it writes the original files of the
/// crash state again and prints how to reproduce the run.
struct Evidence<'a> {
    folder: Option<TempDir>,
    log: &'a DiskTrace,
    name: &'a str,
    state: &'a CrashState,
}

impl Drop for Evidence<'_> {
    #[expect(clippy::print_stderr, reason = "a failing test says how to repeat it")]
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let Some(path) = self.folder.take().map(TempDir::keep) else { return };
        let crashed = path.join("as-the-power-cut-left-it");
        let written = fs::create_dir(&crashed).and_then(|()| {
            self.state
                .files
                .iter()
                .try_for_each(|(file, bytes)| fs::write(crashed.join(file), bytes))
        });
        let CrashPoint { number, cut, pattern, .. } = &self.state.probe;
        eprintln!(
            "workload {}, state {number}: power cut after step {cut} of {}, survivors by {pattern:?}\n{}\
             files: {} ({written:?})\nTREERING_CRASH_SEED={} repeats this run",
            self.name,
            self.log.entries.len(),
            self.log.describe(*cut),
            crashed.display(),
            seed(),
        );
    }
}

//! Crash states: the files that a power cut at some point of a recording could have left
//! behind.
//!
//! A sync makes earlier writes of its file durable. Each later write or truncate may survive,
//! get lost or be torn at sector boundaries, independently of the others, so writes may be
//! reordered. Directory entries follow the same rule with the sync of their folder. The `-shm`
//! file never survives.

use std::collections::BTreeMap;

use super::rng::Rng;
use super::trace::{DiskOp, DiskTrace, FileId};

/// The unit that a disk writes atomically, in bytes.
const SECTOR: u64 = 512;

/// The rule that decides which unsynced operations survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurvivalPattern {
    /// None survives.
    Nothing,
    /// All survive, as when only the process ends.
    Everything,
    /// All but one survive.
    AllButOne,
    /// Only one survives.
    OnlyOne,
    /// All up to some point survive, and the next one is torn: the disk preserved the order.
    InOrder,
    /// Each survives at random.
    Subset,
    /// Each survives at random, and many are torn.
    Torn,
}

impl SurvivalPattern {
    /// All patterns. A run cycles through them.
    pub const ALL: [Self; 7] = [
        Self::Nothing,
        Self::Everything,
        Self::AllButOne,
        Self::OnlyOne,
        Self::InOrder,
        Self::Subset,
        Self::Torn,
    ];
}

/// A crash to simulate.
#[derive(Debug, Clone)]
pub struct CrashPoint {
    /// Its number in the run.
    pub number: usize,
    /// Number of log entries before the power cut.
    pub cut: usize,
    /// The rule that decides which unsynced operations survive.
    pub pattern: SurvivalPattern,
    rng: Rng,
}

impl CrashPoint {
    /// The crash point with this number. It depends on the log, the seed and the name, but not
    /// on how many crash points are sampled.
    #[must_use]
    pub fn sample(log: &DiskTrace, seed: u64, name: &str, number: usize) -> Self {
        let mut rng = Rng::for_part(seed, name, number as u64);
        // Cuts directly after an acknowledgement are the most likely to reveal lost data.
        let marked = log.cuts_after_acknowledgements();
        let cut = match !marked.is_empty() && rng.once_in(3) {
            true => marked[rng.below(marked.len())],
            false => log.first_cut + rng.below(log.entries.len() + 1 - log.first_cut),
        };
        Self {
            number,
            cut,
            pattern: SurvivalPattern::ALL[number % SurvivalPattern::ALL.len()],
            rng,
        }
    }
}

/// The files after a power cut.
#[derive(Debug, Clone)]
pub struct CrashState {
    /// The crash point of this state.
    pub probe: CrashPoint,
    /// The files by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The labels acknowledged before the cut.
    pub acknowledged: Vec<String>,
}

/// The outcome of an unsynced operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteOutcome {
    Lost,
    Whole,
    /// Only some sectors of the write survive; the seed determines which.
    Torn(u64),
    /// The file grew but its data was lost: the new part reads as zeros.
    LengthOnly,
}

/// The durability of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// It was synced.
    Durable,
    /// It was not synced yet.
    Pending,
    /// Its sync failed, or the disk lied about it: no later sync makes it durable.
    Unreliable,
}

/// A file during the replay.
#[derive(Debug, Clone, Default)]
struct Image {
    /// The content before the first operation that is not durable.
    base: Vec<u8>,
    /// Later operations, by their index in the log.
    tail: Vec<(usize, Durability)>,
}

impl Image {
    /// Sets the durability of the pending operations before `start`.
    fn set_durability(&mut self, start: usize, durability: Durability) {
        for (index, old) in &mut self.tail {
            if *index < start && *old == Durability::Pending {
                *old = durability;
            }
        }
    }
}

/// Replays a log, and tracks which operations are durable and which may be lost.
pub struct Replay<'a> {
    log: &'a DiskTrace,
    position: usize,
    files: Vec<Image>,
    directory: BTreeMap<String, FileId>,
    /// Directory changes that were not synced, by their index in the log.
    directory_tail: Vec<usize>,
}

impl<'a> Replay<'a> {
    /// Creates a replay positioned before the first entry.
    #[must_use]
    pub fn new(log: &'a DiskTrace) -> Self {
        let (files, directory, directory_tail) = Default::default();
        Self { log, position: 0, files, directory, directory_tail }
    }

    /// Advances to a cut. Cuts must not decrease.
    pub fn advance(&mut self, cut: usize) {
        while self.position < cut {
            self.step(self.position);
            self.position += 1;
        }
    }

    fn step(&mut self, index: usize) {
        match &self.log.entries[index] {
            DiskOp::Found { file, name, bytes } => {
                self.image(*file).base.clone_from(bytes);
                let log = self.log;
                self.directory_tail.retain(|index| name_of(&log.entries[*index]) != Some(name));
                self.directory.insert(name.clone(), *file);
            }
            DiskOp::Created { file, .. } => {
                self.image(*file);
                self.directory_tail.push(index);
            }
            DiskOp::Deleted { .. } => self.directory_tail.push(index),
            DiskOp::Write { file, is_lie, .. } | DiskOp::Truncate { file, is_lie, .. } => {
                let durability = if *is_lie { Durability::Unreliable } else { Durability::Pending };
                self.image(*file).tail.push((index, durability));
            }
            DiskOp::Sync { file, start } => {
                self.image(*file).set_durability(*start, Durability::Durable);
                self.fold(*file);
            }
            DiskOp::FailedSync { file, start } => {
                self.image(*file).set_durability(*start, Durability::Unreliable);
            }
            DiskOp::DirectorySync { start } => {
                let (synced, tail): (Vec<usize>, _) =
                    self.directory_tail.iter().partition(|index| **index < *start);
                self.directory_tail = tail;
                for index in synced {
                    change_directory(&mut self.directory, &self.log.entries[index]);
                }
            }
            DiskOp::Acknowledged { .. } => {}
        }
    }

    fn image(&mut self, file: FileId) -> &mut Image {
        if self.files.len() <= file.0 {
            self.files.resize_with(file.0 + 1, Image::default);
        }
        &mut self.files[file.0]
    }

    /// Applies the leading durable operations to the base.
    fn fold(&mut self, file: FileId) {
        let image = &mut self.files[file.0];
        let durable = image
            .tail
            .iter()
            .take_while(|(_, durability)| *durability == Durability::Durable)
            .count();
        for (index, _) in image.tail.drain(..durable) {
            change_content(&mut image.base, &self.log.entries[index], WriteOutcome::Whole);
        }
    }

    /// The operations that may be lost, by their index in the log.
    #[must_use]
    fn open_operations(&self) -> Vec<usize> {
        let tails = self.files.iter().flat_map(|image| &image.tail);
        let uncertain = tails.filter(|(_, durability)| *durability != Durability::Durable);
        let mut indexes: Vec<usize> = uncertain.map(|(index, _)| *index).collect();
        indexes.extend(&self.directory_tail);
        indexes.sort_unstable();
        indexes
    }

    /// The state after a crash at `probe`, whose cut must not be before the current position.
    pub fn crash(&mut self, probe: &CrashPoint) -> CrashState {
        self.advance(probe.cut);
        let mut rng = probe.rng.clone();
        let outcomes = sample_outcomes(probe.pattern, &self.open_operations(), &mut rng);
        let acknowledged = self.log.acknowledged(probe.cut).map(str::to_owned).collect();
        CrashState { probe: probe.clone(), files: self.files_with(&outcomes), acknowledged }
    }

    /// The files as a running process reads them at this point.
    pub(super) fn readable(&self) -> BTreeMap<String, Vec<u8>> {
        self.files_with(&self.all_whole())
    }

    /// The files that a running process sees at this point, by name.
    pub(super) fn readable_names(&self) -> BTreeMap<String, FileId> {
        self.directory_with(&self.all_whole())
    }

    fn all_whole(&self) -> BTreeMap<usize, WriteOutcome> {
        self.open_operations().into_iter().map(|index| (index, WriteOutcome::Whole)).collect()
    }

    fn directory_with(&self, outcomes: &BTreeMap<usize, WriteOutcome>) -> BTreeMap<String, FileId> {
        let mut directory = self.directory.clone();
        for index in &self.directory_tail {
            if outcomes.get(index).is_some_and(|outcome| *outcome != WriteOutcome::Lost) {
                change_directory(&mut directory, &self.log.entries[*index]);
            }
        }
        directory
    }

    fn files_with(&self, outcomes: &BTreeMap<usize, WriteOutcome>) -> BTreeMap<String, Vec<u8>> {
        let content = |file: FileId| {
            let image = &self.files[file.0];
            let mut bytes = image.base.clone();
            for (index, durability) in &image.tail {
                let outcome = match durability {
                    Durability::Durable => WriteOutcome::Whole,
                    Durability::Pending | Durability::Unreliable => {
                        outcomes.get(index).copied().unwrap_or(WriteOutcome::Lost)
                    }
                };
                change_content(&mut bytes, &self.log.entries[*index], outcome);
            }
            bytes
        };
        self.directory_with(outcomes)
            .into_iter()
            .map(|(name, file)| (name, content(file)))
            .collect()
    }
}

/// Draws an outcome for each open operation.
fn sample_outcomes(
    pattern: SurvivalPattern,
    open: &[usize],
    rng: &mut Rng,
) -> BTreeMap<usize, WriteOutcome> {
    let chosen = rng.below(open.len());
    let mut outcome_of = |number: usize| match pattern {
        SurvivalPattern::Nothing => WriteOutcome::Lost,
        SurvivalPattern::Everything => WriteOutcome::Whole,
        SurvivalPattern::AllButOne if number == chosen => WriteOutcome::Lost,
        SurvivalPattern::AllButOne => WriteOutcome::Whole,
        SurvivalPattern::OnlyOne if number == chosen => WriteOutcome::Whole,
        SurvivalPattern::OnlyOne => WriteOutcome::Lost,
        SurvivalPattern::InOrder if number < chosen => WriteOutcome::Whole,
        SurvivalPattern::InOrder if number == chosen => WriteOutcome::Torn(rng.next_u64()),
        SurvivalPattern::InOrder => WriteOutcome::Lost,
        SurvivalPattern::Subset => {
            if rng.once_in(2) {
                WriteOutcome::Lost
            } else {
                WriteOutcome::Whole
            }
        }
        SurvivalPattern::Torn => match rng.below(8) {
            0 | 1 => WriteOutcome::Lost,
            2 => WriteOutcome::LengthOnly,
            3 | 4 => WriteOutcome::Torn(rng.next_u64()),
            _ => WriteOutcome::Whole,
        },
    };
    open.iter().enumerate().map(|(number, index)| (*index, outcome_of(number))).collect()
}

/// The name whose directory entry the operation changes.
fn name_of(entry: &DiskOp) -> Option<&str> {
    match entry {
        DiskOp::Created { name, .. } | DiskOp::Deleted { name } => Some(name),
        _ => None,
    }
}

fn change_directory(directory: &mut BTreeMap<String, FileId>, entry: &DiskOp) {
    match entry {
        DiskOp::Created { file, name } => drop(directory.insert(name.clone(), *file)),
        DiskOp::Deleted { name } => drop(directory.remove(name)),
        _ => {}
    }
}

fn change_content(content: &mut Vec<u8>, entry: &DiskOp, outcome: WriteOutcome) {
    match entry {
        DiskOp::Truncate { size, .. } if outcome != WriteOutcome::Lost => {
            content.resize(*size as usize, 0);
        }
        DiskOp::Write { offset, bytes, .. } => match outcome {
            WriteOutcome::Lost => {}
            WriteOutcome::Whole => put(content, *offset, bytes),
            WriteOutcome::LengthOnly => grow(content, *offset as usize + bytes.len()),
            WriteOutcome::Torn(seed) => put_torn(content, *offset, bytes, seed),
        },
        _ => {}
    }
}

fn grow(content: &mut Vec<u8>, length: usize) {
    if content.len() < length {
        content.resize(length, 0);
    }
}

fn put(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (from, to) = (offset as usize, offset as usize + bytes.len());
    grow(content, to);
    content[from..to].copy_from_slice(bytes);
}

/// Writes the sectors that the seed selects: a prefix, a suffix or a random subset.
fn put_torn(content: &mut Vec<u8>, offset: u64, bytes: &[u8], seed: u64) {
    let mut rng = Rng::new(seed);
    let sectors = sectors_of(offset, bytes.len());
    let (kind, border) = (rng.below(3), rng.below(sectors.len()));
    for (number, (from, to)) in sectors.into_iter().enumerate() {
        let survives = match kind {
            0 => number < border,
            1 => number >= border,
            _ => rng.once_in(2),
        };
        if survives {
            put(content, offset + from as u64, &bytes[from..to]);
        }
    }
}

/// Splits a write at the sector boundaries of the file.
fn sectors_of(offset: u64, length: usize) -> Vec<(usize, usize)> {
    let mut sectors = Vec::new();
    let mut from = 0;
    while from < length {
        let in_sector = (SECTOR - (offset + from as u64) % SECTOR) as usize;
        let to = length.min(from + in_sector);
        sectors.push((from, to));
        from = to;
    }
    sectors
}

#[cfg(test)]
#[path = "crash_tests.rs"]
mod tests;

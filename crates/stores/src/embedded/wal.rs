//! Reads a WAL the way SQLite's recovery does, to find damage that recovery would drop
//! silently. It never changes the frames of a WAL.
//!
//! Recovery stops at the first invalid frame, which is right for the unfinished tail that a
//! crash leaves. If commits of the same generation follow that frame, however, the WAL was
//! damaged, and those commits would be lost. Such a WAL is copied aside before SQLite opens it.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use treering_core::StoreError;
use treering_core::ports::StoreResult;

use super::error::explain_io;
use super::open::{private, sidecar_path, sync_folder};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Page size to assume if the header is damaged.
const PAGE_SIZE: usize = 4096;

/// How a WAL ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// At its last complete commit, or in valid frames of a transaction that was never
    /// committed.
    Clean,
    /// In a torn commit: a crash in the middle of it, or damage.
    Incomplete,
    /// Before commits that recovery cannot reach: damage.
    Damaged {
        /// Minimum number of unreachable commits; 0 if unknown.
        commits: usize,
    },
}

/// A WAL with a problem at its end.
#[derive(Debug, Clone)]
pub(super) struct WalFinding {
    pub(super) wal: PathBuf,
    pub(super) ending: Ending,
}

impl WalFinding {
    pub(super) const fn is_damage(&self) -> bool {
        matches!(self.ending, Ending::Damaged { .. })
    }

    /// Describes a WAL that was copied aside.
    pub(super) fn describe(&self) -> String {
        let log = self.wal.display();
        match self.ending {
            Ending::Damaged { commits } => format!(
                "the log was damaged: {} could not be read and may be missing. A copy of the log \
                 is {log}; restore a backup or import the sources again, then delete the copy",
                at_least(commits)
            ),
            Ending::Clean | Ending::Incomplete => format!(
                "the log ended in an incomplete commit, as after a crash. The commit was never \
                 acknowledged, unless the log was damaged later. A copy of the log is {log}; \
                 delete it when you no longer need it"
            ),
        }
    }

    /// Describes a live WAL, which was not copied aside.
    pub(super) fn describe_live(&self) -> String {
        let Ending::Damaged { commits } = self.ending else { return self.describe() };
        let log = self.wal.display();
        format!("the log {log} is damaged: {} cannot be read and may be missing", at_least(commits))
    }
}

fn at_least(commits: usize) -> String {
    match commits {
        0 | 1 => "at least 1 commit".into(),
        more => format!("at least {more} commits"),
    }
}

/// Refuses a WAL without its database, because SQLite would delete it.
pub(super) fn check_database(path: &Path) -> StoreResult<()> {
    let log = sidecar_path(path, "-wal");
    // Check the WAL first: a process that creates a store writes the database before the WAL.
    let has_log = fs::metadata(&log).is_ok_and(|file| file.len() > 0);
    if !has_log || fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        return Ok(());
    }
    let contents = read(&log).map_err(|error| explain_io(path, "cannot read its log", &error))?;
    let (name, commits) = (log.display(), contents.commits);
    let detail = format!(
        "the database is missing or empty, but its log {name} contains {commits} commits; put the \
         database back next to the log, or restore a backup with `treering restore`"
    );
    Err(StoreError::Corrupt { path: path.to_path_buf(), detail })
}

/// Prepares a WAL that a crash left behind: copies it aside if its end has a problem, and makes
/// it durable. No other process may have the store open.
pub(super) fn check_before_recovery(path: &Path) -> StoreResult<Option<WalFinding>> {
    let log = sidecar_path(path, "-wal");
    if !fs::metadata(&log).is_ok_and(|file| file.len() > 0) {
        return Ok(None);
    }
    let ending =
        read(&log).map_err(|error| explain_io(path, "cannot read its log", &error))?.ending;
    let kind = match ending {
        Ending::Clean => None,
        Ending::Incomplete => Some("incomplete"),
        Ending::Damaged { .. } => Some("damaged"),
    };
    let mut wal_finding = None;
    if let Some(kind) = kind {
        let saved_wal = free_name(path, &format!("-wal.{kind}"));
        let action = "cannot keep a copy of its damaged log";
        copy_private(&log, &saved_wal).map_err(|error| explain_io(path, action, &error))?;
        wal_finding = Some(WalFinding { wal: saved_wal, ending });
    }
    make_durable(path, &log)
        .map_err(|error| explain_io(path, "cannot make its log durable", &error))?;
    Ok(wal_finding)
}

/// An unused path beside the database, made of the suffix and the current Unix time in seconds.
pub(super) fn free_name(path: &Path, suffix: &str) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let name = |seconds| sidecar_path(path, &format!("{suffix}-{seconds}"));
    (now..).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(now))
}

/// Replaces a WAL with an fsynced copy. After a failed fsync its pages may be readable from the
/// page cache without being on disk, and the kernel would not write them again.
fn make_durable(path: &Path, log: &Path) -> io::Result<()> {
    let copy = sidecar_path(path, "-wal.copy");
    copy_private(log, &copy)?;
    fs::rename(&copy, log)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// The WALs that were copied aside, oldest first.
pub(super) fn set_aside(path: &Path) -> Vec<WalFinding> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let prefix = format!("{}-wal.", name.to_string_lossy());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut findings: Vec<WalFinding> = entries
        .filter_map(|entry| {
            let (log, name) = (entry.path(), entry.file_name());
            let kind = name.to_str()?.strip_prefix(&prefix)?;
            // Trust the file name, so that damage to the copy itself hides nothing.
            let ending = match kind.split_once('-')?.0 {
                "incomplete" => Ending::Incomplete,
                "damaged" => match read(&log) {
                    Ok(Contents { ending: ending @ Ending::Damaged { .. }, .. }) => ending,
                    _ => Ending::Damaged { commits: 0 },
                },
                _ => return None,
            };
            Some(WalFinding { wal: log, ending })
        })
        .collect();
    findings.sort_by(|a, b| a.wal.cmp(&b.wal));
    findings
}

/// Renames the WALs that were copied aside, so that they belong to the store at `to`.
pub(super) fn move_set_aside(path: &Path, to: &Path) -> io::Result<()> {
    let store = path.file_name().unwrap_or_default().to_string_lossy();
    for WalFinding { wal: log, .. } in set_aside(path) {
        let name = log.file_name().unwrap_or_default().to_string_lossy();
        let suffix = name.strip_prefix(&*store).unwrap_or_default();
        fs::rename(&log, sidecar_path(to, suffix))?;
    }
    Ok(())
}

/// Finds damage in the WAL of a read-only store while other processes may write to it.
pub(super) fn live_damage(path: &Path) -> Option<WalFinding> {
    let log = sidecar_path(path, "-wal");
    let header = || -> io::Result<[u8; HEADER]> {
        let mut header = [0; HEADER];
        File::open(&log)?.read_exact(&mut header)?;
        Ok(header)
    };
    let before = header().ok()?;
    let ending = read(&log).ok()?.ending;
    // A WAL that was restarted during the read is a mixture of two generations.
    let is_same = header().is_ok_and(|after| after == before);
    let finding = WalFinding { wal: log, ending };
    Some(finding).filter(|finding| is_same && finding.is_damage())
}

pub(super) fn copy_private(from: &Path, to: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    private(&mut options);
    let mut copy = options.open(to)?;
    io::copy(&mut File::open(from)?, &mut copy)?;
    copy.sync_all()
}

/// The result of reading a WAL.
struct Contents {
    /// Number of commits that recovery finds.
    commits: usize,
    ending: Ending,
}

/// The header fields of a frame that decide how the WAL ends.
#[derive(Clone, Copy)]
struct Frame {
    salts: [u32; 2],
    is_commit: bool,
    /// Whether recovery accepts it.
    is_valid: bool,
    /// Whether its checksum continues that of the previous frame, so that one writer wrote
    /// both.
    continues: bool,
}

/// Reads a whole WAL.
fn read(log: &Path) -> io::Result<Contents> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(log)?);
    let mut header = [0; HEADER];
    if read_full(&mut file, &mut header)? < HEADER {
        return Ok(Contents { commits: 0, ending: Ending::Clean });
    }
    let is_big_endian = word(&header, 0) & 1 == 1;
    let page_size = word(&header, 8) as usize;
    let sum = checksum([0, 0], &header[..24], is_big_endian);
    let mut is_sound =
        word(&header, 0) & !1 == 0x377f_0682 && sum == [word(&header, 24), word(&header, 28)];
    let is_size = page_size.is_power_of_two() && (512..=65536).contains(&page_size);
    is_sound &= is_size;
    let page_size = if is_size { page_size } else { PAGE_SIZE };
    let mut chain = ChecksumChain { sums: [sum; 2], is_intact: is_sound, is_big_endian };
    let mut salts = is_sound.then_some([word(&header, 16), word(&header, 20)]);
    let (mut frames, mut bytes) = (Vec::new(), vec![0; FRAME_HEADER + page_size]);
    while read_full(&mut file, &mut bytes)? == bytes.len() {
        let of_frame = [word(&bytes, 8), word(&bytes, 12)];
        // A damaged header does not tell the salts of its generation, but its first frame does.
        frames.push(chain.add(&bytes, *salts.get_or_insert(of_frame)));
    }
    let commits = frames.iter().filter(|frame| frame.is_valid && frame.is_commit).count();
    let ending = match ending(&frames, salts.unwrap_or_default()) {
        // The header is fsynced before the first frame is written, so no crash leaves it
        // invalid.
        Ending::Incomplete if !is_sound => Ending::Damaged { commits: 1 },
        Ending::Clean if !is_size && header != [0; HEADER] => Ending::Damaged { commits: 1 },
        other => other,
    };
    Ok(Contents { commits, ending })
}

/// The running checksum from frame to frame.
struct ChecksumChain {
    /// The checksum of the last frame: as stored, and as computed.
    sums: [[u32; 2]; 2],
    /// Whether every frame so far is valid.
    is_intact: bool,
    is_big_endian: bool,
}

impl ChecksumChain {
    fn add(&mut self, bytes: &[u8], salts: [u32; 2]) -> Frame {
        let sum_after = |sum| {
            let sum = checksum(sum, &bytes[..8], self.is_big_endian);
            checksum(sum, &bytes[FRAME_HEADER..], self.is_big_endian)
        };
        let (of_frame, stored) =
            ([word(bytes, 8), word(bytes, 12)], [word(bytes, 16), word(bytes, 20)]);
        let [after_stored, after_computed] = match self.is_intact {
            true => [sum_after(self.sums[0]); 2],
            false => self.sums.map(sum_after),
        };
        let continues = stored == after_stored || stored == after_computed;
        self.is_intact &= continues && of_frame == salts;
        self.sums = [stored, after_stored];
        let is_commit = word(bytes, 4) != 0;
        Frame { salts: of_frame, is_commit, is_valid: self.is_intact, continues }
    }
}

/// Decides how a WAL with these frames ends.
///
/// A frame of the current generation that recovery does not reach is damaged, follows a damaged
/// frame, or is the remainder of a commit that was cut off by a kill and whose beginning a
/// later commit overwrote. A killed writer leaves at most one commit, at the end of its frames.
fn ending(frames: &[Frame], salts: [u32; 2]) -> Ending {
    // One of the two salts may itself be damaged. The second is random for each generation, so
    // a frame that shares either one belongs to the same generation.
    let is_same = |frame: &Frame| {
        frame.salts != [0, 0] && (frame.salts[0] == salts[0] || frame.salts[1] == salts[1])
    };
    let is_lost = |frame: &Frame| !frame.is_valid && is_same(frame);
    let commits = frames.iter().filter(|frame| is_lost(frame) && frame.is_commit).count();
    let is_damaged = frames.windows(2).any(|pair| {
        is_lost(&pair[0]) && is_lost(&pair[1]) && pair[0].is_commit && pair[1].continues
    });
    match frames.iter().any(is_lost) {
        _ if is_damaged => Ending::Damaged { commits },
        true => Ending::Incomplete,
        false => Ending::Clean,
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// SQLite's WAL checksum: two interdependent running sums over pairs of 32-bit words.
fn checksum([mut a, mut b]: [u32; 2], bytes: &[u8], is_big_endian: bool) -> [u32; 2] {
    for pair in bytes.as_chunks::<8>().0 {
        let word = |at: usize| {
            let word = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
            if is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        a = a.wrapping_add(word(0)).wrapping_add(b);
        b = b.wrapping_add(word(4)).wrapping_add(a);
    }
    [a, b]
}

/// Fills the buffer, or as much of it as the file has left. Returns the number of bytes read.
fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each letter is a frame: `v` valid, `l` lost, `o` of an older generation. An upper-case
    /// letter is a commit, and `|` precedes a frame of another writer.
    fn check(frames: &str, expected: Ending) {
        let mut parsed: Vec<Frame> = Vec::new();
        let mut continues = true;
        for letter in frames.chars() {
            if letter == '|' {
                continues = false;
                continue;
            }
            let salts = if letter.eq_ignore_ascii_case(&'o') { [6, 1] } else { [7, 2] };
            let (is_commit, is_valid) = (letter.is_uppercase(), letter.eq_ignore_ascii_case(&'v'));
            parsed.push(Frame { salts, is_commit, is_valid, continues });
            continues = true;
        }
        assert_eq!(ending(&parsed, [7, 2]), expected, "{frames}");
    }

    #[test]
    fn a_log_cut_off_by_a_crash_is_not_damaged() {
        for clean in ["", "vvV", "vvVvv", "vVvV|ooOoO"] {
            check(clean, Ending::Clean);
        }
        // The last commit is torn, or tails of killed writers follow the last commit.
        for incomplete in ["vVlll", "vVl|lL", "vVll", "V|llL", "V|llL|lL|lL", "V|L|L|oO"] {
            check(incomplete, Ending::Incomplete);
        }
    }

    #[test]
    fn commits_behind_a_damaged_frame_are_damage() {
        check("vVlLlL", Ending::Damaged { commits: 2 });
        check("|lLlLlL", Ending::Damaged { commits: 3 });
        check("vV|LlL|oO", Ending::Damaged { commits: 2 });
    }
}

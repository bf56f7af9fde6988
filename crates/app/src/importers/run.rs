//! Runs imports: finds the files, reads each, commits what is new, and keeps the account.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use treering_core::capture::{Arrival, Entry, Outcome};
use treering_core::{ThreadName, Timestamp};
use treering_engine::{Appended, Incoming, Matching, Memory, Target};

use super::{Format, Found, Identity, Piece, Sink, Source, Unreadable, detect};

/// How to import.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The format; recognised where absent.
    pub format: Option<Format>,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// Pass over conversations that ended before this moment.
    pub since: Option<Timestamp>,
}

/// What became of one file.
#[derive(Debug, Clone, Default)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Its format, where it was recognised.
    pub format: Option<Format>,
    /// Conversations in it.
    pub conversations: u64,
    /// Conversations that were made.
    pub conversations_new: u64,
    /// Messages that were added.
    pub messages_new: u64,
    /// Messages, tool calls and results that were there before.
    pub known: u64,
    /// Tool calls that were added.
    pub tool_calls_new: u64,
    /// Tool calls that got their result.
    pub results_new: u64,
    /// Threads that were opened.
    pub threads_new: u64,
    /// What was passed over, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Why it could not be read; nothing of the conversation at fault was stored.
    pub error: Option<String>,
}

impl FileReport {
    /// Whether anything came of it.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.messages_new + self.tool_calls_new + self.results_new + self.threads_new > 0
    }
}

/// What became of all files.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Each file.
    pub files: Vec<FileReport>,
}

impl Report {
    /// Everything added up.
    #[must_use]
    pub fn total(&self) -> FileReport {
        let mut total = FileReport::default();
        for file in &self.files {
            total.conversations += file.conversations;
            total.conversations_new += file.conversations_new;
            total.messages_new += file.messages_new;
            total.known += file.known;
            total.tool_calls_new += file.tool_calls_new;
            total.results_new += file.results_new;
            total.threads_new += file.threads_new;
            for (why, count) in &file.skipped {
                *total.skipped.entry(why.clone()).or_default() += count;
            }
        }
        total
    }
}

/// Imports into a memory.
pub struct Runner<'a> {
    /// Where to.
    pub memory: &'a Memory,
    /// How.
    pub options: Options,
}

impl Runner<'_> {
    /// The files at these paths, folders searched, the oldest change first.
    pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Unreadable> {
        let mut files = Vec::new();
        for path in paths {
            let found = fs::metadata(path)
                .map_err(|error| Unreadable(format!("cannot read {}: {error}", path.display())))?;
            if found.is_dir() {
                search(path, &mut files);
            } else {
                files.push((modified(path), path.clone()));
            }
        }
        files.sort();
        files.dedup();
        Ok(files.into_iter().map(|(_, path)| path).collect())
    }

    /// Imports one file. A file that cannot be read is reported, not an error: the others go on.
    pub fn file(&self, path: &Path) -> treering_engine::Result<FileReport> {
        let mut report = FileReport { path: path.to_path_buf(), ..FileReport::default() };
        let text = match fs::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                let at = error.utf8_error().valid_up_to();
                report.error = Some(format!("it is not UTF-8: byte {at} is not part of any character"));
                return Ok(report);
            }
            Err(error) => {
                report.error = Some(format!("it cannot be read: {error}"));
                return Ok(report);
            }
        };
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        self.source(&Source { path: path.to_path_buf(), text, modified: modified(path) }, report)
    }

    /// Imports a source that is in memory.
    pub fn text(&self, name: &str, text: String) -> treering_engine::Result<FileReport> {
        let source = Source { path: name.into(), text, modified: self.memory.clock().now() };
        self.source(&source, FileReport { path: name.into(), ..FileReport::default() })
    }

    fn source(&self, source: &Source, mut report: FileReport) -> treering_engine::Result<FileReport> {
        let Some(format) = self.options.format.or_else(|| detect(source)) else {
            report.error = Some("its format is not recognised; name it with --format".into());
            return Ok(report);
        };
        report.format = Some(format);
        let mut failure = None;
        let mut take = |found: Found| match self.take(found, &mut report) {
            Ok(()) => Ok(()),
            Err(treering_engine::Error::Invalid(invalid)) => Err(invalid.into()),
            Err(error) => {
                failure = Some(error);
                Err(Unreadable(String::new()))
            }
        };
        let mut sink = Sink::new(&mut take);
        let result = format.read(source, &mut sink);
        let skipped = sink.into_skipped();
        if let Some(error) = failure {
            return Err(error);
        }
        for (why, count) in skipped {
            *report.skipped.entry(why).or_default() += count;
        }
        report.error = result.err().map(|error| error.to_string());
        Ok(report)
    }

    fn take(&self, found: Found, report: &mut FileReport) -> treering_engine::Result<()> {
        report.conversations += 1;
        if let (Some(since), Some(last)) = (self.options.since, found.last_moment())
            && last < since
        {
            *report.skipped.entry(format!("conversations that ended before {since}")).or_default() += 1;
            return Ok(());
        }
        let incoming = self.incoming(found);
        let Appended { created, outcomes, .. } = match self.options.dry_run {
            true => self.memory.preview(incoming)?,
            false => self.memory.append(incoming)?,
        };
        report.conversations_new += u64::from(created);
        for outcome in outcomes {
            match outcome {
                Outcome::Message(_) => report.messages_new += 1,
                Outcome::ToolCall(_) => report.tool_calls_new += 1,
                Outcome::Finished => report.results_new += 1,
                Outcome::Thread => report.threads_new += 1,
                Outcome::Known => report.known += 1,
                Outcome::Differs => {
                    let why = "entries that differ from what is stored, which was kept";
                    *report.skipped.entry(why.into()).or_default() += 1;
                }
                Outcome::Elsewhere => {
                    let why = "entries that another conversation has already";
                    *report.skipped.entry(why.into()).or_default() += 1;
                }
            }
        }
        Ok(())
    }

    fn incoming(&self, found: Found) -> Incoming {
        let Found { about, identity, pieces } = found;
        let (target, matching) = match identity {
            Identity::Named => (Target::Named(about), Matching::None),
            Identity::NamedEverywhere => (Target::Named(about), Matching::Everywhere),
            Identity::ByPosition => (Target::Named(about), Matching::Position),
            Identity::ByContent => (Target::Lineage(about), Matching::Position),
        };
        let entries = pieces.into_iter().map(|(thread, piece)| entry(self.memory, thread, piece)).collect();
        Incoming { target, entries, matching }
    }
}

/// A piece as the engine takes it.
pub(crate) fn entry(memory: &Memory, thread: ThreadName, piece: Piece) -> Entry {
    let what = match piece {
        Piece::Message(said) => return memory.message(thread, said),
        Piece::ToolCall(call) => Arrival::ToolCall(call),
        Piece::ToolResult(call, outcome, at) => Arrival::ToolResult { call, outcome, at },
        Piece::Fork(parent, after) => Arrival::Fork { parent, after },
    };
    Entry { thread, what }
}

/// Every file below a folder that could be a transcript; links are not followed.
fn search(folder: &Path, files: &mut Vec<(Timestamp, PathBuf)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        if kind.is_dir() {
            search(&path, files);
        } else if kind.is_file()
            && matches!(ending.as_deref(), Some("json" | "jsonl" | "ndjson" | "md" | "markdown" | "traj"))
        {
            files.push((modified(&path), path));
        }
    }
}

fn modified(path: &Path) -> Timestamp {
    let modified = fs::metadata(path).and_then(|file| file.modified()).ok();
    let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(0))
}

//! Runs imports: finds the files, parses them, commits new entries and reports the result. A
//! file that cannot be read never stops the others.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::Serialize;
use treering_core::{
    Entry, EntryOutcome, Pause, Timestamp, TitleSource, TombstoneSet, as_slug, redact,
    without_pauses,
};
use treering_engine::{AppendReport, AppendTarget, Engine, EntryBatch, ReplayDetection};

use treering_importers::jsonl;
use treering_importers::{
    Format, Identity, ImportedConversation, PartOutcome, Sink, SourceFile, TranscriptReader, detect,
};

mod sources;
mod title;

use sources::ReadFile;
pub use sources::modified;

use crate::capture::{Checkpoint, CheckpointFolder, EntryIds, TranscriptFile};

/// Options for an import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The format; detected if absent.
    pub format: Option<Format>,
    /// Whether to report what an import would do without storing anything.
    pub dry_run: bool,
    /// Skip conversations that ended before this time.
    pub since: Option<Timestamp>,
    /// The time for entries without one. By default it is the date in the name of the file, or
    /// else its modification time.
    pub date: Option<Timestamp>,
    /// The folder that remembers how far the transcripts of agents were stored, so that live
    /// capture continues there.
    pub checkpoints: Option<CheckpointFolder>,
    /// Skip entries whose time is in one of these pauses of capture.
    pub pauses: Vec<Pause>,
}

/// A slug that was taken, and the one that the conversation got instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SlugChange {
    /// The slug in the source.
    pub requested: String,
    /// The slug in the memory.
    pub assigned: String,
}

/// The result of importing one file.
#[derive(Debug, Clone, Default)]
pub struct FileReport {
    /// The path of the file.
    pub path: PathBuf,
    /// Its format, if recognized.
    pub format: Option<Format>,
    /// Number of conversations in the file.
    pub conversations: u64,
    /// Number of conversations that were created.
    pub conversations_new: u64,
    /// Number of messages that were added.
    pub messages_new: u64,
    /// Number of messages, tool calls and results that were already stored.
    pub known: u64,
    /// Number of tool calls that were added.
    pub tool_calls_new: u64,
    /// Number of tool calls that got their result.
    pub results_new: u64,
    /// Number of threads that were created.
    pub threads_new: u64,
    /// New conversations whose slug was already taken.
    pub slugs_changed: Vec<SlugChange>,
    /// Number of skipped entries or conversations, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// The error, if the file could not be imported completely. Nothing of the conversation
    /// that caused it was stored.
    pub error: Option<String>,
}

impl FileReport {
    /// Whether the import added anything.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.conversations_new
            + self.messages_new
            + self.tool_calls_new
            + self.results_new
            + self.threads_new
            > 0
    }

    fn add(&mut self, appended: &AppendReport, requested: Option<String>) {
        self.conversations_new += u64::from(appended.created);
        let assigned = &appended.conversation.slug;
        if let Some(requested) =
            requested.filter(|requested| appended.created && requested != assigned)
        {
            self.slugs_changed.push(SlugChange { requested, assigned: assigned.clone() });
        }
        self.skip_many("private passages", appended.private_passages.into());
        self.skip_many("words that match an excluded pattern", appended.excluded_words.into());
        for outcome in &appended.outcomes {
            match outcome {
                EntryOutcome::Message(_) => self.messages_new += 1,
                EntryOutcome::ToolCall(_) => self.tool_calls_new += 1,
                EntryOutcome::Finished => self.results_new += 1,
                EntryOutcome::Thread => self.threads_new += 1,
                EntryOutcome::TurnEnded => {}
                EntryOutcome::AlreadyStored => self.known += 1,
                EntryOutcome::ContentDiffers => {
                    self.skip("entries whose stored version differs and was kept");
                }
                EntryOutcome::Forgotten => self.skip("entries that were forgotten"),
                EntryOutcome::Excluded => self.skip("entries in an excluded folder"),
                EntryOutcome::InOtherConversation => {
                    self.skip("entries that are already in another conversation");
                }
            }
        }
    }

    fn skip(&mut self, reason: &str) {
        self.skip_many(reason, 1);
    }

    fn skip_many(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.skipped.entry(reason.to_owned()).or_default() += count;
        }
    }
}

/// A parsed file, ready to be stored.
struct Prepared {
    report: FileReport,
    conversations: Vec<EntryBatch>,
    /// The checkpoint of a transcript that may grow, and its offset once everything is stored.
    checkpoint: Option<(Checkpoint, u64)>,
}

/// The result of an import.
#[derive(Debug, Clone, Default)]
pub struct ImportReport {
    /// The result for each file.
    pub files: Vec<FileReport>,
}

impl ImportReport {
    /// The sum over all files.
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
            total.slugs_changed.extend(file.slugs_changed.iter().cloned());
            for (reason, count) in &file.skipped {
                *total.skipped.entry(reason.clone()).or_default() += count;
            }
        }
        total
    }
}

/// Imports files into a memory.
pub struct Importer<'a> {
    /// The engine to import into.
    pub engine: &'a Engine,
    /// The options.
    pub options: ImportOptions,
}

impl Importer<'_> {
    /// Lists the files at these paths and below these folders, oldest modification first. A path
    /// that does not exist stays in the list, so that [`Importer::run`] reports it.
    #[must_use]
    pub fn files(paths: &[PathBuf]) -> Vec<PathBuf> {
        Self::find_files(paths, || ())
    }

    /// Like [`Importer::files`]; calls `found` for each file below a folder.
    pub fn find_files(paths: &[PathBuf], mut found: impl FnMut()) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for path in paths {
            match path.is_dir() {
                true => sources::search(path, &mut files, &mut found),
                false => files.push((modified(path), path.clone())),
            }
        }
        files.sort();
        files.dedup();
        files.into_iter().map(|(_, path)| path).collect()
    }

    /// Imports files in order. Reports a file that cannot be read and continues with the next.
    /// Parses the next file while the current one is stored. `done` receives the report of each
    /// file.
    pub fn run(
        &self,
        files: &[PathBuf],
        mut done: impl FnMut(&FileReport),
    ) -> treering_engine::Result<ImportReport> {
        let mut report = ImportReport::default();
        if !self.options.dry_run {
            // First of all, so that an older export does not bring back what was forgotten later.
            for tombstones in files.iter().filter_map(|path| tombstones_of(path)) {
                self.engine.take_over_tombstones(&tombstones)?;
            }
        }
        std::thread::scope(|scope| {
            let (sender, prepared) = std::sync::mpsc::sync_channel(1);
            scope.spawn(move || {
                // The receiver is closed once storing has failed.
                files.iter().all(|path| {
                    let mut is_open = true;
                    sources::read(path, &mut |file| {
                        let prepared = self.prepare_file(file);
                        is_open = prepared.is_none_or(|prepared| sender.send(prepared).is_ok());
                        is_open
                    });
                    is_open
                })
            });
            for file in prepared {
                let file = self.store(file)?;
                done(&file);
                report.files.push(file);
            }
            Ok(report)
        })
    }

    /// Imports a source that is already in memory.
    pub fn text(&self, name: &str, text: String) -> treering_engine::Result<FileReport> {
        let source = SourceFile { path: name.into(), text, modified: self.engine.clock().now() };
        self.store(self.prepare(&source))
    }

    /// Parses a file. Returns `None` for a file in an archive that holds no conversations.
    fn prepare_file(&self, file: ReadFile) -> Option<Prepared> {
        let ReadFile { path, text, is_marked, is_archived } = file;
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                let report = FileReport { path, error: Some(error), ..FileReport::default() };
                return Some(Prepared { report, conversations: Vec::new(), checkpoint: None });
            }
        };
        let date = self.options.date.or_else(|| sources::date_in_name(&path));
        let modified = date.unwrap_or_else(|| modified(&path));
        let source = SourceFile { path, text, modified };
        if is_archived && detect(&source).is_none() {
            return None;
        }
        let prepared = self.prepare(&source);
        // A byte order mark shifts the offset, and archives do not grow.
        let checkpoint = prepared.checkpoint.filter(|_| !is_marked && !is_archived);
        Some(Prepared { checkpoint, ..prepared })
    }

    /// Parses a source.
    fn prepare(&self, source: &SourceFile) -> Prepared {
        let mut report = FileReport { path: source.path.clone(), ..FileReport::default() };
        let Some(format) = self.options.format.or_else(|| detect(source)) else {
            report.error = Some(unrecognized(source));
            return Prepared { report, conversations: Vec::new(), checkpoint: None };
        };
        report.format = Some(format);
        let mut conversations = Vec::new();
        let (mut old, mut paused, mut private) = (0, 0, 0);
        let mut take = |mut imported: ImportedConversation| {
            report.conversations += 1;
            // Before a title is made of them.
            private += imported.entries.iter_mut().map(leave_out_private).sum::<u64>();
            if imported.conversation.title.is_none()
                && let Some(title) = title::title(&imported.entries, &source.path)
            {
                imported.conversation.title = Some(redact(&title).0.into_owned());
                imported.conversation.title_source = TitleSource::FirstMessage;
            }
            let ended = imported.last_moment();
            let entries = imported.entries.len();
            imported.entries = without_pauses(imported.entries, &self.options.pauses);
            paused += (entries - imported.entries.len()) as u64;
            if self.options.since.is_some_and(|since| ended.is_some_and(|ended| ended < since)) {
                old += 1;
            } else {
                conversations.push(entry_batch(imported));
            }
            Ok(())
        };
        let mut sink = Sink::new(&mut take);
        let mut reader =
            TranscriptReader::new(format).filter(|_| self.options.checkpoints.is_some());
        let result = match &mut reader {
            Some(reader) => reader.read(source, &mut sink).map(Some),
            None => format.read(source, &mut sink).map(|()| None),
        };
        report.skipped = sink.into_skipped();
        if let Some(since) = self.options.since.filter(|_| old > 0) {
            report.skipped.insert(format!("conversations that ended before {since}"), old);
        }
        report.skip_many("entries from a pause of capture", paused);
        report.skip_many("private passages", private);
        let (outcome, error) = match result {
            Ok(outcome) => (outcome, None),
            Err(error) => (None, Some(error.to_string())),
        };
        report.error = error;
        if report.error.is_none() && report.conversations == 0 {
            let other = detect(source).filter(|other| *other != format);
            report.error = other.map(|other| {
                let (format, other) = (format.as_str(), other.as_str());
                format!("it contains nothing in the format {format}; it looks like {other}")
            });
        }
        let checkpoint = match (reader, outcome) {
            (Some(reader), Some(PartOutcome::Read(end))) if old == 0 => {
                Some((Checkpoint::unstored(reader), end as u64))
            }
            _ => None,
        };
        Prepared { report, conversations, checkpoint }
    }

    /// Stores a parsed file. Invalid conversations are reported with their file.
    fn store(&self, prepared: Prepared) -> treering_engine::Result<FileReport> {
        let Prepared { mut report, conversations, mut checkpoint } = prepared;
        for incoming in conversations {
            let note = EntryIds::of(&incoming.entries);
            let requested = match &incoming.target {
                AppendTarget::FindOrCreate(conversation)
                | AppendTarget::MatchContent(conversation) => {
                    conversation.slug.as_deref().map(as_slug)
                }
                AppendTarget::Existing(_) => None,
            };
            let appended = match self.options.dry_run {
                true => self.engine.preview(incoming),
                false => self.engine.append(incoming),
            };
            match appended {
                Ok(appended) => {
                    report.add(&appended, requested);
                    checkpoint.iter_mut().for_each(|(it, _)| it.note(note.clone(), &appended));
                }
                Err(treering_engine::Error::Invalid(invalid)) => {
                    report.error.get_or_insert_with(|| invalid.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        if let (Some((checkpoint, offset)), Some(format), None, false) =
            (checkpoint, report.format, &report.error, self.options.dry_run)
        {
            // Without a checkpoint, live capture reads the transcript from its start.
            drop(self.save(format, &report.path, checkpoint, offset));
        }
        Ok(report)
    }

    fn save(
        &self,
        format: Format,
        path: &Path,
        mut checkpoint: Checkpoint,
        offset: u64,
    ) -> io::Result<()> {
        let Some(folder) = &self.options.checkpoints else { return Ok(()) };
        checkpoint.advance(&mut TranscriptFile::open(path)?, offset)?;
        folder.save(format, path, &checkpoint)
    }
}

/// The entries of a conversation for the engine, with its kind of identity.
pub(crate) fn entry_batch(imported: ImportedConversation) -> EntryBatch {
    let ImportedConversation { conversation, identity, entries } = imported;
    let (target, matching) = match identity {
        Identity::Named => (AppendTarget::FindOrCreate(conversation), ReplayDetection::None),
        Identity::NamedEverywhere => {
            (AppendTarget::FindOrCreate(conversation), ReplayDetection::AcrossConversations)
        }
        Identity::ByPosition => {
            (AppendTarget::FindOrCreate(conversation), ReplayDetection::ByPosition)
        }
        Identity::ByPrompt => (AppendTarget::FindOrCreate(conversation), ReplayDetection::ByPrompt),
        Identity::ByContent => {
            (AppendTarget::MatchContent(conversation), ReplayDetection::ByPosition)
        }
    };
    EntryBatch { target, entries, replay_detection: matching }
}

fn leave_out_private(entry: &mut Entry) -> u64 {
    entry.leave_out_private().into()
}

/// The tombstones in the first line of an export.
fn tombstones_of(path: &Path) -> Option<TombstoneSet> {
    const HEADER: &[u8] = b"{\"type\":\"treering\"";
    // Opening a FIFO would wait for its writer.
    if !fs::metadata(path).is_ok_and(|file| file.is_file()) {
        return None;
    }
    let mut file = BufReader::new(fs::File::open(path).ok()?);
    if !file.fill_buf().ok()?.starts_with(HEADER) {
        return None;
    }
    let mut line = String::new();
    file.read_line(&mut line).ok()?;
    jsonl::tombstones(&line)
}

/// The likely reason why the format of a source is unknown.
fn unrecognized(source: &SourceFile) -> String {
    let text = source.text.trim();
    if text.is_empty() {
        return "it is empty".into();
    }
    let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).map(|_| ());
    let first = text.lines().next().unwrap_or_default();
    match is_json(text).or_else(|error| is_json(first).map_err(|_| error)) {
        Err(error) if text.starts_with(['{', '[']) => format!("it is not valid JSON: {error}"),
        _ => "its format is not recognized; name it with --format".into(),
    }
}

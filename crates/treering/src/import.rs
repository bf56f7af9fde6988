//! Runs imports: finds the files, parses them, commits new entries and reports the result. A
//! file that cannot be read never stops the others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::Serialize;
use treering_core::{EntryOutcome, Timestamp, as_slug};
use treering_engine::{AppendReport, AppendTarget, Engine, EntryBatch, ReplayDetection};

use treering_importers::{Format, Identity, ImportedConversation, Sink, SourceFile, detect};

/// Options for an import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The format; detected if absent.
    pub format: Option<Format>,
    /// Whether to report what an import would do without storing anything.
    pub dry_run: bool,
    /// Skip conversations that ended before this time.
    pub since: Option<Timestamp>,
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
                EntryOutcome::InOtherConversation => {
                    self.skip("entries that are already in another conversation");
                }
            }
        }
    }

    fn skip(&mut self, reason: &str) {
        *self.skipped.entry(reason.to_owned()).or_default() += 1;
    }
}

/// A parsed file, ready to be stored.
struct Prepared {
    report: FileReport,
    conversations: Vec<EntryBatch>,
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
        let mut files = Vec::new();
        for path in paths {
            match path.is_dir() {
                true => search(path, &mut files),
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
        std::thread::scope(|scope| {
            let (sender, prepared) = std::sync::mpsc::sync_channel(1);
            scope.spawn(move || {
                // The receiver is closed once storing has failed.
                files.iter().all(|path| sender.send(self.prepare_file(path)).is_ok())
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

    fn prepare_file(&self, path: &Path) -> Prepared {
        let unreadable = |reason: String| {
            let report = FileReport {
                path: path.to_path_buf(),
                error: Some(reason),
                ..FileReport::default()
            };
            Prepared { report, conversations: Vec::new() }
        };
        match fs::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => {
                let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
                self.prepare(&SourceFile {
                    path: path.to_path_buf(),
                    text,
                    modified: modified(path),
                })
            }
            Ok(Err(error)) => {
                let at = error.utf8_error().valid_up_to();
                unreadable(format!("it is not UTF-8: byte {at} is not part of any character"))
            }
            Err(error) => unreadable(format!("it cannot be read: {error}")),
        }
    }

    /// Parses a source.
    fn prepare(&self, source: &SourceFile) -> Prepared {
        let mut report = FileReport { path: source.path.clone(), ..FileReport::default() };
        let Some(format) = self.options.format.or_else(|| detect(source)) else {
            report.error = Some(unrecognised(source));
            return Prepared { report, conversations: Vec::new() };
        };
        report.format = Some(format);
        let mut conversations = Vec::new();
        let mut old = 0;
        let mut take = |imported: ImportedConversation| {
            report.conversations += 1;
            let ended = imported.last_moment();
            if self.options.since.is_some_and(|since| ended.is_some_and(|ended| ended < since)) {
                old += 1;
            } else {
                conversations.push(Self::incoming(imported));
            }
            Ok(())
        };
        let mut sink = Sink::new(&mut take);
        let result = format.read(source, &mut sink);
        report.skipped = sink.into_skipped();
        if let Some(since) = self.options.since.filter(|_| old > 0) {
            report.skipped.insert(format!("conversations that ended before {since}"), old);
        }
        report.error = result.err().map(|error| error.to_string());
        if report.error.is_none() && report.conversations == 0 {
            let other = detect(source).filter(|other| *other != format);
            report.error = other.map(|other| {
                let (format, other) = (format.as_str(), other.as_str());
                format!("it contains nothing in the format {format}; it looks like {other}")
            });
        }
        Prepared { report, conversations }
    }

    /// Stores a parsed file. Invalid conversations are reported with their file.
    fn store(&self, prepared: Prepared) -> treering_engine::Result<FileReport> {
        let Prepared { mut report, conversations } = prepared;
        for incoming in conversations {
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
                Ok(appended) => report.add(&appended, requested),
                Err(treering_engine::Error::Invalid(invalid)) => {
                    report.error.get_or_insert_with(|| invalid.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }

    fn incoming(imported: ImportedConversation) -> EntryBatch {
        let ImportedConversation { conversation, identity, entries } = imported;
        let (target, matching) = match identity {
            Identity::Named => (AppendTarget::FindOrCreate(conversation), ReplayDetection::None),
            Identity::NamedEverywhere => {
                (AppendTarget::FindOrCreate(conversation), ReplayDetection::AcrossConversations)
            }
            Identity::ByPosition => {
                (AppendTarget::FindOrCreate(conversation), ReplayDetection::ByPosition)
            }
            Identity::ByContent => {
                (AppendTarget::MatchContent(conversation), ReplayDetection::ByPosition)
            }
        };
        EntryBatch { target, entries, replay_detection: matching }
    }
}

/// The likely reason why the format of a source is unknown.
fn unrecognised(source: &SourceFile) -> String {
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

/// Adds every file below a folder that could be a transcript. Does not follow symbolic links.
fn search(folder: &Path, files: &mut Vec<(Timestamp, PathBuf)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        if kind.is_dir() {
            search(&path, files);
        } else if kind.is_file()
            && matches!(
                ending.as_deref(),
                Some("json" | "jsonl" | "ndjson" | "md" | "markdown" | "traj")
            )
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

//! The spool: a folder per tenant for captures that are not stored yet.
//!
//! A hook writes each capture here before it opens the store, so that a store that is busy or
//! unavailable, or an agent that ends the hook early, loses nothing. Each capture is one file,
//! readable only by this user and renamed into place complete. Replay deletes a file once it is
//! stored, and the ids of the source prevent duplicates. A capture of one tenant is never stored
//! for another.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use treering_core::{
    ContentHash, ConversationState, ExternalId, Invalid, Labels, Pause, TenantId, Timestamp,
    TitleSource, lines_without_private, without_pauses,
};
use treering_engine::{
    AppendTarget, Engine, EntryBatch, Error, JobScope, NewConversation, ReplayDetection, Worker,
};
use treering_importers::Format;
use treering_importers::jsonl::{JsonLine, parse_line};

use super::{
    CaptureError, Checkpoint, CheckpointFolder, TranscriptFile, capture_copy, read_pauses,
};
use crate::import::{ImportOptions, Importer};
use crate::private_file;

/// Extension of the file with a hook's latest error, in the checkpoint folder.
pub const HOOK_FAILURE: &str = "failure";

const FOLDER: &str = "spool";
/// The subfolder for captures made while the settings, and so the tenant, were unreadable.
const UNSETTLED: &str = "unsettled";
/// Extension of a file with entries.
const ENTRIES: &str = "json";
/// Extension of a file with the end of a transcript: a [`PartHeader`] and a line break, then the
/// lines of the transcript without private passages.
const PART: &str = "part";
/// Number of bytes compared to recognize the copied transcript.
const COMPARED_BYTES: u64 = 4096;

/// The content captured by one hook call.
#[derive(Debug, Clone, PartialEq)]
pub enum HookCapture {
    /// Transcripts that the agent appends to.
    Transcripts {
        /// The session's, and those of its sub-agents.
        transcripts: Vec<TranscriptRef>,
        /// The key of the session, if it has ended.
        ended: Option<String>,
    },
    /// Entries and their conversation: `key`, `title`, `cwd`, `labels` and `entries`, each as in
    /// the JSON Lines format.
    Entries(Value),
}

/// A transcript on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptRef {
    /// Its format.
    pub format: Format,
    /// Its path.
    pub path: PathBuf,
}

/// The spool of one tenant.
pub struct Spool {
    folder: PathBuf,
    home: PathBuf,
    /// The checkpoints of the tenant, if the tenant is known.
    checkpoints: Option<CheckpointFolder>,
}

/// The content of a file with entries.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SpooledEntries {
    /// A complete transcript. Earlier versions wrote it.
    Transcript { format: String, name: PathBuf, text: String },
    /// Entries and their conversation.
    Entries(Value),
    /// The end of the session with this key.
    End(String),
}

/// Entries and their conversation, as a hook captures them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CapturedEntries {
    key: String,
    title: Option<String>,
    cwd: Option<String>,
    #[serde(default)]
    labels: Labels,
    entries: Vec<Box<RawValue>>,
}

/// The first line of a file with the end of a transcript.
#[derive(Serialize, Deserialize)]
struct PartHeader {
    format: String,
    transcript: PathBuf,
    captured_at: Timestamp,
    /// The checkpoint where the copy begins; `None` at the start of the transcript.
    checkpoint: Option<Checkpoint>,
}

impl PartHeader {
    fn offset(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.offset)
    }
}

/// The copy of the end of a transcript.
struct SpooledPart {
    file: File,
    header: PartHeader,
    /// The position of the copied bytes in the file.
    position: u64,
    /// The first copied bytes.
    first: Vec<u8>,
}

impl SpooledPart {
    fn open(path: &Path) -> Result<Self, ReplayError> {
        // Another process may have replayed the file first.
        let unreadable = |_: io::Error| ReplayError::Unreadable;
        let mut lines = BufReader::new(File::open(path).map_err(unreadable)?);
        let mut header = String::new();
        lines.read_line(&mut header).map_err(unreadable)?;
        let position = header.len() as u64;
        let mut first = Vec::new();
        lines.by_ref().take(COMPARED_BYTES).read_to_end(&mut first).map_err(unreadable)?;
        let header = serde_json::from_str(&header)
            .map_err(|error| ReplayError::Invalid(error.to_string()))?;
        Ok(Self { file: lines.into_inner(), header, position, first })
    }

    /// Whether a transcript has the same bytes at the place where the copy begins.
    fn begins_like(&self, transcript: &mut TranscriptFile) -> bool {
        let live = transcript.read(self.header.offset(), COMPARED_BYTES);
        live.is_ok_and(|live| begin_alike(&live, &self.first))
    }
}

/// The result of a replay.
#[derive(Debug, Default)]
pub struct ReplayReport {
    /// The number of captures that were stored.
    pub stored: usize,
    /// Why captures can never be stored. Their files end with `.bad` now.
    pub refused: Vec<String>,
}

/// The reason why a capture was not stored.
enum ReplayError {
    /// The store failed; the capture stays for later.
    Store(Error),
    /// The capture cannot be read now; it stays for later.
    Unreadable,
    /// The capture is invalid.
    Invalid(String),
}

impl From<Error> for ReplayError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(_) => Self::Store(error),
            other => Self::Invalid(other.to_string()),
        }
    }
}

impl From<Invalid> for ReplayError {
    fn from(error: Invalid) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<CaptureError> for ReplayError {
    fn from(error: CaptureError) -> Self {
        match error {
            CaptureError::Engine(error) => error.into(),
            CaptureError::File { .. } => Self::Unreadable,
            CaptureError::Transcript { .. } => Self::Invalid(error.to_string()),
        }
    }
}

impl Spool {
    /// Prepares a forget, so that it reaches everything outside of the store: stores the captures of
    /// this tenant, and deletes invalid ones and the errors of hooks. Returns why some may remain.
    pub fn prepare_forget(home: &Path, engine: &Engine) -> treering_engine::Result<Option<String>> {
        let spool = Self::for_tenant(home, engine.tenant());
        spool.replay(engine)?;
        let deleted = delete_files(&spool.folder, &["bad", "new"])
            // An error may quote what could not be read.
            .and_then(|()| delete_files(&home.join(CheckpointFolder::NAME), &[HOOK_FAILURE]));
        Ok(match deleted {
            Err(error) => Some(format!("the spool cannot be emptied: {error}")),
            Ok(()) if !spool.is_empty() => Some("captures in the spool cannot be read now".into()),
            Ok(()) if !Self::for_unknown_tenant(home).is_empty() => {
                Some("the spool has captures from a time when the settings were unreadable".into())
            }
            Ok(()) => None,
        })
    }

    /// The spool of a tenant. The default tenant uses the spool folder directly; other tenants
    /// use subfolders named by a hash, which is safe as a file name for any tenant id.
    #[must_use]
    pub fn for_tenant(home: &Path, tenant: &TenantId) -> Self {
        let spool = home.join(FOLDER);
        let folder = match *tenant == TenantId::default_tenant() {
            true => spool,
            false => spool.join(ContentHash::of_fields(&[tenant.as_str().as_bytes()]).to_string()),
        };
        let checkpoints = Some(CheckpointFolder::new(home, tenant));
        Self { folder, home: home.to_path_buf(), checkpoints }
    }

    /// The spool for captures whose tenant is unknown because the settings are unreadable.
    #[must_use]
    pub fn for_unknown_tenant(home: &Path) -> Self {
        let folder = home.join(FOLDER).join(UNSETTLED);
        Self { folder, home: home.to_path_buf(), checkpoints: None }
    }

    /// Saves a capture for later. Saves only what is new in a transcript.
    pub fn keep(&self, captured: &HookCapture, now: Timestamp) -> io::Result<()> {
        match captured {
            HookCapture::Transcripts { transcripts, ended } => {
                // The session comes before its sub-agents, and its end comes last.
                let mut times = (0..).map(|order| now.plus_micros(order));
                for (transcript, at) in transcripts.iter().zip(&mut times) {
                    self.keep_part(transcript, at)?;
                }
                match (ended, times.next()) {
                    (Some(key), Some(at)) => {
                        self.keep_entries(&SpooledEntries::End(key.clone()), at)
                    }
                    _ => Ok(()),
                }
            }
            HookCapture::Entries(request) => {
                self.keep_entries(&SpooledEntries::Entries(request.clone()), now)
            }
        }
    }

    fn keep_entries(&self, entries: &SpooledEntries, now: Timestamp) -> io::Result<()> {
        let bytes = serde_json::to_vec(entries)?;
        let identity = ContentHash::of_fields(&[&bytes]);
        let name = format!("{:020}-{identity}.{ENTRIES}", now.as_micros());
        self.write(&name, |file| file.write_all(&bytes))
    }

    /// Whether the spool is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files().is_empty()
    }

    /// Waits until no other process stores the captures in the background.
    pub fn lock(&self) -> io::Result<File> {
        let lock = File::open(&self.folder)?;
        lock.lock()?;
        Ok(lock)
    }

    fn keep_part(&self, transcript: &TranscriptRef, now: Timestamp) -> io::Result<()> {
        let TranscriptRef { format, path } = transcript;
        let mut file = match TranscriptFile::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut checkpoint = self.checkpoints.as_ref().and_then(|it| it.load(*format, path));
        if let Some(stored) = &checkpoint
            && !stored.matches(&mut file)?
        {
            checkpoint = None;
        }
        let (format, transcript) = (format.as_str().to_owned(), path.clone());
        let header = PartHeader { format, transcript, captured_at: now, checkpoint };
        let offset = header.offset();
        if file.len()? <= offset {
            return Ok(());
        }
        let identity = ContentHash::of_fields(&[
            header.format.as_bytes(),
            path.as_os_str().as_encoded_bytes(),
        ]);
        let ending = format!("-{identity}-{offset}.{PART}");
        let name = format!("{:020}{ending}", now.as_micros());
        self.write(&name, |out| {
            let mut line = serde_json::to_vec(&header)?;
            line.push(b'\n');
            out.write_all(&line)?;
            let mut source = File::open(path)?;
            source.seek(SeekFrom::Start(offset))?;
            copy_without_private(&mut BufReader::new(source), out)
        })?;
        // This copy continues the earlier ones from the same checkpoint, unless the agent has
        // replaced the transcript.
        for earlier in self.files() {
            let earlier_name = earlier.file_name().unwrap_or_default().to_string_lossy();
            if earlier_name.ends_with(&ending)
                && *earlier_name < *name
                && SpooledPart::open(&earlier).is_ok_and(|part| part.begins_like(&mut file))
            {
                drop(fs::remove_file(&earlier));
            }
        }
        Ok(())
    }

    fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        private_file::create_folder(&self.folder)?;
        let new = self.folder.join(format!("{name}.{}.new", std::process::id()));
        content(&mut private_file::open(&new, OpenOptions::new().create(true).truncate(true))?)?;
        fs::rename(&new, self.folder.join(name))
    }

    /// The captures that wait, oldest first.
    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        let is_capture = |extension: &std::ffi::OsStr| extension == ENTRIES || extension == PART;
        files.retain(|path| path.extension().is_some_and(is_capture));
        files.sort();
        files
    }

    /// Stores all captures, oldest first. Stops and keeps the rest if the store fails; renames a
    /// capture that is invalid to `.bad`.
    pub fn replay(&self, engine: &Engine) -> treering_engine::Result<ReplayReport> {
        let mut report = ReplayReport::default();
        for path in self.files() {
            let stored = match path.extension().is_some_and(|extension| extension == PART) {
                true => self.store_part(engine, &path),
                false => self.store_entries(engine, &path),
            };
            match stored {
                Ok(()) => {
                    drop(fs::remove_file(&path));
                    report.stored += 1;
                }
                Err(ReplayError::Store(error)) => return Err(error),
                Err(ReplayError::Unreadable) => {}
                Err(ReplayError::Invalid(reason)) => {
                    drop(fs::rename(&path, path.with_extension("bad")));
                    report.refused.push(reason);
                }
            }
        }
        Ok(report)
    }

    /// Stores what is new in a transcript, from the transcript itself or, if it was deleted or
    /// replaced, from the copy.
    fn store_part(&self, engine: &Engine, path: &Path) -> Result<(), ReplayError> {
        let part = SpooledPart::open(path)?;
        let format = Format::ALL.into_iter().find(|format| format.as_str() == part.header.format);
        let start = format.and_then(Checkpoint::start);
        let (Some(format), Some(start)) = (format, start) else {
            return Err(ReplayError::Invalid(format!("unknown format {}", part.header.format)));
        };
        let transcript = &part.header.transcript;
        if TranscriptFile::open(transcript).is_ok_and(|mut live| part.begins_like(&mut live)) {
            let folder = CheckpointFolder::new(&self.home, engine.tenant());
            return Ok(folder.capture(engine, format, transcript)?);
        }
        let SpooledPart { file, position, header, .. } = part;
        let offset = header.offset();
        let PartHeader { transcript, captured_at, checkpoint, .. } = header;
        let mut copy = TranscriptFile::copy(file, transcript, captured_at, offset, position);
        let pauses = read_pauses(&self.home).map_err(ReplayError::Invalid)?;
        Ok(capture_copy(engine, &pauses, checkpoint.unwrap_or(start), &mut copy)?)
    }

    fn store_entries(&self, engine: &Engine, path: &Path) -> Result<(), ReplayError> {
        // Another process may have replayed the file first.
        let Ok(bytes) = fs::read(path) else { return Err(ReplayError::Unreadable) };
        let invalid = |error: serde_json::Error| ReplayError::Invalid(error.to_string());
        let pauses = read_pauses(&self.home).map_err(ReplayError::Invalid)?;
        match serde_json::from_slice(&bytes).map_err(invalid)? {
            SpooledEntries::Transcript { format, name, text } => {
                let format = Format::ALL.into_iter().find(|it| it.as_str() == format);
                let options = ImportOptions { format, pauses, ..ImportOptions::default() };
                let importer = Importer { engine, options };
                let report = importer.text(&name.display().to_string(), text)?;
                report.error.map_or(Ok(()), |error| Err(ReplayError::Invalid(error)))
            }
            SpooledEntries::Entries(captured) => append(engine, &pauses, &captured),
            SpooledEntries::End(key) => Ok(end_session(engine, &key)?),
        }
    }
}

/// Deletes the files of a folder that have one of these extensions.
fn delete_files(folder: &Path, extensions: &[&str]) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let extension = path.extension().and_then(std::ffi::OsStr::to_str);
        if extension.is_some_and(|extension| extensions.contains(&extension)) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Copies the lines of a transcript without private passages.
fn copy_without_private(source: &mut impl BufRead, out: &mut impl io::Write) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if source.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        match std::str::from_utf8(&line) {
            Ok(text) => out.write_all(lines_without_private(text).as_bytes())?,
            // The importer refuses it.
            Err(_) => out.write_all(&line)?,
        }
    }
}

/// Whether a transcript begins like a copy of it, which has no private passages. Of a longer
/// transcript `live` has the first [`COMPARED_BYTES`], whose last line may be incomplete.
fn begin_alike(live: &[u8], copied: &[u8]) -> bool {
    let mut kept = Vec::new();
    if copy_without_private(&mut &*live, &mut kept).is_err() {
        return false;
    }
    let whole_lines =
        kept.iter().rposition(|byte| *byte == b'\n').map_or(kept.len(), |end| end + 1);
    let is_cut = live.len() as u64 == COMPARED_BYTES;
    kept.starts_with(copied) || (is_cut && copied.starts_with(&kept[..whole_lines]))
}

/// Closes the conversation of a session that has ended, so that all of it is summarized. A new
/// message opens it again. Does nothing for a session without messages.
fn end_session(engine: &Engine, key: &str) -> treering_engine::Result<()> {
    let Ok(found) = engine.find(key) else { return Ok(()) };
    if found.state == ConversationState::Open {
        engine.set_state(found.id, ConversationState::Closed)?;
    }
    // The agent's MCP server, which runs the jobs while the session goes on, ends with it.
    if engine.is_local() {
        let scope = JobScope { conversation: Some(found.id), ..JobScope::default() };
        Worker::new(engine.clone())?.run(&scope, &|_, _| {})?;
    }
    Ok(())
}

/// Stores captured entries, without what was said during a pause.
fn append(engine: &Engine, pauses: &[Pause], captured: &Value) -> Result<(), ReplayError> {
    // Round-trip through text, because `RawValue` keeps entries exactly as written.
    let captured: CapturedEntries = serde_json::from_str(&captured.to_string())
        .map_err(|error| ReplayError::Invalid(format!("invalid entries: {error}")))?;
    let now = engine.clock().now();
    let mut entries = Vec::with_capacity(captured.entries.len());
    for raw in &captured.entries {
        match parse_line(raw.get(), now) {
            Ok(JsonLine::Entries(line)) => entries.extend(line),
            Ok(JsonLine::Header | JsonLine::Conversation(_)) => {
                return Err(ReplayError::Invalid("the capture contains a header or a conversation line where an entry is expected"
                        .into()));
            }
            Err(error) => return Err(ReplayError::Invalid(error.to_string())),
        }
    }
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(ExternalId::new(captured.key)?),
        title: captured.title,
        title_source: TitleSource::Source,
        cwd: captured.cwd,
        labels: captured.labels,
        ..NewConversation::default()
    });
    let entries = without_pauses(entries, pauses);
    if entries.is_empty() {
        return Ok(());
    }
    engine.append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })?;
    Ok(())
}

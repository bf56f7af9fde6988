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
use treering::capture::{CaptureError, Checkpoint, CheckpointFolder, TranscriptFile, capture_copy};
use treering::import::{ImportOptions, Importer};
use treering::importers::Format;
use treering_core::{
    ContentHash, ConversationState, Pause, TenantId, Timestamp, lines_without_private,
};
use treering_engine::{Engine, JobScope, Worker};

use super::{HookCapture, TranscriptRef, read_pauses};
use crate::private_file;
use crate::service::requests::{AppendRequest, MAX_ENTRIES};
use crate::service::{ServiceError, append};

const FOLDER: &str = "spool";
/// The subfolder for captures made while the settings, and so the tenant, were unreadable.
const UNSETTLED: &str = "unsettled";
/// The ending of a file with entries.
const ENTRIES: &str = "json";
/// The ending of a file with the end of a transcript: a [`PartHeader`] and a line break, then the
/// lines of the transcript without private passages.
const PART: &str = "part";
/// The number of bytes that tell whether a transcript is the one that was copied.
const COMPARED_BYTES: u64 = 4096;

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
    /// The body of a `POST /v1/append` request.
    Entries(Value),
    /// The end of the session with this key.
    End(String),
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
    Store(treering_engine::Error),
    /// The capture cannot be read now; it stays for later.
    Unreadable,
    /// The capture is invalid.
    Invalid(String),
}

impl From<ServiceError> for ReplayError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Engine(error @ treering_engine::Error::Store(_)) => Self::Store(error),
            other => Self::Invalid(other.to_string()),
        }
    }
}

impl From<CaptureError> for ReplayError {
    fn from(error: CaptureError) -> Self {
        match error {
            CaptureError::Engine(error) => ServiceError::from(error).into(),
            CaptureError::File { .. } => Self::Unreadable,
            CaptureError::Transcript { .. } => Self::Invalid(error.to_string()),
        }
    }
}

impl Spool {
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

    /// Whether no capture waits.
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
        let is_capture = |ending: &std::ffi::OsStr| ending == ENTRIES || ending == PART;
        files.retain(|path| path.extension().is_some_and(is_capture));
        files.sort();
        files
    }

    /// Stores all captures, oldest first. Stops and keeps the rest if the store fails; renames a
    /// capture that is invalid to `.bad`.
    pub fn replay(&self, engine: &Engine) -> treering_engine::Result<ReplayReport> {
        let mut report = ReplayReport::default();
        for path in self.files() {
            let stored = match path.extension().is_some_and(|ending| ending == PART) {
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
                let report =
                    importer.text(&name.display().to_string(), text).map_err(ServiceError::from)?;
                report.error.map_or(Ok(()), |error| Err(ReplayError::Invalid(error)))
            }
            SpooledEntries::Entries(request) => Ok(append_all(engine, &pauses, &request)?),
            SpooledEntries::End(key) => Ok(end_session(engine, &key)?),
        }
    }

    /// Deletes the captures that could not be stored and interrupted ones, because they may have
    /// content that is being forgotten.
    pub fn delete_invalid(&self) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(()) };
        for entry in entries {
            let path = entry?.path();
            let is_leftover =
                |extension: &std::ffi::OsStr| extension == "bad" || extension == "new";
            if path.extension().is_some_and(is_leftover) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
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
fn end_session(engine: &Engine, key: &str) -> Result<(), ServiceError> {
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

fn append_all(engine: &Engine, pauses: &[Pause], request: &Value) -> Result<(), ServiceError> {
    // Round-trip through text, because `RawValue` keeps entries exactly as written.
    let mut request: AppendRequest = serde_json::from_str(&request.to_string())
        .map_err(|error| ServiceError::InvalidRequest(format!("invalid entries: {error}")))?;
    // A long session exceeds the limit of one request.
    let mut entries = std::mem::take(&mut request.entries);
    entries.retain(|entry| !is_paused(entry, pauses));
    for some in entries.chunks(MAX_ENTRIES) {
        request.entries = some.to_vec();
        append(engine, &request)?;
    }
    Ok(())
}

/// Whether an entry has a time in a pause.
fn is_paused(entry: &RawValue, pauses: &[Pause]) -> bool {
    #[derive(Deserialize)]
    struct EntryTime {
        at: Option<String>,
    }
    let timed: Option<EntryTime> = serde_json::from_str(entry.get()).ok();
    let at = timed.and_then(|timed| timed.at?.parse::<Timestamp>().ok());
    at.is_some_and(|at| pauses.iter().any(|pause| pause.contains(at)))
}

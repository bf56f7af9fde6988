//! Live capture: stores what is new in a transcript that an agent appends to.
//!
//! A [`Checkpoint`] moves forward after each commit, so that a crash costs at most a repeated read,
//! which adds nothing: entries are recognized by their ids.

mod checkpoint;
mod pauses;
mod spool;

use std::io;
use std::path::{Path, PathBuf};

use treering_core::{
    Entry, EntryKind, EntryOutcome, ExternalId, Pause, Role, Timestamp, without_pauses,
};
use treering_engine::{AppendReport, Engine};
use treering_importers::{
    Format, ImportError, ImportedConversation, PartOutcome, Sink, SourceFile, TranscriptReader,
};

use checkpoint::LatestEntry;
pub use checkpoint::{Checkpoint, CheckpointFolder, TranscriptFile};
pub use pauses::{PauseEntry, pauses_path, read_pauses};
pub use spool::{HOOK_FAILURE, HookCapture, ReplayReport, Spool, TranscriptRef};

use crate::import::entry_batch;

/// The reason why a transcript could not be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The transcript or its checkpoint cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The transcript.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The transcript is invalid.
    #[error("{}: {error}", path.display())]
    Transcript {
        /// The transcript.
        path: PathBuf,
        /// The reason.
        error: ImportError,
    },
    /// The entries could not be stored.
    #[error(transparent)]
    Engine(#[from] treering_engine::Error),
}

/// The part of a transcript that is not stored yet, without what was said during a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TranscriptLag {
    /// The time of the latest stored entry.
    pub captured_until: Option<Timestamp>,
    /// The number of prompts in the part.
    pub prompts: u32,
    /// Whether the part holds the end of a turn that begins in it.
    pub has_ended_turn: bool,
}

impl TranscriptLag {
    /// Whether a hook failed to run. The current turn does not count: it is stored when it ends,
    /// and the last answer may be written after the hook that reports it.
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        self.prompts > 1 || (self.prompts == 1 && self.has_ended_turn)
    }
}

impl CheckpointFolder {
    /// Stores what is new in a transcript. Reads it from its start if there is no checkpoint, or if
    /// the transcript or the store was replaced.
    pub fn capture(
        &self,
        engine: &Engine,
        format: Format,
        path: &Path,
    ) -> Result<(), CaptureError> {
        let failed = |error| CaptureError::File { path: path.to_path_buf(), error };
        let _lock = self.lock(format, path).map_err(failed)?;
        let mut file = TranscriptFile::open(path).map_err(failed)?;
        let save = |checkpoint: &Checkpoint| self.save(format, path, checkpoint).map_err(failed);
        let pauses = read_pauses(&self.home).map_err(|error| failed(io::Error::other(error)))?;
        if let Some(checkpoint) = self.resume(engine, format, &mut file)?
            && store_from((engine, &pauses), checkpoint, &mut file, save)?
                == CaptureProgress::Stored
        {
            return Ok(());
        }
        let start = Checkpoint::start(format).ok_or_else(|| not_growing(format, path))?;
        store_from((engine, &pauses), start, &mut file, save).map(drop)
    }

    /// The part of a transcript that is not stored yet; `None` if nothing of it is known to be
    /// stored.
    pub fn lag(
        &self,
        engine: &Engine,
        format: Format,
        path: &Path,
    ) -> Result<Option<TranscriptLag>, CaptureError> {
        let failed = |error| CaptureError::File { path: path.to_path_buf(), error };
        let mut file = TranscriptFile::open(path).map_err(failed)?;
        let Some(checkpoint) = self.resume(engine, format, &mut file)? else { return Ok(None) };
        let captured_until = checkpoint.captured_until;
        let lag = self.lag_from(format, &mut file, checkpoint.offset)?;
        Ok(Some(TranscriptLag { captured_until, ..lag }))
    }

    /// The lag of a transcript that was never captured.
    pub fn whole_lag(&self, format: Format, path: &Path) -> Result<TranscriptLag, CaptureError> {
        let failed = |error| CaptureError::File { path: path.to_path_buf(), error };
        self.lag_from(format, &mut TranscriptFile::open(path).map_err(failed)?, 0)
    }

    fn lag_from(
        &self,
        format: Format,
        file: &mut TranscriptFile,
        mut offset: u64,
    ) -> Result<TranscriptLag, CaptureError> {
        let path = file.path.clone();
        let failed = |error| CaptureError::File { path: path.clone(), error };
        let pauses = read_pauses(&self.home).map_err(|error| failed(io::Error::other(error)))?;
        let reader = TranscriptReader::new(format).ok_or_else(|| not_growing(format, &path))?;
        let mut reader = reader.live();
        let mut lag = TranscriptLag::default();
        loop {
            let text = file.part(offset).map_err(failed)?;
            let (consumed, conversations) = read_part(&mut reader, file, text)?;
            let Some(consumed) = consumed.filter(|consumed| *consumed > 0) else {
                return Ok(lag);
            };
            offset += consumed;
            for conversation in conversations {
                let entries = without_pauses(conversation.entries, &pauses);
                entries.iter().for_each(|entry| lag.add(entry));
            }
        }
    }

    /// The checkpoint of a transcript, if the transcript and the store still agree with it.
    fn resume(
        &self,
        engine: &Engine,
        format: Format,
        file: &mut TranscriptFile,
    ) -> Result<Option<Checkpoint>, CaptureError> {
        let Some(checkpoint) = self.load(format, &file.path) else { return Ok(None) };
        let path = file.path.clone();
        let matches = checkpoint.matches(file);
        let matches = matches.map_err(|error| CaptureError::File { path, error })?;
        let is_stored = match &checkpoint.latest {
            Some(latest) => match latest.conversation.parse() {
                Ok(conversation) => engine.has_entry(conversation, &latest.external_id)?,
                Err(_) => false,
            },
            None => true,
        };
        Ok((matches && is_stored).then_some(checkpoint))
    }
}

impl TranscriptLag {
    fn add(&mut self, entry: &Entry) {
        // The prompts of sub-agents are written by the agent.
        if entry.thread.as_str().starts_with("agent-") {
            return;
        }
        match &entry.kind {
            EntryKind::Message(message) if message.role == Role::User => {
                self.prompts += 1;
                self.has_ended_turn = false;
            }
            EntryKind::TurnEnd => self.has_ended_turn = self.prompts > 0,
            _ => {}
        }
    }
}

/// Stores the copy of the end of a transcript, which may exist no more, without what was said
/// during a pause.
pub fn capture_copy(
    engine: &Engine,
    pauses: &[Pause],
    checkpoint: Checkpoint,
    file: &mut TranscriptFile,
) -> Result<(), CaptureError> {
    match store_from((engine, pauses), checkpoint, file, |_| Ok(()))? {
        CaptureProgress::Stored => Ok(()),
        CaptureProgress::NeedsWhole => {
            let reason = "it continues a part of the transcript that no longer exists";
            let (path, error) = (file.path.clone(), ImportError(reason.to_owned()));
            Err(CaptureError::Transcript { path, error })
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum CaptureProgress {
    Stored,
    NeedsWhole,
}

/// Stores a transcript from a checkpoint to its end, part by part, so that memory stays bounded.
/// Calls `save` after each commit.
fn store_from(
    (engine, pauses): (&Engine, &[Pause]),
    mut checkpoint: Checkpoint,
    file: &mut TranscriptFile,
    save: impl Fn(&Checkpoint) -> Result<(), CaptureError>,
) -> Result<CaptureProgress, CaptureError> {
    loop {
        let path = file.path.clone();
        let failed = |error| CaptureError::File { path: path.clone(), error };
        let text = file.part(checkpoint.offset).map_err(failed)?;
        if text.is_empty() {
            return Ok(CaptureProgress::Stored);
        }
        let (consumed, conversations) = read_part(&mut checkpoint.reader, file, text)?;
        let Some(consumed) = consumed else { return Ok(CaptureProgress::NeedsWhole) };
        for mut conversation in conversations {
            conversation.entries = without_pauses(conversation.entries, pauses);
            store_conversation(engine, conversation, &mut checkpoint)?;
        }
        if consumed == 0 {
            return Ok(CaptureProgress::Stored);
        }
        let offset = checkpoint.offset + consumed;
        checkpoint.advance(file, offset).map_err(failed)?;
        save(&checkpoint)?;
    }
}

/// Parses a part. Returns the number of bytes that were read, or `None` if the reader needs the
/// whole transcript.
fn read_part(
    reader: &mut TranscriptReader,
    file: &TranscriptFile,
    text: String,
) -> Result<(Option<u64>, Vec<ImportedConversation>), CaptureError> {
    let part = SourceFile { path: file.path.clone(), text, modified: file.modified };
    let mut conversations = Vec::new();
    let mut take = |conversation| {
        conversations.push(conversation);
        Ok(())
    };
    let outcome = reader
        .read(&part, &mut Sink::new(&mut take))
        .map_err(|error| CaptureError::Transcript { path: file.path.clone(), error })?;
    Ok(match outcome {
        PartOutcome::Read(consumed) => (Some(consumed as u64), conversations),
        PartOutcome::NeedsWhole => (None, Vec::new()),
    })
}

fn store_conversation(
    engine: &Engine,
    conversation: ImportedConversation,
    checkpoint: &mut Checkpoint,
) -> Result<(), CaptureError> {
    let batch = entry_batch(conversation);
    // A title alone does not create a conversation.
    if batch.entries.is_empty() && engine.preview(batch.clone())?.created {
        return Ok(());
    }
    let note = EntryIds::of(&batch.entries);
    checkpoint.note(note, &engine.append(batch)?);
    Ok(())
}

/// The ids and times of entries, kept while the engine stores them.
#[derive(Clone)]
pub(crate) struct EntryIds {
    ids: Vec<Option<ExternalId>>,
    latest: Option<Timestamp>,
}

impl EntryIds {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        Self {
            ids: entries.iter().map(|entry| external_id(entry).cloned()).collect(),
            latest: entries.iter().filter_map(Entry::at).max(),
        }
    }
}

impl Checkpoint {
    /// Remembers the latest entry that is stored.
    pub(crate) fn note(&mut self, entries: EntryIds, appended: &AppendReport) {
        let is_stored = |outcome: &EntryOutcome| {
            matches!(
                outcome,
                EntryOutcome::Message(_)
                    | EntryOutcome::ToolCall(_)
                    | EntryOutcome::Finished
                    | EntryOutcome::AlreadyStored
            )
        };
        self.captured_until = self.captured_until.max(entries.latest);
        let mut outcomes = entries.ids.into_iter().zip(&appended.outcomes).rev();
        let latest = outcomes.find_map(|(id, outcome)| id.filter(|_| is_stored(outcome)));
        if let Some(external_id) = latest {
            let conversation = appended.conversation.id.to_string();
            self.latest = Some(LatestEntry { conversation, external_id });
        }
    }
}

/// The external id that an entry is stored under.
const fn external_id(entry: &Entry) -> Option<&ExternalId> {
    match &entry.kind {
        EntryKind::Message(message) => message.external_id.as_ref(),
        EntryKind::ToolCall(call) => call.external_id.as_ref(),
        EntryKind::ToolResult { call, .. } => Some(call),
        EntryKind::Fork { .. } | EntryKind::TurnEnd => None,
    }
}

fn not_growing(format: Format, path: &Path) -> CaptureError {
    let error = ImportError(format!("files of the format {} do not grow", format.as_str()));
    CaptureError::Transcript { path: path.to_path_buf(), error }
}

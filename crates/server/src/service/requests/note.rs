//! Requests about notes.

use serde::Deserialize;
use treering_core::ExternalId;
use treering_engine::{NewNote, NoteChange};
use utoipa::{IntoParams, ToSchema};

use super::{
    MAX_ITEM_CHARS, MAX_KEY_CHARS, MAX_NAME_CHARS, MAX_PATH_CHARS, MAX_TEXT_CHARS, RequestLimits,
    ServiceError, TurnRequest, check_lengths,
};

/// A note to store.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoteRequest {
    /// The statement to keep.
    #[schema(max_length = 4000000)]
    pub text: String,
    /// The folder of the project that it is about. A note without a project holds for every one.
    #[serde(alias = "projectPath")]
    #[schema(max_length = 4096)]
    pub project_path: Option<String>,
    /// The person or the agent who asked to keep it.
    #[schema(max_length = 200)]
    pub author: Option<String>,
    /// Whether it comes first in contexts over its project.
    pub pinned: bool,
    /// An id for the note, which is stored only once.
    #[schema(min_length = 1, max_length = 100)]
    pub external_id: Option<String>,
    /// Time of the note, such as 2026-03-02T08:41:00Z; default: now.
    #[schema(max_length = 40)]
    pub at: Option<String>,
}

impl NoteRequest {
    /// The note.
    pub fn note(self) -> Result<NewNote, ServiceError> {
        Ok(NewNote {
            text: self.text,
            project: self.project_path,
            author: self.author,
            at: self.at.as_deref().map(str::parse).transpose()?,
            external_id: self.external_id.map(ExternalId::new).transpose()?,
            pinned: self.pinned,
        })
    }
}

impl RequestLimits for NoteRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("text", Some(&self.text), MAX_TEXT_CHARS),
            ("project_path", self.project_path.as_ref(), MAX_PATH_CHARS),
            ("author", self.author.as_ref(), MAX_NAME_CHARS),
            ("external_id", self.external_id.as_ref(), MAX_KEY_CHARS),
        ])
    }
}

/// A turn without a conversation is a note.
impl TryFrom<TurnRequest> for NoteRequest {
    type Error = ServiceError;

    fn try_from(turn: TurnRequest) -> Result<Self, ServiceError> {
        let refused = [
            ("title", turn.title.is_some()),
            ("labels", !turn.labels.is_empty()),
            ("thread", turn.thread.is_some()),
            ("fork_at", turn.fork_at.is_some()),
            ("tool_calls", !turn.tool_calls.is_empty()),
        ];
        if let Some((name, _)) = refused.into_iter().find(|(_, is_set)| *is_set) {
            return Err(ServiceError::InvalidRequest(format!(
                "a note has no {name}; name a conversation or a key to store a turn"
            )));
        }
        let texts: Vec<String> = [turn.user, turn.assistant].into_iter().flatten().collect();
        Ok(Self {
            text: texts.join("\n\n"),
            project_path: turn.project_path.or(turn.cwd),
            author: turn.author,
            pinned: turn.pinned,
            external_id: turn.external_id,
            at: turn.at,
        })
    }
}

/// Filters for a listing of notes.
#[derive(Debug, Clone, Default, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct NotesRequest {
    /// Only the notes of this folder and below, and those that hold for every project.
    #[serde(alias = "projectPath")]
    #[schema(max_length = 4096)]
    #[param(max_length = 4096)]
    pub project_path: Option<String>,
    /// Include withdrawn notes.
    pub all: bool,
}

impl RequestLimits for NotesRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("project_path", self.project_path.as_ref(), MAX_PATH_CHARS)])
    }
}

/// A change to a note. Exactly one of the fields is set.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeNoteRequest {
    /// Pins or unpins the note. A pinned note comes first in contexts over its project.
    pub pinned: Option<bool>,
    /// The corrected statement. The earlier one stays in the history.
    #[schema(max_length = 4000000)]
    pub text: Option<String>,
    /// Withdraws the note: it stays in the history, and search and contexts leave it out.
    pub withdrawn: bool,
}

impl ChangeNoteRequest {
    /// The change. Refuses a request that is none or several.
    pub fn change(self) -> Result<NoteChange, ServiceError> {
        match (self.pinned, self.text, self.withdrawn) {
            (Some(true), None, false) => Ok(NoteChange::Pin),
            (Some(false), None, false) => Ok(NoteChange::Unpin),
            (None, Some(text), false) => Ok(NoteChange::Correct(text)),
            (None, None, true) => Ok(NoteChange::Withdraw),
            _ => Err(ServiceError::InvalidRequest(
                "set exactly one of pinned, text (to correct the note) and withdrawn".into(),
            )),
        }
    }
}

impl RequestLimits for ChangeNoteRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("text", self.text.as_ref(), MAX_TEXT_CHARS)])
    }
}

/// Lists notes, or changes one: the arguments of the MCP tool.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NotesToolRequest {
    /// Lists only the notes of this folder and below, and those that hold for every project.
    #[serde(alias = "projectPath")]
    pub project_path: Option<String>,
    /// Includes withdrawn notes in the list.
    pub all: bool,
    /// The note to change, such as `notes-shop#3`.
    pub note: Option<String>,
    /// Pins or unpins it.
    pub pinned: Option<bool>,
    /// The corrected statement.
    pub text: Option<String>,
    /// Withdraws it.
    pub withdrawn: bool,
}

impl NotesToolRequest {
    /// The note to change and the change.
    pub fn change(&self) -> Result<Option<(String, ChangeNoteRequest)>, ServiceError> {
        let Self { pinned, text, withdrawn, .. } = self.clone();
        match &self.note {
            Some(note) => Ok(Some((note.clone(), ChangeNoteRequest { pinned, text, withdrawn }))),
            None if pinned.is_some() || text.is_some() || withdrawn => {
                Err(ServiceError::InvalidRequest("name the note to change, such as notes#3".into()))
            }
            None => Ok(None),
        }
    }
}

impl RequestLimits for NotesToolRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("project_path", self.project_path.as_ref(), MAX_PATH_CHARS),
            ("note", self.note.as_ref(), MAX_ITEM_CHARS),
            ("text", self.text.as_ref(), MAX_TEXT_CHARS),
        ])
    }
}

//! Notes.

use serde::Serialize;
use treering_engine::Note;
use utoipa::ToSchema;

/// A note.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NoteView {
    /// The reference to the note, such as `notes-shop#3`.
    pub note: String,
    /// The folder of its project; absent if it holds for every project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_path: Option<String>,
    /// The statement.
    pub text: String,
    /// The person or the agent who asked to keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The time of the statement.
    pub at: String,
    /// Whether it comes first in contexts over its project.
    pub pinned: bool,
    /// Whether it was withdrawn.
    pub withdrawn: bool,
}

impl NoteView {
    /// The view of a note.
    #[must_use]
    pub fn of(note: Note) -> Self {
        Self {
            note: note.reference(),
            project_path: note.project,
            text: note.text,
            author: note.author,
            at: note.at.to_string(),
            pinned: note.pinned,
            withdrawn: note.withdrawn,
        }
    }
}

/// Notes, pinned ones first.
#[derive(Debug, Serialize, ToSchema)]
pub struct NoteList {
    /// The notes.
    pub notes: Vec<NoteView>,
}

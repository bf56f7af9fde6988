//! The operations on notes.

use treering_engine::AppendReport;

use super::requests::{ChangeNoteRequest, NoteRequest, NotesRequest, TurnRequest};
use super::{Service, ServiceError};
use crate::views::{NoteList, NoteView};

/// The result of remembering something.
#[derive(Debug)]
pub enum Remembered {
    /// A turn of a conversation.
    Turn(Box<AppendReport>),
    /// A note.
    Note(NoteView),
}

impl Service {
    /// Stores a turn in its conversation; without one, stores a note.
    pub fn remember(&self, request: TurnRequest) -> Result<Remembered, ServiceError> {
        match (&request.conversation, &request.key) {
            (None, None) => Ok(Remembered::Note(self.add_note(request.try_into()?)?)),
            _ => Ok(Remembered::Turn(Box::new(self.append_turn(request)?))),
        }
    }

    /// Stores a note.
    pub fn add_note(&self, request: NoteRequest) -> Result<NoteView, ServiceError> {
        Ok(NoteView::of(self.engine().add_note(request.note()?)?))
    }

    /// Lists the notes of a project, or all; pinned ones first.
    pub fn notes(&self, request: &NotesRequest) -> Result<NoteList, ServiceError> {
        let mut notes = self.engine().notes(request.project_path.as_deref())?;
        notes.retain(|note| request.all || !note.withdrawn);
        Ok(NoteList { notes: notes.into_iter().map(NoteView::of).collect() })
    }

    /// Pins, unpins, corrects or withdraws a note.
    pub fn change_note(
        &self,
        reference: &str,
        request: ChangeNoteRequest,
    ) -> Result<NoteView, ServiceError> {
        Ok(NoteView::of(self.engine().change_note(reference, request.change()?)?))
    }
}

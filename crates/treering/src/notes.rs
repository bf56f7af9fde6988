//! Notes.

use treering_engine::{NewNote, Note, NoteChange};

use crate::{Memory, Result};

impl Memory {
    /// Stores a note: a statement that belongs to a project, or to all, and to no conversation.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// use treering::{NewNote, NoteChange};
    /// let note = memory.remember(NewNote {
    ///     text: "Never deploy on Fridays.".into(),
    ///     project: Some("/srv/shop".into()),
    ///     pinned: true,
    ///     ..NewNote::default()
    /// })?;
    /// let context = memory.context().project("/srv/shop").build()?;
    /// assert!(context.markdown().contains("Fridays"));
    /// memory.change_note(&note.reference(), NoteChange::Withdraw)?;
    /// assert!(memory.notes(Some("/srv/shop"))?[0].withdrawn);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remember(&self, note: NewNote) -> Result<Note> {
        self.engine().add_note(note)
    }

    /// The notes of a project and of the folders below it, and those that hold for every project;
    /// all notes without a folder. Pinned notes come first. Withdrawn notes are included.
    pub fn notes(&self, folder: Option<&str>) -> Result<Vec<Note>> {
        self.engine().notes(folder)
    }

    /// Pins, unpins, corrects or withdraws a note, which is named like `notes-shop#3`.
    pub fn change_note(&self, reference: &str, change: NoteChange) -> Result<Note> {
        self.engine().change_note(reference, change)
    }
}

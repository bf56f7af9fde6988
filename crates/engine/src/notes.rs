//! Notes: statements that someone asked to keep, outside any session. The notes of a project are
//! the messages of a conversation of their own, so that search, amending and forgetting apply to them
//! as to every message.

use treering_core::ports::{
    ConversationFilter, ConversationQuery, ExistingItem, Span, StoreResult,
};
use treering_core::{
    Conversation, ConversationId, ConversationKind, Entry, EntryOutcome, ExternalId, Invalid,
    Labels, Message, MessageIdx, NewConversation, NewMessage, Reader, Role, ThreadName, Timestamp,
    TitleSource, pin_label, slug_of,
};

use crate::amend::Amendment;
use crate::cwd::normalize_cwd;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ingest::{AppendTarget, EntryBatch, ReplayDetection};

/// A note to store.
#[derive(Debug, Clone, Default)]
pub struct NewNote {
    /// The statement.
    pub text: String,
    /// Project folder; `None` applies to every project.
    pub project: Option<String>,
    /// The person or the agent who asked to keep it.
    pub author: Option<String>,
    /// The time of the statement; default: now.
    pub at: Option<Timestamp>,
    /// An id at its source. A note with an id is stored once.
    pub external_id: Option<ExternalId>,
    /// Whether it is pinned.
    pub pinned: bool,
}

/// A stored note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The conversation that holds the notes of the project.
    pub conversation: ConversationId,
    /// Its slug.
    pub slug: String,
    /// The position of the note.
    pub idx: MessageIdx,
    /// The folder of the project; `None` if the note holds for every project.
    pub project: Option<String>,
    /// The statement as it is returned. Empty if it was withdrawn.
    pub text: String,
    /// The author.
    pub author: Option<String>,
    /// The time of the statement.
    pub at: Timestamp,
    /// Whether it is first in contexts over its scope.
    pub pinned: bool,
    /// Whether it was withdrawn.
    pub withdrawn: bool,
}

/// A change to a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteChange {
    /// Pins the note: it comes first in contexts over its scope.
    Pin,
    /// Unpins the note.
    Unpin,
    /// Replaces the statement. The earlier one stays in the history.
    Correct(String),
    /// Withdraws the note: it stays in the history, and search and contexts leave it out.
    Withdraw,
}

impl Note {
    /// The reference to the note, such as `notes-shop#3`.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}#{}", self.slug, self.idx.0)
    }
}

impl Engine {
    /// Stores a note. It is durable when this returns.
    pub fn add_note(&self, note: NewNote) -> Result<Note> {
        if note.text.trim().is_empty() {
            return Err(Invalid::new("note", "it is empty; say what to keep").into());
        }
        let folder = note.project.as_deref().map(normalize_cwd);
        let at = note.at.unwrap_or_else(|| self.clock().now());
        let (author, external_id) = (note.author, note.external_id.clone());
        let message =
            NewMessage { author, external_id, ..NewMessage::new(Role::User, note.text, at) };
        let batch = EntryBatch {
            target: AppendTarget::FindOrCreate(self.notes_of(folder.as_deref())?),
            entries: vec![
                Entry::message(ThreadName::main(), message),
                Entry::turn_end(ThreadName::main()),
            ],
            replay_detection: ReplayDetection::None,
        };
        let report = self.append(batch)?;
        let id = report.conversation.id;
        let refused = |reason: &str| Error::from(Invalid::new("note", reason));
        let idx = match report.outcomes.first() {
            Some(EntryOutcome::Message(idx)) => *idx,
            Some(EntryOutcome::Excluded) => {
                return Err(refused("its project is excluded from capture"));
            }
            Some(EntryOutcome::Forgotten) => return Err(refused("it was forgotten")),
            _ => {
                match self.reader()?.existing(id, &note.external_id.iter().collect::<Vec<_>>())?[..]
                {
                    [Some(ExistingItem::Message(idx, _))] => idx,
                    _ => return Err(refused("nothing of it may be stored")),
                }
            }
        };
        if note.pinned {
            self.set_pinned(id, idx, true)?;
        }
        self.note_at(id, idx)
    }

    /// The notes of a project and of the folders below it, and those that hold for every project;
    /// all notes without a folder. Pinned notes come first, then the earliest. Withdrawn notes are
    /// included.
    pub fn notes(&self, folder: Option<&str>) -> Result<Vec<Note>> {
        let reader = self.reader()?;
        let folder = folder.map(normalize_cwd);
        let mut notes = Vec::new();
        for conversation in self.notes_in(&*reader, folder.as_deref())? {
            let all = Span::starting(MessageIdx(0), usize::MAX);
            let messages = reader.messages(conversation.id, all)?;
            let kept = messages.into_iter().filter(|message| !message.body.forgotten);
            notes.extend(kept.map(|message| self.as_note(&conversation, message)));
        }
        notes.sort_by_key(|note| (!note.pinned, note.at, note.idx));
        Ok(notes)
    }

    /// Changes a note, which is named like `notes-shop#3`.
    pub fn change_note(&self, reference: &str, change: NoteChange) -> Result<Note> {
        let (id, idx) = self.find_note(reference)?;
        match change {
            NoteChange::Pin => {
                if self.note_at(id, idx)?.withdrawn {
                    let reason = "it was withdrawn; keep it again to pin it";
                    return Err(Invalid::new(format!("note {reference:?}"), reason).into());
                }
                self.set_pinned(id, idx, true)?;
            }
            NoteChange::Unpin => self.set_pinned(id, idx, false)?,
            NoteChange::Correct(text) => {
                self.amend(id, idx, Amendment::Edit { text, regenerate: Some(true) })?;
            }
            NoteChange::Withdraw => {
                self.amend(id, idx, Amendment::Correct { text: None })?;
                self.set_pinned(id, idx, false)?;
            }
        }
        self.note_at(id, idx)
    }

    /// The conversations with the notes of a scope.
    pub(crate) fn notes_in(
        &self,
        reader: &dyn Reader,
        folder: Option<&str>,
    ) -> StoreResult<Vec<Conversation>> {
        let kind = Some(ConversationKind::Notes);
        let project = folder.map(str::to_owned);
        let filter = ConversationFilter { kind, project, ..ConversationFilter::all(usize::MAX) };
        let mut found = reader.conversations(&ConversationQuery::List(&filter))?;
        if folder.is_some() {
            let general = ConversationKind::Notes.id(self.tenant(), None)?;
            found.extend(reader.conversation(general)?);
        }
        Ok(found)
    }

    /// The conversation that holds the notes of a folder, to find or to create.
    fn notes_of(&self, folder: Option<&str>) -> Result<NewConversation> {
        let kind = ConversationKind::Notes;
        let name = folder.and_then(|folder| folder.rsplit(['/', '\\']).find(|it| !it.is_empty()));
        let slug =
            name.map_or_else(|| "notes".to_owned(), |name| format!("notes-{}", slug_of(name)));
        Ok(NewConversation {
            id: Some(kind.id(self.tenant(), folder)?),
            external_id: Some(kind.key(folder)?),
            title: Some(folder.map_or_else(|| "Notes".to_owned(), |it| format!("Notes of {it}"))),
            title_source: TitleSource::Source,
            slug: Some(slug),
            cwd: folder.map(str::to_owned),
            ..NewConversation::default()
        })
    }

    fn find_note(&self, reference: &str) -> Result<(ConversationId, MessageIdx)> {
        let invalid =
            |reason: &str| Error::from(Invalid::new(format!("note {reference:?}"), reason));
        let form = "expected NOTES#NUMBER, such as notes-shop#3; list the notes to see them";
        let (name, number) = reference.rsplit_once('#').ok_or_else(|| invalid(form))?;
        let idx = MessageIdx(number.parse().map_err(|_| invalid(form))?);
        let conversation = self.find(name)?;
        if conversation.kind() != ConversationKind::Notes {
            return Err(invalid(&format!("{name} is a conversation, not the notes of a project")));
        }
        let notes = conversation.totals.messages;
        if idx.0 >= notes {
            let plural = if notes == 1 { "" } else { "s" };
            return Err(invalid(&format!("{name} has {notes} note{plural}, counted from 0")));
        }
        Ok((conversation.id, idx))
    }

    fn set_pinned(&self, id: ConversationId, idx: MessageIdx, pinned: bool) -> Result<()> {
        let (mut set, mut removed, label) = (Labels::new(), Vec::new(), pin_label(idx)?);
        match pinned {
            true => set.set(label)?,
            false => removed.push(label.name().to_owned()),
        }
        self.set_labels(id, &set, &removed).map(drop)
    }

    fn note_at(&self, id: ConversationId, idx: MessageIdx) -> Result<Note> {
        let reader = self.reader()?;
        let conversation = reader.conversation(id)?.ok_or_else(|| Error::no_conversation(id))?;
        let message = reader.messages(id, Span::starting(idx, 1))?.pop();
        let message = message.filter(|message| !message.body.forgotten);
        let missing =
            || Invalid::new(format!("note {}#{}", conversation.slug, idx.0), "it was forgotten");
        Ok(self.as_note(&conversation, message.ok_or_else(missing)?))
    }

    fn as_note(&self, conversation: &Conversation, message: Message) -> Note {
        let withdrawn = message.is_left_out();
        let message = self.recall_options().message(message);
        Note {
            conversation: conversation.id,
            slug: conversation.slug.clone(),
            idx: message.idx,
            project: conversation.folder().map(str::to_owned),
            text: message.body.text,
            author: message.body.author,
            at: message.body.at,
            pinned: conversation.is_pinned(message.idx),
            withdrawn,
        }
    }
}

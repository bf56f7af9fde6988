//! Conversations, their threads and their totals.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;
use crate::hash::ContentHash;
use crate::ids::{ConversationId, ExternalId, MessageIdx, TenantId, ThreadName};
use crate::label::{Label, Labels};
use crate::message::Turn;
use crate::parameters::Assignment;
use crate::time::Timestamp;
use crate::tree_state::TreeState;

/// The lifecycle state of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConversationState {
    /// Active.
    #[default]
    Open,
    /// Ended; a new message reopens it.
    Closed,
    /// Ended and hidden from listings.
    Archived,
}

impl ConversationState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Open, Self::Closed, Self::Archived];

    /// The name used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Archived => "archived",
        }
    }
}

impl fmt::Display for ConversationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ConversationState {
    type Err = Invalid;
    fn from_str(word: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| {
            Invalid::new(format!("state {word:?}"), "a state is open, closed or archived")
        })
    }
}

/// The origin of a conversation's title. A later variant overrides an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TitleSource {
    /// There is no title yet.
    #[default]
    Untitled,
    /// Derived from the first message.
    FirstMessage,
    /// Given by the source it was imported from.
    Source,
    /// Given by a person.
    Person,
}

impl TitleSource {
    /// Every origin.
    pub const ALL: [Self; 4] = [Self::Untitled, Self::FirstMessage, Self::Source, Self::Person];

    /// The name used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Untitled => "untitled",
            Self::FirstMessage => "first-message",
            Self::Source => "source",
            Self::Person => "person",
        }
    }
}

impl FromStr for TitleSource {
    type Err = Invalid;
    fn from_str(word: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|source| source.as_str() == word).ok_or_else(|| {
            Invalid::new(
                format!("title_source {word:?}"),
                "expected untitled, first-message, source or person",
            )
        })
    }
}

/// The purpose of a conversation. A session is an ordinary conversation. The other
/// kinds have reserved keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConversationKind {
    /// A conversation.
    Session,
    /// The notes of a project. Each message is a note.
    Notes,
    /// The owner of the tree of the sessions of a project. It has no messages.
    Project,
}

impl ConversationKind {
    /// The kinds whose keys are reserved.
    pub const RESERVED: [Self; 2] = [Self::Notes, Self::Project];

    /// The kind of the conversation with this key.
    #[must_use]
    pub fn of_key(key: &str) -> Self {
        let has = |kind: &Self| key.starts_with(kind.key_prefix());
        Self::RESERVED.into_iter().find(has).unwrap_or(Self::Session)
    }

    /// The beginning of the keys of the kind; empty for sessions, which have every other key or
    /// none.
    #[must_use]
    pub const fn key_prefix(self) -> &'static str {
        match self {
            Self::Session => "",
            Self::Notes => "treering:notes",
            Self::Project => "treering:project",
        }
    }

    /// The key of the notes or the tree of a project; without a folder, that of no project.
    pub fn key(self, folder: Option<&str>) -> Result<ExternalId, Invalid> {
        let prefix = self.key_prefix();
        ExternalId::new(match folder {
            // A path may be longer than a key.
            Some(folder) => format!("{prefix}:{}", ContentHash::of_fields(&[folder.as_bytes()])),
            None => prefix.to_owned(),
        })
    }

    /// The id of the notes or the tree of a project.
    pub fn id(self, tenant: &TenantId, folder: Option<&str>) -> Result<ConversationId, Invalid> {
        Ok(ConversationId::of_external(tenant, &self.key(folder)?))
    }
}

/// An append-only sequence of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// The conversation's id.
    pub id: ConversationId,
    /// The human-readable name, unique within the tenant.
    pub slug: String,
    /// The title; derived from the first user message unless someone set one.
    pub title: Option<String>,
    /// The origin of the title.
    pub title_source: TitleSource,
    /// The participants, in order of appearance.
    pub participants: Vec<String>,
    /// The working directory, normalized.
    pub cwd: Option<String>,
    /// The project that the working directory belongs to.
    pub project_path: Option<String>,
    /// The earliest time in the conversation.
    pub started_at: Timestamp,
    /// The latest time in the conversation.
    pub last_activity: Timestamp,
    /// The lifecycle state.
    pub state: ConversationState,
    /// The id at its source.
    pub external_id: Option<ExternalId>,
    /// Free metadata.
    pub labels: Labels,
    /// The amount of content.
    pub totals: ConversationTotals,
    /// The threads in creation order, `main` first; empty while there is no message.
    pub threads: Vec<Thread>,
    /// Policy parameters set for this conversation only.
    pub policy: Vec<Assignment>,
    /// The state of the tree.
    pub tree_state: TreeState,
}

impl Conversation {
    /// The purpose of the conversation.
    #[must_use]
    pub fn kind(&self) -> ConversationKind {
        ConversationKind::of_key(self.external_id.as_ref().map_or("", ExternalId::as_str))
    }

    /// The folder of the project that the conversation belongs to.
    #[must_use]
    pub fn folder(&self) -> Option<&str> {
        self.project_path.as_deref().or(self.cwd.as_deref())
    }

    /// Whether a note is pinned.
    #[must_use]
    pub fn is_pinned(&self, note: MessageIdx) -> bool {
        self.labels.get(&pin_name(note)).is_some()
    }

    /// Unpins a note that is forgotten.
    pub fn unpin(&mut self, note: MessageIdx) {
        if self.kind() == ConversationKind::Notes {
            self.labels.remove(&pin_name(note));
        }
    }

    /// The slug until the conversation has a title.
    #[must_use]
    pub fn untitled_slug(id: ConversationId) -> String {
        format!("untitled-{}", id.short())
    }
}

/// The label of a notes conversation that pins one of its notes.
pub fn pin_label(note: MessageIdx) -> Result<Label, Invalid> {
    Label::new(pin_name(note), "yes")
}

fn pin_name(note: MessageIdx) -> String {
    format!("pinned-{}", note.0)
}

/// Totals of a conversation's messages and tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConversationTotals {
    /// Messages.
    pub messages: u32,
    /// Turns.
    pub turns: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Characters in the messages.
    pub chars: u64,
    /// Tokens in the messages.
    pub tokens: u64,
}

/// A branch: shares the messages of its parent up to the fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The thread's name.
    pub name: ThreadName,
    /// The fork point; `None` for `main`.
    pub fork: Option<Fork>,
    /// The latest turn, which the next message continues or follows.
    pub last_turn: Option<Turn>,
    /// Whether the latest turn has ended, so that the next entry opens a new one.
    pub turn_ended: bool,
}

/// The point where a thread branches off another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The parent thread.
    pub parent: ThreadName,
    /// The last shared message; `None` if no message is shared.
    pub after: Option<MessageIdx>,
}

/// Metadata of a conversation before its first message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewConversation {
    /// The required id. If absent, the id is derived from the external id or generated.
    pub id: Option<ConversationId>,
    /// The id at its source.
    pub external_id: Option<ExternalId>,
    /// The preferred slug.
    pub slug: Option<String>,
    /// The title at its source.
    pub title: Option<String>,
    /// The origin of the title.
    pub title_source: TitleSource,
    /// The participants.
    pub participants: Vec<String>,
    /// The working directory, normalized.
    pub cwd: Option<String>,
    /// The project that the working directory belongs to.
    pub project_path: Option<String>,
    /// Labels. An existing conversation keeps the values that it has.
    pub labels: Labels,
    /// The state after creation.
    pub state: ConversationState,
    /// The start time of an empty conversation. The first entry replaces it.
    pub started_at: Option<Timestamp>,
    /// Policy parameters set for this conversation only.
    pub policy: Vec<Assignment>,
}

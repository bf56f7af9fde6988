//! Conversations and their threads.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;
use crate::ids::{ConversationId, ExternalId, MessageIdx, ThreadName};
use crate::message::Turn;
use crate::parameters::Assignment;
use crate::time::Timestamp;
use crate::tree_state::TreeState;

/// Whether a conversation still goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConversationState {
    /// It goes on.
    #[default]
    Open,
    /// It has ended; a new message opens it again.
    Closed,
    /// It has ended and is left out of listings.
    Archived,
}

impl ConversationState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Open, Self::Closed, Self::Archived];

    /// The word for it in every interface.
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

/// Who gave a conversation its title; a later one prevails over an earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TitleSource {
    /// Nobody yet.
    #[default]
    Untitled,
    /// It begins like that.
    FirstMessage,
    /// Where it came from it is called that.
    Source,
    /// A person renamed it here.
    Person,
}

impl TitleSource {
    /// Everyone who can.
    pub const ALL: [Self; 4] = [Self::Untitled, Self::FirstMessage, Self::Source, Self::Person];

    /// The word for it in every interface.
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
        Self::ALL.into_iter().find(|naming| naming.as_str() == word).ok_or_else(|| {
            Invalid::new(
                format!("naming {word:?}"),
                "expected untitled, first-message, source or person",
            )
        })
    }
}

/// An append-only sequence of messages, with what people call it and where it took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Its identity.
    pub id: ConversationId,
    /// The name people type, unique within the tenant.
    pub slug: String,
    /// What it is about; taken from the first user message where nobody named it.
    pub title: Option<String>,
    /// Who gave it that title.
    pub title_source: TitleSource,
    /// Who takes part, in order of appearance.
    pub participants: Vec<String>,
    /// The folder it took place in, normalised.
    pub cwd: Option<String>,
    /// The project that folder belongs to.
    pub project_path: Option<String>,
    /// The earliest moment in it.
    pub started_at: Timestamp,
    /// The latest moment in it.
    pub last_activity: Timestamp,
    /// Whether it goes on.
    pub state: ConversationState,
    /// Its identity at its source.
    pub external_id: Option<ExternalId>,
    /// How much is in it.
    pub totals: Totals,
    /// Its threads in the order they were opened, `main` first; none while it is empty.
    pub threads: Vec<Thread>,
    /// The parameters of the policy that are set for it alone.
    pub policy: Vec<Assignment>,
    /// How far its tree has grown.
    pub tree_state: TreeState,
}

impl Conversation {
    /// The slug it has until it gets a title.
    #[must_use]
    pub fn untitled_slug(id: ConversationId) -> String {
        format!("untitled-{}", id.short())
    }
}

/// How much there is of each kind of ground truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
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

/// A branch: it shares what its parent had up to the fork, then goes its own way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its name.
    pub name: ThreadName,
    /// Where it forks; nothing for `main`.
    pub fork: Option<Fork>,
    /// Its latest turn, which the next message continues or follows.
    pub last_turn: Option<Turn>,
}

/// The place where a thread leaves another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The thread it leaves.
    pub parent: ThreadName,
    /// The last message it shares with it; nothing when it shares none.
    pub after: Option<MessageIdx>,
}

/// What is known about a conversation before its first message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewConversation {
    /// The id it must have; otherwise it follows from the external id or is drawn.
    pub id: Option<ConversationId>,
    /// Its identity at its source.
    pub external_id: Option<ExternalId>,
    /// The name it would like.
    pub slug: Option<String>,
    /// What it is called at its source.
    pub title: Option<String>,
    /// Who gave it that title.
    pub naming: TitleSource,
    /// Who takes part.
    pub participants: Vec<String>,
    /// Where it took place, normalised.
    pub cwd: Option<String>,
    /// The project that folder belongs to.
    pub project_path: Option<String>,
    /// The state it is left in.
    pub state: ConversationState,
    /// The moment it starts; with messages in it, the earliest of theirs.
    pub started_at: Option<Timestamp>,
    /// The parameters of the policy that are set for it alone.
    pub policy: Vec<Assignment>,
}

//! Messages and turns: the ground truth.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;
use crate::hash::ContentHash;
use crate::ids::{ExternalId, MessageIdx, ThreadName, TurnNo};
use crate::json::Json;
use crate::time::Timestamp;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Instructions to the model.
    System,
    /// A person, or whoever stands in for one.
    User,
    /// The model.
    Assistant,
    /// Output of a tool that belongs to no known tool call.
    Tool,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::System, Self::User, Self::Assistant, Self::Tool];

    /// The word for it in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Invalid;
    fn from_str(word: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|role| role.as_str() == word).ok_or_else(|| {
            Invalid::new(format!("role {word:?}"), "a role is system, user, assistant or tool")
        })
    }
}

/// A message as it arrives, before it has a place in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Who speaks.
    pub role: Role,
    /// The speaker's name, where there is one.
    pub author: Option<String>,
    /// What was said.
    pub text: String,
    /// Structured content as it came, where the text alone does not hold it.
    pub parts: Option<Json>,
    /// When it was said.
    pub at: Timestamp,
    /// Its identity at its source.
    pub external_id: Option<ExternalId>,
}

impl NewMessage {
    /// A plain message.
    #[must_use]
    pub fn new(role: Role, text: impl Into<String>, at: Timestamp) -> Self {
        Self { role, author: None, text: text.into(), parts: None, at, external_id: None }
    }

    /// The hash of who said what: two messages with the same hash say the same, at whatever
    /// time.
    #[must_use]
    pub fn hash(&self) -> ContentHash {
        ContentHash::of_fields(&[
            self.role.as_str().as_bytes(),
            self.author.as_deref().unwrap_or_default().as_bytes(),
            self.text.as_bytes(),
            self.parts.as_ref().map_or("", Json::as_str).as_bytes(),
        ])
    }
}

/// A message in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its position in the conversation.
    pub idx: MessageIdx,
    /// The turn it belongs to.
    pub turn: TurnNo,
    /// How many turns the conversation had once it was there.
    pub turns: u32,
    /// The thread it belongs to.
    pub thread: ThreadName,
    /// What arrived.
    pub body: NewMessage,
    /// Characters of the text.
    pub chars: u32,
    /// Tokens of the text, by the store's tokenizer.
    pub tokens: u32,
    /// Hash of what was said, as it was when it was stored.
    pub hash: ContentHash,
}

/// User message(s), then tool calls, then the assistant's answer: the unit people think in.
/// A turn is made by the messages and tool calls that carry its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its number in the conversation.
    pub no: TurnNo,
    /// The thread it belongs to.
    pub thread: ThreadName,
    /// Position of its first message; of its next one while it has none.
    pub from: MessageIdx,
    /// One past the position of its last message.
    pub until: MessageIdx,
    /// How many messages it has.
    pub messages: u32,
    /// How many tool calls it has.
    pub tool_calls: u32,
    /// Whether the assistant has answered: the next user message opens another turn.
    pub answered: bool,
    /// The earliest moment in it.
    pub started_at: Timestamp,
    /// The latest moment in it.
    pub ended_at: Timestamp,
}

//! Messages, which are ground truth, and the turns that group them.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;
use crate::hash::ContentHash;
use crate::ids::{ExternalId, MessageIdx, ThreadName, TurnNo};
use crate::json::Json;
use crate::time::Timestamp;

/// The role of a speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Instructions to the model.
    System,
    /// A person, or a program that acts as one.
    User,
    /// The model.
    Assistant,
    /// Output of a tool that belongs to no known tool call.
    Tool,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::System, Self::User, Self::Assistant, Self::Tool];

    /// The name used in every interface.
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

/// A message as it arrives, before it has a position in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// The speaker's role.
    pub role: Role,
    /// The speaker's name, if known.
    pub author: Option<String>,
    /// The text.
    pub text: String,
    /// Structured content as received, where the text alone does not represent it.
    pub parts: Option<Json>,
    /// The time of the message.
    pub at: Timestamp,
    /// The id at its source.
    pub external_id: Option<ExternalId>,
    /// Whether it is a placeholder: its content was forgotten, its role and time remain.
    pub forgotten: bool,
}

impl NewMessage {
    /// A plain message.
    #[must_use]
    pub fn new(role: Role, text: impl Into<String>, at: Timestamp) -> Self {
        let (author, parts, external_id) = (None, None, None);
        Self { role, author, text: text.into(), parts, at, external_id, forgotten: false }
    }

    /// The placeholder for a forgotten message.
    #[must_use]
    pub fn placeholder(role: Role, at: Timestamp) -> Self {
        Self { forgotten: true, ..Self::new(role, "", at) }
    }

    /// Whether the message answers: an assistant said something, even if it was forgotten.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.role == Role::Assistant && (self.forgotten || !self.text.is_empty())
    }

    /// The hash of role, author, text and parts. The time is not part of it.
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

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The position in the conversation.
    pub idx: MessageIdx,
    /// The turn that the message belongs to.
    pub turn: TurnNo,
    /// The number of turns in the conversation after this message.
    pub turns: u32,
    /// The thread that the message belongs to.
    pub thread: ThreadName,
    /// The message as it arrived.
    pub body: NewMessage,
    /// Characters of the text.
    pub chars: u32,
    /// Tokens of the text, by the store's tokenizer.
    pub tokens: u32,
    /// The content hash at the time of storing.
    pub hash: ContentHash,
}

impl Message {
    /// Replaces the content with a placeholder.
    pub fn forget(&mut self) {
        self.body = NewMessage::placeholder(self.body.role, self.body.at);
        (self.chars, self.tokens) = (0, 0);
        self.hash = self.body.hash();
    }
}

/// One exchange: user messages, tool calls and the assistant's answer. It consists of the
/// messages and tool calls that carry its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The turn's number in the conversation.
    pub no: TurnNo,
    /// The thread that the turn belongs to.
    pub thread: ThreadName,
    /// Position of the first message, or of the next message while the turn has none.
    pub from: MessageIdx,
    /// One past the position of its last message.
    pub until: MessageIdx,
    /// Number of messages.
    pub messages: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Whether the assistant has answered, so that the next user message starts a new turn.
    pub answered: bool,
    /// The earliest time in the turn.
    pub started_at: Timestamp,
    /// The latest time in the turn.
    pub ended_at: Timestamp,
}

//! Messages, which are ground truth, and the turns that group them.

use std::borrow::Cow;
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
    /// The time of the last edit.
    pub edited_at: Option<Timestamp>,
    /// Set if someone marked it as wrong.
    pub correction: Option<Correction>,
    /// The earlier versions that an export contains, oldest first. The store keeps them apart
    /// from the message, so a stored message has none here.
    pub history: Vec<MessageVersion>,
}

/// The mark that a message is wrong. It stays in the history and is never returned as true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    /// When it was marked.
    pub at: Timestamp,
    /// The text that is returned instead; without it the message is left out.
    pub text: Option<String>,
}

/// A message before it was amended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageVersion {
    /// When it was amended.
    pub replaced_at: Timestamp,
    /// The text.
    pub text: String,
    /// The structured content.
    pub parts: Option<Json>,
    /// Set if it was marked as wrong before.
    pub correction: Option<Correction>,
}

impl NewMessage {
    /// A plain message.
    #[must_use]
    pub fn new(role: Role, text: impl Into<String>, at: Timestamp) -> Self {
        let (author, parts, external_id) = (None, None, None);
        let (forgotten, edited_at, correction) = (false, None, None);
        let (text, history) = (text.into(), Vec::new());
        Self {
            role,
            author,
            text,
            parts,
            at,
            external_id,
            forgotten,
            edited_at,
            correction,
            history,
        }
    }

    /// The placeholder for a forgotten message.
    #[must_use]
    pub fn placeholder(role: Role, at: Timestamp) -> Self {
        Self { forgotten: true, ..Self::new(role, "", at) }
    }

    /// Calls `change` with each text of the message and the structured content that belongs to it:
    /// its own, its correction and those of its earlier versions.
    pub(crate) fn for_each_content(
        &mut self,
        mut change: impl FnMut(&mut String, Option<&mut Json>),
    ) {
        change(&mut self.text, self.parts.as_mut());
        for version in &mut self.history {
            change(&mut version.text, version.parts.as_mut());
        }
        let earlier = self.history.iter_mut().map(|version| &mut version.correction);
        for correction in earlier.chain([&mut self.correction]) {
            if let Some(text) = correction.as_mut().and_then(|it| it.text.as_mut()) {
                change(text, None);
            }
        }
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

/// Prefix of a correction.
const CORRECTED: &str = "Correction: ";

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
    /// Whether nothing of it is returned: it was forgotten, or is wrong and has no correction.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        self.body.forgotten || self.body.correction.as_ref().is_some_and(|it| it.text.is_none())
    }

    /// The text that is returned. Empty if the message is left out.
    #[must_use]
    pub fn recalled_text(&self) -> Cow<'_, str> {
        match &self.body.correction {
            None => Cow::Borrowed(&self.body.text),
            Some(Correction { text: None, .. }) => Cow::Borrowed(""),
            Some(Correction { text: Some(text), .. }) => Cow::Owned(format!("{CORRECTED}{text}")),
        }
    }

    /// The message as it is returned: one that is wrong is replaced by its correction, or by
    /// a placeholder.
    #[must_use]
    pub fn recalled(mut self) -> Self {
        if self.body.correction.is_none() {
            return self;
        }
        if self.is_left_out() {
            self.forget();
            return self;
        }
        let text = self.recalled_text().into_owned();
        self.body.correction = None;
        self.set_content(text, None, None);
        self
    }

    /// Replaces the content. Without a number of tokens it is estimated.
    pub fn set_content(&mut self, text: String, parts: Option<Json>, tokens: Option<u32>) {
        self.chars = crate::text::chars(&text);
        self.tokens = tokens.unwrap_or_else(|| self.chars.div_ceil(4));
        (self.body.text, self.body.parts) = (text, parts);
        self.hash = self.body.hash();
    }

    /// The latest time at which it was edited or marked as wrong.
    #[must_use]
    pub fn amended_at(&self) -> Option<Timestamp> {
        self.body.edited_at.max(self.body.correction.as_ref().map(|it| it.at))
    }

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

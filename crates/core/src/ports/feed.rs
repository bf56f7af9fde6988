//! The change feed: every write to a tenant, in commit order.

use std::fmt;
use std::str::FromStr;

use crate::commit::JobEvent;
use crate::error::Invalid;
use crate::hash::ContentHash;
use crate::ids::ConversationId;
use crate::message::Message;
use crate::node::Node;
use crate::tool::ToolCall;

/// A position in the change feed of a tenant. Opaque: only the store that returned it can
/// interpret it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Cursor(String);

impl Cursor {
    const MAX_LEN: usize = 64;

    /// The position before the first change.
    #[must_use]
    pub const fn start() -> Self {
        Self(String::new())
    }

    /// The cursor as text; [`Cursor::from_str`] parses it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Cursor {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text.len() > Self::MAX_LEN || !text.chars().all(|c| c.is_ascii_graphic()) {
            let reason = "a cursor is a token that an earlier response returned";
            return Err(Invalid::new(format!("cursor {text:?}"), reason));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The kinds of changes to read from the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeFilter<'a> {
    /// Messages, and removed conversations.
    pub messages: bool,
    /// Tool calls.
    pub tool_calls: bool,
    /// Nodes.
    pub nodes: bool,
    /// Job events.
    pub job_events: bool,
    /// Vectors of this model.
    pub vectors_of: Option<&'a str>,
}

impl ChangeFilter<'_> {
    /// Everything that is searchable: messages, tool calls and nodes.
    #[must_use]
    pub const fn content() -> Self {
        Self { messages: true, tool_calls: true, nodes: true, job_events: false, vectors_of: None }
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A message was added, or became a placeholder.
    Message(ConversationId, Message),
    /// A conversation was removed with everything that belongs to it.
    Removed(ConversationId),
    /// A tool call was added, received its result or became a placeholder.
    ToolCall(ConversationId, ToolCall),
    /// A node was written.
    Node(ConversationId, Box<Node>),
    /// A job event was recorded for a conversation.
    JobEvent(ConversationId, JobEvent),
    /// A vector was stored for this content.
    Vector(ContentHash, Vec<f32>),
}

/// A page of the change feed.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// The changes in commit order. An item that changed twice appears once, at its latest
    /// position.
    pub items: Vec<Change>,
    /// The position after this page.
    pub cursor: Cursor,
    /// Whether this page reaches the end of the feed.
    pub is_last: bool,
}

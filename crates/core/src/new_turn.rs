//! A whole turn as received. Only this module splits a turn into entries and derives their ids.

use crate::entry::{Entry, EntryKind};
use crate::error::Invalid;
use crate::ids::{ExternalId, ThreadName};
use crate::json::Json;
use crate::message::{NewMessage, Role};
use crate::time::Timestamp;
use crate::tool::NewToolCall;

/// A turn to append: the user's message, the tool calls and the answer. Each part is optional.
#[derive(Debug, Clone)]
pub struct NewTurn {
    /// The thread.
    pub thread: ThreadName,
    /// The author of the user's message.
    pub author: Option<String>,
    /// The user's message.
    pub user: Option<MessageText>,
    /// The tool calls, in order.
    pub tool_calls: Vec<NewToolCall>,
    /// The assistant's answer.
    pub assistant: Option<MessageText>,
    /// The time of the messages.
    pub at: Timestamp,
    /// The id of the turn at its source. The ids of its messages and tool calls derive from it.
    pub external_id: Option<String>,
}

/// The text of a message, and its structured parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageText {
    /// The text.
    pub text: String,
    /// The parts, as received.
    pub parts: Option<Json>,
}

impl From<String> for MessageText {
    fn from(text: String) -> Self {
        Self { text, parts: None }
    }
}

impl NewTurn {
    /// An empty turn of the main thread.
    #[must_use]
    pub fn at(at: Timestamp) -> Self {
        Self {
            thread: ThreadName::main(),
            author: None,
            user: None,
            tool_calls: Vec::new(),
            assistant: None,
            at,
            external_id: None,
        }
    }

    /// The entries of the turn, in order. An answer ends the turn. Refuses an empty turn.
    pub fn into_entries(self) -> Result<Vec<Entry>, Invalid> {
        let Self { thread, author, user, tool_calls, assistant, at, external_id } = self;
        let id_of = |part: &str| {
            external_id.as_ref().map(|id| ExternalId::new(format!("{id}/{part}"))).transpose()
        };
        let message = |role: Role, author: Option<String>, content: MessageText| {
            let external_id = id_of(role.as_str())?;
            let MessageText { text, parts } = content;
            let message = NewMessage::new(role, text, at);
            Ok(EntryKind::Message(NewMessage { author, parts, external_id, ..message }))
        };
        let mut kinds = Vec::with_capacity(tool_calls.len() + 3);
        if let Some(user) = user {
            kinds.push(message(Role::User, author, user)?);
        }
        for (order, call) in tool_calls.into_iter().enumerate() {
            let external_id = match call.external_id {
                None => id_of(&format!("tool-{order}"))?,
                given => given,
            };
            kinds.push(EntryKind::ToolCall(NewToolCall { external_id, ..call }));
        }
        if let Some(assistant) = assistant {
            kinds.push(message(Role::Assistant, None, assistant)?);
            kinds.push(EntryKind::TurnEnd);
        }
        if kinds.is_empty() {
            let reason = "there is nothing to store; set user, assistant or tool_calls";
            return Err(Invalid::new("turn", reason));
        }
        Ok(kinds.into_iter().map(|kind| Entry { thread: thread.clone(), kind }).collect())
    }
}

//! The one write door: a `Commit` is applied whole or not at all.

use crate::conversation::Conversation;
use crate::ids::{ConversationId, TenantId, TurnNo};
use crate::message::Message;
use crate::tool::{ToolCall, ToolResult};

/// What is written together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// The writes, in order.
    pub writes: Vec<Write>,
}

/// One write. Ground truth is added; what is said about it is put, replacing what was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Creates a conversation or replaces what is known about it, its threads and counts.
    PutConversation(Conversation),
    /// Adds a message at a position that is free.
    AddMessage(ConversationId, Message),
    /// Adds a tool call at a place that is free.
    AddToolCall(ConversationId, ToolCall),
    /// Gives a tool call the result it was waiting for.
    FinishToolCall(ConversationId, TurnNo, u32, ToolResult),
}

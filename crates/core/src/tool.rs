//! Tool calls: kept apart from the messages, never mixed into their text.

use crate::ids::{ExternalId, MessageIdx, ThreadName, TurnNo};
use crate::json::Json;
use crate::time::Timestamp;

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The result as it came.
    pub result: Json,
    /// Whether the tool succeeded, where the source says so.
    pub success: Option<bool>,
    /// How long it took, where the source says so.
    pub duration_ms: Option<u64>,
}

/// A tool call as it arrives; the result may come later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToolCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments as they came.
    pub args: Json,
    /// What it gave back, once known.
    pub outcome: Option<ToolResult>,
    /// When it was called.
    pub at: Timestamp,
    /// Its identity at its source.
    pub external_id: Option<ExternalId>,
}

/// A tool call in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The turn it belongs to.
    pub turn: TurnNo,
    /// The thread it belongs to.
    pub thread: ThreadName,
    /// Its position among the tool calls of the turn.
    pub order: u32,
    /// The message it came before: the position that was next when it was made.
    pub before: MessageIdx,
    /// What arrived.
    pub call: NewToolCall,
}

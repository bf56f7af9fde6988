//! Tool calls: stored apart from the messages, never mixed into their text.

use crate::ids::{ExternalId, MessageIdx, ThreadName, TurnNo};
use crate::json::Json;
use crate::time::Timestamp;

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The result as received.
    pub result: Json,
    /// Whether the call succeeded, if the source says so.
    pub success: Option<bool>,
    /// The duration in milliseconds, if the source says so.
    pub duration_ms: Option<u64>,
}

impl ToolResult {
    /// Builds the result from the fields that a source reports; `None` if it reports none, because
    /// the call is still running. A missing result becomes null.
    #[must_use]
    pub fn of_parts(
        result: Option<Json>,
        success: Option<bool>,
        duration_ms: Option<u64>,
    ) -> Option<Self> {
        let ended = result.is_some() || success.is_some() || duration_ms.is_some();
        ended.then(|| Self { result: result.unwrap_or_else(Json::null), success, duration_ms })
    }
}

/// A tool call as it arrives; the result may arrive later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToolCall {
    /// The tool's name.
    pub name: String,
    /// The arguments as received.
    pub args: Json,
    /// The result, once known.
    pub outcome: Option<ToolResult>,
    /// The time of the call.
    pub at: Timestamp,
    /// The id at its source.
    pub external_id: Option<ExternalId>,
}

impl NewToolCall {
    /// The placeholder for a forgotten tool call.
    #[must_use]
    pub fn placeholder(at: Timestamp) -> Self {
        let outcome = ToolResult { result: Json::null(), success: None, duration_ms: None };
        let (name, args) = (String::new(), Json::null());
        Self { name, args, outcome: Some(outcome), at, external_id: None }
    }

    /// Whether it is a placeholder for a forgotten tool call.
    #[must_use]
    pub fn is_forgotten(&self) -> bool {
        *self == Self::placeholder(self.at)
    }
}

/// A stored tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The turn that the call belongs to.
    pub turn: TurnNo,
    /// The thread that the call belongs to.
    pub thread: ThreadName,
    /// The position among the tool calls of the turn.
    pub order: u32,
    /// The position of the next message at the time of the call.
    pub before: MessageIdx,
    /// The call as it arrived.
    pub call: NewToolCall,
}

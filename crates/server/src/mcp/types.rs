//! The structured results of the MCP tools that act or count. The others are text.

use serde::Serialize;

/// Result of `summaries_update`.
#[derive(Debug, Serialize)]
pub(super) struct UpdateResult {
    /// The conversation's slug.
    pub conversation: String,
    /// The update's id; read `logs://` with it to follow its jobs. Absent for a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Summaries to write per level, from level 1.
    pub jobs_by_level: Vec<u32>,
    /// Input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Cost in US dollars; null if the price is unknown.
    pub dollars: Option<f64>,
    /// Unfinished jobs.
    pub jobs_left: u32,
    /// Failed jobs.
    pub jobs_failed: u32,
}

/// Result of `status`.
#[derive(Debug, Serialize)]
pub(super) struct StatusResult {
    /// Number of conversations.
    pub conversations: u32,
    /// Number of turns.
    pub turns: u32,
    /// Number of tokens.
    pub tokens: u64,
    /// The reason nothing can be stored now, and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes_refused: Option<String>,
    /// Nodes per level, from level 1.
    pub nodes_by_level: Vec<u32>,
    /// Status of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<crate::views::StatusView>,
    /// Compression metrics of the conversation, if you named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<crate::views::CompressionView>,
    /// Pending and failed operations that did not fit into `max_tokens`.
    pub left_out: usize,
}

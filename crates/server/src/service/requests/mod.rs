//! Request types: the bodies of HTTP requests, the arguments of MCP tools, and the options of
//! commands. Unknown fields are rejected, so that a typo is reported and not ignored.

mod amend;
mod append;
mod entry;
mod forget;
mod note;
mod read;
mod summary;
mod update;
mod work;

use serde::Deserialize;
use utoipa::ToSchema;

use super::ServiceError;

pub use amend::{AmendRequest, NamedAmendRequest, message_reference};
pub(super) use append::check_entry;
pub use append::{AppendRequest, CreateRequest, ToolCallRequest, TurnRequest, fork_entry};
pub use forget::{AuditRequest, ForgetRequest};
pub use note::{ChangeNoteRequest, NoteRequest, NotesRequest, NotesToolRequest};
pub(super) use read::calling_session;
pub use read::{
    ContextFormat, ContextParams, ExpandRequest, NodesRequest, PageRequest, SearchRequest,
    SessionsRequest,
};
pub(crate) use summary::level as level_of_number;
pub use summary::{ForkRequest, ParentRef, PolicyRequest, StoreSummaryRequest, ThreadsRequest};
pub use update::UpdateRequest;
pub use work::{ChangeRequest, StatsRequest, StatusRequest, WorkRequest};

/// Maximum number of entries per append.
pub const MAX_ENTRIES: usize = 1000;
/// Maximum number of hits per search.
pub const MAX_HITS: usize = 100;
/// Maximum number of rows per listing.
pub const MAX_ROWS: usize = 500;
/// Maximum number of tool calls per turn.
pub(super) const MAX_TOOL_CALLS: usize = 200;
/// Maximum length of a text, in characters.
pub(super) const MAX_TEXT_CHARS: usize = 4_000_000;
const MAX_ID_CHARS: usize = 64;
const MAX_ITEM_CHARS: usize = 300;
pub(super) const MAX_KEY_CHARS: usize = 100;
pub(super) const MAX_NAME_CHARS: usize = 200;
const MAX_TITLE_CHARS: usize = 500;
const MAX_QUERY_CHARS: usize = 4000;
const MAX_PATH_CHARS: usize = 4096;
const MAX_CONTEXT_QUERY_CHARS: usize = 16_000;
const MAX_GATE_TIMEOUT_MS: usize = 600_000;
const MAX_BUDGET_TOKENS: usize = 2_000_000;

/// Limits on requests that arrive over a protocol. A command on the user's own machine is not
/// limited.
pub trait RequestLimits {
    /// Rejects values beyond their limits.
    fn check_limits(&self) -> Result<(), ServiceError>;
}

/// The role of a speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RoleName {
    /// A person.
    User,
    /// The model.
    Assistant,
    /// The system prompt.
    System,
    /// A tool.
    Tool,
}

impl From<RoleName> for treering_core::Role {
    fn from(role: RoleName) -> Self {
        match role {
            RoleName::User => Self::User,
            RoleName::Assistant => Self::Assistant,
            RoleName::System => Self::System,
            RoleName::Tool => Self::Tool,
        }
    }
}

/// The state of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum StateName {
    /// Active.
    Open,
    /// Ended; a new message reopens it.
    Closed,
    /// Ended and hidden from listings.
    Archived,
}

impl From<treering_core::ConversationState> for StateName {
    fn from(state: treering_core::ConversationState) -> Self {
        match state {
            treering_core::ConversationState::Open => Self::Open,
            treering_core::ConversationState::Closed => Self::Closed,
            treering_core::ConversationState::Archived => Self::Archived,
        }
    }
}

impl From<StateName> for treering_core::ConversationState {
    fn from(state: StateName) -> Self {
        match state {
            StateName::Open => Self::Open,
            StateName::Closed => Self::Closed,
            StateName::Archived => Self::Archived,
        }
    }
}

/// Rejects texts that exceed their maximum length.
fn check_lengths<const N: usize>(
    texts: [(&str, Option<&String>, usize); N],
) -> Result<(), ServiceError> {
    for (name, text, max) in texts {
        check_length(name, text.map_or("", String::as_str), max)?;
    }
    Ok(())
}

fn check_length(name: &str, text: &str, max: usize) -> Result<(), ServiceError> {
    let chars = text.chars().count();
    if chars > max {
        return Err(ServiceError::InvalidRequest(format!(
            "{name} has {chars} characters; the maximum is {max}"
        )));
    }
    Ok(())
}

/// Rejects a number outside its limits.
fn check_range(name: &str, number: usize, min: usize, max: usize) -> Result<(), ServiceError> {
    match (min..=max).contains(&number) {
        true => Ok(()),
        false => Err(ServiceError::InvalidRequest(format!(
            "{name} is {number}; it must be between {min} and {max}"
        ))),
    }
}

fn check_limit(limit: Option<usize>, max: usize) -> Result<(), ServiceError> {
    check_range("limit", limit.unwrap_or(1), 1, max)
}

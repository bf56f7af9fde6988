//! Request types: the bodies of HTTP requests and the arguments of MCP tools. Unknown fields are
//! rejected, so that a typo is reported and not ignored.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{Assignment, Entry, EntryKind, ExternalId, Level, TitleSource};
use treering_engine::{
    AppendTarget, Engine, NewConversation, Query, Update, UpdateStrategy, normalize_cwd,
};
use utoipa::{IntoParams, ToSchema};

use super::ServiceError;

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
const LONGEST_ID: usize = 64;
pub(super) const MAX_KEY_CHARS: usize = 100;
pub(super) const MAX_NAME_CHARS: usize = 200;
const MAX_TITLE_CHARS: usize = 500;
const MAX_QUERY_CHARS: usize = 4000;
const MAX_PATH_CHARS: usize = 4096;
const MAX_CONTEXT_QUERY_CHARS: usize = 16_000;
const MAX_PATIENCE_MS: usize = 600_000;
const MAX_BUDGET_TOKENS: usize = 2_000_000;

/// Entries to append, and their conversation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendRequest {
    /// Slug, id or id prefix of the conversation. Without `conversation` and `key`, a new
    /// conversation is created.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
    /// External id of the conversation, which is created if missing.
    #[schema(min_length = 1, max_length = 100)]
    pub key: Option<String>,
    /// Title of a new conversation.
    #[schema(max_length = 500)]
    pub title: Option<String>,
    /// Working directory of a new conversation.
    #[schema(max_length = 4096)]
    pub cwd: Option<String>,
    /// Turns, messages, tool calls and results, in the JSON form that `treering append` reads.
    #[schema(schema_with = super::handlers::entries_schema)]
    pub entries: Vec<Box<RawValue>>,
}

impl AppendRequest {
    /// Resolves the conversation.
    pub fn target(&self, memory: &Engine) -> Result<AppendTarget, ServiceError> {
        check_lengths([
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
            ("key", self.key.as_ref(), MAX_KEY_CHARS),
            ("title", self.title.as_ref(), MAX_TITLE_CHARS),
            ("cwd", self.cwd.as_ref(), MAX_PATH_CHARS),
        ])?;
        match (&self.conversation, &self.key) {
            (Some(_), Some(_)) => Err(ServiceError::InvalidRequest(
                "set either conversation or key, not both; key creates the conversation if missing"
                    .into(),
            )),
            (Some(reference), None) => Ok(AppendTarget::Existing(memory.find(reference)?.id)),
            (None, key) => Ok(AppendTarget::FindOrCreate(NewConversation {
                external_id: key.clone().map(ExternalId::new).transpose()?,
                title: self.title.clone(),
                title_source: TitleSource::Source,
                cwd: self.cwd.as_deref().map(normalize_cwd),
                ..NewConversation::default()
            })),
        }
    }
}

/// The length-limited fields of an entry and of its tool calls.
#[derive(Deserialize)]
struct Limited {
    external_id: Option<String>,
    author: Option<String>,
    name: Option<String>,
    #[serde(default)]
    tool_calls: Vec<Limited>,
}

impl Limited {
    fn check(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("external_id", self.external_id.as_ref(), MAX_KEY_CHARS),
            ("author", self.author.as_ref(), MAX_NAME_CHARS),
            ("the tool name", self.name.as_ref(), MAX_NAME_CHARS),
        ])?;
        if self.name.as_ref().is_some_and(String::is_empty) {
            return Err(ServiceError::InvalidRequest(
                "a tool call has an empty name; name the tool".into(),
            ));
        }
        let calls = self.tool_calls.len();
        if calls > MAX_TOOL_CALLS {
            return Err(ServiceError::InvalidRequest(format!(
                "there are {calls} tool_calls; the maximum is {MAX_TOOL_CALLS}; \
                 append the others as separate entries"
            )));
        }
        self.tool_calls.iter().try_for_each(Self::check)
    }
}

/// Rejects an entry that exceeds the limits of its schema.
pub(super) fn check_entry(raw: &RawValue, entries: &[Entry]) -> Result<(), ServiceError> {
    let limited: Limited = serde_json::from_str(raw.get()).map_err(|error| {
        ServiceError::InvalidRequest(format!("it does not match its schema: {error}"))
    })?;
    limited.check()?;
    entries.iter().try_for_each(|entry| match &entry.kind {
        EntryKind::Message(message) => {
            check_lengths([("the text", Some(&message.text), MAX_TEXT_CHARS)])
        }
        EntryKind::ToolCall(_) | EntryKind::ToolResult { .. } | EntryKind::Fork { .. } => Ok(()),
    })
}

/// A search query and its filters.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// A question or keywords.
    #[schema(min_length = 1, max_length = 4000)]
    pub query: String,
    /// Only these conversations: slugs, ids or id prefixes.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub conversations: Vec<String>,
    /// Only conversations in this folder.
    #[schema(max_length = 4096)]
    pub cwd: Option<String>,
    /// Only this thread.
    #[schema(min_length = 1, max_length = 100)]
    pub thread: Option<String>,
    /// Only messages by this author.
    #[schema(max_length = 200)]
    pub author: Option<String>,
    /// Only messages in this role.
    pub role: Option<RoleName>,
    /// Only these levels: 0 for messages and tool calls, 1 and above for nodes.
    #[serde(default)]
    #[schema(max_items = 10)]
    pub levels: Vec<u8>,
    /// Only from this date on, such as 2026-03-02 or 2026-03-02T08:41:00Z.
    #[schema(max_length = 40)]
    pub since: Option<String>,
    /// Only before this date.
    #[schema(max_length = 40)]
    pub until: Option<String>,
    /// Maximum number of hits.
    #[schema(minimum = 1, maximum = 100, default = 10)]
    pub limit: Option<usize>,
    /// Minimum score.
    pub min_score: Option<f32>,
}

/// The role of a speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
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

impl SearchRequest {
    /// Validates the request and builds the engine's query.
    pub fn query(&self, memory: &Engine) -> Result<Query, ServiceError> {
        check_lengths([
            ("query", Some(&self.query), MAX_QUERY_CHARS),
            ("cwd", self.cwd.as_ref(), MAX_PATH_CHARS),
            ("author", self.author.as_ref(), MAX_NAME_CHARS),
        ])?;
        within("the number of conversations", self.conversations.len(), 0, 50)?;
        within("the number of levels", self.levels.len(), 0, 10)?;
        if self.query.trim().is_empty() {
            return Err(ServiceError::InvalidRequest(
                "the query is empty; enter a question or keywords".into(),
            ));
        }
        let conversations =
            self.conversations.iter().map(|it| memory.find(it).map(|found| found.id));
        Ok(Query {
            text: self.query.clone(),
            conversations: conversations.collect::<Result<_, _>>()?,
            cwd: self.cwd.as_deref().map(normalize_cwd),
            states: Vec::new(),
            thread: self.thread.as_deref().map(str::parse).transpose()?,
            author: self.author.clone(),
            role: self.role.map(Into::into),
            levels: self.levels.clone(),
            since: self.since.as_deref().map(str::parse).transpose()?,
            until: self.until.as_deref().map(str::parse).transpose()?,
            limit: within("limit", self.limit.unwrap_or(10), 1, MAX_HITS)?,
            min_score: self.min_score,
        })
    }
}

/// Parameters of a context.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextParams {
    /// Slug, id or id prefix; default: the latest conversation.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
    /// The current question; without it, a general context.
    #[schema(max_length = 16000)]
    pub query: Option<String>,
    /// Maximum number of tokens; default: the setting `context.budget`.
    #[schema(minimum = 128, maximum = 2000000)]
    pub budget: Option<u32>,
    /// Profile: `cut`, `enriched`, `tiered`, `frontier`, `code-review`, `documentation`, or a
    /// custom one.
    #[schema(max_length = 100)]
    pub profile: Option<String>,
    /// Build the context as of this turn, counted from 0.
    pub as_of: Option<u32>,
    /// The thread; default: the one with the latest message.
    #[schema(min_length = 1, max_length = 100)]
    pub thread: Option<String>,
    /// Maximum wait for unfinished summaries, in milliseconds. Raw messages replace those still
    /// unfinished.
    #[schema(maximum = 600000)]
    pub patience_ms: Option<u64>,
    /// The format of the response.
    #[serde(default)]
    pub format: ContextFormat,
}

impl ContextParams {
    /// Rejects values beyond their limits.
    pub fn check(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
            ("query", self.query.as_ref(), MAX_CONTEXT_QUERY_CHARS),
            ("profile", self.profile.as_ref(), MAX_KEY_CHARS),
        ])?;
        within("patience_ms", self.patience_ms.unwrap_or(0) as usize, 0, MAX_PATIENCE_MS)?;
        within("budget", self.budget.unwrap_or(128) as usize, 128, MAX_BUDGET_TOKENS)?;
        Ok(())
    }
}

/// The format of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContextFormat {
    /// Markdown, in `text`.
    #[default]
    Markdown,
    /// Chat API messages, in `messages`.
    Messages,
    /// Structured items, in `preamble` and `sections`.
    Json,
}

/// Filters for a listing of conversations.
#[derive(Debug, Default, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct SessionsRequest {
    /// Only conversations in this folder.
    #[schema(max_length = 4096)]
    #[param(max_length = 4096)]
    pub cwd: Option<String>,
    /// Include archived conversations.
    pub all: bool,
    /// Maximum number of results.
    #[schema(minimum = 1, maximum = 500, default = 20)]
    #[param(minimum = 1, maximum = 500, default = 20)]
    pub limit: Option<usize>,
}

impl SessionsRequest {
    /// Rejects values beyond their limits.
    pub fn check(&self) -> Result<(), ServiceError> {
        check_lengths([("cwd", self.cwd.as_ref(), MAX_PATH_CHARS)])
    }
}

/// A range of turns.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct PageRequest {
    /// The first turn, counted from 0.
    pub from: u32,
    /// Maximum number of turns.
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: Option<usize>,
}

/// Parameters of a tree update.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateRequest {
    /// Rebuild the tree from the messages, instead of only missing, changed or failed nodes.
    pub full: bool,
    /// Only this level; with `full`, this level and those above.
    #[schema(minimum = 1, maximum = 8)]
    pub level: Option<u8>,
    /// Policy overrides for this update, such as `window_chars=4000`.
    #[schema(max_items = 50)]
    pub with: Vec<String>,
    /// Estimate only; write nothing.
    pub dry_run: bool,
}

impl UpdateRequest {
    /// Validates the request and builds the engine's update.
    pub fn update(&self) -> Result<Update, ServiceError> {
        within("the number of overrides", self.with.len(), 0, 50)?;
        let scale = if self.full { UpdateStrategy::Full } else { UpdateStrategy::Incremental };
        let level = match self.level {
            None => None,
            Some(number) => {
                let level = Level::new(number).filter(|_| number <= 8);
                Some(level.ok_or_else(|| {
                    ServiceError::InvalidRequest(format!(
                        "level is {number}; it must be between 1 and 8"
                    ))
                })?)
            }
        };
        let policy =
            self.with.iter().map(|text| text.parse::<Assignment>()).collect::<Result<_, _>>()?;
        Ok(Update { strategy: scale, level, policy })
    }
}

/// Changes to a conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// New title; also changes the slug.
    #[schema(min_length = 1, max_length = 500)]
    pub title: Option<String>,
    /// New state.
    pub state: Option<StateName>,
}

impl ChangeRequest {
    /// Rejects values beyond their limits.
    pub fn check(&self) -> Result<(), ServiceError> {
        check_lengths([("title", self.title.as_ref(), MAX_TITLE_CHARS)])
    }
}

/// The state of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StateName {
    /// Active.
    Open,
    /// Ended; a new message reopens it.
    Closed,
    /// Ended and hidden from listings.
    Archived,
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

/// Filters for jobs or log lines.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct WorkRequest {
    /// Job id prefix. In the log also an update id, for its jobs and their follow-ups.
    #[param(max_length = 64)]
    pub job: Option<String>,
    /// Only this conversation.
    #[param(max_length = 200)]
    pub conversation: Option<String>,
    /// Maximum number of results.
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: Option<usize>,
}

impl WorkRequest {
    /// Rejects values beyond their limits.
    pub fn check(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("job", self.job.as_ref(), LONGEST_ID),
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
        ])
    }
}

/// Rejects texts that exceed their maximum length.
fn check_lengths<const N: usize>(
    texts: [(&str, Option<&String>, usize); N],
) -> Result<(), ServiceError> {
    for (what, text, most) in texts {
        let chars = text.map_or(0, |text| text.chars().count());
        if chars > most {
            return Err(ServiceError::InvalidRequest(format!(
                "{what} has {chars} characters; the maximum is {most}"
            )));
        }
    }
    Ok(())
}

/// Returns the number if it is within its limits.
pub fn within(what: &str, number: usize, least: usize, most: usize) -> Result<usize, ServiceError> {
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(ServiceError::InvalidRequest(format!(
            "{what} is {number}; it must be between {least} and {most}"
        ))),
    }
}

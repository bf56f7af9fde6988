//! Request types: the bodies of HTTP requests, the arguments of MCP tools, and the options of
//! commands. Unknown fields are rejected, so that a typo is reported and not ignored.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{
    Assignment, Entry, EntryKind, ExternalId, ForkPoint, Json, Level, MessageIdx, NewToolCall,
    NewTurn, ThreadName, Timestamp, TitleSource, ToolResult,
};
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
const MAX_ID_CHARS: usize = 64;
const MAX_ITEM_CHARS: usize = 300;
pub(super) const MAX_KEY_CHARS: usize = 100;
pub(super) const MAX_NAME_CHARS: usize = 200;
const MAX_TITLE_CHARS: usize = 500;
const MAX_QUERY_CHARS: usize = 4000;
const MAX_PATH_CHARS: usize = 4096;
const MAX_CONTEXT_QUERY_CHARS: usize = 16_000;
const MAX_PATIENCE_MS: usize = 600_000;
const MAX_BUDGET_TOKENS: usize = 2_000_000;

/// Limits on requests that arrive over a protocol. A command on the user's own machine is not
/// limited.
pub trait RequestLimits {
    /// Rejects values beyond their limits.
    fn check_limits(&self) -> Result<(), ServiceError>;
}

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
    pub fn target(&self, engine: &Engine) -> Result<AppendTarget, ServiceError> {
        let Self { conversation, key, title, cwd, .. } = self;
        append_target(engine, [conversation, key, title, cwd])
    }
}

impl RequestLimits for AppendRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        within("the number of entries", self.entries.len(), 1, MAX_ENTRIES)?;
        check_target([&self.conversation, &self.key, &self.title, &self.cwd])
    }
}

/// Finds the conversation to append to. The fields are conversation, key, title and cwd.
fn append_target(
    engine: &Engine,
    [conversation, key, title, cwd]: [&Option<String>; 4],
) -> Result<AppendTarget, ServiceError> {
    match (conversation, key) {
        (Some(_), Some(_)) => Err(ServiceError::InvalidRequest(
            "set either conversation or key, not both; key creates the conversation if missing"
                .into(),
        )),
        (Some(reference), None) => Ok(AppendTarget::Existing(engine.find(reference)?.id)),
        (None, key) => Ok(AppendTarget::FindOrCreate(NewConversation {
            external_id: key.clone().map(ExternalId::new).transpose()?,
            title: title.clone(),
            title_source: TitleSource::Source,
            cwd: cwd.as_deref().map(normalize_cwd),
            ..NewConversation::default()
        })),
    }
}

fn check_target([conversation, key, title, cwd]: [&Option<String>; 4]) -> Result<(), ServiceError> {
    check_lengths([
        ("conversation", conversation.as_ref(), MAX_NAME_CHARS),
        ("key", key.as_ref(), MAX_KEY_CHARS),
        ("title", title.as_ref(), MAX_TITLE_CHARS),
        ("cwd", cwd.as_ref(), MAX_PATH_CHARS),
    ])
}

/// A turn to append, and its conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnRequest {
    /// The conversation to append to: slug, id or id prefix. Without `conversation` and `key`, a
    /// new one is created and its name returned.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
    /// Your own key for the conversation, such as a session id. The conversation is created if
    /// missing.
    #[schema(min_length = 1, max_length = 100)]
    pub key: Option<String>,
    /// Title of a new conversation.
    #[schema(max_length = 500)]
    pub title: Option<String>,
    /// Working directory of a new conversation, for filtering.
    #[schema(max_length = 4096)]
    pub cwd: Option<String>,
    /// Thread to append to; default: main.
    #[schema(min_length = 1, max_length = 100)]
    pub thread: Option<String>,
    /// Create the thread from main after the message at this position.
    pub fork_at: Option<u32>,
    /// Author of the user's message.
    #[schema(max_length = 200)]
    pub author: Option<String>,
    /// The user's message, verbatim.
    #[schema(max_length = 4000000)]
    pub user: Option<String>,
    /// The assistant's answer, or a fact to remember.
    #[schema(max_length = 4000000)]
    pub assistant: Option<String>,
    /// Tool calls in between.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub tool_calls: Vec<ToolCallRequest>,
    /// An id for this turn, which is stored only once.
    #[schema(min_length = 1, max_length = 100)]
    pub external_id: Option<String>,
    /// Time of the turn, such as 2026-03-02T08:41:00Z; default: now.
    #[schema(max_length = 40)]
    pub at: Option<String>,
}

/// A tool call of a turn.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCallRequest {
    /// The tool's name.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// The arguments.
    #[schema(value_type = Option<Object>)]
    pub args: Option<serde_json::Value>,
    /// The result.
    pub result: Option<serde_json::Value>,
    /// Whether it succeeded.
    pub success: Option<bool>,
    /// Duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// Id of the call at its source.
    #[schema(min_length = 1, max_length = 100)]
    pub external_id: Option<String>,
}

impl TurnRequest {
    /// Resolves the conversation.
    pub fn target(&self, engine: &Engine) -> Result<AppendTarget, ServiceError> {
        let Self { conversation, key, title, cwd, .. } = self;
        append_target(engine, [conversation, key, title, cwd])
    }

    /// The entries of the turn. Without a time of its own, the turn takes `now`.
    pub fn entries(self, now: Timestamp) -> Result<Vec<Entry>, ServiceError> {
        let thread = self.thread.as_deref().map(str::parse::<ThreadName>).transpose()?;
        let at = self.at.as_deref().map(str::parse).transpose()?.unwrap_or(now);
        let calls = self.tool_calls.into_iter().map(|call| call.call(at));
        let turn = NewTurn {
            thread: thread.clone().unwrap_or_default(),
            author: self.author,
            user: self.user.map(Into::into),
            tool_calls: calls.collect::<Result<_, _>>()?,
            assistant: self.assistant.map(Into::into),
            external_id: self.external_id,
            at,
        };
        let mut entries = fork_entry(thread, self.fork_at)?;
        entries.extend(turn.into_entries()?);
        Ok(entries)
    }
}

/// The entry that creates a thread from main after a message.
pub fn fork_entry(
    thread: Option<ThreadName>,
    fork_at: Option<u32>,
) -> Result<Vec<Entry>, ServiceError> {
    let Some(idx) = fork_at else { return Ok(Vec::new()) };
    let thread = thread.ok_or_else(|| {
        ServiceError::InvalidRequest("fork_at needs the name of the new thread in thread".into())
    })?;
    let after = ForkPoint::Position(MessageIdx(idx));
    Ok(vec![Entry { thread, kind: EntryKind::Fork { parent: ThreadName::main(), after } }])
}

impl ToolCallRequest {
    fn call(self, at: Timestamp) -> Result<NewToolCall, ServiceError> {
        let Self { name, args, result, success, duration_ms, external_id } = self;
        Ok(NewToolCall {
            name,
            args: args.as_ref().map_or_else(Json::empty_object, Json::from),
            outcome: ToolResult::of_parts(result.as_ref().map(Json::from), success, duration_ms),
            at,
            external_id: external_id.map(ExternalId::new).transpose()?,
        })
    }
}

impl RequestLimits for TurnRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_target([&self.conversation, &self.key, &self.title, &self.cwd])?;
        check_tool_calls(self.tool_calls.iter().map(|call| call.name.as_str()))?;
        check_lengths([
            ("author", self.author.as_ref(), MAX_NAME_CHARS),
            ("user", self.user.as_ref(), MAX_TEXT_CHARS),
            ("assistant", self.assistant.as_ref(), MAX_TEXT_CHARS),
            ("external_id", self.external_id.as_ref(), MAX_KEY_CHARS),
        ])?;
        self.tool_calls.iter().try_for_each(|call| {
            check_lengths([("external_id", call.external_id.as_ref(), MAX_KEY_CHARS)])
        })
    }
}

/// Rejects too many tool calls, and empty or overlong names.
fn check_tool_calls<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<(), ServiceError> {
    let calls = names.len();
    if calls > MAX_TOOL_CALLS {
        return Err(ServiceError::InvalidRequest(format!(
            "there are {calls} tool_calls; the maximum is {MAX_TOOL_CALLS}; \
             append the others as separate entries"
        )));
    }
    for name in names {
        if name.is_empty() {
            return Err(ServiceError::InvalidRequest(
                "a tool call has an empty name; name the tool".into(),
            ));
        }
        check_length("the tool name", name, MAX_NAME_CHARS)?;
    }
    Ok(())
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
        ])?;
        check_tool_calls(self.name.as_deref().into_iter())?;
        let names = self.tool_calls.iter().map(|call| call.name.as_deref().unwrap_or_default());
        check_tool_calls(names)?;
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
    /// Only conversations in these states.
    #[serde(default)]
    #[schema(max_items = 3)]
    pub states: Vec<StateName>,
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

impl SearchRequest {
    /// Validates the request and builds the engine's query.
    pub fn query(&self, engine: &Engine) -> Result<Query, ServiceError> {
        if self.query.trim().is_empty() {
            return Err(ServiceError::InvalidRequest(
                "the query is empty; enter a question or keywords".into(),
            ));
        }
        let conversations =
            self.conversations.iter().map(|it| engine.find(it).map(|found| found.id));
        Ok(Query {
            text: self.query.clone(),
            conversations: conversations.collect::<Result<_, _>>()?,
            cwd: self.cwd.as_deref().map(normalize_cwd),
            states: self.states.iter().copied().map(Into::into).collect(),
            thread: self.thread.as_deref().map(str::parse).transpose()?,
            author: self.author.clone(),
            role: self.role.map(Into::into),
            levels: self.levels.clone(),
            since: self.since.as_deref().map(str::parse).transpose()?,
            until: self.until.as_deref().map(str::parse).transpose()?,
            limit: self.limit.unwrap_or(10),
            min_score: self.min_score,
        })
    }
}

impl RequestLimits for SearchRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("query", Some(&self.query), MAX_QUERY_CHARS),
            ("cwd", self.cwd.as_ref(), MAX_PATH_CHARS),
            ("author", self.author.as_ref(), MAX_NAME_CHARS),
        ])?;
        within("the number of conversations", self.conversations.len(), 0, 50)?;
        within("the number of levels", self.levels.len(), 0, 10)?;
        within("the number of states", self.states.len(), 0, 3)?;
        check_limit(self.limit, MAX_HITS)
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

impl RequestLimits for ContextParams {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
            ("query", self.query.as_ref(), MAX_CONTEXT_QUERY_CHARS),
            ("profile", self.profile.as_ref(), MAX_KEY_CHARS),
        ])?;
        within("patience_ms", self.patience_ms.unwrap_or(0) as usize, 0, MAX_PATIENCE_MS)?;
        within("budget", self.budget.unwrap_or(128) as usize, 128, MAX_BUDGET_TOKENS)
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

impl RequestLimits for SessionsRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_limit(self.limit, MAX_ROWS)?;
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

impl RequestLimits for PageRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_limit(self.limit, MAX_ROWS)
    }
}

/// An item of a tree to expand.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpandRequest {
    /// A node such as `l1-3f9a…` or a message such as `my-chat#42`, from `search`, `context` or
    /// `expand`.
    #[schema(min_length = 1, max_length = 300)]
    pub id: String,
}

impl RequestLimits for ExpandRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("id", Some(&self.id), MAX_ITEM_CHARS)])
    }
}

/// Parameters of a tree update.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateRequest {
    /// Slug, id or id prefix; default: the latest conversation.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
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
    /// Wait until done, instead of returning once the jobs are planned.
    pub wait: bool,
}

impl RequestLimits for UpdateRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("conversation", self.conversation.as_ref(), MAX_NAME_CHARS)])?;
        within("the number of overrides", self.with.len(), 0, 50)
    }
}

impl UpdateRequest {
    /// Validates the request and builds the engine's update.
    pub fn update(&self) -> Result<Update, ServiceError> {
        let strategy = if self.full { UpdateStrategy::Full } else { UpdateStrategy::Incremental };
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
        Ok(Update { strategy, level, policy })
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

impl RequestLimits for ChangeRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("title", self.title.as_ref(), MAX_TITLE_CHARS)])
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

impl RequestLimits for WorkRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_limit(self.limit, MAX_ROWS)?;
        check_lengths([
            ("job", self.job.as_ref(), MAX_ID_CHARS),
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
        ])
    }
}

/// The scope of statistics.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct StatsRequest {
    /// Only this conversation: slug, id or id prefix; default: the whole tenant.
    #[param(max_length = 200)]
    pub conversation: Option<String>,
}

impl RequestLimits for StatsRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("conversation", self.conversation.as_ref(), MAX_NAME_CHARS)])
    }
}

/// The conversation to report on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StatusRequest {
    /// Slug, id or id prefix; default: the latest conversation.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
}

impl RequestLimits for StatusRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("conversation", self.conversation.as_ref(), MAX_NAME_CHARS)])
    }
}

/// Rejects texts that exceed their maximum length.
fn check_lengths<const N: usize>(
    texts: [(&str, Option<&String>, usize); N],
) -> Result<(), ServiceError> {
    for (what, text, most) in texts {
        check_length(what, text.map_or("", String::as_str), most)?;
    }
    Ok(())
}

fn check_length(what: &str, text: &str, most: usize) -> Result<(), ServiceError> {
    let chars = text.chars().count();
    if chars > most {
        return Err(ServiceError::InvalidRequest(format!(
            "{what} has {chars} characters; the maximum is {most}"
        )));
    }
    Ok(())
}

/// Rejects a number outside its limits.
fn within(what: &str, number: usize, least: usize, most: usize) -> Result<(), ServiceError> {
    match (least..=most).contains(&number) {
        true => Ok(()),
        false => Err(ServiceError::InvalidRequest(format!(
            "{what} is {number}; it must be between {least} and {most}"
        ))),
    }
}

fn check_limit(limit: Option<usize>, most: usize) -> Result<(), ServiceError> {
    within("limit", limit.unwrap_or(1), 1, most)
}

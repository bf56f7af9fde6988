//! What can be asked for: the bodies of HTTP requests and the arguments of MCP tools. Unknown fields are
//! refused, so that a slip of the pen is told and not ignored.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::parameters::Assignment;
use treering_core::{Entry, EntryKind, ExternalId, Level, TitleSource};
use treering_engine::{
    AppendTarget, Engine, NewConversation, Query, Update, UpdateStrategy, normalize_cwd,
};
use utoipa::{IntoParams, ToSchema};

use super::ServiceError;

/// The most entries that one request appends.
pub const MAX_ENTRIES: usize = 1000;
/// The most hits that one request asks for.
pub const MAX_HITS: usize = 100;
/// The most rows that one request lists.
pub const MAX_ROWS: usize = 500;
/// The most tool calls that a turn has.
pub(super) const MAX_TOOL_CALLS: usize = 200;
/// How long texts may be, in characters.
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

/// What to append, and where to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendRequest {
    /// The conversation: slug, id, or the first digits of an id. A new one where neither this nor `key`
    /// is given.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
    /// Finds the conversation by an external id, and makes it where it is missing.
    #[schema(min_length = 1, max_length = 100)]
    pub key: Option<String>,
    /// The title of a new conversation.
    #[schema(max_length = 500)]
    pub title: Option<String>,
    /// The folder of a new conversation.
    #[schema(max_length = 4096)]
    pub cwd: Option<String>,
    /// Turns, messages, tool calls and results: the lines that `treering append` takes, as an array.
    #[schema(schema_with = super::answers::entries_schema)]
    pub entries: Vec<Box<RawValue>>,
}

impl AppendRequest {
    /// The conversation that is meant.
    pub fn target(&self, memory: &Engine) -> Result<AppendTarget, ServiceError> {
        check_lengths([
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
            ("key", self.key.as_ref(), MAX_KEY_CHARS),
            ("title", self.title.as_ref(), MAX_TITLE_CHARS),
            ("cwd", self.cwd.as_ref(), MAX_PATH_CHARS),
        ])?;
        match (&self.conversation, &self.key) {
            (Some(_), Some(_)) => Err(ServiceError::InvalidRequest(
                "give either conversation or key, not both; key also makes a new one".into(),
            )),
            (Some(reference), None) => Ok(AppendTarget::Existing(memory.find(reference)?.id)),
            (None, key) => Ok(AppendTarget::FindOrCreate(NewConversation {
                external_id: key.clone().map(ExternalId::new).transpose()?,
                title: self.title.clone(),
                naming: TitleSource::Source,
                cwd: self.cwd.as_deref().map(normalize_cwd),
                ..NewConversation::default()
            })),
        }
    }
}

/// What has a limit in an entry, and in a tool call of one.
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
            ("the name of a tool", self.name.as_ref(), MAX_NAME_CHARS),
        ])?;
        if self.name.as_ref().is_some_and(String::is_empty) {
            return Err(ServiceError::InvalidRequest(
                "a tool call has an empty name; give the name of the tool".into(),
            ));
        }
        let calls = self.tool_calls.len();
        if calls > MAX_TOOL_CALLS {
            let told = "append the others as entries of their own";
            return Err(ServiceError::InvalidRequest(format!(
                "there are {calls} tool_calls; {MAX_TOOL_CALLS} is the most, {told}"
            )));
        }
        self.tool_calls.iter().try_for_each(Self::check)
    }
}

/// Refuses an entry in which something is longer, or there is more of it, than its schema allows.
pub(super) fn check_entry(raw: &RawValue, entries: &[Entry]) -> Result<(), ServiceError> {
    let limited: Limited = serde_json::from_str(raw.get()).map_err(|error| {
        ServiceError::InvalidRequest(format!("it does not fit its schema: {error}"))
    })?;
    limited.check()?;
    entries.iter().try_for_each(|entry| match &entry.kind {
        EntryKind::Message(message) => {
            check_lengths([("the text", Some(&message.text), MAX_TEXT_CHARS)])
        }
        EntryKind::ToolCall(_) | EntryKind::ToolResult { .. } | EntryKind::Fork { .. } => Ok(()),
    })
}

/// What to search for, and where.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// A question, or words.
    #[schema(min_length = 1, max_length = 4000)]
    pub query: String,
    /// Only in these conversations: slugs, ids, or first digits of ids.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub conversations: Vec<String>,
    /// Only in conversations of this folder.
    #[schema(max_length = 4096)]
    pub cwd: Option<String>,
    /// Only in this thread.
    #[schema(min_length = 1, max_length = 100)]
    pub thread: Option<String>,
    /// Only what this author said.
    #[schema(max_length = 200)]
    pub author: Option<String>,
    /// Only what was said in this role: `user`, `assistant`, `system` or `tool`.
    pub role: Option<RoleName>,
    /// Only these levels: 0 for messages and tool calls, 1 and above for nodes.
    #[serde(default)]
    #[schema(max_items = 10)]
    pub levels: Vec<u8>,
    /// Only what was said from this date on, such as 2026-03-02 or 2026-03-02T08:41:00Z.
    #[schema(max_length = 40)]
    pub since: Option<String>,
    /// Only what was said before this date.
    #[schema(max_length = 40)]
    pub until: Option<String>,
    /// At most so many hits.
    #[schema(minimum = 1, maximum = 100, default = 10)]
    pub limit: Option<usize>,
    /// Only hits with at least this score.
    pub min_score: Option<f32>,
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoleName {
    /// A person.
    User,
    /// The model.
    Assistant,
    /// Who sets the model up.
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
    /// The query that is meant.
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
                "the query is empty; ask a question or give a few words".into(),
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

/// What context is wanted.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextParams {
    /// Slug, id, or the first digits of an id; the latest conversation where none is given.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
    /// What is asked now; without it, the best standing context.
    #[schema(max_length = 16000)]
    pub query: Option<String>,
    /// The most tokens it may have; the setting `context.budget` where none is given.
    #[schema(minimum = 128, maximum = 2000000)]
    pub budget: Option<u32>,
    /// What goes into it: `cut`, `enriched`, `tiered`, `frontier`, `code-review`, `documentation`, or a
    /// profile of one's own.
    #[schema(max_length = 100)]
    pub profile: Option<String>,
    /// As it was known after this turn, counted from 0.
    pub as_of: Option<u32>,
    /// The thread it is for; the one that was spoken in last where none is given.
    #[schema(min_length = 1, max_length = 100)]
    pub thread: Option<String>,
    /// How long unfinished summaries are waited for at the most, in milliseconds; what is not done by then
    /// is told as it was said.
    #[schema(maximum = 600000)]
    pub patience_ms: Option<u64>,
    /// The form it comes in.
    #[serde(default)]
    pub format: ContextFormat,
}

impl ContextParams {
    /// Refuses what is longer or larger than it may be.
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

/// The form of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContextFormat {
    /// One text, in `text`.
    #[default]
    Markdown,
    /// An array of messages for a chat API, in `messages`.
    Messages,
    /// Everything item by item, in `preamble` and `sections`.
    Json,
}

/// Which conversations to list.
#[derive(Debug, Default, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct SessionsRequest {
    /// Only those that took place in this folder.
    #[schema(max_length = 4096)]
    #[param(max_length = 4096)]
    pub cwd: Option<String>,
    /// Archived ones too.
    pub all: bool,
    /// At most so many.
    #[schema(minimum = 1, maximum = 500, default = 20)]
    #[param(minimum = 1, maximum = 500, default = 20)]
    pub limit: Option<usize>,
}

impl SessionsRequest {
    /// Refuses what is longer than it may be.
    pub fn check(&self) -> Result<(), ServiceError> {
        check_lengths([("cwd", self.cwd.as_ref(), MAX_PATH_CHARS)])
    }
}

/// Which turns of a conversation to read.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct PageRequest {
    /// The first turn, counted from 0.
    pub from: u32,
    /// At most so many.
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: Option<usize>,
}

/// What to bring up to date.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateRequest {
    /// Grows the tree anew from the messages, instead of only what is missing, changed or failed.
    pub full: bool,
    /// Only this level; with `full`, this one and those above it.
    #[schema(minimum = 1, maximum = 8)]
    pub level: Option<u8>,
    /// Parameters of the policy, for this time only, such as `window_chars=4000`.
    #[schema(max_items = 50)]
    pub with: Vec<String>,
    /// Says what would be done; writes nothing.
    pub dry_run: bool,
}

impl UpdateRequest {
    /// The update that is meant.
    pub fn update(&self) -> Result<Update, ServiceError> {
        within("the number of parameters", self.with.len(), 0, 50)?;
        let scale = if self.full { UpdateStrategy::Full } else { UpdateStrategy::Incremental };
        let level = match self.level {
            None => None,
            Some(number) => {
                let level = Level::new(number).filter(|_| number <= 8);
                Some(level.ok_or_else(|| {
                    ServiceError::InvalidRequest(format!("level {number}: a level is from 1 to 8"))
                })?)
            }
        };
        let policy =
            self.with.iter().map(|text| text.parse::<Assignment>()).collect::<Result<_, _>>()?;
        Ok(Update { strategy: scale, level, policy })
    }
}

/// What to change about a conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// Another title; the slug follows from it.
    #[schema(min_length = 1, max_length = 500)]
    pub title: Option<String>,
    /// Opens, closes or archives it.
    pub state: Option<StateName>,
}

impl ChangeRequest {
    /// Refuses what is longer than it may be.
    pub fn check(&self) -> Result<(), ServiceError> {
        check_lengths([("title", self.title.as_ref(), MAX_TITLE_CHARS)])
    }
}

/// The state of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StateName {
    /// It goes on.
    Open,
    /// It has ended; a new message opens it again.
    Closed,
    /// It has ended and is left out of listings.
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

/// Which lines of the log, or which jobs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct WorkRequest {
    /// The first digits of the id of a job; in the log also of an update, for its jobs and those that followed from them.
    #[param(max_length = 64)]
    pub job: Option<String>,
    /// Only what is about this conversation.
    #[param(max_length = 200)]
    pub conversation: Option<String>,
    /// At most so many, the newest.
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: Option<usize>,
}

impl WorkRequest {
    /// Refuses what is longer than it may be.
    pub fn check(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("job", self.job.as_ref(), LONGEST_ID),
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
        ])
    }
}

/// Refuses texts that are longer than they may be.
fn check_lengths<const N: usize>(
    texts: [(&str, Option<&String>, usize); N],
) -> Result<(), ServiceError> {
    for (what, text, most) in texts {
        let chars = text.map_or(0, |text| text.chars().count());
        if chars > most {
            return Err(ServiceError::InvalidRequest(format!(
                "{what} has {chars} characters; {most} is the most"
            )));
        }
    }
    Ok(())
}

/// A number, if it lies within its limits.
pub fn within(what: &str, number: usize, least: usize, most: usize) -> Result<usize, ServiceError> {
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(ServiceError::InvalidRequest(format!(
            "{what} {number}: it is from {least} to {most}"
        ))),
    }
}

//! Requests that store: entries, turns, and conversations without turns.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{
    Entry, EntryKind, ExternalId, ForkPoint, Json, Labels, MessageIdx, NewToolCall, NewTurn,
    ThreadName, Timestamp, TitleSource, ToolResult,
};
use treering_engine::{AppendTarget, Engine, NewConversation, normalize_cwd};
use utoipa::ToSchema;

use super::entry::EntryRequest;
use super::{
    MAX_ENTRIES, MAX_KEY_CHARS, MAX_NAME_CHARS, MAX_PATH_CHARS, MAX_TEXT_CHARS, MAX_TITLE_CHARS,
    MAX_TOOL_CALLS, RequestLimits, check_length, check_lengths, check_range,
};
use crate::service::ServiceError;

/// Entries to append, and their conversation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendRequest {
    /// Slug, key, id, or the first digits of an id of the conversation. Without `conversation` and `key`, a new
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
    /// Project of a new conversation.
    #[serde(alias = "projectPath")]
    #[schema(max_length = 4096)]
    pub project_path: Option<String>,
    /// Labels to set, such as `{"user": "42"}`.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Turns, messages, tool calls and results, in the JSON form that `treering append` reads.
    #[schema(value_type = Vec<EntryRequest>, min_items = 1, max_items = 1000)]
    pub entries: Vec<Box<RawValue>>,
}

impl AppendRequest {
    /// Resolves the conversation.
    pub fn target(&self, engine: &Engine) -> Result<AppendTarget, ServiceError> {
        self.fields().target(engine)
    }

    fn fields(&self) -> ConversationFields<'_> {
        ConversationFields {
            conversation: self.conversation.as_ref(),
            key: self.key.as_ref(),
            title: self.title.as_ref(),
            cwd: self.cwd.as_ref(),
            project_path: self.project_path.as_ref(),
            labels: &self.labels,
        }
    }
}

impl RequestLimits for AppendRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_range("the number of entries", self.entries.len(), 1, MAX_ENTRIES)?;
        self.fields().check_limits()
    }
}

/// The fields that name or describe the conversation of a request.
struct ConversationFields<'a> {
    conversation: Option<&'a String>,
    key: Option<&'a String>,
    title: Option<&'a String>,
    cwd: Option<&'a String>,
    project_path: Option<&'a String>,
    labels: &'a Labels,
}

impl ConversationFields<'_> {
    /// Finds the conversation to append to, or describes the one to create.
    fn target(&self, engine: &Engine) -> Result<AppendTarget, ServiceError> {
        match (self.conversation, self.key) {
            (Some(_), Some(_)) => Err(ServiceError::InvalidRequest(
                "set either conversation or key, not both; key creates the conversation if missing"
                    .into(),
            )),
            (Some(reference), None) => Ok(AppendTarget::Existing(engine.find(reference)?.id)),
            (None, key) => Ok(AppendTarget::FindOrCreate(NewConversation {
                external_id: key.cloned().map(ExternalId::new).transpose()?,
                title: self.title.cloned(),
                title_source: TitleSource::Source,
                cwd: self.cwd.map(|folder| normalize_cwd(folder)),
                project_path: self.project_path.map(|folder| normalize_cwd(folder)),
                labels: self.labels.clone(),
                ..NewConversation::default()
            })),
        }
    }

    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("conversation", self.conversation, MAX_NAME_CHARS),
            ("key", self.key, MAX_KEY_CHARS),
            ("title", self.title, MAX_TITLE_CHARS),
            ("cwd", self.cwd, MAX_PATH_CHARS),
            ("project_path", self.project_path, MAX_PATH_CHARS),
        ])
    }
}

/// A conversation to create. It has no turns yet.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    /// Your own key for the conversation, such as a session id. The conversation with this key is
    /// returned if it exists.
    #[schema(min_length = 1, max_length = 100)]
    pub key: Option<String>,
    /// The title.
    #[schema(max_length = 500)]
    pub title: Option<String>,
    /// The working directory.
    #[schema(max_length = 4096)]
    pub cwd: Option<String>,
    /// The project that the working directory belongs to.
    #[serde(alias = "projectPath")]
    #[schema(max_length = 4096)]
    pub project_path: Option<String>,
    /// Labels to set, such as `{"user": "42"}`.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
}

impl CreateRequest {
    /// The conversation to find or create.
    pub fn target(&self, engine: &Engine) -> Result<AppendTarget, ServiceError> {
        self.fields().target(engine)
    }

    fn fields(&self) -> ConversationFields<'_> {
        ConversationFields {
            conversation: None,
            key: self.key.as_ref(),
            title: self.title.as_ref(),
            cwd: self.cwd.as_ref(),
            project_path: self.project_path.as_ref(),
            labels: &self.labels,
        }
    }
}

impl RequestLimits for CreateRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        self.fields().check_limits()
    }
}

/// A turn to append, and its conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnRequest {
    /// The conversation to append to: slug, key, id, or the first digits of an id. Without `conversation` and `key`,
    /// `remember` stores a note, and `append` creates a conversation.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
    /// Your own key for the conversation, such as a session id. The conversation is created if
    /// missing.
    #[schema(min_length = 1, max_length = 100)]
    pub key: Option<String>,
    /// Title of a new conversation.
    #[schema(max_length = 500)]
    pub title: Option<String>,
    /// Working directory of a new conversation.
    #[schema(max_length = 4096)]
    pub cwd: Option<String>,
    /// Project of a new conversation.
    #[serde(alias = "projectPath")]
    #[schema(max_length = 4096)]
    pub project_path: Option<String>,
    /// Labels to set, such as `{"user": "42"}`.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
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
    /// The assistant's answer, or a fact to remember; also as `text`.
    #[serde(alias = "text")]
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
    /// Whether a note comes first in contexts over its project.
    #[serde(default)]
    pub pinned: bool,
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
        self.fields().target(engine)
    }

    fn fields(&self) -> ConversationFields<'_> {
        ConversationFields {
            conversation: self.conversation.as_ref(),
            key: self.key.as_ref(),
            title: self.title.as_ref(),
            cwd: self.cwd.as_ref(),
            project_path: self.project_path.as_ref(),
            labels: &self.labels,
        }
    }

    /// The entries of the turn. Without a time of its own, the turn takes `now`.
    pub fn entries(self, now: Timestamp) -> Result<Vec<Entry>, ServiceError> {
        if self.pinned {
            return Err(ServiceError::InvalidRequest(
                "only notes can be pinned; leave out the conversation to store a note".into(),
            ));
        }
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
        self.fields().check_limits()?;
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
    /// The function of a tool call, as chat APIs have it.
    #[serde(alias = "custom", alias = "function_call")]
    function: Option<LimitedFunction>,
}

#[derive(Deserialize)]
struct LimitedFunction {
    name: String,
}

impl Limited {
    /// The name of a tool call.
    fn tool(&self) -> Option<&str> {
        let function = self.function.as_ref().map(|function| function.name.as_str());
        self.name.as_deref().or(function)
    }

    fn check(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("external_id", self.external_id.as_ref(), MAX_KEY_CHARS),
            ("author", self.author.as_ref(), MAX_NAME_CHARS),
        ])?;
        check_tool_calls(self.tool().into_iter())?;
        let names = self.tool_calls.iter().map(|call| call.tool().unwrap_or_default());
        check_tool_calls(names)?;
        self.tool_calls.iter().try_for_each(Self::check)
    }
}

/// Rejects an entry that exceeds the limits of its schema.
pub(in crate::service) fn check_entry(
    raw: &RawValue,
    entries: &[Entry],
) -> Result<(), ServiceError> {
    let limited: Limited = serde_json::from_str(raw.get()).map_err(|error| {
        ServiceError::InvalidRequest(format!("it does not match its schema: {error}"))
    })?;
    limited.check()?;
    entries.iter().try_for_each(|entry| match &entry.kind {
        EntryKind::Message(message) => {
            check_lengths([("the text", Some(&message.text), MAX_TEXT_CHARS)])
        }
        EntryKind::ToolCall(_)
        | EntryKind::ToolResult { .. }
        | EntryKind::Fork { .. }
        | EntryKind::TurnEnd => Ok(()),
    })
}

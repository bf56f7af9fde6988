//! The MCP tools: their declarations and implementations.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde::de::DeserializeOwned;

use super::progress::Progress;
use super::schema::arguments;
use super::{MAX_ANSWER_TOKENS, MIN_ANSWER_TOKENS, convert, render};
use crate::service::requests::{
    ContextParams, ExpandRequest, ForgetRequest, NamedAmendRequest, NotesRequest, NotesToolRequest,
    RequestLimits, SearchRequest, SessionsRequest, StatusRequest, ThreadsRequest, TurnRequest,
    UpdateRequest,
};
use crate::service::{Grant, Remembered, ServiceError, TaskKind, TokenScope};
use crate::views::{AppendedView, NoteList};

/// Default token budgets of results.
const SEARCH_TOKENS: u32 = 2000;
const EXPAND_TOKENS: u32 = 4000;
const SESSIONS_TOKENS: u32 = 2000;
const NOTES_TOKENS: u32 = 2000;
const STATUS_TOKENS: u32 = 2000;
/// How long `summaries_update` waits. Shorter than the timeout of a call.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(540);
/// Fields of a context request that the tool does not take: `max_tokens` is its budget, the
/// client's timeout ends a wait, and the result is always text.
const CONTEXT_FIELDS_OFF: [&str; 3] = ["budget", "gate_timeout_ms", "format"];

/// The listed arguments of `amend`.
const AMEND_FIELDS: &[(&str, &str)] = &[
    ("id", "A message my-chat#42"),
    ("text", "New text; history keeps the old one"),
    ("wrong", "Mark the message as wrong"),
    ("correction", "The correct statement, used in its place"),
];

/// The listed arguments of `notes`.
const NOTES_FIELDS: &[(&str, &str)] = &[
    ("project_path", "Only of this folder and below"),
    ("note", "Change this one, notes-shop#3"),
    ("text", "Correct it"),
    ("pinned", "Pin or unpin it"),
    ("withdrawn", "Withdraw it"),
    ("max_tokens", "Default 2000"),
];

/// The listed arguments of `status`.
const STATUS_FIELDS: &[(&str, &str)] =
    &[("conversation", "Default: the latest"), ("max_tokens", "Default 2000")];

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryTool {
    Remember,
    Notes,
    Search,
    Context,
    Expand,
    Sessions,
    Threads,
    Update,
    Amend,
    Forget,
    Status,
}

impl MemoryTool {
    pub(super) const ALL: [Self; 11] = [
        Self::Remember,
        Self::Notes,
        Self::Search,
        Self::Context,
        Self::Expand,
        Self::Sessions,
        Self::Threads,
        Self::Update,
        Self::Amend,
        Self::Forget,
        Self::Status,
    ];

    /// Finds a tool by its name or its alias.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name || tool.alias() == Some(name))
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Remember => "remember",
            Self::Notes => "notes",
            Self::Search => "search",
            Self::Context => "context",
            Self::Expand => "expand",
            Self::Sessions => "sessions",
            Self::Threads => "threads",
            Self::Update => "summaries_update",
            Self::Amend => "amend",
            Self::Forget => "forget",
            Self::Status => "status",
        }
    }

    const fn alias(self) -> Option<&'static str> {
        match self {
            Self::Remember => Some("append"),
            Self::Update => Some("summaries.update"),
            _ => None,
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Remember => {
                "Keep what the user asks you to keep and hooks do not capture: a note of the \
                 project or, with conversation or key, a turn. Also takes title, cwd, thread, \
                 fork_at, author, external_id, at."
            }
            Self::Notes => "List notes, or change one. Also takes all (withdrawn ones too).",
            Self::Search => {
                "Search all conversations by words and meaning. Call it whenever the user refers \
                 to something outside your context, before you say that you do not know. Also \
                 takes cwd, thread, author, role, states, archived, levels, include_turns, topics, \
                 semantic, exclude_roles, asked_by, each_item, min_score."
            }
            Self::Context => {
                "Condense a conversation, or all conversations of a project, to a token budget, \
                 with most detail where relevant or recent. Call it to resume work, or after your \
                 context was compacted. Also takes conversations, labels, everything, exclude, \
                 asked_by, thread, as_of (a turn)."
            }
            Self::Expand => {
                "Read one item in full: a message with its turn, or a summary with its sources \
                 and the summaries above it."
            }
            Self::Sessions => "List conversations, latest first.",
            Self::Threads => "List the threads of a conversation, or fork one. Also takes parent.",
            Self::Update => {
                "Update the summaries of a conversation, or rebuild them. They update \
                 automatically; call it only if status shows failures or the user asks. Waits for \
                 level 1; higher levels follow in the background. Also takes windowChars, \
                 minFlushChars, overlapChars, groupChars, wiggle, ratioOnly, concurrency, \
                 batchDelayMs, sealPolicy, flushAfterMs and any policy parameter."
            }
            Self::Amend => {
                "Edit a stored message, or mark it as wrong, because the user says so. Set text or \
                 wrong. Also takes regenerate."
            }
            Self::Forget => {
                "Forget something for good, also in every summary. The first call returns a \
                 preview and a token and forgets nothing. Show the preview to the user, and call \
                 again with the token only if the user agrees. Also takes thread, secrets, everything, \
                 allow_return, fast."
            }
            Self::Status => "Report the size of the memory, pending summaries and failures.",
        }
    }

    /// Whether a call can take minutes.
    pub(super) const fn is_long(self) -> bool {
        matches!(self, Self::Update)
    }

    /// The arguments that the definition lists, with their descriptions.
    const fn fields(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Remember => &[
                ("user", "The user's message"),
                ("assistant", "Your answer, or the note"),
                ("project_path", "Folder of the note's project; without it, every project"),
                ("pinned", "Show the note first in contexts over its project"),
                ("key", "Your own id of the conversation; created if missing"),
                ("conversation", "Slug or id of an existing conversation"),
                ("labels", "Such as {\"user\": \"42\"}"),
                ("tool_calls", "name, args, result, success of each"),
            ],
            Self::Notes => NOTES_FIELDS,
            Self::Search => &[
                ("query", "A question or keywords"),
                ("conversations", "Only these slugs or ids"),
                ("project_path", "Only this folder and below"),
                ("labels", "Only conversations with these, such as {\"source\": \"codex\"}"),
                ("exclude", "Conversations, or messages such as my-chat#40..55"),
                ("since", "A date such as 2026-03-02"),
                ("until", "A date"),
                ("limit", "Default 10"),
                ("max_tokens", "Size of the result, default 2000"),
            ],
            Self::Context => &[
                ("conversation", "Slug or id"),
                ("project_path", "Or all conversations of this folder and below"),
                ("query", "The current question"),
                ("profile", "Default: cut"),
                ("max_tokens", "The budget, default 8000"),
            ],
            Self::Expand => &[
                ("id", "A summary l1-3f9a…, a message my-chat#42, or a conversation"),
                ("max_tokens", "Default 4000"),
            ],
            Self::Sessions => &[
                ("cwd", "Only sessions in this folder or below"),
                ("project_path", "Only sessions of this project"),
                ("labels", "Only sessions with these labels"),
                ("all", "Also archived sessions"),
                ("limit", "Default 20"),
                ("max_tokens", "Default 2000"),
            ],
            Self::Threads => &[
                ("conversation", "Slug or id"),
                ("thread", "Name of a new thread"),
                ("fork_at", "Its last shared message; default: the latest"),
            ],
            Self::Update => &[
                ("slug", "Slug, key or id; default: the latest"),
                ("strategy", "Default: incremental"),
                ("level", "Only this level"),
                ("dryRun", "Estimate only"),
                ("wait", "Wait for every level"),
            ],
            Self::Amend => AMEND_FIELDS,
            Self::Forget => &[
                ("conversation", "Slug or id; alone, the whole conversation"),
                ("message", "Only this position"),
                ("turn", "Only this turn"),
                ("range", "Only messages A..B"),
                ("author", "All messages of this author"),
                ("project", "All conversations of this folder"),
                ("label", "All conversations with this label, user=42"),
                ("token", "Token from the preview"),
            ],
            Self::Status => STATUS_FIELDS,
        }
    }

    fn arguments(self) -> Arc<JsonObject> {
        let fields = self.fields();
        match self {
            Self::Remember => arguments::<TurnRequest>(fields),
            Self::Notes => arguments::<NotesToolRequest>(fields),
            Self::Search => arguments::<SearchRequest>(fields),
            Self::Context => arguments::<ContextParams>(fields),
            Self::Expand => arguments::<ExpandRequest>(fields),
            Self::Sessions => arguments::<SessionsRequest>(fields),
            Self::Threads => arguments::<ThreadsRequest>(fields),
            Self::Update => arguments::<UpdateRequest>(fields),
            Self::Amend => arguments::<NamedAmendRequest>(fields),
            Self::Forget => arguments::<ForgetRequest>(fields),
            Self::Status => arguments::<StatusRequest>(fields),
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let local = ToolAnnotations::new().open_world(false);
        match self {
            Self::Remember | Self::Notes | Self::Threads => {
                local.read_only(false).destructive(false)
            }
            Self::Update => local.read_only(false).destructive(true).idempotent(true),
            Self::Amend | Self::Forget => local.read_only(false).destructive(true),
            _ => local.read_only(true),
        }
    }

    /// The declaration for clients. There is no schema of results: a model reads them as text.
    pub(super) fn declaration(self) -> Tool {
        Tool::new(self.name(), self.description(), self.arguments())
            .with_annotations(self.annotations())
    }

    /// Calls the tool.
    pub(super) async fn call(
        self,
        arguments: JsonObject,
        grant: &Grant,
        progress: &Progress,
    ) -> Result<CallToolResult, ServiceError> {
        match self {
            Self::Remember => remember(arguments, grant).await,
            Self::Notes => notes(arguments, grant).await,
            Self::Search => search(arguments, grant).await,
            Self::Context => context(arguments, grant, progress).await,
            Self::Expand => expand(arguments, grant).await,
            Self::Sessions => sessions(arguments, grant).await,
            Self::Threads => threads(arguments, grant).await,
            Self::Update => update(arguments, grant, progress).await,
            Self::Amend => amend(arguments, grant).await,
            Self::Forget => forget(arguments, grant).await,
            Self::Status => status(arguments, grant).await,
        }
    }
}

/// Parses the arguments and rejects values beyond their limits.
fn parse<T: DeserializeOwned + RequestLimits>(arguments: JsonObject) -> Result<T, ServiceError> {
    let request: T = serde_json::from_value(serde_json::Value::Object(arguments))
        .map_err(|error| ServiceError::InvalidRequest(format!("invalid arguments: {error}")))?;
    request.check_limits()?;
    Ok(request)
}

/// Removes `max_tokens` from the arguments and validates it.
fn take_max_tokens(arguments: &mut JsonObject, default: u32) -> Result<u32, ServiceError> {
    let Some(value) = arguments.remove("max_tokens") else { return Ok(default) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| (MIN_ANSWER_TOKENS..=MAX_ANSWER_TOKENS).contains(number)).ok_or_else(
        || {
            ServiceError::InvalidRequest(format!(
                "max_tokens is {value}; it must be a number between {MIN_ANSWER_TOKENS} and \
                 {MAX_ANSWER_TOKENS}"
            ))
        },
    )
}

async fn remember(arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let request: TurnRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Write)?;
    let stored = service.run(TaskKind::Write, move |service| service.remember(request)).await?;
    match stored {
        Remembered::Turn(stored) => {
            let view = AppendedView::of(&stored);
            let stored = render::count(view.messages.len() as u32, "message");
            let text = format!("Stored {stored} in `{}`.", view.slug);
            Ok(convert::data(&view, &text))
        }
        Remembered::Note(view) => {
            let text = format!("Stored the note `{}`.", view.note);
            Ok(convert::data(&view, &text))
        }
    }
}

async fn notes(mut arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, NOTES_TOKENS)?;
    let request: NotesToolRequest = parse(arguments)?;
    let change = request.change()?;
    let (scope, kind) = match change {
        Some(_) => (TokenScope::Write, TaskKind::Write),
        None => (TokenScope::Read, TaskKind::Read),
    };
    let result = grant.require(scope)?.run(kind, move |service| {
        let list = match change {
            Some((note, change)) => NoteList { notes: vec![service.change_note(&note, change)?] },
            None => {
                let (project_path, all) = (request.project_path, request.all);
                service.notes(&NotesRequest { project_path, all })?
            }
        };
        Ok(render::notes(&list, service.engine(), max_tokens))
    });
    Ok(convert::text(&result.await?))
}

async fn search(mut arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, SEARCH_TOKENS)?;
    let request: SearchRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result = service.run(TaskKind::Read, move |service| {
        Ok(render::search(&service.search(&request)?, service.engine(), max_tokens))
    });
    Ok(convert::text(&result.await?))
}

async fn context(
    mut arguments: JsonObject,
    grant: &Grant,
    progress: &Progress,
) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, super::CONTEXT_TOKENS)?;
    if let Some(field) = CONTEXT_FIELDS_OFF.iter().find(|name| arguments.contains_key(**name)) {
        return Err(ServiceError::InvalidRequest(format!(
            "invalid arguments: unknown field `{field}`; set the size with max_tokens"
        )));
    }
    // The last line names the conversation and says what is missing.
    let budget = max_tokens.saturating_sub(render::CONTEXT_FRAME_TOKENS);
    let params = ContextParams { budget: Some(budget), ..parse(arguments)? };
    let service = grant.require(TokenScope::Read)?;
    let (subject, params) = service
        .run(TaskKind::Read, move |service| Ok((service.context_subject(&params)?, params)))
        .await?;
    let mut max_pending = 0;
    let report = |pending: usize| {
        max_pending = max_pending.max(pending);
        progress.report(
            max_pending - pending,
            Some(max_pending),
            format!("{pending} summaries pending"),
        )
    };
    if let Some(id) = subject.gated() {
        service.wait_for_gate(id, service.gate_timeout(&params), report).await?;
    }
    let result = service.run(TaskKind::Read, move |service| {
        Ok(render::context(&service.context(&subject, &params)?, &subject))
    });
    Ok(convert::text(&result.await?))
}

async fn expand(mut arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, EXPAND_TOKENS)?;
    let request: ExpandRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result = service.run(TaskKind::Read, move |service| {
        Ok(render::expand(service.expand(&request)?, service.engine(), max_tokens))
    });
    Ok(convert::text(&result.await?))
}

async fn sessions(
    mut arguments: JsonObject,
    grant: &Grant,
) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, SESSIONS_TOKENS)?;
    let request: SessionsRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result = service.run(TaskKind::Read, move |service| {
        Ok(render::sessions(&service.sessions(&request)?, service.engine(), max_tokens))
    });
    Ok(convert::text(&result.await?))
}

async fn threads(arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let request: ThreadsRequest = parse(arguments)?;
    let (scope, kind) = match request.fork() {
        Some(_) => (TokenScope::Write, TaskKind::Write),
        None => (TokenScope::Read, TaskKind::Read),
    };
    let list = grant.require(scope)?.run(kind, move |service| match request.fork() {
        Some(fork) => service.fork(&request.conversation, &fork),
        None => service.threads(&request.conversation),
    });
    let list = list.await?;
    let names: Vec<&str> = list.threads.iter().map(|thread| thread.name.as_str()).collect();
    let text = format!("Threads: {}.", names.join(", "));
    Ok(convert::data(&list, &text))
}

async fn update(
    arguments: JsonObject,
    grant: &Grant,
    progress: &Progress,
) -> Result<CallToolResult, ServiceError> {
    let request: UpdateRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Write)?;
    let mut max_pending = 0;
    let report = |left: u32| {
        max_pending = max_pending.max(left as usize);
        progress.report(max_pending - left as usize, Some(max_pending), format!("{left} jobs left"))
    };
    let view = service.update_and_wait(request, UPDATE_TIMEOUT, report).await?;
    let text = render::update(&view);
    Ok(convert::data(&convert::update(view), &text))
}

async fn amend(arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let (conversation, idx, request) = parse::<NamedAmendRequest>(arguments)?.into_parts()?;
    let service = grant.require(TokenScope::Write)?;
    let amended = service
        .run(TaskKind::Write, move |service| service.amend(&conversation, idx, &request))
        .await?;
    let text = render::amend(&amended);
    Ok(convert::data(&amended, &text))
}

async fn forget(arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let request: ForgetRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Admin)?;
    let view = service.run(TaskKind::Write, move |service| service.forget(&request)).await?;
    let text = render::forget(&view);
    Ok(convert::data(&view, &text))
}

async fn status(mut arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, STATUS_TOKENS)?;
    let request: StatusRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result =
        service.run(TaskKind::Read, move |service| convert::status(service, &request, max_tokens));
    let result = result.await?;
    let text = render::status(&result);
    Ok(convert::data(&result, &text))
}

#[cfg(test)]
mod tests {
    use treering_core::Tokenizer as _;

    use super::*;

    /// A model reads the definitions with every request.
    #[test]
    fn all_definitions_together_are_short() {
        let tools = MemoryTool::ALL.map(MemoryTool::declaration);
        let json = serde_json::to_string(&tools).unwrap();
        let tokens = treering::Bpe::O200k.count(&json);
        assert!(tokens <= 2000, "{tokens} tokens: {json}");
    }

    /// Every listed argument is a field of the request, and every other field is named in the
    /// description.
    #[test]
    fn every_argument_is_listed_or_named() {
        fn check<T: utoipa::ToSchema>(tool: MemoryTool, hidden: &[&str]) {
            let schema = serde_json::to_value(T::schema()).unwrap();
            let fields = schema["properties"].as_object().unwrap();
            let listed: Vec<&str> = tool.fields().iter().map(|(name, _)| *name).collect();
            for name in listed.iter().filter(|name| **name != "max_tokens") {
                assert!(fields.contains_key(*name), "{}.{name}", tool.name());
            }
            for name in fields.keys().filter(|name| !listed.contains(&name.as_str())) {
                let is_named = tool.description().contains(name.as_str());
                assert!(is_named || hidden.contains(&name.as_str()), "{}.{name}", tool.name());
            }
        }
        check::<TurnRequest>(MemoryTool::Remember, &[]);
        check::<NotesToolRequest>(MemoryTool::Notes, &[]);
        check::<SearchRequest>(MemoryTool::Search, &[]);
        check::<ContextParams>(MemoryTool::Context, &CONTEXT_FIELDS_OFF);
        check::<ExpandRequest>(MemoryTool::Expand, &[]);
        check::<SessionsRequest>(MemoryTool::Sessions, &[]);
        check::<ThreadsRequest>(MemoryTool::Threads, &[]);
        check::<UpdateRequest>(MemoryTool::Update, &[]);
        check::<NamedAmendRequest>(MemoryTool::Amend, &[]);
        check::<ForgetRequest>(MemoryTool::Forget, &[]);
        check::<StatusRequest>(MemoryTool::Status, &[]);
    }
}

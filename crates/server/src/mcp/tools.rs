//! The MCP tools: their declarations and implementations.

use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::de::DeserializeOwned;

use super::progress::Progress;
use super::schema::{ToolSchema, schema_of};
use super::types::{
    ContextResult, ExpandResult, SearchResult, SessionsResult, StatusResult, UpdateResult,
};
use super::{MAX_ANSWER_TOKENS, MIN_ANSWER_TOKENS, convert};
use crate::service::requests::{
    ContextParams, ExpandRequest, ForgetRequest, RequestLimits, SearchRequest, SessionsRequest,
    StatusRequest, ThreadsRequest, TurnRequest, UpdateRequest,
};
use crate::service::{Grant, ServiceError, TaskKind, TokenScope};
use crate::views::{AppendedView, ForgetView, ThreadList};

/// Default token budgets of results.
const SEARCH_TOKENS: u32 = 2000;
const EXPAND_TOKENS: u32 = 4000;
const SESSIONS_TOKENS: u32 = 2000;
const STATUS_TOKENS: u32 = 2000;
/// How long `summaries_update` waits. Shorter than the timeout of a call.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(540);
/// Fields of a context request that the tool does not take: `max_tokens` is its budget, the
/// client's timeout ends a wait, and the result is always text.
const CONTEXT_FIELDS_OFF: [&str; 3] = ["budget", "gate_timeout_ms", "format"];

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryTool {
    Remember,
    Search,
    Context,
    Expand,
    Sessions,
    Threads,
    Update,
    Forget,
    Status,
}

impl MemoryTool {
    pub(super) const ALL: [Self; 9] = [
        Self::Remember,
        Self::Search,
        Self::Context,
        Self::Expand,
        Self::Sessions,
        Self::Threads,
        Self::Update,
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
            Self::Search => "search",
            Self::Context => "context",
            Self::Expand => "expand",
            Self::Sessions => "sessions",
            Self::Threads => "threads",
            Self::Update => "summaries_update",
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

    const fn title(self) -> &'static str {
        match self {
            Self::Remember => "Remember a turn",
            Self::Search => "Search memory",
            Self::Context => "Context of a conversation",
            Self::Expand => "Drill down",
            Self::Sessions => "List conversations",
            Self::Threads => "Threads",
            Self::Update => "Update summaries",
            Self::Forget => "Forget",
            Self::Status => "Memory status",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Remember => {
                "Stores a turn: the user's message, your answer and the tool calls in between. \
                 Durable when it returns. Use it for facts to keep that hooks do not capture."
            }
            Self::Search => {
                "Searches all conversations by words and by meaning. Call it whenever the user \
                 refers to something outside your context, before you say that you do not know."
            }
            Self::Context => {
                "Condenses a conversation to a token budget, with most detail where relevant or \
                 recent. Call it to resume a conversation, or after your context was compacted."
            }
            Self::Expand => {
                "Reads one item in full: a message with its turn, or a summary with its sources \
                 and the summaries above it. Ids come from search, context and expand."
            }
            Self::Sessions => {
                "Lists conversations, latest first, with name, size and last message."
            }
            Self::Threads => "Lists the threads of a conversation, or forks a new one.",
            Self::Update => {
                "Updates the summaries of a conversation, or rebuilds them with `full`. Summaries \
                 update automatically; call it only if status shows failures or the user asks. \
                 Waits for level 1; higher levels follow in the background."
            }
            Self::Forget => {
                "Forgets a message, turn, range, thread, conversation, author or project for good, \
                 also in every summary. The first call returns a preview and a token and forgets \
                 nothing. Show the preview to the user, and call again with the token only if the \
                 user agrees."
            }
            Self::Status => "Reports the size of the memory, pending summaries and failures.",
        }
    }

    /// The schemas of the arguments and of the result.
    fn schemas(self) -> (ToolSchema, ToolSchema) {
        let sized = |schema: ToolSchema, tokens| schema.without_null().with_max_tokens(tokens);
        match self {
            Self::Remember => {
                (schema_of::<TurnRequest>().without_null(), schema_of::<AppendedView>())
            }
            Self::Search => {
                (sized(schema_of::<SearchRequest>(), SEARCH_TOKENS), schema_of::<SearchResult>())
            }
            Self::Context => {
                let arguments = sized(schema_of::<ContextParams>(), super::CONTEXT_TOKENS);
                (arguments.without_fields(&CONTEXT_FIELDS_OFF), schema_of::<ContextResult>())
            }
            Self::Expand => {
                (sized(schema_of::<ExpandRequest>(), EXPAND_TOKENS), schema_of::<ExpandResult>())
            }
            Self::Sessions => (
                sized(schema_of::<SessionsRequest>(), SESSIONS_TOKENS),
                schema_of::<SessionsResult>(),
            ),
            Self::Threads => {
                (schema_of::<ThreadsRequest>().without_null(), schema_of::<ThreadList>())
            }
            Self::Update => {
                (schema_of::<UpdateRequest>().without_null(), schema_of::<UpdateResult>())
            }
            Self::Forget => {
                (schema_of::<ForgetRequest>().without_null(), schema_of::<ForgetView>())
            }
            Self::Status => {
                (sized(schema_of::<StatusRequest>(), STATUS_TOKENS), schema_of::<StatusResult>())
            }
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let local = ToolAnnotations::new().open_world(false);
        match self {
            Self::Remember | Self::Threads => {
                local.read_only(false).destructive(false).idempotent(false)
            }
            Self::Update => local.read_only(false).destructive(true).idempotent(true),
            Self::Forget => local.read_only(false).destructive(true).idempotent(false),
            _ => local.read_only(true),
        }
    }

    /// The declaration for clients.
    pub(super) fn declaration(self) -> Tool {
        let (arguments, result) = self.schemas();
        Tool::new(self.name(), self.description(), arguments.into_object())
            .with_title(self.title())
            .with_raw_output_schema(result.into_object())
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
            Self::Search => search(arguments, grant).await,
            Self::Context => context(arguments, grant, progress).await,
            Self::Expand => expand(arguments, grant).await,
            Self::Sessions => sessions(arguments, grant).await,
            Self::Threads => threads(arguments, grant).await,
            Self::Update => update(arguments, grant, progress).await,
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
    let stored = service.run(TaskKind::Write, move |service| service.append_turn(request)).await?;
    Ok(convert::structured(&AppendedView::of(&stored)))
}

async fn search(mut arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, SEARCH_TOKENS)?;
    let request: SearchRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result = service.run(TaskKind::Read, move |service| {
        Ok(convert::search(service.search(&request)?, service.engine(), max_tokens))
    });
    Ok(convert::structured(&result.await?))
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
    let params = ContextParams { budget: Some(max_tokens), ..parse(arguments)? };
    let service = grant.require(TokenScope::Read)?;
    let reference = params.conversation.clone();
    let found = service
        .run(TaskKind::Read, move |service| service.named_or_latest(reference.as_deref()))
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
    service.wait_for_gate(found.id, service.gate_timeout(&params), report).await?;
    let result = service.run(TaskKind::Read, move |service| {
        Ok(convert::context(&service.context(&found, &params)?, found.slug))
    });
    let result = result.await?;
    let mut answer = convert::structured(&result);
    answer.content = vec![ContentBlock::text(result.text)];
    Ok(answer)
}

async fn expand(mut arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, EXPAND_TOKENS)?;
    let request: ExpandRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result = service.run(TaskKind::Read, move |service| {
        Ok(convert::expand(service.expand(&request)?, service.engine(), max_tokens))
    });
    Ok(convert::structured(&result.await?))
}

async fn sessions(
    mut arguments: JsonObject,
    grant: &Grant,
) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, SESSIONS_TOKENS)?;
    let request: SessionsRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result = service.run(TaskKind::Read, move |service| {
        Ok(convert::sessions(service.sessions(&request)?, service.engine(), max_tokens))
    });
    Ok(convert::structured(&result.await?))
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
    Ok(convert::structured(&list.await?))
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
    Ok(convert::structured(&convert::update(view)))
}

async fn forget(arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let request: ForgetRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Write)?;
    let view = service.run(TaskKind::Write, move |service| service.forget(&request)).await?;
    Ok(convert::structured(&view))
}

async fn status(mut arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, STATUS_TOKENS)?;
    let request: StatusRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result =
        service.run(TaskKind::Read, move |service| convert::status(service, &request, max_tokens));
    Ok(convert::structured(&result.await?))
}

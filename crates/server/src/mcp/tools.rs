//! The MCP tools: their declarations and implementations.

use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use treering_core::ports::JobFilter;
use treering_core::{JobState, MessageIdx};
use treering_engine::Engine;

use super::progress::Progress;
use super::schema::{input_schema_of, schema_of, sized_schema_of};
use super::types::{
    ContextArgs, ContextResult, ExpandArgs, ExpandResult, RememberArgs, SearchResult,
    SessionsResult, StatusArgs, StatusResult, UpdateArgs, UpdateResult,
};
use super::{MAX_ANSWER_TOKENS, MIN_ANSWER_TOKENS, convert};
use crate::service::requests::{
    AppendRequest, ContextParams, SearchRequest, SessionsRequest, UpdateRequest,
};
use crate::service::{Grant, ServiceError, TaskKind, TokenScope};
use crate::views::{AppendedView, UpdateView};

/// The poll interval while a call waits for an update.
const COUNT_AGAIN: Duration = Duration::from_millis(200);
/// Default token budgets of results.
const SEARCH_TOKENS: u32 = 2000;
const EXPAND_TOKENS: u32 = 4000;
const SESSIONS_TOKENS: u32 = 2000;
const STATUS_TOKENS: u32 = 2000;

/// Every tool.
pub(super) fn tools() -> Vec<Tool> {
    let reads = || ToolAnnotations::new().read_only(true).open_world(false);
    let adds = |idempotent| {
        ToolAnnotations::new()
            .read_only(false)
            .destructive(false)
            .idempotent(idempotent)
            .open_world(false)
    };
    vec![
        Tool::new(
            "remember",
            "Stores a turn: the user's message, your answer and the tool calls in between. \
             Durable when it returns. Use it for facts to keep that hooks do not capture.",
            input_schema_of::<RememberArgs>(),
        )
        .with_title("Remember a turn")
        .with_raw_output_schema(schema_of::<AppendedView>())
        .with_annotations(adds(false)),
        Tool::new(
            "search",
            "Searches all conversations by words and by meaning. Call it whenever the user refers \
             to something outside your context, before you say that you do not know.",
            sized_schema_of::<SearchRequest>(SEARCH_TOKENS),
        )
        .with_title("Search memory")
        .with_raw_output_schema(schema_of::<SearchResult>())
        .with_annotations(reads()),
        Tool::new(
            "context",
            "Condenses a conversation to a token budget, with most detail where relevant or \
             recent. Call it to resume a conversation, or after your context was compacted.",
            sized_schema_of::<ContextArgs>(super::CONTEXT_TOKENS),
        )
        .with_title("Context of a conversation")
        .with_raw_output_schema(schema_of::<ContextResult>())
        .with_annotations(reads()),
        Tool::new(
            "expand",
            "Reads one item in full: a message with its turn, or a summary with its sources and \
             the summaries above it. Ids come from search, context and expand.",
            sized_schema_of::<ExpandArgs>(EXPAND_TOKENS),
        )
        .with_title("Drill down")
        .with_raw_output_schema(schema_of::<ExpandResult>())
        .with_annotations(reads()),
        Tool::new(
            "sessions",
            "Lists conversations, latest first, with name, size and last message.",
            sized_schema_of::<SessionsRequest>(SESSIONS_TOKENS),
        )
        .with_title("List conversations")
        .with_raw_output_schema(schema_of::<SessionsResult>())
        .with_annotations(reads()),
        Tool::new(
            "summaries_update",
            "Updates the summaries of a conversation, or rebuilds them with `full`. Summaries \
             update automatically; call it only if status shows failures or the user asks. \
             Returns a job id immediately; with `wait`, waits and reports progress.",
            input_schema_of::<UpdateArgs>(),
        )
        .with_title("Update summaries")
        .with_raw_output_schema(schema_of::<UpdateResult>())
        .with_annotations(adds(true).destructive(true)),
        Tool::new(
            "status",
            "Reports the size of the memory, pending summaries and failures.",
            sized_schema_of::<StatusArgs>(STATUS_TOKENS),
        )
        .with_title("Memory status")
        .with_raw_output_schema(schema_of::<StatusResult>())
        .with_annotations(reads()),
    ]
}

/// Resolves a tool name or one of its aliases.
pub(super) fn canonical(name: &str) -> Option<&'static str> {
    match name {
        "remember" | "append" => Some("remember"),
        "search" => Some("search"),
        "context" => Some("context"),
        "expand" => Some("expand"),
        "sessions" => Some("sessions"),
        "summaries_update" | "summaries.update" => Some("summaries_update"),
        "status" => Some("status"),
        _ => None,
    }
}

/// Calls a tool by its canonical name.
pub(super) async fn call(
    name: &str,
    arguments: JsonObject,
    grant: &Grant,
    progress: &Progress,
) -> Result<CallToolResult, ServiceError> {
    match name {
        "remember" => remember(arguments, grant).await,
        "search" => search(arguments, grant).await,
        "context" => context(arguments, grant, progress).await,
        "expand" => expand(arguments, grant).await,
        "sessions" => sessions(arguments, grant).await,
        "summaries_update" => update(arguments, grant, progress).await,
        _ => status(arguments, grant).await,
    }
}

fn parse<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ServiceError> {
    serde_json::from_value(serde_json::Value::Object(arguments))
        .map_err(|error| ServiceError::InvalidRequest(format!("invalid arguments: {error}")))
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
    let args: RememberArgs = parse(arguments)?;
    if args.user.is_none() && args.assistant.is_none() && args.tool_calls.is_empty() {
        return Err(ServiceError::InvalidRequest(
            "there is nothing to remember; set user, assistant or tool_calls".into(),
        ));
    }
    let broken = |error: serde_json::Error| ServiceError::Internal(error.to_string());
    let mut turn = serde_json::json!({ "type": "turn", "tool_calls": args.tool_calls });
    let texts = [
        ("user", args.user),
        ("assistant", args.assistant),
        ("external_id", args.external_id),
        ("at", args.at),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            turn[name] = text.into();
        }
    }
    let request = AppendRequest {
        conversation: args.conversation,
        key: args.key,
        title: args.title,
        cwd: args.cwd,
        entries: vec![RawValue::from_string(turn.to_string()).map_err(broken)?],
    };
    let service = grant.require(TokenScope::Write)?;
    let appended = service.run(TaskKind::Write, move |service| service.append(&request)).await?;
    Ok(convert::structured(&AppendedView::of(&appended)))
}

async fn search(mut arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, SEARCH_TOKENS)?;
    let request: SearchRequest = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result = service.run(TaskKind::Read, move |service| {
        let memory = service.memory();
        let answer = memory.search(&request.query(memory)?)?;
        let hits = convert::hits(&answer.hits, memory);
        let (hits, left_out) = convert::TokenBudget::new(memory, max_tokens).fill(hits);
        let advice = match hits.is_empty() {
            true => {
                "No results. Try other words, fewer filters, or `sessions` to list conversations."
            }
            false => "`expand` an id to read it in full, with its turn and higher summaries.",
        };
        Ok(SearchResult { hits, left_out, words_only: answer.lexical_only_reason, advice })
    });
    Ok(convert::structured(&result.await?))
}

async fn context(
    mut arguments: JsonObject,
    grant: &Grant,
    progress: &Progress,
) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, super::CONTEXT_TOKENS)?;
    let args: ContextArgs = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let reference = args.conversation;
    let found = service
        .run(TaskKind::Read, move |service| service.named_or_latest(reference.as_deref()))
        .await?;
    let ask = ContextParams {
        query: args.query,
        budget: Some(max_tokens),
        profile: args.profile,
        as_of: args.as_of,
        ..ContextParams::default()
    };
    let mut most = 0;
    let tell = |pending: usize| {
        most = most.max(pending);
        progress.tell(most - pending, Some(most), format!("{pending} summaries pending"))
    };
    service.wait_for_gate(found.id, service.gate_timeout(&ask), tell).await?;
    let result = service.run(TaskKind::Read, move |service| {
        let answer = service.context(&found, &ask)?;
        Ok(convert::context(answer, found.slug))
    });
    let result = result.await?;
    let mut answer = convert::structured(&result);
    answer.content = vec![rmcp::model::ContentBlock::text(result.text)];
    Ok(answer)
}

async fn expand(mut arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, EXPAND_TOKENS)?;
    let args: ExpandArgs = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result = service.run(TaskKind::Read, move |service| {
        let memory = service.memory();
        if Engine::is_node_reference(&args.id) {
            return convert::node(&args.id, memory, max_tokens);
        }
        let message =
            args.id.rsplit_once('#').and_then(|(slug, idx)| Some((slug, idx.parse().ok()?)));
        let (slug, idx) = message.ok_or_else(|| {
            let id = &args.id;
            ServiceError::InvalidRequest(format!(
                "id {id:?}: expected a node such as l1-3f9a or a message such as my-chat#42"
            ))
        })?;
        convert::message(slug, MessageIdx(idx), memory, max_tokens)
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
        Ok(convert::sessions(service.sessions(&request)?, service.memory(), max_tokens))
    });
    Ok(convert::structured(&result.await?))
}

async fn update(
    arguments: JsonObject,
    grant: &Grant,
    progress: &Progress,
) -> Result<CallToolResult, ServiceError> {
    let args: UpdateArgs = parse(arguments)?;
    let service = grant.require(TokenScope::Write)?;
    let request = UpdateRequest {
        full: args.full,
        level: args.level,
        dry_run: args.dry_run,
        with: Vec::new(),
    };
    let planned = service.run(TaskKind::Write, move |service| {
        let found = service.named_or_latest(args.conversation.as_deref())?;
        let view: UpdateView = service.update(&found.id.to_string(), &request)?;
        Ok((found.id, view))
    });
    let (id, view) = planned.await?;
    let mut most = 0;
    loop {
        let counted = service.run(TaskKind::Read, move |service| {
            let memory = service.memory();
            // The jobs cannot finish while the store refuses writes.
            if let Some(failure) = memory.failure() {
                return Err(failure.into());
            }
            let jobs = memory.jobs(&JobFilter::of(id))?;
            let failed = jobs.iter().filter(|job| job.state == JobState::Dead).count();
            Ok((jobs.len() - failed, failed))
        });
        let (left, failed) = counted.await?;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        if left == 0 || !args.wait || view.dry_run {
            return Ok(convert::structured(&convert::update(view, number(left), number(failed))));
        }
        most = most.max(left);
        progress.tell(most - left, Some(most), format!("{left} jobs left")).await;
        tokio::time::sleep(COUNT_AGAIN).await;
    }
}

async fn status(mut arguments: JsonObject, grant: &Grant) -> Result<CallToolResult, ServiceError> {
    let max_tokens = take_max_tokens(&mut arguments, STATUS_TOKENS)?;
    let args: StatusArgs = parse(arguments)?;
    let service = grant.require(TokenScope::Read)?;
    let result = service.run(TaskKind::Read, move |service| {
        convert::status(service, args.conversation.as_deref(), max_tokens)
    });
    Ok(convert::structured(&result.await?))
}

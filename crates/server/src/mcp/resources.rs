//! MCP resources: the job log, conversations, policies and nodes, each read by its URI.

use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde::Serialize;
use treering_core::ports::ConversationFilter;
use treering_core::{Timestamp, fence};
use treering_engine::ListedConversation;

use super::convert::{TokenBudget, visible_json};
use crate::service::requests::{PageRequest, WorkRequest};
use crate::service::{LogList, Service, ServiceError};
use crate::views::{ConversationPage, ExpandView, NodeView, StepView, TurnView};

/// Conversations per page of the listing.
const PAGE: usize = 50;
/// Maximum number of turns per conversation resource.
const TURNS: u32 = 20;
/// Approximate token budget of those turns.
const PAGE_TOKENS: u32 = 8000;
/// Maximum characters of a message, an argument or a result; `expand` reads the rest.
const STEP_CHARS: usize = 2000;
/// Maximum characters of a title.
const TITLE_CHARS: usize = 200;
/// Maximum number of log lines.
const LINES: usize = 200;
const JSON: &str = "application/json";

/// A node and its neighbors in the tree.
#[derive(Serialize)]
struct NodeResource {
    #[serde(flatten)]
    node: NodeView,
    #[serde(flatten)]
    around: ExpandView,
}

/// Turns of a conversation, sized for a model.
#[derive(Serialize)]
struct ConversationResource {
    #[serde(flatten)]
    page: ConversationPage,
    /// The URI of the following turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page: Option<String>,
    /// Steps omitted from a turn that exceeds the budget alone; `expand` reads them by message
    /// id.
    steps_left_out: usize,
}

pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = |uri: &str, name: &str, title: &str, description: &str, mime: &str| {
        ResourceTemplate::new(uri, name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(mime)
    };
    ListResourceTemplatesResult::with_all_items(vec![
        template(
            "logs://{job}",
            "job-log",
            "Log of a job",
            "The log of a job, or of the jobs of an update, by id or id prefix",
            "text/plain",
        ),
        template(
            "conversation://{conversation}",
            "conversation",
            "Conversation",
            "A conversation with its last turns, by slug or id; ?from=N reads from turn N on and \
             links the next page. Long messages are truncated; `expand` reads them in full",
            JSON,
        ),
        template(
            "policy://{conversation}",
            "policy",
            "Policy",
            "The policy parameters in force for a conversation, each with its origin",
            JSON,
        ),
        template(
            "node://{node}",
            "node",
            "Node",
            "A summary, its sources and the nodes above it",
            JSON,
        ),
    ])
}

/// Lists the log, and conversations page by page, latest activity first.
pub(super) fn list(
    service: &Service,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ServiceError> {
    let after = match cursor {
        None => None,
        Some(cursor) => Some(parse_cursor(cursor).ok_or_else(|| {
            ServiceError::InvalidRequest(format!(
                "unknown cursor {cursor:?}; use one from a previous page"
            ))
        })?),
    };
    let mut resources = Vec::new();
    if after.is_none() {
        resources.push(
            Resource::new("logs://recent", "recent-log")
                .with_title("Recent log")
                .with_description("The newest lines of the job log")
                .with_mime_type("text/plain"),
        );
    }
    let filter = ConversationFilter { after, ..ConversationFilter::all(PAGE) };
    let sessions = service.engine().listed_conversations(&filter)?;
    let next = sessions.last().filter(|_| sessions.len() == PAGE).map(cursor_after);
    resources.extend(sessions.into_iter().map(|session| {
        let it = session.conversation;
        let description =
            format!("{} turns, last active {}", it.totals.turns, it.last_activity.to_minute());
        Resource::new(format!("conversation://{}", it.slug), it.slug.clone())
            .with_title(it.title.map_or(it.slug, |title| fence::line(&title, TITLE_CHARS)))
            .with_description(description)
            .with_mime_type(JSON)
    }));
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = next;
    Ok(result)
}

fn cursor_after(session: &ListedConversation) -> String {
    format!("{}.{}", session.conversation.last_activity.as_micros(), session.conversation.id)
}

fn parse_cursor(cursor: &str) -> Option<(Timestamp, treering_core::ConversationId)> {
    let (micros, id) = cursor.split_once('.')?;
    Some((Timestamp::from_micros(micros.parse().ok()?), id.parse().ok()?))
}

/// Reads the resource at a URI.
pub(super) fn read(service: &Service, uri: &str) -> Result<ReadResourceResult, ServiceError> {
    let unknown = || {
        let known =
            "readable: logs://recent, logs://JOB, conversation://NAME, policy://NAME, node://ID";
        ServiceError::NotFound(format!("no resource at {uri:?}; {known}"))
    };
    let (scheme, rest) = uri.split_once("://").ok_or_else(unknown)?;
    let contents = match scheme {
        "logs" => ResourceContents::text(log(service, rest)?, uri),
        "conversation" => {
            let resource = match rest.split_once("?from=") {
                Some((reference, from)) => {
                    forwards(service, reference, from.parse().map_err(|_| unknown())?)?
                }
                None => last_turns(service, rest)?,
            };
            json(&resource, uri)?
        }
        "policy" => json(&service.policy(rest)?, uri)?,
        "node" => {
            let (conversation, node, around) = service.expand_node(rest)?;
            json(&NodeResource { node: NodeView::of(&conversation, &node), around }, uri)?
        }
        _ => return Err(unknown()),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Reads turns from a given one on, limited by the budget.
fn forwards(
    service: &Service,
    reference: &str,
    from: u32,
) -> Result<ConversationResource, ServiceError> {
    let mut page = service.recalled_page(reference, &page_request(from))?;
    let turns = std::mem::take(&mut page.turns);
    let (turns, steps_left_out) = fitting(turns, service);
    let next =
        turns.last().map(|last| last.turn + 1).filter(|next| *next < page.conversation.turns);
    let next_page =
        next.map(|next| format!("conversation://{}?from={next}", page.conversation.slug));
    Ok(ConversationResource {
        page: ConversationPage { turns, next, ..page },
        next_page,
        steps_left_out,
    })
}

/// Reads the last turns, limited by the budget.
fn last_turns(service: &Service, reference: &str) -> Result<ConversationResource, ServiceError> {
    let from = service.engine().find(reference)?.totals.turns.saturating_sub(TURNS);
    let mut page = service.recalled_page(reference, &page_request(from))?;
    let mut turns = std::mem::take(&mut page.turns);
    turns.reverse();
    let (mut turns, steps_left_out) = fitting(turns, service);
    turns.reverse();
    Ok(ConversationResource {
        page: ConversationPage { turns, ..page },
        next_page: None,
        steps_left_out,
    })
}

fn page_request(from: u32) -> PageRequest {
    PageRequest { from, limit: Some(TURNS as usize), ..PageRequest::default() }
}

/// Keeps as much of the first turn as the budget allows, and then the following turns that fit
/// whole. Returns the number of steps omitted from the first turn.
fn fitting(turns: Vec<TurnView>, service: &Service) -> (Vec<TurnView>, usize) {
    let mut budget = TokenBudget::new(service.engine(), PAGE_TOKENS);
    let mut turns = turns
        .into_iter()
        .map(|turn| TurnView { steps: turn.steps.into_iter().map(shortened).collect(), ..turn });
    let Some(first) = turns.next() else { return (Vec::new(), 0) };
    let (steps, left_out) = budget.fill(first.steps);
    let mut fit = vec![TurnView { steps, ..first }];
    if left_out == 0 {
        fit.extend(budget.fill(turns).0);
    }
    (fit, left_out)
}

/// Truncates the texts of a step.
fn shortened(mut step: StepView) -> StepView {
    let cut = |text: &str| text.chars().take(STEP_CHARS).chain(['…']).collect::<String>();
    match &mut step {
        StepView::Message { text, parts, .. } => {
            if text.chars().count() > STEP_CHARS {
                *text = cut(text);
            }
            // The text already covers the parts.
            *parts = None;
        }
        StepView::ToolCall { args, result, .. } => {
            for json in [args, result].into_iter().flatten() {
                if json.get().chars().count() > STEP_CHARS
                    && let Ok(cut) = serde_json::value::to_raw_value(&cut(json.get()))
                {
                    *json = cut;
                }
            }
        }
    }
    step
}

fn json(value: &impl Serialize, uri: &str) -> Result<ResourceContents, ServiceError> {
    let text = visible_json(value).map_err(|error| ServiceError::Internal(error.to_string()))?;
    Ok(ResourceContents::text(text, uri).with_mime_type(JSON))
}

fn log(service: &Service, rest: &str) -> Result<String, ServiceError> {
    let job = (!matches!(rest, "" | "recent")).then(|| rest.to_owned());
    let LogList { lines } =
        service.logs(&WorkRequest { job: job.clone(), conversation: None, limit: Some(LINES) })?;
    if let (Some(job), true) = (job, lines.is_empty()) {
        return Err(ServiceError::NotFound(format!("the job log has no entry for {job:?}")));
    }
    let mut text = String::new();
    for line in lines {
        let duration = line.took_ms.map_or(String::new(), |ms| format!(" ({ms} ms)"));
        text.push_str(&format!(
            "{} {} {:<8} {}{duration}\n",
            line.at,
            &line.job[..12],
            line.event,
            fence::line(&line.text, STEP_CHARS)
        ));
    }
    Ok(text)
}

/// Maps a service error to a protocol error.
pub(super) fn protocol_error(refusal: &ServiceError) -> ErrorData {
    use treering_engine::Error;
    match refusal {
        ServiceError::NoConversations
        | ServiceError::NotFound(_)
        | ServiceError::Engine(Error::ConversationNotFound { .. } | Error::NodeNotFound(_)) => {
            ErrorData::resource_not_found(refusal.to_string(), None)
        }
        ServiceError::Engine(Error::Store(error)) => {
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            ErrorData::internal_error(format!("{error}{hint}"), None)
        }
        ServiceError::Internal(_) | ServiceError::Stopping => {
            ErrorData::internal_error(refusal.to_string(), None)
        }
        _ => ErrorData::invalid_params(refusal.to_string(), None),
    }
}

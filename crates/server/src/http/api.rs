//! The HTTP handlers, one function per operation. Request and response types are declared in the
//! service and the views; this module only maps them to routes.

use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use serde::Serialize;
use treering_core::TenantId;
use utoipa::ToSchema;

use super::App;
use super::metrics::TenantMetrics;
use super::problem::{Body, PathParams, Problem, Problems, QueryParams};
use crate::context_view::ContextAnswer;
use crate::service::requests::{
    AppendRequest, ChangeRequest, ContextParams, CreateRequest, ExpandRequest, NodesRequest,
    PageRequest, SearchRequest, SessionsRequest, StatsRequest, StatusRequest, UpdateRequest,
    WorkRequest,
};
use crate::service::{
    ConversationList, Grant, JobList, LogList, NodeList, SearchAnswer, Service, TaskKind,
    TokenScope,
};
use crate::views::{
    AppendedView, ConversationPage, ConversationView, ExpandView, ExpandedNodeView, NodeView,
    StatsView, StatusView, TreePage, UpdateView,
};

pub(super) type ApiResult<T> = Result<Json<T>, Problem>;

/// Runs blocking work, if the caller's grant includes the scope.
pub(super) async fn respond<T: Send + 'static>(
    grant: &Grant,
    (scope, kind): (TokenScope, TaskKind),
    work: impl FnOnce(&Service) -> Result<T, crate::service::ServiceError> + Send + 'static,
) -> ApiResult<T> {
    Ok(Json(grant.require(scope)?.run(kind, work).await?))
}

pub(super) const READ: (TokenScope, TaskKind) = (TokenScope::Read, TaskKind::Read);
pub(super) const WRITE: (TokenScope, TaskKind) = (TokenScope::Write, TaskKind::Write);
pub(super) const ADMIN: (TokenScope, TaskKind) = (TokenScope::Admin, TaskKind::Write);

/// Append turns and messages
///
/// Atomic; durable when the response arrives.
#[utoipa::path(post, path = "/v1/append", tag = "conversations", request_body = AppendRequest,
    responses((status = 200, body = AppendedView,
        description = "What was stored, and where"), Problems))]
pub(super) async fn append(
    Extension(grant): Extension<Grant>,
    Body(request): Body<AppendRequest>,
) -> ApiResult<AppendedView> {
    respond(&grant, WRITE, move |service| Ok(AppendedView::of(&service.append(&request)?))).await
}

/// List conversations, latest activity first
#[utoipa::path(get, path = "/v1/conversations", tag = "conversations", params(SessionsRequest),
    responses((status = 200, body = ConversationList,
        description = "The conversations"), Problems))]
pub(super) async fn sessions(
    Extension(grant): Extension<Grant>,
    QueryParams(request): QueryParams<SessionsRequest>,
) -> ApiResult<ConversationList> {
    respond(&grant, READ, move |service| service.sessions(&request)).await
}

/// Create a conversation without turns
///
/// Returns the conversation with the key if it exists.
#[utoipa::path(post, path = "/v1/conversations", tag = "conversations",
    request_body = CreateRequest, responses((status = 200, body = ConversationView,
        description = "The conversation"), Problems))]
pub(super) async fn create(
    Extension(grant): Extension<Grant>,
    Body(request): Body<CreateRequest>,
) -> ApiResult<ConversationView> {
    respond(&grant, WRITE, move |service| service.create(&request)).await
}

/// Read the tree of a conversation as an outline
#[utoipa::path(get, path = "/v1/conversations/{conversation}/tree", tag = "search",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id")),
    responses((status = 200, body = TreePage,
        description = "The tree as an outline"), Problems))]
pub(super) async fn tree(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
) -> ApiResult<TreePage> {
    respond(&grant, READ, move |service| service.tree(&reference)).await
}

/// List the nodes of a conversation
#[utoipa::path(get, path = "/v1/conversations/{conversation}/nodes", tag = "search",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id"), NodesRequest),
    responses((status = 200, body = NodeList,
        description = "The nodes"), Problems))]
pub(super) async fn nodes(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
    QueryParams(request): QueryParams<NodesRequest>,
) -> ApiResult<NodeList> {
    respond(&grant, READ, move |service| service.nodes(&reference, &request)).await
}

/// Read the turns of a conversation
#[utoipa::path(get, path = "/v1/conversations/{conversation}", tag = "conversations",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id"), PageRequest),
    responses((status = 200, body = ConversationPage,
        description = "The turns"), Problems))]
pub(super) async fn page(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
    QueryParams(request): QueryParams<PageRequest>,
) -> ApiResult<ConversationPage> {
    respond(&grant, READ, move |service| service.page(&reference, &request)).await
}

/// Rename, close, archive, reopen or label a conversation
#[utoipa::path(patch, path = "/v1/conversations/{conversation}", tag = "conversations",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id")),
    request_body = ChangeRequest, responses((status = 200, body = ConversationView,
        description = "The conversation"), Problems))]
pub(super) async fn change_conversation(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
    Body(request): Body<ChangeRequest>,
) -> ApiResult<ConversationView> {
    respond(&grant, WRITE, move |service| service.change(&reference, &request)).await
}

/// Read the status of a conversation
///
/// Reports the critical work that the next context waits for, background jobs and model usage.
#[utoipa::path(get, path = "/v1/conversations/{conversation}/status", tag = "work",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id")),
    responses((status = 200, body = StatusView,
        description = "The status"), Problems))]
pub(super) async fn status(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
) -> ApiResult<StatusView> {
    let request = StatusRequest { conversation: Some(reference) };
    respond(&grant, READ, move |service| service.status(&request)).await
}

/// Update or rebuild the tree of a conversation
///
/// Returns when level 1 is written, or shortly before the request timeout; higher levels follow in
/// the background. With `wait`, returns when every level is written. `job` identifies the jobs in
/// the log.
#[utoipa::path(post, path = "/v1/conversations/{conversation}/update", tag = "work",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id")),
    request_body = UpdateRequest, responses((status = 202, body = UpdateView,
        description = "The planned jobs, and their state"), Problems))]
pub(super) async fn update(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
    Body(request): Body<UpdateRequest>,
) -> Result<(StatusCode, Json<UpdateView>), Problem> {
    if request.conversation.is_some() {
        let message = "the path names the conversation; leave its name out of the body";
        return Err(Problem::new(StatusCode::BAD_REQUEST, message, None));
    }
    summaries_update(&grant, UpdateRequest { conversation: Some(reference), ..request }).await
}

/// Update or rebuild the tree of a conversation, named in the body
///
/// Takes the arguments of `summaries.update`, in camelCase or snake_case, and any policy parameter.
#[utoipa::path(post, path = "/v1/summaries/update", tag = "work",
    request_body = UpdateRequest, responses((status = 202, body = UpdateView,
        description = "The planned jobs, and their state"), Problems))]
pub(super) async fn update_by_name(
    Extension(grant): Extension<Grant>,
    Body(request): Body<UpdateRequest>,
) -> Result<(StatusCode, Json<UpdateView>), Problem> {
    summaries_update(&grant, request).await
}

async fn summaries_update(
    grant: &Grant,
    request: UpdateRequest,
) -> Result<(StatusCode, Json<UpdateView>), Problem> {
    let service = grant.require(TokenScope::Write)?;
    let report = |_| std::future::ready(());
    let view = service.update_and_wait(request, wait_timeout(service), report).await?;
    Ok((StatusCode::ACCEPTED, Json(view)))
}

/// How long a request may wait for background work: nine tenths of the request timeout, so that
/// time is left for the response.
fn wait_timeout(service: &Service) -> Duration {
    Duration::from_millis(service.settings().serve.timeout_ms) * 9 / 10
}

/// Read the nodes above a message
#[utoipa::path(get, path = "/v1/conversations/{conversation}/messages/{idx}/nodes", tag = "search",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id"),
        ("idx" = u32, Path, description = "Position of the message, from 0")),
    responses((status = 200, body = ExpandView,
        description = "The nodes above, and the sources"), Problems))]
pub(super) async fn ancestors(
    Extension(grant): Extension<Grant>,
    PathParams((reference, idx)): PathParams<(String, u32)>,
) -> ApiResult<ExpandView> {
    let request = ExpandRequest { id: format!("{reference}#{idx}") };
    respond(&grant, READ, move |service| Ok(service.expand(&request)?.around)).await
}

/// Read a node, the nodes above it and its sources
#[utoipa::path(get, path = "/v1/nodes/{node}", tag = "search",
    params(("node" = String, Path, description = "Node id or id prefix")),
    responses((status = 200, body = ExpandedNodeView,
        description = "The node, the nodes above it and its sources"), Problems))]
pub(super) async fn node(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
) -> ApiResult<ExpandedNodeView> {
    respond(&grant, READ, move |service| {
        let (conversation, node, around) = service.expand_node(&reference)?;
        Ok(ExpandedNodeView { node: NodeView::of(&conversation, &node), around })
    })
    .await
}

/// Search messages and summaries, by words and by meaning
#[utoipa::path(post, path = "/v1/search", tag = "search", request_body = SearchRequest,
    responses((status = 200, body = SearchAnswer,
        description = "The hits, best first"), Problems))]
pub(super) async fn search(
    Extension(grant): Extension<Grant>,
    Body(request): Body<SearchRequest>,
) -> ApiResult<SearchAnswer> {
    respond(&grant, READ, move |service| service.search(&request)).await
}

/// Build the best context that fits a token budget
///
/// Of one conversation, or over a scope: a project, labels, several conversations or everything. For
/// one conversation it waits for unfinished summaries, at most `gate_timeout_ms` and never past the
/// request timeout.
#[utoipa::path(post, path = "/v1/context", tag = "search", request_body = ContextParams,
    responses((status = 200, body = ContextAnswer,
        description = "The context and its receipt"), Problems))]
pub(super) async fn context(
    Extension(grant): Extension<Grant>,
    Body(params): Body<ContextParams>,
) -> ApiResult<ContextAnswer> {
    let service = grant.require(TokenScope::Read)?;
    let (subject, params) = service
        .run(TaskKind::Read, move |service| Ok((service.context_subject(&params)?, params)))
        .await?;
    if let Some(id) = subject.gated() {
        let timeout = service.gate_timeout(&params).min(wait_timeout(service));
        service.wait_for_gate(id, timeout, |_| std::future::ready(())).await?;
    }
    respond(&grant, READ, move |service| {
        Ok(ContextAnswer::of(service.context(&subject, &params)?, params.format))
    })
    .await
}

/// List unfinished jobs
#[utoipa::path(get, path = "/v1/jobs", tag = "work", params(WorkRequest),
    responses((status = 200, body = JobList,
        description = "The jobs"), Problems))]
pub(super) async fn jobs(
    Extension(grant): Extension<Grant>,
    QueryParams(request): QueryParams<WorkRequest>,
) -> ApiResult<JobList> {
    respond(&grant, READ, move |service| service.jobs(&request)).await
}

/// Retry failed jobs immediately
#[utoipa::path(post, path = "/v1/jobs/{job}/retry", tag = "work",
    params(("job" = String, Path, description = "Job id or id prefix, or `all`")),
    responses((status = 200, body = JobList,
        description = "The jobs"), Problems))]
pub(super) async fn retry(
    Extension(grant): Extension<Grant>,
    PathParams(job): PathParams<String>,
) -> ApiResult<JobList> {
    let job = (job != "all").then_some(job);
    respond(&grant, ADMIN, move |service| service.retry(job)).await
}

/// Read the newest lines of the job log
#[utoipa::path(get, path = "/v1/logs", tag = "work", params(WorkRequest),
    responses((status = 200, body = LogList,
        description = "The lines, oldest first"), Problems))]
pub(super) async fn logs(
    Extension(grant): Extension<Grant>,
    QueryParams(request): QueryParams<WorkRequest>,
) -> ApiResult<LogList> {
    respond(&grant, READ, move |service| service.logs(&request)).await
}

/// Read statistics of the store and its trees, or of one conversation
#[utoipa::path(get, path = "/v1/stats", tag = "work", params(StatsRequest),
    responses((status = 200, body = StatsView,
        description = "The statistics"), Problems))]
pub(super) async fn stats(
    Extension(grant): Extension<Grant>,
    QueryParams(request): QueryParams<StatsRequest>,
) -> ApiResult<StatsView> {
    respond(&grant, READ, move |service| service.stats(&request)).await
}

/// Read Prometheus metrics
///
/// With a token, the response covers the token's tenant, and the process if the server was started
/// for that tenant. Without a token (loopback only), it covers the process and all tenants.
#[utoipa::path(get, path = "/metrics", tag = "service",
    responses((status = 200, content_type = "application/openmetrics-text", body = String,
        description = "The metrics in the OpenMetrics format"), Problems))]
pub(super) async fn metrics(
    State(app): State<App>,
    Extension(grant): Extension<Grant>,
) -> Result<impl IntoResponse, Problem> {
    let service = grant.require(TokenScope::Admin)?;
    let (everything, process) = (grant.has_full_access(), service.is_operator());
    let stats = service.run(TaskKind::Read, move |service| {
        let engine = service.engine();
        let mut tenants = if everything { engine.tenants()? } else { Vec::new() };
        // Include the caller's tenant even before its first commit.
        if !tenants.contains(engine.tenant()) {
            tenants.push(engine.tenant().clone());
        }
        let of_tenant = |tenant: TenantId| {
            let engine = engine.for_tenant(tenant.clone());
            Ok((tenant, TenantMetrics::of(&engine)?))
        };
        tenants.into_iter().map(of_tenant).collect::<Result<Vec<_>, crate::service::ServiceError>>()
    });
    let text = app.metrics().render(&stats.await?, process);
    let text = text.map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), None)
    })?;
    Ok((
        [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")],
        text,
    ))
}

/// The health of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, or the problem: `stopping`, `the store cannot be read`, `the store refuses writes`.
    status: &'static str,
    version: &'static str,
}

/// Check that the process is alive
#[utoipa::path(get, path = "/health", tag = "service", security(()),
    responses((status = 200, body = Health, description = "The process is alive")))]
pub(super) async fn health() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Check that the store is readable and writable and no shutdown is in progress
#[utoipa::path(get, path = "/ready", tag = "service", security(()),
    responses((status = 200, body = Health, description = "The server is ready"),
        (status = 503, body = Health, description = "The server is not ready")))]
pub(super) async fn ready(State(app): State<App>) -> (StatusCode, Json<Health>) {
    let answer = |code, status| (code, Json(Health { status, version: env!("CARGO_PKG_VERSION") }));
    if app.stop().is_cancelled() {
        return answer(StatusCode::SERVICE_UNAVAILABLE, "stopping");
    }
    let service = app.tenants().root();
    let read = service.run(TaskKind::HealthCheck, |service| Ok(service.engine().event_cursor()?));
    match read.await {
        Ok(_) if service.engine().failure().is_some() => {
            answer(StatusCode::SERVICE_UNAVAILABLE, "the store refuses writes")
        }
        Ok(_) => answer(StatusCode::OK, "ok"),
        Err(error) => {
            tracing::warn!(%error, "cannot read the store");
            answer(StatusCode::SERVICE_UNAVAILABLE, "the store cannot be read")
        }
    }
}

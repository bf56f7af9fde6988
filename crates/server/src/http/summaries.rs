//! The HTTP handlers for single summaries, threads and policies.

use axum::Extension;

use super::api::{ApiResult, READ, WRITE, respond};
use super::problem::{Body, PathParams, Problems};
use crate::service::Grant;
use crate::service::requests::{ForkRequest, PolicyRequest, StoreSummaryRequest, TurnRequest};
use crate::views::{NodeView, PolicyView, ThreadList, TurnSummaryView};

/// Store a summary that you wrote
///
/// It becomes the node that covers the given turns or nodes, which are a sealed window or group, or the
/// first of those that nothing covers yet. The nodes above it are regenerated.
#[utoipa::path(post, path = "/v1/conversations/{conversation}/summaries", tag = "work",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id")),
    request_body = StoreSummaryRequest, responses((status = 200, body = NodeView,
        description = "The node"), Problems))]
pub(super) async fn store_summary(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
    Body(request): Body<StoreSummaryRequest>,
) -> ApiResult<NodeView> {
    respond(&grant, WRITE, move |service| service.store_summary(&reference, &request)).await
}

/// Summarize a stored turn; nothing is stored
#[utoipa::path(post, path = "/v1/conversations/{conversation}/turns/{turn}/summarize", tag = "work",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id"),
        ("turn" = u32, Path, description = "Number of the turn, from 0")),
    responses((status = 200, body = TurnSummaryView,
        description = "The summary; it is not stored"), Problems))]
pub(super) async fn summarize_turn(
    Extension(grant): Extension<Grant>,
    PathParams((reference, turn)): PathParams<(String, u32)>,
) -> ApiResult<TurnSummaryView> {
    // A model may be called, which costs money.
    respond(&grant, WRITE, move |service| service.summarize_turn(&reference, turn)).await
}

/// Summarize the turn in the body; nothing is stored
#[utoipa::path(post, path = "/v1/summarize", tag = "work", request_body = TurnRequest,
    responses((status = 200, body = TurnSummaryView,
        description = "The summary; it is not stored"), Problems))]
pub(super) async fn summarize_given(
    Extension(grant): Extension<Grant>,
    Body(request): Body<TurnRequest>,
) -> ApiResult<TurnSummaryView> {
    respond(&grant, WRITE, move |service| service.summarize_given(request)).await
}

/// Summarize the nodes of a level now
///
/// Writes one node that covers the nodes of this level that no higher node covers, except for the last.
#[utoipa::path(post, path = "/v1/conversations/{conversation}/levels/{level}/summarize",
    tag = "work",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id"),
        ("level" = u8, Path, description = "The level to summarize, from 1")),
    responses((status = 200, body = NodeView,
        description = "The node"), Problems))]
pub(super) async fn summarize_level(
    Extension(grant): Extension<Grant>,
    PathParams((reference, level)): PathParams<(String, u8)>,
) -> ApiResult<NodeView> {
    respond(&grant, WRITE, move |service| service.summarize_level(&reference, level)).await
}

/// List the threads of a conversation
#[utoipa::path(get, path = "/v1/conversations/{conversation}/threads", tag = "conversations",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id")),
    responses((status = 200, body = ThreadList,
        description = "The threads"), Problems))]
pub(super) async fn threads(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
) -> ApiResult<ThreadList> {
    respond(&grant, READ, move |service| service.threads(&reference)).await
}

/// Create a thread that branches off another
#[utoipa::path(post, path = "/v1/conversations/{conversation}/threads", tag = "conversations",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id")),
    request_body = ForkRequest, responses((status = 200, body = ThreadList,
        description = "The threads"), Problems))]
pub(super) async fn fork(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
    Body(request): Body<ForkRequest>,
) -> ApiResult<ThreadList> {
    respond(&grant, WRITE, move |service| service.fork(&reference, &request)).await
}

/// Read the policy of a conversation: every parameter in force, and its origin
#[utoipa::path(get, path = "/v1/conversations/{conversation}/policy", tag = "work",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id")),
    responses((status = 200, body = PolicyView,
        description = "Every policy parameter in force, and its origin"), Problems))]
pub(super) async fn policy(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
) -> ApiResult<PolicyView> {
    respond(&grant, READ, move |service| service.policy(&reference)).await
}

/// Set the policy parameters of a conversation
#[utoipa::path(put, path = "/v1/conversations/{conversation}/policy", tag = "work",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id")),
    request_body = PolicyRequest, responses((status = 200, body = PolicyView,
        description = "Every policy parameter in force, and its origin"), Problems))]
pub(super) async fn set_policy(
    Extension(grant): Extension<Grant>,
    PathParams(reference): PathParams<String>,
    Body(request): Body<PolicyRequest>,
) -> ApiResult<PolicyView> {
    respond(&grant, WRITE, move |service| service.set_policy(&reference, &request)).await
}

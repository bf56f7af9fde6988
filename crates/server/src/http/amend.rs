//! The HTTP handlers that amend messages.

use axum::Extension;

use super::api::{ApiResult, READ, WRITE, respond};
use super::problem::{Body, PathParams, Problems};
use crate::service::Grant;
use crate::service::requests::AmendRequest;
use crate::views::{AmendView, HistoryView};

/// Edit a message, or mark it as wrong
///
/// An edit keeps the earlier text in the history of the message, and makes the summaries that cover it
/// stale or regenerates them. A wrong message stays in the history and is never returned as true.
#[utoipa::path(patch, path = "/v1/conversations/{conversation}/messages/{idx}", tag = "conversations",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id"),
        ("idx" = u32, Path, description = "Position of the message, from 0")),
    request_body = AmendRequest, responses((status = 200, body = AmendView,
        description = "What was changed"), Problems))]
pub(super) async fn amend(
    Extension(grant): Extension<Grant>,
    PathParams((reference, idx)): PathParams<(String, u32)>,
    Body(request): Body<AmendRequest>,
) -> ApiResult<AmendView> {
    respond(&grant, WRITE, move |service| service.amend(&reference, idx, &request)).await
}

/// Read the earlier versions of a message
#[utoipa::path(get, path = "/v1/conversations/{conversation}/messages/{idx}/history",
    tag = "conversations",
    params(("conversation" = String, Path, description = "Slug, key, id, or the first digits of an id"),
        ("idx" = u32, Path, description = "Position of the message, from 0")),
    responses((status = 200, body = HistoryView,
        description = "The earlier versions of the message"), Problems))]
pub(super) async fn history(
    Extension(grant): Extension<Grant>,
    PathParams((reference, idx)): PathParams<(String, u32)>,
) -> ApiResult<HistoryView> {
    respond(&grant, READ, move |service| service.history(&reference, idx)).await
}

//! The HTTP handlers that forget, and the audit.

use axum::Extension;

use super::api::{ADMIN, ApiResult, READ, respond};
use super::problem::{Body, PathParams, Problems, QueryParams};
use crate::service::Grant;
use crate::service::requests::{AuditRequest, ForgetRequest};
use crate::views::{AllowedReturnView, AuditList, ForgetView};

/// Preview or confirm forgetting
///
/// Without `token`, the response is a preview: it lists what would be forgotten and what would be written
/// again, and has a token. Repeat the request with the token to forget. If the target has changed
/// since, nothing is forgotten. Both steps need the scope `admin`.
#[utoipa::path(post, path = "/v1/forget", tag = "conversations", request_body = ForgetRequest,
    responses((status = 200, body = ForgetView,
        description = "The preview, or what was forgotten"), Problems))]
pub(super) async fn forget(
    Extension(grant): Extension<Grant>,
    Body(request): Body<ForgetRequest>,
) -> ApiResult<ForgetView> {
    respond(&grant, ADMIN, move |service| service.forget(&request)).await
}

/// Read the audit: everything that was forgotten, without its content
#[utoipa::path(get, path = "/v1/audit", tag = "conversations", params(AuditRequest),
    responses((status = 200, body = AuditList,
        description = "The records of what was forgotten, without its content"), Problems))]
pub(super) async fn audit(
    Extension(grant): Extension<Grant>,
    QueryParams(request): QueryParams<AuditRequest>,
) -> ApiResult<AuditList> {
    respond(&grant, READ, move |service| service.audit(&request)).await
}

/// Let an import bring back what a record of the audit lists
///
/// Removes the tombstones of the record. Nothing is restored.
#[utoipa::path(post, path = "/v1/audit/{record}/allow-return", tag = "conversations",
    params(("record" = String, Path, description = "The id of the record")),
    responses((status = 200, body = AllowedReturnView,
        description = "The record whose tombstones were removed"), Problems))]
pub(super) async fn allow_return(
    Extension(grant): Extension<Grant>,
    PathParams(record): PathParams<String>,
) -> ApiResult<AllowedReturnView> {
    respond(&grant, ADMIN, move |service| service.allow_return(&record)).await
}

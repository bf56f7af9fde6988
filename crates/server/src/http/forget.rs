//! The HTTP handlers that forget, and the audit.

use axum::Extension;

use super::api::{ADMIN, ApiResult, READ, respond};
use super::problem::{Body, Problems, QueryParams};
use crate::service::Grant;
use crate::service::requests::{AuditRequest, ForgetRequest};
use crate::views::{AuditList, ForgetView};

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

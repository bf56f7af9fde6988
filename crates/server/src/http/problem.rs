//! Errors over HTTP, all as the same JSON, and extractors that reject with it.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use treering_core::StoreError;
use treering_engine::Error;
use utoipa::{IntoResponses, ToSchema};

use crate::service::ServiceError;
use crate::service::requests::RequestLimits;

/// An error response.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// The error message.
    pub error: String,
    /// A suggested remedy.
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, error: impl Into<String>, hint: Option<&str>) -> Self {
        Self { status, error: error.into(), hint: hint.map(str::to_owned) }
    }

    fn bad(error: String) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            error,
            Some("correct the request; see /openapi.json for its schema"),
        )
    }

    /// The error for a status that a layer returned without a JSON body.
    pub(super) fn of_status(status: StatusCode) -> Self {
        let (error, hint) = match status {
            StatusCode::NOT_FOUND => ("path not found", Some("GET / lists all paths")),
            StatusCode::METHOD_NOT_ALLOWED => {
                ("this path does not support the method", Some("GET / lists all paths"))
            }
            StatusCode::PAYLOAD_TOO_LARGE => (
                "the request is too large",
                Some("send smaller requests, or raise the setting serve.body_bytes"),
            ),
            StatusCode::REQUEST_TIMEOUT => (
                "the request timed out",
                Some("request less, or raise the setting serve.timeout_ms"),
            ),
            _ => (status.canonical_reason().unwrap_or("unknown error"), None),
        };
        Self::new(status, error, hint)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"treering\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<ServiceError> for Problem {
    fn from(refusal: ServiceError) -> Self {
        let status = match &refusal {
            ServiceError::Engine(error) => match error {
                Error::ConversationNotFound { .. } | Error::NodeNotFound(_) => {
                    StatusCode::NOT_FOUND
                }
                Error::Ambiguous { .. } | Error::SlugTaken(_) => StatusCode::CONFLICT,
                Error::Invalid(_) => StatusCode::BAD_REQUEST,
                Error::Provider(_) | Error::Unanswered(_) => StatusCode::BAD_GATEWAY,
                Error::Store(StoreError::Full { .. }) => StatusCode::INSUFFICIENT_STORAGE,
                // Nobody waits for the answer.
                Error::Canceled => StatusCode::REQUEST_TIMEOUT,
                Error::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            },
            ServiceError::InvalidRequest(_) => StatusCode::BAD_REQUEST,
            ServiceError::NoConversations | ServiceError::NotFound(_) => StatusCode::NOT_FOUND,
            ServiceError::Forbidden(_) => StatusCode::FORBIDDEN,
            ServiceError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            ServiceError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let hint = match &refusal {
            ServiceError::Engine(Error::ConversationNotFound { .. }) => {
                Some("GET /v1/conversations lists them".to_owned())
            }
            ServiceError::Engine(Error::NodeNotFound(_)) => {
                Some("POST /v1/search finds nodes".to_owned())
            }
            ServiceError::Engine(error) => error.hint(),
            ServiceError::Forbidden(scope) => {
                Some(format!("create a token with `treering token create --scopes {scope}`"))
            }
            _ => None,
        };
        Self { status, error: refusal.to_string(), hint }
    }
}

/// The error responses of every operation.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
pub(super) enum Problems {
    /// The request is invalid.
    #[response(status = 400)]
    BadRequest(Problem),
    /// The token is missing or unknown.
    #[response(status = 401)]
    Unauthorized(Problem),
    /// The token lacks the scope, or the host or origin is not allowed.
    #[response(status = 403)]
    Forbidden(Problem),
    /// The conversation, node or job does not exist.
    #[response(status = 404)]
    NotFound(Problem),
    /// The request timed out.
    #[response(status = 408)]
    Timeout(Problem),
    /// The name is ambiguous or taken.
    #[response(status = 409)]
    Conflict(Problem),
    /// The request is too large.
    #[response(status = 413)]
    TooLarge(Problem),
    /// The body is not JSON.
    #[response(status = 415)]
    NotJson(Problem),
    /// Too many requests; see `retry-after`.
    #[response(status = 429)]
    TooMany(Problem),
    /// An internal error.
    #[response(status = 500)]
    Internal(Problem),
    /// The provider of a model failed.
    #[response(status = 502)]
    Provider(Problem),
    /// The store is unavailable, or the server is stopping.
    #[response(status = 503)]
    Unavailable(Problem),
    /// The disk is full.
    #[response(status = 507)]
    Full(Problem),
}

/// A JSON request body within its limits.
pub(super) struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + RequestLimits> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            let hint = Some("send JSON with content-type: application/json");
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body is not JSON",
                hint,
            ));
        }
        let bytes =
            Bytes::from_request(request, state).await.map_err(|rejection| {
                match rejection.status() {
                    StatusCode::PAYLOAD_TOO_LARGE => {
                        Problem::of_status(StatusCode::PAYLOAD_TOO_LARGE)
                    }
                    _ => Problem::bad(rejection.body_text()),
                }
            })?;
        // Serde would read an array as the fields in order.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(Problem::bad("the body is not a JSON object".into()));
        }
        let request: T = serde_json::from_slice(&bytes)
            .map_err(|error| Problem::bad(format!("invalid body: {error}")))?;
        request.check_limits()?;
        Ok(Self(request))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Query parameters within their limits.
pub(super) struct QueryParams<T>(pub T);

impl<S, T> FromRequestParts<S> for QueryParams<T>
where
    S: Send + Sync,
    T: DeserializeOwned + RequestLimits,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(request) = Query::<T>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::bad(rejection.body_text()))?;
        request.check_limits()?;
        Ok(Self(request))
    }
}

/// The path parameters.
pub(super) struct PathParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(path)| Self(path)).map_err(|rejection| Problem::bad(rejection.body_text()))
    }
}

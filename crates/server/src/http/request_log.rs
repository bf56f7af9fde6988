//! Middleware that gives every request an id, a log line and a metrics sample, and converts every
//! error response to JSON.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::App;
use super::problem::Problem;

const REQUEST_ID: &str = "x-request-id";
/// Maximum length of an id that a client sends.
const LONGEST_ID: usize = 64;

pub(super) async fn log_request(State(app): State<App>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = given_id(request.headers()).unwrap_or_else(new_id);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let mut response = with_json_error(next.run(request).await, route.as_deref());
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let (elapsed, status) = (started.elapsed(), response.status().as_u16());
    // Unknown methods and routes share one label, so that a scanner cannot exhaust memory.
    app.metrics().request(counted_as(&method), route.as_deref().unwrap_or("none"), status, elapsed);
    let took_ms = elapsed.as_secs_f64() * 1000.0;
    match response.status().is_server_error() {
        true => tracing::error!(request_id = id, %method, path, status, took_ms, "request"),
        false => tracing::info!(request_id = id, %method, path, status, took_ms, "request"),
    }
    response
}

/// The metrics label of a method.
fn counted_as(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        Method::POST => "POST",
        _ => "other",
    }
}

/// Replaces an error response that is not JSON.
fn with_json_error(response: Response, route: Option<&str>) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || is_json || route == Some("/mcp") {
        return response;
    }
    let allow = response.headers().get(header::ALLOW).cloned();
    let mut replaced = Problem::of_status(status).into_response();
    if let Some(allow) = allow {
        replaced.headers_mut().insert(header::ALLOW, allow);
    }
    replaced
}

/// The client's request id, if it is safe to repeat in logs and headers.
fn given_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (is_plain && (1..=LONGEST_ID).contains(&id.len())).then(|| id.to_owned())
}

fn new_id() -> String {
    let mut random = [0; 8];
    // A duplicate id is better than no response.
    let _ = getrandom::fill(&mut random);
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! Watches requests go by: gives each an id, a line in the log and a place in the metrics, and makes sure that
//! whatever goes wrong is said in the same way.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::App;
use super::problem::Problem;

const REQUEST_ID: &str = "x-request-id";
/// The longest id that is taken over from who asks.
const LONGEST_ID: usize = 64;

pub(super) async fn watch(State(app): State<App>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = given_id(request.headers()).unwrap_or_else(new_id);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let mut response = with_json_error(next.run(request).await, route.as_deref());
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let (took, status) = (started.elapsed(), response.status().as_u16());
    // Methods and paths that lead nowhere share one place, or whoever tries many would fill the memory.
    app.metrics().request(counted_as(&method), route.as_deref().unwrap_or("none"), status, took);
    let took_ms = took.as_secs_f64() * 1000.0;
    match response.status().is_server_error() {
        true => tracing::error!(request_id = id, %method, path, status, took_ms, "request"),
        false => tracing::info!(request_id = id, %method, path, status, took_ms, "request"),
    }
    response
}

/// What a method is counted as.
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

/// An answer that says in JSON what is wrong, if something is and it does not yet.
fn with_json_error(response: Response, route: Option<&str>) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || is_json || route == Some("/mcp") {
        return response;
    }
    let allow = response.headers().get(header::ALLOW).cloned();
    let mut told = Problem::of_status(status).into_response();
    if let Some(allow) = allow {
        told.headers_mut().insert(header::ALLOW, allow);
    }
    told
}

/// The id that who asks has given the request, if it can be repeated safely.
fn given_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (is_plain && (1..=LONGEST_ID).contains(&id.len())).then(|| id.to_owned())
}

fn new_id() -> String {
    let mut random = [0; 8];
    // An id that repeats is better than no answer.
    let _ = getrandom::fill(&mut random);
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

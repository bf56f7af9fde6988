//! Access control for HTTP: host and origin checks, authentication and rate limiting. Every
//! request to a protected route passes through it first.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use governor::clock::Clock as _;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use treering_core::TenantId;

use super::App;
use super::problem::Problem;
use crate::access_tokens::AccessToken;
use crate::service::{Grant, TokenScope};
use treering::config::ServeSettings;

/// Number of rate limiter keys above which idle ones are evicted.
const CALLERS: usize = 10_000;
/// How often a lasting response checks that its token is still valid.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The access rules of the server.
pub(super) struct AccessControl {
    token_needed: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
    callers: DefaultKeyedRateLimiter<String>,
    concurrent_requests: Arc<ConcurrentRequests>,
    clock: governor::clock::DefaultClock,
}

impl AccessControl {
    pub(super) fn new(settings: &ServeSettings, address: SocketAddr) -> Self {
        let each = settings.requests_per_second;
        let burst = each.saturating_mul(NonZeroU32::MIN.saturating_add(1));
        Self {
            token_needed: settings.require_token || !address.ip().is_loopback(),
            hosts: settings.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            origins: settings.origins.clone(),
            callers: RateLimiter::keyed(Quota::per_second(each).allow_burst(burst)),
            concurrent_requests: Arc::new(ConcurrentRequests {
                limit: settings.concurrent_requests.get(),
                counts: Mutex::default(),
            }),
            clock: governor::clock::DefaultClock::default(),
        }
    }

    /// Rejects requests whose `Host` is not a name of this server, to prevent DNS rebinding. IP
    /// addresses are safe, because they cannot be rebound.
    fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let host_header = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let authority = host_header.or(uri.authority().map(Authority::as_str)).unwrap_or_default();
        match host_of(authority) {
            Some(host) if is_own(&host) || self.hosts.contains(&host) => Ok(()),
            _ => Err(Problem::new(
                StatusCode::FORBIDDEN,
                format!("host {authority:?} is not allowed"),
                Some("use the IP address, or add the host to the setting serve.hosts"),
            )),
        }
    }

    /// Rejects browser requests from other origins, unless the settings allow the origin.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let is_same_host = origin.split_once("://").is_some_and(|(_, rest)| Some(rest) == host);
        match is_same_host || self.origins.iter().any(|allowed| allowed == origin) {
            true => Ok(()),
            false => Err(Problem::new(
                StatusCode::FORBIDDEN,
                format!("origin {origin:?} is not allowed"),
                Some("add the origin to the setting serve.origins"),
            )),
        }
    }

    /// Counts a request of a caller. Returns the time to wait if the caller is over its limit.
    fn check_rate_limit(&self, caller: &str) -> Option<RateLimited> {
        if self.callers.len() > CALLERS {
            self.callers.retain_recent();
        }
        let checked = self.callers.check_key(&caller.to_owned());
        checked.err().map(|not_until| RateLimited {
            seconds: not_until.wait_time_from(self.clock.now()).as_secs() + 1,
        })
    }
}

/// Counts the requests that the server works on, by tenant, so that no tenant keeps all
/// connections busy.
struct ConcurrentRequests {
    limit: usize,
    counts: Mutex<HashMap<TenantId, usize>>,
}

impl ConcurrentRequests {
    /// Counts a request until the guard is dropped; `None` if the tenant has reached the limit.
    fn begin(self: &Arc<Self>, tenant: &TenantId) -> Option<ConcurrentRequest> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(tenant.clone()).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(ConcurrentRequest { of: Arc::clone(self), tenant: tenant.clone() })
    }
}

/// A request that the server works on.
struct ConcurrentRequest {
    of: Arc<ConcurrentRequests>,
    tenant: TenantId,
}

impl Drop for ConcurrentRequest {
    fn drop(&mut self) {
        let mut counts = self.of.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.tenant) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.tenant)),
        }
    }
}

/// The token of a request, if it has one.
#[derive(Clone)]
pub(super) struct RequestToken(Option<String>);

impl RequestToken {
    /// Whether the token is still valid. Access without a token stays valid.
    pub(super) fn is_valid(&self, app: &App) -> bool {
        let Self(Some(id)) = self else { return true };
        app.tokens().is_valid(id, app.now()).unwrap_or(false)
    }

    /// Returns once the token is revoked or expired.
    pub(super) async fn ended(&self, app: &App) {
        if self.0.is_none() {
            return std::future::pending().await;
        }
        while self.is_valid(app) {
            tokio::time::sleep(TOKEN_CHECK_INTERVAL).await;
        }
    }
}

/// The caller exceeded its rate limit.
struct RateLimited {
    seconds: u64,
}

impl IntoResponse for RateLimited {
    fn into_response(self) -> Response {
        let hint = Some("wait as long as retry-after says, or raise serve.requests_per_second");
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many requests", hint);
        let mut response = problem.into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(self.seconds));
        response
    }
}

/// The host of an authority, lowercase, without port and brackets.
fn host_of(authority: &str) -> Option<String> {
    let authority = Authority::from_str(authority).ok()?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    Some(host.to_ascii_lowercase())
}

/// Whether a host cannot be rebound: an IP address, or `localhost`.
fn is_own(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok()
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
}

/// Authenticates a request and attaches its [`Grant`], or rejects it.
pub(super) async fn authorize(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = app.access();
    let checked = access.check_host(request.headers(), request.uri());
    if let Err(problem) = checked.and_then(|()| access.check_origin(request.headers())) {
        return problem.into_response();
    }
    let token = match find_token(&app, request.headers()) {
        Ok(token) => token,
        Err(problem) => {
            // The rate limit also slows down token guessing.
            let wait = access.check_rate_limit(&peer.ip().to_string());
            return wait.map_or_else(|| problem.into_response(), RateLimited::into_response);
        }
    };
    let caller = token.as_ref().map_or_else(|| peer.ip().to_string(), |token| token.id.clone());
    if let Some(wait) = access.check_rate_limit(&caller) {
        return wait.into_response();
    }
    let credential = RequestToken(token.as_ref().map(|token| token.id.clone()));
    let concurrent = match &token {
        None => None,
        Some(token) => match access.concurrent_requests.begin(&token.tenant) {
            Some(request) => Some(request),
            None => return too_many_at_once().into_response(),
        },
    };
    let grant = match token {
        None => Grant::full_access(app.tenants().root().clone()),
        Some(token) => token_grant(&app, token),
    };
    request.extensions_mut().insert(grant);
    request.extensions_mut().insert(credential);
    let response = next.run(request).await;
    drop(concurrent);
    response
}

/// The access that a token gives.
fn token_grant(app: &App, token: AccessToken) -> Grant {
    app.tokens().record_use(&token.id, app.now());
    let root = app.tenants().root();
    let is_operator =
        token.tenant == *root.engine().tenant() && token.scopes.allow(TokenScope::Admin);
    let service = match is_operator {
        true => root.clone(),
        false => app.tenants().service_for(&token.tenant),
    };
    Grant::new(service, token.scopes)
}

fn too_many_at_once() -> Problem {
    let hint = "wait for answers before you send more, or raise serve.concurrent_requests";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many requests at once", Some(hint))
}

/// Counts a request to a page that needs no token.
pub(super) async fn limit_rate(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    match app.access().check_rate_limit(&peer.ip().to_string()) {
        Some(wait) => wait.into_response(),
        None => next.run(request).await,
    }
}

/// The token of a request. `None` if the request has none and none is required.
fn find_token(app: &App, headers: &HeaderMap) -> Result<Option<AccessToken>, Problem> {
    let refuse = |error: &str| {
        let hint =
            Some("create a token with `treering token create` and send `Authorization: Bearer …`");
        Problem::new(StatusCode::UNAUTHORIZED, error, hint)
    };
    if !headers.contains_key(header::AUTHORIZATION) {
        return match app.access().token_needed {
            true => Err(refuse("a token is required")),
            false => Ok(None),
        };
    }
    let secret =
        bearer(headers).ok_or_else(|| refuse("the Authorization header is not a bearer token"))?;
    match app.tokens().find(secret) {
        Ok(Some(token)) if token.is_expired(app.now()) => Err(refuse("the token has expired")),
        Ok(Some(token)) => Ok(Some(token)),
        Ok(None) => Err(refuse("the token is unknown or revoked")),
        Err(error) => {
            tracing::error!(%error, "cannot read the tokens");
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "cannot read the tokens", None))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use confique::Config as _;

    fn access(hosts: &[&str], origins: &[&str]) -> AccessControl {
        let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect();
        let defaults = ServeSettings::builder().load().unwrap();
        let settings = ServeSettings { hosts: owned(hosts), origins: owned(origins), ..defaults };
        AccessControl::new(&settings, "127.0.0.1:1".parse().unwrap())
    }

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn rebound_host_names_are_rejected() {
        let access = access(&["Memory.example.org"], &[]);
        let check = |host: &str| {
            access.check_host(&headers(&[(header::HOST, host)]), &Uri::default()).is_ok()
        };
        for is_same_host in [
            "127.0.0.1:7411",
            "localhost",
            "LOCALHOST:1",
            "[::1]:7411",
            "192.168.1.4",
            "memory.example.org:443",
        ] {
            assert!(check(is_same_host), "{is_same_host}");
        }
        for other in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7411", "", "a b"]
        {
            assert!(!check(other), "{other}");
        }
    }

    #[test]
    fn foreign_origins_are_rejected() {
        let access = access(&[], &["https://app.example.org"]);
        let check = |origin: &str| {
            access
                .check_origin(&headers(&[
                    (header::HOST, "127.0.0.1:7411"),
                    (header::ORIGIN, origin),
                ]))
                .is_ok()
        };
        assert!(check("http://127.0.0.1:7411") && check("https://app.example.org"));
        for other in [
            "http://127.0.0.1:80",
            "http://evil.example",
            "null",
            "https://app.example.org.evil.example",
        ] {
            assert!(!check(other), "{other}");
        }
        assert!(
            access.check_origin(&HeaderMap::new()).is_ok(),
            "clients other than browsers send no origin"
        );
    }

    #[test]
    fn a_tenant_has_a_limit_of_concurrent_requests() {
        let requests = Arc::new(ConcurrentRequests { limit: 2, counts: Mutex::default() });
        let [a, b] = ["a", "b"].map(|name| TenantId::new(name).unwrap());
        let (first, second) = (requests.begin(&a), requests.begin(&a));
        assert!(first.is_some() && second.is_some() && requests.begin(&a).is_none());
        assert!(requests.begin(&b).is_some(), "another tenant has its own");
        drop(first);
        assert!(requests.begin(&a).is_some());
        drop(second);
        assert!(requests.counts.lock().unwrap().is_empty());
    }

    #[test]
    fn addresses_off_loopback_require_a_token() {
        let settings = ServeSettings::builder().load().unwrap();
        let needed =
            |address: &str| AccessControl::new(&settings, address.parse().unwrap()).token_needed;
        assert!(!needed("127.0.0.1:1") && !needed("[::1]:1"));
        assert!(needed("0.0.0.0:1") && needed("192.168.0.7:1") && needed("[::]:1"));
    }
}

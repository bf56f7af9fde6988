//! The HTTP server: a JSON API with an OpenAPI document, an event stream, metrics, and MCP at
//! `/mcp`.

mod access;
mod amend;
mod api;
mod client_io;
mod connection_limit;
mod events;
mod forget;
mod metrics;
mod notes;
mod problem;
mod request_log;
mod server;
mod summaries;
mod tenants;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Bytes, HttpBody as _};
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, Response};
use axum::routing::get;
use axum::{Router, middleware};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use treering_core::Timestamp;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access_tokens::{TokenError, TokenStore};
use crate::mcp::McpServer;
use crate::service::{Service, ServiceError};
use access::AccessControl;
use metrics::Metrics;
use tenants::TenantRegistry;
use treering::config::ServeSettings;

/// The timeout of an MCP call. It is long because a call may wait for summaries and report
/// progress.
const MCP_CALL_TIMEOUT: Duration = Duration::from_secs(600);
/// Size of the buffer for the answers on a connection.
const SEND_BUFFER_BYTES: u32 = 64 << 10;
/// Connections that the operating system keeps until the server accepts them.
const LISTEN_BACKLOG: u32 = 1024;
/// How often the last use of tokens is saved.
const TOKEN_USE_INTERVAL: Duration = Duration::from_secs(10);
/// Extra time to release job leases at shutdown. Leases that are not released expire.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The content security policy of the page: it may call only this server.
const PAGE_POLICY: &str = "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'";

/// The reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is reachable from other machines, but no token exists.
    #[error(
        "{0} is reachable from other machines, but no token exists; create one with \
         `treering token create`, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The server cannot listen on the address.
    #[error("cannot listen on {0}: {1}; choose another address or port with --address")]
    Address(String, std::io::Error),
    /// The tokens are unreadable.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// The service failed to start.
    #[error(transparent)]
    Refused(#[from] ServiceError),
    /// The local address is unknown.
    #[error("cannot determine the local address: {0}")]
    Unknown(std::io::Error),
}

type Mcp<Handler> = StreamableHttpService<Handler, NeverSessionManager>;

/// State shared by all requests.
#[derive(Clone)]
struct App(Arc<AppState>);

struct AppState {
    tenants: Arc<TenantRegistry>,
    tokens: TokenStore,
    access: AccessControl,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
}

impl App {
    fn tenants(&self) -> &Arc<TenantRegistry> {
        &self.0.tenants
    }

    fn tokens(&self) -> &TokenStore {
        &self.0.tokens
    }

    fn access(&self) -> &AccessControl {
        &self.0.access
    }

    fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Saves the last use of tokens. Blocking.
    fn save_token_uses(&self) {
        if let Err(error) = self.tokens().save_uses() {
            tracing::warn!(%error, "cannot save the last use of tokens");
        }
    }

    fn now(&self) -> Timestamp {
        self.tenants().root().engine().clock().now()
    }
}

/// A server that listens but does not serve yet.
pub struct Server {
    listener: TcpListener,
    app: App,
    router: Router,
    settings: ServeSettings,
}

impl Server {
    /// Listens on an address. Refuses an address off loopback if no token exists.
    pub async fn bind(
        service: Service,
        home: &Path,
        address: SocketAddr,
    ) -> Result<Self, ServeError> {
        let server = McpServer::by_request();
        Self::bind_with(service, home, address, move || server.clone()).await
    }

    /// Like [`Server::bind`], with a custom MCP handler at `/mcp`, such as one that adds tools to
    /// [`McpServer`]. `make` runs once per request.
    pub async fn bind_with<Handler: ServerHandler>(
        service: Service,
        home: &Path,
        address: SocketAddr,
        make: impl Fn() -> Handler + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        let tokens = TokenStore::of(home);
        if !address.ip().is_loopback() && tokens.list()?.is_empty() {
            return Err(ServeError::Open(address));
        }
        let listener =
            listen(address).map_err(|error| ServeError::Address(address.to_string(), error))?;
        let settings = service.settings().serve.clone();
        let metrics = Arc::new(Metrics::new());
        let app = App(Arc::new(AppState {
            tenants: Arc::new(TenantRegistry::new(service, Arc::clone(&metrics))?),
            tokens,
            access: AccessControl::new(&settings, address),
            metrics,
            stop: CancellationToken::new(),
        }));
        let mcp = mcp(make, &app, &settings);
        Ok(Self { listener, router: router(mcp, &app, &settings), app, settings })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> Result<SocketAddr, ServeError> {
        self.listener.local_addr().map_err(ServeError::Unknown)
    }

    /// Serves until `stop` completes. Then it accepts no more requests, answers the open ones and
    /// ends event streams, while workers finish their jobs or release them at the timeout.
    ///
    /// Blocking tasks may still run afterwards. Do not wait for them by dropping the runtime: a
    /// provider call can take long.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, app, router, settings } = self;
        let stop_timeout = Duration::from_millis(settings.stop_timeout_ms);
        let stopped = async {
            stop.await;
            app.stop().cancel();
            tokio::time::sleep(stop_timeout).await;
        };
        tokio::select! {
            () = server::serve_connections(listener, router, &settings, app.stop().clone()) => {}
            () = stopped => {}
            () = save_token_uses(&app) => {}
        }
        let deadline = Instant::now() + stop_timeout;
        let ended = tokio::task::spawn_blocking(move || {
            app.save_token_uses();
            app.tenants().stop_by(deadline)
        });
        match tokio::time::timeout(stop_timeout + SHUTDOWN_GRACE, ended).await {
            Ok(Ok(Ok(0))) => {}
            Ok(Ok(Ok(jobs))) => {
                tracing::warn!(
                    jobs,
                    "released jobs that were still running; another worker takes them"
                );
            }
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "cannot release unfinished jobs; their leases will expire");
            }
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(
                    "unfinished jobs were not released in time; their leases will expire"
                );
            }
        }
    }
}

/// Listens on an address. The send buffers are small: a client that does not read its answers
/// would otherwise have the server fill megabytes for it.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // As `TcpListener::bind` does: a restarted server takes its address at once.
    socket.set_reuseaddr(cfg!(unix))?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

/// Saves the last use of tokens at intervals, without end.
async fn save_token_uses(app: &App) {
    loop {
        tokio::time::sleep(TOKEN_USE_INTERVAL).await;
        let app = app.clone();
        drop(tokio::task::spawn_blocking(move || app.save_token_uses()).await);
    }
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Treering", description = "A memory for conversations with language models."),
    tags(
        (name = "conversations", description = "Store, read and change conversations"),
        (name = "search", description = "Search memory, build contexts and read nodes"),
        (name = "work", description = "Monitor and control background work"),
        (name = "service", description = "Metrics and health checks")
    ),
    components(schemas(problem::Problem)),
    security(("token" = []))
)]
struct Document;

/// The routes that require authorization, with their OpenAPI document.
fn operations() -> (Router<App>, utoipa::openapi::OpenApi) {
    let mut document = Document::openapi();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token from `treering token create`; optional on a loopback address."))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    OpenApiRouter::with_openapi(document)
        .routes(routes!(api::append))
        .routes(routes!(api::sessions, api::create))
        .routes(routes!(api::page, api::change_conversation))
        .routes(routes!(api::status))
        .routes(routes!(api::update))
        .routes(routes!(api::update_by_name))
        .routes(routes!(api::tree))
        .routes(routes!(summaries::store_summary))
        .routes(routes!(summaries::summarize_turn))
        .routes(routes!(summaries::summarize_given))
        .routes(routes!(summaries::summarize_level))
        .routes(routes!(summaries::threads, summaries::fork))
        .routes(routes!(summaries::policy, summaries::set_policy))
        .routes(routes!(notes::add_note, notes::list_notes))
        .routes(routes!(notes::change_note))
        .routes(routes!(amend::amend))
        .routes(routes!(amend::history))
        .routes(routes!(forget::forget))
        .routes(routes!(forget::audit))
        .routes(routes!(forget::allow_return))
        .routes(routes!(api::nodes))
        .routes(routes!(api::ancestors))
        .routes(routes!(api::node))
        .routes(routes!(api::search))
        .routes(routes!(api::context))
        .routes(routes!(api::jobs))
        .routes(routes!(api::retry))
        .routes(routes!(api::logs))
        .routes(routes!(api::stats))
        .routes(routes!(events::events))
        .routes(routes!(api::metrics))
        .split_for_parts()
}

/// Returns the OpenAPI document as JSON.
#[must_use]
pub fn openapi() -> String {
    let (_, mut document) = operations();
    document.merge(open_operations().1);
    document.to_pretty_json().unwrap_or_default()
}

/// The health checks, which require no token.
fn open_operations() -> (Router<App>, utoipa::openapi::OpenApi) {
    OpenApiRouter::default()
        .routes(routes!(api::health))
        .routes(routes!(api::ready))
        .split_for_parts()
}

fn router<Handler: ServerHandler>(
    mcp: Mcp<Handler>,
    app: &App,
    settings: &ServeSettings,
) -> Router {
    let json = Bytes::from(openapi());
    let document = get(|| async move { ([(header::CONTENT_TYPE, "application/json")], json) });
    let page = get(|| async {
        ([(header::CONTENT_SECURITY_POLICY, PAGE_POLICY)], Html(include_str!("page.html")))
    });
    let timeout = Duration::from_millis(settings.timeout_ms);
    let in_time = |longest| TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, longest);
    let checked = operations()
        .0
        .layer(in_time(timeout))
        .merge(Router::new().route_service("/mcp", mcp).layer(in_time(MCP_CALL_TIMEOUT)));
    let checked = checked.layer(middleware::from_fn_with_state(app.clone(), access::authorize));
    let limited = Router::new()
        .route("/", page)
        .route("/openapi.json", document)
        .layer(middleware::from_fn_with_state(app.clone(), access::limit_rate));
    let open = open_operations().0.merge(limited).layer(in_time(timeout));
    checked
        .merge(open)
        .layer(cors_layer(&settings.origins))
        // The framework's own limit would refuse what the setting allows.
        .layer(DefaultBodyLimit::disable())
        .layer(RequestBodyLimitLayer::new(settings.body_bytes))
        .layer(CatchPanicLayer::new())
        .layer(middleware::from_fn_with_state(app.clone(), request_log::log_request))
        .layer(middleware::from_fn(close_after_refusal))
        .with_state(app.clone())
}

/// Says that the connection closes if a request is refused before its body is read.
async fn close_after_refusal(request: Request, next: Next) -> Response {
    let has_body = !request.body().is_end_stream();
    let response = next.run(request).await;
    let is_refused = matches!(response.status().as_u16(), 401 | 403..=405 | 408 | 413 | 415 | 429);
    if has_body && is_refused { close_connection(response) } else { response }
}

fn close_connection(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Allows the configured origins in CORS responses.
fn cors_layer(origins: &[String]) -> CorsLayer {
    let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    let headers =
        ["authorization", "content-type", "last-event-id", "mcp-protocol-version", "x-request-id"];
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST, Method::PATCH])
        .allow_headers(headers.map(HeaderName::from_static))
}

/// MCP over streamable HTTP, without sessions: each request carries its own credential, so nobody
/// can resume another caller's session. [`access::authorize`] has checked host and origin.
fn mcp<Handler: ServerHandler>(
    make: impl Fn() -> Handler + Send + Sync + 'static,
    app: &App,
    settings: &ServeSettings,
) -> Mcp<Handler> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(settings.body_bytes)
        .with_cancellation_token(app.stop().child_token())
        .disable_allowed_hosts();
    StreamableHttpService::new(move || Ok(make()), Arc::new(NeverSessionManager::default()), config)
}

//! Accepts a bounded number of connections and passes their requests to the router. Closes
//! connections that do not send their headers or do not read their answers in time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::client_io::{ClientIo, RequestBody};
use super::close_connection;
use super::connection_limit::{Connection, ConnectionLimit};
use super::problem::Problem;
use treering::config::ServeSettings;

/// The paths that are answered while the server works on requests of all connections.
const HEALTH_CHECKS: [&str; 2] = ["/health", "/ready"];

type Requests = TowerToHyperService<Router>;

/// Serves until `stop` is canceled, and then until the open requests are answered.
pub(super) async fn serve_connections(
    mut listener: TcpListener,
    router: Router,
    settings: &ServeSettings,
    stop: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(settings.header_timeout_ms));
    let write_timeout = Duration::from_millis(settings.write_timeout_ms);
    let limit =
        ConnectionLimit::new(settings.connections.get(), settings.connections_per_address.get());
    let router = TowerToHyperService::new(router);
    let open = GracefulShutdown::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = Listener::accept(&mut listener) => accepted,
            () = stop.cancelled() => break,
        };
        let admitted = match limit.admit(peer.ip()) {
            Ok(admitted) => admitted,
            Err(reached) => {
                tracing::debug!(%peer, ?reached, "a connection was refused");
                continue;
            }
        };
        let connection = admitted.connection();
        let (router, of_requests) = (router.clone(), Arc::clone(&connection));
        let service = service_fn(move |request| {
            answer(router.clone(), Arc::clone(&of_requests), peer, request)
        });
        let client = ClientIo::new(stream, Arc::clone(&connection), write_timeout);
        let served = open.watch(http.serve_connection(TokioIo::new(client), service));
        tokio::spawn(async move {
            let _admitted = admitted;
            tokio::select! {
                ended = served => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection failed");
                },
                () = connection.closed() => {
                    tracing::debug!(%peer, "a connection that kept the server waiting was closed");
                }
            }
        });
    }
    drop(listener);
    open.shutdown().await;
}

/// Answers a request. A connection beyond the limit answers health checks alone.
async fn answer(
    router: Requests,
    connection: Arc<Connection>,
    peer: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response, Infallible> {
    if connection.health_checks_only() && !HEALTH_CHECKS.contains(&request.uri().path()) {
        let hint = Some("try again, or raise the setting serve.connections");
        let error = "all connections are busy";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, error, hint);
        return Ok(close_connection(problem.into_response()));
    }
    request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer));
    connection.set_has_request(true);
    let request = request.map(|body| RequestBody::new(body, Arc::clone(&connection)));
    let response = router.call(request).await;
    connection.set_has_request(false);
    response
}

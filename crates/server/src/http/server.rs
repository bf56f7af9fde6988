//! Accepts a bounded number of connections and passes their requests to the router. Closes
//! connections that do not send their headers in time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use treering::config::ServeSettings;

/// Serves until `stop` is cancelled, and then until the open requests are answered.
pub(super) async fn serve_connections(
    mut listener: TcpListener,
    router: Router,
    settings: &ServeSettings,
    stop: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(settings.header_timeout_ms));
    let connection_slots = Arc::new(Semaphore::new(settings.connections.get()));
    let router = TowerToHyperService::new(router);
    let open = GracefulShutdown::new();
    loop {
        // Excess connections wait in the operating system's accept queue.
        let next = async {
            let permit = Arc::clone(&connection_slots).acquire_owned().await;
            (permit, Listener::accept(&mut listener).await)
        };
        let (permit, (stream, peer)) = tokio::select! {
            next = next => next,
            () = stop.cancelled() => break,
        };
        let router = router.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer));
            router.call(request)
        });
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            let _permit = permit;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection failed");
            }
        });
    }
    drop(listener);
    open.shutdown().await;
}

//! The event stream: the change feed of a tenant as server-sent events, whichever process
//! commits.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive, KeepAliveStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use treering_core::ports::Cursor;

use super::App;
use super::access::RequestToken;
use super::problem::{Problem, Problems};
use crate::service::{Grant, Service, ServiceError, TaskKind, TokenScope};
use crate::views::{EventView, Slugs, kind_of};

/// Buffered events per stream. A slow client reads the rest from the store later.
const WAITING: usize = 64;

type SseItem = Result<Event, std::convert::Infallible>;

/// Stream events
///
/// Server-sent events with JSON data: `turn` (messages stored), `sealed` (a window or group
/// sealed, to be summarized), `node` (a summary is ready) and `failed` (a job failed). Send the
/// last id as `Last-Event-ID` to resume without loss; without it, the stream starts with the next
/// event. The stream ends when the token is revoked or expires.
#[utoipa::path(get, path = "/v1/events", tag = "work",
    params(("Last-Event-ID" = Option<String>, Header, description = "Id of the last event received",
        pattern = r"^\d{1,15}$")),
    responses((status = 200, content_type = "text/event-stream", body = EventView,
        description = "Server-sent events; `data` is one event as JSON"), Problems))]
pub(super) async fn events(
    State(app): State<App>,
    Extension(grant): Extension<Grant>,
    Extension(token): Extension<RequestToken>,
    headers: HeaderMap,
) -> Result<Sse<KeepAliveStream<ReceiverStream<SseItem>>>, Problem> {
    let service = grant.require(TokenScope::Read)?.clone();
    let mut commits = app.tenants().commits(service.engine().tenant());
    let mut cursor = match headers.get("last-event-id") {
        Some(id) => {
            let cursor =
                id.to_str().unwrap_or_default().parse::<Cursor>().map_err(ServiceError::from)?;
            // Reject a cursor of another store before the stream begins.
            let after = cursor.clone();
            service
                .run(TaskKind::Read, move |service| Ok(service.engine().events_after(&after)?))
                .await?;
            cursor
        }
        None => service.run(TaskKind::Read, |service| Ok(service.engine().event_cursor()?)).await?,
    };
    let (send, receive) = mpsc::channel(WAITING);
    let stop = app.stop().clone();
    tokio::spawn(async move {
        let follow = async {
            loop {
                commits.mark_unchanged();
                let (events, now) = next_events(&service, cursor).await?;
                if !token.is_valid(&app) {
                    return Ok(());
                }
                let ended = events.is_empty();
                for event in events {
                    // The send fails once the client has disconnected.
                    send.send(Ok(event)).await.map_err(|_| ServiceError::Stopping)?;
                }
                cursor = now;
                if ended {
                    commits.changed().await.map_err(|_| ServiceError::Stopping)?;
                }
            }
        };
        let ended: Result<(), ServiceError> = tokio::select! {
            ended = follow => ended,
            () = send.closed() => Ok(()),
            () = token.ended(&app) => Ok(()),
            () = stop.cancelled() => Ok(()),
        };
        if let Err(refusal @ (ServiceError::Engine(_) | ServiceError::Internal(_))) = ended {
            tracing::warn!(error = %refusal, "an event stream failed");
        }
    });
    Ok(Sse::new(ReceiverStream::new(receive))
        .keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

/// Reads the events after a cursor. Only the last event carries the next cursor, so a client that
/// received part of the batch receives the whole batch again.
async fn next_events(
    service: &Service,
    after: Cursor,
) -> Result<(Vec<Event>, Cursor), ServiceError> {
    let read = service.run(TaskKind::Read, move |service| {
        let (events, now) = service.engine().events_after(&after)?;
        let mut slugs = Slugs::of(service.engine());
        let views: Vec<_> =
            events.iter().map(|event| (kind_of(event), EventView::of(event, &mut slugs))).collect();
        Ok((views, now))
    });
    let (views, now) = read.await?;
    let last = views.len().saturating_sub(1);
    let mut events = Vec::with_capacity(views.len());
    for (index, (kind, view)) in views.into_iter().enumerate() {
        let event = Event::default().event(kind).json_data(view);
        let event = event.map_err(|error| ServiceError::Internal(error.to_string()))?;
        events.push(if index == last { event.id(now.to_string()) } else { event });
    }
    Ok((events, now))
}

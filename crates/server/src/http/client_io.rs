//! The bytes from and to a client. Records whether the server waits for the client. Ends
//! connections whose client does not read. When the server closes, it reads the rest of the
//! request, so that the client receives the response.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::connection_limit::Connection;

/// The time that a closed connection waits for further bytes of the client, and the maximum.
const LINGER_QUIET: Duration = Duration::from_secs(1);
const LINGER: Duration = Duration::from_secs(30);

/// The stream of a connection.
pub(super) struct ClientIo {
    stream: TcpStream,
    connection: Arc<Connection>,
    write_timeout: Duration,
    /// Deadline for the client to continue reading.
    write_deadline: Option<Pin<Box<Sleep>>>,
    linger: Option<LingeringClose>,
}

/// The state of a lingering close: the responses are sent, and the rest of the request is read.
struct LingeringClose {
    deadline: Instant,
    quiet: Pin<Box<Sleep>>,
}

impl ClientIo {
    pub(super) const fn new(
        stream: TcpStream,
        connection: Arc<Connection>,
        write_timeout: Duration,
    ) -> Self {
        Self { stream, connection, write_timeout, write_deadline: None, linger: None }
    }

    /// Discards what the client still sends. A socket that closes with unread bytes resets the
    /// connection, and the client loses the answer.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { stream, linger, .. } = self;
        let linger = linger.get_or_insert_with(|| LingeringClose {
            deadline: Instant::now() + LINGER,
            quiet: Box::pin(sleep(LINGER_QUIET)),
        });
        let mut bytes = [0; 16 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Pending => return linger.quiet.as_mut().poll(cx),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let now = Instant::now();
                    if now >= linger.deadline {
                        return Poll::Ready(());
                    }
                    linger.quiet.as_mut().reset(now + LINGER_QUIET);
                }
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.connection.received();
        }
        read
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.connection.sent(written.is_ready());
        if written.is_ready() {
            self.write_deadline = None;
            return written;
        }
        let timeout = self.write_timeout;
        let deadline = self.write_deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        }
        self.poll_linger(cx).map(Ok)
    }
}

/// The body of a request.
pub(super) struct RequestBody {
    body: Incoming,
    connection: Arc<Connection>,
}

impl RequestBody {
    pub(super) const fn new(body: Incoming, connection: Arc<Connection>) -> Self {
        Self { body, connection }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.connection.set_awaits_body(frame.is_pending());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

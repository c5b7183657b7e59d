//! Serves one connection: the TLS handshake, the protocol that ALPN selects, the timeouts, and the
//! graceful shutdown.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, Version, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::body::Guarded;
use super::connection_activity::{ConnectionActivity, TimeoutCheck, TrackedStream};
use super::lifecycle::Lifecycle;
use super::limits::{Budget, HEAD_LIMIT, Limits};
use super::metrics::Metrics;

/// How long the server goes on reading after the last response. Closing a socket that has unread
/// bytes resets the connection, and the client may then lose the response.
const LINGER: Duration = Duration::from_secs(1);
/// The size limit of encrypted bytes that wait for the socket. The library's default is 64 KiB.
const TLS_BUFFER: usize = 32 << 10;
/// The flow control window of HTTP/2 for request bodies, of a stream and of a connection. The client
/// sends no more until the server has read and charged the bytes. The library's default is 1 MiB.
const HTTP2_WINDOW: u32 = 256 << 10;

/// What all connections of a listener share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) router: Router,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: Arc<Limits>,
    pub(super) budget: Budget,
    pub(super) lifecycle: Lifecycle,
    pub(super) metrics: Arc<Metrics>,
}

/// Serves the connection until either side ends it.
pub(super) async fn serve(stream: TcpStream, activity: Arc<ConnectionActivity>, shared: Shared) {
    // A response is one small write, and Nagle's algorithm only delays it. If the option cannot be
    // set, the connection works more slowly.
    let _ignored = stream.set_nodelay(true);
    let Some(acceptor) = shared.tls.clone() else {
        let stream = TrackedStream::new(stream, Arc::clone(&activity), Some(shared.budget.share()));
        return http1(stream, activity, shared).await;
    };
    let stream = tokio::select! {
        handshake = timeout(shared.limits.handshake, acceptor.accept_with(stream, |tls| tls.set_buffer_limit(Some(TLS_BUFFER)))) => match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                shared.metrics.handshake_failed("error");
                tracing::debug!(%error, "TLS handshake failed");
                return;
            }
            Err(_elapsed) => {
                shared.metrics.handshake_failed("timeout");
                return;
            }
        },
        () = activity.evict.notified() => {
            shared.metrics.cut("room");
            return;
        }
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let head = (!is_http2).then(|| shared.budget.share());
    let stream = TrackedStream::new(stream, Arc::clone(&activity), head);
    if is_http2 {
        http2(stream, activity, shared).await;
    } else {
        http1(stream, activity, shared).await;
    }
}

/// Answers one request. During a shutdown, the response asks the client to close the connection.
async fn answer(
    request: Request<Incoming>,
    activity: Arc<ConnectionActivity>,
    shared: Shared,
) -> Result<Response<Body>, Infallible> {
    let mut active = activity.start_request();
    let is_http1 = request.version() < Version::HTTP_2;
    let mut response = shared.router.oneshot(request.map(Body::new)).await?;
    if is_http1 && shared.lifecycle.is_shutting_down() {
        // The client closes the connection itself, so it sends no request into a closing socket.
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    active.start_response();
    Ok(response.map(|body| Body::new(Guarded { body, _guard: active })))
}

async fn http1<S: AsyncRead + AsyncWrite + Unpin>(stream: S, activity: Arc<ConnectionActivity>, shared: Shared) {
    let service = {
        let (activity, shared) = (Arc::clone(&activity), shared.clone());
        service_fn(move |request| Box::pin(answer(request, Arc::clone(&activity), shared.clone())))
    };
    let mut connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), service);
    let mut events = Events::new(&activity, &shared, true);
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break ended.is_ok(),
            event = events.next() => match event {
                Event::ShutDown => std::pin::Pin::new(&mut connection).graceful_shutdown(),
                Event::Close => break false,
            }
        }
    };
    if ended {
        let mut stream = connection.into_parts().io.into_inner();
        let _ignored = timeout(LINGER, linger(&mut stream)).await;
    }
}

/// Closes the server's side, then reads what the client still sends.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> std::io::Result<()> {
    stream.shutdown().await?;
    let mut discarded = vec![0; 16 << 10];
    while stream.read(&mut discarded).await? > 0 {}
    Ok(())
}

async fn http2<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    activity: Arc<ConnectionActivity>,
    shared: Shared,
) {
    let service = {
        let (activity, shared) = (Arc::clone(&activity), shared.clone());
        service_fn(move |request| answer(request, Arc::clone(&activity), shared.clone()))
    };
    let streams = u32::try_from(shared.limits.reviews).unwrap_or(u32::MAX).min(100);
    let mut connection = pin!(
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(streams)
            .max_header_list_size(u32::try_from(HEAD_LIMIT).unwrap_or(u32::MAX))
            .initial_stream_window_size(HTTP2_WINDOW)
            .initial_connection_window_size(HTTP2_WINDOW)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10))
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut events = Events::new(&activity, &shared, false);
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection closed with an error");
                }
                return;
            }
            event = events.next() => match event {
                Event::ShutDown => connection.as_mut().graceful_shutdown(),
                Event::Close => return,
            }
        }
    }
}

/// What a connection must do.
enum Event {
    /// Finish the active requests and accept no more.
    ShutDown,
    /// Close at once.
    Close,
}

/// Waits for the events of one connection: eviction, the shutdown of the server, and timeouts.
struct Events<'a> {
    activity: &'a ConnectionActivity,
    shared: &'a Shared,
    is_http1: bool,
    next_check: Instant,
    shutdown_started: bool,
}

impl<'a> Events<'a> {
    fn new(activity: &'a ConnectionActivity, shared: &'a Shared, is_http1: bool) -> Self {
        Self {
            activity,
            shared,
            is_http1,
            next_check: Instant::now() + shared.limits.head,
            shutdown_started: false,
        }
    }

    async fn next(&mut self) -> Event {
        loop {
            tokio::select! {
                () = self.activity.evict.notified() => {
                    self.shared.metrics.cut("room");
                    return Event::Close;
                }
                () = shutdown(self.activity, self.shared, self.is_http1), if !self.shutdown_started => {
                    self.shutdown_started = true;
                    return Event::ShutDown;
                }
                () = sleep_until(self.next_check) => match self.activity.check_timeouts(&self.shared.limits, self.is_http1) {
                    TimeoutCheck::CheckAt(then) => self.next_check = then,
                    TimeoutCheck::HeadStalled => {
                        self.shared.metrics.cut("head");
                        return Event::Close;
                    }
                    TimeoutCheck::WriteStalled => {
                        self.shared.metrics.cut("write");
                        return Event::Close;
                    }
                    TimeoutCheck::Idle if self.shutdown_started => {
                        self.shared.metrics.cut("idle");
                        return Event::Close;
                    }
                    TimeoutCheck::Idle => {
                        self.shutdown_started = true;
                        self.next_check = Instant::now() + self.shared.limits.head;
                        return Event::ShutDown;
                    }
                }
            }
        }
    }
}

/// Waits until a connection must shut down. GOAWAY in HTTP/2 loses no request, so it is sent as soon
/// as the shutdown starts. In HTTP/1.1 the server can only close an idle connection, so it waits until
/// the drain starts.
///
/// A new connection without a request is about to send one, which would be lost. It gets a grace
/// period for its first request.
async fn shutdown(activity: &ConnectionActivity, shared: &Shared, is_http1: bool) {
    if is_http1 {
        shared.lifecycle.draining().await;
    } else {
        shared.lifecycle.shutting_down().await;
    }
    if let Some(end) = activity.grace(shared.limits.grace) {
        tokio::select! {
            () = activity.first_request.notified() => {}
            () = sleep_until(end) => {}
        }
    }
}

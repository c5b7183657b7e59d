//! One connection, from its first byte to its last: handshake, the protocol that ALPN chose, the time limits, and the
//! orderly end.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
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

use super::lifecycle::Lifecycle;
use super::limits::Limits;
use super::metrics::Metrics;
use super::pace::{Look, Pace, Paced};

/// How long bytes that nobody will read are still taken in after the last answer, so that the answer arrives: closing a
/// socket with unread bytes resets it.
const LINGER: Duration = Duration::from_secs(1);

/// What every connection of a listener shares.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) router: Router,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: Arc<Limits>,
    pub(super) lifecycle: Lifecycle,
    pub(super) metrics: Arc<Metrics>,
}

/// Serves the connection until either side ends it.
pub(super) async fn serve(stream: TcpStream, pace: Arc<Pace>, shared: Shared) {
    // An answer is one small write; waiting to fill a packet only delays it. Without the option it is merely slower.
    let _slower = stream.set_nodelay(true);
    let Some(acceptor) = shared.tls.clone() else {
        return http1(Paced::new(stream, Arc::clone(&pace)), pace, shared).await;
    };
    let stream = tokio::select! {
        shaken = timeout(shared.limits.handshake, acceptor.accept(stream)) => match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                shared.metrics.handshake_failed("error");
                tracing::debug!(%error, "handshake failed");
                return;
            }
            Err(_elapsed) => {
                shared.metrics.handshake_failed("timeout");
                return;
            }
        },
        () = pace.make_room.notified() => {
            shared.metrics.cut("room");
            return;
        }
    };
    let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = Paced::new(stream, Arc::clone(&pace));
    if two {
        http2(stream, pace, shared).await;
    } else {
        http1(stream, pace, shared).await;
    }
}

/// Answers one request, and says goodbye in the answer when the server is about to leave.
async fn answer(request: Request<Incoming>, pace: Arc<Pace>, shared: Shared) -> Result<Response<Body>, Infallible> {
    let busy = pace.request();
    let closes = request.version() < Version::HTTP_2;
    let mut response = shared.router.oneshot(request.map(Body::new)).await?;
    if closes && shared.lifecycle.is_leaving() {
        // The client closes then, and cannot send another request into a closing socket.
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    drop(busy);
    Ok(response)
}

async fn http1<S: AsyncRead + AsyncWrite + Unpin>(stream: S, pace: Arc<Pace>, shared: Shared) {
    let service = {
        let (pace, shared) = (Arc::clone(&pace), shared.clone());
        service_fn(move |request| Box::pin(answer(request, Arc::clone(&pace), shared.clone())))
    };
    let mut connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    let mut watch = Watch::new(&pace, &shared, true);
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break ended.is_ok(),
            event = watch.next() => match event {
                Event::Goodbye => std::pin::Pin::new(&mut connection).graceful_shutdown(),
                Event::Cut => break false,
            }
        }
    };
    if ended {
        let mut stream = connection.into_parts().io.into_inner();
        let _gone = timeout(LINGER, linger(&mut stream)).await;
    }
}

/// Closes our side, then takes in what the client still sends.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> std::io::Result<()> {
    stream.shutdown().await?;
    let mut rest = vec![0; 16 << 10];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

async fn http2<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, pace: Arc<Pace>, shared: Shared) {
    let service = {
        let (pace, shared) = (Arc::clone(&pace), shared.clone());
        service_fn(move |request| answer(request, Arc::clone(&pace), shared.clone()))
    };
    let streams = u32::try_from(shared.limits.reviews).unwrap_or(u32::MAX).min(100);
    let mut connection = pin!(
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(streams)
            .max_header_list_size(16 << 10)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10))
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut watch = Watch::new(&pace, &shared, false);
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            event = watch.next() => match event {
                Event::Goodbye => connection.as_mut().graceful_shutdown(),
                Event::Cut => return,
            }
        }
    }
}

/// Something that a connection must do.
enum Event {
    /// Finish what runs, take nothing new.
    Goodbye,
    /// End now.
    Cut,
}

/// Waits for what concerns one connection.
struct Watch<'a> {
    pace: &'a Pace,
    shared: &'a Shared,
    one: bool,
    look: Instant,
    said_goodbye: bool,
}

impl<'a> Watch<'a> {
    fn new(pace: &'a Pace, shared: &'a Shared, one: bool) -> Self {
        Self {
            pace,
            shared,
            one,
            look: Instant::now() + shared.limits.head,
            said_goodbye: false,
        }
    }

    async fn next(&mut self) -> Event {
        loop {
            tokio::select! {
                () = self.pace.make_room.notified() => {
                    self.shared.metrics.cut("room");
                    return Event::Cut;
                }
                () = goodbye(&self.shared.lifecycle, self.one), if !self.said_goodbye => {
                    self.said_goodbye = true;
                    return Event::Goodbye;
                }
                () = sleep_until(self.look) => match self.pace.look(&self.shared.limits, self.one) {
                    Look::Again(then) => self.look = then,
                    Look::Stalled => {
                        self.shared.metrics.cut("head");
                        return Event::Cut;
                    }
                    Look::Idle if self.said_goodbye => {
                        self.shared.metrics.cut("idle");
                        return Event::Cut;
                    }
                    Look::Idle => {
                        self.said_goodbye = true;
                        self.look = Instant::now() + self.shared.limits.head;
                        return Event::Goodbye;
                    }
                }
            }
        }
    }
}

/// HTTP/2 has a way to say goodbye that loses nothing, so it is said as soon as the server is to leave; in HTTP/1.1 an
/// idle connection can only be closed, so that waits until no new connections are taken.
fn goodbye(lifecycle: &Lifecycle, one: bool) -> impl Future<Output = ()> + Send {
    let lifecycle = lifecycle.clone();
    async move {
        if one {
            lifecycle.draining().await;
        } else {
            lifecycle.leaving().await;
        }
    }
}

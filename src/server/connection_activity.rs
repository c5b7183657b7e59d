//! Tracks what each connection does, so that the server can close a connection that stalls and can
//! evict one that is idle.
//!
//! hyper has a timeout for request heads, but that timeout also runs while a connection is idle
//! between two requests. A server that closes such a connection may lose a request that is on its
//! way, and an API server does not repeat a POST. This module therefore keeps two times apart: the
//! time since the first byte of a head, and the time since the end of the last response.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::Limits;

/// What one connection does at present.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    opened: Instant,
    /// The number of requests without a response.
    requests: AtomicUsize,
    /// Whether bytes have arrived since the last response.
    head_started: AtomicBool,
    /// When the connection became idle or the head started, in milliseconds after `opened`.
    since: AtomicU64,
    /// Signals that a new connection needs the slot of this one.
    pub(super) evict: Notify,
}

/// The result of a timeout check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutCheck {
    /// No timeout has passed. Check again at this time.
    CheckAt(Instant),
    /// The connection has had no request for too long: shut it down gracefully.
    Idle,
    /// The head has been incomplete for too long: close the connection.
    HeadStalled,
}

impl ConnectionActivity {
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            requests: AtomicUsize::new(0),
            head_started: AtomicBool::new(false),
            since: AtomicU64::new(0),
            evict: Notify::new(),
        }
    }

    fn mark(&self) {
        let since = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.since.store(since, Ordering::Relaxed);
    }

    fn since(&self) -> Instant {
        self.opened + Duration::from_millis(self.since.load(Ordering::Relaxed))
    }

    /// Records that a request starts. The request ends when the guard is dropped.
    pub(super) fn start_request(self: &Arc<Self>) -> ActiveRequest {
        self.requests.fetch_add(1, Ordering::AcqRel);
        ActiveRequest(Arc::clone(self))
    }

    fn bytes_received(&self) {
        if self.requests.load(Ordering::Acquire) == 0 && !self.head_started.swap(true, Ordering::AcqRel) {
            self.mark();
        }
    }

    /// Compares the activity with the limits.
    ///
    /// `detect_heads` says whether bytes between two requests belong to a head, as in HTTP/1.1. In
    /// HTTP/2 they may be control frames; there, a head that never ends counts as idle time.
    pub(super) fn check_timeouts(&self, limits: &Limits, detect_heads: bool) -> TimeoutCheck {
        let now = Instant::now();
        let next_check = now + limits.head.min(limits.idle);
        if self.requests.load(Ordering::Acquire) > 0 {
            return TimeoutCheck::CheckAt(next_check);
        }
        let (end, timeout) = if detect_heads && self.head_started.load(Ordering::Acquire) {
            (self.since() + limits.head, TimeoutCheck::HeadStalled)
        } else {
            (self.since() + limits.idle, TimeoutCheck::Idle)
        };
        if end <= now {
            timeout
        } else {
            TimeoutCheck::CheckAt(end.min(next_check))
        }
    }
}

/// A request without a response.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<ConnectionActivity>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.head_started.store(false, Ordering::Release);
        self.0.mark();
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// All open connections of one listener.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    open: Mutex<(u64, BTreeMap<u64, Arc<ConnectionActivity>>)>,
}

impl OpenConnections {
    /// Registers a connection until the returned entry is dropped.
    pub(super) fn open(self: &Arc<Self>) -> Entry {
        let activity = Arc::new(ConnectionActivity::new());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.0 += 1;
        let number = open.0;
        open.1.insert(number, Arc::clone(&activity));
        Entry {
            connections: Arc::clone(self),
            number,
            activity,
        }
    }

    /// Asks the connection that has been idle for the longest time to close. Returns `false` if no
    /// connection is idle.
    pub(super) fn evict_idlest(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = open
            .1
            .values()
            .filter(|activity| activity.requests.load(Ordering::Acquire) == 0);
        let idlest = idle.min_by_key(|activity| activity.since());
        if let Some(activity) = idlest {
            activity.evict.notify_one();
        }
        idlest.is_some()
    }
}

/// The registration of one connection. It ends when the entry is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    connections: Arc<OpenConnections>,
    number: u64,
    pub(super) activity: Arc<ConnectionActivity>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.connections
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .remove(&self.number);
    }
}

/// A stream that reports received bytes to a [`ConnectionActivity`].
#[derive(Debug)]
pub(super) struct TrackedStream<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
}

impl<S> TrackedStream<S> {
    pub(super) fn new(stream: S, activity: Arc<ConnectionActivity>) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.bytes_received();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenConnections, TimeoutCheck};
    use crate::server::limits::Limits;
    use std::sync::Arc;
    use std::time::Duration;

    fn limits() -> Limits {
        Limits {
            head: Duration::from_secs(5),
            idle: Duration::from_secs(150),
            ..Limits::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_a_shorter_timeout_than_an_idle_connection() {
        let entry = Arc::new(OpenConnections::default()).open();
        let check = || entry.activity.check_timeouts(&limits(), true);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(matches!(check(), TimeoutCheck::CheckAt(_)));
        entry.activity.bytes_received();
        tokio::time::advance(Duration::from_secs(4)).await;
        entry.activity.bytes_received();
        assert!(matches!(check(), TimeoutCheck::CheckAt(_)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(check(), TimeoutCheck::HeadStalled);
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_of_http2_start_no_head_and_do_not_extend_the_idle_time() {
        let entry = Arc::new(OpenConnections::default()).open();
        let check = || entry.activity.check_timeouts(&limits(), false);
        entry.activity.bytes_received();
        tokio::time::advance(Duration::from_secs(100)).await;
        entry.activity.bytes_received();
        assert!(matches!(check(), TimeoutCheck::CheckAt(_)));
        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(check(), TimeoutCheck::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_suspends_the_timeouts_and_its_end_restarts_the_idle_time() {
        let entry = Arc::new(OpenConnections::default()).open();
        let check = || entry.activity.check_timeouts(&limits(), true);
        entry.activity.bytes_received();
        let request = entry.activity.start_request();
        tokio::time::advance(Duration::from_secs(500)).await;
        entry.activity.bytes_received();
        assert!(matches!(check(), TimeoutCheck::CheckAt(_)));
        drop(request);
        tokio::time::advance(Duration::from_secs(149)).await;
        assert!(matches!(check(), TimeoutCheck::CheckAt(_)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(check(), TimeoutCheck::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_has_been_idle_longest_is_evicted() {
        let connections = Arc::new(OpenConnections::default());
        let busy = connections.open();
        let _request = busy.activity.start_request();
        assert!(!connections.evict_idlest());
        tokio::time::advance(Duration::from_secs(1)).await;
        let old = connections.open();
        tokio::time::advance(Duration::from_secs(1)).await;
        let _young = connections.open();
        // `since` counts from the opening, so the older connection has the greater idle time.
        assert!(connections.evict_idlest());
        old.activity.evict.notified().await;
        drop(old);
        assert!(connections.evict_idlest());
    }
}

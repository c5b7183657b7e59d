//! Tracks what each connection does, so that the server can close a connection that stalls, in
//! either direction, and can evict one that is idle.
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

use super::limits::{Limits, Share};

/// What one connection does at present.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    opened: Instant,
    /// The number of requests without a response.
    requests: AtomicUsize,
    /// Whether there has been a request.
    had_request: AtomicBool,
    /// Signals the first request.
    pub(super) first_request: Notify,
    /// When each response started that the client has not taken yet, by its number.
    responses: Mutex<(u64, BTreeMap<u64, Instant>)>,
    /// Since when the client accepts no bytes, in milliseconds after `opened`, plus 1; 0 if it does.
    write_blocked: AtomicU64,
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
    /// The client has not taken a response for too long: close the connection.
    WriteStalled,
}

impl ConnectionActivity {
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            requests: AtomicUsize::new(0),
            had_request: AtomicBool::new(false),
            first_request: Notify::new(),
            responses: Mutex::default(),
            write_blocked: AtomicU64::new(0),
            head_started: AtomicBool::new(false),
            since: AtomicU64::new(0),
            evict: Notify::new(),
        }
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn mark(&self) {
        self.since.store(self.elapsed(), Ordering::Relaxed);
    }

    fn since(&self) -> Instant {
        self.opened + Duration::from_millis(self.since.load(Ordering::Relaxed))
    }

    /// Records that a request starts. The request ends when the guard is dropped.
    pub(super) fn start_request(self: &Arc<Self>) -> ActiveRequest {
        self.requests.fetch_add(1, Ordering::AcqRel);
        if !self.had_request.swap(true, Ordering::AcqRel) {
            self.first_request.notify_one();
        }
        ActiveRequest {
            activity: Arc::clone(self),
            response: None,
        }
    }

    /// Until when a shutdown waits for the first request of the connection; `None` if there has been
    /// one.
    pub(super) fn grace(&self, grace: Duration) -> Option<Instant> {
        (!self.had_request.load(Ordering::Acquire)).then(|| self.opened + grace)
    }

    fn bytes_received(&self) -> Received {
        if self.requests.load(Ordering::Acquire) > 0 {
            return Received::Body;
        }
        if self.head_started.swap(true, Ordering::AcqRel) {
            return Received::Head;
        }
        self.mark();
        Received::HeadStart
    }

    fn bytes_written<T>(&self, written: &Poll<T>) {
        match written {
            Poll::Ready(_) => self.write_blocked.store(0, Ordering::Relaxed),
            Poll::Pending => {
                let since = self.elapsed().saturating_add(1);
                // An earlier time stays.
                let _earlier = self
                    .write_blocked
                    .compare_exchange(0, since, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// When the oldest response started that the client has not taken, or the client stopped taking
    /// bytes.
    fn writing_since(&self) -> Option<Instant> {
        let responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = responses.1.values().next().copied();
        let blocked = self.write_blocked.load(Ordering::Relaxed).checked_sub(1);
        let blocked = blocked.map(|since| self.opened + Duration::from_millis(since));
        oldest.into_iter().chain(blocked).min()
    }

    /// Compares the activity with the limits.
    ///
    /// `detect_heads` says whether bytes between two requests belong to a head, as in HTTP/1.1. In
    /// HTTP/2 they may be control frames; there, a head that never ends counts as idle time.
    pub(super) fn check_timeouts(&self, limits: &Limits, detect_heads: bool) -> TimeoutCheck {
        let now = Instant::now();
        let next_check = now + limits.head.min(limits.idle).min(limits.write);
        if let Some(end) = self.writing_since().map(|since| since + limits.write) {
            return if end <= now {
                TimeoutCheck::WriteStalled
            } else {
                TimeoutCheck::CheckAt(end.min(next_check))
            };
        }
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

/// Which part of a request received bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    HeadStart,
    Head,
    Body,
}

/// A request whose response the client has not taken yet.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    activity: Arc<ConnectionActivity>,
    /// The number of the response, once it has started.
    response: Option<u64>,
}

impl ActiveRequest {
    /// Records that the response starts. It ends when the guard is dropped.
    pub(super) fn start_response(&mut self) {
        let mut responses = self.activity.responses.lock().unwrap_or_else(PoisonError::into_inner);
        responses.0 += 1;
        let number = responses.0;
        responses.1.insert(number, Instant::now());
        self.response = Some(number);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if let Some(number) = self.response {
            let mut responses = self.activity.responses.lock().unwrap_or_else(PoisonError::into_inner);
            responses.1.remove(&number);
        }
        self.activity.head_started.store(false, Ordering::Release);
        self.activity.mark();
        self.activity.requests.fetch_sub(1, Ordering::AcqRel);
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

/// A stream that reports received and written bytes to a [`ConnectionActivity`].
#[derive(Debug)]
pub(super) struct TrackedStream<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
    /// The share of an incomplete request head.
    head: Option<Share>,
}

impl<S> TrackedStream<S> {
    /// `head` is charged for the bytes of request heads, as in HTTP/1.1. In HTTP/2, where bytes between
    /// two requests may be control frames, it is `None`.
    pub(super) fn new(stream: S, activity: Arc<ConnectionActivity>, head: Option<Share>) -> Self {
        Self { stream, activity, head }
    }

    /// Charges received bytes. Returns `false` if the budget does not allow them.
    fn charge(&mut self, bytes: usize) -> bool {
        let received = self.activity.bytes_received();
        let Some(share) = &mut self.head else { return true };
        match received {
            Received::Body => true,
            Received::Head => share.grow_to(share.bytes().saturating_add(bytes)),
            Received::HeadStart => {
                share.release();
                share.grow_to(bytes)
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let received = buf.filled().len().saturating_sub(before);
        if received > 0 && !self.charge(received) {
            return Poll::Ready(Err(std::io::Error::other("the byte budget is exhausted")));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        // Only a flush proves that the client has taken the bytes.
        if written.is_pending() {
            self.activity.bytes_written(&written);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.activity.bytes_written(&flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        if written.is_pending() {
            self.activity.bytes_written(&written);
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenConnections, TimeoutCheck, TrackedStream};
    use crate::server::limits::{Budget, Limits};
    use std::sync::Arc;
    use std::task::Poll;
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
    async fn n3_a_response_that_the_client_does_not_take_has_a_timeout() {
        let entry = Arc::new(OpenConnections::default()).open();
        let check = || entry.activity.check_timeouts(&limits(), true);
        let mut first = entry.activity.start_request();
        first.start_response();
        tokio::time::advance(Duration::from_secs(3)).await;
        let mut second = entry.activity.start_request();
        second.start_response();
        assert!(matches!(check(), TimeoutCheck::CheckAt(_)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(check(), TimeoutCheck::WriteStalled);
        drop(first);
        assert!(matches!(check(), TimeoutCheck::CheckAt(_)));
        drop(second);
        entry.activity.bytes_written(&Poll::<()>::Pending);
        tokio::time::advance(Duration::from_secs(4)).await;
        entry.activity.bytes_written(&Poll::<()>::Pending);
        assert!(matches!(check(), TimeoutCheck::CheckAt(_)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(check(), TimeoutCheck::WriteStalled);
        entry.activity.bytes_written(&Poll::Ready(()));
        assert!(matches!(check(), TimeoutCheck::CheckAt(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn n7_an_unfinished_head_is_charged_and_a_request_releases_it() {
        let budget = Budget::new(100);
        let entry = Arc::new(OpenConnections::default()).open();
        let mut stream = TrackedStream::new((), Arc::clone(&entry.activity), Some(budget.share()));
        assert!(stream.charge(60));
        assert!(!budget.share().grow_to(41), "the head is charged");
        assert!(!stream.charge(41));
        let request = entry.activity.start_request();
        assert!(stream.charge(1000), "a body is charged elsewhere");
        drop(request);
        assert!(stream.charge(100), "the next head starts at 0");
        drop(stream);
        assert!(budget.share().grow_to(100));
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

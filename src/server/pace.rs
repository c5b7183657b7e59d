//! How far each connection is, so that one which stalls is cut and one which idles can make room.
//!
//! hyper has a time limit for heads, but it also runs while a connection idles between two requests. A server that
//! closes such a connection may hit a request that is on its way, which the API server won't repeat. So the two times
//! are kept apart here: from the first byte of a head, and from the end of the last answer.

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

/// Where one connection is.
#[derive(Debug)]
pub(super) struct Pace {
    opened: Instant,
    /// Requests whose answer isn't there yet.
    busy: AtomicUsize,
    /// Bytes came in since the last answer.
    head: AtomicBool,
    /// Milliseconds after `opened` at which it began to idle, or the head to come in.
    since: AtomicU64,
    /// Somebody wants the place of this connection.
    pub(super) make_room: Notify,
}

/// What is to be done with a connection that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Look again then.
    Again(Instant),
    /// It has had no request for too long: say goodbye.
    Idle,
    /// Its head has been coming in for too long: cut it.
    Stalled,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            busy: AtomicUsize::new(0),
            head: AtomicBool::new(false),
            since: AtomicU64::new(0),
            make_room: Notify::new(),
        }
    }

    fn mark(&self) {
        let since = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.since.store(since, Ordering::Relaxed);
    }

    fn since(&self) -> Instant {
        self.opened + Duration::from_millis(self.since.load(Ordering::Relaxed))
    }

    /// A request begins; it ends when the guard is dropped.
    pub(super) fn request(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(self))
    }

    fn read(&self) {
        if self.busy.load(Ordering::Acquire) == 0 && !self.head.swap(true, Ordering::AcqRel) {
            self.mark();
        }
    }

    /// `heads`: whether bytes between two requests are a head. In HTTP/2 they may be housekeeping, so there a head that
    /// never ends counts as idling.
    pub(super) fn look(&self, limits: &Limits, heads: bool) -> Look {
        let now = Instant::now();
        let again = now + limits.head.min(limits.idle);
        if self.busy.load(Ordering::Acquire) > 0 {
            return Look::Again(again);
        }
        let (end, verdict) = if heads && self.head.load(Ordering::Acquire) {
            (self.since() + limits.head, Look::Stalled)
        } else {
            (self.since() + limits.idle, Look::Idle)
        };
        if end <= now {
            verdict
        } else {
            Look::Again(end.min(again))
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Busy(Arc<Pace>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.head.store(false, Ordering::Release);
        self.0.mark();
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// All connections that are open.
#[derive(Debug, Default)]
pub(super) struct Paces {
    open: Mutex<(u64, BTreeMap<u64, Arc<Pace>>)>,
}

impl Paces {
    pub(super) fn open(self: &Arc<Self>) -> Entry {
        let pace = Arc::new(Pace::new());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.0 += 1;
        let number = open.0;
        open.1.insert(number, Arc::clone(&pace));
        Entry {
            paces: Arc::clone(self),
            number,
            pace,
        }
    }

    /// Asks the connection that has been without a request for the longest time to close. `false` when all are busy.
    pub(super) fn make_room(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = open.1.values().filter(|pace| pace.busy.load(Ordering::Acquire) == 0);
        let oldest = idle.min_by_key(|pace| pace.since());
        if let Some(pace) = oldest {
            pace.make_room.notify_one();
        }
        oldest.is_some()
    }
}

/// The place of one connection among all; given up when dropped.
#[derive(Debug)]
pub(super) struct Entry {
    paces: Arc<Paces>,
    number: u64,
    pub(super) pace: Arc<Pace>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.paces
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .remove(&self.number);
    }
}

/// A stream that tells a [`Pace`] when bytes come in.
#[derive(Debug)]
pub(super) struct Paced<S> {
    stream: S,
    pace: Arc<Pace>,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, pace: Arc<Pace>) -> Self {
        Self { stream, pace }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.pace.read();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
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
    use super::{Look, Paces};
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
    async fn a_head_has_less_time_than_an_idle_connection() {
        let entry = Arc::new(Paces::default()).open();
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(matches!(entry.pace.look(&limits(), true), Look::Again(_)));
        entry.pace.read();
        tokio::time::advance(Duration::from_secs(4)).await;
        entry.pace.read();
        assert!(matches!(entry.pace.look(&limits(), true), Look::Again(_)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(entry.pace.look(&limits(), true), Look::Stalled);
    }

    #[tokio::test(start_paused = true)]
    async fn housekeeping_of_http2_is_no_head_but_idling_ends() {
        let entry = Arc::new(Paces::default()).open();
        entry.pace.read();
        tokio::time::advance(Duration::from_secs(100)).await;
        entry.pace.read();
        assert!(matches!(entry.pace.look(&limits(), false), Look::Again(_)));
        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(entry.pace.look(&limits(), false), Look::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_is_left_alone_and_starts_anew_afterwards() {
        let entry = Arc::new(Paces::default()).open();
        entry.pace.read();
        let request = entry.pace.request();
        tokio::time::advance(Duration::from_secs(500)).await;
        entry.pace.read();
        assert!(matches!(entry.pace.look(&limits(), true), Look::Again(_)));
        drop(request);
        tokio::time::advance(Duration::from_secs(149)).await;
        assert!(matches!(entry.pace.look(&limits(), true), Look::Again(_)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(entry.pace.look(&limits(), true), Look::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_made_by_the_connection_that_idles_longest() {
        let paces = Arc::new(Paces::default());
        let busy = paces.open();
        let _request = busy.pace.request();
        assert!(!paces.make_room());
        tokio::time::advance(Duration::from_secs(1)).await;
        let old = paces.open();
        tokio::time::advance(Duration::from_secs(1)).await;
        let _young = paces.open();
        // `since` counts from the opening, so an older connection that answered lately is younger.
        assert!(paces.make_room());
        old.pace.make_room.notified().await;
        drop(old);
        assert!(paces.make_room());
    }
}

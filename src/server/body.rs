//! Bodies under limits. A request body is read under three limits: its size, the bytes of all
//! connections together, and the deadline. The budget is charged for received bytes only, so that
//! an announced length costs nothing. A response body is charged until the client has taken it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, timeout_at};

use super::limits::Share;
use super::refusal::Refusal;

/// The size of the frames of a response. The HTTP library holds up to one frame for each request
/// that the budget no longer counts.
const RESPONSE_FRAME: usize = 16 << 10;

/// Reads the whole body.
pub(super) async fn read(body: Body, limit: usize, share: &mut Share, deadline: Instant) -> Result<Bytes, Refusal> {
    match timeout_at(deadline, collect(body, limit, share)).await {
        Ok(read) => read,
        Err(_elapsed) => Err(Refusal::TooSlow),
    }
}

async fn collect(mut body: Body, limit: usize, share: &mut Share) -> Result<Bytes, Refusal> {
    // The lower bound is exact for HTTP/1.1 with a Content-Length, which API servers send.
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(Refusal::TooLarge);
    }
    share.announce(announced);
    let mut first: Option<Bytes> = None;
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::Broken)?.into_data() else {
            continue;
        };
        let length = first
            .as_ref()
            .map_or(whole.len(), Bytes::len)
            .saturating_add(data.len());
        if length > limit {
            return Err(Refusal::TooLarge);
        }
        // A small body arrives as one frame and is returned without a copy. A second frame requires
        // a copy.
        if whole.is_empty() && first.is_none() {
            if !share.grow_to(length) {
                return Err(Refusal::Busy);
            }
            first = Some(data);
            continue;
        }
        // The buffer doubles up to the announced length, so its size is at most twice what has
        // arrived. All of it is charged.
        if whole.capacity() < length {
            let end = if announced == 0 { limit } else { announced.max(length) };
            let capacity = length.saturating_mul(2).min(end);
            if !share.grow_to(capacity) {
                return Err(Refusal::Busy);
            }
            whole.reserve_exact(capacity - whole.len());
        }
        if let Some(first) = first.take() {
            whole.extend_from_slice(&first);
        }
        whole.extend_from_slice(&data);
    }
    Ok(first.unwrap_or_else(|| whole.into()))
}

/// A response body that holds its share of the budget until the client has taken it.
pub(super) struct Charged {
    data: Bytes,
    _share: Share,
}

impl Charged {
    /// Returns `None` if the budget does not allow the response.
    pub(super) fn new(data: Vec<u8>, mut share: Share) -> Option<Self> {
        share.grow_to(data.len()).then(|| Self {
            data: data.into(),
            _share: share,
        })
    }
}

impl HttpBody for Charged {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.data.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.data.len().min(RESPONSE_FRAME);
        Poll::Ready(Some(Ok(Frame::data(self.data.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.len() as u64)
    }
}

/// A body that keeps a guard until it is dropped, which is when the HTTP library has taken all of
/// it.
pub(super) struct Guarded<G> {
    pub(super) body: Body,
    pub(super) _guard: G,
}

impl<G: Send + Unpin + 'static> HttpBody for Guarded<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::limits::{Budget, SMALL_BODY};

    /// A body that announces its length, sends one byte, and never ends.
    struct Unfinished {
        byte: Option<Bytes>,
        announced: usize,
    }

    impl HttpBody for Unfinished {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.byte
                .take()
                .map_or(Poll::Pending, |byte| Poll::Ready(Some(Ok(Frame::data(byte)))))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.announced as u64)
        }
    }

    /// The end of a body of this length if only the reserve is left.
    async fn end(announced: usize) -> Result<Bytes, Refusal> {
        let budget = Budget::new(8 * SMALL_BODY);
        let mut others = budget.share();
        assert!(others.grow_to(6 * SMALL_BODY));
        let byte = Some(Bytes::from_static(b"{"));
        let body = Body::new(Unfinished { byte, announced });
        let deadline = Instant::now() + Duration::from_secs(1);
        read(body, 1 << 20, &mut budget.share(), deadline).await
    }

    #[tokio::test(start_paused = true)]
    async fn n10_the_first_bytes_of_a_large_body_do_not_use_the_reserve() {
        assert!(matches!(end(SMALL_BODY + 1).await, Err(Refusal::Busy)));
        assert!(
            matches!(end(SMALL_BODY).await, Err(Refusal::TooSlow)),
            "a small body may"
        );
    }
}

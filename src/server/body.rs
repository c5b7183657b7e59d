//! Reads the body of a review under three limits: its length, the bytes held over all reviews, and the deadline. A body
//! that says its length is refused before the first byte is held.

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::limits::Share;
use super::refusal::Refusal;

/// The body, in one piece.
pub(super) async fn read(body: Body, limit: usize, share: &mut Share, deadline: Instant) -> Result<Bytes, Refusal> {
    match timeout_at(deadline, collect(body, limit, share)).await {
        Ok(read) => read,
        Err(_elapsed) => Err(Refusal::TooSlow),
    }
}

async fn collect(mut body: Body, limit: usize, share: &mut Share) -> Result<Bytes, Refusal> {
    // What the sender says; exact for HTTP/1.1 with a Content-Length, which is what an API server sends.
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(Refusal::TooLarge);
    }
    if !share.grow_to(announced) {
        return Err(Refusal::Busy);
    }
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
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
        if !share.grow_to(length) {
            return Err(Refusal::Busy);
        }
        // A small body comes as one frame and is passed on as it is; the second frame makes a copy necessary.
        if whole.is_empty() && first.is_none() {
            first = Some(data);
            continue;
        }
        if let Some(first) = first.take() {
            whole.reserve(announced.max(length));
            whole.extend_from_slice(&first);
        }
        whole.extend_from_slice(&data);
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

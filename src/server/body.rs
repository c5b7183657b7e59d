//! Reads the body of a review under three limits: its size, the bytes of all reviews together, and
//! the deadline. A body with a Content-Length above the limit is refused before any byte is read.

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::limits::Share;
use super::refusal::Refusal;

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
        // A small body arrives as one frame and is returned without a copy. A second frame requires
        // a copy.
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

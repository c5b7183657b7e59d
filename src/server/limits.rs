//! The limits on time, connections, reviews and bytes. A request above a limit is refused at once;
//! it is never queued beyond the time for which the API server waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The size limit of a body. An API server accepts objects of up to 3 MiB, and a review carries the
/// object twice; 7 MiB is also the limit of controller-runtime's webhook server.
pub const BODY_LIMIT: usize = 7 << 20;

/// All limits of the server. [`Limits::default`] holds the values for a cluster.
#[derive(Clone, Debug)]
pub struct Limits {
    /// From the accepted connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request head to its last.
    pub head: Duration,
    /// How long a connection may stay open without a request. It is longer than the 90 seconds
    /// after which an API server closes an idle connection: a side that closes an idle connection
    /// may lose a request that is on its way, and an API server does not repeat a POST.
    pub idle: Duration,
    /// From the end of the request head to the response. It must be shorter than the webhook's
    /// `timeoutSeconds`.
    pub deadline: Duration,
    /// Concurrent connections, including those in a TLS handshake.
    pub connections: usize,
    /// Concurrent reviews, including those with an incomplete body.
    pub reviews: usize,
    /// Bytes of the bodies of all reviews together.
    pub bodies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(5),
            idle: Duration::from_secs(150),
            deadline: Duration::from_secs(4),
            connections: 1024,
            reviews: 256,
            bodies: 64 << 20,
        }
    }
}

/// Limits the number of concurrent reviews.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    permits: Arc<Semaphore>,
}

impl Gate {
    pub(super) fn new(permits: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Returns a permit, or `None` if the limit is reached. It never waits.
    pub(super) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }
}

/// The bytes that all reviews together may hold.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: Arc<AtomicUsize>,
}

/// Bytes reserved in a [`Budget`]. They are returned when the share is dropped.
#[derive(Debug)]
pub(super) struct Share {
    left: Arc<AtomicUsize>,
    taken: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(bytes)),
        }
    }

    /// A share that holds no bytes yet.
    pub(super) fn share(&self) -> Share {
        Share {
            left: Arc::clone(&self.left),
            taken: 0,
        }
    }
}

impl Share {
    /// Grows the share to `bytes` in total if the budget allows it. A share never shrinks.
    pub(super) fn grow_to(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.taken).filter(|more| *more > 0) else {
            return true;
        };
        let taken = self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(more));
        if taken.is_ok() {
            self.taken = bytes;
        }
        taken.is_ok()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.left.fetch_add(self.taken, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Gate};

    #[test]
    fn a_budget_is_never_exceeded_and_gets_all_bytes_back() {
        let budget = Budget::new(100);
        let mut first = budget.share();
        let mut second = budget.share();
        assert!(first.grow_to(60));
        assert!(!second.grow_to(41));
        assert!(second.grow_to(40));
        assert!(!first.grow_to(61));
        drop(second);
        assert!(first.grow_to(100));
        assert!(first.grow_to(10), "a share that is already large enough does not grow");
        drop(first);
        assert!(budget.share().grow_to(100));
    }

    #[test]
    fn a_full_gate_refuses_at_once_and_admits_again_after_a_release() {
        let gate = Gate::new(1);
        let permit = gate.enter();
        assert!(permit.is_some());
        assert!(gate.enter().is_none());
        drop(permit);
        assert!(gate.enter().is_some());
    }
}

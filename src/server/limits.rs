//! How much the server takes on at once: time, connections, reviews, and bytes of bodies. Beyond that it answers at
//! once that it is busy; it never queues past the time when nobody waits for the answer any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest body that is read. The API server takes 3 MiB from a client, and a review carries the object twice; 7 MiB
/// is what the webhook servers of the ecosystem read.
pub const BODY_LIMIT: usize = 7 << 20;

/// Every limit of the server. [`Limits::default`] is what a cluster runs with.
#[derive(Clone, Debug)]
pub struct Limits {
    /// From the connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request's head to its last.
    pub head: Duration,
    /// How long a connection may stay without a request. Longer than the 90 seconds after which an API server closes
    /// one itself: whoever closes an idle connection may hit a request that is on its way, and a POST isn't repeated.
    pub idle: Duration,
    /// From the end of the head to the answer. Below the timeout with which the webhook is registered.
    pub deadline: Duration,
    /// Connections, including those that are still shaking hands.
    pub connections: usize,
    /// Reviews at once, including those whose body is still coming in.
    pub reviews: usize,
    /// Bytes of bodies held at once, over all reviews.
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

/// Lets so many reviews in and no more.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    places: Arc<Semaphore>,
}

impl Gate {
    pub(super) fn new(places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// A place, held until it is dropped; `None` when there is none, without waiting.
    pub(super) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }
}

/// The bytes that may be held at once.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: Arc<AtomicUsize>,
}

/// Bytes taken out of a [`Budget`], given back when dropped.
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

    /// A share of nothing yet.
    pub(super) fn share(&self) -> Share {
        Share {
            left: Arc::clone(&self.left),
            taken: 0,
        }
    }
}

impl Share {
    /// Grows to `bytes` in all, if there is that much. A share never shrinks.
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
    fn a_budget_is_never_overdrawn_and_gets_everything_back() {
        let budget = Budget::new(100);
        let mut first = budget.share();
        let mut second = budget.share();
        assert!(first.grow_to(60));
        assert!(!second.grow_to(41));
        assert!(second.grow_to(40));
        assert!(!first.grow_to(61));
        drop(second);
        assert!(first.grow_to(100));
        assert!(first.grow_to(10), "a share that is large enough needs nothing");
        drop(first);
        assert!(budget.share().grow_to(100));
    }

    #[test]
    fn a_gate_refuses_at_once_and_lets_in_again() {
        let gate = Gate::new(1);
        let place = gate.enter();
        assert!(place.is_some());
        assert!(gate.enter().is_none());
        drop(place);
        assert!(gate.enter().is_some());
    }
}

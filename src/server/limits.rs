//! The limits on time, connections, reviews and bytes. A request above a limit is refused at once;
//! it is never queued beyond the time for which the API server waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The size limit of a body. An API server accepts objects of up to 3 MiB, and a review carries the
/// object twice; 7 MiB is also the limit of controller-runtime's webhook server.
pub const BODY_LIMIT: usize = 7 << 20;
/// The size limit of a request head. The head of an API server's request has less than 2 KiB.
pub(super) const HEAD_LIMIT: usize = 16 << 10;
/// A body up to this size is small. Nearly all reviews are. A part of the byte budget and of the
/// judges is reserved for small bodies, so that large ones cannot displace them.
pub(super) const SMALL_BODY: usize = 256 << 10;

/// All limits of the server. [`Limits::default`] holds the values for a cluster.
#[derive(Clone, Debug)]
pub struct Limits {
    /// From the accepted connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request head to its last.
    pub head: Duration,
    /// How long a connection may stay open without a request. It is longer than the 90 seconds
    /// after which an API server closes an idle connection: a side that closes an idle connection
    /// may lose a request that was just sent, and an API server does not repeat a POST.
    pub idle: Duration,
    /// From the end of the request head to the response. It must be shorter than the webhook's
    /// `timeoutSeconds`.
    pub deadline: Duration,
    /// From the start of a response until the client has taken all of it.
    pub write: Duration,
    /// How long a new connection may stay open without a request while the server drains.
    pub grace: Duration,
    /// Concurrent connections, including those in a TLS handshake.
    pub connections: usize,
    /// Concurrent reviews, including those with an incomplete body.
    pub reviews: usize,
    /// Verdicts that are computed at the same time, each in its own thread. A quarter of them may
    /// be on bodies that are not small.
    pub judges: usize,
    /// Bytes of incomplete request heads, bodies and responses, over all connections. Bodies that
    /// are not small may use three quarters.
    pub bodies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(5),
            idle: Duration::from_secs(150),
            deadline: Duration::from_secs(4),
            write: Duration::from_secs(5),
            grace: Duration::from_secs(2),
            connections: 1024,
            reviews: 256,
            judges: 16,
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
            permits: semaphore(permits),
        }
    }

    /// Returns a permit, or `None` if the limit is reached. It never waits.
    pub(super) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }
}

fn semaphore(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS)))
}

/// Limits the number of verdicts that are computed at the same time.
#[derive(Clone, Debug)]
pub(super) struct Judges {
    all: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// The permit to compute one verdict. It is released when the computation ends, which may be after
/// the deadline of its review.
#[derive(Debug)]
pub(super) struct Judging {
    _permits: (Option<OwnedSemaphorePermit>, OwnedSemaphorePermit),
}

impl Judges {
    pub(super) fn new(judges: usize) -> Self {
        Self {
            all: semaphore(judges),
            large: semaphore(judges / 4),
        }
    }

    /// Waits for a permit for a body of this size. Returns `None` at the deadline.
    pub(super) async fn acquire(&self, body: usize, deadline: Instant) -> Option<Judging> {
        let large = if body > SMALL_BODY {
            Some(acquire(&self.large, deadline).await?)
        } else {
            None
        };
        Some(Judging {
            _permits: (large, acquire(&self.all, deadline).await?),
        })
    }
}

async fn acquire(semaphore: &Arc<Semaphore>, deadline: Instant) -> Option<OwnedSemaphorePermit> {
    let permit = timeout_at(deadline, Arc::clone(semaphore).acquire_owned()).await;
    permit.ok()?.ok()
}

/// The bytes that all connections together may hold.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: Arc<AtomicUsize>,
    /// Only shares of up to [`SMALL_BODY`] may use the last bytes.
    reserve: usize,
}

/// Bytes reserved in a [`Budget`]. They are returned when the share is dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Budget,
    taken: usize,
    /// The bytes that are expected in total.
    announced: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(bytes)),
            reserve: bytes / 4,
        }
    }

    /// A share that holds no bytes yet.
    pub(super) fn share(&self) -> Share {
        Share {
            budget: self.clone(),
            taken: 0,
            announced: 0,
        }
    }
}

impl Share {
    /// Records the bytes that are expected in total. They are not charged, but the first bytes of a
    /// body that will not be small must not use the reserve.
    pub(super) fn announce(&mut self, bytes: usize) {
        self.announced = bytes;
    }

    /// Grows the share to `bytes` in total if the budget allows it.
    pub(super) fn grow_to(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.taken).filter(|more| *more > 0) else {
            return true;
        };
        let is_small = bytes.max(self.announced) <= SMALL_BODY;
        let reserve = if is_small { 0 } else { self.budget.reserve };
        let take = |left: usize| left.checked_sub(more).filter(|left| *left >= reserve);
        let taken = self.budget.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        if taken.is_ok() {
            self.taken = bytes;
        }
        taken.is_ok()
    }

    /// The bytes that the share holds.
    pub(super) fn bytes(&self) -> usize {
        self.taken
    }

    /// Returns all bytes to the budget.
    pub(super) fn release(&mut self) {
        self.budget
            .left
            .fetch_add(std::mem::take(&mut self.taken), Ordering::AcqRel);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Gate, Judges, SMALL_BODY};
    use tokio::time::Instant;

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
    fn n4_large_shares_leave_a_quarter_of_the_budget_to_small_ones() {
        let budget = Budget::new(8 * SMALL_BODY);
        let mut large = budget.share();
        assert!(large.grow_to(6 * SMALL_BODY));
        assert!(!large.grow_to(6 * SMALL_BODY + 1));
        let (mut first, mut second) = (budget.share(), budget.share());
        assert!(first.grow_to(SMALL_BODY) && second.grow_to(SMALL_BODY));
        assert!(!budget.share().grow_to(1));
    }

    #[tokio::test(start_paused = true)]
    async fn n1_large_bodies_leave_judges_to_small_ones() {
        let judges = Judges::new(4);
        let soon = || Instant::now() + std::time::Duration::from_secs(1);
        let _large = judges.acquire(SMALL_BODY + 1, soon()).await.unwrap();
        assert!(judges.acquire(SMALL_BODY + 1, soon()).await.is_none());
        let small = [
            judges.acquire(1, soon()).await,
            judges.acquire(1, soon()).await,
            judges.acquire(1, soon()).await,
        ];
        assert!(small.iter().all(Option::is_some));
        assert!(judges.acquire(1, soon()).await.is_none());
        drop(small);
        assert!(judges.acquire(1, soon()).await.is_some());
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

//! The interface between the server and the code that gives verdicts. The server itself never reads
//! a review.

use capstan_core::admission::{Answer, LiveObjects, LiveReads, NoReview};
use futures::future::BoxFuture;

/// Gives the verdict on reviews. The server calls it in threads of their own, a limited number at
/// the same time. It computes and never waits.
pub trait Reviewer: Send + Sync + 'static {
    /// The paths of the webhooks, each starting with `/`.
    fn routes(&self) -> Vec<String>;

    /// Gives the verdict on the body of one request.
    ///
    /// # Errors
    ///
    /// The body is not an `AdmissionReview`, so there is no uid to respond to. For all other input,
    /// also for an object that cannot be read, the result is an [`Answer`].
    fn review(&self, route: &str, body: &[u8]) -> Result<Answer, NoReview>;

    /// Gives the verdict on the same body again, with the objects that its first answer asked for.
    ///
    /// # Errors
    ///
    /// As [`Reviewer::review`].
    fn review_with(&self, route: &str, body: &[u8], _live: LiveObjects) -> Result<Answer, NoReview> {
        self.review(route, body)
    }

    /// Reads objects from the API server. Unlike a review, it may wait. `None` if the reviewer has
    /// no API server, so that its first answer counts.
    fn read(&self, _reads: LiveReads) -> Option<BoxFuture<'static, LiveObjects>> {
        None
    }

    /// Whether the caches hold everything that the rules look up.
    ///
    /// # Errors
    ///
    /// What is missing, as text for `/readyz`.
    fn ready(&self) -> Result<(), String>;
}

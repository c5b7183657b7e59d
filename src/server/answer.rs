//! What the server asks for a verdict, and what it gets. The server never looks into a review itself.

use capstan_core::admission::{Answer, NoReview};

/// Judges reviews. Called on the runtime's own threads: it computes, it never waits.
pub trait Reviewer: Send + Sync + 'static {
    /// The paths that reviews are served on, each starting with `/`.
    fn routes(&self) -> Vec<String>;

    /// Judges the body of one request.
    ///
    /// # Errors
    ///
    /// The body is no `AdmissionReview`, so there is no uid to answer to. Everything else, also an object that can't be
    /// read, is an [`Answer`].
    fn review(&self, route: &str, body: &[u8]) -> Result<Answer, NoReview>;

    /// Whether everything that the rules look up has been read once.
    ///
    /// # Errors
    ///
    /// What is missing, for the person who reads `/readyz`.
    fn ready(&self) -> Result<(), String>;
}

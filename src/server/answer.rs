//! What the server asks for a verdict, and what it gets. The server never looks into a review itself.

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

/// A verdict, ready to be sent.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The `AdmissionReview` with its response, as JSON.
    pub body: Vec<u8>,
    /// What is logged and counted of it.
    pub record: Record,
}

/// What is logged and counted of a review: who, what and how it ended, and never the object.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The uid of the review.
    pub uid: String,
    /// The kind of the object, as `group/version, Kind` or short.
    pub kind: String,
    /// Empty for what is cluster-wide.
    pub namespace: String,
    /// Empty when the API server is to generate it.
    pub name: String,
    /// Who asked.
    pub user: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// Nothing is stored, whatever the verdict.
    pub dry_run: bool,
    /// The verdict.
    pub allowed: bool,
    /// The HTTP code inside the response; 200 when allowed.
    pub code: u16,
    /// The ids of the rules that denied.
    pub rules: Vec<String>,
    /// How many warnings the answer carries.
    pub warnings: usize,
}

/// The body is no review: answered with HTTP 400.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct NoReview {
    /// What is wrong with it.
    pub message: String,
}

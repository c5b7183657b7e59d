//! The stages of leaving: serving; leaving (not ready, still taking everything); draining (nothing new). Between the
//! first two and the third lies the time that load balancers need to look elsewhere.

use tokio_util::sync::CancellationToken;

/// Where the server is on its way out. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    leaving: CancellationToken,
    draining: CancellationToken,
}

impl Lifecycle {
    /// A server that has just started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the orderly end. Asking twice is harmless.
    pub fn leave(&self) {
        self.leaving.cancel();
    }

    /// Stops taking connections.
    pub(super) fn drain(&self) {
        self.leaving.cancel();
        self.draining.cancel();
    }

    /// Whether the end has begun.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_cancelled()
    }

    /// Until the end begins.
    pub async fn leaving(&self) {
        self.leaving.cancelled().await;
    }

    /// Until nothing new is taken.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }
}

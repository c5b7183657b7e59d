//! The stages of a shutdown: serving; shutting down (not ready, but still accepting connections);
//! draining (no new connections). The time between the last two lets load balancers remove the
//! server from their endpoints.

use tokio_util::sync::CancellationToken;

/// The stage that the server has reached. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    shutting_down: CancellationToken,
    draining: CancellationToken,
}

impl Lifecycle {
    /// The lifecycle of a server that has just started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the shutdown. Further calls have no effect.
    pub fn shut_down(&self) {
        self.shutting_down.cancel();
    }

    /// Stops accepting connections.
    pub(super) fn drain(&self) {
        self.shutting_down.cancel();
        self.draining.cancel();
    }

    /// Whether the shutdown has started.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.is_cancelled()
    }

    /// Waits until the shutdown starts.
    pub async fn shutting_down(&self) {
        self.shutting_down.cancelled().await;
    }

    /// Waits until the server stops accepting connections.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }
}

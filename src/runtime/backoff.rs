//! Delays between attempts: they grow up to a limit, and differ between processes so that replicas
//! do not retry at the same time.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// Delays between the attempts of one task.
#[derive(Debug)]
pub struct Backoff(backon::ExponentialBackoff);

impl Default for Backoff {
    fn default() -> Self {
        Self(Self::growing().with_jitter().build())
    }
}

impl Backoff {
    /// The longest delay.
    pub const LONGEST: Duration = Duration::from_secs(30);

    /// The same delays in every process, for a simulation.
    pub fn without_jitter() -> Self {
        Self(Self::growing().build())
    }

    fn growing() -> ExponentialBuilder {
        ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Self::LONGEST)
            .with_max_times(10)
    }

    /// Starts again with the shortest delay.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// The next delay; [`LONGEST`](Self::LONGEST) once they no longer grow.
    pub fn next_delay(&mut self) -> Duration {
        self.0.next().unwrap_or(Self::LONGEST)
    }

    /// Waits for the next delay. Returns whether the delays still grow.
    pub async fn wait(&mut self) -> bool {
        let next = self.0.next();
        tokio::time::sleep(next.unwrap_or(Self::LONGEST)).await;
        next.is_some()
    }
}

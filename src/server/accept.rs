//! Accepts connections up to the limit and serves each in its own task, so that a slow handshake or
//! request head does not delay other connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use super::connection::{self, Shared};
use super::connection_activity::OpenConnections;

/// The pause after an error that does not concern a single connection, such as a lack of file
/// descriptors, and between two attempts to get a connection slot.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the server drains. The tasks of the connections run on in `tasks`.
///
/// At the end, it accepts the connections in the kernel's queue, which closing the listener would
/// reset although their clients have connected.
pub(super) async fn run(listener: TcpListener, shared: Shared, tasks: TaskTracker) {
    let slots = Arc::new(Semaphore::new(shared.limits.connections.min(Semaphore::MAX_PERMITS)));
    let connections = Arc::new(OpenConnections::default());
    let lifecycle = shared.lifecycle.clone();
    let accept = async {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _peer)) => stream,
                Err(error) => {
                    if !concerns_one_connection(&error) {
                        tracing::warn!(%error, "accepting connections failed; retrying");
                        tokio::time::sleep(PAUSE).await;
                    }
                    continue;
                }
            };
            let Some(slot) = acquire_slot(&slots, &connections).await else {
                return;
            };
            spawn(stream, slot, &connections, &shared, &tasks);
        }
    };
    tokio::select! {
        () = accept => {}
        () = lifecycle.draining() => {}
    }
    let Ok(listener) = listener.into_std() else { return };
    while let Ok((stream, _peer)) = listener.accept() {
        // While the queue is emptied, no connection is evicted or waited for.
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            return;
        };
        if stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            spawn(stream, slot, &connections, &shared, &tasks);
        }
    }
}

fn spawn(
    stream: TcpStream,
    slot: OwnedSemaphorePermit,
    connections: &Arc<OpenConnections>,
    shared: &Shared,
    tasks: &TaskTracker,
) {
    let entry = connections.open();
    let shared = shared.clone();
    tasks.spawn(async move {
        // The metric does not count connections to the health port, which has no TLS.
        let counted = shared.tls.is_some().then(|| Counted::new(&shared.metrics.connections));
        connection::serve(stream, Arc::clone(&entry.activity), shared).await;
        drop((counted, entry, slot));
    });
}

/// Counts a connection in the gauge until it is dropped.
struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Returns a slot for one connection. If no slot is free, the connection that has been idle for the
/// longest time is evicted. While all connections are busy, new ones wait in the kernel's queue.
async fn acquire_slot(slots: &Arc<Semaphore>, connections: &OpenConnections) -> Option<OwnedSemaphorePermit> {
    loop {
        if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
            return Some(slot);
        }
        connections.evict_idlest();
        // No slot is released if all connections were busy, or if a request reached the evicted
        // connection first. The loop then tries again.
        if let Ok(slot) = tokio::time::timeout(PAUSE, Arc::clone(slots).acquire_owned()).await {
            return slot.ok();
        }
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use prometheus_client::registry::Registry;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::task::TaskTracker;

    use super::super::limits::{Budget, Limits};
    use super::super::metrics::Metrics;
    use super::{Arc, Shared, run};
    use crate::server::Lifecycle;

    fn draining() -> Shared {
        let lifecycle = Lifecycle::new();
        lifecycle.drain();
        Shared {
            router: Router::new(),
            tls: None,
            limits: Arc::new(Limits::default()),
            budget: Budget::new(1 << 20),
            lifecycle,
            metrics: Arc::new(Metrics::register(&mut Registry::default())),
        }
    }

    /// `run` takes the connections before or after it notices the drain. The order is random, so
    /// the test repeats it.
    #[tokio::test]
    async fn n6_connections_in_the_queue_of_the_kernel_are_served_when_the_server_drains() {
        for _ in 0..32 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut queued = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            run(listener, draining(), TaskTracker::new()).await;
            queued.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut response = String::new();
            queued.read_to_string(&mut response).await.unwrap();
            assert!(response.starts_with("HTTP/1.1 404"), "{response:?}");
        }
    }
}

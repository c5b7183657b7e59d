//! Takes connections, as many as there may be, and gives each a task of its own, so that no handshake and no head holds
//! up another.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use super::connection::{self, Shared};
use super::pace::Paces;

/// After an error that is not about one connection, such as having no file descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts until the server drains. The connections go on in `tasks`.
pub(super) async fn run(listener: TcpListener, shared: Shared, tasks: TaskTracker) {
    let places = Arc::new(Semaphore::new(shared.limits.connections.min(Semaphore::MAX_PERMITS)));
    let paces = Arc::new(Paces::default());
    let lifecycle = shared.lifecycle.clone();
    let accept = async {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _peer)) => stream,
                Err(error) => {
                    if !about_one_connection(&error) {
                        tracing::warn!(%error, "connections cannot be accepted");
                        tokio::time::sleep(PAUSE).await;
                    }
                    continue;
                }
            };
            let Some(place) = place(&places, &paces).await else {
                return;
            };
            spawn(stream, place, &paces, &shared, &tasks);
        }
    };
    tokio::select! {
        () = accept => {}
        () = lifecycle.draining() => {}
    }
}

fn spawn(stream: TcpStream, place: OwnedSemaphorePermit, paces: &Arc<Paces>, shared: &Shared, tasks: &TaskTracker) {
    let entry = paces.open();
    let shared = shared.clone();
    tasks.spawn(async move {
        // Those of the health port are not counted.
        let counted = shared.tls.is_some().then(|| Counted::new(&shared.metrics.connections));
        connection::serve(stream, Arc::clone(&entry.pace), shared).await;
        drop((counted, entry, place));
    });
}

/// Counts a connection, however it ends.
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

/// A place for one connection: a free one, or that of the connection that has been idle for the longest time. While all
/// are busy, newcomers wait in the kernel's queue.
async fn place(places: &Arc<Semaphore>, paces: &Paces) -> Option<OwnedSemaphorePermit> {
    loop {
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Some(place);
        }
        paces.make_room();
        // All were busy, or the one that was asked got a request first: ask again.
        if let Ok(place) = tokio::time::timeout(PAUSE, Arc::clone(places).acquire_owned()).await {
            return place.ok();
        }
    }
}

fn about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

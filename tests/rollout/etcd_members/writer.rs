//! Clients that write keys one after the other, and count the writes that etcd acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use capstan_sandbox::control_plane::wait_until;
use tokio::task::JoinHandle;

use super::nodes::{Nodes, key_prefix};

const CLIENTS: usize = 16;

/// The clients.
pub(super) struct Writer {
    acknowledged: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
    clients: Vec<JoinHandle<u64>>,
}

impl Writer {
    pub(super) fn start(nodes: &Arc<Nodes>) -> Self {
        let (acknowledged, stops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let clients = (0..CLIENTS).map(|client| {
            let (nodes, acknowledged, stops) = (Arc::clone(nodes), Arc::clone(&acknowledged), Arc::clone(&stops));
            tokio::spawn(write(client, nodes, acknowledged, stops))
        });
        Self {
            clients: clients.collect(),
            acknowledged,
            stops,
        }
    }

    /// Waits until so many writes are acknowledged.
    pub(super) async fn reach(&self, writes: u64) {
        let deadline = Duration::from_secs(900);
        wait_until("the writes", deadline, async || {
            let done = self.acknowledged.load(Ordering::Relaxed);
            anyhow::ensure!(done >= writes, "{done} of {writes} writes are acknowledged");
            Ok(Some(()))
        })
        .await
        .unwrap();
    }

    /// Stops the clients. Returns how many writes of each are acknowledged; none is open.
    pub(super) async fn stop(self) -> Vec<u64> {
        self.stops.store(true, Ordering::Relaxed);
        let mut written = Vec::new();
        for client in self.clients {
            written.push(client.await.unwrap());
        }
        written
    }
}

/// Writes the next key until it is acknowledged by a member.
async fn write(client: usize, nodes: Arc<Nodes>, acknowledged: Arc<AtomicU64>, stops: Arc<AtomicBool>) -> u64 {
    let prefix = key_prefix(client);
    let (mut number, mut attempt) = (0, client);
    while !stops.load(Ordering::Relaxed) {
        loop {
            let put = match nodes.any(attempt) {
                Some(member) => member.put(format!("{prefix}{number}")).await,
                None => Err(anyhow::anyhow!("no member runs")),
            };
            if put.is_ok() {
                break;
            }
            attempt += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        number += 1;
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    number
}

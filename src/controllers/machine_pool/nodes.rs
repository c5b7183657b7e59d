//! The Nodes of a managed cluster, without what no decision needs.
//!
//! Nodes that cannot be read are unknown. They never count as absent.

use std::sync::Arc;
use std::time::Duration;

use capstan_core::api::core_v1::node::Node;
use capstan_core::api::kinds::NODES;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::time::Instant;

use crate::workload::{ClusterReader, ManagedCluster};

/// For how long Nodes that were read are used again.
const AGE: Duration = Duration::from_secs(10);

/// What is known of the Nodes of a cluster.
#[derive(Clone, Debug)]
pub(super) struct KnownNodes {
    /// The Nodes; `None` if they cannot be read.
    pub(super) nodes: Option<Vec<Arc<Node>>>,
    at: Instant,
}

impl KnownNodes {
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        now.duration_since(self.at) < AGE
    }
}

/// Reads the Nodes.
pub(super) async fn read<W: ClusterReader>(managed: &W, cluster: &ManagedCluster, now: Instant) -> KnownNodes {
    let nodes = match managed.list::<SlimNode>(cluster, &NODES, "", "").await {
        Ok(nodes) => Some(nodes.into_iter().map(|node| Arc::new(node.0)).collect()),
        Err(error) => {
            tracing::warn!(%error, %cluster, "the Nodes cannot be read");
            None
        }
    };
    KnownNodes { nodes, at: now }
}

/// A Node without its images, its heartbeats, and its managed fields. A thousand Nodes have
/// megabytes of them.
#[derive(Debug)]
struct SlimNode(Node);

impl<'de> Deserialize<'de> for SlimNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        if let Some(status) = value.get_mut("status").and_then(Value::as_object_mut) {
            status.retain(|field, _| field == "conditions" || field == "nodeInfo");
            let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
            for condition in conditions.into_iter().flatten() {
                if let Some(condition) = condition.as_object_mut() {
                    condition.remove("lastHeartbeatTime");
                }
            }
        }
        Node::deserialize(value).map(Self).map_err(serde::de::Error::custom)
    }
}

//! The wire types that caches keep, and the fields that caches drop because no reader needs them.

use serde_json::Value;

use super::cluster_x_k8s_io::control_plane as cluster_api;
use super::cluster_x_k8s_io::machine_pool::MachinePool;
use super::config_openshift_io::cluster_operator::ClusterOperator;
use super::config_openshift_io::feature_gate::FeatureGate;
use super::config_openshift_io::infrastructure::Infrastructure;
use super::core_v1::config_map::ConfigMap;
use super::core_v1::node::Node;
use super::infrastructure_cluster_x_k8s_io as infrastructure;
use super::machine_openshift_io::control_plane::ControlPlane;
use super::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use super::machine_openshift_io::machine::Machine;
use super::machine_openshift_io::machine_health_check::MachineHealthCheck;
use super::machine_openshift_io::machine_set::MachineSet;
use super::meta::ObjectMeta;
use super::objects::CachedObject;

macro_rules! cached {
    ($($type:ty),*) => {$(
        impl CachedObject for $type {
            fn metadata(&self) -> Option<&ObjectMeta> {
                Some(&self.metadata)
            }
        }
    )*};
}

cached!(
    Machine,
    MachineSet,
    MachineHealthCheck,
    ControlPlaneMachineSet,
    ControlPlane,
    Infrastructure,
    FeatureGate,
    ClusterOperator,
    ConfigMap,
    MachinePool,
    cluster_api::Cluster,
    cluster_api::Machine,
    infrastructure::Infrastructure
);

impl CachedObject for Node {
    fn metadata(&self) -> Option<&ObjectMeta> {
        Some(&self.metadata)
    }

    /// Drops the fields that change with every heartbeat of the kubelet, and the resource version:
    /// Capstan never writes a Node.
    fn slim(object: &mut Value) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else {
            return;
        };
        status.retain(|field, _| field == "conditions" || field == "addresses");
        let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            if let Some(condition) = condition.as_object_mut() {
                condition.remove("lastHeartbeatTime");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_heartbeat_does_not_change_a_cached_node() {
        let node = |heartbeat: &str, version: &str| -> Node {
            let mut node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "a", "resourceVersion": version},
                "status": {"images": [{"names": ["x"]}], "conditions": [
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]},
            });
            Node::slim(&mut node);
            serde_json::from_value(node).unwrap()
        };
        let (first, second) = (node("2026-01-01T00:00:00Z", "1"), node("2026-01-01T00:00:10Z", "2"));
        assert_eq!(first, second);
        assert!(first.is_ready());
        assert!(first.status.unknown_fields.is_empty());
    }
}

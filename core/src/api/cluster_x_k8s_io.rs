//! Cluster API: `cluster.x-k8s.io`, version `v1beta2` (decision 2).
//!
//! Capstan reads the fields that it needs and keeps all others. It does not install these CRDs.

pub mod cluster;
pub mod control_plane;
pub mod machine;
pub mod machine_health_check;
pub mod machine_pool;
pub mod machine_set;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
use crate::model::is_label_value;

/// The API group.
pub const GROUP: &str = "cluster.x-k8s.io";
/// Group and version of all kinds of this group.
pub const API_VERSION: &str = "cluster.x-k8s.io/v1beta2";
/// The version.
pub const VERSION: &str = "v1beta2";
/// The namespace in which OpenShift stores the objects of Cluster API.
pub const NAMESPACE: &str = "openshift-cluster-api";

/// Annotations that Cluster API reads.
pub mod annotation {
    /// While an object has this annotation, with any value, the controllers of Cluster API ignore
    /// it.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// On a Machine: it is deleted first when a controller deletes a machine.
    pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
    /// On a Machine: a health check reports it as unhealthy, so that it is remediated.
    pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";
    /// On a KubeadmConfig: when the certificate of the API server of its machine expires.
    pub const CERTIFICATES_EXPIRY: &str = "machine.cluster.x-k8s.io/certificates-expiry";
    /// On an infrastructure machine: the name of its template.
    pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";
    /// On an infrastructure machine: the kind and the group of its template, as `Kind.group`.
    pub const CLONED_FROM_GROUP_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";
    /// On a Cluster: the version that an upgrade over several minor versions installs now.
    pub const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";
    /// On a MachinePool: something outside of the cluster sets the number of instances.
    pub const REPLICAS_MANAGED_BY: &str = "cluster.x-k8s.io/replicas-managed-by";
    /// On a Node: the name of the Cluster that it belongs to.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// On a Node: the namespace of the Cluster.
    pub const CLUSTER_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";
    /// On a Node: the kind of the object that manages its Machine.
    pub const OWNER_KIND: &str = "cluster.x-k8s.io/owner-kind";
    /// On a Node: the name of the object that manages its Machine.
    pub const OWNER_NAME: &str = "cluster.x-k8s.io/owner-name";
    /// On a pool of machines: the least number of replicas that the cluster autoscaler sets.
    pub const AUTOSCALER_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    /// On a pool of machines: the greatest number of replicas that the cluster autoscaler sets.
    pub const AUTOSCALER_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    /// The prefix of hooks that delay the deletion of a Machine after its node is drained.
    pub const PRE_TERMINATE_PREFIX: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
}

/// Labels that Cluster API reads.
pub mod label {
    /// The Cluster that an object belongs to.
    pub const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
    /// Present on the machines of a control plane.
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    /// The name of the control plane that a machine belongs to.
    pub const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";
    /// The name of the MachinePool that an object belongs to.
    pub const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
}

/// A name as the value of a label. A name that is no label value, because it is too long, becomes
/// the hash that Cluster API computes (`util/labels/format`): FNV-1a of 32 bits in base64.
pub fn label_value(name: &str) -> String {
    const OFFSET: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    if is_label_value(name) {
        return name.to_owned();
    }
    let hash = name
        .bytes()
        .fold(OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME));
    format!("hash_{}_z", URL_SAFE_NO_PAD.encode(hash.to_be_bytes()))
}

/// A reference to an object without the version of its kind, as `v1beta2` stores it. The reader
/// looks the version up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContractReference {
    /// Group of the kind.
    #[serde(default)]
    pub api_group: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Name. The object is in the namespace of the object that has the reference.
    #[serde(default)]
    pub name: String,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

#[cfg(test)]
mod tests {
    use super::label_value;

    #[test]
    fn v63_a_name_that_is_too_long_for_a_label_has_the_hash_of_cluster_api() {
        assert_eq!(label_value("machineSetName"), "machineSetName");
        // The expected value is that of Cluster API's own test.
        assert_eq!(label_value(&"machineSetName".repeat(12)), "hash_FR_ghQ_z");
    }
}

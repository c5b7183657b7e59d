//! Cluster API: `cluster.x-k8s.io`, of which Capstan speaks `v1beta2` (decision 2).
//!
//! These kinds are Cluster API's; Capstan reads what it needs of them and carries the rest through.

pub mod cluster;
pub mod machine;
pub mod machine_health_check;
pub mod machine_set;

use serde::{Deserialize, Serialize};

use super::UnknownFields;

/// The API group.
pub const GROUP: &str = "cluster.x-k8s.io";
/// Group and version of all kinds of this group.
pub const API_VERSION: &str = "cluster.x-k8s.io/v1beta2";
/// The version.
pub const VERSION: &str = "v1beta2";
/// The namespace that OpenShift keeps Cluster API's objects in.
pub const NAMESPACE: &str = "openshift-cluster-api";

/// Annotations that Cluster API reads.
pub mod annotation {
    /// While it is there, whatever its value, Cluster API's controllers leave the object alone.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
}

/// Labels that Cluster API reads.
pub mod label {
    /// The Cluster that an object belongs to.
    pub const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
    /// Present on the machines of a control plane.
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
}

/// A reference to an object of a group of which the version is found out, as `v1beta2` writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContractReference {
    /// Group of the kind.
    #[serde(default)]
    pub api_group: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Name, in the namespace of whoever refers.
    #[serde(default)]
    pub name: String,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

//! The Machine API: `machine.openshift.io`.

pub mod authority;
pub mod control_plane;
pub mod control_plane_machine_set;
pub mod machine;
pub mod machine_health_check;
pub mod machine_set;

/// The API group.
pub const GROUP: &str = "machine.openshift.io";
/// The namespace of the objects of the Machine API.
pub const NAMESPACE: &str = "openshift-machine-api";

/// Labels that the Machine API reads.
pub mod label {
    /// The infrastructure name of the cluster that a machine belongs to.
    pub const CLUSTER: &str = "machine.openshift.io/cluster-api-cluster";
    /// The role of a machine: `master` or `worker`.
    pub const ROLE: &str = "machine.openshift.io/cluster-api-machine-role";
    /// The type of a machine: `master` or `worker`.
    pub const TYPE: &str = "machine.openshift.io/cluster-api-machine-type";
}

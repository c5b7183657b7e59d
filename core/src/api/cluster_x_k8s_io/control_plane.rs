//! `Cluster` and `Machine`, `cluster.x-k8s.io/v1beta2`, as the controller of a control plane reads
//! and writes them.
//!
//! The types of the sibling modules contain what the migration between the two APIs compares. These
//! contain also the status of a control plane.

use jiff::Timestamp;

use super::ContractReference;
use crate::api::meta::ObjectMeta;
use crate::api::wire::wire;

wire! {
    /// A Cluster.
    pub struct Cluster {
        /// Group and version.
        pub api_version: String,
        /// Kind.
        pub kind: String,
        /// Standard metadata.
        pub metadata: ObjectMeta,
        /// The desired state.
        pub spec: ClusterSpec,
        /// The observed state.
        pub status: ClusterStatus,
    }

    /// The desired state of a Cluster.
    pub struct ClusterSpec {
        /// While true, the controllers of Cluster API ignore all objects of this Cluster.
        pub paused: bool,
        /// The address of the API server.
        pub control_plane_endpoint: Endpoint,
        /// The control plane.
        pub control_plane_ref: ContractReference,
        /// The ClusterClass from which the Cluster is made, and its version.
        pub topology: Topology,
    }

    /// An address of an API server.
    pub struct Endpoint {
        /// The host.
        pub host: String,
        /// The port.
        pub port: i32,
    }

    /// How a Cluster is made from a ClusterClass.
    pub struct Topology {
        /// The version of Kubernetes; empty for a Cluster without a ClusterClass.
        pub version: String,
    }

    /// The observed state of a Cluster.
    pub struct ClusterStatus {
        /// Steps of the creation that are complete.
        pub initialization: ClusterInitialization,
        /// The failure domains of the infrastructure.
        pub failure_domains: Vec<FailureDomain>,
    }

    /// Steps of the creation of a Cluster that are complete.
    pub struct ClusterInitialization {
        /// Whether the shared infrastructure exists.
        pub infrastructure_provisioned: Option<bool>,
        /// Whether the API server of the first control plane machine has served once.
        pub control_plane_initialized: Option<bool>,
    }

    /// A failure domain.
    pub struct FailureDomain {
        /// The name.
        pub name: String,
        /// Whether control plane machines may be in it.
        pub control_plane: Option<bool>,
    }

    /// A Machine.
    pub struct Machine {
        /// Group and version.
        pub api_version: String,
        /// Kind.
        pub kind: String,
        /// Standard metadata.
        pub metadata: ObjectMeta,
        /// The desired state.
        pub spec: MachineSpec,
        /// The observed state.
        pub status: MachineStatus,
    }

    /// The desired state of a Machine.
    pub struct MachineSpec {
        /// The Cluster that the machine belongs to.
        pub cluster_name: String,
        /// The source of the data with which the machine boots.
        pub bootstrap: Bootstrap,
        /// The infrastructure object of the machine.
        pub infrastructure_ref: ContractReference,
        /// The version of Kubernetes, with a leading `v`.
        pub version: String,
        /// The id of the instance on its platform; empty while the instance does not exist.
        #[serde(rename = "providerID")]
        pub provider_id: String,
        /// The failure domain; empty for none.
        pub failure_domain: String,
        /// Additional conditions of a ready machine.
        pub readiness_gates: Vec<serde_json::Value>,
    }

    /// The source of the data with which a machine boots.
    pub struct Bootstrap {
        /// The object that generates the data.
        pub config_ref: ContractReference,
    }

    /// The observed state of a Machine.
    pub struct MachineStatus {
        /// The Node of the machine; the name is empty while there is no Node.
        pub node_ref: NodeRef,
        /// Conditions.
        pub conditions: Vec<MachineCondition>,
        /// When the first certificate of the machine expires.
        pub certificates_expiry_date: Option<Timestamp>,
        /// `Pending`, `Provisioning`, `Provisioned`, `Running`, `Deleting`, `Failed` and others.
        pub phase: String,
    }

    /// A reference to a Node.
    pub struct NodeRef {
        /// The name.
        pub name: String,
    }

    /// A condition of a Machine. All fields are optional, so that a file may contain the type and
    /// the status alone.
    pub struct MachineCondition {
        /// The observation, in CamelCase.
        #[serde(rename = "type")]
        pub type_: String,
        /// `True`, `False` or `Unknown`.
        pub status: String,
        /// The reason, in CamelCase.
        pub reason: String,
        /// The explanation for users.
        pub message: String,
        /// When `status` last changed.
        pub last_transition_time: Option<Timestamp>,
    }
}

//! `MachinePool`, `cluster.x-k8s.io/v1beta2`: machines that the infrastructure manages as a group.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ContractReference;
use super::control_plane::Bootstrap;
use crate::api::meta::ObjectMeta;
use crate::api::wire::wire;

/// Kind.
pub const KIND: &str = "MachinePool";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "machinepools";

wire! {
    /// A MachinePool.
    pub struct MachinePool {
        /// Group and version.
        pub api_version: String,
        /// Kind.
        pub kind: String,
        /// Standard metadata.
        pub metadata: ObjectMeta,
        /// The pool that is wanted.
        pub spec: Spec,
        /// The observed state.
        pub status: Status,
    }

    /// The pool that is wanted.
    pub struct Spec {
        /// The Cluster that the pool belongs to.
        pub cluster_name: String,
        /// The number of instances; absent for 1.
        pub replicas: Option<i32>,
        /// The machines of the pool.
        pub template: Template,
        /// The provider IDs of the instances. A controller writes them.
        #[serde(rename = "providerIDList")]
        pub provider_id_list: Vec<String>,
    }

    /// The observed state of a pool.
    pub struct Status {
        /// The Nodes of the instances.
        pub node_refs: Vec<NodeRef>,
    }

    /// A reference to a Node.
    pub struct NodeRef {
        /// The name.
        pub name: String,
        /// The UID.
        pub uid: String,
    }

    /// The machines of the pool.
    pub struct Template {
        /// Labels and annotations.
        pub metadata: TemplateMeta,
        /// What the machines are.
        pub spec: TemplateSpec,
    }

    /// Labels and annotations.
    pub struct TemplateMeta {
        /// Labels.
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        pub annotations: BTreeMap<String, String>,
    }

    /// What the machines of a pool are.
    pub struct TemplateSpec {
        /// The Cluster, again.
        pub cluster_name: String,
        /// The source of the data with which the machines boot.
        pub bootstrap: Bootstrap,
        /// The infrastructure object of the pool.
        pub infrastructure_ref: ContractReference,
        /// The version of Kubernetes, with a leading `v`; empty if the provider chooses it.
        pub version: String,
        /// The failure domain; empty for none.
        pub failure_domain: String,
        /// For so many seconds a Node must have been ready before its machine is available.
        pub min_ready_seconds: Option<i32>,
        /// Additional conditions of a ready machine.
        pub readiness_gates: Vec<Value>,
        /// Timeouts of a deletion.
        pub deletion: Value,
        /// Taints of the Nodes.
        pub taints: Vec<Value>,
    }
}

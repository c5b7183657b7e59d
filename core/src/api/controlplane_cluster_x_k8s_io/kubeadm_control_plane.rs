//! `KubeadmControlPlane`, `controlplane.cluster.x-k8s.io/v1beta2`: the control plane of a cluster
//! that kubeadm makes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::KubeadmConfigSpec;
use crate::api::cluster_x_k8s_io::ContractReference;
use crate::api::meta::{Condition, ObjectMeta};
use crate::api::wire::wire;

/// The kind.
pub const KIND: &str = "KubeadmControlPlane";
/// The lower-case plural, as it is in a URL.
pub const PLURAL: &str = "kubeadmcontrolplanes";
/// The only type of a rollout strategy.
pub const ROLLING_UPDATE: &str = "RollingUpdate";

/// A number, or a text that contains one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be a number of 32 bits, or a text")]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A text.
    Text(String),
}

impl IntOrString {
    /// The number; `None` for a text that is no number.
    pub fn number(&self) -> Option<i32> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

wire! {
    /// A KubeadmControlPlane.
    pub struct KubeadmControlPlane {
        /// Group and version.
        pub api_version: String,
        /// Kind.
        pub kind: String,
        /// Standard metadata.
        pub metadata: ObjectMeta,
        /// The control plane that is wanted.
        pub spec: Spec,
        /// The control plane as the controller last observed it.
        pub status: Status,
    }

    /// The control plane that is wanted. In a KubeadmControlPlaneTemplate, without `replicas`,
    /// `version` and the reference to infrastructure.
    pub struct Spec {
        /// The number of machines.
        pub replicas: Option<i32>,
        /// The version of Kubernetes, with a leading `v`.
        pub version: String,
        /// The machines.
        pub machine_template: MachineTemplate,
        /// The configuration of kubeadm.
        pub kubeadm_config_spec: KubeadmConfigSpec,
        /// When and how machines are replaced.
        pub rollout: Rollout,
        /// When unhealthy machines are replaced.
        pub remediation: Remediation,
        /// The names of machines.
        pub machine_naming: MachineNaming,
    }

    /// The machines of a control plane.
    pub struct MachineTemplate {
        /// Labels and annotations of the machines.
        pub metadata: TemplateMeta,
        /// The spec of the machines.
        pub spec: MachineTemplateSpec,
    }

    /// Labels and annotations in a template.
    pub struct TemplateMeta {
        /// Labels.
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        pub annotations: BTreeMap<String, String>,
    }

    /// The spec of the machines.
    pub struct MachineTemplateSpec {
        /// The template of the infrastructure, in the namespace of the control plane.
        pub infrastructure_ref: ContractReference,
        /// Additional conditions of a ready machine.
        pub readiness_gates: Vec<serde_json::Value>,
        /// Timeouts of a deletion.
        pub deletion: Deletion,
        /// Taints of the nodes.
        pub taints: Vec<MachineTaint>,
    }

    /// Timeouts of the deletion of a machine, in seconds.
    pub struct Deletion {
        /// How long a node is drained; 0 for no limit.
        pub node_drain_timeout_seconds: Option<i32>,
        /// How long the controller waits for volumes; 0 for no limit.
        pub node_volume_detach_timeout_seconds: Option<i32>,
        /// How long the controller tries to delete the Node; 0 for no limit.
        pub node_deletion_timeout_seconds: Option<i32>,
    }

    /// A taint of a node.
    pub struct MachineTaint {
        /// The key.
        pub key: String,
        /// The value.
        pub value: String,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        pub effect: String,
        /// `Always` or `OnInitialization`.
        pub propagation: String,
    }

    /// When and how machines are replaced.
    pub struct Rollout {
        /// What makes a rollout start in time.
        pub before: RolloutBefore,
        /// Once this time is past, machines that are older than it are replaced.
        pub after: Option<Timestamp>,
        /// How machines are replaced.
        pub strategy: RolloutStrategy,
    }

    /// What makes a rollout start in time.
    pub struct RolloutBefore {
        /// Machines with a certificate that expires within so many days are replaced; 0 for never.
        pub certificates_expiry_days: i32,
    }

    /// How machines are replaced.
    pub struct RolloutStrategy {
        /// `RollingUpdate`.
        #[serde(rename = "type")]
        pub type_: String,
        /// The options of `RollingUpdate`.
        pub rolling_update: RollingUpdate,
    }

    /// The options of `RollingUpdate`.
    pub struct RollingUpdate {
        /// How many machines may exist in addition to `replicas`: 0 or 1.
        pub max_surge: Option<IntOrString>,
    }

    /// When unhealthy machines are replaced.
    pub struct Remediation {
        /// How often a replacement that fails is replaced in turn; absent for no limit.
        pub max_retry: Option<i32>,
        /// The least time between two tries, in seconds.
        pub retry_period_seconds: Option<i32>,
        /// After so many healthy seconds, a failure does not count as a retry.
        pub min_healthy_period_seconds: Option<i32>,
    }

    /// The names of machines.
    pub struct MachineNaming {
        /// A Go template.
        pub template: String,
    }

    /// The control plane as the controller last observed it.
    pub struct Status {
        /// Conditions.
        pub conditions: Vec<Condition>,
        /// What happened once.
        pub initialization: Initialization,
        /// The selector of the machines, as text.
        pub selector: String,
        /// The number of machines.
        pub replicas: Option<i32>,
        /// The number of ready machines.
        pub ready_replicas: Option<i32>,
        /// The number of available machines.
        pub available_replicas: Option<i32>,
        /// The number of machines that agree with the spec.
        pub up_to_date_replicas: Option<i32>,
        /// The generation that this status describes.
        pub observed_generation: Option<i64>,
    }

    /// What happened once.
    pub struct Initialization {
        /// Whether the first machine serves the API. It is never reset.
        pub control_plane_initialized: Option<bool>,
    }
}

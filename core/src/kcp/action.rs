//! The parts of a plan for a KubeadmControlPlane: the writes of a step, and the reasons to wait.
//!
//! Nothing here decides when a step is taken; see `plan`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::desired::Bootstrap;
use super::state::{MachineState, State};
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::KubeadmConfig;
use crate::api::cluster_x_k8s_io::control_plane::Machine;
use crate::api::kinds::{CLUSTER_API_MACHINES, KUBEADM_CONTROL_PLANES};
use crate::api::meta::ObjectMeta;
use crate::model::{self, Act, ObjectRef, Precondition};

/// The next steps for a control plane and its machines.
pub type Plan = model::Plan<Action, WaitReason>;
/// One write to the control plane, to a machine, or to etcd.
pub type Step = model::Step<Action>;
/// Something that the control plane waits for.
pub type Wait = model::Wait<WaitReason>;

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates a machine: the clone of the infrastructure template, the KubeadmConfig and the
    /// Machine, in this order and with the same name. Its derived name is the precondition.
    Create {
        /// The Machine.
        machine: Box<Machine>,
        /// The KubeadmConfig.
        config: Box<KubeadmConfig>,
        /// Whether the machine begins a control plane or joins one.
        bootstrap: Bootstrap,
    },
    /// Deletes a machine, with the precondition in the delete options.
    Delete {
        /// The failure domain of the machine; empty for none.
        failure_domain: String,
        /// The etcd member of the machine, which is removed before, if no hook delays the deletion.
        member: Option<String>,
        /// If the etcd member of the machine leads: the machines to which leadership is moved
        /// before, in the order in which they are tried. Otherwise empty.
        move_leader_to: Vec<String>,
    },
    /// Changes a machine with a JSON merge patch that has the precondition in its metadata.
    Patch(Value),
    /// Changes the control plane with such a patch.
    PatchControlPlane(Value),
    /// Removes an etcd member that has no machine. The name is empty for a member that has not
    /// started.
    RemoveMember {
        /// The name of the member.
        member: String,
    },
    /// Removes the etcd member of a machine that is being deleted, and then the hook that delayed
    /// the deletion.
    RemoveHook {
        /// The member to remove before; `None` if there is no member to remove.
        member: Option<String>,
        /// If that member leads: the machines to which leadership is moved before.
        move_leader_to: Vec<String>,
        /// The patch that removes the hook.
        patch: Value,
    },
}

impl Act for Action {
    fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Delete { .. } => "delete",
            Self::Patch(_) | Self::PatchControlPlane(_) => "patch",
            Self::RemoveMember { .. } => "remove-member",
            Self::RemoveHook { .. } => "remove-hook",
        }
    }

    fn is_disruptive(&self) -> bool {
        !matches!(self, Self::Patch(_) | Self::PatchControlPlane(_))
    }
}

impl Action {
    /// The etcd member that the step removes.
    pub fn member(&self) -> Option<&str> {
        match self {
            Self::RemoveMember { member } => Some(member),
            Self::RemoveHook { member, .. } | Self::Delete { member, .. } => member.as_deref(),
            _ => None,
        }
    }
}

impl Step {
    /// The name of the machine that is written; `None` if the step writes no machine.
    pub fn machine_of_control_plane(&self) -> Option<&str> {
        machine_name(&self.subject)
    }

    /// The failure domain of the machine that is created or deleted; `None` for none.
    pub fn domain(&self) -> Option<&str> {
        let domain = match &self.action {
            Action::Create { machine, .. } => &machine.spec.failure_domain,
            Action::Delete { failure_domain, .. } => failure_domain,
            _ => return None,
        };
        Some(domain.as_str()).filter(|domain| !domain.is_empty())
    }
}

/// The name of a machine, if the object is one.
pub(super) fn machine_name(object: &ObjectRef) -> Option<&str> {
    CLUSTER_API_MACHINES.is_kind_of(object).then_some(object.name.as_str())
}

/// The key of a machine.
pub(super) fn machine_ref(namespace: &str, name: &str) -> ObjectRef {
    CLUSTER_API_MACHINES.object(namespace, name)
}

/// A wait for a machine.
pub(super) fn about(state: &State, machine: &MachineState, reason: WaitReason, message: String) -> Wait {
    Wait {
        subject: Some(machine_ref(state.namespace(), machine.name())),
        ..Wait::new(reason, message)
    }
}

/// An object as it was read.
pub(super) fn precondition(metadata: &ObjectMeta) -> Precondition {
    Precondition {
        uid: metadata.uid().to_owned(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// The key of a control plane.
pub(super) fn control_plane_ref(namespace: &str, name: &str) -> ObjectRef {
    KUBEADM_CONTROL_PLANES.object(namespace, name)
}

/// The record of a remediation: an annotation of the control plane while the replacement does not
/// exist, and of the replacement afterwards. The format is that of Cluster API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemediationRecord {
    /// The unhealthy machine.
    #[serde(default)]
    pub machine: String,
    /// When its replacement began.
    #[serde(default)]
    pub timestamp: Option<Timestamp>,
    /// How many replacements of the first unhealthy machine became unhealthy too.
    #[serde(default)]
    pub retry_count: i64,
}

impl RemediationRecord {
    /// Reads an annotation.
    ///
    /// # Errors
    /// The annotation is not such a record.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The value of the annotation.
    pub fn text(&self) -> String {
        // Strings, numbers and times always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a control plane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// The Cluster must have its shared infrastructure and an endpoint.
    ClusterReady,
    /// The Cluster is upgraded to a version that the control plane does not have yet.
    VersionPropagated,
    /// The certificates of the cluster must exist.
    CertificatesAvailable,
    /// A machine that is being deleted must disappear.
    MachineRemoved,
    /// A machine must have a Node.
    MachineReady,
    /// The components of Kubernetes on a machine must be healthy.
    ControlPlaneHealthy,
    /// The etcd members must be healthy.
    EtcdHealthy,
    /// An unhealthy machine is replaced later.
    RemediationDeferred,
    /// An unhealthy machine cannot be replaced until a user acts.
    CannotBeRemediated,
    /// The replacement of an unhealthy machine must be created.
    Replacement,
    /// The workers of the cluster must be deleted.
    WorkersRemoved,
    /// The annotation that pauses the rollout must be removed.
    Pause,
    /// A machine that was requested may still be created.
    PendingCreation,
    /// The control plane that may have run before must be gone.
    EarlierControlPlaneGone,
}

impl WaitReason {
    /// Stable, in CamelCase: `for` in `capstan plan -o json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterReady => "ClusterReady",
            Self::VersionPropagated => "VersionPropagated",
            Self::CertificatesAvailable => "CertificatesAvailable",
            Self::MachineRemoved => "MachineRemoved",
            Self::MachineReady => "MachineReady",
            Self::ControlPlaneHealthy => "ControlPlaneHealthy",
            Self::EtcdHealthy => "EtcdHealthy",
            Self::RemediationDeferred => "RemediationDeferred",
            Self::CannotBeRemediated => "CannotBeRemediated",
            Self::Replacement => "Replacement",
            Self::WorkersRemoved => "WorkersRemoved",
            Self::Pause => "Pause",
            Self::PendingCreation => "PendingCreation",
            Self::EarlierControlPlaneGone => "EarlierControlPlaneGone",
        }
    }
}

//! The parts of a plan for a ControlPlaneMachineSet: the writes of a step, and the reasons to wait.
//!
//! Nothing here decides when a step is taken; see `plan`.

use serde_json::Value;

use super::domains::FailureDomain;
use super::indexes::INDEX;
use crate::api::kinds::{CONTROL_PLANE_MACHINE_SETS, MACHINES};
use crate::api::machine_openshift_io::machine::Machine;
use crate::model::{self, Act, ObjectRef, Precondition};

/// The next steps for a set and its machines.
pub type Plan = model::Plan<Action, WaitReason>;
/// One write to the set or to a machine.
pub type Step = model::Step<Action>;
/// Something that a rollout waits for.
pub type Wait = model::Wait<WaitReason>;

/// A write. The failure domain is the failure domain of the machine; `None` if it is unknown, or if
/// the set lists no failure domains.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates a machine. Its derived name is the precondition.
    Create {
        /// The whole machine.
        machine: Box<Machine>,
        /// The failure domain of the new machine.
        failure_domain: Option<FailureDomain>,
        /// Whether the index has no other machine, apart from machines that are being deleted.
        repairs: bool,
    },
    /// Deletes a machine, in the background, with the precondition in the delete options.
    Delete {
        /// The failure domain of the machine.
        failure_domain: Option<FailureDomain>,
    },
    /// Changes a machine in place.
    Patch {
        /// A JSON merge patch that carries the precondition in its metadata.
        patch: Value,
        /// The failure domain of the machine.
        failure_domain: Option<FailureDomain>,
    },
    /// Changes the set with a JSON merge patch that has the precondition in its metadata.
    PatchSet(Value),
    /// Changes or removes what the controller records in the set about creations, with such a
    /// patch. The controller records no event for it.
    Records(Value),
}

impl Act for Action {
    fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Delete { .. } => "delete",
            Self::Patch { .. } | Self::PatchSet(_) | Self::Records(_) => "patch",
        }
    }

    fn is_disruptive(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Delete { .. })
    }
}

impl Step {
    /// A step that changes the set.
    pub(crate) fn of_set(set: ObjectRef, action: Action, because: String, precondition: Precondition) -> Self {
        Self {
            action,
            subject: set,
            index: None,
            because,
            precondition: Some(precondition),
        }
    }

    /// The name of the machine that is written; `None` if the set is written.
    pub fn machine(&self) -> Option<&str> {
        machine_name(&self.subject)
    }

    /// Whether `next` is taken also if a rule of the API server refuses this step. The repair of an
    /// index waits for no other machine, except for its index. A rollout also waits until every
    /// machine has its owner.
    pub fn is_optional_before(&self, next: Option<&Self>) -> bool {
        let Action::Patch { patch, .. } = &self.action else {
            return false;
        };
        let adopts = patch.pointer("/metadata/ownerReferences").is_some();
        let annotations = patch.pointer("/metadata/annotations");
        let records_index = annotations.is_some_and(|annotations| annotations.get(INDEX).is_some());
        !records_index && (!adopts || next.is_some_and(Self::repairs))
    }

    /// Whether the step creates a machine for an index that has none, or whose machines are all
    /// being deleted.
    fn repairs(&self) -> bool {
        matches!(self.action, Action::Create { repairs: true, .. })
    }

    /// The failure domain of the machine.
    pub fn failure_domain(&self) -> Option<&FailureDomain> {
        match &self.action {
            Action::Create { failure_domain, .. }
            | Action::Delete { failure_domain }
            | Action::Patch { failure_domain, .. } => failure_domain.as_ref(),
            Action::PatchSet(_) | Action::Records(_) => None,
        }
    }
}

impl Wait {
    /// The name of the machine that waits, or for which the rollout waits.
    pub fn machine(&self) -> Option<&str> {
        machine_name(self.subject.as_ref()?)
    }
}

fn machine_name(object: &ObjectRef) -> Option<&str> {
    MACHINES.is_kind_of(object).then_some(object.name.as_str())
}

/// The key of a machine.
pub(super) fn machine_ref(namespace: &str, name: &str) -> ObjectRef {
    MACHINES.object(namespace, name)
}

/// The key of a set.
pub(super) fn set_ref(namespace: &str, name: &str) -> ObjectRef {
    CONTROL_PLANE_MACHINE_SETS.object(namespace, name)
}

/// What a rollout waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// A new machine must become ready.
    MachineReady,
    /// The node of a machine that was ready before must become ready again.
    NodeReady,
    /// A ready machine must stay ready for the minimum time (`--min-ready`).
    MinReady,
    /// A machine that is being deleted must disappear.
    MachineRemoved,
    /// The etcd operator must report that all members are healthy.
    EtcdHealthy,
    /// The one machine more than replicas is in use for another index.
    SurgeFree,
    /// Another index must get its machine first.
    OtherIndex,
    /// Strategy OnDelete: a user must delete the machine.
    UserDelete,
    /// The annotation that pauses the rollout must be removed.
    Pause,
    /// The annotation that limits the rollout must be raised or removed.
    Limit,
    /// A node must be claimed by its machine.
    NodeClaimed,
}

impl WaitReason {
    /// Whether only a user ends the wait.
    pub fn is_of_user(self) -> bool {
        matches!(self, Self::UserDelete | Self::Pause | Self::Limit)
    }

    /// Stable, in CamelCase: a label of the metric, and `for` in `capstan plan -o json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::MachineReady => "MachineReady",
            Self::NodeReady => "NodeReady",
            Self::MinReady => "MinReady",
            Self::MachineRemoved => "MachineRemoved",
            Self::EtcdHealthy => "EtcdHealthy",
            Self::SurgeFree => "SurgeFree",
            Self::OtherIndex => "OtherIndex",
            Self::UserDelete => "UserDelete",
            Self::Pause => "Pause",
            Self::Limit => "Limit",
            Self::NodeClaimed => "NodeClaimed",
        }
    }
}

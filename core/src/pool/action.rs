//! The parts of a plan for a MachinePool: the writes of a step, and the reasons to wait.
//!
//! Nothing here decides when a step is taken; see `plan`.

use serde_json::Value;

use super::state::{Member, State};
use crate::api::cluster_x_k8s_io::control_plane::Machine;
use crate::api::kinds::CLUSTER_API_MACHINES;
use crate::model::{self, Act, ObjectRef, Precondition};

/// The next steps for a pool.
pub type Plan = model::Plan<Action, WaitReason>;
/// One write to a Machine of a pool, or to the objects of the pool.
pub type Step = model::Step<Action>;
/// Something that a pool waits for.
pub type Wait = model::Wait<WaitReason>;

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates the Machine of an instance that exists. Its name is that of the infrastructure
    /// machine, so that a repeated creation creates no second Machine.
    Create(Box<Machine>),
    /// Changes a Machine, the pool, or an object of the pool with a JSON merge patch that has the
    /// precondition in its metadata.
    Patch(Value),
    /// Deletes a Machine, and with it the instance, with the precondition in the delete options.
    Delete,
    /// Deletes the infrastructure or the bootstrap object of a pool that is being deleted.
    DeleteOwned,
    /// Deletes a Node of the cluster whose instance is gone. The precondition has the UID alone.
    DeleteNode,
}

impl Act for Action {
    fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Patch(_) => "patch",
            Self::Delete | Self::DeleteOwned | Self::DeleteNode => "delete",
        }
    }

    /// A new Machine represents an instance that exists, so that its creation disturbs nothing.
    fn is_disruptive(&self) -> bool {
        *self == Self::Delete
    }
}

/// The key of a Machine.
pub(super) fn machine_ref(namespace: &str, name: &str) -> ObjectRef {
    CLUSTER_API_MACHINES.object(namespace, name)
}

/// How much of a pool Capstan manages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The core manager of Cluster API creates the Machines, and Capstan does what it leaves out.
    #[default]
    Extend,
    /// Capstan creates the Machines, too. No core manager manages the pool.
    Own,
}

impl Mode {
    /// The name in the flag `--machinepools`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Extend => "extend",
            Self::Own => "own",
        }
    }
}

/// What must still be true of a Machine.
pub(super) fn precondition(machine: &Machine) -> Precondition {
    Precondition {
        uid: machine.metadata.uid().to_owned(),
        resource_version: machine.metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// The deletion of the Machine of a member; `None` if it has none.
pub(super) fn delete(state: &State, member: &Member, because: String) -> Option<Step> {
    let machine = member.machine.as_ref()?;
    Some(Step {
        action: Action::Delete,
        subject: machine_ref(state.namespace(), machine.metadata.name()),
        index: None,
        because,
        precondition: Some(precondition(machine)),
    })
}

pub(super) fn about(state: &State, member: &Member, reason: WaitReason, message: String) -> Wait {
    Wait {
        subject: Some(machine_ref(state.namespace(), &member.name)),
        ..Wait::new(reason, message)
    }
}

/// What a pool waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// The infrastructure object of the pool must exist.
    Infrastructure,
    /// The provider must delete single instances.
    ProviderSupport,
    /// The provider must create instances.
    Provider,
    /// The Nodes of the cluster must be readable.
    Nodes,
    /// A machine that is being deleted must disappear.
    MachineRemoved,
    /// A Node must be ready for long enough.
    MachineReady,
    /// A Machine that was deleted while its instance exists is created again later.
    CreationDeferred,
    /// An unhealthy machine is deleted later.
    RemediationDeferred,
    /// An outdated machine is deleted later.
    MaxUnavailable,
    /// A user must delete outdated machines.
    OnDelete,
}

impl WaitReason {
    /// Stable, in CamelCase: `for` in `capstan plan -o json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Infrastructure => "Infrastructure",
            Self::ProviderSupport => "ProviderSupport",
            Self::Provider => "Provider",
            Self::Nodes => "Nodes",
            Self::MachineRemoved => "MachineRemoved",
            Self::MachineReady => "MachineReady",
            Self::CreationDeferred => "CreationDeferred",
            Self::RemediationDeferred => "RemediationDeferred",
            Self::MaxUnavailable => "MaxUnavailable",
            Self::OnDelete => "OnDelete",
        }
    }
}

//! The parts of a plan for a ControlPlane: the writes, which are those of a ControlPlaneMachineSet,
//! and the reasons to wait.

use crate::cpms::action::Action;
use crate::model;

/// The next steps for the machines of a ControlPlane.
pub type Plan = model::Plan<Action, WaitReason>;
/// One write to a machine.
pub type Step = model::Step<Action>;
/// Something that a ControlPlane waits for.
pub type Wait = model::Wait<WaitReason>;

/// Marks the machine that is deleted once its replacement is a healthy member.
pub const REPLACED: &str = "capstan.dev/replaced";

/// What a ControlPlane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// The node of a machine must become ready.
    MachineReady,
    /// A machine that is being deleted must disappear.
    MachineRemoved,
    /// All etcd members must be healthy, as the etcd operator reports.
    EtcdHealthy,
    /// Each machine must have one etcd member: a member must start, or must be removed.
    EtcdMembers,
    /// The change would cost etcd its quorum.
    EtcdQuorum,
    /// A machine that was requested must appear, or its request must be over.
    MachineRequested,
    /// A user must acknowledge the replacement of the only machine.
    Acknowledgement,
}

impl WaitReason {
    /// Stable, in CamelCase.
    pub fn name(self) -> &'static str {
        match self {
            Self::MachineReady => "MachineReady",
            Self::MachineRemoved => "MachineRemoved",
            Self::EtcdHealthy => "EtcdHealthy",
            Self::EtcdMembers => "EtcdMembers",
            Self::EtcdQuorum => "EtcdQuorum",
            Self::MachineRequested => "MachineRequested",
            Self::Acknowledgement => "Acknowledgement",
        }
    }
}

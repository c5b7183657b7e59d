//! The acts of a schedule: actions of users, and faults of the cluster.

use capstan_core::model::Propagation;
use serde::{Deserialize, Serialize};

use crate::simulation::engine::schedule::Incident;

use super::vocabulary::{self, Word};

/// Something that a user does, or another controller in the name of a user. A machine is given by
/// its position among all machines, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UserAction {
    /// Changes the instance type of the template.
    EditTemplate,
    /// Lists so many failure domains.
    Domains(usize),
    /// Pauses the rollout, or resumes it.
    Pause(bool),
    /// Limits the rollout, or lifts the limit.
    Limit(bool),
    /// Deletes so many machines at once, from the first position on.
    Delete(usize, usize),
    /// Deletes the set.
    DeleteSet(#[serde(with = "vocabulary::propagation")] Propagation),
    /// Creates a set.
    CreateSet,
    /// Changes the strategy.
    Strategy(#[serde(deserialize_with = "vocabulary::known")] Word),
    /// Removes the lifecycle hook of the etcd operator from a machine.
    RemoveHook(usize),
    /// Removes a label that the set selects a machine by.
    Deselect(usize),
    /// Removes all owner references of a machine.
    Disown(usize),
    /// Writes an annotation of a machine that no controller reads.
    Touch(usize),
    /// Writes an annotation of the set that no controller reads.
    TouchSet,
    /// Activates the set.
    Activate,
    /// Tries what admission refuses: to deactivate the set, and to scale it.
    Forbidden,
    /// The machine health check deletes every machine whose node is not ready.
    Remediate,
    /// Changes the instance type of a machine. A generated set follows the newest machine.
    EditMachine(usize),
    /// Creates a machine of the template for the index of another one, as the
    /// ControlPlaneMachineSet operator does before Capstan replaces it.
    AddMachine(usize),
    /// Deletes the machine of an index without its finalizers, its node, and its instance.
    ForceDelete(u32),
    /// Changes a label of the template that no controller reads.
    EditLabels,
    /// Changes the image of the template. It starts no rollout.
    EditImage,
    /// Changes fields of the template as they were recorded on OpenShift: the number selects one
    /// part of the vocabulary, or a combination of two.
    EditFields(usize),
    /// Removes the mark of a generated set, so that the set stays as it is.
    Unmark,
}

/// Something that goes wrong around the controllers. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterFault {
    /// The node of a machine is not ready for a time.
    NodeDown(usize, i64),
    /// The instance of a machine vanishes, and its node.
    InstanceGone(usize),
    /// The next new machine has this fault.
    Machine(MachineFault),
    /// A control plane node without a machine exists for a time.
    Stranger(i64),
    /// The etcd operator reports a member that is not healthy for a time.
    EtcdSick(i64),
    /// No etcd learner is promoted for a time.
    Unpromoted(i64),
    /// The etcd operator reports nothing for a time.
    EtcdMute(i64),
    /// The webhook cannot be reached for a time.
    WebhookDown(i64),
    /// The webhook of another component refuses new machines and new labels for a time. This fault
    /// and the next one need [`Neighbours::webhooks`](super::neighbours::Neighbours::webhooks).
    Refusals(i64),
    /// The webhook of another component drops a field of new machines for a time.
    Drops(i64),
    /// There is a control plane node without a machine until a user removes it, as the condition
    /// `Degraded` advises.
    ForeignNode,
    /// The CRD of the set is exchanged: for one with the field `status.machines`, or for one
    /// without.
    Definition(bool),
}

/// What goes wrong with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachineFault {
    /// Its instance cannot be created.
    Fails,
    /// Its node never joins.
    NeverJoins,
    /// Its node never becomes ready.
    NeverReady,
    /// Each of its steps takes twenty minutes longer.
    Slow,
    /// Its node has another name.
    OtherName,
    /// Its instance never ends after its deletion.
    NeverEnds,
    /// It is reported as failed, and its instance starts nevertheless.
    Ghost,
    /// Its node is ready long before the status of the machine names it, and only the platform's
    /// id of the instance tells whose node it is.
    EarlyNode,
    /// The same, and the node has no id either until then.
    EarlyUnknownNode,
}

/// An act of the schedule.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Act {
    /// A user does something.
    User(UserAction),
    /// Something goes wrong.
    Fault(ClusterFault),
}

impl std::fmt::Debug for Act {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(action) => action.fmt(f),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

impl From<UserAction> for Incident<Act> {
    fn from(action: UserAction) -> Self {
        Self::Act(Act::User(action))
    }
}

impl From<ClusterFault> for Incident<Act> {
    fn from(fault: ClusterFault) -> Self {
        Self::Act(Act::Fault(fault))
    }
}

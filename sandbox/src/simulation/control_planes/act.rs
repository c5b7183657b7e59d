//! The acts of a schedule: actions of users, and faults of the cluster. A machine is given by its
//! position among all machines, in the order of their names. Times are in milliseconds.

use capstan_core::model::Propagation;

use crate::simulation::engine::schedule::Incident;

/// What goes wrong with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineFault {
    /// Its instance cannot be created.
    Fails,
    /// Its node never joins.
    NeverJoins,
    /// Its node never becomes ready.
    NeverReady,
    /// Each of its steps takes twenty minutes longer.
    Slow,
}

/// An act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A user sets the number of machines.
    Scale(u32),
    /// A user changes the instance type of the template.
    EditShape,
    /// A user changes the instance type and the number in one edit.
    EditBoth(u32),
    /// A user lists so many failure domains.
    Domains(usize),
    /// A user turns repairs on or off.
    Repairs(bool),
    /// A user accepts the replacement of the only machine.
    Acknowledge,
    /// A user deletes so many machines at once, from the first position on.
    Delete(usize, usize),
    /// A user lets the health check delete any number of machines.
    WeakenHealthCheck,
    /// A user deletes the health check.
    DeleteHealthCheck,
    /// A user deletes the ControlPlane.
    DeleteObject(Propagation),
    /// A user creates the ControlPlane with this number of machines.
    CreateObject(u32),
    /// A user removes a label of a machine.
    Deselect(usize),
    /// A user removes all owner references of a machine.
    Disown(usize),
    /// Another controller becomes the owner of a machine.
    Take(usize),
    /// A user removes the mark of a machine that is to be replaced.
    Unmark(usize),
    /// A user writes an annotation of a machine that no controller reads.
    Touch(usize),
    /// A user removes the hook of the etcd operator from a machine.
    RemoveHook(usize),
    /// The node of a machine is not ready for a time.
    NodeDown(usize, i64),
    /// The instance of a machine vanishes, and its node.
    InstanceGone(usize),
    /// No instance can be created in a failure domain, given by its position in the list of users,
    /// for a time.
    NoCapacity(usize, i64),
    /// The next new machine has this fault.
    Machine(MachineFault),
    /// The etcd member of a machine is not healthy for a time.
    MemberSick(usize, i64),
    /// No etcd learner is promoted for a time.
    Unpromoted(i64),
    /// The etcd operator reports nothing for a time.
    Mute(i64),
    /// The webhook cannot be reached for a time.
    WebhookDown(i64),
}

impl From<Act> for Incident<Act> {
    fn from(act: Act) -> Self {
        Self::Act(act)
    }
}

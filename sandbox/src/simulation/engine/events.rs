//! What happens in a world: the events of its queue, the calls that it carries, and the changes of
//! the store that follow.
//!
//! The types decide nothing; see `world` for the order of events.

use crate::api::{Change, ChangeKind};

use super::kinds::{KindId, ObjectKey, Typed};
use super::port::{Answer, Call};

/// The number of replicas of the controllers.
pub(crate) const REPLICAS: usize = 2;

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A task of a controller of a replica, by their positions.
    Controller {
        replica: usize,
        controller: usize,
        task: usize,
    },
    /// The garbage collector.
    GarbageCollector,
    /// The installer of the environment.
    Installer,
    /// An actor of the environment, by name.
    Named(&'static str),
}

/// A call of a controller that the world carries.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) replica: usize,
    pub(crate) task: usize,
    /// The epoch of the replica that made the call.
    pub(crate) epoch: u64,
    /// The id of the call in its port.
    pub(crate) id: u64,
    pub(crate) call: Call,
}

/// An event of the queue.
#[derive(Debug)]
pub(super) enum Due<M, E> {
    /// An incident of the schedule, by position.
    Incident(usize),
    /// A state triggers an incident, by the position of the trigger.
    Triggered(usize),
    /// The watch of a kind delivers to a replica.
    Deliver(usize, KindId),
    /// A task reconciles, unless a later wake-up replaced this one.
    Wake { replica: usize, task: usize, ticket: u64 },
    /// A call reaches the API server. Its answer may be lost, or its process may be killed after
    /// it.
    Arrive { sent: Box<Sent>, lost: bool, crash: bool },
    /// A call reaches the API server long after its client gave up, or after its process was
    /// killed, with what was true when it was sent.
    ArriveLate { sent: Box<Sent>, moments: Vec<M> },
    /// An answer reaches its process.
    Answer {
        replica: usize,
        task: usize,
        epoch: u64,
        id: u64,
        answer: kube::Result<Answer>,
    },
    /// A killed replica starts.
    Restart(usize),
    /// Which replicas believe that they lead.
    Lead([bool; REPLICAS]),
    /// The garbage collector works.
    Collect,
    /// An actor of the environment does something.
    Environment(E),
}

/// A change of the store, as invariants see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation<'a> {
    /// The client that caused the change.
    pub(crate) actor: Actor,
    pub(crate) key: &'a ObjectKey,
    pub(crate) change: &'a Change,
    /// The object after the change, read.
    pub(crate) typed: &'a Typed,
}

impl Observation<'_> {
    /// Whether the object is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.change.kind == ChangeKind::Deleted
    }
}

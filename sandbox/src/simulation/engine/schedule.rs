//! The schedule of a run: what happens when, and how often requests fail. A seed decides it before
//! the run begins.

use std::fmt;

use super::faults::FaultRates;
use super::kinds::KindId;
pub(crate) use super::units::{HOUR, MINUTE, SECOND};

/// A list may come from an API server that is this far behind, in milliseconds.
pub(crate) const BEHIND: i64 = 10 * MINUTE;
/// Another replica leads once the leader has been silent for this long, in milliseconds.
pub(crate) const LEASE: i64 = 137 * SECOND;

/// Something that disturbs the processes under test. A replica is given by its position, a time in
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// The watch of a kind delivers nothing to a replica for a time.
    Freeze(usize, KindId, i64),
    /// The watch of a kind breaks, and the replica lists the kind from an API server that is this
    /// far behind.
    Relist(usize, KindId, i64),
    /// A replica is killed, and restarts.
    Kill(usize),
    /// A replica stops for a time.
    Hang(usize, i64),
    /// Which of the two replicas believe that they lead.
    Lead(bool, bool),
    /// The clock of a replica jumps forward, or back if negative.
    Jump(usize, i64),
    /// The controllers may not write a kind for a time.
    Denied(KindId, i64),
    /// The garbage collector starts this much later from now on.
    GarbageLate(i64),
}

/// Something that happens at a time that the schedule decides.
#[derive(Clone, PartialEq, Eq)]
pub enum Incident<A> {
    /// The processes under test are disturbed.
    Disruption(Disruption),
    /// A user or an actor of the environment does something.
    Act(A),
}

impl<A: fmt::Debug> fmt::Debug for Incident<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disruption(disruption) => disruption.fmt(f),
            Self::Act(act) => act.fmt(f),
        }
    }
}

impl<A> From<Disruption> for Incident<A> {
    fn from(disruption: Disruption) -> Self {
        Self::Disruption(disruption)
    }
}

/// What a call of a controller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// It lists objects.
    List,
    /// It creates an object.
    Create,
    /// It changes an object.
    Patch,
    /// It deletes an object.
    Delete,
}

/// An incident, and the call that triggers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger<A> {
    /// What the call does.
    pub call: CallKind,
    /// The kind of its objects.
    pub kind: KindId,
    /// Its number among these calls of the run, from 1 on.
    pub number: u64,
    /// What happens when the call is sent.
    pub incident: Incident<A>,
}

/// A whole run: `S` is what the environment is set up with, `A` what its actors do.
#[derive(Clone, Debug)]
pub struct Schedule<S, A> {
    /// The seed of every choice that the schedule does not contain.
    pub seed: u64,
    /// The name of the scenario.
    pub scenario: &'static str,
    /// What the environment is set up with.
    pub setup: S,
    /// How often requests of the controllers fail.
    pub rates: FaultRates,
    /// The longest usual lag of a cache, in milliseconds.
    pub lag: u64,
    /// What happens at which millisecond.
    pub incidents: Vec<(i64, Incident<A>)>,
    /// What happens when the controllers make a certain call.
    pub triggers: Vec<Trigger<A>>,
    /// No fault occurs from this time on, in milliseconds.
    pub calm: i64,
}

impl<S, A> Schedule<S, A> {
    /// Adds an incident at a minute.
    pub(crate) fn at(&mut self, minute: u64, incident: impl Into<Incident<A>>) {
        self.at_ms(i64::try_from(minute).unwrap_or(0) * MINUTE, incident);
    }

    /// Adds an incident at a time in milliseconds.
    pub(crate) fn at_ms(&mut self, time: i64, incident: impl Into<Incident<A>>) {
        self.incidents.push((time, incident.into()));
    }
}

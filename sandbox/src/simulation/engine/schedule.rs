//! The schedule of a run: what happens when, and how often requests fail. A seed decides it before
//! the run begins, or a file contains it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::draws::Draws;
use super::faults::{FaultRates, RequestFault};
use super::kinds::KindId;
pub(crate) use super::units::{HOUR, MINUTE, SECOND};

/// The scenario of a schedule that a file contains.
pub(crate) const FROM_A_FILE: &str = "file";
/// A list may come from an API server that is this far behind, in milliseconds.
pub(crate) const BEHIND: i64 = 10 * MINUTE;
/// Another replica leads once the leader has been silent for this long, in milliseconds.
pub(crate) const LEASE: i64 = 137 * SECOND;

/// Something that disturbs the processes under test. A replica is given by its position, a time in
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Something that happens at a time or in a state that the schedule decides.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// What a trigger waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// A call of a controller is sent, so that the incident comes between what the controller read
    /// and the arrival of what it decided.
    Call {
        /// What the call does.
        call: CallKind,
        /// The kind of its objects.
        kind: KindId,
        /// The end of the name of its object; any object if it is empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        /// Its number among these calls of the run, from 1 on.
        number: u64,
    },
    /// A state of the store begins.
    State(StoredState),
}

/// A state of the store: at least so many objects of a kind fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredState {
    /// The kind of the objects.
    pub kind: KindId,
    /// What the fields at JSON pointers contain; null if there is no such field, true if there is
    /// any.
    pub fields: BTreeMap<String, Value>,
    /// The end of the names of the objects; any name if it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The number of objects.
    pub count: usize,
    /// How often the state begins before the trigger acts, from 1 on.
    pub number: u64,
}

/// What a trigger does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect<A> {
    /// An incident happens.
    Happens(Incident<A>),
    /// The call that triggers it meets this fault.
    Meets(RequestFault),
}

/// What happens in a state, and not at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger<A> {
    /// What the trigger waits for.
    pub when: When,
    /// What it does then.
    pub then: Effect<A>,
}

impl<A> Trigger<A> {
    /// Lets an incident happen when a call of a kind with this number is sent.
    pub(crate) fn at_call(call: CallKind, kind: KindId, number: u64, incident: impl Into<Incident<A>>) -> Self {
        Self {
            when: When::Call {
                call,
                kind,
                name: String::new(),
                number,
            },
            then: Effect::Happens(incident.into()),
        }
    }
}

/// A whole run: `S` is what the environment is set up with, `A` what its actors do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Schedule<S, A> {
    /// The seed of every choice that the schedule does not contain.
    pub seed: u64,
    /// How these choices are drawn.
    #[serde(skip, default = "by_key")]
    pub draws: Draws,
    /// The name of the scenario.
    #[serde(skip, default = "from_a_file")]
    pub scenario: &'static str,
    /// What the environment is set up with.
    pub setup: S,
    /// How often requests of the controllers fail.
    #[serde(default, skip_serializing_if = "FaultRates::is_zero")]
    pub rates: FaultRates,
    /// The longest usual lag of a cache, in milliseconds.
    pub lag: u64,
    /// What happens at which millisecond.
    pub incidents: Vec<(i64, Incident<A>)>,
    /// What happens in which state.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger<A>>,
    /// No fault occurs from this time on, in milliseconds.
    pub calm: i64,
}

fn by_key() -> Draws {
    Draws::ByKey
}

fn from_a_file() -> &'static str {
    FROM_A_FILE
}

impl<S: Clone, A: Clone> Schedule<S, A> {
    /// A schedule in which nothing happens and nothing fails. Its draws are in order, and no fault
    /// that is added later occurs from `calm` on.
    pub(crate) fn quiet(seed: u64, scenario: &'static str, setup: S, calm: i64) -> Self {
        Self {
            seed,
            draws: Draws::InOrder,
            scenario,
            setup,
            rates: FaultRates::default(),
            lag: 400,
            incidents: Vec::new(),
            triggers: Vec::new(),
            calm,
        }
    }

    /// The schedule without the incidents and triggers at these positions. The triggers follow the
    /// incidents.
    pub(crate) fn without(&self, positions: &BTreeSet<usize>) -> Self {
        let first = self.incidents.len();
        let mut schedule = self.clone();
        let mut position = 0;
        schedule.incidents.retain(|_| {
            position += 1;
            !positions.contains(&(position - 1))
        });
        position = first;
        schedule.triggers.retain(|_| {
            position += 1;
            !positions.contains(&(position - 1))
        });
        schedule
    }
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

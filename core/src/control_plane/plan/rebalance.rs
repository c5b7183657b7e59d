//! A better spread: a machine leaves its failure domain for an emptier one.
//!
//! One machine more is created in the emptiest failure domain. The scale-in that follows deletes
//! the oldest machine of the fullest one, so that nothing marks a machine. This is the last kind of
//! step: it is taken only while the number and the shape are as they must be, every machine has a
//! ready node, and all members of etcd are healthy.
//!
//! An attempt may fail: a failure domain has no capacity, or a webhook stores the machine in
//! another failure domain. Without a memory, the controller would create and delete machines
//! without end.
//! The ControlPlane therefore records each attempt before the machine is created, and that the
//! machine existed. An attempt whose machine existed is never repeated for the same machines in the
//! same failure domains. The records are removed once the spread is even.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{create, machine};
use crate::control_plane::action::{Plan, Step};
use crate::control_plane::gates::settled;
use crate::control_plane::selection::to_leave;
use crate::control_plane::spec::Spec;
use crate::control_plane::state::{MachineState, State};
use crate::control_plane::step::waits;
use crate::cpms::action::Action;
use crate::cpms::domains::FailureDomain;
use crate::model::hex_hash;

/// The attempts to improve the spread, in the ControlPlane. A user who removes the annotation lets
/// the controller try again.
pub const REBALANCING: &str = "capstan.dev/rebalancing";

/// The number of digits of the hash of an attempt.
const DIGITS: usize = 16;

/// The content of [`REBALANCING`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Records {
    /// The attempts whose machine existed.
    tried: BTreeSet<String>,
    /// The attempt whose machine is created next, or is being created.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Attempt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Attempt {
    /// The hash of the spread before and of the failure domain.
    id: String,
    /// The name of its machine.
    machine: String,
}

/// How the machines that stand are spread over the listed failure domains.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::control_plane) enum Spread<'a> {
    /// No move makes it better, or the failure domain of a machine is not known.
    Even,
    /// A machine leaves for this failure domain.
    Improvable {
        /// The failure domain of the new machine.
        domain: &'a FailureDomain,
        /// The hash of the attempt.
        id: String,
    },
    /// Every attempt to improve it has been made.
    Tried,
    /// The records of the attempts cannot be read, so that none is made.
    Unreadable,
}

/// Judges the spread. The only machine stays where it is unless the user accepts its replacement.
pub(in crate::control_plane) fn spread<'a>(spec: &'a Spec, standing: &[&MachineState]) -> Spread<'a> {
    let attempts = attempts(spec, standing);
    if attempts.is_empty() || (spec.replicas == 1 && !spec.replaces_single_machine) {
        return Spread::Even;
    }
    let Ok(records) = stored(spec) else {
        return Spread::Unreadable;
    };
    let mut untried = attempts.into_iter().filter(|(_, id)| !records.tried.contains(id));
    match untried.next() {
        Some((domain, id)) => Spread::Improvable { domain, id },
        None => Spread::Tried,
    }
}

/// The moves that make the spread strictly better, that to the emptiest failure domain first, each
/// with its hash. A machine outside of the listed failure domains moves to the emptiest one.
/// Another machine moves to a failure domain that has two machines fewer.
fn attempts<'a>(spec: &'a Spec, standing: &[&MachineState]) -> Vec<(&'a FailureDomain, String)> {
    let leaves = to_leave(spec, standing, standing);
    let is_known = standing.iter().all(|machine| machine.domain.is_some());
    let Some(from) = leaves.and_then(|leaves| leaves.domain.as_ref()).filter(|_| is_known) else {
        return Vec::new();
    };
    let count = |domain: &FailureDomain| {
        let machines = standing.iter();
        machines
            .filter(|machine| machine.domain.as_ref() == Some(domain))
            .count()
    };
    let listed = &spec.failure_domains;
    let least = listed.iter().map(count).min().unwrap_or_default();
    let is_better = |domain: &&FailureDomain| match listed.contains(from) {
        true => count(domain) + 2 <= count(from),
        false => count(domain) == least,
    };
    let counts: Vec<(&Value, usize)> = listed.iter().map(|domain| (domain.entry(), count(domain))).collect();
    let id = |domain: &FailureDomain| hex_hash(&json!([counts, standing.len(), domain.entry()]), DIGITS);
    let mut better: Vec<&FailureDomain> = listed.iter().filter(is_better).collect();
    better.sort_by_key(|domain| count(domain));
    better.into_iter().map(|domain| (domain, id(domain))).collect()
}

/// Improves the spread by one machine: records the attempt, and then creates the machine.
pub(super) fn rebalance(spec: &Spec, state: &State, standing: &[&MachineState], plan: &mut Plan) {
    let (domain, id) = match spread(spec, standing) {
        Spread::Improvable { domain, id } => (domain, id),
        Spread::Even => return,
        Spread::Tried => {
            let note = "the machines are not spread evenly, and each attempt to move one has failed";
            return plan
                .notes
                .push(format!("{note}; remove the annotation {REBALANCING} to repeat them"));
        }
        Spread::Unreadable => {
            let note = "the machines are not spread evenly, and the attempts to move one cannot be read";
            return plan.notes.push(format!("{note}; remove the annotation {REBALANCING}"));
        }
    };
    let leaves = to_leave(spec, standing, standing);
    if let Err(blocked) = settled(state) {
        return plan.waits.push(waits(leaves, blocked));
    }
    let machine = machine::made(spec, state, Some(domain)).map(|made| made.metadata.name().to_owned());
    let records = stored(spec).unwrap_or_default();
    let next = machine.ok().map(|machine| Attempt { id, machine });
    if next.is_none() || records.next == next {
        let from = leaves.map(MachineState::name).unwrap_or_default();
        let because = format!("machine {from} leaves its failure domain, which has more machines than others");
        create(spec, state, (leaves, Some(domain)), because, plan);
        return;
    }
    let because = format!("one machine moves to {domain}, so that the spread is even");
    let patch = Action::PatchSet(patch(spec, Some(&Records { next, ..records })));
    plan.steps.push(step(spec, patch, because));
}

/// The step that updates the records: the machine of an attempt exists, or the spread is even.
pub(super) fn records(spec: &Spec, state: &State) -> Option<Step> {
    let mut records = stored(spec).ok().filter(|records| *records != Records::default())?;
    let exists = |attempt: &Attempt| state.machines.iter().any(|machine| machine.name() == attempt.machine);
    if let Some(attempt) = records.next.take_if(|attempt| exists(attempt)) {
        let because = format!("machine {} was created for a better spread", attempt.machine);
        records.tried.insert(attempt.id);
        return Some(step(spec, Action::Records(patch(spec, Some(&records))), because));
    }
    let standing: Vec<&MachineState> = state.standing().collect();
    let is_done = standing.len() == spec.replicas && standing.len() == state.machines.len();
    let is_even = is_done && attempts(spec, &standing).is_empty();
    let because = String::from("the machines are spread evenly");
    is_even.then(|| step(spec, Action::Records(patch(spec, None)), because))
}

fn stored(spec: &Spec) -> Result<Records, serde_json::Error> {
    let text = spec.annotations.get(REBALANCING);
    text.map_or_else(|| Ok(Records::default()), |text| serde_json::from_str(text))
}

fn patch(spec: &Spec, records: Option<&Records>) -> Value {
    let mut metadata = spec.precondition().metadata();
    let text = records.map(|records| json!(records).to_string());
    metadata.insert("annotations".to_owned(), json!({ (REBALANCING): text }));
    json!({ "metadata": metadata })
}

fn step(spec: &Spec, action: Action, because: String) -> Step {
    Step::of_set(spec.object(), action, because, spec.precondition())
}

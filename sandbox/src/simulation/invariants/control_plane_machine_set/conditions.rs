//! The conditions under which an invariant forbids something that the controller could do.
//!
//! An invariant that forbids a write in a state proves nothing in runs that never reach the state.
//! So each run notes which of these states it reached.

use std::collections::BTreeMap;

use crate::simulation::invariants::evidence::Evidence;
use crate::simulation::invariants::moment::{Moment, index_of, is_of_template, is_selected};

/// A state, and the invariant that forbids something in it.
struct Condition {
    invariant: &'static str,
    /// Whether the state is one in which a rollout is incomplete.
    rolls: bool,
    holds: fn(&Moment, &Evidence) -> bool,
}

impl Condition {
    const fn new(invariant: &'static str, rolls: bool, holds: fn(&Moment, &Evidence) -> bool) -> Self {
        Self {
            invariant,
            rolls,
            holds,
        }
    }
}

const CONDITIONS: [Condition; 13] = [
    Condition::new("C1", true, |moment, evidence| moment.machines.len() > evidence.replicas),
    Condition::new("C2", true, |moment, _| has_last_outdated(moment)),
    Condition::new("C3", true, |moment, _| {
        moment.has_failed_replacement() || moment.has_unmanaged_node()
    }),
    Condition::new("C4", true, |moment, _| moment.is_inactive()),
    Condition::new("C5", false, |moment, _| moment.set.is_some()),
    Condition::new("C6", false, |moment, _| has_owned_machine_of_deleted_set(moment)),
    Condition::new("C7", true, |moment, _| moment.is_on_delete()),
    Condition::new("C12", true, |moment, evidence| {
        (!moment.etcd_healthy || moment.ready() < evidence.replicas) && has_deletable(moment)
    }),
    Condition::new("P1", true, |moment, _| moment.is_active() && moment.is_paused()),
    Condition::new("P3", false, |moment, evidence| {
        let mut machines = moment.machines.keys();
        machines.any(|name| {
            let sent = evidence.sent(name);
            sent.is_some_and(|sent| moment.is_only_of_revision(name, sent))
        })
    }),
    Condition::new("P5", true, |moment, evidence| {
        moment.ready() > 0 && moment.ready_indexes() < evidence.replicas
    }),
    Condition::new("P9", true, |moment, _| moment.has_reached_limit()),
    Condition::new("P15", true, |moment, _| {
        let mut machines = moment.machines.values().filter(|_| moment.is_active());
        machines.any(|machine| moment.unready_outdated(index_of(machine)).is_some())
    }),
];

/// Notes the conditions that hold at a moment.
pub(crate) fn note(moment: &Moment, evidence: &Evidence) {
    let mut rolls = None;
    for condition in &CONDITIONS {
        if evidence.has_tested(condition.invariant) {
            continue;
        }
        let rolls = !condition.rolls || *rolls.get_or_insert_with(|| has_outdated(moment));
        evidence.tests(condition.invariant, rolls && (condition.holds)(moment, evidence));
    }
}

/// Whether a machine that is not being deleted is outdated.
fn has_outdated(moment: &Moment) -> bool {
    let Some(set) = &moment.set else { return false };
    let mut live = moment
        .machines
        .values()
        .filter(|machine| !machine.metadata.is_deleting());
    live.any(|machine| is_selected(machine) && !is_of_template(set, machine))
}

/// Whether an outdated machine is ready, and the only one of its index.
fn has_last_outdated(moment: &Moment) -> bool {
    let Some(set) = moment.set.as_ref().filter(|_| moment.is_active()) else {
        return false;
    };
    let mut counts: BTreeMap<Option<u32>, usize> = BTreeMap::new();
    for machine in moment.machines.values() {
        *counts.entry(index_of(machine)).or_default() += 1;
    }
    moment.machines.values().any(|machine| {
        let is_last = counts.get(&index_of(machine)) == Some(&1) && !machine.metadata.is_deleting();
        is_last && moment.is_ready(machine) && !is_of_template(set, machine)
    })
}

/// Whether a ready machine could be deleted if nothing else were wrong.
fn has_deletable(moment: &Moment) -> bool {
    let mut machines = moment.machines.iter().filter(|_| moment.is_active());
    machines.any(|(name, machine)| {
        let is_live = !machine.metadata.is_deleting() && moment.is_ready(machine);
        is_live && moment.reason_to_delete(name).is_some()
    })
}

/// Whether the set is being deleted, and a machine has an owner reference to it.
fn has_owned_machine_of_deleted_set(moment: &Moment) -> bool {
    let Some(set) = moment.set.as_ref().filter(|set| set.metadata.is_deleting()) else {
        return false;
    };
    let mut owners = moment
        .machines
        .values()
        .flat_map(|machine| &machine.metadata.owner_references);
    owners.any(|owner| owner.uid == set.metadata.uid())
}

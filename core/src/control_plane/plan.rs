//! The next step of a ControlPlane.
//!
//! One machine is created or deleted at a time, and only while every machine that stays has a ready
//! node and etcd allows it (`gates`). Machines that are missing are created first, then machines
//! that are too many are deleted, then outdated machines are replaced with one machine more, and at
//! last the spread over the failure domains is improved (`rebalance`). So a change of shape and
//! number never has fewer machines than the smaller of both numbers.
//!
//! Where Capstan manages the etcd members, nothing is created or deleted beside a member that is
//! lost (`lost_members`).
//!
//! A plan must never contain two steps that create or delete, and must never act on a machine of
//! another owner.

mod machine;
mod question;
mod rebalance;

pub(super) use machine::owner_reference;
pub use rebalance::REBALANCING;
pub(super) use rebalance::{Spread, spread};

use serde_json::json;

use super::action::{Plan, REPLACED, Step, Wait, WaitReason};
use super::degraded::{UNPLACEABLE, degraded, stops_everything};
use super::gates::{may_grow, may_shrink};
use super::lost_members::is_about_members;
use super::members;
use super::pending;
use super::selection::{domain_of_new, to_leave};
use super::spec::{ACKNOWLEDGED, RISK, Spec};
use super::state::{MachineState, Owner, State};
use super::step::{precondition, waits};
use crate::api::kinds::MACHINES;
use crate::api::machine_openshift_io::control_plane::FINALIZER;
use crate::cpms::action::Action;
use crate::cpms::domains::FailureDomain;
use crate::cpms::machine_state::held_by;
use crate::cpms::removal::finalizers;
use crate::model::{Degradation, Precondition};

/// Decides the next step.
pub fn plan(spec: &Spec, state: &State) -> Plan {
    if spec.deleting {
        let note = String::from("the ControlPlane is being deleted; its machines stay");
        return Plan {
            notes: vec![note],
            ..Plan::default()
        };
    }
    let mut plan = Plan {
        degraded: degraded(spec, state),
        ..Plan::default()
    };
    // Machines get an owner reference only after the finalizer is stored. Otherwise the garbage
    // collector would delete them with the ControlPlane.
    let finalizer = finalizer(spec);
    let stops = plan.degraded.iter().any(stops_everything);
    let adopted = state
        .standing()
        .filter(|machine| !stops || matches!(machine.owner, Owner::Former { .. }));
    plan.steps
        .extend(adopted.filter_map(|machine| machine::adoption(spec, machine)));
    if plan.steps.is_empty() && !stops {
        plan.steps.extend(members::hook_steps(spec, state));
    }
    if plan.steps.is_empty() && !stops {
        members::release(spec, state, &mut plan);
    }
    let is_stopped = stops || plan.degraded.iter().any(is_about_members);
    if plan.steps.is_empty() && !is_stopped {
        change(spec, state, &mut plan);
    }
    if let Some(finalizer) = finalizer {
        // The patch of the ControlPlane would make the record of a creation fail.
        plan.steps.retain(|step| !step.is_disruptive());
        plan.steps.insert(0, finalizer);
    }
    if plan.steps.is_empty() {
        let records = rebalance::records(spec, state);
        plan.steps
            .extend(records.or_else(|| pending::cleanup(spec, state, &plan)));
    }
    plan.reconcile_at = pending::next_end(state);
    plan
}

/// The creation, deletion or replacement that comes next, or what it waits for.
fn change(spec: &Spec, state: &State, plan: &mut Plan) {
    let standing: Vec<&MachineState> = state.standing().collect();
    let unready: Vec<&&MachineState> = standing.iter().filter(|machine| !machine.is_ready()).collect();
    if !unready.is_empty() {
        let wait = |machine: &&&MachineState| {
            let message = format!("the node of machine {} must become ready", machine.name());
            waits(Some(machine), (WaitReason::MachineReady, message))
        };
        return plan.waits.extend(unready.iter().map(wait));
    }
    if standing.len() < spec.replicas {
        let because = format!("{} of {} machines exist", standing.len(), spec.replicas);
        let domain = domain_of_new(spec, &standing, None);
        create(spec, state, (None, domain), because, plan);
    } else if let Some(leaving) = state.leaving().next() {
        let held_by = held_by(&leaving.machine);
        let message = format!("machine {} is being deleted{held_by}", leaving.name());
        plan.waits
            .push(waits(Some(leaving), (WaitReason::MachineRemoved, message)));
    } else if standing.len() > spec.replicas {
        let is_replacement = standing.iter().any(|machine| machine.is_marked);
        if is_replacement && standing.iter().any(|machine| !machine.lost.is_empty()) {
            // The new machine is not as the template says. The old one stays (V230).
            return;
        }
        scale_in(spec, state, &standing, plan);
    } else if !standing.iter().all(|machine| machine.is_current()) {
        if plan.degraded.is_empty() {
            replace(spec, state, &standing, plan);
        }
    } else {
        rebalance::rebalance(spec, state, &standing, plan);
    }
    unless_another_comes(state, plan);
}

/// Drops the disruptive step, and the mark before it, while another requested machine may still be
/// created: it would be one machine more.
fn unless_another_comes(state: &State, plan: &mut Plan) {
    let Some(step) = plan.disruptive() else { return };
    let own = step.machine().filter(|_| matches!(step.action, Action::Create { .. }));
    let Some((machine, until)) = pending::another_coming(state, own) else {
        return;
    };
    let message = format!("machine {machine} was requested and may still be created");
    plan.waits.push(Wait {
        until: Some(until),
        ..waits(None, (WaitReason::MachineRequested, message))
    });
    plan.steps.clear();
}

/// The finalizer is added before the first owner reference, so that a deletion always removes the
/// owner references. A ControlPlane that was never stored needs none.
fn finalizer(spec: &Spec) -> Option<Step> {
    if spec.uid.is_empty() || spec.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return None;
    }
    let mut list = spec.finalizers.clone();
    list.push(FINALIZER.to_owned());
    let because = "the finalizer keeps the ControlPlane until its machines are orphaned";
    let Precondition { uid, resource_version } = spec.precondition();
    Some(finalizers(
        spec.object(),
        &uid,
        &resource_version,
        &json!(list),
        because,
    ))
}

/// Deletes one machine: a marked one, else an outdated one, else any.
fn scale_in(spec: &Spec, state: &State, standing: &[&MachineState], plan: &mut Plan) {
    let outdated = |machine: &&&MachineState| !machine.is_current();
    let groups: [Vec<&MachineState>; 3] = [
        standing
            .iter()
            .filter(outdated)
            .filter(|machine| machine.is_marked)
            .copied()
            .collect(),
        standing.iter().filter(outdated).copied().collect(),
        standing.to_vec(),
    ];
    let why = [
        "its replacement is ready",
        "it is outdated, and there are more machines than replicas",
        "there are more machines than replicas",
    ];
    let first = groups.iter().zip(why).find(|(group, _)| !group.is_empty());
    let Some((leaves, because)) = first.and_then(|(group, why)| Some((to_leave(spec, standing, group)?, why))) else {
        return;
    };
    match may_shrink(state) {
        Err(blocked) => plan.waits.push(waits(Some(leaves), blocked)),
        Ok(()) => plan.steps.push(Step {
            action: Action::Delete {
                failure_domain: leaves.domain.clone(),
            },
            subject: MACHINES.object(&spec.namespace, leaves.name()),
            index: None,
            because: because.to_owned(),
            precondition: Some(precondition(leaves)),
        }),
    }
}

/// Starts the replacement of an outdated machine, with one machine more.
fn replace(spec: &Spec, state: &State, standing: &[&MachineState], plan: &mut Plan) {
    let outdated: Vec<&MachineState> = standing
        .iter()
        .filter(|machine| !machine.is_current())
        .copied()
        .collect();
    let marked: Vec<&MachineState> = outdated.iter().filter(|machine| machine.is_marked).copied().collect();
    let candidates = if marked.is_empty() { &outdated } else { &marked };
    let Some(leaves) = to_leave(spec, standing, candidates) else {
        return;
    };
    if spec.replicas == 1 && !spec.replaces_single_machine {
        let message = format!(
            "machine {} is outdated; set the annotation {ACKNOWLEDGED}: \"{RISK}\" to replace the only machine",
            leaves.name()
        );
        return plan
            .waits
            .push(waits(Some(leaves), (WaitReason::Acknowledgement, message)));
    }
    let domain = domain_of_new(spec, standing, Some(leaves));
    let because = format!("it replaces {}", leaves.name());
    create(spec, state, (Some(leaves), domain), because, plan);
    let creates = plan.steps.pop();
    if let Some(step) = creates {
        if !leaves.is_marked {
            plan.steps.push(machine::mark(spec, leaves, REPLACED));
        }
        plan.steps.push(step);
    }
}

/// Creates a machine in a failure domain, in the place of one that leaves or of none.
fn create(
    spec: &Spec,
    state: &State,
    (leaves, domain): (Option<&MachineState>, Option<&FailureDomain>),
    because: String,
    plan: &mut Plan,
) {
    if let Err(blocked) = may_grow(state) {
        return plan.waits.push(waits(leaves, blocked));
    }
    match machine::made(spec, state, domain) {
        Ok(made) => plan.steps.push(Step {
            subject: MACHINES.object(&spec.namespace, made.metadata.name()),
            action: Action::Create {
                machine: Box::new(made),
                failure_domain: domain.cloned(),
                repairs: leaves.is_none(),
            },
            index: None,
            because,
            precondition: None,
        }),
        Err(error) => plan.degraded.push(Degradation {
            reason: UNPLACEABLE,
            message: format!("no machine can be created in a failure domain: {error}; correct spec.failureDomains"),
        }),
    }
}

pub use question::{question, retry_at};

#[cfg(test)]
mod tests;

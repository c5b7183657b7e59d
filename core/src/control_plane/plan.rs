//! The next step of a ControlPlane.
//!
//! One machine is created or deleted at a time, and only while every machine that stays has a ready
//! node and etcd allows it (`gates`). Machines that are missing are created first, then machines
//! that are too many are deleted, then outdated machines are replaced with one machine more. So a
//! change of shape and number never has fewer machines than the smaller of both numbers.
//!
//! A plan must never contain two steps that create or delete, and must never act on a machine of
//! another owner.

mod machine;

use super::action::{Plan, REPLACED, Step, Wait, WaitReason};
use super::gates::{Blocked, may_grow, may_shrink};
use super::selection::{domain_of_new, to_leave};
use super::spec::{ACKNOWLEDGED, RISK, Spec};
use super::state::{MachineState, Owner, State};
use crate::api::kinds::MACHINES;
use crate::cpms::action::Action;
use crate::model::{Degradation, Precondition};

/// The reason of the degradation by a machine of another owner.
const FOREIGN: &str = "ForeignMachine";
/// The reason of the degradation by a failure domain that does not fit the provider spec.
const UNPLACEABLE: &str = "FailureDomainUnusable";

/// Decides the next step.
pub fn plan(spec: &Spec, state: &State) -> Plan {
    let mut plan = Plan::default();
    if spec.deleting {
        plan.notes
            .push(String::from("the ControlPlane is being deleted; its machines stay"));
        return plan;
    }
    if let Some(reason) = foreign(state) {
        plan.degraded.push(reason);
        return plan;
    }
    let adopted = state.standing().filter(|machine| machine.owner == Owner::None);
    plan.steps
        .extend(adopted.map(|machine| machine::adoption(spec, machine)));
    if !plan.steps.is_empty() {
        return plan;
    }
    let standing: Vec<&MachineState> = state.standing().collect();
    let unready: Vec<&&MachineState> = standing.iter().filter(|machine| !machine.is_ready()).collect();
    if !unready.is_empty() {
        let wait = |machine: &&&MachineState| {
            let message = format!("the node of machine {} must become ready", machine.name());
            waits(Some(machine), (WaitReason::MachineReady, message))
        };
        plan.waits.extend(unready.iter().map(wait));
        return plan;
    }
    if standing.len() < spec.replicas {
        let because = format!("{} of {} machines exist", standing.len(), spec.replicas);
        create(spec, state, &standing, None, because, &mut plan);
    } else if let Some(leaving) = state.leaving().next() {
        let message = format!("machine {} is being deleted", leaving.name());
        plan.waits
            .push(waits(Some(leaving), (WaitReason::MachineRemoved, message)));
    } else if standing.len() > spec.replicas {
        scale_in(spec, state, &standing, &mut plan);
    } else {
        replace(spec, state, &standing, &mut plan);
    }
    plan
}

/// The standing machines that another object controls.
fn foreign(state: &State) -> Option<Degradation> {
    let named = |machine: &MachineState| match &machine.owner {
        Owner::Foreign(owner) => Some(format!("{} ({owner})", machine.name())),
        Owner::None | Owner::Ours => None,
    };
    let found: Vec<String> = state.machines.iter().filter_map(named).collect();
    (!found.is_empty()).then(|| Degradation {
        reason: FOREIGN,
        message: format!(
            "control plane machines have another controller: {}; remove that owner reference",
            found.join(", ")
        ),
    })
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
    create(
        spec,
        state,
        standing,
        Some(leaves),
        format!("it replaces {}", leaves.name()),
        plan,
    );
    let creates = plan.steps.pop();
    if let Some(step) = creates {
        if !leaves.is_marked {
            plan.steps.push(machine::mark(spec, leaves, REPLACED));
        }
        plan.steps.push(step);
    }
}

fn create(
    spec: &Spec,
    state: &State,
    standing: &[&MachineState],
    leaves: Option<&MachineState>,
    because: String,
    plan: &mut Plan,
) {
    if let Err(blocked) = may_grow(state) {
        return plan.waits.push(waits(leaves, blocked));
    }
    let domain = domain_of_new(spec, standing, leaves);
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

fn waits(machine: Option<&MachineState>, (reason, message): Blocked) -> Wait {
    let of = |machine: &MachineState| {
        let namespace = machine.machine.metadata.namespace.as_deref().unwrap_or_default();
        MACHINES.object(namespace, machine.name())
    };
    Wait {
        index: None,
        subject: machine.map(of),
        reason,
        message,
        until: None,
    }
}

fn precondition(machine: &MachineState) -> Precondition {
    let meta = &machine.machine.metadata;
    Precondition {
        uid: meta.uid().to_owned(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;

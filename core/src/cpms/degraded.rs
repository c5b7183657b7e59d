//! The reasons for which a control plane is degraded: its rollout stops until a user acts.
//!
//! Each reason names the machines and nodes, and the remedy. While there is a reason, no machine is
//! created or deleted; status and in-place repair continue. Source: the ControlPlaneMachineSet
//! enhancement, "Selecting Machines" and "Failure Modes". The reasons are those of the operator
//! that OpenShift ships, and those that it does not report (defects B1, B6).

use super::domains;
use super::machine_state::{MachineState, NodeState, Owner};
use super::observed::Unparsable;
use super::spec::{Spec, Strategy};
use super::state::State;
use crate::model::{Degradation, Violation};

/// All reasons, the most important first. The first is the reason of the condition.
pub fn degraded(spec: &Spec, state: &State) -> Vec<Degradation> {
    [
        unparsable(&state.unparsable),
        unreadable_pending_creations(spec),
        infrastructure(spec, state),
        no_ready_machine(state),
        unmanaged_nodes(state),
        strayed_machines(state),
        excess_indexes(spec, state),
        foreign_owners(state),
        failed_replacement(state),
        excess_updated(spec, state),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The reasons of a set that is not valid.
pub fn invalid(violations: &[Violation]) -> Vec<Degradation> {
    let strategy = |violation: &&Violation| violation.path.as_str().starts_with("spec.strategy");
    let list = |violations: Vec<&Violation>| {
        let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
        texts.join("; ")
    };
    let (strategies, others): (Vec<&Violation>, Vec<&Violation>) = violations.iter().partition(strategy);
    let mut found = Vec::new();
    if !others.is_empty() {
        found.push(Degradation {
            reason: "InvalidSpec",
            message: format!("The set is not valid and nothing is done with it: {}", list(others)),
        });
    }
    if !strategies.is_empty() {
        found.push(Degradation {
            reason: "InvalidStrategy",
            message: format!("The update strategy cannot be followed: {}", list(strategies)),
        });
    }
    found
}

/// The reason for objects that cannot be decoded; `None` without such objects.
pub fn unparsable(objects: &[Unparsable]) -> Option<Degradation> {
    let texts: Vec<String> = objects
        .iter()
        .map(|object| format!("{} {} ({})", object.kind, object.name, object.message))
        .collect();
    (!texts.is_empty()).then(|| Degradation {
        reason: "UnparsableObjects",
        message: format!(
            "{} object(s) cannot be read: {}; correct or remove them",
            texts.len(),
            texts.join(", ")
        ),
    })
}

/// A requested machine may still be created. Without the record, the controller does not know which
/// one, and another machine in its place would be one too many.
fn unreadable_pending_creations(spec: &Spec) -> Option<Degradation> {
    let error = spec.pending_creations.as_ref().err()?;
    Some(Degradation {
        reason: "UnreadablePendingCreations",
        message: format!(
            "In the set, {error}: machines that were requested may still be created. Wait five minutes, then remove the \
             annotation"
        ),
    })
}

fn infrastructure(spec: &Spec, state: &State) -> Option<Degradation> {
    if state.lacks_infrastructure(spec) {
        return Some(Degradation {
            reason: "InfrastructureUnknown",
            message:
                "The Infrastructure cluster is not known, and only it says where the failure domains are; restore it"
                    .to_owned(),
        });
    }
    let template = &spec.template.provider_spec;
    let infrastructure = state.observed.infrastructure.as_deref();
    let errors: Vec<String> = spec
        .failure_domains
        .iter()
        .filter_map(|domain| domains::fits(template, domain, infrastructure).err())
        .map(|error| error.to_string())
        .collect();
    (!errors.is_empty()).then(|| Degradation {
        reason: "InvalidFailureDomain",
        message: format!("{}; correct failureDomains of the set", errors.join("; ")),
    })
}

fn no_ready_machine(state: &State) -> Option<Degradation> {
    if state.machines.is_empty() {
        return Some(Degradation {
            reason: "NoReadyMachines",
            message: "No machine is selected by the set; it manages machines that exist and cannot make the first. \
                      Create control plane machines, or delete the set"
                .to_owned(),
        });
    }
    if state.each_machine().any(MachineState::is_ready) {
        return None;
    }
    let texts: Vec<String> = state
        .each_machine()
        .map(|machine| format!("{} {}", machine.name, machine.unready_because().unwrap_or_default()))
        .collect();
    Some(Degradation {
        reason: "NoReadyMachines",
        message: format!(
            "No control plane machine is ready: {}; bring one back before anything is replaced",
            texts.join(", ")
        ),
    })
}

/// Whether the unclaimed nodes may belong to machines that are joining: a machine controller sets
/// the node of a machine a moment after the node registers. Until then, the controller waits and
/// the set is not degraded.
pub(super) fn nodes_are_joining(state: &State) -> bool {
    let joining =
        |machine: &&MachineState| machine.node == NodeState::None && machine.failed.is_none() && !machine.is_deleting();
    state.unclaimed_nodes.len() <= state.each_machine().filter(joining).count()
}

fn unmanaged_nodes(state: &State) -> Option<Degradation> {
    let nodes = &state.unclaimed_nodes;
    (!nodes.is_empty() && !nodes_are_joining(state)).then(|| Degradation {
        reason: "UnmanagedNodes",
        message: format!(
            "Found {} unmanaged node(s): {}; no machine of the set claims them. Remove the node from the cluster, create \
             a machine for it, or repair the labels of its machine",
            nodes.len(),
            nodes.join(", ")
        ),
    })
}

/// A machine of the set that lost its labels may still become a node. Another machine for its index
/// would be one too many.
fn strayed_machines(state: &State) -> Option<Degradation> {
    (!state.strayed.is_empty()).then(|| Degradation {
        reason: "StrayedMachines",
        message: format!(
            "{} machine(s) carry an owner reference of the set but not the labels that it selects: {}; put the labels \
             back, or remove the owner reference",
            state.strayed.len(),
            state.strayed.join(", ")
        ),
    })
}

fn excess_indexes(spec: &Spec, state: &State) -> Option<Degradation> {
    let excess = state
        .indexes
        .len()
        .checked_sub(spec.replicas.count())
        .filter(|count| *count > 0)?;
    let texts: Vec<String> = state
        .indexes
        .iter()
        .map(|index| {
            let names: Vec<&str> = state.of_index(*index).map(|machine| machine.name.as_str()).collect();
            format!("{index} ({})", names.join(", "))
        })
        .collect();
    Some(Degradation {
        reason: "ExcessIndexes",
        message: format!(
            "Observed {excess} index(es) in excess of {} replicas: {}; delete the machines that should not be there",
            spec.replicas.count(),
            texts.join(", ")
        ),
    })
}

fn foreign_owners(state: &State) -> Option<Degradation> {
    let texts: Vec<String> = state
        .each_machine()
        .filter_map(|machine| match &machine.owner {
            Owner::Foreign { owner } => Some(format!("{} (by {owner})", machine.name)),
            _ => None,
        })
        .collect();
    (!texts.is_empty()).then(|| Degradation {
        reason: "MachinesAlreadyOwned",
        message: format!(
            "{} machine(s) are controlled by another: {}; remove that owner reference, or the labels that the set selects",
            texts.len(),
            texts.join(", ")
        ),
    })
}

fn failed_replacement(state: &State) -> Option<Degradation> {
    let texts: Vec<String> = state
        .each_machine()
        .filter(|machine| machine.is_current() && !machine.is_deleting() && !machine.is_ready())
        .filter_map(|machine| {
            Some(format!(
                "{} (index {}): {}",
                machine.name,
                machine.index,
                machine.failed.as_ref()?
            ))
        })
        .collect();
    (!texts.is_empty()).then(|| Degradation {
        reason: "FailedReplacement",
        message: format!(
            "Observed {} failed machine(s): {}; correct the cause, then delete the machine to have it made again",
            texts.len(),
            texts.join(", ")
        ),
    })
}

/// With OnDelete, only users delete machines, so that a second current machine of an index would
/// stay.
fn excess_updated(spec: &Spec, state: &State) -> Option<Degradation> {
    if spec.strategy != Strategy::OnDelete {
        return None;
    }
    let texts: Vec<String> = state
        .indexes
        .iter()
        .filter_map(|index| {
            let current = |machine: &&MachineState| machine.is_current() && !machine.is_deleting();
            let names: Vec<&str> = state
                .of_index(*index)
                .filter(current)
                .map(|machine| machine.name.as_str())
                .collect();
            (names.len() > 1).then(|| format!("{index} ({})", names.join(", ")))
        })
        .collect();
    (!texts.is_empty()).then(|| Degradation {
        reason: "ExcessUpdatedReplicas",
        message: format!(
            "{} index(es) have more than one updated machine: {}; delete all but one of each",
            texts.len(),
            texts.join(", ")
        ),
    })
}

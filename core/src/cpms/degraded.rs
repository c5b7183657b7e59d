//! The reasons for which a control plane is degraded: its rollout stops until a user acts.
//!
//! Each reason names the machines and nodes, and the remedy. While there is a reason, no machine is
//! created, changed or deleted. A failed machine and an error of the template stop less; see
//! [`allows_repair`].
//! Source: the ControlPlaneMachineSet enhancement, "Selecting Machines" and "Failure Modes". The
//! reasons are those of the operator that OpenShift ships, and those that it does not report
//! (defects B1, B6).

use jiff::{SignedDuration, Timestamp};

use super::changes::in_words;
use super::domains;
use super::machine_state::{MachineState, NodeState, Owner};
use super::observed::Unparsable;
use super::spec::{SetState, Spec, Strategy};
use super::state::State;
use crate::api::machine_openshift_io::control_plane::KIND as CONTROL_PLANE;
use crate::model::{Degradation, Violation};

/// The reason of a machine that is up to date and has failed.
const FAILED_REPLACEMENT: &str = "FailedReplacement";

/// The reason of a template that the API server stores with other values.
const TEMPLATE_NOT_STORED: &str = "TemplateNotStored";
/// The reason of a label or an annotation in the template that the API server refuses.
const INVALID_TEMPLATE_METADATA: &str = "InvalidTemplateMetadata";

/// Whether indexes without a machine are still repaired, and replacements that are ready finished,
/// while there is this reason to stop.
pub fn allows_repair(reason: &Degradation) -> bool {
    reason.reason == FAILED_REPLACEMENT || is_about_the_template(reason)
}

/// Whether the reason is an error of the template. The set is right about which machines are its
/// own, and adopts and repairs them in place.
pub(super) fn is_about_the_template(reason: &Degradation) -> bool {
    [TEMPLATE_NOT_STORED, INVALID_TEMPLATE_METADATA].contains(&reason.reason)
}

/// Whether no replaced machine is deleted while there is this reason to stop: its replacement does
/// not have what the template contains.
pub(super) fn keeps_replaced_machines(reason: &Degradation) -> bool {
    reason.reason == TEMPLATE_NOT_STORED
}

/// Whether a machine is up to date, is not being deleted, and has failed without a ready node.
pub(super) fn is_failed_replacement(machine: &MachineState) -> bool {
    machine.is_current() && !machine.is_deleting() && !machine.is_ready() && machine.failed.is_some()
}

/// All reasons, the most important first. The first is the reason of the condition.
pub fn degraded(spec: &Spec, state: &State, now: Timestamp) -> Vec<Degradation> {
    [
        unparsable(&state.unparsable),
        unreadable_pending_creations(spec),
        infrastructure(spec, state),
        no_ready_machine(state),
        unmanaged_nodes(state, now),
        strayed_machines(state),
        excess_indexes(spec, state),
        foreign_owners(state),
        failed_replacement(spec, state),
        template_not_stored(state),
        invalid_template_metadata(spec),
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
        // Machines that only lost their labels exist, and others in their place would be too many.
        return state.strayed.is_empty().then(|| Degradation {
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

/// How long a node may exist before its machine claims it.
const CLAIM: SignedDuration = SignedDuration::from_mins(20);

/// The control plane nodes that no machine claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnclaimedNodes {
    /// There are none.
    None,
    /// They may be the nodes of machines that are starting: the machine controller reports the node
    /// of a machine some time after the node registered.
    Joining {
        /// When the first of them is unmanaged; `None` if no node reports when it was created.
        until: Option<Timestamp>,
    },
    /// At least one is not the node of a machine that is starting.
    Unmanaged,
}

impl UnclaimedNodes {
    /// The nodes of a state.
    pub(super) fn of(state: &State, now: Timestamp) -> Self {
        let nodes = &state.unclaimed_nodes;
        if nodes.is_empty() {
            return Self::None;
        }
        let joining = |machine: &&MachineState| {
            machine.node == NodeState::None && machine.failed.is_none() && !machine.is_deleting()
        };
        let known = state.observed.nodes.iter();
        let until = known
            .filter(|node| nodes.iter().any(|name| name == node.metadata.name()))
            .filter_map(|node| node.metadata.creation_timestamp?.checked_add(CLAIM).ok())
            .min();
        let late = until.is_some_and(|until| until <= now);
        if late || nodes.len() > state.each_machine().filter(joining).count() {
            Self::Unmanaged
        } else {
            Self::Joining { until }
        }
    }
}

fn unmanaged_nodes(state: &State, now: Timestamp) -> Option<Degradation> {
    // An object that cannot be read may be the machine of a node.
    if !state.observed.unparsable.is_empty() {
        return None;
    }
    let nodes = &state.unclaimed_nodes;
    (UnclaimedNodes::of(state, now) == UnclaimedNodes::Unmanaged).then(|| Degradation {
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
            "{} machine(s) were created for the set, or carry an owner reference of it, but not the labels that it \
             selects: {}; put the labels back, or delete the machines",
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
            Owner::Foreign { kind, name } => Some(format!("{} (by {kind} {name})", machine.name)),
            _ => None,
        })
        .collect();
    let is_of_control_plane =
        |machine: &MachineState| matches!(&machine.owner, Owner::Foreign { kind, .. } if kind == CONTROL_PLANE);
    let remedy = if state.each_machine().any(is_of_control_plane) {
        "a ControlPlane manages them, and the set must stay Inactive beside it; delete the ControlPlane first to go back \
         to the set"
    } else {
        "remove that owner reference, or the labels that the set selects"
    };
    (!texts.is_empty()).then(|| Degradation {
        reason: "MachinesAlreadyOwned",
        message: format!(
            "{} machine(s) are controlled by another: {}; {remedy}",
            texts.len(),
            texts.join(", ")
        ),
    })
}

fn failed_replacement(spec: &Spec, state: &State) -> Option<Degradation> {
    let texts: Vec<String> = state
        .each_machine()
        .filter(|machine| is_failed_replacement(machine))
        .filter_map(|machine| {
            Some(format!(
                "{} (index {}): {}",
                machine.name,
                machine.index,
                machine.failed.as_ref()?
            ))
        })
        .collect();
    let advice = if spec.state == SetState::Active {
        "correct the cause, then delete the machine to have it made again"
    } else {
        // A deleted machine would not come back.
        "repair them before an activation; the Inactive set makes no machine again"
    };
    (!texts.is_empty()).then(|| Degradation {
        reason: FAILED_REPLACEMENT,
        message: format!(
            "Observed {} failed machine(s): {}; {advice}",
            texts.len(),
            texts.join(", ")
        ),
    })
}

/// Labels and annotations of the template that the API server refuses. Machines do not get them.
fn invalid_template_metadata(spec: &Spec) -> Option<Degradation> {
    let invalid = &spec.template.invalid_metadata;
    let texts: Vec<String> = invalid.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| Degradation {
        reason: INVALID_TEMPLATE_METADATA,
        message: format!(
            "The API server refuses {} label(s) or annotation(s) of the template: {}; correct the template",
            texts.len(),
            texts.join(", ")
        ),
    })
}

/// A field of the template that a machine which was created from it does not have. Another machine
/// would not have it either.
fn template_not_stored(state: &State) -> Option<Degradation> {
    let texts: Vec<String> = state
        .each_machine()
        .filter(|machine| !machine.lost.is_empty() && !machine.is_deleting())
        .map(|machine| format!("{} ({})", machine.name, in_words(&machine.lost)))
        .collect();
    let pending = |machine: &MachineState| !machine.is_current() && !machine.is_deleting();
    if texts.is_empty() && !state.template.lost.is_empty() && state.each_machine().any(pending) {
        return Some(Degradation {
            reason: TEMPLATE_NOT_STORED,
            message: format!(
                "The API server does not store the template as it is in the set: {}; correct the template, or the \
                 webhook that changes machines. No machine is replaced before",
                in_words(&state.template.lost)
            ),
        });
    }
    (!texts.is_empty()).then(|| Degradation {
        reason: TEMPLATE_NOT_STORED,
        message: format!(
            "{} machine(s) were created from the current template and do not have its fields: {}; correct the template, \
             or the webhook that changes machines. If a user changed a machine, delete it to have it created again",
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

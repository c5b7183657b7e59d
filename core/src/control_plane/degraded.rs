//! The reasons for which a ControlPlane is degraded: it creates, adopts and deletes no machine
//! until a user acts. A template that is not stored only stops replacements, and etcd members only
//! stop creations and deletions.

use super::lost_members::{self, is_about_members};
use super::spec::Spec;
use super::state::{MachineState, Owner, State};
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use crate::api::machine_openshift_io::label;
use crate::cpms::changes::in_words;
use crate::cpms::degraded::unparsable;
use crate::model::{Degradation, Violation};

/// The reason of the degradation by a machine of another owner.
pub(super) const FOREIGN: &str = "ForeignMachine";
/// The reason of the degradation by a failure domain that does not fit the provider spec.
pub(super) const UNPLACEABLE: &str = "FailureDomainUnusable";
/// The reason of a template that the API server stores with other values.
const TEMPLATE_NOT_STORED: &str = "TemplateNotStored";

/// All reasons, the most important first.
pub(super) fn degraded(spec: &Spec, state: &State) -> Vec<Degradation> {
    let reasons = [
        unparsable(&state.unparsable),
        unreadable_pending_creations(spec),
        strayed(state),
        foreign(state),
        lost_members::undecided(state),
        lost_members::degraded(state),
        template_not_stored(state),
    ];
    reasons.into_iter().flatten().collect()
}

/// Whether nothing is done at all while there is this reason. A template that is not stored stops
/// replacements only, and etcd members stop creations and deletions only.
pub(super) fn stops_everything(reason: &Degradation) -> bool {
    reason.reason != TEMPLATE_NOT_STORED && !is_about_members(reason)
}

/// The reasons of a ControlPlane that is not valid.
pub fn invalid(violations: &[Violation]) -> Vec<Degradation> {
    let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
    vec![Degradation {
        reason: "InvalidSpec",
        message: format!(
            "The ControlPlane is not valid and nothing is done with it: {}",
            texts.join("; ")
        ),
    }]
}

/// The reason of a ControlPlane while no object names the cluster.
pub fn without_cluster_name() -> Vec<Degradation> {
    vec![Degradation {
        reason: "UnknownClusterName",
        message: format!(
            "The names of machines begin with the name of the cluster, and no object has it: the Infrastructure cluster \
             must have status.infrastructureName, or a machine the label {}",
            label::CLUSTER
        ),
    }]
}

/// The reason of a ControlPlane that cannot be decoded.
pub fn unreadable(reason: &str) -> Vec<Degradation> {
    vec![Degradation {
        reason: "UnreadableControlPlane",
        message: format!("The ControlPlane cannot be decoded, and nothing is done with it: {reason}; correct it"),
    }]
}

/// The reason of a ControlPlane beside a set that is Active: both would create and delete machines.
pub fn beside_active_set<'a>(sets: impl IntoIterator<Item = &'a ControlPlaneMachineSet>) -> Option<Degradation> {
    let is_active = |set: &&ControlPlaneMachineSet| set.spec.state.as_deref() == Some("Active");
    let active = sets.into_iter().find(is_active)?;
    Some(Degradation {
        reason: "ActiveControlPlaneMachineSet",
        message: format!(
            "The ControlPlaneMachineSet {} is Active and manages the machines, so this ControlPlane does nothing; \
             keep one of the two: delete this ControlPlane, or wait until the rollout of the set is complete and \
             delete the set, and this ControlPlane replaces the machines that differ from its template; both \
             deletions keep the machines",
            active.metadata.name()
        ),
    })
}

/// The reason of a ControlPlane beside a set that cannot be decoded: the set may be Active.
pub fn beside_undecodable_set(reason: &str) -> Degradation {
    Degradation {
        reason: "ActiveControlPlaneMachineSet",
        message: format!(
            "The ControlPlaneMachineSet cannot be read ({reason}), and may be Active; correct or delete it"
        ),
    }
}

/// A requested machine may still be created. Without the record, the controller does not know which
/// one, and another machine in its place would be one too many.
fn unreadable_pending_creations(spec: &Spec) -> Option<Degradation> {
    let error = spec.pending_creations.as_ref().err()?;
    Some(Degradation {
        reason: "UnreadablePendingCreations",
        message: format!(
            "In the ControlPlane, {error}: machines that were requested may still be created. Wait five minutes, then \
             remove the annotation"
        ),
    })
}

/// A machine that lost its labels may still become a node. Another machine would be one too many,
/// and a policy that strips each new machine would lead to machines without end.
fn strayed(state: &State) -> Option<Degradation> {
    let remedy = if state.stray_members {
        "put the labels back, so that the etcd members of the machines that are being deleted are removed"
    } else {
        "put the labels back, or delete the machines"
    };
    (!state.strayed.is_empty()).then(|| Degradation {
        reason: "StrayedMachines",
        message: format!(
            "{} machine(s) were created for the ControlPlane, or carry an owner reference of it or its hook, but not \
             the labels of a control plane machine: {}; {remedy}",
            state.strayed.len(),
            state.strayed.join(", ")
        ),
    })
}

/// The machines that another object controls.
fn foreign(state: &State) -> Option<Degradation> {
    let named = |machine: &MachineState| match &machine.owner {
        Owner::Foreign(owner) => Some(format!("{} ({owner})", machine.name())),
        Owner::None | Owner::Ours | Owner::Former { .. } => None,
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

/// A field of the template that the API server does not store, or that a machine which was created
/// from it does not have. Another machine would not have it either.
fn template_not_stored(state: &State) -> Option<Degradation> {
    let machines = state.standing().filter(|machine| !machine.lost.is_empty());
    let machines: Vec<String> = machines
        .map(|machine| format!("{} ({})", machine.name(), in_words(&machine.lost)))
        .collect();
    let reason = |message: String| Degradation {
        reason: TEMPLATE_NOT_STORED,
        message,
    };
    if !machines.is_empty() {
        return Some(reason(format!(
            "{} machine(s) were created from spec.providerSpec and do not have its fields: {}; correct it, or the \
             webhook that changes machines, and delete these machines. No machine is replaced before",
            machines.len(),
            machines.join(", ")
        )));
    }
    let lost = &state.template.lost;
    (!lost.is_empty() && state.standing().any(|machine| !machine.is_current())).then(|| {
        reason(format!(
            "The API server does not store spec.providerSpec as it is: {}; correct it, or the webhook that changes \
             machines. No machine is replaced before",
            in_words(lost)
        ))
    })
}

//! The machine of a creation, and the changes of a machine in place.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::precondition;
use crate::api::kinds::MACHINES;
use crate::api::machine_openshift_io::control_plane::{API_VERSION as OWNER_VERSION, KIND as OWNER_KIND};
use crate::api::machine_openshift_io::machine::{API_VERSION, KIND, Machine};
use crate::api::meta::{ObjectMeta, OwnerReference};
use crate::control_plane::action::{REVISION, Step};
use crate::control_plane::spec::Spec;
use crate::control_plane::state::{MachineState, State};
use crate::cpms::action::Action;
use crate::cpms::changes::revision;
use crate::cpms::created_from::provider_spec;
use crate::cpms::domains::{DomainError, FailureDomain};
use crate::cpms::indexes::of_name;
use crate::model::derived_suffix;

/// The owner reference of the ControlPlane on its machines.
fn owner_reference(spec: &Spec) -> OwnerReference {
    OwnerReference {
        api_version: OWNER_VERSION.to_owned(),
        kind: OWNER_KIND.to_owned(),
        name: spec.name.clone(),
        uid: spec.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A new machine in a failure domain.
///
/// Its name is derived, so that a repeated request cannot create a second machine: cluster, role,
/// five characters, and the lowest number that no machine has, as a ControlPlaneMachineSet names
/// the machines of an index.
pub(super) fn made(spec: &Spec, state: &State, domain: Option<&FailureDomain>) -> Result<Machine, DomainError> {
    let infrastructure = state.observed.infrastructure.as_deref();
    let sent = provider_spec(&spec.template.provider_spec, domain, infrastructure)?;
    let mut machine_spec = spec.template.machine_spec.clone();
    machine_spec.provider_spec.value = Some(sent);
    let own = revision(&spec.template.provider_spec, spec.comparison());
    Ok(Machine {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata: ObjectMeta {
            name: Some(name(spec, state)),
            namespace: Some(spec.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            labels: spec.template.labels.clone(),
            annotations: BTreeMap::from([(REVISION.to_owned(), own)]),
            owner_references: vec![owner_reference(spec)],
            ..ObjectMeta::default()
        },
        spec: machine_spec.into(),
        ..Machine::default()
    })
}

fn name(spec: &Spec, state: &State) -> String {
    let taken: BTreeSet<&str> = state
        .observed
        .machines
        .iter()
        .map(|machine| machine.metadata.name())
        .collect();
    let used: BTreeSet<u32> = state
        .machines
        .iter()
        .filter_map(|machine| of_name(machine.name()))
        .collect();
    let number = (0..).find(|number| !used.contains(number)).unwrap_or_default();
    // The newest machine distinguishes this creation from an earlier one of the same number.
    let newest = state
        .machines
        .last()
        .map_or("", |machine| machine.machine.metadata.uid());
    let derived = |attempt: usize| {
        let parts = [&*spec.uid, &*number.to_string(), newest, &*attempt.to_string()];
        let suffix = derived_suffix(&parts);
        format!("{}-{}-{suffix}-{number}", spec.template.cluster(), spec.template.role())
    };
    let mut attempts = (0..=taken.len()).map(derived);
    let free = attempts.find(|name| !taken.contains(name.as_str()));
    free.unwrap_or_else(|| derived(taken.len() + 1))
}

/// Adopts a machine without a controller.
pub(super) fn adoption(spec: &Spec, machine: &MachineState) -> Step {
    let mut owners = machine.machine.metadata.owner_references.clone();
    owners.push(owner_reference(spec));
    let because = String::from("it has no controller");
    patch(spec, machine, &[("ownerReferences", json!(owners))], because)
}

/// Marks a machine with an annotation.
pub(super) fn mark(spec: &Spec, machine: &MachineState, annotation: &str) -> Step {
    let because = String::from("it is outdated");
    patch(
        spec,
        machine,
        &[("annotations", json!({ (annotation): "true" }))],
        because,
    )
}

fn patch(spec: &Spec, machine: &MachineState, fields: &[(&str, Value)], because: String) -> Step {
    let precondition = precondition(machine);
    let mut metadata: Map<String, Value> = precondition.metadata();
    for (field, value) in fields {
        metadata.insert((*field).to_owned(), value.clone());
    }
    Step {
        action: Action::Patch {
            patch: json!({ "metadata": metadata }),
            failure_domain: machine.domain.clone(),
        },
        subject: MACHINES.object(&spec.namespace, machine.name()),
        index: None,
        because,
        precondition: Some(precondition),
    }
}

//! The machine of a creation, and the changes of a machine in place.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::api::machine_openshift_io::control_plane::{API_VERSION as OWNER_VERSION, KIND as OWNER_KIND};
use crate::api::machine_openshift_io::machine::Machine;
use crate::api::meta::{ObjectMeta, OwnerReference};
use crate::control_plane::action::Step;
use crate::control_plane::hook;
use crate::control_plane::spec::Spec;
use crate::control_plane::state::{MachineState, Owner, State};
use crate::control_plane::step::patch;
use crate::cpms::created_from::{CREATED_FROM, CreatedFrom, provider_spec};
use crate::cpms::domains::{DomainError, FailureDomain};
use crate::cpms::indexes::{RELEASED, of_name};
use crate::cpms::pending_creates::{is_requested, last_created};
use crate::cpms::plan::machine_of_template;
use crate::model::derived_suffix;

/// The owner reference of the ControlPlane on its objects.
pub(in crate::control_plane) fn owner_reference(spec: &Spec) -> OwnerReference {
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
    let name = name(spec, state);
    let record = CreatedFrom::of(&sent, domain, &name, &spec.uid);
    let meta = ObjectMeta {
        name: Some(name),
        annotations: BTreeMap::from([(CREATED_FROM.to_owned(), record.text())]),
        owner_references: vec![owner_reference(spec)],
        ..ObjectMeta::default()
    };
    let mut machine = machine_of_template(&spec.template, &spec.namespace, meta, sent);
    if state.manages_members() {
        let hooks = machine.spec.lifecycle_hooks.get_or_insert_default();
        hooks.pre_drain.push(hook::hook());
    }
    Ok(machine)
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
    // The newest machine distinguishes this creation from an earlier one of the same number, and so
    // does the last machine of the number: a platform that finds instances by name may take the
    // instance of an earlier machine of the same name for that of the new machine.
    let newest = state
        .machines
        .last()
        .map_or("", |machine| machine.machine.metadata.uid());
    let earlier = last_created(&spec.annotations, number);
    let derived = |attempt: usize| {
        let (number_text, attempt) = (number.to_string(), attempt.to_string());
        let mut parts = vec![&*spec.uid, &*number_text, newest, &*attempt];
        parts.extend(earlier.as_deref());
        let suffix = derived_suffix(&parts);
        format!("{}-{}-{suffix}-{number}", spec.template.cluster(), spec.template.role())
    };
    let mut free = (0..=taken.len())
        .map(derived)
        .filter(|name| !taken.contains(name.as_str()));
    // A machine of an earlier attempt may have been deleted after a later name was requested.
    let requested = free.clone().find(|name| is_requested(&state.observed, number, name));
    requested
        .or_else(|| free.next())
        .unwrap_or_else(|| derived(taken.len() + 1))
}

/// Adopts a machine without a controller, or with an owner reference to a former ControlPlane: the
/// garbage collector deletes the dependents of an owner that does not exist. A machine that this
/// ControlPlane released is left alone: the ControlPlane is being deleted, also if this snapshot
/// does not show it.
pub(super) fn adoption(spec: &Spec, machine: &MachineState) -> Option<Step> {
    let meta = &machine.machine.metadata;
    let released = meta.annotations.get(RELEASED);
    if released.is_some_and(|uid| *uid == spec.uid) {
        return None;
    }
    let mut owners = meta.owner_references.clone();
    let because = match &machine.owner {
        Owner::None => String::from("it has no controller"),
        Owner::Former { uid } => {
            owners.retain(|owner| owner.uid != *uid);
            format!("its owner reference names a deleted ControlPlane with UID {uid}")
        }
        Owner::Ours | Owner::Foreign(_) => return None,
    };
    owners.retain(|owner| owner.uid != spec.uid);
    owners.push(owner_reference(spec));
    let mut fields = vec![("ownerReferences", json!(owners))];
    if released.is_some() {
        fields.push(("annotations", json!({ RELEASED: null })));
    }
    Some(patch(spec, machine, &fields, None, because))
}

/// Marks a machine with an annotation.
pub(super) fn mark(spec: &Spec, machine: &MachineState, annotation: &str) -> Step {
    let because = String::from("it is outdated");
    patch(
        spec,
        machine,
        &[("annotations", json!({ (annotation): "true" }))],
        None,
        because,
    )
}

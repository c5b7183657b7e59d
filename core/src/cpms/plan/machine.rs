//! The machine of a creation, and the in-place repair of a machine.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::in_place;
use crate::api::machine_openshift_io::control_plane_machine_set::{API_VERSION as SET_VERSION, KIND as SET_KIND};
use crate::api::machine_openshift_io::machine::{API_VERSION, KIND, Machine};
use crate::api::meta::{ObjectMeta, OwnerReference};
use crate::cpms::action::{Action, Step, machine_ref};
use crate::cpms::created_from::{self, CREATED_FROM, CreatedFrom};
use crate::cpms::domains::DomainError;
use crate::cpms::indexes::{FROM_TEMPLATE, INDEX, RELEASED, REPLACES};
use crate::cpms::machine_state::{MachineState, Owner};
use crate::cpms::pending_creates;
use crate::cpms::spec::{Spec, Template};
use crate::cpms::state::State;
use crate::model::{Precondition, derived_suffix};

/// The owner reference of the set on its machines.
pub fn owner_reference(spec: &Spec) -> OwnerReference {
    OwnerReference {
        api_version: SET_VERSION.to_owned(),
        kind: SET_KIND.to_owned(),
        name: spec.name.clone(),
        uid: spec.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The complete machine for an index. Its name is derived: the prefix, then five characters
/// computed from the set, the index, the replaced machine and the number of names that exist, then
/// the index. If no machine is replaced, the name of the last machine for the empty index takes its
/// place. After a request without an answer, the same name is requested again.
pub fn made_machine(
    spec: &Spec,
    state: &State,
    index: u32,
    replaces: Option<&MachineState>,
) -> Result<Machine, DomainError> {
    let domain = state.placement.get(&index);
    let infrastructure = state.observed.infrastructure.as_deref();
    let provider_spec = created_from::provider_spec(&spec.template.provider_spec, domain, infrastructure)?;
    let mut annotations = in_place::annotations(spec);
    if let Some(record) = in_place::record_of_new(spec) {
        annotations.insert(FROM_TEMPLATE.to_owned(), record);
    }
    let name = match (replaces, unanswered(spec, state, index)) {
        // Another name would be a second machine if the first is still created.
        (None, Some(sent)) => {
            let replaced = sent.metadata.annotations.get_key_value(REPLACES);
            annotations.extend(replaced.map(|(key, uid)| (key.clone(), uid.clone())));
            sent.metadata.name().to_owned()
        }
        _ => name(spec, state, index, replaces),
    };
    if let Some(replaced) = replaces {
        annotations.insert(REPLACES.to_owned(), replaced.uid.clone());
    }
    let record = CreatedFrom::of(&provider_spec, domain, &name, &spec.uid);
    annotations.insert(CREATED_FROM.to_owned(), record.text());
    let meta = ObjectMeta {
        name: Some(name),
        annotations,
        owner_references: vec![owner_reference(spec)],
        ..ObjectMeta::default()
    };
    Ok(machine_of_template(
        &spec.template,
        &spec.namespace,
        meta,
        provider_spec,
    ))
}

/// A machine of a template: its labels and its spec, with the provider spec that is sent.
pub(crate) fn machine_of_template(
    template: &Template,
    namespace: &str,
    meta: ObjectMeta,
    provider_spec: Value,
) -> Machine {
    let mut machine_spec = template.machine_spec.clone();
    machine_spec.provider_spec.value = Some(provider_spec);
    // An instance id belongs to one machine.
    machine_spec.provider_id = None;
    Machine {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
            labels: template.labels.clone(),
            ..meta
        },
        spec: machine_spec.into(),
        ..Machine::default()
    }
}

/// The machine of an index that this set requested, and that may still be created, although the
/// machine that it replaces was deleted meanwhile.
fn unanswered<'a>(spec: &Spec, state: &'a State, index: u32) -> Option<&'a Machine> {
    let ours = |sent: &Machine| sent.metadata.controller().is_some_and(|owner| owner.uid == spec.uid);
    let mut sent = state.observed.unanswered.iter().rev();
    let gone = |sent: &Machine| !state.observed.has_machine(sent.metadata.name());
    let sent = sent.find(|sent| sent.index == index && ours(&sent.machine) && gone(&sent.machine))?;
    Some(&sent.machine)
}

fn name(spec: &Spec, state: &State, index: u32, replaces: Option<&MachineState>) -> String {
    let taken: BTreeSet<&str> = state
        .observed
        .machines
        .iter()
        .map(|machine| machine.metadata.name())
        .collect();
    let prefix = spec.machine_name_prefix();
    let (number, replaced) = (index.to_string(), replaces.map_or("", |machine| machine.uid.as_str()));
    // A platform that finds instances by name may take the instance of an earlier machine of the
    // same name for that of the new machine.
    let earlier = match replaces {
        Some(_) => None,
        None => pending_creates::last_created(&spec.annotations, index),
    };
    let derived = |attempt: usize| {
        let attempt = attempt.to_string();
        let mut parts = vec![spec.uid.as_str(), &number, replaced, &attempt];
        parts.extend(earlier.as_deref());
        let suffix = derived_suffix(&parts);
        format!("{prefix}-{suffix}-{index}")
    };
    // A name exists if an earlier attempt failed and is still being deleted. One more attempt than
    // there are machines always finds a free name, unless two attempts give the same five
    // characters.
    let mut free = (0..=taken.len())
        .map(derived)
        .filter(|name| !taken.contains(name.as_str()));
    // An earlier attempt may have been deleted after a later name was requested, which may still be
    // created (seed 34815).
    let requested = free
        .clone()
        .find(|name| pending_creates::is_requested(&state.observed, index, name));
    requested
        .or_else(|| free.next())
        .unwrap_or_else(|| derived(taken.len() + 1))
}

/// The patch that repairs a machine in place: its owner, its recorded index, and the parts of the
/// template that need no new machine.
///
/// A degraded set may be wrong about which machines are its own, and adopts and changes none. It
/// only takes over a machine whose owner reference names a former set: the garbage collector
/// deletes the dependents of an owner that does not exist.
pub(super) fn repair(spec: &Spec, state: &State, machine: &MachineState, is_degraded: bool) -> Option<Step> {
    if machine.is_deleting() || matches!(machine.owner, Owner::Foreign { .. }) {
        return None;
    }
    if is_degraded && !matches!(machine.owner, Owner::Former { .. }) {
        return None;
    }
    let observed = state
        .observed
        .machines
        .iter()
        .find(|candidate| candidate.metadata.name() == machine.name)?;
    let meta = &observed.metadata;
    let mut changes = Map::new();
    let mut because = Vec::new();
    let released = meta.annotations.get(RELEASED);
    if machine.owner != Owner::Ours && released.is_some_and(|uid| *uid == spec.uid) {
        // The set is being deleted, also if this snapshot does not show it. An owner reference
        // would outlive it.
        return None;
    }
    if machine.owner != Owner::Ours {
        let mut owners: Vec<OwnerReference> = meta.owner_references.clone();
        if let Owner::Former { uid } = &machine.owner {
            owners.retain(|owner| owner.uid != *uid);
            because.push(format!("its owner reference names a deleted set with UID {uid}"));
        } else {
            because.push("it has no owner".to_owned());
        }
        owners.retain(|owner| owner.uid != spec.uid);
        owners.push(owner_reference(spec));
        changes.insert("ownerReferences".to_owned(), json!(owners));
    }
    let wanted = if is_degraded {
        in_place::InPlace::default()
    } else {
        in_place::differences(spec, observed)
    };
    let (labels, mut annotations) = (wanted.labels, wanted.annotations);
    if released.is_some() && !changes.is_empty() {
        annotations.insert(RELEASED.to_owned(), Value::Null);
    }
    because.extend(wanted.because);
    if !machine.index_recorded && !is_degraded {
        annotations.insert(INDEX.to_owned(), json!(machine.index.to_string()));
        because.push(format!("its name has no index; the index is {}", machine.index));
    }
    for (field, pairs) in [("labels", labels), ("annotations", annotations)] {
        if !pairs.is_empty() {
            changes.insert(field.to_owned(), Value::Object(pairs));
        }
    }
    if changes.is_empty() && wanted.spec.is_empty() {
        return None;
    }
    let precondition = Precondition {
        uid: machine.uid.clone(),
        resource_version: machine.resource_version.clone(),
    };
    let mut metadata = precondition.metadata();
    metadata.extend(changes);
    let mut patch = json!({ "metadata": metadata });
    if !wanted.spec.is_empty()
        && let Some(object) = patch.as_object_mut()
    {
        object.insert("spec".to_owned(), Value::Object(wanted.spec));
    }
    Some(Step {
        action: Action::Patch {
            patch,
            failure_domain: machine.domain.clone(),
        },
        subject: machine_ref(&spec.namespace, &machine.name),
        index: Some(machine.index),
        because: format!("machine {}: {}", machine.name, because.join(", ")),
        precondition: Some(precondition),
    })
}

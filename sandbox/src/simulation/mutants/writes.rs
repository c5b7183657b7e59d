//! How a bug changes the writes of the controller: the API server executes another write, or none.

use capstan::controllers::GENERATED;
use capstan_core::cpms::indexes::REPLACES;
use serde_json::{Value, json};

use crate::simulation::engine::port::Call;
use crate::simulation::invariants::moment::index_of;
use crate::simulation::machine_api::kinds::{MACHINE, SET, machine as machine_key};
use crate::simulation::machine_api::objects::PREFIX;
use crate::simulation::machine_api::state::ControlPlane;

use super::catalogue::Mutant;

impl Mutant {
    /// Alters a write of the controller, the one with this number. Returns whether it is executed
    /// at all.
    pub(crate) fn write(self, call: &mut Call, environment: &ControlPlane, number: u64) -> bool {
        let machines = &environment.machines;
        if let Call::Create(key, machine) = call
            && key.kind == MACHINE
            && let Some(other) = self.instead_of(machine, environment)
        {
            let Some(deletion) = other else { return false };
            *call = deletion;
            return true;
        }
        match call {
            Call::Create(key, machine) if key.kind == MACHINE => {
                if let Some(name) = self.name(machine, machines.len(), number) {
                    put(machine, "/metadata", "name", name.clone().into());
                    key.name = name;
                }
                let zone = machine.pointer_mut("/spec/providerSpec/value/placement/availabilityZone");
                if let (Self::FirstDomain, Some(zone)) = (self, zone) {
                    *zone = "us-east-1a".into();
                }
            }
            Call::Patch { key, status: false, .. } if key.kind == MACHINE => self.patch_machine(call, environment),
            Call::Patch {
                key,
                status: false,
                patch,
            } if key.kind == SET && self == Self::TemplateOverwritten => {
                let value = json!({"instanceType": "m6i.metal"});
                let template =
                    json!({"machines_v1beta1_machine_openshift_io": {"spec": {"providerSpec": {"value": value}}}});
                put(patch, "", "spec", json!({ "template": template }));
            }
            Call::Patch {
                key,
                status: true,
                patch,
            } if key.kind == SET => {
                self.patch_status(patch, number);
                return self != Self::StatusForgotten;
            }
            Call::Delete {
                key,
                uid,
                resource_version,
            } if self == Self::NewestDeleted => {
                let name = &mut key.name;
                let same = machines
                    .values()
                    .filter(|one| index(one.metadata.name()) == index(name));
                if let Some(newest) = same.max_by_key(|machine| machine.metadata.creation_timestamp) {
                    uid.clone_from(&newest.metadata.uid);
                    resource_version.clone_from(&newest.metadata.resource_version);
                    newest.metadata.name().clone_into(name);
                }
            }
            Call::Delete { .. } => return self != Self::DeletionForgotten,
            Call::Apply { force, object, .. } => {
                *force = self == Self::GeneratorForces;
                match self {
                    Self::GeneratesActive => put(object, "/spec", "state", "Active".into()),
                    Self::GeneratorRestless => {
                        put(object, "/metadata/annotations", GENERATED, number.to_string().into());
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        true
    }

    /// What is done instead of the creation of a machine; `Some(None)`: nothing.
    fn instead_of(self, machine: &Value, environment: &ControlPlane) -> Option<Option<Call>> {
        let moment = environment.moment();
        let repairs = replaced(machine).is_none();
        match self {
            Self::FailureStopsRepair if repairs && moment.has_failed_replacement() => Some(None),
            Self::IndexSharedFirst if repairs => {
                let shared = environment.machines.values().find(|one| {
                    let live = moment.live(index_of(one)).into_iter();
                    moment.is_ready(one) && live.filter(|(_, other)| moment.is_ready(other)).count() > 1
                })?;
                let key = machine_key(shared.metadata.name());
                Some(Some(Call::Delete {
                    key,
                    uid: None,
                    resource_version: None,
                }))
            }
            _ => None,
        }
    }

    /// The name that a new machine gets instead of its own.
    fn name(self, machine: &Value, count: usize, number: u64) -> Option<String> {
        let name = machine.pointer("/metadata/name").and_then(Value::as_str)?;
        if self.uses_random_names() {
            return Some(format!("{PREFIX}-r{number:04}-{}", index(name).unwrap_or("0")));
        }
        if self == Self::NameReused && replaced(machine).is_none() {
            return Some(format!("{PREFIX}-again-{}", index(name).unwrap_or("0")));
        }
        (self == Self::NextIndex).then(|| format!("{PREFIX}-next-{count}"))
    }

    fn patch_machine(self, call: &mut Call, environment: &ControlPlane) {
        let Call::Patch { key, patch, .. } = call else {
            return;
        };
        match self {
            Self::HookRemoved => put(patch, "", "spec", json!({"lifecycleHooks": null})),
            Self::EditedInPlace => {
                let value = json!({"instanceType": "m7i.xlarge"});
                put(patch, "", "spec", json!({"providerSpec": {"value": value}}));
            }
            Self::FormerSetAdopts => {
                let owner = patch.pointer_mut("/metadata/ownerReferences/0/uid");
                if let (Some(owner), Some(former)) = (owner, &environment.evidence.former_set) {
                    *owner = former.as_str().into();
                }
            }
            Self::FinalizersOverwritten => put(patch, "/metadata", "finalizers", json!([])),
            Self::SetTakesMachines => {
                let owners = patch.pointer("/metadata/ownerReferences").and_then(Value::as_array);
                if owners.is_some_and(Vec::is_empty) {
                    *call = Call::Delete {
                        key: key.clone(),
                        uid: None,
                        resource_version: None,
                    };
                }
            }
            _ => {}
        }
    }

    fn patch_status(self, patch: &mut Value, number: u64) {
        match self {
            Self::TransitionsMove => {
                let conditions = patch.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
                for (at, condition) in conditions.into_iter().flatten().enumerate() {
                    let time = format!("2026-01-01T{:02}:{:02}:{:02}Z", number / 60 % 24, number % 60, at % 60);
                    put(condition, "", "lastTransitionTime", time.into());
                }
            }
            Self::ProgressStops => {
                let conditions = patch.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
                let mut waiting = conditions.into_iter().flatten();
                let waits = |condition: &&mut Value| condition.get("reason") == Some(&"WaitingForEtcd".into());
                if let Some(condition) = waiting.find(waits) {
                    put(condition, "", "status", "False".into());
                    put(condition, "", "reason", "AllReplicasUpdated".into());
                }
            }
            Self::GenerationAhead => {
                if let Some(generation) = patch.pointer_mut("/status/observedGeneration") {
                    *generation = json!(generation.as_i64().unwrap_or(0) + 1);
                }
            }
            _ => {}
        }
    }
}

/// The uid of the machine that a new machine replaces.
fn replaced(machine: &Value) -> Option<&Value> {
    machine.pointer("/metadata/annotations")?.get(REPLACES)
}

/// The number at the end of a name.
fn index(name: &str) -> Option<&str> {
    name.rsplit_once('-').map(|(_, index)| index)
}

fn put(object: &mut Value, pointer: &str, field: &str, value: Value) {
    if let Some(parent) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        parent.insert(field.to_owned(), value);
    }
}

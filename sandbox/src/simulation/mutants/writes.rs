//! How a bug changes the writes of the controller: the API server executes another write, or none.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan::controllers::GENERATED;
use capstan_core::api::machine_openshift_io::machine::Machine;
use serde_json::{Value, json};

use crate::simulation::engine::port::Call;
use crate::simulation::machine_api::kinds::{MACHINE, SET};
use crate::simulation::machine_api::objects::PREFIX;

use super::catalogue::Mutant;

impl Mutant {
    /// Alters a write of the controller, the one with this number. Returns whether it is executed
    /// at all.
    pub(crate) fn write(self, call: &mut Call, machines: &BTreeMap<String, Arc<Machine>>, number: u64) -> bool {
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
            Call::Patch { key, status: false, .. } if key.kind == MACHINE => self.patch_machine(call),
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

    /// The name that a new machine gets instead of its own.
    fn name(self, machine: &Value, count: usize, number: u64) -> Option<String> {
        let name = machine.pointer("/metadata/name").and_then(Value::as_str)?;
        if self.uses_random_names() {
            return Some(format!("{PREFIX}-r{number:04}-{}", index(name).unwrap_or("0")));
        }
        (self == Self::NextIndex).then(|| format!("{PREFIX}-next-{count}"))
    }

    fn patch_machine(self, call: &mut Call) {
        let Call::Patch { key, patch, .. } = call else {
            return;
        };
        match self {
            Self::HookRemoved => put(patch, "", "spec", json!({"lifecycleHooks": null})),
            Self::EditedInPlace => {
                let value = json!({"instanceType": "m7i.xlarge"});
                put(patch, "", "spec", json!({"providerSpec": {"value": value}}));
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
            Self::GenerationAhead => {
                if let Some(generation) = patch.pointer_mut("/status/observedGeneration") {
                    *generation = json!(generation.as_i64().unwrap_or(0) + 1);
                }
            }
            _ => {}
        }
    }
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

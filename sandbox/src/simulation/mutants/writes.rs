//! The lies in what the controller writes: in its name something else is done, or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan::controllers::{GENERATED, Object};
use capstan_core::api::machine_openshift_io::machine::Machine;
use serde_json::{Value, json};

use crate::simulation::objects::PREFIX;
use crate::simulation::port::Question;

use super::Mutant;

impl Mutant {
    /// What the controller that carries the bug writes. Returns whether it is written at all.
    pub(in crate::simulation) fn write(
        self,
        question: &mut Question,
        machines: &BTreeMap<String, Arc<Machine>>,
        number: u64,
    ) -> bool {
        match question {
            Question::Create(what @ Object::Machine(_), machine) => {
                if let Some(name) = self.name(machine, machines.len(), number) {
                    put(machine, "/metadata", "name", name.clone().into());
                    *what = Object::Machine(name);
                }
                let zone = machine.pointer_mut("/spec/providerSpec/value/placement/availabilityZone");
                if let (Self::FirstDomain, Some(zone)) = (self, zone) {
                    *zone = "us-east-1a".into();
                }
            }
            Question::Patch(Object::Machine(_), false, _) => self.patch_machine(question),
            Question::Patch(Object::Set(_), false, patch) if self == Self::TemplateOverwritten => {
                let value = json!({"instanceType": "m6i.metal"});
                let template =
                    json!({"machines_v1beta1_machine_openshift_io": {"spec": {"providerSpec": {"value": value}}}});
                put(patch, "", "spec", json!({ "template": template }));
            }
            Question::Patch(Object::Set(_), true, patch) => {
                self.patch_status(patch, number);
                return self != Self::StatusForgotten;
            }
            Question::Delete(name, uid, version) if self == Self::NewestDeleted => {
                let same = machines
                    .values()
                    .filter(|one| index(one.metadata.name()) == index(name));
                if let Some(newest) = same.max_by_key(|machine| machine.metadata.creation_timestamp) {
                    uid.clone_from(&newest.metadata.uid);
                    version.clone_from(&newest.metadata.resource_version);
                    newest.metadata.name().clone_into(name);
                }
            }
            Question::Delete(..) => return self != Self::DeletionForgotten,
            Question::Apply(set, force) => {
                *force = self == Self::GeneratorForces;
                match self {
                    Self::GeneratesActive => put(set, "/spec", "state", "Active".into()),
                    Self::GeneratorRestless => put(set, "/metadata/annotations", GENERATED, number.to_string().into()),
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
        if self.rolls_names() {
            return Some(format!("{PREFIX}-r{number:04}-{}", index(name).unwrap_or("0")));
        }
        (self == Self::NextIndex).then(|| format!("{PREFIX}-next-{count}"))
    }

    fn patch_machine(self, question: &mut Question) {
        let Question::Patch(Object::Machine(name), _, patch) = question else {
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
                    *question = Question::Delete(name.clone(), None, None);
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

//! What must hold after every change, when an instance is created or deleted, and at the end.

use capstan_core::authority::finalizers;
use capstan_core::authority::pair::{FullObject, Part};
use capstan_core::authority::spec::{Api, Kind};
use serde_json::Value;

use crate::simulation::engine::kinds::{KindId, ObjectKey};
use crate::simulation::engine::world::World;

use super::objects::{HEALTH_CHECK, INFRASTRUCTURE, MACHINE, MIRROR, MIRROR_SET, SET, TEMPLATE, WORKERS};
use super::objects::{of_cluster_api, of_machine_api};
use super::state::{BothApis, Role, is_owned, key, source};

/// The label that users edit.
pub(super) const EDIT: &str = "edit";

fn authority(object: Option<&FullObject>) -> Option<&str> {
    object?.text("/status/authoritativeAPI")
}

fn is_open(object: Option<&FullObject>) -> bool {
    object.is_some_and(|object| !object.member.is_paused())
}

impl World<BothApis> {
    /// A controller creates an instance, or finds the one that it created before.
    pub(super) fn launch(&mut self, role: Role, name: &str) -> String {
        if let Some(id) = self.environment.cloud.instances.get(name) {
            return id.clone();
        }
        self.judge_action(role, name, "creates");
        let id = format!("aws:///us-east-1a/i-{name}");
        let cloud = &mut self.environment.cloud;
        cloud.instances.insert(name.to_owned(), id.clone());
        // A Machine without an owner is made again after its deletion in Cluster API, by the table.
        let is_made_again = self.environment.lone.contains(name) && self.environment.doomed.contains(name);
        if !self.environment.cloud.created.insert(name.to_owned()) && !is_made_again {
            self.violate("B2", format!("the instance of {name} is created again by {role:?}"));
        }
        self.trace(|| format!("   {role:?} creates the instance of {name}"));
        id
    }

    /// A controller deletes an instance.
    pub(super) fn terminate(&mut self, role: Role, name: &str) {
        if self.environment.cloud.instances.remove(name).is_none() {
            return;
        }
        self.judge_action(role, name, "deletes");
        if !self.environment.doomed.contains(name) {
            let text = format!("the instance of {name} is deleted by {role:?}, and no request leads to that");
            self.violate("B3", text);
        }
        self.trace(|| format!("   {role:?} deletes the instance of {name}"));
    }

    /// B1: the API that acts on an instance is authoritative, or was before a migration that has
    /// not ended.
    fn judge_action(&mut self, role: Role, name: &str, does: &str) {
        let machine = self.machine(name);
        let wrong = match role {
            Role::MachineApi => Some("ClusterAPI"),
            _ => Some("MachineAPI"),
        };
        if machine.is_some() && authority(machine.as_ref()) == wrong {
            let text = format!("{role:?} {does} the instance of {name}, and the other API is authoritative");
            self.violate("B1", text);
        }
    }

    /// B1 and B5, after a change.
    pub(super) fn judge_now(&mut self, changed: &ObjectKey) {
        let name = changed.name.as_str();
        let of = |kind: KindId| changed.kind == kind;
        if of(MACHINE) || of(MIRROR) || of(INFRASTRUCTURE) {
            let (machine, mirror) = (self.machine(name), self.mirror(name));
            let infrastructure = self.get(&of_cluster_api(INFRASTRUCTURE, name));
            let both = is_open(mirror.as_ref()) || is_open(infrastructure.as_ref());
            if authority(machine.as_ref()) == Some("MachineAPI") && both {
                return self.violate("B1", format!("both APIs may act on Machine {name}"));
            }
            let held =
                |part, object: Option<&FullObject>| object.is_some_and(|object| finalizers::is_held(part, object));
            let is_held =
                held(Part::MachineApi, machine.as_ref()) || held(Part::Infrastructure, infrastructure.as_ref());
            if self.environment.cloud.instances.contains_key(name) && !is_held {
                self.violate("B5", format!("no finalizer holds the instance of {name}"));
            }
        } else if of(SET) || of(MIRROR_SET) {
            let set = self.get(&of_machine_api(SET, name));
            let mirror = self.get(&of_cluster_api(MIRROR_SET, name));
            if authority(set.as_ref()) == Some("MachineAPI") && is_open(mirror.as_ref()) {
                self.violate("B1", format!("both APIs may act on MachineSet {name}"));
            }
        } else if of(HEALTH_CHECK) || of(super::objects::MIRROR_CHECK) {
            let check = self.get(&key(HEALTH_CHECK, Api::MachineApi, name));
            let mirror = self.get(&key(HEALTH_CHECK, Api::ClusterApi, name));
            let judged = authority(check.as_ref()).is_some();
            if judged && is_open(check.as_ref()) && is_open(mirror.as_ref()) {
                self.violate("B1", format!("both APIs may act on MachineHealthCheck {name}"));
            }
        }
    }

    /// B4, B6, and B7.
    pub(super) fn judge_all(&mut self) {
        if let Some((invariant, text)) = self.wrong_at_end() {
            self.violate(invariant, text);
        }
    }

    fn wrong_at_end(&self) -> Option<(&'static str, String)> {
        for (kind, of) in [
            (MACHINE, Kind::Machine),
            (SET, Kind::MachineSet),
            (HEALTH_CHECK, Kind::MachineHealthCheck),
        ] {
            for object in self.of_kind(kind) {
                let name = object.member.name.clone();
                let found = self.pair_is_wrong(&object, kind, of);
                if let Some(text) = found {
                    return Some(("B6", format!("{} {name} {text}", of.title())));
                }
            }
        }
        for (name, value) in &self.environment.edits {
            let label = |object: &FullObject| object.member.labels.get(EDIT).cloned();
            let (machine, mirror) = (self.machine(name), self.mirror(name));
            // A paused Machine of Cluster API alone is what is left of a mirror. Its authoritative
            // Machine may have been deleted before the edit was copied.
            let is_alone = machine.is_none();
            let is_left = |object: &FullObject| is_alone && object.member.is_paused();
            for object in machine.iter().chain(mirror.as_ref().filter(|mirror| !is_left(mirror))) {
                if label(object).as_ref() != Some(value) {
                    let text = format!(
                        "{name} has the label {EDIT}={:?}, and a user set {value}",
                        label(object)
                    );
                    return Some(("B4", text));
                }
            }
        }
        self.instances_are_wrong().map(|text| ("B7", text))
    }

    /// Why a pair is not as it was requested.
    fn pair_is_wrong(&self, object: &FullObject, kind: KindId, of: Kind) -> Option<String> {
        let mirror = self.get(&key(kind, Api::ClusterApi, &object.member.name));
        let Some(mirror) = mirror else {
            return Some(String::from("has no mirror"));
        };
        let requested = object.text("/spec/authoritativeAPI");
        if object.text("/status/authoritativeAPI") != requested {
            return Some(format!(
                "is not migrated to {requested:?}: {:?}",
                object.value.pointer("/status")
            ));
        }
        if object.condition("Synchronized") != Some("True") {
            return Some(format!(
                "is not synchronized: {:?}",
                object.value.pointer("/status/conditions")
            ));
        }
        let is_open = !mirror.member.is_paused();
        if is_open != (requested == Some("ClusterAPI")) {
            return Some(String::from(
                "has a mirror that is paused although it is authoritative, or the reverse",
            ));
        }
        if of == Kind::MachineHealthCheck && object.member.is_paused() != is_open {
            return Some(String::from("is paused although it is authoritative, or the reverse"));
        }
        if of == Kind::MachineSet {
            let replicas = |object: &FullObject| object.value.pointer("/spec/replicas").cloned();
            if replicas(object) != replicas(&mirror) {
                return Some(String::from("has another number of replicas than its mirror"));
            }
            let template = mirror
                .text("/spec/template/spec/infrastructureRef/name")
                .unwrap_or_default();
            if self.get(&of_cluster_api(TEMPLATE, template)).is_none() {
                return Some(format!("refers to the template {template}, which does not exist"));
            }
        }
        None
    }

    fn instances_are_wrong(&self) -> Option<String> {
        let names = self.names();
        for name in &names {
            if self.environment.cloud.instances.contains_key(name) {
                continue;
            }
            if !self.environment.doomed.contains(name) {
                return Some(format!("Machine {name} has no instance"));
            }
            // Only the deletion of a Machine without an owner leaves the other one, by the table.
            if !self.environment.lone.contains(name) {
                return Some(format!("Machine {name} is left without its instance"));
            }
        }
        let lost = self
            .environment
            .cloud
            .instances
            .keys()
            .find(|name| !names.contains(name));
        if let Some(name) = lost {
            return Some(format!("the instance of {name} has no Machine"));
        }
        let set = self.get(&of_machine_api(SET, WORKERS));
        let api = set.as_ref().and_then(source).unwrap_or(Api::ClusterApi);
        let set = self.get(&key(SET, api, WORKERS))?;
        let wanted = set.value.pointer("/spec/replicas").and_then(Value::as_u64)?;
        let machines = self.of_kind(if api == Api::MachineApi { MACHINE } else { MIRROR });
        let owned = machines.iter().filter(|machine| is_owned(machine, set.uid())).count();
        (u64::try_from(owned).ok() != Some(wanted))
            .then(|| format!("the MachineSet of {} has {owned} of {wanted} Machines", api.title()))
    }
}

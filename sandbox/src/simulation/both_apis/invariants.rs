//! What must hold after every change, when an instance is created or deleted, and at the end.

use std::sync::Arc;

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

fn authority(object: Option<&Arc<FullObject>>) -> Option<&str> {
    object?.text("/status/authoritativeAPI")
}

fn is_open(object: Option<&Arc<FullObject>>) -> bool {
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
        if !self.environment.cloud.created.insert(name.to_owned()) && !self.is_made_again(name) {
            self.violate("B2", format!("the instance of {name} is created again by {role:?}"));
        }
        self.trace(|| format!("   {role:?} creates the instance of {name}"));
        id
    }

    /// Whether a Machine without an owner may get another instance: once after a user deleted it in
    /// Cluster API, which was authoritative. By the table, it is made again.
    fn is_made_again(&mut self, name: &str) -> bool {
        let is_deleted = self.environment.lone.get(name) == Some(&Api::ClusterApi);
        let is_deleting = |object: Option<Arc<FullObject>>| object.is_some_and(|object| object.member.deleting);
        if is_deleted && !is_deleting(self.machine(name)) && !is_deleting(self.mirror(name)) {
            self.environment.lone.remove(name);
            self.environment.doomed.remove(name);
        }
        is_deleted
    }

    /// A request deletes the instance of a Machine, and what was not copied from it.
    pub(super) fn doom(&mut self, name: &str) {
        self.environment.edits.remove(name);
        self.environment.doomed.insert(name.to_owned());
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
                |part, object: Option<&Arc<FullObject>>| object.is_some_and(|object| finalizers::is_held(part, object));
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
            for object in machine.iter().chain(&mirror) {
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

    /// Whether the table leaves a Machine without its instance: a user deleted the authoritative
    /// Machine, which had no owner. A mirror in Cluster API stays alone and paused. A mirror in the
    /// Machine API stays with the id of the instance, and its Machine is made again with that id.
    fn may_lack_its_instance(&self, name: &str) -> bool {
        let (machine, mirror) = (self.machine(name), self.mirror(name));
        let has_id = |machine: Arc<FullObject>| machine.text("/spec/providerID").is_some();
        match self.environment.lone.get(name) {
            Some(Api::MachineApi) => {
                machine.is_none() && mirror.is_some_and(|mirror| mirror.member.is_paused_by_sync())
            }
            Some(Api::ClusterApi) => machine.or(mirror).is_some_and(has_id),
            None => false,
        }
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
            if !self.may_lack_its_instance(name) {
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
        let api = set.as_deref().and_then(source).unwrap_or(Api::ClusterApi);
        let set = self.get(&key(SET, api, WORKERS))?;
        let wanted = set.value.pointer("/spec/replicas").and_then(Value::as_u64)?;
        let machines = self.of_kind(if api == Api::MachineApi { MACHINE } else { MIRROR });
        let owned: Vec<&Arc<FullObject>> = machines.iter().filter(|machine| is_owned(machine, set.uid())).collect();
        let is_dead =
            |machine: &&&Arc<FullObject>| !self.environment.cloud.instances.contains_key(&machine.member.name);
        if let Some(machine) = owned.iter().find(is_dead) {
            let name = &machine.member.name;
            return Some(format!(
                "the MachineSet of {} counts {name}, which has no instance",
                api.title()
            ));
        }
        let owned = owned.len();
        (u64::try_from(owned).ok() != Some(wanted))
            .then(|| format!("the MachineSet of {} has {owned} of {wanted} Machines", api.title()))
    }
}

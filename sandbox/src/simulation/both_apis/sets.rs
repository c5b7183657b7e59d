//! The MachineSet controllers and the health checks of both APIs.

use std::sync::Arc;

use capstan_core::authority::finalizers;
use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::Api;
use serde_json::{Value, json};

use crate::simulation::engine::kinds::ObjectKey;
use crate::simulation::engine::world::World;

use super::actors::{actor, key_of};
use super::autoscaler::is_marked;
use super::objects::{CLUSTER_API, INFRASTRUCTURE, MACHINE, MACHINE_API, MIRROR, MIRROR_SET, SET, TEMPLATE};
use super::objects::{of_cluster_api, of_machine_api};
use super::state::{BothApis, ReadObjects, Role, is_owned};

/// The Machines of a MachineSet, and how many it wants.
fn members<'a>(set: &FullObject, machines: &'a [Arc<FullObject>]) -> (Vec<&'a FullObject>, usize) {
    let machines = machines.iter().map(Arc::as_ref);
    let owned = machines.filter(|machine| is_owned(machine, set.uid()));
    let wanted = set.value.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    (owned.collect(), usize::try_from(wanted).unwrap_or_default())
}

/// The Machines that are not being deleted. Those that the autoscaler marked are last, because the
/// last ones are deleted first.
fn in_order<'a>(all: &[&'a FullObject], api: Api) -> Vec<&'a FullObject> {
    let alive = all.iter().copied().filter(|machine| !machine.member.deleting);
    let mut alive: Vec<&FullObject> = alive.collect();
    alive.sort_by_key(|machine| is_marked(machine, api));
    alive
}

fn owner(set: &FullObject) -> Value {
    json!([{"apiVersion": set.text("/apiVersion"), "kind": "MachineSet", "name": set.member.name,
        "uid": set.uid(), "controller": true, "blockOwnerDeletion": true}])
}

impl World<BothApis> {
    fn new_name(&mut self, set: &str) -> String {
        self.environment.counter += 1;
        format!("{set}-{}", self.environment.counter)
    }

    pub(super) fn machine_api_set(&mut self, name: &str, seen: &ReadObjects) -> bool {
        let Some(set) = seen.object.as_ref().filter(|set| !set.member.deleting) else {
            return false;
        };
        let role = Role::MachineApiSets;
        match set.text("/status/authoritativeAPI") {
            None => return false,
            Some("MachineAPI") => {}
            Some(_) => return self.report_pause(role, set, true),
        }
        if self.report_pause(role, set, false) {
            return true;
        }
        // Creations and deletions wait until the controller sees the earlier ones.
        let stale = self.of_kind(MACHINE).len() != seen.machines.len();
        let (all, wanted) = members(set, &seen.machines);
        let alive = in_order(&all, Api::MachineApi);
        if alive.len() < wanted && !stale {
            let machine = self.new_name(name);
            let template = set.value.pointer("/spec/template").cloned().unwrap_or_default();
            let at = |pointer: &str| template.pointer(pointer).cloned().unwrap_or_default();
            let body = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                "metadata": {"name": machine, "namespace": MACHINE_API, "labels": at("/metadata/labels"),
                    "ownerReferences": owner(set)},
                "spec": at("/spec")});
            let _answer = self.create(actor(role), &of_machine_api(MACHINE, &machine), body);
            self.doom_of_deleted(set, &of_machine_api(SET, name), &machine);
            return true;
        }
        if let Some(machine) = alive.get(wanted).filter(|_| !stale) {
            let name = machine.member.name.clone();
            self.doom(&name);
            let _answer = self.delete(actor(role), &of_machine_api(MACHINE, &name));
            return true;
        }
        false
    }

    pub(super) fn cluster_api_set(&mut self, name: &str, seen: &ReadObjects) -> bool {
        let Some(set) = &seen.object else { return false };
        let role = Role::ClusterApiSets;
        if !set.member.deleting && self.set_finalizer(role, set, finalizers::CLUSTER_API_SET, true) {
            return true;
        }
        let paused = set.member.is_paused();
        if self.report_pause(role, set, paused) || paused {
            return !paused;
        }
        let stale = self.of_kind(MIRROR).len() != seen.machines.len();
        let (all, wanted) = members(set, &seen.machines);
        let alive = in_order(&all, Api::ClusterApi);
        if set.member.deleting {
            if let Some(machine) = alive.first() {
                let machine = machine.member.name.clone();
                let _answer = self.delete(actor(role), &of_cluster_api(MIRROR, &machine));
                return true;
            }
            return all.is_empty() && self.set_finalizer(role, set, finalizers::CLUSTER_API_SET, false);
        }
        if alive.len() < wanted && !stale {
            return self.create_of_set(set, name);
        }
        if let Some(machine) = alive.get(wanted).filter(|_| !stale) {
            let name = machine.member.name.clone();
            self.doom(&name);
            let _answer = self.delete(actor(role), &of_cluster_api(MIRROR, &name));
            return true;
        }
        false
    }

    /// A controller that read its MachineSet before a user deleted it still creates a Machine. That
    /// Machine is deleted with the MachineSet.
    fn doom_of_deleted(&mut self, read: &FullObject, key: &ObjectKey, machine: &str) {
        let stored = self.get(key);
        let stays = stored.is_some_and(|set| set.uid() == read.uid() && !set.member.deleting);
        if !stays {
            self.doom(machine);
        }
    }

    /// The controller of Cluster API creates the infrastructure machine, and then the Machine.
    fn create_of_set(&mut self, set: &FullObject, name: &str) -> bool {
        let role = Role::ClusterApiSets;
        let template = set
            .text("/spec/template/spec/infrastructureRef/name")
            .unwrap_or_default();
        let Some(template) = self.get(&of_cluster_api(TEMPLATE, template)) else {
            return false;
        };
        let machine = self.new_name(name);
        self.doom_of_deleted(set, &of_cluster_api(MIRROR_SET, name), &machine);
        let at = |object: &FullObject, pointer: &str| object.value.pointer(pointer).cloned().unwrap_or_default();
        let infrastructure = json!({"apiVersion": template.text("/apiVersion"), "kind": "AWSMachine",
            "metadata": {"name": machine, "namespace": CLUSTER_API, "labels": at(set, "/spec/template/metadata/labels"),
                "ownerReferences": owner(set)},
            "spec": at(&template, "/spec/template/spec")});
        let _answer = self.create(actor(role), &of_cluster_api(INFRASTRUCTURE, &machine), infrastructure);
        let mut spec = at(set, "/spec/template/spec");
        if let Some(reference) = spec.pointer_mut("/infrastructureRef") {
            *reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachine", "name": machine});
        }
        let body = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": machine, "namespace": CLUSTER_API, "labels": at(set, "/spec/template/metadata/labels"),
                "ownerReferences": owner(set)},
            "spec": spec});
        let key = of_cluster_api(MIRROR, &machine);
        if self.create(actor(role), &key, body).is_ok()
            && let Some(owner) = self.get(&key)
        {
            let reference = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": machine,
                "uid": owner.uid(), "controller": true}]);
            let patch = json!({"metadata": {"ownerReferences": reference}});
            let _answer = self.patch(
                actor(role),
                &of_cluster_api(INFRASTRUCTURE, &machine),
                crate::api::Part::Main,
                patch,
            );
        }
        true
    }

    /// The health check of the Machine API deletes a Machine whose node does not work. It reads the
    /// pause annotation, and no status.
    pub(super) fn machine_api_check(&mut self, seen: &ReadObjects) -> bool {
        let Some(check) = seen.object.as_ref().filter(|check| !check.member.is_paused()) else {
            return false;
        };
        if check.text("/status/authoritativeAPI").is_none() {
            return false;
        }
        self.remediate(Role::MachineApiChecks, seen)
    }

    pub(super) fn cluster_api_check(&mut self, _name: &str, seen: &ReadObjects) -> bool {
        let Some(check) = &seen.object else { return false };
        let paused = check.member.is_paused();
        if self.report_pause(Role::ClusterApiChecks, check, paused) || paused {
            return !paused;
        }
        self.remediate(Role::ClusterApiChecks, seen)
    }

    fn remediate(&mut self, role: Role, seen: &ReadObjects) -> bool {
        let broken = &self.environment.broken;
        let is_of_cluster_api = role == Role::ClusterApiChecks;
        let victim = seen.machines.iter().find(|machine| {
            let owned = machine.member.owner().is_some_and(|owner| owner.kind == "MachineSet");
            // The health check of Cluster API leaves a paused Machine alone.
            let free = !is_of_cluster_api || !machine.member.is_paused();
            broken.contains(&machine.member.name) && owned && free && !machine.member.deleting
        });
        let Some(name) = victim.map(|machine| machine.member.name.clone()) else {
            return false;
        };
        self.doom(&name);
        let of = if is_of_cluster_api {
            Role::ClusterApi
        } else {
            Role::MachineApi
        };
        let _answer = self.delete(actor(role), &key_of(of, &name));
        true
    }
}

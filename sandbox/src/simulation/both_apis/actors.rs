//! The Machine controllers of both APIs and the infrastructure provider, with their pauses and
//! finalizers. A controller reads an object, and acts on it some time later.
//!
//! Each controller handles an object once at a time, as the controllers of both APIs do.

use capstan_core::authority::finalizers;
use capstan_core::authority::pair::FullObject;
use serde_json::{Value, json};

use crate::api::Part;
use crate::simulation::engine::kinds::ObjectKey;
use crate::simulation::engine::world::{Actor, World};

use super::objects::{HEALTH_CHECK, INFRASTRUCTURE, MACHINE, MIRROR, MIRROR_CHECK, MIRROR_SET, SET};
use super::objects::{of_cluster_api, of_machine_api};
use super::state::{BothApis, Event, ReadObjects, Role};

pub(super) const PROVIDER_FINALIZER: &str = "awsmachine.infrastructure.cluster.x-k8s.io";

/// The name under which a controller writes.
pub(super) fn actor(role: Role) -> Actor {
    Actor::Named(match role {
        Role::MachineApi | Role::MachineApiSets | Role::MachineApiChecks => "machine-api",
        Role::ClusterApi | Role::ClusterApiSets | Role::ClusterApiChecks => "cluster-api",
        Role::Provider => "provider",
    })
}

/// The key of the object that a controller handles.
pub(super) fn key_of(role: Role, name: &str) -> ObjectKey {
    match role {
        Role::MachineApi => of_machine_api(MACHINE, name),
        Role::MachineApiSets => of_machine_api(SET, name),
        Role::MachineApiChecks => of_machine_api(HEALTH_CHECK, name),
        Role::ClusterApi => of_cluster_api(MIRROR, name),
        Role::ClusterApiSets => of_cluster_api(MIRROR_SET, name),
        Role::ClusterApiChecks => of_cluster_api(MIRROR_CHECK, name),
        Role::Provider => of_cluster_api(INFRASTRUCTURE, name),
    }
}

impl World<BothApis> {
    /// Lets a controller read an object soon.
    pub(super) fn plan(&mut self, role: Role, name: &str) {
        let task = (role, name.to_owned());
        if !self.environment.pending.insert(task.clone()) {
            self.environment.changed.insert(task);
            return;
        }
        let lag = if self.is_calm() { 400 } else { 2000 };
        let delay = self.between(&["actor", name, "read"], 20, lag);
        self.schedule(delay, Event::Read(role, name.to_owned()));
    }

    /// Lets the controllers that watch an object read it.
    pub(super) fn plan_for(&mut self, key: &ObjectKey) {
        let name = key.name.as_str();
        let of = |kind| key.kind == kind;
        if of(MACHINE) {
            self.plan(Role::MachineApi, name);
            self.plan(Role::MachineApiSets, super::objects::WORKERS);
        } else if of(MIRROR) {
            self.plan(Role::ClusterApi, name);
            self.plan(Role::Provider, name);
            self.plan(Role::ClusterApiSets, super::objects::WORKERS);
        } else if of(INFRASTRUCTURE) {
            self.plan(Role::Provider, name);
            self.plan(Role::ClusterApi, name);
        } else if of(SET) {
            self.plan(Role::MachineApiSets, name);
        } else if of(MIRROR_SET) {
            self.plan(Role::ClusterApiSets, name);
        } else if of(HEALTH_CHECK) {
            self.plan(Role::MachineApiChecks, name);
        } else if of(MIRROR_CHECK) {
            self.plan(Role::ClusterApiChecks, name);
        }
    }

    /// A controller reads an object, and acts on it later.
    pub(super) fn read(&mut self, role: Role, name: String) {
        self.environment.changed.remove(&(role, name.clone()));
        let seen = ReadObjects {
            object: self.get(&key_of(role, &name)),
            other: match role {
                Role::ClusterApi => self.get(&of_cluster_api(INFRASTRUCTURE, &name)),
                Role::Provider => self.mirror(&name),
                _ => None,
            },
            machines: match role {
                Role::MachineApiSets | Role::MachineApiChecks => self.of_kind(MACHINE),
                Role::ClusterApiSets | Role::ClusterApiChecks => self.of_kind(MIRROR),
                _ => Vec::new(),
            },
        };
        let lag = if self.is_calm() { 200 } else { 3000 };
        let delay = self.between(&["actor", &name, "act"], 1, lag);
        self.schedule(delay, Event::Act(role, name, Box::new(seen)));
    }

    /// A controller acts on what it read, and reads again if something has changed since.
    pub(super) fn carry_out(&mut self, role: Role, name: &str, seen: &ReadObjects) {
        let task = (role, name.to_owned());
        let acted = match role {
            Role::MachineApi => self.machine_api(name, seen),
            Role::ClusterApi => self.cluster_api(name, seen),
            Role::Provider => self.provider(name, seen),
            Role::MachineApiSets => self.machine_api_set(name, seen),
            Role::ClusterApiSets => self.cluster_api_set(name, seen),
            Role::MachineApiChecks => self.machine_api_check(seen),
            Role::ClusterApiChecks => self.cluster_api_check(name, seen),
        };
        self.environment.pending.remove(&task);
        if self.environment.changed.remove(&task) || acted {
            self.plan(role, name);
        }
    }

    /// Sends a patch of the object as it was read. Returns that the controller acted.
    pub(super) fn patch_seen(&mut self, role: Role, object: &FullObject, part: Part, mut patch: Value) -> bool {
        if let Some(Value::Object(metadata)) = patch
            .as_object_mut()
            .map(|patch| patch.entry("metadata").or_insert(json!({})))
        {
            metadata.insert(String::from("resourceVersion"), object.resource_version().into());
        }
        let key = key_of(role, &object.member.name);
        let _answer = self.patch(actor(role), &key, part, patch);
        true
    }

    /// Reports whether the controller is paused. Returns whether it had to.
    pub(super) fn report_pause(&mut self, role: Role, object: &FullObject, paused: bool) -> bool {
        let status = if paused { "True" } else { "False" };
        if object.condition("Paused") == Some(status) {
            return false;
        }
        let stored = object.value.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = stored.cloned().unwrap_or_default();
        conditions.retain(|condition| condition.get("type") != Some(&"Paused".into()));
        let time = self.timestamp().to_string();
        conditions.push(
            json!({"type": "Paused", "status": status, "reason": "Simulated", "message": "",
            "lastTransitionTime": time}),
        );
        self.patch_seen(
            role,
            object,
            Part::Status,
            json!({"status": {"conditions": conditions}}),
        )
    }

    pub(super) fn set_finalizer(&mut self, role: Role, object: &FullObject, name: &str, present: bool) -> bool {
        if object.has_finalizer(name) == present || (present && object.member.deleting) {
            return false;
        }
        let mut list = object.finalizers();
        list.retain(|known| *known != name);
        list.extend(present.then_some(name));
        self.patch_seen(role, object, Part::Main, json!({"metadata": {"finalizers": list}}))
    }

    /// Whether a controller process is killed at this point.
    fn crashes(&mut self) -> bool {
        !self.is_calm() && self.between(&["actor", "crash"], 0, 9) == 0
    }

    fn machine_api(&mut self, name: &str, seen: &ReadObjects) -> bool {
        let Some(machine) = &seen.object else { return false };
        let role = Role::MachineApi;
        match machine.text("/status/authoritativeAPI") {
            None => return false,
            Some("MachineAPI") => {}
            Some(_) => return self.report_pause(role, machine, true),
        }
        if self.report_pause(role, machine, false) {
            return true;
        }
        let held = finalizers::MACHINE_API;
        if machine.member.deleting {
            if machine.has_finalizer(held) {
                self.terminate(role, name);
            }
            return self.set_finalizer(role, machine, held, false);
        }
        if self.set_finalizer(role, machine, held, true) {
            return true;
        }
        if machine.text("/spec/providerID").is_none() {
            let id = self.launch(role, name);
            if self.crashes() {
                return true;
            }
            return self.patch_seen(role, machine, Part::Main, json!({"spec": {"providerID": id}}));
        }
        if machine.text("/status/phase") != Some("Running") {
            return self.patch_seen(role, machine, Part::Status, json!({"status": {"phase": "Running"}}));
        }
        false
    }

    fn cluster_api(&mut self, name: &str, seen: &ReadObjects) -> bool {
        let Some(machine) = &seen.object else { return false };
        let role = Role::ClusterApi;
        // As upstream: the finalizer comes before the pause.
        if !machine.member.deleting && self.set_finalizer(role, machine, finalizers::CLUSTER_API, true) {
            return true;
        }
        let paused = machine.member.is_paused();
        if self.report_pause(role, machine, paused) || paused {
            return !paused;
        }
        match (machine.member.deleting, &seen.other) {
            (true, None) => self.set_finalizer(role, machine, finalizers::CLUSTER_API, false),
            (true, Some(infrastructure)) if !infrastructure.member.deleting => {
                let _answer = self.delete(actor(role), &of_cluster_api(INFRASTRUCTURE, name));
                false
            }
            (false, Some(infrastructure)) => self.copy_id(machine, infrastructure),
            _ => false,
        }
    }

    fn copy_id(&mut self, machine: &FullObject, infrastructure: &FullObject) -> bool {
        if infrastructure.value.pointer("/status/ready") != Some(&true.into()) {
            return false;
        }
        let id = infrastructure.text("/spec/providerID");
        if machine.text("/spec/providerID") != id {
            let patch = json!({"spec": {"providerID": id}});
            return self.patch_seen(Role::ClusterApi, machine, Part::Main, patch);
        }
        if machine.member.provisioned != Some(true) {
            let status = json!({"phase": "Running", "initialization": {"infrastructureProvisioned": true}});
            return self.patch_seen(Role::ClusterApi, machine, Part::Status, json!({"status": status}));
        }
        false
    }

    fn provider(&mut self, name: &str, seen: &ReadObjects) -> bool {
        let Some(machine) = &seen.object else { return false };
        let role = Role::Provider;
        let paused = machine.member.is_paused();
        if self.report_pause(role, machine, paused) || paused {
            return !paused;
        }
        if machine.member.deleting {
            if machine.has_finalizer(PROVIDER_FINALIZER) {
                self.terminate(role, name);
            }
            return self.set_finalizer(role, machine, PROVIDER_FINALIZER, false);
        }
        // The provider waits until its Machine owns it.
        let owns = |owner: &FullObject| super::state::is_owned(machine, owner.uid());
        if !seen.other.as_deref().is_some_and(owns) {
            return false;
        }
        if self.set_finalizer(role, machine, PROVIDER_FINALIZER, true) {
            return true;
        }
        if machine.text("/spec/providerID").is_none() {
            let id = self.launch(role, name);
            if self.crashes() {
                return true;
            }
            let spec = json!({"spec": {"providerID": id, "instanceID": id.rsplit('/').next()}});
            return self.patch_seen(role, machine, Part::Main, spec);
        }
        if machine.value.pointer("/status/ready") != Some(&true.into()) {
            let status = json!({"status": {"ready": true, "instanceState": "running"}});
            return self.patch_seen(role, machine, Part::Status, status);
        }
        false
    }
}

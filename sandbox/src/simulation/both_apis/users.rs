//! What users do. They request only what admission stores.

use std::sync::Arc;

use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::Api;
use serde_json::{Value, json};

use crate::api::Part;
use crate::simulation::engine::kinds::KindId;
use crate::simulation::engine::world::{Actor, World};

use super::invariants::EDIT;
use super::objects::{self, CHECK, HEALTH_CHECK, MACHINE, MIRROR, SET, TEMPLATE, WORKERS, of_cluster_api};
use super::state::{Act, BothApis, Event, is_owned, key, source};

const USER: Actor = Actor::Named("user");

impl World<BothApis> {
    pub(super) fn act_as_user(&mut self, act: &Act) {
        match act {
            Act::Migrate(position, api) => {
                if let Some(name) = self.name_at(*position) {
                    self.ask_for(MACHINE, &name, *api);
                }
            }
            Act::MigrateSet(api) => self.ask_for(SET, WORKERS, *api),
            Act::MigrateCheck(api) => self.ask_for(HEALTH_CHECK, CHECK, *api),
            Act::Revert(position, after) => self.revert(*position, *after),
            Act::Edit(position) => self.edit(*position),
            Act::EditSet => self.edit_set(),
            Act::Scale(replicas) => self.change_set(json!({"spec": {"replicas": replicas}})),
            Act::Autoscale(grows, delay) => self.autoscale(*grows, *delay),
            Act::Delete(position, api) => self.delete_machine(*position, *api),
            Act::DeleteMirrorSet => self.delete_set(false),
            Act::DeleteSet => self.delete_set(true),
            Act::Break(position) => {
                if let Some(name) = self.name_at(*position) {
                    self.environment.broken.insert(name);
                    for role in [
                        super::state::Role::MachineApiChecks,
                        super::state::Role::ClusterApiChecks,
                    ] {
                        self.plan(role, CHECK);
                    }
                }
            }
        }
    }

    /// Requests an API for an object, if admission stores the request.
    pub(super) fn ask_for(&mut self, kind: KindId, name: &str, api: Api) {
        let Some(object) = self.get(&key(kind, Api::MachineApi, name)) else {
            return;
        };
        let mirror = self.get(&key(kind, Api::ClusterApi, name));
        let is_deleting = object.member.deleting || mirror.is_some_and(|mirror| mirror.member.deleting);
        let Some(source) = source(&object) else { return };
        if source != api && is_deleting {
            return;
        }
        let patch = json!({"spec": {"authoritativeAPI": api.as_str()}});
        let _answer = self.patch(USER, &key(kind, Api::MachineApi, name), Part::Main, patch);
    }

    fn revert(&mut self, position: usize, after: i64) {
        let Some(name) = self.name_at(position) else { return };
        let Some(source) = self.machine(&name).as_deref().and_then(source) else {
            return;
        };
        self.ask_for(MACHINE, &name, source.other());
        self.schedule(after, Event::Request(name, source));
    }

    /// The authoritative object of a kind, while no migration runs. Both are locked then.
    pub(super) fn authoritative(&self, kind: KindId, name: &str) -> Option<(Api, Arc<FullObject>)> {
        let object = self.get(&key(kind, Api::MachineApi, name))?;
        let api = Api::parse(object.text("/status/authoritativeAPI")?)?;
        let found = self.get(&key(kind, api, name))?;
        (!found.member.deleting && !object.member.deleting).then_some((api, found))
    }

    fn edit(&mut self, position: usize) {
        let Some(name) = self.name_at(position) else { return };
        let Some((api, _)) = self.authoritative(MACHINE, &name) else {
            return;
        };
        self.environment.counter += 1;
        let value = format!("e{}", self.environment.counter);
        let mut patch = json!({"metadata": {"labels": {EDIT: value}}});
        if api == Api::MachineApi
            && let Some(fields) = patch.as_object_mut()
        {
            // A label of the node wins over one of the machine in Cluster API.
            fields.insert(String::from("spec"), json!({"metadata": {"labels": {EDIT: value}}}));
        }
        if self.patch(USER, &key(MACHINE, api, &name), Part::Main, patch).is_ok() {
            self.environment.edits.insert(name, value);
        }
    }

    fn change_set(&mut self, patch: Value) {
        if let Some((api, _)) = self.authoritative(SET, WORKERS) {
            let _answer = self.patch(USER, &key(SET, api, WORKERS), Part::Main, patch);
        }
    }

    fn edit_set(&mut self) {
        let Some((api, set)) = self.authoritative(SET, WORKERS) else {
            return;
        };
        self.environment.counter += 1;
        let instance = format!("m6i.{}xlarge", self.environment.counter);
        if api == Api::MachineApi {
            let value = json!({"providerSpec": {"value": {"instanceType": instance}}});
            return self.change_set(json!({"spec": {"template": {"spec": value}}}));
        }
        let used = set
            .text("/spec/template/spec/infrastructureRef/name")
            .unwrap_or_default();
        let Some(template) = self.get(&of_cluster_api(TEMPLATE, used)) else {
            return;
        };
        let mut spec = template.value.get("spec").cloned().unwrap_or_default();
        if let Some(stored) = spec.pointer_mut("/template/spec/instanceType") {
            *stored = instance.into();
        }
        let name = format!("by-a-user-{}", self.environment.counter);
        let _answer = self.create(USER, &of_cluster_api(TEMPLATE, &name), objects::template(&name, &spec));
        self.change_set(json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": name}}}}}));
    }

    /// Deletes a Machine of an API. The table tells whether its instance is deleted.
    fn delete_machine(&mut self, position: usize, api: Api) {
        let Some(name) = self.name_at(position) else { return };
        let (machine, mirror) = (self.machine(&name), self.mirror(&name));
        let Some(object) = (if api == Api::MachineApi { &machine } else { &mirror }) else {
            return;
        };
        if object.member.deleting {
            return;
        }
        let source = machine.as_deref().map_or(Some(Api::ClusterApi), source);
        let owner = object.member.deciding_owner(
            match api {
                Api::MachineApi => mirror.as_ref(),
                Api::ClusterApi => machine.as_ref(),
            }
            .map(|other| &*other.member),
            api,
            source,
        );
        // The creation of a mirror in Cluster API may arrive after this deletion. It stays, too.
        let may_stay = machine.is_some() && (mirror.is_some() || api == Api::MachineApi);
        if owner.is_none() && source == Some(api) && may_stay {
            self.environment.lone.insert(name.clone(), api);
        }
        if owner.is_some() || source == Some(api) || source.is_none() {
            self.doom(&name);
        }
        let _answer = self.delete(USER, &key(MACHINE, api, &name));
    }

    fn delete_set(&mut self, authoritative: bool) {
        let Some(set) = self.get(&key(SET, Api::MachineApi, WORKERS)) else {
            return;
        };
        // During a migration it is not settled which of the two a user means.
        let Some(api) = set.text("/status/authoritativeAPI").and_then(Api::parse) else {
            return;
        };
        let of = if authoritative { api } else { api.other() };
        if authoritative {
            let sets = [Api::MachineApi, Api::ClusterApi].map(|api| self.get(&key(SET, api, WORKERS)));
            let machines = [MACHINE, MIRROR].into_iter().flat_map(|kind| self.of_kind(kind));
            let owned = machines.filter(|machine| sets.iter().flatten().any(|set| is_owned(machine, set.uid())));
            let names: Vec<String> = owned.map(|machine| machine.member.name.clone()).collect();
            for name in names {
                self.doom(&name);
            }
        }
        let _answer = self.delete(USER, &key(SET, of, WORKERS));
    }
}

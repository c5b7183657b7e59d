//! The reference provider in the simulation. It takes a part of its steps, and lies.

use capstan_core::api::kinds::{CLUSTER_API_MACHINES, MACHINE_POOLS};
use capstan_core::pool::max_surge;
use serde_json::json;

use super::actors::{Instance, Round};
use super::objects::{GROUPS, INSTANCES, NAMESPACE, POOL, annotations, has, is_deleting, labels, name, replicas, text};
use crate::infrastructure::groups::{Act, Group, Instance as CloudInstance, Inventory, MachineOf, decide};
use crate::simulation::declared::Stored;

impl Round<'_, '_> {
    fn seen(&self, stored: &Stored) -> Inventory {
        let machines = stored.all(&INSTANCES).map(|one| {
            let owner = stored
                .all(&CLUSTER_API_MACHINES)
                .find(|machine| text(machine, "/spec/infrastructureRef/name") == name(one));
            let marked = "/metadata/annotations/cluster.x-k8s.io~1delete-machine";
            let machine = MachineOf {
                provider_id: text(one, "/spec/providerID").to_owned(),
                is_deleting: is_deleting(one),
                owner: owner.map_or_else(String::new, |owner| name(owner).to_owned()),
                owner_is_deleting: owner.is_some_and(is_deleting),
                is_marked: owner.is_some_and(|owner| owner.pointer(marked).is_some()),
            };
            (name(one).to_owned(), machine)
        });
        let available = stored
            .all(&CLUSTER_API_MACHINES)
            .filter(|one| has(one, "Available", "True"));
        Inventory {
            machines: machines.collect(),
            available: available.map(|one| text(one, "/spec/providerID").to_owned()).collect(),
            instances: self.cloud.values().map(cloud_instance).collect(),
        }
    }

    /// The reference provider, with a part of its steps.
    pub(super) fn provider(&mut self) {
        let stored = self.stored();
        let Some(object) = stored.get(&GROUPS, NAMESPACE, POOL) else {
            return;
        };
        let pool = stored.get(&MACHINE_POOLS, NAMESPACE, POOL);
        let surge = pool.and_then(|pool| max_surge(&annotations(pool), replicas(pool)));
        let group = Group {
            replicas: pool.map_or(0, replicas),
            version: pool
                .map_or("", |pool| text(pool, "/spec/template/spec/version"))
                .to_owned(),
            surge: surge.unwrap_or(0),
            is_deleting: is_deleting(object),
            ..Group::default()
        };
        let seen = self.seen(&stored);
        if group.is_deleting && seen.machines.is_empty() {
            self.cloud.clear();
            return self.patch(&GROUPS, POOL, json!({"metadata": {"finalizers": null}}));
        }
        for act in decide(&group, &seen) {
            if !self.acts() {
                continue;
            }
            match act {
                Act::Launch(count) => (0..count).for_each(|_| self.launch(&group.version)),
                Act::Represent(instance) => self.represent(&instance),
                Act::DeleteOwner(machine) => self.users.delete(&CLUSTER_API_MACHINES, NAMESPACE, &machine),
                Act::Delete(machine) => self.users.delete(&INSTANCES, NAMESPACE, &machine),
                Act::Release(machine) => {
                    let known = stored.get(&INSTANCES, NAMESPACE, &machine);
                    let id = known.map(|one| text(one, "/spec/providerID").to_owned());
                    self.cloud.remove(&id.unwrap_or_default());
                    self.patch(&INSTANCES, &machine, json!({"metadata": {"finalizers": null}}));
                }
            }
        }
        self.lie(&stored);
    }

    /// The group reports a healthy instance as outdated for a while, and corrects it later.
    fn lie(&mut self, stored: &Stored) {
        for one in stored.all(&INSTANCES) {
            let lies = has(one, "UpToDate", "False");
            let status = match (lies, self.happens(10)) {
                (false, true) => "False",
                (true, false) if self.is_quiet() || self.happens(200) => "True",
                _ => continue,
            };
            let condition = json!({"type": "UpToDate", "status": status, "reason": "Model", "message": "m"});
            self.status(&INSTANCES, name(one), &json!({"conditions": [condition]}));
        }
    }

    fn launch(&mut self, version: &str) {
        self.launched += 1;
        let instance = Instance {
            number: self.launched,
            version: version.to_owned(),
            is_healthy: true,
            is_booted: false,
            holds_drain: self.users.random().permille(300),
            drains_since: None,
        };
        self.cloud.insert(cloud_instance(&instance).provider_id(), instance);
    }

    fn represent(&mut self, instance: &CloudInstance) {
        let machine = json!({
            "apiVersion": INSTANCES.api_version(), "kind": INSTANCES.kind,
            "metadata": {"name": instance.name(), "namespace": NAMESPACE, "finalizers": ["instance"],
                "labels": labels()},
            "spec": {"providerID": instance.provider_id()},
        });
        self.users.create(&INSTANCES, NAMESPACE, machine);
    }
}

/// An instance as the reference provider reads it.
fn cloud_instance(instance: &Instance) -> CloudInstance {
    CloudInstance {
        group: format!("{NAMESPACE}/{POOL}"),
        number: instance.number,
        version: instance.version.clone(),
        model: String::new(),
        is_healthy: instance.is_healthy,
    }
}

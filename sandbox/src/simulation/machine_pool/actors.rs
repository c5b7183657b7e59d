//! What happens around the controller: users, the cloud, the provider, the core manager, its
//! Machine controller, and a health check. Until the faults stop, an actor skips turns and objects.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, MACHINE_POOLS};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::objects::{GROUPS, INSTANCES, NAMESPACE, POOL, has, is_deleting, is_unhealthy, name, replicas, text};
use crate::api::Object;
use crate::infrastructure::groups::{Act, Group, Instance as CloudInstance, Inventory, MachineOf, decide};
use crate::simulation::declared::{Stored, Users};

/// The last moment at which something is changed, in seconds.
pub(super) const QUIET: u32 = 45 * 60;
/// The finalizer of a Machine.
const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";

/// An instance, as the cloud knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Instance {
    pub(super) number: u64,
    pub(super) version: String,
    pub(super) is_healthy: bool,
    is_booted: bool,
}

/// The instances by provider ID.
pub(super) type Instances = BTreeMap<String, Instance>;

/// The instances of a group.
pub(super) fn instances(group: &Object) -> Instances {
    let stored = group.pointer("/status/cloud");
    stored
        .and_then(|stored| Instances::deserialize(stored).ok())
        .unwrap_or_default()
}

struct Round<'u, 'w> {
    users: &'u mut Users<'w>,
    second: u32,
    cloud: Instances,
    launched: u64,
}

/// All actors act once.
pub(super) fn act_once(users: &mut Users<'_>, second: u32) {
    let stored = users.stored();
    let Some(group) = stored.get(&GROUPS, NAMESPACE, POOL) else {
        return;
    };
    let launched = group.pointer("/status/launched").and_then(Value::as_u64).unwrap_or(0);
    let mut round = Round {
        cloud: instances(group),
        launched,
        users,
        second,
    };
    round.user();
    round.clouds();
    if round.acts() {
        round.provider();
    }
    if round.acts() {
        round.core();
    }
    if round.acts() {
        round.machines();
    }
    round.report();
}

impl Round<'_, '_> {
    fn is_quiet(&self) -> bool {
        self.second > QUIET
    }

    /// Whether an actor acts now, or on this object. It always does in the end.
    fn acts(&mut self) -> bool {
        self.is_quiet() || self.users.random().permille(600)
    }

    /// Whether something unlikely happens.
    fn happens(&mut self, permille: u64) -> bool {
        !self.is_quiet() && self.users.random().permille(permille)
    }

    fn stored(&self) -> Stored {
        self.users.stored()
    }

    fn patch(&mut self, kind: &'static KindInfo, name: &str, patch: Value) {
        self.users.patch(kind, NAMESPACE, name, patch);
    }

    fn status(&mut self, kind: &'static KindInfo, name: &str, status: &Value) {
        self.users
            .patch_status(kind, NAMESPACE, name, json!({ "status": status }));
    }

    /// A user edits the pool, and deletes or marks a Machine.
    fn user(&mut self) {
        if self.second == 10 {
            let allowed = self.users.random().below(3);
            let strategy = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": allowed}}});
            let annotations = json!({"capstan.dev/rollout": strategy.to_string()});
            self.patch(&MACHINE_POOLS, POOL, json!({"metadata": {"annotations": annotations}}));
        }
        if self.happens(15) {
            let replicas = self.users.random().below(6);
            self.patch(&MACHINE_POOLS, POOL, json!({"spec": {"replicas": replicas}}));
        }
        if self.happens(15) {
            let version = format!("v1.{}.0", self.users.random().below(4));
            let patch = json!({"spec": {"template": {"spec": {"version": version}}}});
            self.patch(&MACHINE_POOLS, POOL, patch);
        }
        let stored = self.stored();
        let names: Vec<String> = stored
            .all(&CLUSTER_API_MACHINES)
            .map(|one| name(one).to_owned())
            .collect();
        let Some(machine) = self.users.random().pick(&names).cloned() else {
            return;
        };
        if self.happens(10) {
            self.users.delete(&CLUSTER_API_MACHINES, NAMESPACE, &machine);
        }
        if self.happens(10) {
            let annotations = json!({"cluster.x-k8s.io/delete-machine": "yes"});
            self.patch(
                &CLUSTER_API_MACHINES,
                &machine,
                json!({"metadata": {"annotations": annotations}}),
            );
        }
    }

    /// Instances boot, fail, and vanish. An infrastructure machine vanishes with its instance.
    fn clouds(&mut self) {
        for id in self.cloud.keys().cloned().collect::<Vec<String>>() {
            let (boots, fails, vanishes) = (self.acts(), self.happens(8), self.happens(8));
            if vanishes {
                self.cloud.remove(&id);
                continue;
            }
            if let Some(instance) = self.cloud.get_mut(&id) {
                instance.is_booted |= boots;
                instance.is_healthy &= !fails;
            }
        }
    }

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
        let ready = self.cloud.iter().filter(|(_, one)| one.is_booted && one.is_healthy);
        Inventory {
            machines: machines.collect(),
            ready: ready.map(|(id, _)| id.clone()).collect(),
            instances: self.cloud.values().map(cloud_instance).collect(),
        }
    }

    /// The reference provider, with a part of its steps.
    fn provider(&mut self) {
        let stored = self.stored();
        let Some(pool) = stored.get(&MACHINE_POOLS, NAMESPACE, POOL) else {
            return;
        };
        let max_unavailable = text(pool, "/metadata/annotations/capstan.dev~1rollout").contains(":0}");
        let group = Group {
            replicas: replicas(pool),
            version: text(pool, "/spec/template/spec/version").to_owned(),
            surge: usize::from(max_unavailable),
            ..Group::default()
        };
        for act in decide(&group, &self.seen(&stored)) {
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

    /// The core manager creates the Machine of each infrastructure machine.
    fn core(&mut self) {
        let stored = self.stored();
        let Some(pool) = stored.get(&MACHINE_POOLS, NAMESPACE, POOL) else {
            return;
        };
        let machines = stored.all(&CLUSTER_API_MACHINES);
        let known: BTreeSet<&str> = machines.map(|one| text(one, "/spec/infrastructureRef/name")).collect();
        for instance in stored.all(&INSTANCES) {
            if known.contains(name(instance)) || is_deleting(instance) || !self.acts() {
                continue;
            }
            let machine = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {
                    "name": name(instance), "namespace": NAMESPACE, "labels": labels(),
                    "finalizers": [MACHINE_FINALIZER],
                    "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
                        "name": POOL, "uid": text(pool, "/metadata/uid"), "controller": true}],
                },
                "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": ""}, "infrastructureRef": {
                    "apiGroup": INSTANCES.group, "kind": INSTANCES.kind, "name": name(instance)}},
            });
            self.users.create(&CLUSTER_API_MACHINES, NAMESPACE, machine);
        }
    }

    /// The Machine controller, and the health check.
    fn machines(&mut self) {
        let stored = self.stored();
        for machine in stored.all(&CLUSTER_API_MACHINES) {
            if !self.acts() {
                continue;
            }
            let machine_name = name(machine).to_owned();
            let instance = stored.get(&INSTANCES, NAMESPACE, text(machine, "/spec/infrastructureRef/name"));
            if is_deleting(machine) {
                match instance {
                    Some(one) if !is_deleting(one) => {
                        let name = name(one).to_owned();
                        self.users.delete(&INSTANCES, NAMESPACE, &name);
                    }
                    Some(_) => {}
                    None => {
                        let patch = json!({"metadata": {"finalizers": null}});
                        self.patch(&CLUSTER_API_MACHINES, &machine_name, patch);
                    }
                }
                continue;
            }
            let Some(instance) = instance else { continue };
            let id = text(instance, "/spec/providerID").to_owned();
            if text(machine, "/spec/providerID") != id {
                self.patch(
                    &CLUSTER_API_MACHINES,
                    &machine_name,
                    json!({"spec": {"providerID": id}}),
                );
            }
            self.observe(machine, &id);
        }
    }

    fn observe(&mut self, machine: &Object, id: &str) {
        let instance = self.cloud.get(id).cloned();
        let booted = instance.filter(|instance| instance.is_booted);
        let is_healthy = booted.as_ref().is_some_and(|instance| instance.is_healthy);
        let is_lost = has(machine, "Available", "True") && !is_healthy;
        let demands = is_unhealthy(machine) || (booted.is_some() && !is_healthy && !is_lost);
        let status = |holds: bool| if holds { "True" } else { "False" };
        let mut conditions = vec![json!({"type": "Available", "status": status(is_healthy)})];
        if demands {
            conditions.push(json!({"type": "HealthCheckSucceeded", "status": "False"}));
            conditions.push(json!({"type": "OwnerRemediated", "status": "False"}));
        }
        let mut after = json!({ "conditions": conditions });
        if let (Some(instance), Some(fields)) = (booted, after.as_object_mut()) {
            fields.insert("nodeInfo".to_owned(), json!({"kubeletVersion": instance.version}));
            fields.insert("nodeRef".to_owned(), json!({"name": name(machine)}));
        }
        let before = machine.get("status").cloned().unwrap_or_default();
        let differs = after
            .as_object()
            .into_iter()
            .flatten()
            .any(|(field, value)| before.get(field) != Some(value));
        if differs {
            self.status(&CLUSTER_API_MACHINES, name(machine), &after);
        }
    }

    /// Stores the cloud, and what the provider reports of it. Sometimes it forgets for a turn that
    /// it can delete single instances, or that it is ready.
    fn report(&mut self) {
        let (forgets, is_unready) = (self.happens(20), self.happens(20));
        let kind = if forgets { "" } else { &*INSTANCES.kind };
        let status = json!({"cloud": null});
        let after = json!({"launched": self.launched, "cloud": self.cloud, "ready": !is_unready,
            "infrastructureMachineKind": kind, "replicas": self.cloud.len()});
        let stored = self.stored();
        let before = stored
            .get(&GROUPS, NAMESPACE, POOL)
            .and_then(|group| group.get("status").cloned());
        if before.as_ref() != Some(&after) {
            // A merge patch keeps the instances that are gone.
            self.status(&GROUPS, POOL, &status);
            self.status(&GROUPS, POOL, &after);
        }
    }
}

fn labels() -> Value {
    json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": POOL})
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

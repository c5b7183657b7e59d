//! The core manager of Cluster API in the simulation: its controllers of pools and of Machines, and
//! a health check.

use std::collections::BTreeSet;

use capstan_core::api::kinds::{CLUSTER_API_MACHINES, MACHINE_POOLS};
use serde_json::{Value, json};

use super::actors::Round;
use super::objects::{
    GROUPS, INSTANCES, NAMESPACE, POOL, POOL_FINALIZER, finalizers, has, is_deleting, is_paused, is_unhealthy, labels,
    name, text,
};
use crate::api::Object;
use crate::simulation::declared::Stored;

/// The finalizer of a Machine.
const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";

impl Round<'_, '_> {
    /// The core manager creates the Machine of each infrastructure machine, and deletes the group
    /// with the pool.
    pub(super) fn core(&mut self) {
        let stored = self.stored();
        let Some(pool) = stored
            .get(&MACHINE_POOLS, NAMESPACE, POOL)
            .filter(|pool| !is_paused(pool))
        else {
            return;
        };
        if is_deleting(pool) {
            return self.delete_group(&stored, pool);
        }
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
                    "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
                        "name": POOL, "uid": text(pool, "/metadata/uid"), "controller": true}],
                },
                "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": ""}, "infrastructureRef": {
                    "apiGroup": INSTANCES.group, "kind": INSTANCES.kind, "name": name(instance)}},
            });
            self.users.create(&CLUSTER_API_MACHINES, NAMESPACE, machine);
        }
    }

    fn delete_group(&mut self, stored: &Stored, pool: &Object) {
        match stored.get(&GROUPS, NAMESPACE, POOL) {
            Some(group) if !is_deleting(group) => self.users.delete(&GROUPS, NAMESPACE, POOL),
            Some(_) => {}
            None => {
                let mut left = finalizers(pool);
                left.retain(|one| one != POOL_FINALIZER);
                self.patch(&MACHINE_POOLS, POOL, json!({"metadata": {"finalizers": left}}));
            }
        }
    }

    /// The Machine controller, and the health check.
    pub(super) fn machines(&mut self) {
        let stored = self.stored();
        for machine in stored.all(&CLUSTER_API_MACHINES) {
            if !self.acts() {
                continue;
            }
            let machine_name = name(machine).to_owned();
            if !is_deleting(machine) && finalizers(machine).is_empty() {
                // It adds its finalizer also to a paused Machine.
                let patch = json!({"metadata": {"finalizers": [MACHINE_FINALIZER]}});
                self.patch(&CLUSTER_API_MACHINES, &machine_name, patch);
                continue;
            }
            if is_paused(machine) {
                continue;
            }
            let instance = stored.get(&INSTANCES, NAMESPACE, text(machine, "/spec/infrastructureRef/name"));
            if is_deleting(machine) {
                match instance {
                    Some(one) if !is_deleting(one) => self.drain(machine, one),
                    Some(_) => {}
                    None => {
                        let patch = json!({"metadata": {"finalizers": null}});
                        self.patch(&CLUSTER_API_MACHINES, &machine_name, patch);
                    }
                }
                continue;
            }
            let Some(instance) = instance else { continue };
            if instance.pointer("/metadata/annotations/owned").is_none() {
                self.annotate(&INSTANCES, name(instance), "owned", &json!("yes"));
            }
            let id = text(instance, "/spec/providerID").to_owned();
            if text(machine, "/spec/providerID") != id {
                let patch = json!({"spec": {"providerID": id}});
                self.patch(&CLUSTER_API_MACHINES, &machine_name, patch);
            }
            self.observe(machine, &id);
        }
    }

    /// Drains the Node, and deletes the infrastructure machine afterwards. A drain that is held
    /// ends with the timeout of the Machine.
    fn drain(&mut self, machine: &Object, instance: &Object) {
        let timeout = machine.pointer("/spec/deletion/nodeDrainTimeoutSeconds");
        let timeout = timeout.and_then(Value::as_u64);
        let second = self.second;
        let is_drained = self
            .cloud
            .get_mut(text(instance, "/spec/providerID"))
            .filter(|cloud| cloud.is_booted)
            .is_none_or(|cloud| {
                let since = u64::from(second - *cloud.drains_since.get_or_insert(second));
                !cloud.holds_drain || timeout.is_some_and(|timeout| since >= timeout)
            });
        if is_drained {
            let name = name(instance).to_owned();
            self.annotate(&INSTANCES, &name, "drained", &json!("yes"));
            self.users.delete(&INSTANCES, NAMESPACE, &name);
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
}

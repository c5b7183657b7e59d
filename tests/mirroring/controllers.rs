//! Steps of the Machine controllers of both APIs and of the infrastructure provider: their pauses,
//! their finalizers, and one instance.

use capstan_core::authority::finalizers;
use capstan_core::authority::pair::{FullObject, Part};
use serde_json::{Value, json};

use crate::cluster::Machine;

const PROVIDER: &str = "awsmachine.infrastructure.cluster.x-k8s.io";

fn is_paused(object: &FullObject) -> bool {
    object.member.is_paused()
}

impl Machine<'_> {
    /// Each controller takes one step. Returns whether one of them changed anything.
    pub(crate) async fn controllers(&mut self) -> bool {
        let mut acted = self.machine_api().await;
        acted |= self.cluster_api().await;
        acted | self.provider().await
    }

    async fn set_condition(&self, part: Part, object: &FullObject, status: &str) -> bool {
        if object.condition("Paused") == Some(status) {
            return false;
        }
        let mut conditions = object.value["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "Paused");
        let mut condition = json!({"type": "Paused", "status": status, "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        if part != Part::ClusterApi {
            condition.as_object_mut().unwrap().remove("message");
        }
        conditions.push(condition);
        self.patch_status(part, &json!({"conditions": conditions})).await;
        true
    }

    async fn set_finalizer(&self, part: Part, object: &FullObject, name: &str, present: bool) -> bool {
        if object.has_finalizer(name) == present || (present && object.member.deleting) {
            return false;
        }
        let mut list: Vec<&str> = object.finalizers();
        list.retain(|known| *known != name);
        list.extend(present.then_some(name));
        self.patch(part, &json!({"metadata": {"finalizers": list}})).await;
        true
    }

    fn launch(&mut self) -> String {
        if self.instance.is_none() {
            self.instances += 1;
            self.instance = Some(format!("aws:///us-east-1a/i-{:017x}", self.instances));
        }
        self.instance.clone().unwrap()
    }

    async fn machine_api(&mut self) -> bool {
        let part = Part::MachineApi;
        let Some(machine) = self.object(part).await else {
            return false;
        };
        match machine.text("/status/authoritativeAPI") {
            None => return false,
            Some("MachineAPI") => {}
            Some(_) => return self.set_condition(part, &machine, "True").await,
        }
        if self.set_condition(part, &machine, "False").await {
            return true;
        }
        let held = finalizers::MACHINE_API;
        if machine.member.deleting {
            if machine.has_finalizer(held) {
                self.instance = None;
            }
            return self.set_finalizer(part, &machine, held, false).await;
        }
        if self.set_finalizer(part, &machine, held, true).await {
            return true;
        }
        if machine.value["spec"]["providerID"].is_null() {
            let id = self.launch();
            self.patch(part, &json!({"spec": {"providerID": id}})).await;
            return true;
        }
        let phase = if self.instance.is_some() { "Running" } else { "Failed" };
        if machine.value["status"]["phase"] != phase {
            self.patch_status(part, &json!({"phase": phase})).await;
            return true;
        }
        false
    }

    async fn cluster_api(&mut self) -> bool {
        let part = Part::ClusterApi;
        let Some(machine) = self.object(part).await else {
            return false;
        };
        let held = finalizers::CLUSTER_API;
        // As upstream: the finalizer comes before the pause.
        if self.set_finalizer(part, &machine, held, true).await {
            return true;
        }
        let status = if is_paused(&machine) { "True" } else { "False" };
        if self.set_condition(part, &machine, status).await || is_paused(&machine) {
            return machine.condition("Paused") != Some(status);
        }
        let infrastructure = self.object(Part::Infrastructure).await;
        match (machine.member.deleting, infrastructure) {
            (true, None) => self.set_finalizer(part, &machine, held, false).await,
            (true, Some(object)) if !object.member.deleting => {
                self.delete(Part::Infrastructure).await;
                true
            }
            (false, Some(object)) => self.copy_from_infrastructure(&machine, &object).await,
            _ => false,
        }
    }

    async fn copy_from_infrastructure(&self, machine: &FullObject, infrastructure: &FullObject) -> bool {
        if infrastructure.value["status"]["ready"] != Value::Bool(true) {
            return false;
        }
        let id = &infrastructure.value["spec"]["providerID"];
        if machine.value["spec"]["providerID"] != *id {
            self.patch(Part::ClusterApi, &json!({"spec": {"providerID": id}})).await;
            return true;
        }
        if machine.member.provisioned != Some(true) {
            let status = json!({"phase": "Running", "initialization": {"infrastructureProvisioned": true}});
            self.patch_status(Part::ClusterApi, &status).await;
            return true;
        }
        false
    }

    async fn provider(&mut self) -> bool {
        let part = Part::Infrastructure;
        let Some(machine) = self.object(part).await else {
            return false;
        };
        let status = if is_paused(&machine) { "True" } else { "False" };
        if self.set_condition(part, &machine, status).await || is_paused(&machine) {
            return machine.condition("Paused") != Some(status);
        }
        if machine.member.deleting {
            if machine.has_finalizer(PROVIDER) {
                self.instance = None;
            }
            return self.set_finalizer(part, &machine, PROVIDER, false).await;
        }
        if self.set_finalizer(part, &machine, PROVIDER, true).await {
            return true;
        }
        if machine.value["spec"]["providerID"].is_null() {
            let id = self.launch();
            let instance = id.rsplit('/').next();
            let patch = json!({"spec": {"providerID": id, "instanceID": instance}});
            self.patch(part, &patch).await;
            return true;
        }
        if self.instance.is_some() && machine.value["status"]["ready"] != Value::Bool(true) {
            self.patch_status(part, &json!({"ready": true, "instanceState": "running"}))
                .await;
            return true;
        }
        false
    }
}

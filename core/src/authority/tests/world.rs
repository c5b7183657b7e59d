//! A simulated cluster with one mirrored Machine: the storage rules of the API server, the
//! controllers of both APIs with their pauses and finalizers, and one instance.
//!
//! Every change checks the invariants: the controllers of both APIs are never both free to act, and
//! a finalizer of controllers holds the instance.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::authority::pair::{Decision, FullObject, Pair, Part, Surroundings, Verb, Write};
use crate::authority::spec::{Api, Kind};
use crate::authority::{finalizers, reconcile};

const PAUSE: &str = "cluster.x-k8s.io/paused";
const PARTS: [Part; 3] = [Part::MachineApi, Part::ClusterApi, Part::Infrastructure];
const PROVIDER: &str = "awsmachine.infrastructure.cluster.x-k8s.io";

/// The cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) objects: [Option<Value>; 3],
    pub(super) sets: [Option<Value>; 2],
    pub(super) versions: u64,
    pub(super) uids: u64,
    /// The instance, by its id.
    pub(super) instance: Option<String>,
    /// How many instances were created.
    pub(super) created: u32,
    /// Every write that was stored.
    pub(super) log: Vec<String>,
    /// Whether the API server adds defaults to the infrastructure machine.
    pub(super) defaults: bool,
    /// A field of the infrastructure machine that the API server drops.
    pub(super) drops: Option<&'static str>,
    /// A field of the status of the object in the Machine API that the CRD does not have.
    pub(super) drops_status: Option<&'static str>,
    /// Whether mirroring is switched off.
    pub(super) switched_off: bool,
    /// Whether the objects of Cluster API are not the mirror, and have another instance.
    pub(super) foreign: bool,
    /// The kind of the pair.
    pub(super) kind: Kind,
}

fn at(part: Part) -> usize {
    PARTS.iter().position(|known| *known == part).unwrap()
}

fn infrastructure_cluster() -> Value {
    json!({"kind": "AWSCluster", "metadata": {"name": "prod-x7k2p"}, "spec": {"region": "us-east-1"}})
}

/// A Machine of the Machine API as a user creates it.
pub(super) fn machine(authority: Option<Api>, owner: Option<&Value>) -> Value {
    let provider_spec: Value = serde_json::from_str(include_str!("../../conversion/tests/aws.json")).unwrap();
    let mut machine = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "a", "namespace": "openshift-machine-api", "labels": {
            "machine.openshift.io/cluster-api-cluster": "prod-x7k2p",
            "machine.openshift.io/cluster-api-machine-role": "worker",
            "machine.openshift.io/cluster-api-machine-type": "worker"}},
        "spec": {"lifecycleHooks": {}, "metadata": {}, "providerSpec": {"value": provider_spec}},
    });
    if let Some(api) = authority {
        machine["spec"]["authoritativeAPI"] = json!(api.as_str());
    }
    if let Some(owner) = owner {
        machine["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"],
            "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true}]);
    }
    machine
}

/// The MachineSet of an API.
pub(super) fn set(api: Api) -> Value {
    let version = match api {
        Api::MachineApi => "machine.openshift.io/v1beta1",
        Api::ClusterApi => "cluster.x-k8s.io/v1beta2",
    };
    json!({"apiVersion": version, "kind": "MachineSet", "metadata": {"name": "s", "uid": format!("set-{}", api.as_str())}})
}

impl World {
    pub(super) fn get(&self, part: Part) -> Option<&Value> {
        self.objects[at(part)].as_ref()
    }

    pub(super) fn object(&self, part: Part) -> Option<FullObject> {
        self.get(part).cloned().map(FullObject::from)
    }

    pub(super) fn pair(&self) -> Pair {
        Pair {
            kind: self.kind,
            name: String::from("a"),
            machine_api: self.object(Part::MachineApi),
            cluster_api: self.object(Part::ClusterApi),
            infrastructure: self.object(Part::Infrastructure),
            machine_api_set: self.sets[0].clone().map(FullObject::from),
            cluster_api_set: self.sets[1].clone().map(FullObject::from),
            surroundings: Surroundings {
                machine_api_namespace: String::from("openshift-machine-api"),
                cluster_api_namespace: String::from("openshift-cluster-api"),
                cluster: Some(Arc::new(
                    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                    "metadata": {"name": "prod-x7k2p", "uid": "cluster"}}),
                )),
                infrastructure_cluster: Some(Arc::new(infrastructure_cluster())),
                infrastructure: Some(Arc::new(
                    json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure",
                    "metadata": {"name": "cluster"}, "status": {"infrastructureName": "prod-x7k2p",
                    "platformStatus": {"aws": {"region": "us-east-1"}}}}),
                )),
                secrets: Vec::new(),
            },
            ..Pair::default()
        }
    }

    /// The decision of the sync controller for the cluster as it is.
    pub(super) fn decide(&self) -> Decision {
        match self.switched_off {
            true => reconcile::deletion(&self.pair(), time()),
            false => reconcile::next(&self.pair(), time()),
        }
    }

    /// Carries out a write. Returns whether it was stored.
    pub(super) fn write(&mut self, write: &Write) -> bool {
        let slot = at(write.part);
        let stored = self.objects[slot].clone();
        let fits = |stored: &Value, uid: &Value, version: &Value| {
            stored["metadata"]["uid"] == *uid && stored["metadata"]["resourceVersion"] == *version
        };
        let done = match (&write.verb, stored) {
            (Verb::Create(body), None) => {
                self.create(write.part, body.clone());
                true
            }
            (Verb::Patch(patch), Some(stored))
                if fits(
                    &stored,
                    &patch["metadata"]["uid"],
                    &patch["metadata"]["resourceVersion"],
                ) =>
            {
                self.change(write.part, |object| json_patch::merge(object, patch));
                true
            }
            (Verb::PatchStatus(patch), Some(stored))
                if fits(
                    &stored,
                    &patch["metadata"]["uid"],
                    &patch["metadata"]["resourceVersion"],
                ) =>
            {
                let change = json!({"status": patch["status"]});
                self.change_status(write.part, &change);
                true
            }
            (Verb::Delete { uid, resource_version }, Some(stored))
                if fits(&stored, &json!(uid), &json!(resource_version)) =>
            {
                self.delete(write.part);
                true
            }
            _ => false,
        };
        if done {
            self.log.push(format!("{:?}: {}", write.part, write.because));
            self.check(&write.because);
        }
        done
    }

    pub(super) fn create(&mut self, part: Part, mut body: Value) {
        assert!(self.get(part).is_none(), "{part:?} exists");
        self.uids += 1;
        body["metadata"]["uid"] = json!(format!("uid-{}", self.uids));
        body["metadata"]["generation"] = json!(1);
        body["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        body.as_object_mut().unwrap().remove("status");
        self.store(part, body);
    }

    fn store(&mut self, part: Part, mut object: Value) {
        self.versions += 1;
        object["metadata"]["resourceVersion"] = json!(self.versions.to_string());
        if self.defaults && part == Part::Infrastructure {
            // As the CRD of AWSMachines.
            let mut options = json!({"httpEndpoint": "enabled", "httpPutResponseHopLimit": 1,
                "httpTokens": "optional", "instanceMetadataTags": "disabled"});
            let set = &object["spec"]["instanceMetadataOptions"];
            if set.is_object() {
                json_patch::merge(&mut options, set);
            }
            object["spec"]["instanceMetadataOptions"] = options;
        }
        if let (Some(field), Part::Infrastructure) = (self.drops, part) {
            object["spec"].as_object_mut().unwrap().remove(field);
        }
        if let (Some(field), Part::MachineApi, Some(status)) =
            (self.drops_status, part, object["status"].as_object_mut())
        {
            status.remove(field);
        }
        let metadata = &object["metadata"];
        let held = metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        let gone = !metadata["deletionTimestamp"].is_null() && !held;
        self.objects[at(part)] = (!gone).then_some(object);
    }

    /// Changes an object, except its status.
    pub(super) fn change(&mut self, part: Part, change: impl FnOnce(&mut Value)) {
        let Some(before) = self.get(part).cloned() else { return };
        let mut after = before.clone();
        change(&mut after);
        after["status"] = before["status"].clone();
        let finalizers = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !before["metadata"]["deletionTimestamp"].is_null() {
            let added: Vec<Value> = finalizers(&after)
                .into_iter()
                .filter(|name| !finalizers(&before).contains(name))
                .collect();
            assert!(added.is_empty(), "{part:?} is being deleted and gets {added:?}");
        }
        if before["spec"] != after["spec"] {
            after["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap() + 1);
        }
        self.store(part, after);
    }

    /// Changes the status without the rules of the CRD.
    pub(super) fn set_status(&mut self, part: Part, change: &Value) {
        let Some(mut object) = self.get(part).cloned() else {
            return;
        };
        json_patch::merge(&mut object, change);
        self.store(part, object);
    }

    fn change_status(&mut self, part: Part, change: &Value) {
        let Some(before) = self.get(part).cloned() else { return };
        let mut after = before.clone();
        json_patch::merge(&mut after, change);
        if part == Part::MachineApi {
            check_rules(&before["status"], &after["status"]);
        }
        self.store(part, after);
    }

    pub(super) fn delete(&mut self, part: Part) {
        let Some(mut object) = self.get(part).cloned() else {
            return;
        };
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = json!("2026-02-01T00:00:00Z");
            self.store(part, object);
        }
    }

    fn authority(&self) -> &str {
        self.get(Part::MachineApi)
            .and_then(|machine| machine["status"]["authoritativeAPI"].as_str())
            .unwrap_or_default()
    }

    fn is_open(&self, part: Part) -> bool {
        self.get(part)
            .is_some_and(|object| object["metadata"]["annotations"][PAUSE].is_null())
    }

    fn check(&self, after: &str) {
        let machine_api = match self.kind {
            // Its controller does not read the status.
            Kind::MachineHealthCheck => self.is_open(Part::MachineApi) && self.is_judged(),
            _ => self.authority() == "MachineAPI",
        };
        let cluster_api = self.is_open(Part::ClusterApi) || self.is_open(Part::Infrastructure);
        assert!(
            self.foreign || !(machine_api && cluster_api),
            "both APIs may act after {after}: {:#?}",
            self.log
        );
        if self.instance.is_some() {
            let is_held = PARTS.iter().any(|part| {
                *part != Part::ClusterApi
                    && self
                        .object(*part)
                        .is_some_and(|object| finalizers::is_held(*part, &object))
            });
            assert!(is_held, "nothing holds the instance after {after}: {:#?}", self.log);
        }
    }

    /// Whether the sync controller has seen the object of the Machine API.
    fn is_judged(&self) -> bool {
        !self.authority().is_empty()
    }

    fn set_condition(&mut self, part: Part, status: &str) -> bool {
        let object = self.object(part).unwrap();
        if object.condition("Paused") == Some(status) {
            return false;
        }
        let mut conditions = object.value["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "Paused");
        conditions.push(json!({"type": "Paused", "status": status, "lastTransitionTime": time().to_string()}));
        self.change_status(part, &json!({"status": {"conditions": conditions}}));
        true
    }

    fn set_finalizer(&mut self, part: Part, name: &str, present: bool) -> bool {
        let object = self.object(part).unwrap();
        if object.has_finalizer(name) == present || (present && object.member.deleting) {
            return false;
        }
        let mut finalizers: Vec<String> = object.finalizers().into_iter().map(str::to_owned).collect();
        finalizers.retain(|known| known != name);
        if present {
            finalizers.push(name.to_owned());
        }
        self.change(part, |object| object["metadata"]["finalizers"] = json!(finalizers));
        true
    }

    /// One step of the Machine controller of the Machine API. Returns whether it changed anything.
    pub(super) fn machine_api_controller(&mut self) -> bool {
        if self.kind == Kind::MachineHealthCheck {
            return false;
        }
        let Some(machine) = self.object(Part::MachineApi) else {
            return false;
        };
        match self.authority() {
            "" => return false,
            "MachineAPI" => {}
            _ => return self.set_condition(Part::MachineApi, "True"),
        }
        if self.set_condition(Part::MachineApi, "False") {
            return true;
        }
        if machine.member.deleting {
            if !machine.has_finalizer(finalizers::MACHINE_API) {
                return false;
            }
            self.instance = None;
            return self.set_finalizer(Part::MachineApi, finalizers::MACHINE_API, false);
        }
        if self.set_finalizer(Part::MachineApi, finalizers::MACHINE_API, true) {
            return true;
        }
        if machine.value["spec"]["providerID"].is_null() {
            let id = self.launch();
            self.change(Part::MachineApi, |machine| machine["spec"]["providerID"] = json!(id));
            return true;
        }
        let phase = if self.instance.is_some() { "Running" } else { "Failed" };
        if machine.value["status"]["phase"] != phase {
            self.change_status(Part::MachineApi, &json!({"status": {"phase": phase}}));
            return true;
        }
        false
    }

    fn launch(&mut self) -> String {
        if self.instance.is_none() {
            self.created += 1;
            self.instance = Some(format!("aws:///us-east-1a/i-{}", self.created));
        }
        self.instance.clone().unwrap()
    }

    /// One step of the Machine controller of Cluster API.
    pub(super) fn cluster_api_controller(&mut self) -> bool {
        let Some(machine) = self.object(Part::ClusterApi) else {
            return false;
        };
        if self.kind == Kind::MachineHealthCheck {
            let status = if self.is_open(Part::ClusterApi) {
                "False"
            } else {
                "True"
            };
            return self.set_condition(Part::ClusterApi, status);
        }
        // As upstream: the finalizer comes before the pause.
        if !machine.member.deleting && self.set_finalizer(Part::ClusterApi, finalizers::CLUSTER_API, true) {
            return true;
        }
        if !self.is_open(Part::ClusterApi) {
            return self.set_condition(Part::ClusterApi, "True");
        }
        if self.set_condition(Part::ClusterApi, "False") {
            return true;
        }
        let infrastructure = self.object(Part::Infrastructure);
        if machine.member.deleting {
            return match infrastructure {
                Some(object) if object.member.deleting => false,
                Some(_) => {
                    self.delete(Part::Infrastructure);
                    true
                }
                None => self.set_finalizer(Part::ClusterApi, finalizers::CLUSTER_API, false),
            };
        }
        let Some(infrastructure) = infrastructure else {
            return false;
        };
        let ready = infrastructure.value["status"]["ready"] == json!(true);
        let id = infrastructure.value["spec"]["providerID"].clone();
        if ready && machine.value["spec"]["providerID"] != id {
            self.change(Part::ClusterApi, |machine| machine["spec"]["providerID"] = id);
            return true;
        }
        if ready && machine.member.provisioned != Some(true) {
            let status = json!({"status": {"phase": "Running", "initialization": {"infrastructureProvisioned": true}}});
            self.change_status(Part::ClusterApi, &status);
            return true;
        }
        false
    }

    /// One step of the infrastructure provider.
    pub(super) fn provider(&mut self) -> bool {
        let Some(machine) = self.object(Part::Infrastructure) else {
            return false;
        };
        if !self.is_open(Part::Infrastructure) {
            return self.set_condition(Part::Infrastructure, "True");
        }
        if self.set_condition(Part::Infrastructure, "False") {
            return true;
        }
        if machine.member.deleting {
            if !machine.has_finalizer(PROVIDER) {
                return false;
            }
            self.instance = None;
            return self.set_finalizer(Part::Infrastructure, PROVIDER, false);
        }
        if self.set_finalizer(Part::Infrastructure, PROVIDER, true) {
            return true;
        }
        if machine.value["spec"]["providerID"].is_null() {
            let id = self.launch();
            self.change(Part::Infrastructure, |machine| {
                machine["spec"]["instanceID"] = json!(id.rsplit('/').next());
                machine["spec"]["providerID"] = json!(id);
            });
            return true;
        }
        if self.instance.is_some() && machine.value["status"]["ready"] != json!(true) {
            self.change_status(
                Part::Infrastructure,
                &json!({"status": {"ready": true, "instanceState": "running"}}),
            );
            return true;
        }
        false
    }

    /// The garbage collector deletes objects of which the owner does not exist any more.
    pub(super) fn collector(&mut self) -> bool {
        let mut uids: Vec<Value> = self
            .objects
            .iter()
            .chain(&self.sets)
            .flatten()
            .map(|object| object["metadata"]["uid"].clone())
            .collect();
        uids.extend([json!("cluster"), json!("control-plane-machine-set")]);
        for part in PARTS {
            let Some(object) = self.get(part) else { continue };
            let owners = object["metadata"]["ownerReferences"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let orphaned = !owners.is_empty() && owners.iter().all(|owner| !uids.contains(&owner["uid"]));
            if orphaned && object["metadata"]["deletionTimestamp"].is_null() {
                self.delete(part);
                return true;
            }
        }
        false
    }

    /// One step of a controller other than the sync controller.
    pub(super) fn act(&mut self, actor: usize) -> bool {
        let changed = match actor % 4 {
            0 => self.machine_api_controller(),
            1 => self.cluster_api_controller(),
            2 => self.provider(),
            _ => self.collector(),
        };
        self.check("a step of a controller");
        changed
    }

    /// Lets everything run until nothing changes. Returns the last decision.
    pub(super) fn settle(&mut self) -> Decision {
        for _ in 0..400 {
            let acted = (0..4).filter(|actor| self.act(*actor)).count() > 0;
            match self.decide() {
                Decision::Write(write) => assert!(self.write(&write), "{write:?}"),
                decision if !acted => return decision,
                _ => {}
            }
        }
        panic!(
            "the cluster does not settle: {:#?}",
            &self.log[self.log.len().saturating_sub(12)..]
        );
    }

    /// Requests an authoritative API as a user does.
    pub(super) fn request(&mut self, api: Api) {
        self.change(Part::MachineApi, |machine| {
            machine["spec"]["authoritativeAPI"] = json!(api.as_str());
        });
    }

    /// Which of the objects exist.
    pub(super) fn existing(&self) -> Vec<Part> {
        PARTS.into_iter().filter(|part| self.get(*part).is_some()).collect()
    }

    pub(super) fn status(&self) -> Map<String, Value> {
        let machine = self.get(Part::MachineApi);
        machine
            .and_then(|machine| machine["status"].as_object())
            .cloned()
            .unwrap_or_default()
    }

    /// The condition Synchronized: status and message.
    pub(super) fn synchronized(&self) -> (String, String) {
        let conditions = self.status().get("conditions").cloned().unwrap_or_default();
        let found = conditions
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Synchronized");
        let text = |field: &str| {
            found.map_or(String::new(), |found| {
                found[field].as_str().unwrap_or_default().to_owned()
            })
        };
        (text("status"), text("message"))
    }
}

pub(super) fn time() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// The rules of the CRD for the status of the Machine API.
fn check_rules(before: &Value, after: &Value) {
    let authority = |status: &Value| status["authoritativeAPI"].as_str().unwrap_or_default().to_owned();
    let (old, new) = (authority(before), authority(after));
    let allowed = old.is_empty() || old == new || new == "Migrating" || old == "Migrating";
    assert!(allowed, "status.authoritativeAPI must not change from {old} to {new}");
    let generation = |status: &Value| status["synchronizedGeneration"].as_i64();
    let decreases = generation(before).is_some_and(|before| generation(after).is_none_or(|after| after < before));
    let ends = old == "Migrating" && new != "Migrating";
    assert!(!decreases || ends, "status.synchronizedGeneration must not decrease");
}

//! The objects of both APIs, and edits of them as an API server sends them.

use std::sync::LazyLock;

use capstan_core::admission::{Admission, Options, Phase, Snapshot, Source, routes};
use capstan_core::authority::live::LiveRead;
use serde_json::{Value, json};

pub(crate) const MACHINE_API: &str = "machine.openshift.io";
pub(crate) const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
pub(crate) const SYNC: &str = "system:serviceaccount:openshift-machine-api:capstan-controllers";
pub(crate) const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
pub(crate) const AUTOSCALER: &str = "system:serviceaccount:openshift-machine-api:cluster-autoscaler";
pub(crate) const FINALIZER: &str = "sync.machine.openshift.io/finalizer";
pub(crate) const PAUSED: &str = "cluster.x-k8s.io/paused";

/// The Machine `worker-a` of the Machine API.
pub(crate) fn machine(authority: &str, status: &str) -> Value {
    let mut machine = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "worker-a", "namespace": "openshift-machine-api", "generation": 2, "finalizers": [FINALIZER],
            "labels": {"machine.openshift.io/cluster-api-machine-role": "worker", "team": "blue"}},
        "spec": {"providerSpec": {"value": {"kind": "AWSMachineProviderConfig", "ami": {"id": "ami-1"},
            "instanceType": "m6i.xlarge", "userDataSecret": {"name": "worker-user-data"}}}},
        "status": {"phase": "Running"},
    });
    set_authority(&mut machine, authority, status);
    machine
}

/// Sets the authority in the spec and in the status; an empty one is left out.
fn set_authority(object: &mut Value, authority: &str, status: &str) {
    if !authority.is_empty() {
        object["spec"]["authoritativeAPI"] = json!(authority);
    }
    if status.is_empty() {
        object.as_object_mut().unwrap().remove("status");
    } else {
        object["status"]["authoritativeAPI"] = json!(status);
        let paused = if status == "MachineAPI" { "False" } else { "True" };
        object["status"]["conditions"] = json!([
            {"type": "Paused", "status": paused},
            {"type": "Synchronized", "status": "True", "reason": "ResourceSynchronized"},
        ]);
    }
}

/// The MachineSet `workers` of the Machine API.
pub(crate) fn machine_set(authority: &str, status: &str) -> Value {
    let template = machine(authority, "")["spec"].clone();
    let mut set = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": "workers", "namespace": "openshift-machine-api", "generation": 2, "finalizers": [FINALIZER]},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"set": "workers"}},
            "template": {"metadata": {"labels": {"set": "workers"}}, "spec": template}},
        "status": {"replicas": 3},
    });
    set_authority(&mut set, authority, status);
    set
}

/// The MachineHealthCheck `check` of the Machine API.
pub(crate) fn check(authority: &str, status: &str) -> Value {
    let mut check = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "check", "namespace": "openshift-machine-api", "generation": 2},
        "spec": {"selector": {}, "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "300s"}]},
        "status": {},
    });
    set_authority(&mut check, authority, status);
    check
}

/// The Machine `worker-a` of Cluster API. OpenShift's sync controller sets an empty pause
/// annotation.
pub(crate) fn capi_machine(paused: bool) -> Value {
    let mut machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "worker-a", "namespace": "openshift-cluster-api", "generation": 1, "finalizers": [FINALIZER],
            "labels": {"cluster.x-k8s.io/cluster-name": "prod", "team": "blue"},
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "prod", "uid": "u"}]},
        "spec": {"clusterName": "prod", "bootstrap": {"dataSecretName": "worker-user-data"},
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "AWSMachine", "name": "worker-a"}},
        "status": {"initialization": {"infrastructureProvisioned": true}},
    });
    if paused {
        machine["metadata"]["annotations"] = json!({PAUSED: ""});
    }
    machine
}

/// The MachineSet `workers` of Cluster API.
pub(crate) fn capi_set(paused: bool) -> Value {
    let mut set = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {"name": "workers", "namespace": "openshift-cluster-api", "generation": 1, "finalizers": [FINALIZER]},
        "spec": {"clusterName": "prod", "replicas": 3, "selector": {"matchLabels": {"set": "workers"}},
            "template": {"metadata": {"labels": {"set": "workers"}}, "spec": {"clusterName": "prod",
                "bootstrap": {"dataSecretName": "worker-user-data"},
                "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "AWSMachineTemplate", "name": "workers-1a2b3c4d"}}}},
    });
    if paused {
        set["metadata"]["annotations"] = json!({PAUSED: ""});
    }
    set
}

/// The MachineHealthCheck `check` of Cluster API.
pub(crate) fn capi_check(paused: bool) -> Value {
    let mut check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "check", "namespace": "openshift-cluster-api", "generation": 1},
        "spec": {"clusterName": "prod", "selector": {},
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]}},
    });
    if paused {
        check["metadata"]["annotations"] = json!({PAUSED: ""});
    }
    check
}

/// The infrastructure machine of `worker-a`.
pub(crate) fn aws_machine() -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
        "metadata": {"name": "worker-a", "namespace": "openshift-cluster-api", "finalizers": [FINALIZER],
            "annotations": {PAUSED: ""},
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "worker-a", "uid": "u"}]},
        "spec": {"ami": {"id": "ami-1"}, "instanceType": "m6i.xlarge"},
    })
}

/// The infrastructure template of `workers`.
pub(crate) fn aws_template() -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
        "metadata": {"name": "workers-1a2b3c4d", "namespace": "openshift-cluster-api", "annotations": {PAUSED: ""},
            "labels": {"machine.openshift.io/cluster-api-machineset": "workers"}},
        "spec": {"template": {"spec": {"ami": {"id": "ami-1"}, "instanceType": "m6i.xlarge"}}},
    })
}

/// Returns the object as a user writes it: without what the API server and the controllers add.
pub(crate) fn new(mut object: Value) -> Value {
    object.as_object_mut().unwrap().remove("status");
    for field in ["ownerReferences", "finalizers", "generation"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

/// Returns the object with this owner.
pub(crate) fn owned_by(mut object: Value, kind: &str, name: &str) -> Value {
    let version = if object["apiVersion"].as_str().unwrap().starts_with(MACHINE_API) {
        "machine.openshift.io/v1beta1"
    } else {
        "cluster.x-k8s.io/v1beta2"
    };
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": version, "kind": kind, "name": name, "uid": "o", "controller": true}]);
    object
}

/// Returns the object with this field set; null removes the field.
pub(crate) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let field = field.replace("~1", "/");
    let parent = object.pointer_mut(parent).unwrap();
    if parent.is_null() {
        *parent = json!({});
    }
    if value.is_null() {
        parent.as_object_mut().unwrap().remove(&field);
    } else {
        parent[field] = value;
    }
    object
}

/// A snapshot of a cluster that contains these objects. Every kind is known.
pub(crate) fn cluster(objects: &[Value]) -> Snapshot {
    let mut snapshot = Snapshot {
        source: Source::Cluster,
        ..Snapshot::of_files(objects).unwrap()
    };
    for members in [&mut snapshot.mirrors.machine_api, &mut snapshot.mirrors.cluster_api] {
        members.machines.get_or_insert_default();
        members.machine_sets.get_or_insert_default();
        members.machine_health_checks.get_or_insert_default();
    }
    for kind in ["AWSMachine", "AWSMachineTemplate", "AWSCluster"] {
        snapshot.mirrors.infrastructure.entry(kind.to_owned()).or_default();
    }
    snapshot
}

/// An edit.
#[derive(Clone)]
pub(crate) struct Edit {
    pub(crate) phase: Phase,
    pub(crate) operation: &'static str,
    pub(crate) subresource: &'static str,
    pub(crate) user: &'static str,
    /// Whether the user impersonates another, so that the request has no token id.
    pub(crate) impersonates: bool,
    /// Whether the request has the id of a credential although the user is not a service account.
    pub(crate) credential: bool,
    /// A group of the user besides system:authenticated.
    pub(crate) group: &'static str,
    pub(crate) old: Value,
    pub(crate) object: Value,
    pub(crate) propagation: &'static str,
}

impl Edit {
    pub(crate) fn update(old: &Value, object: Value) -> Self {
        Self {
            phase: Phase::Validate,
            operation: "UPDATE",
            subresource: "",
            user: "alice",
            impersonates: false,
            credential: false,
            group: "",
            old: old.clone(),
            object,
            propagation: "",
        }
    }

    /// An update of one field.
    pub(crate) fn set(old: &Value, pointer: &str, value: Value) -> Self {
        Self::update(old, with(old.clone(), pointer, value))
    }

    pub(crate) fn create(object: Value) -> Self {
        Self {
            operation: "CREATE",
            ..Self::update(&Value::Null, object)
        }
    }

    pub(crate) fn delete(old: &Value) -> Self {
        Self {
            operation: "DELETE",
            propagation: "Background",
            ..Self::update(old, Value::Null)
        }
    }

    pub(crate) fn by(self, user: &'static str) -> Self {
        Self { user, ..self }
    }

    pub(crate) fn impersonating(self, user: &'static str) -> Self {
        Self {
            user,
            impersonates: true,
            ..self
        }
    }

    pub(crate) fn with_credential(self) -> Self {
        Self {
            credential: true,
            ..self
        }
    }

    pub(crate) fn in_group(self, group: &'static str) -> Self {
        Self { group, ..self }
    }

    pub(crate) fn of(self, subresource: &'static str) -> Self {
        Self { subresource, ..self }
    }

    /// The same edit in the mutating pass.
    pub(crate) fn mutating(self) -> Self {
        Self {
            phase: Phase::Mutate,
            ..self
        }
    }

    /// The response of the webhook.
    pub(crate) fn answer(&self, snapshot: &Snapshot) -> Value {
        self.whole_answer(snapshot).1
    }

    /// The objects that the webhook reads from the API server before it allows the edit.
    pub(crate) fn live_reads(&self, snapshot: &Snapshot) -> Vec<LiveRead> {
        self.whole_answer(snapshot).0
    }

    fn whole_answer(&self, snapshot: &Snapshot) -> (Vec<LiveRead>, Value) {
        let some = [&self.object, &self.old]
            .into_iter()
            .find(|object| !object.is_null())
            .unwrap();
        let kind = some["kind"].as_str().unwrap();
        let scale = kind == "Scale";
        let version = if scale {
            // Only MachineSets are scaled here. The namespace identifies the API.
            match some["metadata"]["namespace"].as_str().unwrap() {
                "openshift-machine-api" => "machine.openshift.io/v1beta1",
                _ => "cluster.x-k8s.io/v1beta2",
            }
        } else {
            some["apiVersion"].as_str().unwrap()
        };
        let (group, version) = version.split_once('/').unwrap();
        let resource = if scale {
            String::from("machinesets")
        } else {
            format!("{}s", kind.to_lowercase())
        };
        let route = routes()
            .iter()
            .find(|route| {
                route.group == group && route.resources.contains(&resource.as_str()) && route.phase == self.phase
            })
            .unwrap();
        let mut request = json!({
            "uid": "11111111-2222-3333-4444-555555555555",
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": resource},
            "name": some["metadata"]["name"],
            "namespace": some["metadata"]["namespace"],
            "operation": self.operation,
            "userInfo": {"username": self.user, "groups": ["system:authenticated"]},
            "object": self.object,
            "oldObject": self.old,
            "dryRun": false,
            "options": null,
        });
        if !self.group.is_empty() {
            request["userInfo"]["groups"] = json!(["system:authenticated", self.group]);
        }
        if self.credential || self.user.starts_with("system:serviceaccount:") && !self.impersonates {
            request["userInfo"]["extra"] = json!({"authentication.kubernetes.io/credential-id": ["JTI=1"]});
        }
        if !self.propagation.is_empty() {
            request["options"] = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1",
                "propagationPolicy": self.propagation});
        }
        if !self.subresource.is_empty() {
            request["subResource"] = json!(self.subresource);
        }
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        static ADMISSION: LazyLock<Admission> = LazyLock::new(|| {
            let mut options = Options::default();
            options.authority.autoscalers.push(AUTOSCALER.to_owned());
            Admission::new(options).unwrap()
        });
        let answer = ADMISSION
            .answer(route, &serde_json::to_vec(&body).unwrap(), snapshot)
            .unwrap();
        let reads = answer.live_reads.pairs.clone();
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        let warnings: Vec<&str> = answer["response"]["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|warning| warning.as_str().unwrap())
            .collect();
        assert!(warnings.iter().all(|warning| warning.len() <= 256), "{warnings:?}");
        assert!(warnings.iter().map(|warning| warning.len()).sum::<usize>() <= 4096);
        (reads, answer["response"].clone())
    }

    pub(crate) fn allowed(&self, snapshot: &Snapshot) -> bool {
        self.answer(snapshot)["allowed"].as_bool().unwrap()
    }

    /// The ids of the rules that refuse the edit.
    pub(crate) fn refused_by(&self, snapshot: &Snapshot) -> Vec<String> {
        let answer = self.answer(snapshot);
        let causes = answer["status"]["details"]["causes"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let messages = causes
            .iter()
            .map(|cause| cause["message"].as_str().unwrap().to_owned())
            .chain(answer["status"]["message"].as_str().map(str::to_owned));
        let mut rules: Vec<String> = messages
            .filter_map(|message| {
                // A link to the rule may follow.
                let message = message.split(" (https://").next().unwrap_or_default();
                let (_, rule) = message.trim_end_matches(']').rsplit_once('[')?;
                message.ends_with(']').then(|| rule.to_owned())
            })
            .collect();
        rules.sort();
        rules.dedup();
        assert_eq!(answer["allowed"].as_bool(), Some(rules.is_empty()), "{answer}");
        rules
    }

    /// The response as a user reads it.
    pub(crate) fn response_text(&self, snapshot: &Snapshot) -> String {
        let answer = self.answer(snapshot);
        let mut text = match answer["allowed"].as_bool() {
            Some(true) => String::from("allowed\n"),
            _ => format!("refused: {}\n", answer["status"]["message"].as_str().unwrap()),
        };
        if let Some(patch) = answer["patch"].as_str() {
            use base64::Engine as _;
            let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
            text.push_str(&format!("patch: {}\n", String::from_utf8(patch).unwrap()));
        }
        for cause in answer["status"]["details"]["causes"].as_array().into_iter().flatten() {
            text.push_str(&format!("cause at {}\n", cause["field"]));
        }
        for warning in answer["warnings"].as_array().into_iter().flatten() {
            text.push_str(&format!("warning: {}\n", warning.as_str().unwrap()));
        }
        text
    }
}

/// Snapshots of the response as a user reads it.
macro_rules! golden {
    ($($(#[$meta:meta])* $name:ident: $edit:expr, $snapshot:expr;)*) => {$(
        $(#[$meta])*
        #[test]
        fn $name() {
            insta::assert_snapshot!($edit.response_text(&$snapshot));
        }
    )*};
}
pub(crate) use golden;

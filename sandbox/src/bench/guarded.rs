//! Guarded updates: a user's label on a Machine that exists in both APIs, with ten thousand such
//! pairs in the caches. The label is set on a mirror in Cluster API, on a mirror in the Machine
//! API, and on an authoritative object.
//!
//! The mirror in Cluster API is paused without a signature, as an older sync controller pauses it.
//! So the rules look up the authoritative object twice: to learn which API is authoritative, and to
//! compare labels. This is the most expensive decision about such an update.

use anyhow::{Context as _, Result};
use capstan_core::admission::{Phase, Route, routes};
use serde_json::{Value, json};

/// Machines in each API.
const MACHINES: usize = 10_000;
/// The Machine that is edited.
const NAME: &str = "prod-x7k2p-worker-us-east-1a-5000";

/// The object that is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The Machine in Cluster API, where the Machine API is authoritative.
    ClusterApiMirror,
    /// The Machine in the Machine API, where Cluster API is authoritative.
    MachineApiMirror,
    /// The Machine in the Machine API, where the Machine API is authoritative.
    Authoritative,
}

/// The edits that are measured.
pub(super) const EDITS: &[Edited] = &[
    Edited::ClusterApiMirror,
    Edited::MachineApiMirror,
    Edited::Authoritative,
];

impl Edited {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ClusterApiMirror => "a label on a mirror in Cluster API",
            Self::MachineApiMirror => "a label on a mirror in the Machine API",
            Self::Authoritative => "a label on an authoritative object in the Machine API",
        }
    }

    /// The prefix of the names of its ratios.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::ClusterApiMirror => "cluster-api-mirror-",
            Self::MachineApiMirror => "machine-api-mirror-",
            Self::Authoritative => "authoritative-",
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::ClusterApiMirror => "cluster.x-k8s.io",
            Self::MachineApiMirror | Self::Authoritative => "machine.openshift.io",
        }
    }

    fn machine(self) -> Value {
        match self {
            Self::ClusterApiMirror => in_cluster_api(NAME),
            Self::MachineApiMirror => {
                let mut machine = in_machine_api(NAME);
                for field in ["/spec/authoritativeAPI", "/status/authoritativeAPI"] {
                    if let Some(authority) = machine.pointer_mut(field) {
                        *authority = json!("ClusterAPI");
                    }
                }
                machine
            }
            Self::Authoritative => in_machine_api(NAME),
        }
    }
}

/// The route of an edit.
pub(super) fn route(edited: Edited) -> Result<&'static Route> {
    let judges = |route: &&Route| {
        route.group == edited.group() && route.resources.contains(&"machines") && route.phase == Phase::Validate
    };
    routes().iter().find(judges).context("no route judges such Machines")
}

fn in_machine_api(name: &str) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": "openshift-machine-api", "generation": 2,
            "finalizers": ["machine.machine.openshift.io", "sync.machine.openshift.io/finalizer"],
            "labels": {"machine.openshift.io/cluster-api-cluster": "prod-x7k2p", "machine.openshift.io/zone": "us-east-1a",
                "machine.openshift.io/cluster-api-machine-role": "worker", "machine.openshift.io/cluster-api-machine-type": "worker"}},
        "spec": {"authoritativeAPI": "MachineAPI", "providerID": format!("aws:///us-east-1a/{name}"),
            "providerSpec": {"value": {"kind": "AWSMachineProviderConfig", "ami": {"id": "ami-0c1"}, "instanceType": "m6i.xlarge",
                "placement": {"availabilityZone": "us-east-1a", "region": "us-east-1"}, "userDataSecret": {"name": "worker-user-data"}}}},
        "status": {"authoritativeAPI": "MachineAPI", "synchronizedGeneration": 2, "phase": "Running", "conditions": [
            {"type": "Synchronized", "status": "True", "reason": "ResourceSynchronized"}, {"type": "Paused", "status": "False"}]},
    })
}

fn in_cluster_api(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": "openshift-cluster-api", "generation": 1,
            "annotations": {"cluster.x-k8s.io/paused": ""},
            "finalizers": ["machine.cluster.x-k8s.io", "sync.machine.openshift.io/finalizer"],
            "labels": {"cluster.x-k8s.io/cluster-name": "prod-x7k2p", "node-role.kubernetes.io/worker": ""},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "prod-x7k2p", "uid": "u"}]},
        "spec": {"clusterName": "prod-x7k2p", "bootstrap": {"dataSecretName": "worker-user-data"}, "failureDomain": "us-east-1a",
            "deletion": {"nodeDeletionTimeoutSeconds": 10}, "providerID": format!("aws:///us-east-1a/{name}"),
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachine", "name": name}},
        "status": {"initialization": {"infrastructureProvisioned": true}, "phase": "Running", "conditions": [
            {"type": "Paused", "status": "True", "reason": "Paused", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""}]},
    })
}

/// The AdmissionReview of an edit.
///
/// # Errors
/// Never; a test reads the same data.
pub(super) fn review(edited: Edited) -> Result<Vec<u8>> {
    let old = edited.machine();
    let mut object = old.clone();
    let labels = object
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
        .context("the Machine of the benchmark has no labels")?;
    labels.insert("example.com/cost-center".to_owned(), json!("4711"));
    let version = match edited {
        Edited::ClusterApiMirror => "v1beta2",
        Edited::MachineApiMirror | Edited::Authoritative => "v1beta1",
    };
    let of = |name: &str, value: &str| json!({"group": edited.group(), "version": version, name: value});
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "0d2f5b6e-3c1d-4b6a-9a55-6f1b0f1f3a11",
            "kind": of("kind", "Machine"),
            "resource": of("resource", "machines"),
            "name": NAME,
            "namespace": old.pointer("/metadata/namespace"),
            "operation": "UPDATE",
            "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
            "object": object,
            "oldObject": old,
            "dryRun": false,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-label"},
        },
    });
    serde_json::to_vec(&review).context("writing the review")
}

/// All Machines, each in both APIs.
pub(super) fn surroundings() -> Vec<Value> {
    let names = (0..MACHINES).map(|number| format!("prod-x7k2p-worker-us-east-1a-{number}"));
    names
        .flat_map(|name| [in_machine_api(&name), in_cluster_api(&name)])
        .collect()
}

#[cfg(test)]
mod tests {
    use capstan_core::admission::{Admission, Options, Snapshot, Source};

    use super::*;

    #[test]
    fn the_measured_edits_are_allowed_and_edits_of_reserved_labels_are_refused() {
        let admission = Admission::new(Options::default()).unwrap();
        let mut snapshot = Snapshot::of_files(&[in_machine_api(NAME), in_cluster_api(NAME)]).unwrap();
        snapshot.source = Source::Cluster;
        for (edited, refused_by) in [
            (Edited::ClusterApiMirror, &["authority-capi-reserved-labels"][..]),
            (Edited::MachineApiMirror, &["authority-reserved-labels"][..]),
            (Edited::Authoritative, &[][..]),
        ] {
            let judge = |body: &[u8]| {
                let route = route(edited).unwrap();
                admission.answer(route, body, &snapshot).unwrap().record
            };
            let body = review(edited).unwrap();
            assert!(judge(&body).allowed, "{edited:?}: {:?}", judge(&body));
            let reserved = String::from_utf8(body)
                .unwrap()
                .replace("example.com/cost-center", "machine.openshift.io/other");
            assert_eq!(judge(reserved.as_bytes()).denied_by, refused_by, "{edited:?}");
        }
    }
}

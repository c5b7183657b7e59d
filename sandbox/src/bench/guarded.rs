//! A guarded update: a label of one's own on a copy in Cluster API, with ten thousand mirrored Machines in the caches.
//!
//! The copy is paused without a signature, as an older sync controller does it, so that its original is looked up, the rules
//! are told who leads, and all of them are judged: the longest way that an update that is allowed can take.

use anyhow::{Context as _, Result};
use capstan_core::admission::{Phase, ROUTES, Route};
use serde_json::{Value, json};

/// Machines in each API.
const MACHINES: usize = 10_000;
/// The one that is edited.
const NAME: &str = "prod-x7k2p-worker-us-east-1a-5000";

/// The route of the edit.
pub(super) fn route() -> Result<&'static Route> {
    let route = ROUTES
        .iter()
        .find(|route| route.group == "cluster.x-k8s.io" && route.phase == Phase::Validate);
    route.context("Cluster API is not judged")
}

fn ours(name: &str) -> Value {
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

fn theirs(name: &str) -> Value {
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

/// The AdmissionReview.
///
/// # Errors
/// Never: a test reads what is read here.
pub(super) fn review() -> Result<Vec<u8>> {
    let old = theirs(NAME);
    let mut object = old.clone();
    *object
        .pointer_mut("/metadata/labels")
        .context("the Machine of the benchmark has no labels")? = json!({"cluster.x-k8s.io/cluster-name": "prod-x7k2p",
        "node-role.kubernetes.io/worker": "", "example.com/cost-center": "4711"});
    let of = |name: &str, value: &str| json!({"group": "cluster.x-k8s.io", "version": "v1beta2", name: value});
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "0d2f5b6e-3c1d-4b6a-9a55-6f1b0f1f3a11",
            "kind": of("kind", "Machine"),
            "resource": of("resource", "machines"),
            "name": NAME,
            "namespace": "openshift-cluster-api",
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

/// Both halves of all machines.
pub(super) fn surroundings() -> Vec<Value> {
    let names = (0..MACHINES).map(|number| format!("prod-x7k2p-worker-us-east-1a-{number}"));
    names.flat_map(|name| [ours(&name), theirs(&name)]).collect()
}

#[cfg(test)]
mod tests {
    use capstan_core::admission::{Admission, Options, Snapshot, Source};

    use super::*;

    #[test]
    fn the_edit_is_guarded_and_allowed_and_another_would_be_refused() {
        let admission = Admission::new(Options::default()).unwrap();
        let mut snapshot = Snapshot::of_files(&[ours(NAME), theirs(NAME)]).unwrap();
        snapshot.source = Source::Cluster;
        let judge = |body: &[u8]| admission.answer(route().unwrap(), body, &snapshot).unwrap().record;
        let body = review().unwrap();
        assert!(judge(&body).allowed, "{:?}", judge(&body));
        let reserved = String::from_utf8(body)
            .unwrap()
            .replace("example.com/cost-center", "machine.openshift.io/zone");
        assert_eq!(judge(reserved.as_bytes()).denied_by, ["authority-capi-reserved-labels"]);
    }
}

//! Guarded updates: a label of one's own on a Machine that exists in both APIs, with ten thousand of them in the caches. It
//! is set on a copy in Cluster API, on a copy in the Machine API, and on an original.
//!
//! The copy in Cluster API is paused without a signature, as an older sync controller does it, so that its original is
//! looked up to know who leads, and again for what its labels are: the longest way that such an update takes.

use anyhow::{Context as _, Result};
use capstan_core::admission::{Phase, ROUTES, Route};
use serde_json::{Value, json};

/// Machines in each API.
const MACHINES: usize = 10_000;
/// The one that is edited.
const NAME: &str = "prod-x7k2p-worker-us-east-1a-5000";

/// What is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// Cluster API's half, where the Machine API leads.
    Copy,
    /// The Machine API's half, where Cluster API leads.
    OldCopy,
    /// The Machine API's half, where it leads.
    Original,
}

/// All that are measured.
pub(super) const EDITS: &[Edited] = &[Edited::Copy, Edited::OldCopy, Edited::Original];

impl Edited {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Copy => "a label on a copy in Cluster API",
            Self::OldCopy => "a label on a copy in the Machine API",
            Self::Original => "a label on an original in the Machine API",
        }
    }

    /// How its ratios are told from others.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Copy => "copy-",
            Self::OldCopy => "old-copy-",
            Self::Original => "original-",
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::Copy => "cluster.x-k8s.io",
            Self::OldCopy | Self::Original => "machine.openshift.io",
        }
    }

    fn half(self) -> Value {
        match self {
            Self::Copy => theirs(NAME),
            Self::OldCopy => {
                let mut half = ours(NAME);
                for field in ["/spec/authoritativeAPI", "/status/authoritativeAPI"] {
                    if let Some(lead) = half.pointer_mut(field) {
                        *lead = json!("ClusterAPI");
                    }
                }
                half
            }
            Self::Original => ours(NAME),
        }
    }
}

/// The route of an edit.
pub(super) fn route(edited: Edited) -> Result<&'static Route> {
    let judges = |route: &&Route| {
        route.group == edited.group() && route.resources.contains(&"machines") && route.phase == Phase::Validate
    };
    ROUTES.iter().find(judges).context("such Machines are not judged")
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
pub(super) fn review(edited: Edited) -> Result<Vec<u8>> {
    let old = edited.half();
    let mut object = old.clone();
    let labels = object
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
        .context("the Machine of the benchmark has no labels")?;
    labels.insert("example.com/cost-center".to_owned(), json!("4711"));
    let version = match edited {
        Edited::Copy => "v1beta2",
        Edited::OldCopy | Edited::Original => "v1beta1",
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
    fn the_edits_are_guarded_and_allowed_and_others_would_be_refused() {
        let admission = Admission::new(Options::default()).unwrap();
        let mut snapshot = Snapshot::of_files(&[ours(NAME), theirs(NAME)]).unwrap();
        snapshot.source = Source::Cluster;
        for (edited, refused_by) in [
            (Edited::Copy, &["authority-capi-reserved-labels"][..]),
            (Edited::OldCopy, &["authority-reserved-labels"][..]),
            (Edited::Original, &[][..]),
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

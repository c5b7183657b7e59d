//! The edits of a set that are measured, as an API server sends them, and the objects of the
//! cluster.
//!
//! The main edit changes the instance type of an active set on AWS. Nearly every rule applies to
//! it, and the verdict has a warning.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// The stored set.
const SET: &str = include_str!("set.yaml");
/// The path of the provider spec in the template.
const PROVIDER_SPEC: &str = "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value";
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// The stored, active set of the benchmark.
///
/// # Errors
/// Never; a test reads the same data.
pub(super) fn set() -> Result<Value> {
    serde_saphyr::from_str(SET).context("reading the set of the benchmark")
}

/// The edit that the servers judge. It starts a rollout, and has about 12 KiB of JSON.
///
/// # Errors
/// Never; a test reads the same data.
pub(super) fn review() -> Result<Vec<u8>> {
    review_of(&format!("{PROVIDER_SPEC}/instanceType"), &json!("m6i.2xlarge"))
}

/// An edit of the machine image, which replaces no machine.
///
/// # Errors
/// Never; a test reads the same data.
pub(super) fn review_of_image() -> Result<Vec<u8>> {
    review_of(&format!("{PROVIDER_SPEC}/ami/id"), &json!("ami-07d3a50bd29811cd1"))
}

/// An edit that does not change the spec.
///
/// # Errors
/// Never; a test reads the same data.
pub(super) fn review_of_metadata() -> Result<Vec<u8>> {
    let mut review: Value = serde_json::from_slice(&review_of(
        "/metadata/annotations/machine.openshift.io~1note",
        &json!("sized for the autumn load test"),
    )?)?;
    if let Some(generation) = review.pointer_mut("/request/object/metadata/generation") {
        *generation = json!(6);
    }
    serde_json::to_vec(&review).context("writing the review")
}

fn review_of(field: &str, value: &Value) -> Result<Vec<u8>> {
    let old = set()?;
    let mut object = old.clone();
    for (pointer, value) in [(field, value.clone()), ("/metadata/generation", json!(7))] {
        *object
            .pointer_mut(pointer)
            .with_context(|| format!("the set of the benchmark has no {pointer}"))? = value;
    }
    let of = |version: &str, name: &str, value: &str| json!({"group": "machine.openshift.io", "version": version, name: value});
    let (kind, resource) = (
        of("v1", "kind", "ControlPlaneMachineSet"),
        of("v1", "resource", "controlplanemachinesets"),
    );
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "0d2f5b6e-3c1d-4b6a-9a55-6f1b0f1f3a10",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": "cluster",
            "namespace": "openshift-machine-api",
            "operation": "UPDATE",
            "userInfo": {
                "username": "system:admin",
                "groups": ["system:masters", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": ["X509SHA256=6b1b2f6f3d0e4a5c8f9e7d6c5b4a39281706f5e4d3c2b1a0"]},
            },
            "object": object,
            "oldObject": old,
            "dryRun": false,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-edit",
                "fieldValidation": "Strict"},
        },
    });
    serde_json::to_vec(&review).context("writing the review")
}

/// The nodes of the machines. If they are known, the answer contains the whole plan of the rollout.
pub(super) fn nodes() -> Vec<Value> {
    let node = |index: usize| {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": format!("ip-10-0-{index}-17.ec2.internal"),
                "labels": {"node-role.kubernetes.io/master": "", "node-role.kubernetes.io/control-plane": ""}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-02T09:20:00Z"}]},
        })
    };
    (0..ZONES.len()).map(node).collect()
}

/// The objects that the rules look up: three machines, the stored set, and the Infrastructure.
///
/// # Errors
/// Never; a test reads the same data.
pub(super) fn surroundings() -> Result<Vec<Value>> {
    let set = set()?;
    let spec = set.pointer(PROVIDER_SPEC).context("the set has no provider spec")?;
    let labels = set
        .pointer("/spec/selector/matchLabels")
        .context("the set has no selector")?;
    let machine = |(index, zone): (usize, &&str)| {
        let mut spec = spec.clone();
        if let Some(spec) = spec.as_object_mut() {
            spec.insert(
                "placement".to_owned(),
                json!({"availabilityZone": zone, "region": "us-east-1"}),
            );
            let name = format!("prod-x7k2p-subnet-private-{zone}");
            spec.insert(
                "subnet".to_owned(),
                json!({"filters": [{"name": "tag:Name", "values": [name]}]}),
            );
        }
        json!({
            "apiVersion": "machine.openshift.io/v1beta1",
            "kind": "Machine",
            "metadata": {
                "name": format!("prod-x7k2p-master-{index}"),
                "namespace": "openshift-machine-api",
                "uid": format!("5b1f8f5a-0000-4000-8000-00000000000{index}"),
                "labels": labels,
            },
            "spec": {"lifecycleHooks": {"preDrain": [{"name": "EtcdQuorumOperator", "owner": "clusteroperator/etcd"}]},
                "providerID": format!("aws:///{zone}/i-0a1b2c3d4e5f6071{index}"), "providerSpec": {"value": spec}},
            "status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": format!("ip-10-0-{index}-17.ec2.internal")}},
        })
    };
    let mut objects: Vec<Value> = ZONES.iter().enumerate().map(machine).collect();
    objects.push(set.clone());
    objects.push(json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "Infrastructure",
        "metadata": {"name": "cluster"},
        "spec": {"platformSpec": {"type": "AWS"}},
        "status": {"infrastructureName": "prod-x7k2p", "platform": "AWS", "platformStatus": {"type": "AWS"}},
    }));
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use capstan_core::admission::{Admission, Options, Phase, Snapshot, routes};

    use super::*;

    #[test]
    fn the_review_has_about_12_kib_and_its_verdict_has_a_warning() {
        let body = review().unwrap();
        assert!((11 << 10..=13 << 10).contains(&body.len()), "{} bytes", body.len());
        let admission = Admission::new(Options::default()).unwrap();
        let snapshot = Snapshot::of_files(&surroundings().unwrap()).unwrap();
        let route = routes().iter().find(|route| route.phase == Phase::Validate).unwrap();
        let answer = admission.answer(route, &body, &snapshot).unwrap();
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
        let warnings = answer["response"]["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 1, "{answer}");
        assert!(
            warnings[0].as_str().unwrap().contains("replaces 3 machine(s)"),
            "{answer}"
        );
    }

    #[test]
    fn an_edit_of_metadata_has_no_warning_and_an_edit_of_the_image_has_one() {
        let admission = Admission::new(Options::default()).unwrap();
        let objects: Vec<Value> = surroundings().unwrap().into_iter().chain(nodes()).collect();
        let snapshot = Snapshot::of_files(&objects).unwrap();
        let route = routes().iter().find(|route| route.phase == Phase::Validate).unwrap();
        let warnings = |body: &[u8]| {
            let answer = admission.answer(route, body, &snapshot).unwrap();
            assert!(answer.record.allowed);
            answer.record.warned_by
        };
        assert_eq!(warnings(&review_of_metadata().unwrap()), [""; 0]);
        assert_eq!(warnings(&review_of_image().unwrap()), ["cpms-image-change-waits"]);
        let answer = admission.answer(route, &review().unwrap(), &snapshot).unwrap();
        let text = String::from_utf8(answer.body).unwrap();
        assert!(
            text.contains("3 of 3: "),
            "the warning has no plan of the rollout: {text}"
        );
    }
}

//! The offline check of KubeadmControlPlanes: the passes together, with defaults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Tests may fail loudly.

use capstan_core::admission::{Admission, Check, Checked, Checker, Options, Snapshot};
use capstan_core::model::{Operation, User};
use serde_json::{Value, json};

fn check(object: &Value, old: Option<&Value>, gates: &[&str]) -> Checked {
    let options = Options {
        feature_gates: gates.iter().map(|gate| ((*gate).to_owned(), true)).collect(),
        ..Options::default()
    };
    let checker = Checker::new(Admission::new(options).unwrap()).unwrap();
    let check = Check {
        operation: if old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        },
        object,
        old,
        propagation: None,
        user: &User::default(),
    };
    checker.check(&check, &Snapshot::default())
}

fn rules(checked: &Checked) -> Vec<&str> {
    checked
        .violations
        .iter()
        .map(|violation| violation.rule.as_str())
        .collect()
}

fn control_plane(version: &str) -> Value {
    let reference = match version {
        "v1beta1" => json!({"infrastructureRef": {"apiVersion": "example.org/v1beta1", "kind": "T", "name": "t"}}),
        _ => json!({"spec": {"infrastructureRef": {"apiGroup": "example.org", "kind": "T", "name": "t"}}}),
    };
    json!({
        "apiVersion": format!("controlplane.cluster.x-k8s.io/{version}"),
        "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {"version": "1.33.1", "machineTemplate": reference, "kubeadmConfigSpec": {}},
    })
}

#[test]
fn a_creation_gets_defaults_in_both_versions() {
    for (version, pointer) in [
        ("v1beta2", "/spec/rollout/strategy"),
        ("v1beta1", "/spec/rolloutStrategy"),
    ] {
        let mut object = control_plane(version);
        let checked = check(&object, None, &[]);
        assert_eq!(checked.status, None);
        json_patch::patch(&mut object, &checked.patch.unwrap()).unwrap();
        assert_eq!(object["spec"]["replicas"], 1);
        assert_eq!(object["spec"]["version"], "v1.33.1");
        assert_eq!(
            object.pointer(pointer).unwrap(),
            &json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})
        );
    }
}

#[test]
fn an_update_between_the_versions_compares_what_they_mean() {
    let (old, new) = (control_plane("v1beta2"), control_plane("v1beta1"));
    assert_eq!(check(&new, Some(&old), &[]).status, None);
    let mut new = new;
    new["spec"]["version"] = json!("v1.32.0");
    assert_eq!(rules(&check(&new, Some(&old), &[])), ["kcp-version-downgrade"]);
}

#[test]
fn a_refusal_has_the_status_of_an_api_server() {
    let mut object = control_plane("v1beta2");
    object["spec"]["replicas"] = json!(2);
    let checked = check(&object, None, &[]);
    assert_eq!(rules(&checked), ["kcp-replicas-odd"]);
    assert_eq!(checked.patch, None);
    let status = checked.status.unwrap();
    assert_eq!((status.code, status.reason), (422, "Invalid"));
}

#[test]
fn a_scale_is_checked_with_its_control_plane() {
    let scale = |replicas: i32| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "cp", "namespace": "ns"}, "spec": {"replicas": replicas}})
    };
    let old = control_plane("v1beta2");
    assert_eq!(check(&scale(3), Some(&old), &[]).status, None);
    assert_eq!(rules(&check(&scale(2), Some(&old), &[])), ["kcp-replicas-odd"]);
    let alone = check(&scale(2), None, &[]);
    assert_eq!(alone.status, None);
    assert_eq!(alone.warnings.len(), 1);
}

#[test]
fn a_template_needs_its_feature_gate_and_has_no_defaults() {
    let object = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlaneTemplate", "metadata": {"name": "t", "namespace": "ns"},
        "spec": {"template": {"spec": {"kubeadmConfigSpec": {}}}}});
    assert_eq!(rules(&check(&object, None, &[])), ["kcpt-cluster-topology"]);
    let checked = check(&object, None, &["ClusterTopology"]);
    assert_eq!((checked.status, checked.patch), (None, None));
}

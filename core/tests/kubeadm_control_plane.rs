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
        "spec": {"version": "1.33.1", "machineTemplate": reference, "kubeadmConfigSpec": {"verbosity": 1}},
    })
}

#[test]
fn a_creation_gets_defaults_in_both_versions() {
    // In v1beta1, the CRD has the default of the strategy, and the webhook that of its type.
    let mut older = control_plane("v1beta1");
    older["spec"]["rolloutStrategy"] = json!({"rollingUpdate": {"maxSurge": 1}});
    for (mut object, pointer) in [
        (control_plane("v1beta2"), "/spec/rollout/strategy"),
        (older, "/spec/rolloutStrategy"),
    ] {
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

/// The fields that the schema refuses. An API server adds that it did not evaluate the rules.
fn refused_fields(object: &Value) -> Vec<String> {
    let checked = check(object, None, &[]);
    let is_schema = |rule: &str| rule.starts_with("schema-");
    assert!(checked.violations.iter().all(|violation| is_schema(&violation.rule)));
    let named = checked
        .violations
        .iter()
        .filter(|violation| violation.rule != "schema-incomplete");
    named.map(|violation| violation.path.as_str().to_owned()).collect()
}

#[test]
fn the_schema_of_each_version_refuses_values_that_its_crd_refuses() {
    for (field, value) in [
        ("machineTemplate.spec.deletion.nodeDrainTimeoutSeconds", json!(-1)),
        ("remediation.retryPeriodSeconds", json!(-1)),
        ("rollout.before.certificatesExpiryDays", json!(6)),
        ("kubeadmConfigSpec.format", json!("foo")),
        ("kubeadmConfigSpec.verbosity", json!("1")),
        (
            "kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays",
            json!(1096),
        ),
        (
            "kubeadmConfigSpec.clusterConfiguration.caCertificateValidityPeriodDays",
            json!(36501),
        ),
        (
            "kubeadmConfigSpec.clusterConfiguration.encryptionAlgorithm",
            json!("RSA-1024"),
        ),
        (
            "kubeadmConfigSpec.clusterConfiguration.apiServer.extraArgs",
            json!([{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]),
        ),
    ] {
        let mut object = control_plane("v1beta2");
        let path: Vec<&str> = field.split('.').collect();
        let (last, above) = path.split_last().unwrap();
        above.iter().fold(&mut object["spec"], |value, name| &mut value[*name])[*last] = value;
        assert_eq!(refused_fields(&object), [format!("spec.{field}")]);
    }
    // These values have the types of v1beta2.
    for (field, value) in [("nodeDrainTimeout", json!(10)), ("readinessGates", json!({}))] {
        let mut object = control_plane("v1beta1");
        object["spec"]["machineTemplate"][field] = value;
        assert_eq!(refused_fields(&object), [format!("spec.machineTemplate.{field}")]);
    }
    let mut object = control_plane("v1beta1");
    object["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"]["extraArgs"] = json!([{"name": "a"}]);
    // The fields of an item are unknown.
    assert_eq!(
        refused_fields(&object),
        ["spec.kubeadmConfigSpec.clusterConfiguration.apiServer.extraArgs[0].name"]
    );
}

#[test]
fn f28_a_name_that_no_object_can_have_is_refused() {
    let mut object = control_plane("v1beta2");
    object["metadata"]["name"] = json!("A B");
    assert_eq!(refused_fields(&object), ["metadata.name"]);
}

#[test]
fn the_items_of_lists_are_checked_too() {
    for (field, items, refused) in [
        ("files", json!([{"content": "x"}]), "files[0].path"),
        ("files", json!([{"path": "/x", "encoding": "foo"}]), "files[0].encoding"),
        ("users", json!([{"shell": "/bin/sh"}]), "users[0].name"),
        (
            "diskSetup",
            json!({"partitions": [{"device": "/dev/sda"}]}),
            "diskSetup.partitions[0]",
        ),
        (
            "diskSetup",
            json!({"partitions": [{"device": "/dev/sda", "diskLayout": [{"percentage": 1, "partitionType": "Foo"}]}]}),
            "diskSetup.partitions[0].diskLayout[0].partitionType",
        ),
    ] {
        let mut object = control_plane("v1beta2");
        object["spec"]["kubeadmConfigSpec"][field] = items;
        assert_eq!(refused_fields(&object), [format!("spec.kubeadmConfigSpec.{refused}")]);
    }
    let mut object = control_plane("v1beta2");
    object["spec"]["rolloutStrategy"] = json!({"type": "RollingUpdate"});
    let checked = check(&object, None, &[]);
    assert_eq!((checked.status.unwrap().code, checked.violations.len()), (400, 1));
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
        "spec": {"template": {"spec": {"kubeadmConfigSpec": {"verbosity": 1}}}}});
    assert_eq!(rules(&check(&object, None, &[])), ["kcpt-cluster-topology"]);
    let checked = check(&object, None, &["ClusterTopology"]);
    assert_eq!((checked.status, checked.patch), (None, None));
}

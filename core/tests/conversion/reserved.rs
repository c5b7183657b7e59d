//! Labels, annotations and taints that only one of the two APIs reads, or that Cluster API refuses.

use serde_json::{Value, json};

use super::generated::round_trip;
use super::samples::aws;
use crate::conversion::{Converted, Lookup, Severity, convert};

/// The machine of a sample with changed fields of its spec, converted to Cluster API.
fn converted(change: &Value) -> Converted {
    let sample = aws();
    let mut machine = sample.machine(&sample.provider_spec);
    for (field, value) in change.as_object().unwrap() {
        machine["spec"][field] = value.clone();
    }
    convert(&machine, &sample.context())
}

/// The paths of the issues that block.
fn blocks(converted: &Converted) -> Vec<&str> {
    let blocking = converted
        .issues
        .iter()
        .filter(|issue| issue.severity == Severity::Blocks);
    blocking.map(|issue| issue.path.as_str()).collect()
}

#[test]
fn v36_a_label_of_a_node_that_cluster_api_reads_on_a_machine_is_blocked() {
    for key in [
        "cluster.x-k8s.io/control-plane",
        "cluster.x-k8s.io/deployment-name",
        "cluster.x-k8s.io/cluster-name",
        "cluster.x-k8s.io/set-name",
        "cluster.x-k8s.io/watch-filter",
        "topology.cluster.x-k8s.io/owned",
    ] {
        let path = format!("spec.metadata.labels[{key}]");
        assert_eq!(blocks(&converted(&json!({"metadata": {"labels": {key: ""}}}))), [path]);
    }
    for key in [
        "cluster.x-k8s.io/delete-machine",
        "cluster.x-k8s.io/paused",
        "machine.cluster.x-k8s.io/exclude-node-draining",
        "capstan.dev/conversion-data",
    ] {
        let path = format!("spec.metadata.annotations[{key}]");
        assert_eq!(
            blocks(&converted(&json!({"metadata": {"annotations": {key: ""}}}))),
            [path]
        );
    }
    let sample = aws();
    let mut set = sample.set(&sample.provider_spec);
    set["spec"]["template"]["spec"]["metadata"]["labels"] = json!({"machine-template-hash": "a",
        "cluster.x-k8s.io/deployment-name": "a"});
    assert_eq!(
        blocks(&convert(&set, &sample.context())),
        ["spec.template.spec.metadata.labels[cluster.x-k8s.io/deployment-name]"]
    );
    let of_node = json!({"metadata": {"labels": {"node.cluster.x-k8s.io/mine": "a"}}});
    assert_eq!(converted(&of_node).issues, []);
}

#[test]
fn v36_a_worker_does_not_become_a_machine_of_the_control_plane() {
    let samples = super::samples::samples();
    let sample = samples.iter().find(|sample| sample.platform == "vsphere").unwrap();
    let mut machine = sample.machine(&sample.provider_spec);
    machine["metadata"]["labels"]["cluster.x-k8s.io/control-plane"] = json!("");
    let path = "metadata.labels[cluster.x-k8s.io/control-plane]";
    assert_eq!(blocks(&convert(&machine, &sample.context())), [path]);
    for label in ["role", "type"] {
        machine["metadata"]["labels"][format!("machine.openshift.io/cluster-api-machine-{label}")] = json!("master");
    }
    assert_eq!(blocks(&convert(&machine, &sample.context())), [""; 0]);
}

#[test]
fn v37_labels_with_computed_keys_are_kept_where_no_controller_computes_them() {
    let sample = aws();
    let labels = json!({"machine.openshift.io/zone": "zzz", "machine.openshift.io/region": "rrr",
        "machine.openshift.io/instance-type": "ttt"});
    let annotations = json!({"machine.openshift.io/instance-state": "sss"});
    let metadata = json!({"labels": labels, "annotations": annotations});

    let mut machine = sample.machine(&sample.provider_spec);
    machine["spec"]["metadata"] = metadata.clone();
    let (there, back) = round_trip(&machine, &sample.context());
    assert_eq!(there.issues, []);
    assert_eq!(
        there.objects[0]["metadata"]["labels"]["machine.openshift.io/zone"],
        "zzz"
    );
    assert_eq!(back.unwrap().objects[0]["spec"]["metadata"], metadata);

    let mut set = sample.set(&sample.provider_spec);
    set["metadata"]["annotations"] = annotations;
    for (key, value) in labels.as_object().unwrap() {
        set["metadata"]["labels"][key] = value.clone();
        set["spec"]["template"]["metadata"]["labels"][key] = value.clone();
    }
    let (there, back) = round_trip(&set, &sample.context());
    assert_eq!(there.issues, []);
    let back = &back.unwrap().objects[0];
    assert_eq!(back["metadata"]["annotations"], set["metadata"]["annotations"]);
    for path in ["/metadata/labels", "/spec/template/metadata/labels"] {
        assert_eq!(back.pointer(path), set.pointer(path), "{path}");
    }
}

#[test]
fn v37_a_label_of_cluster_api_with_a_computed_key_comes_back() {
    let sample = aws();
    let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
    let (mut machine, mut infrastructure) = (there.objects[0].clone(), there.objects[1].clone());
    machine["metadata"].as_object_mut().unwrap().remove("annotations");
    for object in [&mut machine, &mut infrastructure] {
        object["metadata"]["labels"]["machine.openshift.io/zone"] = json!("zzz");
    }
    let context = crate::conversion::Context {
        infrastructure_machine: Lookup::Found(&infrastructure),
        ..sample.context()
    };
    let (there, back) = round_trip(&machine, &context);
    assert_eq!(there.issues, []);
    assert_eq!(
        back.unwrap().objects[0]["metadata"]["labels"]["machine.openshift.io/zone"],
        "zzz"
    );
}

#[test]
fn v38_a_taint_that_the_webhooks_of_cluster_api_refuse_is_blocked() {
    let taint = |key: &str| json!({"taints": [{"key": key, "effect": "NoSchedule"}]});
    for key in [
        "node-role.kubernetes.io/master",
        "node-role.kubernetes.io/control-plane",
        "node.cluster.x-k8s.io/uninitialized",
        "node.cluster.x-k8s.io/outdated-revision",
        "node.kubernetes.io/not-ready",
        "node.cloudprovider.kubernetes.io/uninitialized",
    ] {
        assert_eq!(blocks(&converted(&taint(key))), ["spec.taints[0].key"], "{key}");
    }
    for key in [
        "node-role.kubernetes.io/infra",
        "node.kubernetes.io/out-of-service",
        "example.org/dedicated",
    ] {
        assert_eq!(converted(&taint(key)).issues, [], "{key}");
    }
    let sample = aws();
    let mut machine = sample.machine(&sample.provider_spec);
    machine["spec"]["taints"] = taint("node-role.kubernetes.io/control-plane")["taints"].clone();
    for (label, value) in [
        ("cluster.x-k8s.io/control-plane", ""),
        ("machine.openshift.io/cluster-api-machine-role", "master"),
        ("machine.openshift.io/cluster-api-machine-type", "master"),
    ] {
        machine["metadata"]["labels"][label] = json!(value);
    }
    assert_eq!(blocks(&convert(&machine, &sample.context())), [""; 0]);
}

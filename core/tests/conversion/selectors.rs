//! Selectors must select the same machines after a conversion, or the conversion is blocked.

use serde_json::{Value, json};

use super::samples::aws;
use crate::conversion::{Context, Converted, Lookup, convert};

/// A MachineHealthCheck of the Machine API with a selector, converted.
fn to_cluster_api(selector: &Value) -> Converted {
    let check = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers", "namespace": "openshift-machine-api"},
        "spec": {"selector": selector, "nodeStartupTimeout": "10m", "maxUnhealthy": "40%",
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "5m0s"}]}});
    convert(&check, &aws().context())
}

/// A MachineHealthCheck of Cluster API with a selector, converted.
fn to_machine_api(selector: &Value) -> Converted {
    let check = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers", "namespace": "openshift-cluster-api"},
        "spec": {"clusterName": "prod-x7k2p", "selector": selector,
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]}}});
    convert(&check, &Context::default())
}

fn assert_blocked(converted: &Converted, path: &str, input: &Value) {
    let found = converted
        .issues
        .iter()
        .any(|issue| issue.path.as_str().starts_with(path));
    assert!(found && converted.is_blocked(), "{input}: {:?}", converted.issues);
}

#[test]
fn v1_a_health_check_that_selects_by_labels_of_cluster_api_is_blocked() {
    for label in [
        "cluster.x-k8s.io/cluster-name",
        "cluster.x-k8s.io/set-name",
        "cluster.x-k8s.io/deployment-name",
        "cluster.x-k8s.io/control-plane",
        "machine.openshift.io/zone",
    ] {
        let selector = json!({"matchLabels": {label: "a"}});
        assert_blocked(&to_machine_api(&selector), "spec.selector.matchLabels", &selector);
        let selector = json!({"matchExpressions": [{"key": label, "operator": "DoesNotExist"}]});
        assert_blocked(
            &to_machine_api(&selector),
            "spec.selector.matchExpressions[0]",
            &selector,
        );
    }
    let selector = json!({"matchLabels": {"node-role.kubernetes.io/worker": "x"}});
    assert_blocked(&to_machine_api(&selector), "spec.selector.matchLabels", &selector);
    for operator in ["Exists", "DoesNotExist"] {
        let selector = json!({"matchExpressions": [{"key": "node-role.kubernetes.io/worker", "operator": operator}]});
        assert_blocked(
            &to_machine_api(&selector),
            "spec.selector.matchExpressions[0]",
            &selector,
        );
    }
}

#[test]
fn v1_labels_that_machines_keep_are_selected_without_an_issue() {
    let selector = json!({"matchLabels": {"node-role.kubernetes.io/worker": "", "mine": "a"},
        "matchExpressions": [{"key": "other", "operator": "Exists"}]});
    let converted = to_machine_api(&selector);
    assert_eq!(converted.issues, []);
    assert_eq!(
        converted.objects[0]["spec"]["selector"]["matchLabels"],
        json!({"machine.openshift.io/cluster-api-machine-role": "worker", "mine": "a"})
    );
    let selector = json!({"matchExpressions": [{"key": "machine.openshift.io/cluster-api-machine-role",
        "operator": "In", "values": ["worker"]}]});
    let there = to_cluster_api(&selector);
    assert_eq!(there.issues, []);
    let back = convert(&there.objects[0], &Context::default());
    assert_eq!(back.issues, []);
    assert_eq!(back.objects[0]["spec"]["selector"], selector);
}

#[test]
fn v2_a_selector_of_two_roles_does_not_lose_one() {
    let selector = json!({"matchLabels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/infra": ""}});
    assert_blocked(&to_machine_api(&selector), "spec.selector.matchLabels", &selector);
    let sample = aws();
    let there = convert(&sample.set(&sample.provider_spec), &sample.context());
    let mut set = there.objects[0].clone();
    set["metadata"].as_object_mut().unwrap().remove("annotations");
    set["spec"]["selector"] = selector.clone();
    for role in ["worker", "infra"] {
        set["spec"]["template"]["metadata"]["labels"][format!("node-role.kubernetes.io/{role}")] = json!("");
    }
    assert_blocked(
        &convert(&set, &Context::default()),
        "spec.selector.matchLabels",
        &selector,
    );
}

#[test]
fn v3_a_health_check_that_selects_by_computed_labels_is_blocked() {
    for label in [
        "machine.openshift.io/zone",
        "machine.openshift.io/region",
        "machine.openshift.io/instance-type",
        "node-role.kubernetes.io/worker",
    ] {
        let selector = json!({"matchLabels": {label: "a"}});
        assert_blocked(&to_cluster_api(&selector), "spec.selector.matchLabels", &selector);
    }
    let selector = json!({"matchLabels": {"machine.openshift.io/cluster-api-machine-role": ""}});
    assert_blocked(&to_cluster_api(&selector), "spec.selector.matchLabels", &selector);
}

#[test]
fn v9_an_empty_selector_is_blocked_in_both_directions() {
    let sample = aws();
    let there = convert(&sample.set(&sample.provider_spec), &sample.context());
    let context = Context {
        infrastructure_machine: Lookup::Found(&there.objects[1]),
        ..sample.context()
    };
    for selector in [json!({}), json!(null), json!({"matchLabels": {}})] {
        assert_blocked(&to_cluster_api(&selector), "spec.selector", &selector);
        assert_blocked(&to_machine_api(&selector), "spec.selector", &selector);
        let mut set = sample.set(&sample.provider_spec);
        set["spec"]["selector"] = selector.clone();
        assert_blocked(&convert(&set, &sample.context()), "spec.selector", &selector);
        let mut set = there.objects[0].clone();
        set["spec"]["selector"] = selector.clone();
        assert_blocked(&convert(&set, &context), "spec.selector", &selector);
    }
}

#[test]
fn v9_a_selector_beside_its_template_is_blocked() {
    let sample = aws();
    let mut set = sample.set(&sample.provider_spec);
    set["spec"]["selector"] = json!({"matchLabels": {"not-in-the-template": "a"}});
    assert_blocked(
        &convert(&set, &sample.context()),
        "spec.selector",
        &set["spec"]["selector"],
    );
}

#[test]
fn v9_a_startup_timeout_below_30_seconds_is_blocked() {
    let check = |timeout: &str| {
        let check = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
            "metadata": {"name": "workers", "namespace": "openshift-machine-api"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "nodeStartupTimeout": timeout,
                "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "5m"}]}});
        convert(&check, &aws().context()).issues
    };
    for accepted in ["0", "0s", "30s", "10m"] {
        assert_eq!(check(accepted), [], "{accepted}");
    }
    for refused in ["1s", "29s"] {
        assert_eq!(check(refused)[0].path.as_str(), "spec.nodeStartupTimeout", "{refused}");
    }
}

/// The webhook of Cluster API adds this label to the selector of every MachineSet.
#[test]
fn the_label_of_the_own_cluster_is_left_out_of_a_selector() {
    let selector = json!({"matchLabels": {"cluster.x-k8s.io/cluster-name": "prod-x7k2p", "set": "a"}});
    let converted = to_machine_api(&selector);
    assert_eq!(converted.issues, []);
    assert_eq!(
        converted.objects[0]["spec"]["selector"],
        json!({"matchLabels": {"set": "a"}})
    );
    let only = json!({"matchLabels": {"cluster.x-k8s.io/cluster-name": "prod-x7k2p"}});
    assert_blocked(&to_machine_api(&only), "spec.selector", &only);
    let check = |selector: &Value| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
            "metadata": {"name": "a"}, "spec": {"clusterName": "prod-x7k2p", "selector": selector}})
    };
    let normal = |selector: &Value| crate::conversion::normalise(&check(selector), &Context::default());
    assert_eq!(normal(&selector), normal(&json!({"matchLabels": {"set": "a"}})));
}

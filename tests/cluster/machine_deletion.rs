//! The policy that refuses the deletion of control plane Machines of Cluster API that etcd needs,
//! on a real API server and without a webhook server. The controller sets the annotation that the
//! policy reads.

use std::time::Duration;

use anyhow::ensure;
use capstan_sandbox::control_plane::{ControlPlane, Options, Output, wait_until};
use capstan_sandbox::installation::manifests_of;
use serde_json::{Value, json};

use super::world::capstan;

const SOON: Duration = Duration::from_secs(240);
const MACHINES: &str = "machines.cluster.x-k8s.io";
const REQUIRED: &str = "capstan.dev/required-for-quorum";
const REASON: &str = "the removal of etcd member n-0 would leave 1 healthy of 2 voting etcd members; 2 are needed";

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": MACHINES},
        "spec": {"group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "Machine", "plural": "machines"},
            "versions": [{"name": "v1beta2", "served": true, "storage": true, "schema": schema}]},
    })
}

/// A Machine. One with a finalizer stays when it is deleted.
fn machine(namespace: &str, name: &str, is_control_plane: bool, annotations: &Value) -> Value {
    let label = if is_control_plane {
        "cluster.x-k8s.io/control-plane"
    } else {
        "cluster.x-k8s.io/set-name"
    };
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": namespace, "labels": {label: ""}, "annotations": annotations},
        "spec": {},
    })
}

async fn delete(plane: &ControlPlane, namespace: &str, name: &str, user: Option<&str>) -> Output {
    let arguments = ["delete", MACHINES, name, "-n", namespace, "--wait=false"];
    let command = plane.kubectl().args(arguments);
    let command = match user {
        Some(user) => command.as_user(user, &["system:masters"]),
        None => command,
    };
    command.run().await.unwrap()
}

fn assert_refused(output: &Output) {
    let policy = "ValidatingAdmissionPolicy 'capstan-control-plane-machines'";
    let advice = "set the annotation capstan.dev/allow-quorum-loss on the Machine";
    for text in [policy, REASON, advice] {
        assert!(!output.success() && output.stderr.contains(text), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_etcd_needs_is_deleted_only_if_a_user_allows_it_or_everything_is_deleted() {
    let options = Options {
        no_controllers: true,
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await.unwrap();
    plane.apply_yaml(&definition().to_string()).await.unwrap();
    let policies = manifests_of(capstan(), "policies", "admission,kubeadm-control-plane").await;
    plane.apply_yaml(&policies.unwrap()).await.unwrap();
    let required = json!({REQUIRED: REASON});
    let allowed = json!({REQUIRED: REASON, "capstan.dev/allow-quorum-loss": ""});
    let moved = json!({REQUIRED: REASON, "clusterctl.cluster.x-k8s.io/delete-for-move": ""});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}});
    plane.apply_yaml(&namespace.to_string()).await.unwrap();
    let machines = [
        machine("default", "needed", true, &required),
        machine("default", "by-capstan", true, &required),
        machine("default", "by-upstream", true, &required),
        machine("default", "by-the-core-manager", true, &required),
        machine("default", "by-the-collector", true, &required),
        machine("default", "by-the-manager", true, &required),
        machine("default", "allowed", true, &allowed),
        machine("default", "moved", true, &moved),
        machine("default", "not-needed", true, &json!({})),
        machine("default", "without-a-reason", true, &json!({REQUIRED: ""})),
        machine("default", "worker", false, &required),
        machine("leaving", "needed", true, &required),
    ];
    for machine in &machines {
        plane.apply_yaml(&machine.to_string()).await.unwrap();
    }
    wait_until("the policy to apply", SOON, async || {
        let dry = ["delete", MACHINES, "needed", "-n", "default", "--dry-run=server"];
        let output = plane.kubectl().args(dry).run().await?;
        ensure!(!output.success(), "{output}");
        Ok(Some(()))
    })
    .await
    .unwrap();

    assert_refused(&delete(&plane, "default", "needed", None).await);
    assert_refused(&delete(&plane, "default", "needed", Some("alice")).await);
    assert_refused(&delete(&plane, "leaving", "needed", None).await);
    let refused = delete(&plane, "default", "without-a-reason", None).await;
    let sentence = "Machine without-a-reason must stay: etcd needs its member for the quorum. Repair";
    assert!(!refused.success() && refused.stderr.contains(sentence), "{refused}");
    for (name, user) in [
        ("allowed", None),
        ("moved", None),
        ("not-needed", None),
        ("worker", None),
        (
            "by-capstan",
            Some("system:serviceaccount:openshift-machine-api:capstan-kubeadm-control-plane"),
        ),
        (
            "by-upstream",
            Some("system:serviceaccount:capi-kubeadm-control-plane-system:capi-kubeadm-control-plane-manager"),
        ),
        (
            "by-the-core-manager",
            Some("system:serviceaccount:capi-system:capi-manager"),
        ),
        (
            "by-the-collector",
            Some("system:serviceaccount:kube-system:generic-garbage-collector"),
        ),
        ("by-the-manager", Some("system:kube-controller-manager")),
    ] {
        delete(&plane, "default", name, user).await.checked().unwrap();
    }
    // Without its controllers, the namespace stays in deletion.
    let leaving = ["delete", "namespace", "leaving", "--wait=false"];
    plane.kubectl().args(leaving).run().await.unwrap().checked().unwrap();
    wait_until("the deletion in a namespace that is being deleted", SOON, async || {
        let output = delete(&plane, "leaving", "needed", None).await;
        ensure!(output.success(), "{output}");
        Ok(Some(()))
    })
    .await
    .unwrap();
}

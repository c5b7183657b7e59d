//! The objects that the browser shows besides those of a rollout.

use std::io::Write as _;

use capstan_core::api::cluster_x_k8s_io;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::world::{self, NAMESPACE, World};

/// A name that attacks the page if it is not escaped.
pub const MARKUP: &str = "<script>window.attacked = 1</script><img src=x onerror='window.attacked = 1'>";
/// A name that is written from right to left, and would turn the text after it.
pub const RIGHT_TO_LEFT: &str = "מכונה-\u{202e}ראשית";
/// A name without a place to break a line.
pub const LONG: &str = "a-very-long-name-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
                        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// The kinds of Cluster API. Their CRDs keep all fields.
const KINDS: [(&str, &str, &str); 9] = [
    ("cluster.x-k8s.io", "Cluster", "clusters"),
    ("cluster.x-k8s.io", "Machine", "machines"),
    ("cluster.x-k8s.io", "MachineSet", "machinesets"),
    ("bootstrap.cluster.x-k8s.io", "KubeadmConfig", "kubeadmconfigs"),
    (
        "controlplane.cluster.x-k8s.io",
        "KubeadmControlPlane",
        "kubeadmcontrolplanes",
    ),
    ("infrastructure.cluster.x-k8s.io", "DevMachine", "devmachines"),
    ("cluster.x-k8s.io", "MachinePool", "machinepools"),
    (
        "infrastructure.cluster.x-k8s.io",
        "DockerMachinePool",
        "dockermachinepools",
    ),
    ("infrastructure.cluster.x-k8s.io", "DockerMachine", "dockermachines"),
];
/// The CRD of ControlPlanes, as the feature installs it.
const CONTROL_PLANES: &str = "manifests/crds-control-plane/machine.openshift.io_controlplanes.yaml";

fn definition((group, kind, plural): (&str, &str, &str)) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"),
            // The API server serves this group to administrators only with the annotation.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1beta2", "served": true, "storage": true, "schema": schema}]},
    })
}

/// Creates a ControlPlane beside the set, a KubeadmControlPlane and a MachinePool with their
/// machines, and objects that exist in both APIs.
pub async fn create_cluster_api(world: &World) {
    let namespace = cluster_x_k8s_io::NAMESPACE;
    let mut manifests: Vec<String> = KINDS.iter().map(|kind| definition(*kind).to_string()).collect();
    manifests.push(world::read(CONTROL_PLANES).unwrap());
    manifests.push(format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}"
    ));
    world.plane.apply_yaml(&manifests.join("\n---\n")).await.unwrap();
    let mut objects = kubeadm_control_plane(namespace);
    objects.extend(machine_pool(namespace));
    objects.push(control_plane(world).await);
    objects.push(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {"name": "workers", "namespace": namespace}, "spec": {"clusterName": "workload"}}));
    for (name, wanted, synchronized, message) in [
        ("workers", "ClusterAPI", "True", "synchronized"),
        ("edge", "MachineAPI", "False", "the field spec.x cannot be converted"),
    ] {
        let condition = json!({"type": "Synchronized", "status": synchronized, "message": message,
            "reason": "Test", "severity": "Error", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        objects.push(
            json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"authoritativeAPI": wanted, "replicas": 0, "selector": {"matchLabels": {"set": name}},
                "template": {"metadata": {"labels": {"set": name}}, "spec": {"providerSpec": {"value": {}}}}},
            "status": {"authoritativeAPI": "MachineAPI", "synchronizedAPI": "MachineAPI",
                "synchronizedGeneration": 1, "conditions": [condition]}}),
        );
    }
    let mut owner = json!(null);
    for object in &mut objects {
        // The owner was created before its machines.
        if let Some(reference) = object.pointer_mut("/metadata/ownerReferences/0/uid") {
            *reference = owner.clone();
        }
        let uid = create(world, object).await;
        if object["kind"] == "KubeadmControlPlane" {
            owner = json!(uid);
        }
    }
}

/// Creates an object, and returns its uid.
async fn create(world: &World, object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap();
    let (group, version) = text("/apiVersion").split_once('/').unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), text("/metadata/namespace"), &resource);
    let decoded: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let created = world
        .wait_for("the kind to be served", async |_| {
            Ok(api.create(&PostParams::default(), &decoded).await.ok())
        })
        .await;
    let created = created.unwrap();
    if group == "machine.openshift.io" && !object["status"].is_null() {
        let status = Patch::Merge(json!({"status": object["status"]}));
        let parameters = PatchParams::default();
        let patched = api.patch_status(text("/metadata/name"), &parameters, &status);
        patched.await.unwrap();
    }
    created.metadata.uid.unwrap()
}

/// A ControlPlane with the machines of the set, which is to have five of them.
async fn control_plane(world: &World) -> Value {
    let set = world.api("controlplanemachinesets").get("cluster").await.unwrap();
    let template = &set.data["spec"]["template"]["machines_v1beta1_machine_openshift_io"];
    json!({"apiVersion": "machine.openshift.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": "cluster", "namespace": NAMESPACE},
        "spec": {"replicas": 5, "providerSpec": template["spec"]["providerSpec"],
            "failureDomains": template["failureDomains"]}})
}

/// A MachinePool of two instances, of which one has no Machine.
fn machine_pool(namespace: &str) -> Vec<Value> {
    let group = "infrastructure.cluster.x-k8s.io";
    let labels = json!({"cluster.x-k8s.io/cluster-name": "workload", "cluster.x-k8s.io/pool-name": "pool"});
    let infrastructure = |kind: &str, name: &str| json!({"apiGroup": group, "kind": kind, "name": name});
    let mut objects = vec![
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
            "metadata": {"name": "pool", "namespace": namespace},
            "spec": {"clusterName": "workload", "replicas": 2, "template": {"spec": {"version": "v1.34.0",
                "clusterName": "workload", "infrastructureRef": infrastructure("DockerMachinePool", "pool")}}}}),
        json!({"apiVersion": format!("{group}/v1beta2"), "kind": "DockerMachinePool",
            "metadata": {"name": "pool", "namespace": namespace},
            "status": {"ready": true, "infrastructureMachineKind": "DockerMachine"}}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "pool-0", "namespace": namespace, "labels": labels},
            "spec": {"clusterName": "workload", "infrastructureRef": infrastructure("DockerMachine", "pool-0")}}),
    ];
    for name in ["pool-0", "pool-1"] {
        objects.push(
            json!({"apiVersion": format!("{group}/v1beta2"), "kind": "DockerMachine",
            "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": {}}),
        );
    }
    objects
}

/// A KubeadmControlPlane whose version is newer than that of its machines.
fn kubeadm_control_plane(namespace: &str) -> Vec<Value> {
    let infrastructure =
        |kind: &str, name: &str| json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": name});
    let domains = ["a", "b", "c"].map(|name| json!({"name": name, "controlPlane": true}));
    let mut objects = vec![
        json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "workload", "namespace": namespace,
                "labels": {"cluster.x-k8s.io/cluster-name": "workload"}},
            "spec": {"replicas": 3, "version": "v1.34.0", "kubeadmConfigSpec": {},
                "machineTemplate": {"spec": {"infrastructureRef": infrastructure("DevMachineTemplate", "t")}}},
            "status": {"initialization": {"controlPlaneInitialized": true},
                "conditions": [{"type": "CertificatesAvailable", "status": "True"}]}}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "workload", "namespace": namespace},
            "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}},
            "status": {"initialization": {"infrastructureProvisioned": true}, "failureDomains": domains}}),
    ];
    for (index, domain) in ["a", "b", "c"].iter().enumerate() {
        let conditions = [
            "APIServerPodHealthy",
            "ControllerManagerPodHealthy",
            "SchedulerPodHealthy",
            "EtcdPodHealthy",
            "EtcdMemberHealthy",
        ]
        .map(|type_| json!({"type": type_, "status": "True"}));
        let name = format!("workload-{index}");
        let owner = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "name": "workload", "uid": "uid", "controller": true});
        objects.push(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner],
                "labels": {"cluster.x-k8s.io/cluster-name": "workload", "cluster.x-k8s.io/control-plane": ""}},
            "spec": {"clusterName": "workload", "version": "v1.33.0", "failureDomain": domain,
                "providerID": format!("dev://{index}"), "infrastructureRef": infrastructure("DevMachine", &name)},
            "status": {"nodeRef": {"name": format!("node-{index}")}, "conditions": conditions}}));
        objects.push(
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachine",
            "metadata": {"name": name, "namespace": namespace,
                "annotations": {"cluster.x-k8s.io/cloned-from-name": "t",
                    "cluster.x-k8s.io/cloned-from-groupkind": "DevMachineTemplate.infrastructure.cluster.x-k8s.io"}}}),
        );
    }
    objects
}

/// A file with a set and machines that have hostile names.
pub fn hostile_file() -> NamedTempFile {
    let documents = |text: &str| -> Vec<Value> {
        let parts = text.split("\n---\n");
        parts.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
    };
    let mut objects = documents(include_str!("../fixtures/aws/set.yaml"));
    *objects[0].pointer_mut(crate::TEMPLATE).unwrap() = json!(MARKUP);
    let names = [MARKUP, RIGHT_TO_LEFT, LONG];
    let mut machines = documents(include_str!("../fixtures/aws/machines.yaml"));
    for (index, (machine, name)) in machines.iter_mut().zip(names).enumerate() {
        // The index of a machine is at the end of its name.
        let name = format!("{name}-{index}");
        machine["metadata"]["name"] = json!(name);
        machine["status"]["nodeRef"] = json!({"kind": "Node", "name": name});
        machine["spec"]["lifecycleHooks"]["preDrain"][0]["name"] = json!(name);
    }
    objects.extend(machines);
    // The nodes of the machines are gone.
    objects.push(json!({"apiVersion": "v1", "kind": "NodeList", "items": []}));
    for name in names {
        objects.push(
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "message": name,
            "type": "Warning", "involvedObject": {"kind": "Machine", "name": name},
            "lastTimestamp": "2026-01-01T00:00:00Z"}),
        );
        objects.push(
            json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"authoritativeAPI": "MachineAPI"},
            "status": {"authoritativeAPI": "MachineAPI",
                "conditions": [{"type": "Synchronized", "status": "False", "message": name}]}}),
        );
    }
    let mut file = NamedTempFile::with_suffix(".json").unwrap();
    file.write_all(Value::Array(objects).to_string().as_bytes()).unwrap();
    file
}

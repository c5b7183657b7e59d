//! `capstan plan` and `capstan status` of a KubeadmControlPlane in a cluster. The API server is
//! both the management cluster and the managed cluster. The CRDs accept every object: the commands
//! only read.

use std::process::{Command, Output};
use std::time::Duration;

use capstan::workload::CLIENT_URLS;
use capstan_sandbox::control_plane::{ControlPlane, wait_until};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use super::members::{Members, NAMES};

/// The kinds: group, version, kind, plural.
const KINDS: [[&str; 4]; 5] = [
    ["cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"],
    ["cluster.x-k8s.io", "v1beta2", "Machine", "machines"],
    [
        "bootstrap.cluster.x-k8s.io",
        "v1beta2",
        "KubeadmConfig",
        "kubeadmconfigs",
    ],
    [
        "controlplane.cluster.x-k8s.io",
        "v1beta2",
        "KubeadmControlPlane",
        "kubeadmcontrolplanes",
    ],
    ["infrastructure.cluster.x-k8s.io", "v1", "FooMachine", "foomachines"],
];

fn crd([group, version, kind, plural]: [&str; 4]) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]},
    })
}

/// A healthy control plane of three machines that were cloned from the template `old`.
fn objects(namespace: &str) -> Vec<Value> {
    let domains = ["a", "b", "c"].map(|name| json!({"name": name, "controlPlane": true}));
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c-uid"});
    let template = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "FooMachineTemplate", "name": "new"});
    // An owner comes first: the garbage collector deletes objects whose owner does not exist.
    let mut objects = vec![
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": namespace},
            "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}},
            "status": {"initialization": {"infrastructureProvisioned": true}, "failureDomains": domains},
        }),
        json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "cp", "namespace": namespace, "ownerReferences": [owner]},
            "spec": {"replicas": 3, "version": "v1.33.0", "kubeadmConfigSpec": {},
                "machineTemplate": {"spec": {"infrastructureRef": template}}},
            "status": {"initialization": {"controlPlaneInitialized": true}, "conditions": [{
                "type": "CertificatesAvailable", "status": "True", "reason": "Available", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }),
        // A second control plane in the namespace is left out.
        json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "other", "namespace": namespace},
            "spec": {"version": "v1.32.0", "kubeadmConfigSpec": {},
                "machineTemplate": {"spec": {"infrastructureRef": template}}},
        }),
    ];
    for (name, domain) in std::iter::zip(NAMES, ["a", "b", "c"]) {
        objects.extend(machine(namespace, name, domain));
    }
    objects
}

/// A machine, its infrastructure, and its Node `node`.
fn machine(namespace: &str, node: &str, domain: &str) -> [Value; 3] {
    let conditions = [
        "APIServerPodHealthy",
        "ControllerManagerPodHealthy",
        "SchedulerPodHealthy",
        "EtcdPodHealthy",
        "EtcdMemberHealthy",
    ]
    .map(|type_| json!({"type": type_, "status": "True"}));
    let name = format!("m-{domain}");
    let controller = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "name": "cp", "uid": "", "controller": true});
    let infrastructure = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "FooMachine", "name": name});
    let cloned = json!({"cluster.x-k8s.io/cloned-from-name": "old",
        "cluster.x-k8s.io/cloned-from-groupkind": "FooMachineTemplate.infrastructure.cluster.x-k8s.io"});
    [
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [controller],
                "labels": {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/control-plane": ""}},
            "spec": {"clusterName": "c", "version": "v1.33.0", "failureDomain": domain,
                "providerID": format!("foo://{name}"), "infrastructureRef": infrastructure,
                "bootstrap": {"configRef": {"kind": "KubeadmConfig", "name": name}}},
            "status": {"nodeRef": {"name": node}, "conditions": conditions},
        }),
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1", "kind": "FooMachine",
            "metadata": {"name": name, "namespace": namespace, "annotations": cloned},
        }),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node, "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"providerID": format!("foo://{name}")},
        }),
    ]
}

/// The static pod of an etcd member, as kubeadm writes it.
fn pod(node: &str, address: &str) -> Value {
    let urls = format!("https://{address}");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("etcd-{node}"), "namespace": "kube-system",
            "labels": {"component": "etcd", "tier": "control-plane"},
            "annotations": {(CLIENT_URLS): urls, "kubernetes.io/config.mirror": "hash"}},
        "spec": {"nodeName": node, "containers": [{"name": "etcd", "image": "etcd"}]},
    })
}

fn resource(object: &Value) -> ApiResource {
    let kind = object["kind"].as_str().unwrap();
    let (group, version) = object["apiVersion"]
        .as_str()
        .unwrap()
        .split_once('/')
        .unwrap_or(("", "v1"));
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural)
}

/// Creates an object. The owner references get the UIDs of the created owners.
async fn create(client: &kube::Client, object: &Value, uids: &[(&str, String)]) -> Value {
    let mut object = object.clone();
    for owner in object["metadata"]["ownerReferences"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        let known = uids.iter().find(|(kind, _)| owner["kind"] == *kind);
        let uid = known.map_or("later", |(_, uid)| uid);
        owner["uid"] = json!(uid);
    }
    let resource = resource(&object);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let body: DynamicObject = serde_json::from_value(object).unwrap();
    let created = wait_until("the kind to be served", Duration::from_secs(240), async || {
        Ok(Some(api.create(&PostParams::default(), &body).await?))
    });
    serde_json::to_value(created.await.unwrap()).unwrap()
}

fn capstan(plane: &ControlPlane, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command
        .args(arguments)
        .arg("--kubeconfig")
        .arg(plane.kubeconfig().unwrap());
    command.output().unwrap()
}

fn report(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_of_a_cluster_is_planned_as_its_objects_in_files_are() {
    let plane = ControlPlane::shared().await.unwrap();
    let client = plane.client().await.unwrap();
    let namespace = plane.namespace("plan").await.unwrap();
    for kind in KINDS {
        plane.apply_yaml(&crd(kind).to_string()).await.unwrap();
    }
    let mut stored = Vec::new();
    let mut uids: Vec<(&str, String)> = Vec::new();
    for object in objects(&namespace) {
        let created = create(&client, &object, &uids).await;
        let uid = created["metadata"]["uid"].as_str().unwrap().to_owned();
        match created["metadata"]["name"].as_str() {
            Some("c") => uids.push(("Cluster", uid)),
            Some("cp") => uids.push(("KubeadmControlPlane", uid)),
            _ => {}
        }
        stored.push(created);
    }
    let name = format!("{namespace}/cp");
    let live = [
        "plan",
        "-o",
        "json",
        "--now",
        "2026-12-01T00:00:00Z",
        "--kubeadm-control-plane",
        &name,
    ];

    // Without the kubeconfig of the managed cluster, the Nodes are not known.
    let output = capstan(plane, &live);
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        note.contains("the Nodes are not known") && note.contains("c-kubeconfig must exist"),
        "{note}"
    );
    report(&output);

    let kubeconfig = std::fs::read_to_string(plane.kubeconfig().unwrap()).unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"value": kubeconfig},
        "metadata": {"name": "c-kubeconfig", "namespace": namespace}});
    create(&client, &secret, &[]).await;
    let output = capstan(plane, &live);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("Nodes"), "{output:?}");
    let planned = report(&output);
    assert_eq!(planned["next"][0]["action"], "create");
    assert!(
        planned.to_string().contains("FooMachine is not up-to-date"),
        "{planned}"
    );

    // Without the authority of etcd, the members are not known.
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        note.contains("the etcd members are not known") && note.contains("c-etcd must exist"),
        "{note}"
    );
    assert_eq!(planned["etcd"], Value::Null);

    // The same objects in files give the same reports.
    stored.retain(|object| object["metadata"]["name"] != "other");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    let texts: Vec<String> = stored.iter().map(Value::to_string).collect();
    std::fs::write(&file, texts.join("\n---\n")).unwrap();
    let mut offline = Command::new(env!("CARGO_BIN_EXE_capstan"));
    offline
        .args(["plan", "-o", "json", "--now", "2026-12-01T00:00:00Z", "-f"])
        .arg(&file);
    assert_eq!(report(&offline.output().unwrap()), planned);

    let status = report(&capstan(
        plane,
        &["status", "-o", "json", "--kubeadm-control-plane", &name],
    ));
    assert_eq!(
        (&status["set"], &status["progress"]),
        (&json!("cp"), &json!({"updated": 0, "total": 3}))
    );
    assert_eq!(status["machines"][0]["node"], "node-a");

    etcd_members_are_counted(plane, &client, &namespace, &live).await;

    let missing = capstan(
        plane,
        &["plan", "--kubeadm-control-plane", &format!("{namespace}/none")],
    );
    let error = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(2), "{error}");
    assert!(error.contains("there must be a KubeadmControlPlane"), "{error}");
}

/// The plan of the cluster counts the members of a real etcd cluster, and a member that was killed.
async fn etcd_members_are_counted(plane: &ControlPlane, client: &kube::Client, namespace: &str, plan: &[&str]) {
    let mut members = Members::start().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "stringData": {"tls.crt": members.authority.certificate(), "tls.key": members.authority.key()},
        "metadata": {"name": "c-etcd", "namespace": namespace}});
    create(client, &secret, &[]).await;
    for (name, endpoint) in std::iter::zip(NAMES, &members.endpoints) {
        create(client, &pod(name, &endpoint.address), &[]).await;
    }
    let etcd = || {
        let output = capstan(plane, plan);
        let note = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!note.contains("not known"), "{note}");
        report(&output)
    };
    let planned = etcd();
    let count = |planned: &Value| ["voting", "healthy", "quorum"].map(|key| planned["etcd"][key].clone());
    assert_eq!(count(&planned), [json!(3), json!(3), json!(2)], "{planned}");
    let names: Vec<&Value> = planned["etcd"]["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, NAMES);
    assert_eq!(planned["next"][0]["action"], "create");

    // The conditions of its Machine still say that the member is healthy.
    members.kill(1);
    let planned = wait_until("the others to have a leader", Duration::from_secs(240), async || {
        let output = capstan(plane, plan);
        let planned = report(&output);
        Ok(Some(planned).filter(|planned| !planned["etcd"].is_null()))
    });
    let planned = planned.await.unwrap();
    assert_eq!(count(&planned), [json!(3), json!(2), json!(2)], "{planned}");
    assert_eq!(
        planned["next"],
        json!([]),
        "another member would be one too many: {planned}"
    );
    assert_eq!(planned["waits"][0]["for"], "EtcdHealthy", "{planned}");
}

//! KubeadmControlPlanes on a real API server: the CRDs, the webhooks, and the conversion between
//! the versions, with the permissions that the manifests grant.

use std::time::Duration;

use capstan_core::admission::rule_files;
use capstan_core::schema::crd;
use capstan_sandbox::control_plane::{ControlPlane, Options, Output, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE, SERVICE_ACCOUNT, Server, manifests_of};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::world::capstan;

const SOON: Duration = Duration::from_secs(240);
const FEATURES: &str = "admission,kubeadm-control-plane";
/// The resource name of the older version.
const V1BETA1: &str = "kubeadmcontrolplanes.v1beta1.controlplane.cluster.x-k8s.io";
/// The resource name of the stored version.
const V1BETA2: &str = "kubeadmcontrolplanes.v1beta2.controlplane.cluster.x-k8s.io";
/// The name of the CRD.
const DEFINITION: &str = "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io";
const OPERATIONS: &str = include_str!("../../docs/operations.md");

/// An infrastructure with two versions of the contract.
fn infrastructure() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foomachinetemplates.infrastructure.cluster.x-k8s.io",
            "labels": {"cluster.x-k8s.io/v1beta2": "v1beta1_v1beta2"}},
        "spec": {"group": "infrastructure.cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "FooMachineTemplate", "plural": "foomachinetemplates"},
            "versions": [{"name": "v1beta2", "served": true, "storage": true, "schema": schema}]},
    })
}

fn control_plane(name: &str) -> Value {
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "FooMachineTemplate", "name": "t"});
    json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "version": "1.33.1",
            "machineTemplate": {"spec": {"infrastructureRef": reference}},
            "kubeadmConfigSpec": {
                "clusterConfiguration": {"apiServer": {"extraArgs": [{"name": "v", "value": "2"}]}},
                "initConfiguration": {"timeouts": {"discoverySeconds": 3}},
            },
        },
    })
}

/// A cluster with the feature. The server is stopped when it is dropped.
async fn start() -> (ControlPlane, Server) {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let cluster = Cluster::of(&plane).unwrap();
    let namespace = ["create", "namespace", NAMESPACE];
    cluster.run(&namespace, "").await.unwrap().checked().unwrap();
    cluster.apply(&infrastructure().to_string()).await.unwrap();
    cluster
        .apply(&manifests_of(capstan(), "rbac", FEATURES).await.unwrap())
        .await
        .unwrap();
    let server = serve(&plane).await;
    (plane, server)
}

/// Starts a server, and registers it for the webhooks and for the conversion.
async fn serve(plane: &ControlPlane) -> Server {
    let cluster = Cluster::of(plane).unwrap();
    let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
    let kubeconfig = plane.kubeconfig_for(SERVICE_ACCOUNT, &groups).unwrap();
    let flags = [
        format!("--kubeconfig={}", kubeconfig.display()),
        String::from("--kubeadm-control-plane"),
    ];
    let folder = plane.folder().join("capstan");
    std::fs::create_dir_all(&folder).unwrap();
    let server = Server::start(capstan(), &flags, "127.0.0.1", &folder).await.unwrap();
    for mut definition in crd::kubeadm_crds(&rule_files().unwrap()).unwrap() {
        register(&mut definition["spec"]["conversion"]["webhook"], &server);
        cluster.apply(&definition.to_string()).await.unwrap();
    }
    let webhooks = manifests_of(capstan(), "webhooks", FEATURES).await.unwrap();
    let configurations: Vec<Value> = serde_saphyr::from_multiple(&webhooks).unwrap();
    for mut configuration in configurations {
        if configuration["metadata"]["name"] != "capstan-kubeadm-control-plane" {
            continue;
        }
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            register(webhook, &server);
        }
        cluster.apply(&configuration.to_string()).await.unwrap();
    }
    // The API server calls the webhooks a moment after they are registered.
    wait_until("the webhooks are called", SOON, async || {
        let create = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
        let output = cluster.run(&create, &control_plane("probe").to_string()).await?;
        Ok(output.stdout.contains("\"v1.33.1\"").then_some(()))
    })
    .await
    .unwrap();
    server
}

/// Replaces the Service of a webhook with the address of a server.
fn register(webhook: &mut Value, server: &Server) {
    let client = &mut webhook["clientConfig"];
    let (url, authority) = server.address(client["service"]["path"].as_str().unwrap());
    *client = json!({"url": url, "caBundle": ByteString(authority.as_bytes().to_vec())});
}

async fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> Output {
    plane.kubectl().args(arguments.iter().copied()).run().await.unwrap()
}

async fn get(plane: &ControlPlane, resource: &str, name: &str) -> Value {
    let output = kubectl(plane, &["get", resource, name, "-o", "json"]).await;
    serde_json::from_str(&output.checked().unwrap().stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeadm_control_planes_are_defaulted_checked_scaled_and_converted() {
    let (plane, _server) = start().await;
    let cluster = Cluster::of(&plane).unwrap();
    cluster.apply(&control_plane("cp").to_string()).await.unwrap();

    // Defaults.
    let stored = get(&plane, "kcp", "cp").await;
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["spec"]["version"]),
        (&json!(1), &json!("v1.33.1"))
    );
    assert_eq!(stored["spec"]["rollout"]["strategy"]["rollingUpdate"]["maxSurge"], 1);

    // Scale, dry run, and explain.
    for (replicas, refusal) in [
        ("2", Some("kcp-replicas-odd")),
        ("0", Some("kcp-replicas-positive")),
        ("3", None),
    ] {
        let output = kubectl(&plane, &["scale", "kcp/cp", &format!("--replicas={replicas}")]).await;
        assert_eq!(output.success(), refusal.is_none(), "{output}");
        assert!(output.stderr.contains(refusal.unwrap_or_default()), "{output}");
    }
    scale_beside_external_etcd(&plane, &cluster).await;
    for (version, refusal) in [
        ("v1.35.0", Some("kcp-version-skip")),
        ("v1.32.9", Some("kcp-version-downgrade")),
        ("v1.34.0", None),
    ] {
        let patch = json!({"spec": {"version": version}}).to_string();
        let arguments = ["patch", "kcp", "cp", "--type=merge", "-p", &patch, "--dry-run=server"];
        let output = kubectl(&plane, &arguments).await;
        assert_eq!(output.success(), refusal.is_none(), "{output}");
        assert!(output.stderr.contains(refusal.unwrap_or_default()), "{output}");
    }
    let etcd = "kcp.spec.kubeadmConfigSpec.clusterConfiguration.etcd";
    let explained = kubectl(&plane, &["explain", etcd]).await;
    assert!(
        explained.stdout.contains("An etcd that the cluster does not manage."),
        "{explained}"
    );

    conversion(&plane).await;
}

/// W132: the review of a Scale contains only the Scale. The server reads the control plane, which
/// has external etcd and may have any number of machines.
async fn scale_beside_external_etcd(plane: &ControlPlane, cluster: &Cluster) {
    let mut outside = control_plane("outside");
    let etcd = json!({"external": {"endpoints": ["https://10.0.0.1:2379"], "caFile": "/a", "certFile": "/b",
        "keyFile": "/c"}});
    outside["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"] = etcd;
    cluster.apply(&outside.to_string()).await.unwrap();
    for (replicas, refusal) in [
        ("4", None),
        ("2", None),
        ("0", Some("kcp-replicas-positive")),
        ("1", None),
    ] {
        let output = kubectl(plane, &["scale", "kcp/outside", &format!("--replicas={replicas}")]).await;
        assert_eq!(output.success(), refusal.is_none(), "{output}");
        assert!(output.stderr.contains(refusal.unwrap_or_default()), "{output}");
    }
    kubectl(plane, &["delete", "kcp/outside"]).await.checked().unwrap();
}

/// A write of what was read in `v1beta1` changes nothing. A change in `v1beta1` keeps the fields
/// that only `v1beta2` has.
async fn conversion(plane: &ControlPlane) {
    let stored = get(plane, "kcp", "cp").await;
    let older = get(plane, V1BETA1, "cp").await;
    assert_eq!(older["apiVersion"], "controlplane.cluster.x-k8s.io/v1beta1");
    assert_eq!(
        older["spec"]["machineTemplate"]["infrastructureRef"]["apiVersion"],
        "infrastructure.cluster.x-k8s.io/v1beta2"
    );
    let replaced = plane.kubectl().args(["replace", "-f", "-"]).stdin(older.to_string());
    replaced.run().await.unwrap().checked().unwrap();
    let again = get(plane, "kcp", "cp").await;
    assert_eq!(again["spec"], stored["spec"]);
    assert_eq!(again["metadata"]["generation"], stored["metadata"]["generation"]);
    let patch = json!({"spec": {"remediationStrategy": {"retryPeriod": "20m0s"}}}).to_string();
    let output = kubectl(plane, &["patch", V1BETA1, "cp", "--type=merge", "-p", &patch]).await;
    output.checked().unwrap();
    let changed = get(plane, "kcp", "cp").await;
    assert_eq!(changed["spec"]["remediation"], json!({"retryPeriodSeconds": 1200}));
    assert_eq!(
        changed["spec"]["kubeadmConfigSpec"],
        stored["spec"]["kubeadmConfigSpec"]
    );
    // A rule of the webhook also applies to a request in the older version.
    let patch = json!({"spec": {"replicas": 4}}).to_string();
    let output = kubectl(plane, &["patch", V1BETA1, "cp", "--type=merge", "-p", &patch]).await;
    assert!(output.stderr.contains("kcp-replicas-odd"), "{output}");
}

/// Makes the API server store objects in a version.
async fn store_in(plane: &ControlPlane, version: &str) {
    let definition = get(plane, "crd", DEFINITION).await;
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let operations: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, known)| {
            let path = format!("/spec/versions/{index}/storage");
            json!({"op": "replace", "path": path, "value": known["name"] == version})
        })
        .collect();
    let patch = json!(operations).to_string();
    let arguments = ["patch", "crd", DEFINITION, "--type=json", "-p", &patch];
    kubectl(plane, &arguments).await.checked().unwrap();
    // The handler of the resource is replaced a moment after the CRD.
    let cluster = Cluster::of(plane).unwrap();
    let key = "/registry/controlplane.cluster.x-k8s.io/kubeadmcontrolplanes/default/probe";
    let expected = format!("controlplane.cluster.x-k8s.io/{version}");
    wait_until("objects are stored in the version", SOON, async || {
        cluster.apply(&control_plane("probe").to_string()).await?;
        let stored: Value = serde_json::from_slice(&plane.stored(key).await?)?;
        kubectl(plane, &["delete", V1BETA2, "probe"]).await.checked()?;
        Ok((stored["apiVersion"] == expected.as_str()).then_some(()))
    })
    .await
    .unwrap();
}

/// A control plane of `v1beta1` with annotations.
fn older(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "KubeadmControlPlane",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {
            "version": "v1.33.1", "replicas": 3, "kubeadmConfigSpec": {},
            "machineTemplate": {"infrastructureRef": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "FooMachineTemplate", "name": "t"}},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn v30_v31_w10_no_content_of_an_object_stops_a_list_or_its_own_correction() {
    let (plane, _server) = start().await;
    let cluster = Cluster::of(&plane).unwrap();
    store_in(&plane, "v1beta1").await;
    for (name, data) in [
        ("junk", "{not json"),
        ("types", r#"{"spec":{"replicas":"x","rollout":7}}"#),
        (
            "identity",
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"}}"#,
        ),
    ] {
        let object = older(name, &json!({"cluster.x-k8s.io/conversion-data": data}));
        cluster.apply(&object.to_string()).await.unwrap();
    }
    store_in(&plane, "v1beta2").await;
    let mut poisoned = control_plane("poisoned");
    poisoned["metadata"]["annotations"] = json!({"capstan.dev/v1beta1-data": "{junk"});
    cluster.apply(&poisoned.to_string()).await.unwrap();
    let mut unknown = control_plane("unknown");
    unknown["spec"]["machineTemplate"]["spec"]["infrastructureRef"]["kind"] = json!("BarMachineTemplate");
    let create = cluster
        .run(&["create", "-f", "-"], &unknown.to_string())
        .await
        .unwrap()
        .checked()
        .unwrap();
    assert!(
        create.stderr.contains("no CRD names the version of BarMachineTemplate"),
        "{create}"
    );

    for resource in [V1BETA1, V1BETA2] {
        let list = kubectl(&plane, &["get", resource, "-A", "-o", "name"])
            .await
            .checked()
            .unwrap();
        assert_eq!(list.stdout.lines().count(), 5, "{list}");
    }
    let fallback = get(&plane, V1BETA1, "unknown").await;
    assert_eq!(
        fallback["spec"]["machineTemplate"]["infrastructureRef"]["apiVersion"],
        "infrastructure.cluster.x-k8s.io/v1beta1"
    );
    for (resource, name, annotation) in [
        (V1BETA1, "junk", "cluster.x-k8s.io/conversion-data-"),
        (V1BETA2, "types", "cluster.x-k8s.io/conversion-data-"),
        (V1BETA2, "poisoned", "capstan.dev/v1beta1-data-"),
    ] {
        let arguments = ["annotate", resource, name, annotation];
        kubectl(&plane, &arguments).await.checked().unwrap();
    }
    for (resource, name) in [(V1BETA1, "types"), (V1BETA2, "identity"), (V1BETA1, "unknown")] {
        kubectl(&plane, &["delete", resource, name]).await.checked().unwrap();
    }
}

/// The table of the page about this feature: a request, and whether it succeeds for an object that
/// is stored as `v1beta2`, and for one that is stored as `v1beta1`.
fn outage_table() -> Vec<(&'static str, [bool; 2])> {
    let section = OPERATIONS
        .split("With the feature `kubeadm-control-plane`, this applies")
        .nth(1)
        .unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [request, new, old] = cells[..] else {
                panic!("{line}")
            };
            (
                request,
                [new, old].map(|cell| match cell {
                    "yes" => true,
                    "no" => false,
                    other => panic!("{line}: {other}"),
                }),
            )
        })
        .collect()
}

/// Sends a request of the table.
async fn send(plane: &ControlPlane, request: &str) -> Output {
    let metadata = r#"{"metadata": {"labels": {"a": "b"}}}"#;
    let replicas = r#"{"spec": {"replicas": 5}}"#;
    let status = r#"{"status": {"replicas": 3}}"#;
    let finalizers = r#"{"metadata": {"finalizers": null}}"#;
    let arguments: &[&str] = match request.strip_suffix(" a KubeadmControlPlane").unwrap_or(request) {
        "read a KubeadmControlPlane in `v1beta2`" => &["get", V1BETA2, "kept"],
        "read a KubeadmControlPlane in `v1beta1`" => &["get", V1BETA1, "kept"],
        "list KubeadmControlPlanes in `v1beta2`" => &["get", V1BETA2, "-A"],
        "create" => {
            let create = plane.kubectl().args(["create", "-f", "-"]);
            let object = control_plane("another").to_string();
            return create.stdin(object).run().await.unwrap();
        }
        "change the spec of" => &["patch", "kcp", "kept", "--type=merge", "-p", replicas],
        "scale" => &["scale", "kcp/kept", "--replicas=5"],
        "change metadata of" => &["patch", "kcp", "kept", "--type=merge", "-p", metadata],
        "change metadata of a KubeadmControlPlane, as one of its controllers" => {
            return as_controller(plane, metadata).await;
        }
        "change the status of" => &[
            "patch",
            "kcp",
            "kept",
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
        ],
        "delete" => &["delete", "kcp", "deleted", "--wait=false"],
        "remove a finalizer of a KubeadmControlPlane that is being deleted" => {
            &["patch", "kcp", "leaving", "--type=merge", "-p", finalizers]
        }
        other => panic!("the test must know how to {other:?}"),
    };
    kubectl(plane, arguments).await
}

/// A change of metadata by Capstan's controller, with its token.
async fn as_controller(plane: &ControlPlane, patch: &str) -> Output {
    let name = "capstan-kubeadm-control-plane";
    let account = plane.kubeconfig_of_service_account(NAMESPACE, name).await.unwrap();
    let user = format!("system:serviceaccount:{NAMESPACE}:{name}");
    let group = "controlplane.cluster.x-k8s.io";
    plane.allow(&user, &["*"], group, &["*"]).await.unwrap();
    let arguments = ["patch", "kcp", "kept", "--type=merge", "-p", patch];
    let kubectl = plane.kubectl().args(arguments).with_kubeconfig(&account);
    kubectl.run().await.unwrap()
}

/// Stores the objects of the table in the version that the API server stores at present.
async fn store_objects(plane: &ControlPlane) {
    let cluster = Cluster::of(plane).unwrap();
    for name in ["kept", "deleted", "leaving"] {
        let mut object = control_plane(name);
        if name == "leaving" {
            object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        cluster.apply(&object.to_string()).await.unwrap();
    }
    let delete = ["delete", "kcp", "leaving", "--wait=false"];
    kubectl(plane, &delete).await.checked().unwrap();
}

async fn assert_outage(plane: &ControlPlane, column: usize) {
    for (request, succeeds) in outage_table() {
        let output = send(plane, request).await;
        assert_eq!(output.success(), succeeds[column], "{request}: {output}");
        let reasons = ["failed calling webhook", "conversion webhook", "(re)initializing"];
        let is_unanswered = reasons.iter().any(|reason| output.stderr.contains(reason));
        assert!(succeeds[column] || is_unanswered, "{request}: {output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_page_says_works_while_the_webhook_server_is_down() {
    let (mut plane, server) = start().await;
    store_objects(&plane).await;
    drop(server);
    // A restarted API server has nothing in its cache.
    plane.back_up("new").await.unwrap();
    assert_outage(&plane, 0).await;

    let server = serve(&plane).await;
    kubectl(&plane, &["delete", V1BETA2, "--all"]).await.checked().unwrap();
    store_in(&plane, "v1beta1").await;
    store_objects(&plane).await;
    store_in(&plane, "v1beta2").await;
    drop(server);
    plane.back_up("old").await.unwrap();
    assert_outage(&plane, 1).await;
}

//! What works for MachinePools while the webhook server is down. The table in `docs/operations.md`
//! is the expectation: each of its cells is a request to a real API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use capstan_sandbox::control_plane::{Output, wait_until};
use capstan_sandbox::installation::{Cluster, SERVICE_ACCOUNT, Server, manifests_of};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::world::{NAMESPACE, World};

const FEATURES: &str = "admission,machine-pools";
const SOON: Duration = Duration::from_secs(240);
const POOLS: &str = "machinepools.cluster.x-k8s.io";
const MACHINES: &str = "machines.cluster.x-k8s.io";

/// The users of the table with an account.
const USERS: [(&str, &str, &str); 3] = [
    (
        "Capstan's controller of MachinePools",
        "openshift-machine-api",
        "capstan-machine-pool",
    ),
    ("Cluster API manager", "openshift-cluster-api", "capi-manager"),
    ("cluster autoscaler", "kube-system", "cluster-autoscaler"),
];

/// The rows of the page: user, request, and whether it succeeds.
fn table() -> Vec<(&'static str, &'static str, bool)> {
    let page = include_str!("../../docs/operations.md");
    let section = page
        .split("With the feature `machine-pools`, this applies")
        .nth(1)
        .unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [user, request, cell] = cells[..] else {
            panic!("{line}")
        };
        let succeeds = match cell {
            "yes" => true,
            "no" => false,
            other => panic!("{line}: {other}"),
        };
        (user, request, succeeds)
    });
    rows.collect()
}

/// The arguments of kubectl for a request, and its input.
fn request(name: &str) -> (Vec<&'static str>, Value) {
    let patch = |patch| vec!["patch", POOLS, "p", "--type=merge", "-p", patch];
    let arguments = match name {
        "create a MachinePool" => return (vec!["create", "-f", "-"], pool("another")),
        "change the spec of a MachinePool" => patch(r#"{"spec": {"template": {"spec": {"version": "v1.36.0"}}}}"#),
        "change the instances of a MachinePool" => patch(r#"{"spec": {"providerIDList": ["simulated:///1"]}}"#),
        "scale a MachinePool" => vec!["scale", POOLS, "p", "--replicas=2"],
        "change metadata of a MachinePool" => patch(r#"{"metadata": {"labels": {"example.com/a": "b"}}}"#),
        "change the status of a MachinePool" => {
            let mut arguments = patch(r#"{"status": {"phase": "Running"}}"#);
            arguments.push("--subresource=status");
            arguments
        }
        "delete a MachinePool" => vec!["delete", POOLS, "p"],
        "remove a finalizer of a MachinePool that is being deleted" => {
            let finalizers = r#"{"metadata": {"finalizers": null}}"#;
            vec!["patch", POOLS, "leaving", "--type=merge", "-p", finalizers]
        }
        "create a Machine of a MachinePool" => return (vec!["create", "-f", "-"], machine("another")),
        "change a Machine of a MachinePool" => {
            let spec = r#"{"spec": {"minReadySeconds": 5}}"#;
            vec!["patch", MACHINES, "m", "--type=merge", "-p", spec]
        }
        "delete a Machine of a MachinePool" => vec!["delete", MACHINES, "m"],
        other => panic!("the test must know how to {other:?}"),
    };
    (arguments, Value::Null)
}

fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"cluster.x-k8s.io/paused": ""},
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"clusterName": "c", "replicas": 1, "template": {"spec": {
            "clusterName": "c", "version": "v1.35.0", "bootstrap": {"dataSecretName": "boot"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "SimulatedMachinePool",
                "name": name}}}},
    })
}

fn machine(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"cluster.x-k8s.io/paused": ""},
            "labels": {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": "p"}},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "boot"}, "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "SimulatedMachine", "name": name}},
    })
}

fn is_unanswered(output: &Output) -> bool {
    !output.success() && output.stderr.contains("failed calling webhook") && output.stderr.contains("capstan.dev")
}

/// The accounts of the users, which may do everything with the objects of Cluster API.
async fn accounts(world: &World) -> BTreeMap<&'static str, PathBuf> {
    let mut accounts = BTreeMap::new();
    for (user, namespace, name) in USERS {
        let path = world
            .plane
            .kubeconfig_of_service_account(namespace, name)
            .await
            .unwrap();
        let account = format!("system:serviceaccount:{namespace}:{name}");
        world
            .plane
            .allow(&account, &["*"], "cluster.x-k8s.io", &["*"])
            .await
            .unwrap();
        accounts.insert(user, path);
    }
    accounts
}

/// Registers the webhooks of the feature with the address of a server.
async fn register(world: &World, cluster: &Cluster) -> Server {
    let capstan = Path::new(env!("CARGO_BIN_EXE_capstan"));
    let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
    let kubeconfig = world.plane.kubeconfig_for(SERVICE_ACCOUNT, &groups).unwrap();
    let flags = [
        format!("--kubeconfig={}", kubeconfig.display()),
        String::from("--machine-pools"),
    ];
    let folder = world.plane.folder().join("capstan");
    std::fs::create_dir(&folder).unwrap();
    let rbac = manifests_of(capstan, "rbac", FEATURES).await.unwrap();
    cluster.apply(&rbac).await.unwrap();
    let server = Server::start(capstan, &flags, "127.0.0.1", &folder).await.unwrap();
    let webhooks = manifests_of(capstan, "webhooks", FEATURES).await.unwrap();
    let configurations: Vec<Value> = serde_saphyr::from_multiple(&webhooks).unwrap();
    for mut configuration in configurations {
        if configuration["metadata"]["name"] != "capstan-machine-pools" {
            continue;
        }
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            let client = &mut webhook["clientConfig"];
            let (url, authority) = server.address(client["service"]["path"].as_str().unwrap());
            *client = json!({"url": url, "caBundle": ByteString(authority.as_bytes().to_vec())});
        }
        cluster.apply(&configuration.to_string()).await.unwrap();
    }
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_page_says_about_machine_pools_works_while_the_webhook_server_is_down() {
    let world = World::new(true).await;
    let cluster = Cluster::of(&world.plane).unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-cluster-api"}});
    cluster.apply(&namespace.to_string()).await.unwrap();
    let accounts = accounts(&world).await;
    let mut leaving = pool("leaving");
    leaving["metadata"]["finalizers"] = json!(["example.com/hold"]);
    for object in [pool("p"), leaving, machine("m")] {
        cluster.apply(&object.to_string()).await.unwrap();
    }
    world
        .kubectl(&["delete", POOLS, "leaving", "-n", NAMESPACE, "--wait=false"])
        .await;
    drop(register(&world, &cluster).await);
    let send = async |user: &str, name: &str| {
        let (arguments, input) = request(name);
        let command = world.plane.kubectl().args(["--dry-run=server", "-n", NAMESPACE]);
        let command = command.args(arguments).stdin(input.to_string());
        let command = match accounts.get(user) {
            Some(account) => command.with_kubeconfig(account),
            None => command,
        };
        command.run().await.unwrap()
    };
    wait_until("the webhooks to be called", SOON, async || {
        let output = send("administrator", "scale a MachinePool").await;
        ensure!(is_unanswered(&output), "{output}");
        Ok(Some(()))
    })
    .await
    .unwrap();
    let rows = table();
    assert!(rows.len() >= 20, "{rows:?}");
    let mut differences = Vec::new();
    for (user, name, succeeds) in rows {
        let known = user == "administrator" || accounts.contains_key(user);
        assert!(known, "no user has the name {user:?}");
        let output = send(user, name).await;
        if output.success() != succeeds || succeeds == is_unanswered(&output) {
            differences.push(format!("{user} | {name}: {output}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

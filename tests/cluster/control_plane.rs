//! ControlPlanes on a real API server: the CRD, the webhooks, the policy, and the scale
//! subresource, with the permissions that the manifests grant.

use std::time::Duration;

use capstan_core::admission::rule_files;
use capstan_core::schema::crd;
use capstan_sandbox::control_plane::{ControlPlane, Options, Output, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE, SERVICE_ACCOUNT, Server, manifests_of};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::world::capstan;

const SOON: Duration = Duration::from_secs(240);
const FEATURES: &str = "admission,control-plane";

fn provider_spec() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
        "ami": {"id": "ami-0123"}, "instanceType": "m6i.xlarge",
        "credentialsSecret": {"name": "aws-cloud-credentials"},
        "iamInstanceProfile": {"id": "profile"},
        "placement": {"region": "us-east-1", "availabilityZone": "us-east-1a"},
        "subnet": {"id": "subnet-a"},
    })
}

/// A ControlPlane of AWS, `cluster` in the home namespace.
pub(crate) fn object(replicas: Option<i64>) -> Value {
    let mut object = json!({
        "apiVersion": "machine.openshift.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": "cluster", "namespace": NAMESPACE},
        "spec": {"providerSpec": {"value": provider_spec()}},
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = json!(replicas);
    }
    object
}

fn active_set() -> Value {
    let labels = json!({"machine.openshift.io/cluster-api-cluster": "c",
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master"});
    json!({
        "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "namespace": NAMESPACE},
        "spec": {"state": "Active", "replicas": 3, "selector": {"matchLabels": labels},
            "template": {"machineType": "machines_v1beta1_machine_openshift_io",
                "machines_v1beta1_machine_openshift_io": {"metadata": {"labels": labels},
                    "spec": {"providerSpec": {"value": provider_spec()}}}}},
    })
}

/// A cluster with the feature. The server is stopped when it is dropped.
async fn start() -> (ControlPlane, Server) {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let cluster = Cluster::of(&plane).unwrap();
    let namespace = ["create", "namespace", NAMESPACE];
    cluster.run(&namespace, "").await.unwrap().checked().unwrap();
    let rules = rule_files().unwrap();
    let foreign = crd::foreign_crds();
    for definition in crd::crds(&rules)
        .unwrap()
        .iter()
        .chain(&crd::control_plane_crds(&rules).unwrap())
        .chain(&foreign)
    {
        cluster.apply(&definition.to_string()).await.unwrap();
    }
    cluster
        .apply(&manifests_of(capstan(), "rbac", FEATURES).await.unwrap())
        .await
        .unwrap();
    let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
    let kubeconfig = plane.kubeconfig_for(SERVICE_ACCOUNT, &groups).unwrap();
    let flags = [
        format!("--kubeconfig={}", kubeconfig.display()),
        String::from("--control-plane"),
    ];
    let folder = plane.folder().join("capstan");
    std::fs::create_dir(&folder).unwrap();
    let server = Server::start(capstan(), &flags, "127.0.0.1", &folder).await.unwrap();
    let webhooks = manifests_of(capstan(), "webhooks", FEATURES).await.unwrap();
    let configurations: Vec<Value> = serde_saphyr::from_multiple(&webhooks).unwrap();
    for mut configuration in configurations {
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            let client = &mut webhook["clientConfig"];
            let (url, authority) = server.address(client["service"]["path"].as_str().unwrap());
            *client = json!({"url": url, "caBundle": ByteString(authority.as_bytes().to_vec())});
        }
        cluster.apply(&configuration.to_string()).await.unwrap();
    }
    // The API server calls the webhooks a moment after they are registered.
    wait_until("the webhooks are called", SOON, async || {
        let create = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
        let output = cluster.run(&create, &object(Some(3)).to_string()).await?;
        Ok(output.stdout.contains("master-user-data").then_some(()))
    })
    .await
    .unwrap();
    (plane, server)
}

async fn kubectl(plane: &ControlPlane, arguments: &[&str], input: &Value) -> Output {
    let command = plane.kubectl().args(arguments.iter().copied());
    command.stdin(input.to_string()).run().await.unwrap()
}

/// The command fails with the id of this rule, or succeeds if it is empty.
async fn expect(plane: &ControlPlane, arguments: &[&str], input: &Value, rule: &str) -> Output {
    let output = kubectl(plane, arguments, input).await;
    assert_eq!(output.success(), rule.is_empty(), "{arguments:?}: {output}");
    assert!(output.stderr.contains(rule), "{arguments:?}: {output}");
    output
}

/// Writes the report of the etcd operator, and waits until Capstan has read it.
async fn report(plane: &ControlPlane, message: &str) {
    let status = json!({"status": {"conditions": [
        {"type": "Available", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "message": format!("EtcdMembersAvailable: {message}")},
        {"type": "Degraded", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let patch = status.to_string();
    let arguments = [
        "patch",
        "clusteroperator",
        "etcd",
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    kubectl(plane, &arguments, &Value::Null).await.checked().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn control_planes_are_defaulted_checked_scaled_and_deleted() {
    let (plane, _server) = start().await;
    let in_namespace = |arguments: &[&'static str]| -> Vec<&'static str> {
        ["-n", NAMESPACE].into_iter().chain(arguments.iter().copied()).collect()
    };
    let create = in_namespace(&["create", "-f", "-"]);

    // Refused, each with the rule.
    for replicas in [0, 2, 4, 9] {
        expect(&plane, &create, &object(Some(replicas)), "cp-replicas-odd").await;
    }
    let mut wrong = object(Some(3));
    wrong["spec"]["providerSpec"]["value"]["instanceType"] = json!(3);
    expect(&plane, &create, &wrong, "cp-provider-spec-type").await;
    let mut wrong = object(Some(3));
    wrong["metadata"]["name"] = json!("other");
    expect(&plane, &create, &wrong, "cp-name").await;

    // Created without a number: the defaults of the CRD and of the platform.
    expect(&plane, &create, &object(None), "").await;
    let get = in_namespace(&["get", "cp", "cluster", "-o", "json"]);
    let stored = kubectl(&plane, &get, &Value::Null).await.checked().unwrap();
    let stored: Value = serde_json::from_str(&stored.stdout).unwrap();
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["spec"]["enableautorepair"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(
        stored["spec"]["providerSpec"]["value"]["userDataSecret"]["name"],
        "master-user-data"
    );
    let table = kubectl(&plane, &in_namespace(&["get", "cp"]), &Value::Null)
        .await
        .checked()
        .unwrap();
    assert!(
        table.stdout.contains("DESIRED") && table.stdout.contains("AUTOREPAIR"),
        "{table}"
    );

    scaling(&plane).await;

    // An Active set beside it.
    expect(&plane, &create, &active_set(), "cpms-control-plane-exists").await;

    // A foreground deletion would delete the machines.
    let foreground = in_namespace(&["delete", "cp", "cluster", "--cascade=foreground"]);
    expect(&plane, &foreground, &Value::Null, "cp-foreground-deletion").await;
    let deleted = expect(&plane, &in_namespace(&["delete", "cp", "cluster"]), &Value::Null, "").await;
    assert!(deleted.stderr.contains("unmanaged"), "{deleted}");
}

/// `kubectl scale` is judged and explained.
async fn scaling(plane: &ControlPlane) {
    let operator = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "etcd"}, "spec": {}});
    kubectl(plane, &["create", "-f", "-"], &operator)
        .await
        .checked()
        .unwrap();
    let scale = async |replicas: &str, rule: &str| {
        let replicas = format!("--replicas={replicas}");
        let arguments = ["-n", NAMESPACE, "scale", "controlplane/cluster", &replicas];
        expect(plane, &arguments, &Value::Null, rule).await;
    };
    scale("5", "").await;
    for even in ["0", "2", "4"] {
        scale(even, "cp-replicas-odd").await;
    }
    // Without a report of the operator, and with two unhealthy members of five.
    scale("3", "cp-scale-in-quorum").await;
    report(plane, "3 of 5 members are available, a is unhealthy, b is unhealthy").await;
    scale("3", "cp-scale-in-quorum").await;
    report(plane, "5 members are available").await;
    let arguments = ["-n", NAMESPACE, "scale", "controlplane/cluster", "--replicas=3"];
    wait_until("Capstan has read the report", SOON, async || {
        let output = kubectl(plane, &arguments, &Value::Null).await;
        Ok(output.success().then_some(()))
    })
    .await
    .unwrap();
    let arguments = [
        "-n",
        NAMESPACE,
        "get",
        "cp",
        "cluster",
        "-o",
        "jsonpath={.spec.replicas}",
    ];
    let stored = kubectl(plane, &arguments, &Value::Null).await;
    assert_eq!(stored.stdout, "3");
}

/// The rows of the page about this feature: user, request, and whether it succeeds in the home
/// namespace and in another one.
fn outage_table() -> Vec<(&'static str, &'static str, [bool; 2])> {
    let section = include_str!("../../docs/operations.md");
    let section = section
        .split("With the feature `control-plane`, this applies")
        .nth(1)
        .unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [user, request, home, elsewhere] = cells[..] else {
            panic!("{line}")
        };
        let succeeds = [home, elsewhere].map(|cell| match cell {
            "yes" => true,
            "no" => false,
            other => panic!("{line}: {other}"),
        });
        (user, request, succeeds)
    });
    rows.collect()
}

/// The arguments of kubectl for a request, and its input.
fn outage_request(request: &str, namespace: &str) -> (Vec<&'static str>, Value) {
    let patch = |patch| vec!["patch", RESOURCE, "cluster", "--type=merge", "-p", patch];
    let arguments = match request {
        "create a ControlPlane" => {
            let mut new = object(Some(3));
            new["metadata"]["name"] = json!("another");
            new["metadata"]["namespace"] = json!(namespace);
            return (vec!["create", "-f", "-"], new);
        }
        "change the spec of a ControlPlane" => patch(r#"{"spec": {"replicas": 5}}"#),
        "scale a ControlPlane" => vec!["scale", RESOURCE, "cluster", "--replicas=5"],
        "change metadata of a ControlPlane" => patch(r#"{"metadata": {"labels": {"example.com/a": "b"}}}"#),
        "change the status of a ControlPlane" => {
            let mut arguments = patch(r#"{"status": {"replicas": 3}}"#);
            arguments.push("--subresource=status");
            arguments
        }
        "delete a ControlPlane" => vec!["delete", RESOURCE, "cluster"],
        "remove a finalizer of a ControlPlane that is being deleted" => {
            vec![
                "patch",
                RESOURCE,
                "cluster",
                "--type=merge",
                "-p",
                r#"{"metadata": {"finalizers": null}}"#,
            ]
        }
        other => panic!("the test must know how to {other:?}"),
    };
    (arguments, Value::Null)
}

/// Removes the webhooks, repeats an action until no webhook refuses it, and registers the webhooks
/// again.
async fn without_webhooks(plane: &ControlPlane, action: impl AsyncFn() -> anyhow::Result<()>) {
    let webhooks = "validatingwebhookconfiguration,mutatingwebhookconfiguration";
    let kept = kubectl(plane, &["get", webhooks, "-o", "json"], &Value::Null).await;
    let mut kept: Value = serde_json::from_str(&kept.checked().unwrap().stdout).unwrap();
    let delete = ["delete", webhooks, "--all"];
    kubectl(plane, &delete, &Value::Null).await.checked().unwrap();
    wait_until("the webhooks are gone", SOON, async || {
        action().await?;
        Ok(Some(()))
    })
    .await
    .unwrap();
    for configuration in kept["items"].as_array_mut().unwrap() {
        for field in ["resourceVersion", "uid"] {
            configuration["metadata"].as_object_mut().unwrap().remove(field);
        }
    }
    Cluster::of(plane).unwrap().apply(&kept.to_string()).await.unwrap();
}

const RESOURCE: &str = "controlplanes.machine.openshift.io";

fn is_refused(output: &Output) -> bool {
    output.stderr.contains("failed calling webhook")
}

/// Waits until the API server calls the webhooks, whose server is stopped.
async fn unanswered(plane: &ControlPlane) {
    let scale = [
        "scale",
        "-n",
        NAMESPACE,
        RESOURCE,
        "cluster",
        "--replicas=5",
        "--dry-run=server",
    ];
    wait_until("the webhooks are called again", SOON, async || {
        Ok(is_refused(&kubectl(plane, &scale, &Value::Null).await).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_page_says_about_control_planes_works_while_the_webhook_server_is_down() {
    let (plane, server) = start().await;
    let cluster = Cluster::of(&plane).unwrap();
    let elsewhere = plane.namespace("elsewhere").await.unwrap();
    let namespaces = [NAMESPACE, elsewhere.as_str()];
    without_webhooks(&plane, async || {
        for namespace in namespaces {
            let mut object = object(Some(3));
            object["metadata"]["namespace"] = json!(namespace);
            cluster.apply(&object.to_string()).await?;
        }
        Ok(())
    })
    .await;
    drop(server);
    unanswered(&plane).await;
    let account = "capstan-control-plane";
    let controller = plane.kubeconfig_of_service_account(NAMESPACE, account).await.unwrap();
    let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
    plane
        .allow(&user, &["*"], "machine.openshift.io", &["*"])
        .await
        .unwrap();
    let compare = async |(user, request, succeeds): (&str, &str, [bool; 2])| {
        for (namespace, succeeds) in namespaces.into_iter().zip(succeeds) {
            let (arguments, input) = outage_request(request, namespace);
            let command = plane
                .kubectl()
                .args(["--dry-run=server", "-n", namespace])
                .args(arguments);
            let command = command.stdin(input.to_string());
            let command = match user {
                "administrator" => command,
                "Capstan's controller of ControlPlanes" => command.with_kubeconfig(&controller),
                other => panic!("no user has the name {other:?}"),
            };
            let output = command.run().await.unwrap();
            assert_eq!(output.success(), succeeds, "{user}: {request} in {namespace}: {output}");
            assert!(
                succeeds || is_refused(&output),
                "{user}: {request} in {namespace}: {output}"
            );
        }
    };
    let rows = outage_table();
    assert!(rows.len() >= 9, "{rows:?}");
    let (leaving, others): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .partition(|(_, name, _)| name.contains("being deleted"));
    for row in others {
        compare(row).await;
    }
    without_webhooks(&plane, async || {
        let finalizers = r#"{"metadata": {"finalizers": ["example.com/hold"]}}"#;
        for namespace in namespaces {
            let patch = [
                "patch",
                "-n",
                namespace,
                RESOURCE,
                "cluster",
                "--type=merge",
                "-p",
                finalizers,
            ];
            let delete = ["delete", "-n", namespace, RESOURCE, "cluster", "--wait=false"];
            kubectl(&plane, &patch, &Value::Null).await.checked()?;
            kubectl(&plane, &delete, &Value::Null).await.checked()?;
        }
        Ok(())
    })
    .await;
    unanswered(&plane).await;
    assert_eq!(leaving.len(), 1);
    for row in leaving {
        compare(row).await;
    }
}

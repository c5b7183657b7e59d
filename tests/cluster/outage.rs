//! What works while the webhook server is down. The table in `docs/operations.md` is the
//! expectation: each of its cells is a request to a real API server with the features installed,
//! the policies in force, and the server of the webhooks killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use capstan_core::admission::rule_files;
use capstan_core::schema::crd;
use capstan_sandbox::control_plane::{ControlPlane, Options, Output, Process, free_port, wait_until};
use capstan_sandbox::installation::{Cluster, SERVICE_ACCOUNT, Server, manifests_of, policies_in_force};
use serde_json::{Value, json};

use super::authority::objects::{CLUSTER_API, MACHINE_API, aws_machine, cluster_api, machine_api};
use super::fixtures;
use super::world::{SOON, capstan};

const OPERATIONS: &str = include_str!("../../docs/operations.md");
/// The line before the table.
const HEADING: &str = "### What works while the webhook server is down";
/// A namespace outside the home namespaces.
const ELSEWHERE: &str = "elsewhere";

/// The users of the table, by their service accounts. The administrator is the user of the cluster.
const USERS: [(&str, &str, &str); 12] = [
    ("Machine API controllers", MACHINE_API, "machine-api-controllers"),
    ("Cluster API manager", CLUSTER_API, "capi-manager"),
    ("infrastructure provider", CLUSTER_API, "capa-controller-manager"),
    (
        "Cluster API manager of another installation",
        "capi-system",
        "capi-controller-manager",
    ),
    ("OpenShift's sync controller", CLUSTER_API, "capi-controllers"),
    (
        "OpenShift's operator for sets",
        MACHINE_API,
        "control-plane-machine-set-operator",
    ),
    ("etcd operator", "openshift-etcd-operator", "etcd-operator"),
    ("Capstan's controllers", MACHINE_API, "capstan-controllers"),
    (
        "Capstan's controller of ControlPlanes",
        MACHINE_API,
        "capstan-control-plane",
    ),
    (
        "Capstan's controller of KubeadmControlPlanes",
        MACHINE_API,
        "capstan-kubeadm-control-plane",
    ),
    ("garbage collector", "kube-system", "generic-garbage-collector"),
    ("restore", "openshift-adp", "velero"),
];

/// The table of the page: user, request, and for each of the columns whether it succeeds.
fn table() -> Vec<(String, String, Vec<bool>)> {
    let section = OPERATIONS
        .split(HEADING)
        .nth(1)
        .expect("the heading must be in the page");
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [user, request, verdicts @ ..] = cells.as_slice() else {
                panic!("{line}")
            };
            let succeeds = verdicts.iter().map(|cell| match *cell {
                "yes" => true,
                "no" => false,
                other => panic!("{line}: a cell must be yes or no, and not {other}"),
            });
            ((*user).to_owned(), (*request).to_owned(), succeeds.collect())
        })
        .collect()
}

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn owned_by_a_set(mut machine: Value, uid: &str) -> Value {
    machine["metadata"]["ownerReferences"] = json!([{"apiVersion": "machine.openshift.io/v1", "controller": true,
        "kind": "ControlPlaneMachineSet", "name": "cluster", "uid": uid, "blockOwnerDeletion": true}]);
    machine
}

fn owned_by_a_control_plane(machine: Value) -> Value {
    let mut owned = owned_by_a_set(machine, "5f3ef0a4-3b5c-4b0e-8a55-0d1c1d1b2f3a");
    owned["metadata"]["ownerReferences"][0]["kind"] = json!("ControlPlane");
    owned["metadata"]["ownerReferences"][0]["apiVersion"] = json!("machine.openshift.io/v1alpha1");
    owned
}

fn cluster(name: &str) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name, "namespace": CLUSTER_API}, "spec": {"paused": true}})
}

/// An object as a backup contains it.
fn restored(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/restored"]);
    object["status"] = json!({"conditions": []});
    object
}

const SETS: &str = "controlplanemachinesets.machine.openshift.io";
const MACHINES: &str = "machines.machine.openshift.io";
const MACHINE_SETS: &str = "machinesets.machine.openshift.io";
const CLUSTER_API_MACHINES: &str = "machines.cluster.x-k8s.io";
const CLUSTERS: &str = "clusters.cluster.x-k8s.io";
const AWS_MACHINES: &str = "awsmachines.infrastructure.cluster.x-k8s.io";

/// A request of the table.
enum Request {
    Create(Value),
    /// A merge patch of an object, or of a subresource.
    Patch(&'static str, &'static str, Value, &'static str),
    Scale(&'static str, &'static str),
    Delete(&'static str, &'static str),
}

/// The request with this name, and the home namespace of its object. `set` is the uid of the set.
fn request(name: &str, set: &str) -> (&'static str, Request) {
    use Request::{Create, Delete, Patch, Scale};
    let machine = |name: &str| machine_api("Machine", name, "MachineAPI");
    let label = || json!({"metadata": {"labels": {"example.com/a": "b"}}});
    let condition = || json!({"status": {"conditions": []}});
    let owners = owned_by_a_set(json!({}), set);
    let (sets, machines) = (MACHINE_API, MACHINE_API);
    match name {
        "create a set" => (sets, Create(fixtures::set())),
        "restore a set" => (sets, Create(restored(fixtures::set()))),
        "change the spec of a set" => (
            sets,
            Patch(SETS, "cluster", json!({"spec": {"machineNamePrefix": "a"}}), ""),
        ),
        "scale a set" => (sets, Scale(SETS, "cluster")),
        "change metadata of a set" => (sets, Patch(SETS, "cluster", label(), "")),
        "change the status of a set" => (sets, Patch(SETS, "cluster", condition(), "status")),
        "delete a set" => (sets, Delete(SETS, "cluster")),
        "create a Machine" => (machines, Create(machine("new"))),
        "restore a Machine" => (machines, Create(restored(machine("restored")))),
        "create a Machine of a set" => (machines, Create(owned_by_a_set(machine("new"), set))),
        "create a Machine of a ControlPlane" => (machines, Create(owned_by_a_control_plane(machine("new")))),
        "adopt a Machine into a ControlPlane" => (
            machines,
            Patch(MACHINES, "plain", owned_by_a_control_plane(json!({})), ""),
        ),
        "delete a Machine of a ControlPlane" => (machines, Delete(MACHINES, "of-a-control-plane")),
        "adopt a Machine into a set" => (machines, Patch(MACHINES, "plain", owners, "")),
        "change the spec of a Machine" => (
            machines,
            Patch(MACHINES, "plain", json!({"spec": {"providerID": "aws:///a"}}), ""),
        ),
        "change the status of a Machine" => (machines, Patch(MACHINES, "plain", condition(), "status")),
        "add a lifecycle hook to a Machine" => {
            let hook = json!({"name": "EtcdQuorumOperator", "owner": "clusteroperator/etcd"});
            let patch = json!({"spec": {"lifecycleHooks": {"preDrain": [hook]}}});
            (machines, Patch(MACHINES, "plain", patch, ""))
        }
        "change the spec of a mirrored Machine" => (
            machines,
            Patch(MACHINES, "mirror", json!({"spec": {"providerID": "aws:///a"}}), ""),
        ),
        "delete a Machine" => (machines, Delete(MACHINES, "plain")),
        "delete a Machine of a set" => (machines, Delete(MACHINES, "owned")),
        "remove an owner reference of a Machine" => (
            machines,
            Patch(MACHINES, "owned", json!({"metadata": {"ownerReferences": null}}), ""),
        ),
        "remove a finalizer of a Machine that is being deleted" => (
            machines,
            Patch(MACHINES, "leaving", json!({"metadata": {"finalizers": null}}), ""),
        ),
        "scale a MachineSet" => (machines, Scale(MACHINE_SETS, "set")),
        "create a Machine of Cluster API" => (CLUSTER_API, Create(cluster_api("Machine", "new", false))),
        "restore a Machine of Cluster API" => (CLUSTER_API, Create(restored(cluster_api("Machine", "restored", true)))),
        "change the status of a Machine of Cluster API" => (
            CLUSTER_API,
            Patch(
                CLUSTER_API_MACHINES,
                "plain",
                json!({"status": {"phase": "Running"}}),
                "status",
            ),
        ),
        "delete a Machine of Cluster API" => (CLUSTER_API, Delete(CLUSTER_API_MACHINES, "plain")),
        "create an infrastructure machine" => (CLUSTER_API, Create(aws_machine("new", false))),
        "delete an infrastructure machine" => (CLUSTER_API, Delete(AWS_MACHINES, "plain")),
        "create a Cluster" => (CLUSTER_API, Create(cluster("new"))),
        "change a Cluster" => (
            CLUSTER_API,
            Patch(CLUSTERS, "plain", json!({"spec": {"paused": false}}), ""),
        ),
        "delete a Cluster" => (CLUSTER_API, Delete(CLUSTERS, "plain")),
        other => panic!("no request has the name {other:?}"),
    }
}

/// A cluster with features whose webhook server was killed.
struct Outage {
    plane: ControlPlane,
    accounts: BTreeMap<&'static str, PathBuf>,
    /// The uids of the sets, by namespace.
    sets: BTreeMap<&'static str, String>,
}

impl Outage {
    async fn start(features: &str, flags: &[&str]) -> Self {
        let plane = ControlPlane::start(Options::default()).await.unwrap();
        let cluster = Cluster::of(&plane).unwrap();
        let mut crds: Vec<Value> = crd::crds(&rule_files().unwrap()).unwrap();
        crds.extend(crd::foreign_crds());
        crds.extend(crd::cluster_api_crds());
        let crds: Vec<String> = crds.iter().map(Value::to_string).collect();
        cluster.apply(&crds.join("\n---\n")).await.unwrap();
        let mut namespaces = vec![ELSEWHERE];
        namespaces.extend(USERS.iter().map(|(_, namespace, _)| *namespace));
        namespaces.sort_unstable();
        namespaces.dedup();
        for namespace in namespaces.into_iter().filter(|name| *name != "kube-system") {
            let create = ["create", "namespace", namespace];
            cluster.run(&create, "").await.unwrap().checked().unwrap();
        }
        let mut outage = Self {
            plane,
            accounts: BTreeMap::new(),
            sets: BTreeMap::new(),
        };
        outage.create_accounts().await;
        outage.store_objects(&cluster).await;
        outage.install_and_kill(&cluster, features, flags).await;
        outage
    }

    async fn create_accounts(&mut self) {
        for (user, namespace, name) in USERS {
            let path = self.plane.kubeconfig_of_service_account(namespace, name).await.unwrap();
            self.accounts.insert(user, path);
            let account = format!("system:serviceaccount:{namespace}:{name}");
            for group in [
                "machine.openshift.io",
                "cluster.x-k8s.io",
                "infrastructure.cluster.x-k8s.io",
            ] {
                self.plane.allow(&account, &["*"], group, &["*"]).await.unwrap();
            }
        }
    }

    /// Stores the objects to change in the home namespaces and elsewhere, before anything judges
    /// them.
    async fn store_objects(&mut self, cluster: &Cluster) {
        cluster.apply(&fixtures::surroundings()).await.unwrap();
        for machine in fixtures::machines(3) {
            cluster.apply(&machine.to_string()).await.unwrap();
            self.report_running(&machine).await;
        }
        for home in [MACHINE_API, ELSEWHERE] {
            let set = in_namespace(fixtures::set(), home).to_string();
            cluster.apply(&set).await.unwrap();
            let get = ["get", SETS, "cluster", "-n", home, "-o", "jsonpath={.metadata.uid}"];
            let uid = cluster.run(&get, "").await.unwrap().checked().unwrap().stdout;
            let machine = |name: &str, authority: &str| machine_api("Machine", name, authority);
            let mut leaving = machine("leaving", "MachineAPI");
            leaving["metadata"]["finalizers"] = json!(["example.com/hold"]);
            for object in [
                machine("plain", "MachineAPI"),
                machine("mirror", "ClusterAPI"),
                owned_by_a_set(machine("owned", "MachineAPI"), &uid),
                owned_by_a_control_plane(machine("of-a-control-plane", "MachineAPI")),
                leaving,
                machine_api("MachineSet", "set", "MachineAPI"),
            ] {
                cluster.apply(&in_namespace(object, home).to_string()).await.unwrap();
            }
            let status = r#"{"status": {"authoritativeAPI": "ClusterAPI"}}"#;
            let patch = [
                "patch",
                MACHINES,
                "mirror",
                "-n",
                home,
                "--type=merge",
                "--subresource=status",
            ];
            let patch = [&patch[..], &["-p", status]].concat();
            cluster.run(&patch, "").await.unwrap().checked().unwrap();
            let delete = ["delete", MACHINES, "leaving", "-n", home, "--wait=false"];
            cluster.run(&delete, "").await.unwrap().checked().unwrap();
            self.sets.insert(home, uid);
        }
        for home in [CLUSTER_API, ELSEWHERE] {
            for object in [
                cluster_api("Machine", "plain", false),
                aws_machine("plain", false),
                self::cluster("plain"),
            ] {
                cluster.apply(&in_namespace(object, home).to_string()).await.unwrap();
            }
        }
    }

    /// Installs the features with a server, and kills the server when the API server calls it.
    async fn install_and_kill(&self, cluster: &Cluster, features: &str, flags: &[&str]) {
        for what in ["rbac", "policies"] {
            let manifests = manifests_of(capstan(), what, features).await.unwrap();
            cluster.apply(&manifests).await.unwrap();
        }
        policies_in_force(cluster).await.unwrap();
        let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
        let kubeconfig = self.plane.kubeconfig_for(SERVICE_ACCOUNT, &groups).unwrap();
        let folder = self.plane.folder().join("capstan");
        std::fs::create_dir(&folder).unwrap();
        let mut all = vec![format!("--kubeconfig={}", kubeconfig.display())];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let server = Server::start(capstan(), &all, "127.0.0.1", &folder).await.unwrap();
        server.register(cluster).await.unwrap();
        drop(server);
        if flags.contains(&"--mirroring") {
            wait_until("the webhooks of the feature mirroring to be called", SOON, async || {
                let create = Request::Create(cluster_api("Machine", "probe", false));
                let output = self.send("administrator", &create, CLUSTER_API).await;
                Ok(is_unanswered(&output).then_some(()))
            })
            .await
            .unwrap();
        }
    }

    /// Writes the status of a machine, and of its node, as the other controllers and the kubelet
    /// do.
    async fn report_running(&self, machine: &Value) {
        let name = machine["metadata"]["name"].as_str().unwrap();
        let node = machine["status"]["nodeRef"]["name"].as_str().unwrap();
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let status = json!({"status": machine["status"]});
        for (resource, name, patch) in [(MACHINES, name, status), ("nodes", node, ready)] {
            let patch = patch.to_string();
            let arguments = [
                "patch",
                "-n",
                MACHINE_API,
                resource,
                name,
                "--subresource=status",
                "--type=merge",
                "-p",
                &patch,
            ];
            self.plane
                .kubectl()
                .args(arguments)
                .run()
                .await
                .unwrap()
                .checked()
                .unwrap();
        }
    }

    /// Starts Capstan's controllers with their token.
    async fn start_controllers(&self) -> Process {
        let (listen, health) = (free_port().unwrap(), free_port().unwrap());
        let mut command = Command::new(capstan());
        command
            .args([
                "serve",
                "--controllers",
                "--controllers-only",
                "--dev-certificate=memory",
            ])
            .args(["--min-ready=0s", "--shutdown-delay=0s", "--drain-timeout=2s"])
            .arg(format!("--listen=127.0.0.1:{listen}"))
            .arg(format!("--health-addr=127.0.0.1:{health}"))
            .arg("--kubeconfig")
            .arg(&self.accounts["Capstan's controllers"]);
        let ready = format!("http://127.0.0.1:{health}/readyz");
        self.plane.start_server("controllers", command, &ready).await.unwrap()
    }

    /// Runs kubectl in the namespace of the Machine API, as a user of the table.
    async fn run(&self, user: &str, arguments: &[&str]) -> Output {
        let kubectl = self.plane.kubectl().args(["-n", MACHINE_API]).args(arguments.to_vec());
        kubectl.with_kubeconfig(&self.accounts[user]).run().await.unwrap()
    }

    /// The names of the control plane machines.
    async fn control_plane(&self) -> BTreeSet<String> {
        let role = "machine.openshift.io/cluster-api-machine-role=master";
        let get = ["get", MACHINES, "-l", role, "-o", "name"];
        let listed = self.run("Capstan's controllers", &get).await.checked().unwrap();
        listed.stdout.lines().map(str::to_owned).collect()
    }

    /// Sends a request as a dry run.
    async fn send(&self, user: &str, request: &Request, namespace: &str) -> Output {
        let mut arguments = vec!["--dry-run=server".to_owned(), "-n".to_owned(), namespace.to_owned()];
        let mut add = |parts: &[&str]| arguments.extend(parts.iter().map(|part| (*part).to_owned()));
        let mut stdin = String::new();
        match request {
            Request::Create(object) => {
                stdin = in_namespace(object.clone(), namespace).to_string();
                add(&["create", "-f", "-"]);
            }
            Request::Patch(resource, name, patch, subresource) => {
                add(&["patch", resource, name, "--type=merge", "-p", &patch.to_string()]);
                if !subresource.is_empty() {
                    add(&[&format!("--subresource={subresource}")]);
                }
            }
            Request::Scale(resource, name) => add(&["scale", resource, name, "--replicas=3"]),
            Request::Delete(resource, name) => add(&["delete", resource, name]),
        }
        let kubectl = self.plane.kubectl().args(arguments).stdin(stdin);
        let kubectl = match self.accounts.get(user) {
            Some(account) => kubectl.with_kubeconfig(account),
            None if user == "administrator" => kubectl,
            None => panic!("no user has the name {user:?}"),
        };
        kubectl.run().await.unwrap()
    }

    /// Compares the cells of two columns, in the home namespace and elsewhere, with the cluster.
    async fn compare(&self, columns: [usize; 2]) {
        let mut differences = Vec::new();
        let rows = table();
        assert!(rows.len() > 30, "the table must have its rows");
        for (user, name, succeeds) in &rows {
            assert_eq!(succeeds.len(), 4, "{user}: {name}");
            for (column, elsewhere) in columns.into_iter().zip([false, true]) {
                let (home, _) = request(name, "");
                let namespace = if elsewhere { ELSEWHERE } else { home };
                let uid = self.sets.get(namespace).map_or("", String::as_str);
                let (_, request) = request(name, uid);
                let output = self.send(user, &request, namespace).await;
                // A request without a verdict names the webhook. Every other outcome means that no
                // webhook was called: the object may exist, for example.
                let answered = output.success() || output.stderr.contains("AlreadyExists");
                if answered != succeeds[column] || answered == is_unanswered(&output) {
                    differences.push(format!("{user} | {name} | {namespace}: {output}"));
                }
            }
        }
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

/// Whether the API server refused a request because a webhook did not respond.
fn is_unanswered(output: &Output) -> bool {
    !output.success() && output.stderr.contains("failed calling webhook")
}

#[tokio::test]
async fn without_the_server_of_admission_and_controllers_the_table_holds() {
    let outage = Outage::start("admission,controllers", &[]).await;
    outage.compare([0, 1]).await;
}

#[tokio::test]
async fn without_the_server_of_all_features_the_table_holds() {
    let outage = Outage::start("admission,controllers,mirroring", &["--mirroring"]).await;
    outage.compare([2, 3]).await;
}

/// The whole path of a repair: the controllers record the creation in the set, create the machine,
/// and set the owner references of the others.
#[tokio::test]
async fn without_the_server_of_all_features_capstan_replaces_a_deleted_machine() {
    let outage = Outage::start("admission,controllers,mirroring", &["--mirroring"]).await;
    let before = outage.control_plane().await;
    assert_eq!(before.len(), 3);
    let _controllers = outage.start_controllers().await;
    let lost = before.first().unwrap().as_str();
    let delete = ["delete", lost, "--wait=false"];
    let user = "Machine API controllers";
    // The machine that the requests of the table change has no labels of the set.
    let strange = ["delete", MACHINES, "owned", "--wait=false"];
    outage.run(user, &strange).await.checked().unwrap();
    let node = fixtures::machines(1)[0]["status"]["nodeRef"]["name"].clone();
    let kubectl = outage.plane.kubectl().args(["delete", "node", node.as_str().unwrap()]);
    kubectl.run().await.unwrap().checked().unwrap();
    outage.run(user, &delete).await.checked().unwrap();
    let release = [
        "patch",
        lost,
        "--type=merge",
        "-p",
        r#"{"metadata": {"finalizers": null}}"#,
    ];
    let released = outage.run(user, &release).await;
    assert!(released.success() || released.stderr.contains("NotFound"), "{released}");
    wait_until(
        "the replacement of the machine",
        std::time::Duration::from_secs(20),
        async || {
            let now = outage.control_plane().await;
            anyhow::ensure!(now.difference(&before).count() <= 1, "one machine is created: {now:?}");
            let get = ["get", SETS, "cluster", "-o", "jsonpath={.status.conditions}"];
            let conditions = outage.run("Capstan's controllers", &get).await.stdout;
            anyhow::ensure!(
                now.len() == 3 && !now.contains(lost),
                "no machine replaces {lost}: {now:?}; conditions of the set: {conditions}"
            );
            Ok(Some(()))
        },
    )
    .await
    .unwrap();
    let edit = Request::Create(machine_api("Machine", "new", "MachineAPI"));
    let refused = outage.send("administrator", &edit, MACHINE_API).await;
    assert!(is_unanswered(&refused), "the webhook must still be down: {refused}");
}

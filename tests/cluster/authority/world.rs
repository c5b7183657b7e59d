//! A cluster with both APIs and Capstan, started once. The server's caches receive an object a
//! moment after it is stored, so the helpers repeat a request until the expected response arrives.

use std::collections::BTreeMap;
use std::path::PathBuf;

use capstan_core::admission::rule_files;
use capstan_core::schema::crd;
use capstan_sandbox::control_plane::{ControlPlane, Options, Output, wait_until};
use capstan_sandbox::installation::{Cluster, SERVICE_ACCOUNT, Server, manifests_of, policies_in_force};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::super::world::{SOON, capstan};
use super::objects::{CLUSTER_API, KINDS, MACHINE_API, cluster_api, machine_api, status};

/// The installed features.
const FEATURES: &str = "admission,mirroring";
/// The sync controller.
pub(super) const SYNC: &str = "system:serviceaccount:openshift-machine-api:capstan-controllers";
/// The garbage collector.
pub(super) const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
/// The controllers of the two APIs and of an infrastructure provider.
pub(super) const MACHINE_API_CONTROLLERS: &str = "system:serviceaccount:openshift-machine-api:machine-api-controllers";
pub(super) const CLUSTER_API_CONTROLLERS: &str = "system:serviceaccount:openshift-cluster-api:capi-manager";
pub(super) const AWS_CONTROLLERS: &str = "system:serviceaccount:openshift-cluster-api:capa-controller-manager";
/// The etcd operator.
pub(super) const ETCD_OPERATOR: &str = "system:serviceaccount:openshift-etcd-operator:etcd-operator";
/// A user who may impersonate any service account.
pub(super) const IMPERSONATOR: &str = "mallory";
/// Users without special rights: a plain user and the administrator.
pub(super) const USERS: [&str; 2] = ["alice", "admin"];

/// Adds an older version to the CRDs of Cluster API. The API server converts such a request for the
/// webhook.
fn with_an_older_version(mut crd: Value) -> Value {
    let mut older = crd["spec"]["versions"][0].clone();
    older["name"] = json!("v1beta1");
    older["storage"] = json!(false);
    if crd["spec"]["group"] == "cluster.x-k8s.io" {
        crd["spec"]["versions"].as_array_mut().unwrap().push(older);
    }
    crd
}

/// Serves the CRDs of Cluster API in the older version only.
fn with_only_an_older_version(mut crd: Value) -> Value {
    if crd["spec"]["group"] == "cluster.x-k8s.io" {
        crd["spec"]["versions"][0]["name"] = json!("v1beta1");
    }
    crd
}

/// A cluster with both APIs.
pub(super) struct World {
    plane: ControlPlane,
    /// The kubeconfig files of the service accounts, with tokens.
    accounts: BTreeMap<&'static str, PathBuf>,
    _server: Option<Server>,
}

impl World {
    /// The webhook and the policies.
    pub(super) async fn whole() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        WORLD.get_or_init(|| Self::start(true, true)).await
    }

    /// The webhook without the policies, so that every refusal comes from the webhook.
    pub(super) async fn webhook_only() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        WORLD.get_or_init(|| Self::start(false, true)).await
    }

    /// The policies without the webhook.
    pub(super) async fn policies_only() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        WORLD.get_or_init(|| Self::start(true, false)).await
    }

    /// The webhook of a server that has not read any object yet.
    pub(super) async fn with_empty_caches() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        WORLD
            .get_or_init(|| Self::start_with(false, true, false, with_an_older_version))
            .await
    }

    /// The webhook in a cluster that serves Cluster API in an older version only.
    pub(super) async fn with_an_older_version_only() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        WORLD
            .get_or_init(|| Self::start_with(false, true, true, with_only_an_older_version))
            .await
    }

    async fn start(policies: bool, webhooks: bool) -> Self {
        Self::start_with(policies, webhooks, true, with_an_older_version).await
    }

    async fn start_with(policies: bool, webhooks: bool, reads: bool, versions: fn(Value) -> Value) -> Self {
        let plane = ControlPlane::start(Options::default()).await.unwrap();
        let cluster = Cluster::of(&plane).unwrap();
        let mut crds: Vec<Value> = crd::crds(&rule_files().unwrap()).unwrap();
        crds.extend(crd::foreign_crds());
        crds.extend(crd::cluster_api_crds().into_iter().map(versions));
        let crds: Vec<String> = crds.iter().map(Value::to_string).collect();
        cluster.apply(&crds.join("\n---\n")).await.unwrap();
        for namespace in [MACHINE_API, CLUSTER_API, "openshift-etcd-operator"] {
            cluster
                .run(&["create", "namespace", namespace], "")
                .await
                .unwrap()
                .checked()
                .unwrap();
        }
        cluster
            .apply(&manifests_of(capstan(), "rbac", FEATURES).await.unwrap())
            .await
            .unwrap();
        let mut accounts = BTreeMap::new();
        for user in [
            SYNC,
            COLLECTOR,
            MACHINE_API_CONTROLLERS,
            CLUSTER_API_CONTROLLERS,
            AWS_CONTROLLERS,
            ETCD_OPERATOR,
        ] {
            let (namespace, name) = user
                .trim_start_matches("system:serviceaccount:")
                .split_once(':')
                .unwrap();
            let path = plane.kubeconfig_of_service_account(namespace, name).await.unwrap();
            accounts.insert(user, path);
        }
        let impersonated = ["serviceaccounts"];
        plane
            .allow(IMPERSONATOR, &["impersonate"], "", &impersonated)
            .await
            .unwrap();
        for user in accounts.keys().copied().chain(["alice"]) {
            for group in [
                "machine.openshift.io",
                "cluster.x-k8s.io",
                "infrastructure.cluster.x-k8s.io",
            ] {
                plane.allow(user, &["*"], group, &["*"]).await.unwrap();
            }
        }
        if policies {
            cluster
                .apply(&manifests_of(capstan(), "policies", FEATURES).await.unwrap())
                .await
                .unwrap();
            policies_in_force(&cluster).await.unwrap();
        }
        let mut server = None;
        if webhooks {
            let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
            let kubeconfig = plane.kubeconfig_for(SERVICE_ACCOUNT, &groups).unwrap();
            let folder = plane.folder().join("capstan");
            std::fs::create_dir(&folder).unwrap();
            let nothing = folder.join("nothing.yaml");
            std::fs::write(&nothing, "").unwrap();
            let objects = if reads {
                format!("--kubeconfig={}", kubeconfig.display())
            } else {
                format!("--snapshot={}", nothing.display())
            };
            let flags = [objects, "--mirroring".to_owned()];
            let started = Server::start(capstan(), &flags, "127.0.0.1", &folder).await.unwrap();
            started.register(&cluster).await.unwrap();
            server = Some(started);
        }
        Self {
            plane,
            accounts,
            _server: server,
        }
    }

    /// kubectl as a user.
    pub(super) async fn run(&self, user: &str, arguments: &[&str], stdin: &str) -> Output {
        let kubectl = self.plane.kubectl().args(arguments.to_vec()).stdin(stdin.to_owned());
        let kubectl = match (user, self.accounts.get(user)) {
            (_, Some(token)) => kubectl.with_kubeconfig(token),
            ("admin", None) => kubectl,
            (user, None) => kubectl.as_user(user, &[]),
        };
        kubectl.run().await.unwrap()
    }

    /// A client of a user, for requests that follow each other at once.
    pub(super) async fn client(&self, user: &str) -> kube::Client {
        let kubeconfig = match self.accounts.get(user) {
            Some(token) => token.clone(),
            None => self.plane.kubeconfig_for(user, &[]).unwrap(),
        };
        self.plane.client_of_kubeconfig(&kubeconfig).await.unwrap()
    }

    /// kubectl as a user, until its output is as expected.
    pub(super) async fn until(
        &self,
        user: &str,
        arguments: &[&str],
        stdin: &str,
        expected: impl Fn(&Output) -> bool,
    ) -> Output {
        wait_until("the expected answer", SOON, async || {
            let output = self.run(user, arguments, stdin).await;
            if expected(&output) {
                return Ok(Some(output));
            }
            anyhow::bail!("{user}: kubectl {}: {output}", arguments.join(" "))
        })
        .await
        .unwrap()
    }

    /// kubectl until the request is allowed.
    pub(super) async fn allows(&self, user: &str, arguments: &[&str], stdin: &str) -> Output {
        self.until(user, arguments, stdin, Output::success).await
    }

    /// kubectl until the request is refused by a rule.
    pub(super) async fn refuses(&self, user: &str, arguments: &[&str], stdin: &str, rule: &str) -> Output {
        let rule = format!("[{rule}]");
        self.until(user, arguments, stdin, |output| {
            !output.success() && output.stderr.contains(&rule)
        })
        .await
    }

    /// kubectl until the request is allowed with this text in a warning.
    pub(super) async fn warns(&self, user: &str, arguments: &[&str], stdin: &str, text: &str) -> Output {
        let output = self
            .until(user, arguments, stdin, |output| {
                output.success() && output.stderr.contains(text)
            })
            .await;
        for line in output.stderr.lines().filter(|line| line.starts_with("Warning: ")) {
            assert!(line.len() <= "Warning: ".len() + 256, "{line}");
        }
        output
    }

    /// Stores an object, as the sync controller.
    pub(super) async fn store(&self, object: &Value) {
        self.allows(SYNC, &["create", "-f", "-"], &object.to_string()).await;
    }

    /// Writes the status of an object, as the sync controller.
    pub(super) async fn set_status(&self, object: &Value, status: &Value) {
        let group = object["apiVersion"].as_str().unwrap().split('/').next().unwrap();
        let resource = format!("{}s.{group}", object["kind"].as_str().unwrap().to_lowercase());
        let patch = json!({"status": status}).to_string();
        let name = object["metadata"]["name"].as_str().unwrap();
        let namespace = object["metadata"]["namespace"].as_str().unwrap();
        let arguments = [
            "patch",
            "-n",
            namespace,
            &resource,
            name,
            "--type=merge",
            "--subresource=status",
            "-p",
            &patch,
        ];
        self.allows(SYNC, &arguments, "").await;
    }

    /// Stores objects as the sync controller, each with its status, without kubectl.
    pub(super) async fn store_all(&self, objects: &[(Value, Option<Value>)]) {
        let client = self.plane.client_of_kubeconfig(&self.accounts[SYNC]).await.unwrap();
        for (object, status) in objects {
            let kind = object["kind"].as_str().unwrap();
            let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
            let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
            let namespace = object["metadata"]["namespace"].as_str().unwrap();
            let name = object["metadata"]["name"].as_str().unwrap();
            let resource = kube::core::ApiResource::from_gvk(&kind);
            let api = kube::Api::<kube::core::DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
            let typed = serde_json::from_value(object.clone()).unwrap();
            api.create(&kube::api::PostParams::default(), &typed).await.unwrap();
            if let Some(status) = status {
                let patch = kube::api::Patch::Merge(json!({"status": status}));
                let parameters = kube::api::PatchParams::default();
                api.patch_status(name, &parameters, &patch).await.unwrap();
            }
        }
    }

    /// An owner reference to an object that exists.
    pub(super) async fn owner(&self, namespace: &str, resource: &str, name: &str) -> Value {
        let get = ["get", "-n", namespace, resource, name, "-o", "json"];
        let owner = self.run("admin", &get, "").await.checked().unwrap().stdout;
        let owner: Value = serde_json::from_str(&owner).unwrap();
        json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name, "uid": owner["metadata"]["uid"]})
    }

    /// Waits until the server's caches contain everything that is stored: of each kind in each API,
    /// an object that is stored now.
    pub(super) async fn settle(&self, prefix: &str) {
        for kind in KINDS {
            let name = format!("{prefix}-settled");
            self.store(&cluster_api(kind, &format!("{name}-b"), false)).await;
            let authoritative = machine_api(kind, &format!("{name}-a"), "MachineAPI");
            self.store(&authoritative).await;
            self.set_status(&authoritative, &status("MachineAPI")).await;
            let create = ["create", "--dry-run=server", "-f", "-"];
            let beside = machine_api(kind, &format!("{name}-b"), "MachineAPI").to_string();
            self.refuses("alice", &create, &beside, "authority-create-beside-cluster-api")
                .await;
            let unpaused = cluster_api(kind, &format!("{name}-a"), false).to_string();
            self.refuses("alice", &create, &unpaused, "authority-capi-create-unpaused")
                .await;
        }
    }

    /// Stores both objects of a pair with this authority; "Migrating" is a migration to Cluster
    /// API.
    pub(super) async fn pair(&self, kind: &str, name: &str, authority: &str) {
        let desired = if authority == "MachineAPI" {
            "MachineAPI"
        } else {
            "ClusterAPI"
        };
        let machine_api = machine_api(kind, name, desired);
        self.store(&machine_api).await;
        self.set_status(&machine_api, &status(authority)).await;
        let cluster_api = cluster_api(kind, name, authority != "ClusterAPI");
        self.store(&cluster_api).await;
        if kind == "Machine" {
            let provisioned = json!({"initialization": {"infrastructureProvisioned": true}});
            self.set_status(&cluster_api, &provisioned).await;
        }
    }
}

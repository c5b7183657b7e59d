//! Clusters with Capstan, which are started once and shared. A test takes a cluster exclusively and
//! finds it in its initial state.

use std::path::Path;
use std::time::Duration;

use capstan_core::admission::rule_files;
use capstan_core::schema::crd;
use capstan_sandbox::control_plane::{ControlPlane, Editor, Kubectl, Options, Output, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE, SERVICE_ACCOUNT, Server, manifests, policies_in_force};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::fixtures;

/// The deadline of each wait, also on a loaded machine. No test succeeds because it is reached.
pub(crate) const SOON: Duration = Duration::from_secs(240);

/// The `capstan` binary under test.
pub(crate) fn capstan() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_capstan"))
}

/// The output of `capstan manifests`.
pub(crate) async fn capstan_manifests(what: &str) -> String {
    manifests(capstan(), what).await.unwrap()
}

/// A cluster with control plane machines.
pub(crate) struct World {
    plane: ControlPlane,
    server: Mutex<Option<Server>>,
    state: Mutex<State>,
}

/// The state of the cluster.
struct State {
    machines: usize,
}

/// The installed parts.
struct Parts {
    /// The CRD of the set, if it is not that of Capstan.
    crd: Option<String>,
    policies: bool,
    webhooks: bool,
}

impl World {
    /// A cluster with all parts and the CRDs of Capstan.
    pub(crate) async fn ours() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        let parts = Parts {
            crd: None,
            policies: true,
            webhooks: true,
        };
        WORLD.get_or_init(|| Self::start(parts)).await
    }

    /// A cluster with all parts and a CRD that behaves like that of OpenShift.
    pub(crate) async fn openshift() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        let parts = Parts {
            crd: Some(fixtures::OPENSHIFT_CRD.to_owned()),
            policies: true,
            webhooks: true,
        };
        WORLD.get_or_init(|| Self::start(parts)).await
    }

    /// A cluster with all parts, for the one test that stops the server.
    pub(crate) async fn with_stoppable_server() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        let parts = Parts {
            crd: None,
            policies: true,
            webhooks: true,
        };
        WORLD.get_or_init(|| Self::start(parts)).await
    }

    /// Stops the server. The webhooks stay registered.
    pub(crate) async fn stop_server(&self) {
        self.server.lock().await.take();
    }

    /// A cluster in which only the policies refuse: it has no webhook, and its CRD has no rules.
    pub(crate) async fn policies_only() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        let mut definition = crd::crds(&rule_files().unwrap()).unwrap().remove(0);
        without_rules(&mut definition);
        let parts = Parts {
            crd: Some(definition.to_string()),
            policies: true,
            webhooks: false,
        };
        WORLD.get_or_init(|| Self::start(parts)).await
    }

    async fn start(parts: Parts) -> Self {
        let plane = ControlPlane::start(Options::default()).await.unwrap();
        let cluster = Cluster::of(&plane).unwrap();
        let mut definitions = capstan_manifests("crds").await;
        for foreign in crd::foreign_crds() {
            definitions.push_str(&format!("---\n{foreign}\n"));
        }
        cluster.apply(&definitions).await.unwrap();
        if let Some(definition) = &parts.crd {
            cluster.apply(definition).await.unwrap();
        }
        let namespace = ["create", "namespace", NAMESPACE];
        cluster.run(&namespace, "").await.unwrap().checked().unwrap();
        cluster.apply(&fixtures::surroundings()).await.unwrap();
        cluster.apply(&capstan_manifests("rbac").await).await.unwrap();
        let sets = ["controlplanemachinesets", "controlplanemachinesets/scale"];
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
        plane
            .allow("alice", &verbs, "machine.openshift.io", &sets)
            .await
            .unwrap();
        plane
            .allow("bob", &["get", "list"], "machine.openshift.io", &sets[..1])
            .await
            .unwrap();
        if parts.policies {
            cluster.apply(&capstan_manifests("policies").await).await.unwrap();
            policies_in_force(&cluster).await.unwrap();
        }
        let mut server = None;
        if parts.webhooks {
            // The server has only the permissions that the manifests grant.
            let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
            let kubeconfig = plane.kubeconfig_for(SERVICE_ACCOUNT, &groups).unwrap();
            let flags = [format!("--kubeconfig={}", kubeconfig.display())];
            let folder = plane.folder().join("capstan");
            std::fs::create_dir(&folder).unwrap();
            let started = Server::start(capstan(), &flags, "127.0.0.1", &folder).await.unwrap();
            started.register(&cluster).await.unwrap();
            server = Some(started);
        }
        Self {
            plane,
            server: Mutex::new(server),
            state: Mutex::new(State { machines: 0 }),
        }
    }

    /// Takes the cluster with this number of machines and without a set.
    pub(crate) async fn with_machines(&'static self, count: usize) -> Taken {
        let mut state = self.state.lock().await;
        let taken = |state| Taken {
            world: self,
            _state: state,
        };
        let kubectl = |arguments: &[&str]| self.plane.kubectl().args(["-n", NAMESPACE]).args(arguments.to_vec());
        // An earlier test may have left a set with finalizers.
        let listed = kubectl(&["get", "controlplanemachinesets", "-o", "name"])
            .run()
            .await
            .unwrap();
        for name in listed.checked().unwrap().stdout.lines() {
            let delete = ["delete", name, "--wait=false"];
            if !kubectl(&delete).run().await.unwrap().success() {
                // An earlier test may have left machines with this set as their owner.
                let orphan = [&delete[..], &["--cascade=orphan"]].concat();
                kubectl(&orphan).run().await.unwrap().checked().unwrap();
                state.machines = usize::MAX;
            }
            let release = [
                "patch",
                name,
                "--type=merge",
                "-p",
                r#"{"metadata":{"finalizers":null}}"#,
            ];
            let released = kubectl(&release).run().await.unwrap();
            assert!(released.success() || released.stderr.contains("NotFound"), "{released}");
        }
        if state.machines != count {
            let machines: Vec<String> = fixtures::machines(count).iter().map(Value::to_string).collect();
            kubectl(&["delete", "machines", "--all"])
                .run()
                .await
                .unwrap()
                .checked()
                .unwrap();
            self.plane.apply_yaml(&machines.join("\n---\n")).await.unwrap();
            state.machines = count;
        }
        taken(state)
    }

    /// Takes the cluster with a set of this size and state, and its machines.
    pub(crate) async fn with_set(&'static self, replicas: usize, state: &str) -> Taken {
        let taken = self.with_machines(replicas).await;
        taken.create(&fixtures::set_of(replicas, state)).await;
        taken
    }
}

/// Removes all CEL rules from a CRD.
pub(crate) fn without_rules(node: &mut Value) {
    match node {
        Value::Object(map) => {
            map.remove("x-kubernetes-validations");
            map.values_mut().for_each(without_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(without_rules),
        _ => {}
    }
}

/// A cluster that one test uses exclusively.
pub(crate) struct Taken {
    world: &'static World,
    _state: MutexGuard<'static, State>,
}

impl Taken {
    /// The control plane.
    pub(crate) fn plane(&self) -> &'static ControlPlane {
        &self.world.plane
    }

    /// kubectl in the namespace of the Machine API, as the administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Kubectl<'static> {
        self.plane().kubectl().args(["-n", NAMESPACE]).args(arguments.to_vec())
    }

    /// Runs kubectl.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        self.kubectl(arguments).run().await.unwrap()
    }

    /// Patches the set `cluster` with a merge patch.
    pub(crate) async fn patch(&self, patch: &str) -> Output {
        self.run(&["patch", SET, "cluster", "--type=merge", "-p", patch]).await
    }

    /// Edits the set `cluster` with sed as the editor.
    pub(crate) async fn edit(&self, script: &str) -> Output {
        self.kubectl(&["edit", SET, "cluster"])
            .editor(Editor::Sed(script.to_owned()))
            .run()
            .await
            .unwrap()
    }

    /// Creates a set. It retries until the set is accepted, because the caches of the server see
    /// new machines a moment later.
    pub(crate) async fn create(&self, set: &Value) {
        let create = ["create", "-f", "-"];
        wait_until("the set to be accepted", SOON, async || {
            let output = self.kubectl(&create).stdin(set.to_string()).run().await?;
            output.checked().map(Some)
        })
        .await
        .unwrap();
    }

    /// Runs `action` while no rule is in force, and waits until all rules are in force again. It
    /// creates objects as they were stored before a rule existed.
    pub(crate) async fn without_rules(&self, action: impl AsyncFnOnce()) {
        let cluster = Cluster::of(self.plane()).unwrap();
        let webhooks = [
            "mutatingwebhookconfigurations/capstan",
            "validatingwebhookconfigurations/capstan",
        ];
        let binding = "validatingadmissionpolicybindings/capstan-controlplanemachinesets";
        let definition = "customresourcedefinitions/controlplanemachinesets.machine.openshift.io";
        let before = cluster.run(&["get", definition, "-o", "json"], "").await.unwrap();
        let mut open: Value = serde_json::from_str(&before.checked().unwrap().stdout).unwrap();
        let strict = json!({"apiVersion": open["apiVersion"], "kind": open["kind"], "metadata": {"name": open["metadata"]["name"]},
            "spec": open["spec"]});
        without_rules(&mut open);
        let open = json!({"apiVersion": open["apiVersion"], "kind": open["kind"], "metadata": {"name": open["metadata"]["name"]},
            "spec": open["spec"]});
        cluster.apply(&open.to_string()).await.unwrap();
        let delete = [&["delete", binding][..], &webhooks].concat();
        cluster.run(&delete, "").await.unwrap().checked().unwrap();
        action().await;
        cluster.apply(&strict.to_string()).await.unwrap();
        let policies = capstan_manifests("policies").await;
        cluster.apply(&policies).await.unwrap();
        policies_in_force(&cluster).await.unwrap();
        let server = self.world.server.lock().await;
        server.as_ref().unwrap().register(&cluster).await.unwrap();
    }

    /// The set `cluster`.
    pub(crate) async fn get(&self) -> Value {
        let output = self.run(&["get", SET, "cluster", "-o", "json"]).await;
        serde_json::from_str(&output.checked().unwrap().stdout).unwrap()
    }
}

/// The resource, by its name in every CRD.
pub(crate) const SET: &str = "controlplanemachinesets.machine.openshift.io";

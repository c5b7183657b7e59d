//! Clusters with Capstan in them, started once and shared: a test takes one for itself, as it was at the beginning.

use std::path::Path;
use std::time::Duration;

use capstan_core::admission::rule_files;
use capstan_core::schema::crd;
use capstan_sandbox::control_plane::{ControlPlane, Editor, Kubectl, Options, Output, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE, SERVICE_ACCOUNT, Server, manifests, policies_in_force};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::fixtures;

/// Long, for a loaded machine; nothing passes by waiting for it.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The `capstan` that is tested.
pub(crate) fn capstan() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_capstan"))
}

/// What `capstan manifests` prints.
pub(crate) async fn capstan_manifests(what: &str) -> String {
    manifests(capstan(), what).await.unwrap()
}

/// A cluster with control plane machines.
pub(crate) struct World {
    plane: ControlPlane,
    server: Mutex<Option<Server>>,
    state: Mutex<State>,
}

/// What the cluster holds.
struct State {
    machines: usize,
}

/// What is installed.
struct Parts {
    /// The definition of control plane machine sets, where it is not ours.
    definition: Option<String>,
    policies: bool,
    webhooks: bool,
}

impl World {
    /// Everything, with our definitions.
    pub(crate) async fn ours() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        let parts = Parts {
            definition: None,
            policies: true,
            webhooks: true,
        };
        WORLD.get_or_init(|| Self::start(parts)).await
    }

    /// Everything, with a definition that behaves as OpenShift's.
    pub(crate) async fn openshift() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        let parts = Parts {
            definition: Some(fixtures::OPENSHIFT_CRD.to_owned()),
            policies: true,
            webhooks: true,
        };
        WORLD.get_or_init(|| Self::start(parts)).await
    }

    /// Everything, for the one test that stops the server.
    pub(crate) async fn doomed() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        let parts = Parts {
            definition: None,
            policies: true,
            webhooks: true,
        };
        WORLD.get_or_init(|| Self::start(parts)).await
    }

    /// Ends the server; what is registered stays.
    pub(crate) async fn stop_server(&self) {
        self.server.lock().await.take();
    }

    /// The policies and nothing else: no webhook, and a definition without rules, so that nobody refuses but they.
    pub(crate) async fn policies_only() -> &'static Self {
        static WORLD: OnceCell<World> = OnceCell::const_new();
        let mut definition = crd::crds(&rule_files().unwrap()).unwrap().remove(0);
        without_rules(&mut definition);
        let parts = Parts {
            definition: Some(definition.to_string()),
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
        if let Some(definition) = &parts.definition {
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
            // As in a cluster: with no more rights than the manifests give.
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

    /// Takes the cluster, with this many machines and no set.
    pub(crate) async fn with_machines(&'static self, count: usize) -> Taken {
        let mut state = self.state.lock().await;
        let taken = |state| Taken {
            world: self,
            _state: state,
        };
        let kubectl = |arguments: &[&str]| self.plane.kubectl().args(["-n", NAMESPACE]).args(arguments.to_vec());
        // A test may have left a set that waits for its finalizers.
        let listed = kubectl(&["get", "controlplanemachinesets", "-o", "name"])
            .run()
            .await
            .unwrap();
        for name in listed.checked().unwrap().stdout.lines() {
            let delete = ["delete", name, "--wait=false"];
            kubectl(&delete).run().await.unwrap().checked().unwrap();
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

    /// Takes the cluster with a set of this size in this state, and its machines.
    pub(crate) async fn with_set(&'static self, replicas: usize, state: &str) -> Taken {
        let taken = self.with_machines(replicas).await;
        taken.create(&fixtures::set_of(replicas, state)).await;
        taken
    }
}

/// Removes every rule in CEL from a definition.
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

/// A cluster that a test has for itself.
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

    /// The outcome of kubectl.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        self.kubectl(arguments).run().await.unwrap()
    }

    /// Patches the set `cluster` with a merge patch.
    pub(crate) async fn patch(&self, patch: &str) -> Output {
        self.run(&["patch", SET, "cluster", "--type=merge", "-p", patch]).await
    }

    /// Edits the set `cluster`, with sed in place of a person.
    pub(crate) async fn edit(&self, script: &str) -> Output {
        self.kubectl(&["edit", SET, "cluster"])
            .editor(Editor::Sed(script.to_owned()))
            .run()
            .await
            .unwrap()
    }

    /// Creates a set. It waits until it is accepted, since the server's caches hear of new machines a moment later.
    pub(crate) async fn create(&self, set: &Value) {
        let create = ["create", "-f", "-"];
        wait_until("the set to be accepted", SOON, async || {
            let output = self.kubectl(&create).stdin(set.to_string()).run().await?;
            output.checked().map(Some)
        })
        .await
        .unwrap();
    }

    /// Does something while no rule is in force, and waits until all are again. What was stored before a rule existed comes
    /// into a cluster like this.
    pub(crate) async fn without_rules(&self, doing: impl AsyncFnOnce()) {
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
        doing().await;
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

/// The resource, by the name that every definition has.
pub(crate) const SET: &str = "controlplanemachinesets.machine.openshift.io";

//! Compares the garbage collector of the simulation with the one of kube-controller-manager.
//!
//! Generated graphs of owners and dependants are created on both sides, and their objects are
//! deleted in the background, in the foreground, and with orphans. The collector of the simulation
//! works until it has nothing to do. Then the real side must reach the same state: the same objects,
//! with the same owners and finalizers, that are or are not being deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_sandbox::api::garbage::Graph;
use capstan_sandbox::api::service::Server;
use capstan_sandbox::control_plane::{ControlPlane, Options, wait_until};
use capstan_sandbox::random::Random;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::generate::{Body, Call};
use crate::side::Side;

/// The number of graphs. Each has a namespace of its own.
const GRAPHS: u64 = 24;
/// The number of objects of a graph.
const OBJECTS: usize = 7;
/// The number of deletions in each graph.
const ROUNDS: usize = 4;
/// The real collector must reach a state within this time. It learns of the kinds of a new CRD every
/// 30 seconds.
const SOON: Duration = Duration::from_secs(180);
/// The collector of the simulation must come to an end within so many requests.
const MOST_REQUESTS: usize = 200;

/// The kinds of the objects: plural, base of the collection, and apiVersion with kind.
const KINDS: [(&str, &str, &str, &str); 3] = [
    ("configmaps", "/api/v1", "v1", "ConfigMap"),
    (
        "leases",
        "/apis/coordination.k8s.io/v1",
        "coordination.k8s.io/v1",
        "Lease",
    ),
    (
        "machines",
        "/apis/machine.openshift.io/v1beta1",
        "machine.openshift.io/v1beta1",
        "Machine",
    ),
];

/// An object of a graph.
#[derive(Clone, Debug)]
struct Node {
    kind: usize,
    name: String,
}

impl Node {
    fn collection(&self, namespace: &str) -> String {
        collection(self.kind, namespace)
    }

    fn path(&self, namespace: &str) -> String {
        format!("{}/{}", self.collection(namespace), self.name)
    }
}

fn collection(kind: usize, namespace: &str) -> String {
    let (plural, base, ..) = KINDS[kind];
    format!("{base}/namespaces/{namespace}/{plural}")
}

fn call(method: &'static str, path: String, body: Body) -> Call {
    let content_type = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let query = String::new();
    Call {
        method,
        path,
        query,
        content_type,
        body,
    }
}

/// A graph on both sides.
struct Pair {
    namespace: String,
    nodes: Vec<Node>,
    random: Random,
    real: Side,
    simulated: Side,
}

/// What is compared of an object.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    is_deleting: bool,
    finalizers: Vec<String>,
    owners: Vec<String>,
}

fn state_of(object: &Value) -> State {
    let texts = |pointer: &str, field: &str| {
        let list = object.pointer(pointer).and_then(Value::as_array).cloned();
        let texts = list.unwrap_or_default().into_iter().filter_map(|item| {
            let text = if field.is_empty() { &item } else { &item[field] };
            text.as_str().map(str::to_owned)
        });
        let mut texts: Vec<String> = texts.collect();
        texts.sort();
        texts
    };
    State {
        is_deleting: object.pointer("/metadata/deletionTimestamp").is_some(),
        finalizers: texts("/metadata/finalizers", ""),
        owners: texts("/metadata/ownerReferences", "name"),
    }
}

/// The objects of a namespace, by kind and name.
async fn states(side: &mut Side, namespace: &str) -> BTreeMap<String, State> {
    let mut all = BTreeMap::new();
    for (kind, (plural, ..)) in KINDS.iter().enumerate() {
        let answer = side.send(&call("GET", collection(kind, namespace), Body::None)).await;
        assert_eq!(answer.code, 200, "{}", answer.body);
        for object in answer.body["items"].as_array().into_iter().flatten() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            // The namespace has this object on the real side only.
            if name != "kube-root-ca.crt" {
                all.insert(format!("{plural}/{name}"), state_of(object));
            }
        }
    }
    all
}

impl Pair {
    fn new(seed: u64, real: &kube::Client, simulated: &kube::Client) -> Self {
        Self {
            namespace: format!("collected-{seed}"),
            nodes: Vec::new(),
            random: Random::new(seed),
            real: Side::new(real),
            simulated: Side::new(simulated),
        }
    }

    /// Sends a request to both sides, which must answer alike.
    async fn send(&mut self, call: &Call) -> Value {
        let (real, simulated) = (self.real.send(call).await, self.simulated.send(call).await);
        assert_eq!(
            real.code, simulated.code,
            "{call}: real {}, simulated {}",
            real.body, simulated.body
        );
        real.body
    }

    /// Creates the namespace and the objects. Later objects may be owned by earlier ones.
    async fn create(&mut self) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        self.send(&call("POST", "/api/v1/namespaces".to_owned(), Body::Json(namespace)))
            .await;
        for position in 0..OBJECTS {
            let node = Node {
                kind: usize::try_from(self.random.below(3)).unwrap(),
                name: format!("object-{position}"),
            };
            let (_, _, api_version, kind) = KINDS[node.kind];
            let mut owners: Vec<Value> = Vec::new();
            for owner in &self.nodes {
                if self.random.permille(350) && owners.len() < 2 {
                    let (_, _, api_version, kind) = KINDS[owner.kind];
                    owners.push(json!({"apiVersion": api_version, "kind": kind, "name": owner.name,
                        "uid": format!("@uid {}", owner.path(&self.namespace)),
                        "blockOwnerDeletion": self.random.permille(500)}));
                }
            }
            let finalizers: &[&str] = if self.random.permille(250) {
                &["example.com/hold"]
            } else {
                &[]
            };
            let object = json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"name": node.name, "finalizers": finalizers, "ownerReferences": owners}});
            let path = node.collection(&self.namespace);
            self.send(&call("POST", path, Body::Json(object))).await;
            self.nodes.push(node);
        }
    }

    /// Deletes one of the objects that exist, or removes the finalizers of one.
    async fn change(&mut self) {
        let there = states(&mut self.simulated, &self.namespace).await;
        let namespace = self.namespace.clone();
        let exists = |node: &&Node| there.contains_key(&format!("{}/{}", KINDS[node.kind].0, node.name));
        let nodes: Vec<Node> = self.nodes.iter().filter(exists).cloned().collect();
        let Some(node) = self.random.pick(&nodes).cloned() else {
            return;
        };
        let path = node.path(&namespace);
        let is_held = there
            .values()
            .any(|state| state.is_deleting && !state.finalizers.is_empty());
        if is_held && self.random.permille(400) {
            let held = nodes.iter().find(|node| {
                let state = there.get(&format!("{}/{}", KINDS[node.kind].0, node.name));
                state.is_some_and(|state| state.finalizers.iter().any(|name| name == "example.com/hold"))
            });
            if let Some(held) = held {
                let keep = there[&format!("{}/{}", KINDS[held.kind].0, held.name)]
                    .finalizers
                    .iter();
                let keep: Vec<&String> = keep.filter(|name| *name != "example.com/hold").collect();
                let patch = json!({"metadata": {"finalizers": keep}});
                self.send(&call("PATCH", held.path(&namespace), Body::Json(patch)))
                    .await;
                return;
            }
        }
        let policies = ["Background", "Foreground", "Orphan"];
        let policy = self.random.pick(&policies).copied().unwrap();
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
        self.send(&call("DELETE", path, Body::Json(options))).await;
    }

    /// Waits until the real side has the state of the simulated one.
    async fn settle(&mut self) {
        let simulated = states(&mut self.simulated, &self.namespace).await;
        let what = format!("the garbage collector to leave in {}: {simulated:#?}", self.namespace);
        let Self { real, namespace, .. } = self;
        let reached = wait_until(&what, SOON, async || {
            let there = states(real, namespace).await;
            if there == simulated {
                return Ok(Some(()));
            }
            anyhow::bail!("there is {there:#?}")
        });
        reached.await.unwrap();
    }
}

/// Lets the collector of the simulation work until it has nothing to do.
fn collect(server: &Server) {
    let (mut api, mut graph) = (server.api(), Graph::default());
    for _ in 0..MOST_REQUESTS {
        graph.refresh(&api);
        let Some(request) = graph.next(&api) else { return };
        let (answer, _) = api.apply(&request, Timestamp::now());
        answer.unwrap_or_else(|failure| panic!("{request:?}: {failure:?}"));
    }
    panic!("the garbage collector of the simulation must come to an end");
}

/// Waits until the real collector has deleted a new dependant of each kind. It has then handled
/// what was there before.
async fn wait_for_collector(real: &kube::Client, namespace: &str) {
    let mut side = Side::new(real);
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    side.send(&call("POST", "/api/v1/namespaces".to_owned(), Body::Json(body)))
        .await;
    let owner = Node {
        kind: 0,
        name: "owner".to_owned(),
    };
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    side.send(&call("POST", owner.collection(namespace), Body::Json(body)))
        .await;
    for (kind, (_, _, api_version, name)) in KINDS.iter().enumerate() {
        let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
            "uid": format!("@uid {}", owner.path(namespace))}]);
        let body = json!({"apiVersion": api_version, "kind": name,
            "metadata": {"name": "dependant", "ownerReferences": owners}});
        let made = side
            .send(&call("POST", collection(kind, namespace), Body::Json(body)))
            .await;
        assert_eq!(made.code, 201, "{}", made.body);
    }
    let gone = side.send(&call("DELETE", owner.path(namespace), Body::None)).await;
    assert_eq!(gone.code, 200, "{}", gone.body);
    wait_until("the garbage collector to delete the dependants", SOON, async || {
        let there = states(&mut side, namespace).await;
        if there.is_empty() {
            return Ok(Some(()));
        }
        anyhow::bail!("there is {there:?}")
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_garbage_collector_leaves_what_the_real_one_leaves() {
    let crds = crate::crds();
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let real = plane.client().await.unwrap();
    crate::install(&real, &crds).await;
    let server = crate::server(&crds);
    let simulated = server.client("admin", &["system:masters"]);
    let mut pairs: Vec<Pair> = (0..GRAPHS).map(|seed| Pair::new(seed, &real, &simulated)).collect();
    for pair in &mut pairs {
        pair.create().await;
    }
    wait_for_collector(&real, "collected-first").await;
    for _ in 0..ROUNDS {
        for pair in &mut pairs {
            pair.change().await;
        }
        collect(&server);
        for pair in &mut pairs {
            pair.settle().await;
        }
    }
    // What is equal now must stay equal once the real collector has handled all events.
    wait_for_collector(&real, "collected-last").await;
    for pair in &mut pairs {
        pair.settle().await;
    }
}

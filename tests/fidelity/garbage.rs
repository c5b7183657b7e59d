//! Compares the garbage collector of the simulation with that of kube-controller-manager. Both get
//! the same graphs of owners and the same deletions, and must leave the same objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capstan_sandbox::api::garbage::Graph;
use capstan_sandbox::api::service::Server;
use capstan_sandbox::api::{Api, Kind, Options};
use capstan_sandbox::control_plane::{ControlPlane, Options as PlaneOptions, wait_until};
use capstan_sandbox::random::Random;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// The number of graphs. Each has a namespace of its own.
const GRAPHS: u64 = 60;
/// More requests of the collector than a graph can need.
const MOST_REQUESTS: usize = 500;
const DEADLINE: Duration = Duration::from_secs(120);
/// A finalizer of a user.
const HELD: &str = "example.com/held";

/// What the collector decides about: whether an object is being deleted, its finalizers, and its
/// owners with `blockOwnerDeletion`.
type State = BTreeMap<String, (bool, Vec<String>, Vec<(String, bool)>)>;

/// An object of a graph. Owners have a lower number, so that their uids are known.
#[derive(Clone, Debug)]
struct Node {
    /// The owners, or none for an owner that does not exist, and whether they block.
    owners: Vec<(Option<usize>, bool)>,
    is_held: bool,
}

#[derive(Clone, Debug)]
enum Act {
    Delete(usize, Option<PropagationPolicy>),
    /// A user removes the finalizer of a user.
    Release(usize),
    /// The first object becomes owned by this one, so that there is a cycle.
    Close(usize),
}

fn graph(random: &mut Random) -> (Vec<Node>, Vec<Act>) {
    let count = 3 + random.below(5);
    let mut nodes: Vec<Node> = (0..count)
        .map(|number| {
            let drawn = if number == 0 { 0 } else { random.below(3) };
            let mut owners: Vec<(Option<usize>, bool)> = Vec::new();
            for _ in 0..drawn {
                let owner = (random.below(12) != 0).then(|| usize::try_from(random.below(number)).unwrap());
                if owners.iter().all(|(known, _)| *known != owner) {
                    owners.push((owner, random.below(2) == 0));
                }
            }
            Node {
                owners,
                is_held: random.below(4) == 0,
            }
        })
        .collect();
    (0..nodes.len()).for_each(|owner| without_race(&mut nodes, owner));
    let mut acts = Vec::new();
    for _ in 0..3 {
        let any = usize::try_from(random.below(count)).unwrap();
        acts.push(match random.below(10) {
            0 | 1 => Act::Release(any),
            2 => Act::Close(any),
            3 | 4 => Act::Delete(any, Some(PropagationPolicy::Background)),
            5 => Act::Delete(any, Some(PropagationPolicy::Orphan)),
            6 => Act::Delete(any, None),
            _ => Act::Delete(any, Some(PropagationPolicy::Foreground)),
        });
    }
    acts.sort_by_key(|act| matches!(act, Act::Release(_)));
    (nodes, acts)
}

/// If no dependant blocks an owner that is deleted in the foreground, the workers of the real
/// collector race: the owner stops to wait before or after another worker reads it for a dependant
/// that does not block. So either all dependants block, or one of them blocks until it is released.
fn without_race(nodes: &mut [Node], owner: usize) {
    let blocks = |node: &Node| node.is_held && node.owners == [(Some(owner), true)];
    if nodes.iter().any(blocks) {
        return;
    }
    let references = nodes.iter_mut().flat_map(|node| &mut node.owners);
    let references = references.filter(|(of, _)| *of == Some(owner));
    references.for_each(|(_, blocks)| *blocks = true);
}

/// One of the two servers.
#[derive(Clone)]
struct Side {
    objects: kube::Api<DynamicObject>,
}

fn config_maps(client: &kube::Client, namespace: &str) -> kube::Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "ConfigMap"), "configmaps");
    kube::Api::namespaced_with(client.clone(), namespace, &resource)
}

async fn new_namespace(client: &kube::Client, name: &str) {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Namespace"), "namespaces");
    let api: kube::Api<DynamicObject> = kube::Api::all_with(client.clone(), &resource);
    let object = DynamicObject::new(name, &resource);
    api.create(&PostParams::default(), &object).await.unwrap();
}

fn name(number: usize) -> String {
    format!("o{number}")
}

fn reference(name: &str, uid: &str, blocks: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": blocks})
}

impl Side {
    async fn create(&self, nodes: &[Node]) {
        let mut uids: Vec<String> = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let owners: Vec<Value> = node
                .owners
                .iter()
                .map(|(owner, blocks)| match owner {
                    Some(owner) => reference(&name(*owner), &uids[*owner], *blocks),
                    None => reference("absent", "00000000-0000-4000-8000-000000000000", *blocks),
                })
                .collect();
            let finalizers: Vec<&str> = node.is_held.then_some(HELD).into_iter().collect();
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name(number), "ownerReferences": owners, "finalizers": finalizers}});
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let created = self.objects.create(&PostParams::default(), &object).await.unwrap();
            uids.push(created.metadata.uid.unwrap());
        }
    }

    /// Does nothing if the object is gone.
    async fn act(&self, act: &Act) {
        let merge = async |number: &usize, metadata: Value| {
            let patch = Patch::Merge(json!({"metadata": metadata}));
            self.objects
                .patch(&name(*number), &PatchParams::default(), &patch)
                .await
                .unwrap();
        };
        let read = async |number: &usize| self.objects.get_opt(&name(*number)).await.unwrap();
        match act {
            Act::Delete(number, policy) => {
                let parameters = DeleteParams {
                    propagation_policy: policy.clone(),
                    ..DeleteParams::default()
                };
                match self.objects.delete(&name(*number), &parameters).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    result => drop(result.unwrap()),
                }
            }
            Act::Release(number) => {
                if let Some(object) = read(number).await {
                    let mut finalizers = object.metadata.finalizers.unwrap_or_default();
                    finalizers.retain(|finalizer| finalizer != HELD);
                    merge(number, json!({"finalizers": finalizers})).await;
                }
            }
            Act::Close(number) => {
                if let (Some(first), Some(owner)) = (read(&0).await, read(number).await)
                    && *number != 0
                {
                    let owner = reference(&name(*number), &owner.metadata.uid.unwrap(), true);
                    let mut owners = serde_json::to_value(first.metadata.owner_references.unwrap_or_default()).unwrap();
                    owners.as_array_mut().unwrap().push(owner);
                    merge(&0, json!({"ownerReferences": owners})).await;
                }
            }
        }
    }

    async fn state(&self) -> State {
        let list = self.objects.list(&Default::default()).await.unwrap();
        let ours = list
            .items
            .into_iter()
            .filter(|object| object.metadata.name.as_deref().unwrap().starts_with('o'));
        ours.map(|object| {
            let mut finalizers = object.metadata.finalizers.unwrap_or_default();
            finalizers.sort();
            let owners = object.metadata.owner_references.unwrap_or_default().into_iter();
            let owners = owners.map(|owner| (owner.name, owner.block_owner_deletion == Some(true)));
            let mut owners: Vec<(String, bool)> = owners.collect();
            owners.sort();
            let is_deleting = object.metadata.deletion_timestamp.is_some();
            (object.metadata.name.unwrap(), (is_deleting, finalizers, owners))
        })
        .collect()
    }
}

/// Runs the collector of the simulation until it has nothing to do.
fn collect(server: &Server) {
    let (mut api, mut graph) = (server.api(), Graph::default());
    for _ in 0..MOST_REQUESTS {
        graph.refresh(&api);
        let Some(request) = graph.next(&api) else { return };
        let (answer, _) = api.apply(&request, Timestamp::now());
        assert!(answer.is_ok(), "{request:?}: {answer:?}");
    }
    panic!("the collector of the simulation does not rest");
}

/// Waits until the real collector has left the same as that of the simulation.
async fn same(real: &Side, simulated: &Side) -> Result<(), String> {
    let wanted = simulated.state().await;
    let began = std::time::Instant::now();
    loop {
        let found = real.state().await;
        if found == wanted {
            return Ok(());
        }
        if began.elapsed() > DEADLINE {
            return Err(format!("real:      {found:?}\nsimulated: {wanted:?}"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Runs a graph on both sides. Returns them, to be compared again.
async fn run(seed: u64, real: &kube::Client) -> Result<(Side, Side), String> {
    let (nodes, acts) = graph(&mut Random::new(seed));
    let namespace = format!("garbage-{seed}");
    let kinds = Arc::new(Kind::built_ins().unwrap());
    let server = Server::new(Api::new(kinds, Options::default()), Timestamp::now);
    let simulated = server.client("admin", &["system:masters"]);
    new_namespace(real, &namespace).await;
    new_namespace(&simulated, &namespace).await;
    let sides = [real, &simulated].map(|client| Side {
        objects: config_maps(client, &namespace),
    });
    let [real, simulated] = sides;
    let failed = |step: &str, text: String| format!("graph {seed}, {nodes:?}\nafter {step} of {acts:?}:\n{text}");
    real.create(&nodes).await;
    simulated.create(&nodes).await;
    collect(&server);
    same(&real, &simulated)
        .await
        .map_err(|text| failed("the creation", text))?;
    for act in &acts {
        real.act(act).await;
        simulated.act(act).await;
        collect(&server);
        same(&real, &simulated)
            .await
            .map_err(|text| failed(&format!("{act:?}"), text))?;
    }
    Ok((real, simulated))
}

#[tokio::test]
async fn the_garbage_collector_of_the_simulation_leaves_what_the_real_one_leaves() {
    let plane = ControlPlane::start(PlaneOptions::default()).await.unwrap();
    let client = plane.client().await.unwrap();
    let results: Vec<Result<(Side, Side), String>> = futures::stream::iter(0..GRAPHS)
        .map(|seed| run(seed, &client))
        .buffer_unordered(12)
        .collect()
        .await;
    let (sides, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let failed: Vec<String> = failed.into_iter().filter_map(Result::err).collect();
    assert!(
        failed.is_empty(),
        "{} graphs differ:\n{}",
        failed.len(),
        failed.join("\n\n")
    );
    // What the real collector was about to do comes before an object that is created now.
    let last = Node {
        owners: vec![(None, true)],
        is_held: false,
    };
    new_namespace(&client, "garbage-last").await;
    let objects = config_maps(&client, "garbage-last");
    let end = Side { objects };
    end.create(&[last]).await;
    wait_until("the last object to be collected", DEADLINE, async || {
        anyhow::ensure!(end.state().await.is_empty(), "it exists");
        Ok(Some(()))
    })
    .await
    .unwrap();
    for (real, simulated) in sides.into_iter().filter_map(Result::ok) {
        assert_eq!(real.state().await, simulated.state().await);
    }
}

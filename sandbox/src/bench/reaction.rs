//! How soon a rollout continues: the time from the moment the node of a replacement is ready to the
//! deletion of the old machine, on a real API server, with the shipped server. Both moments are
//! observed by watches of one client.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use capstan_core::schema::crd::foreign_crds;
use futures::StreamExt as _;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::review::{set, surroundings};
use crate::control_plane::{ControlPlane, Options};
use crate::infrastructure::{Options as World, Provider, Speeds};
use crate::installation::{Cluster, NAMESPACE, Server, manifests};

/// The number of observed rollouts, of three machines each.
const ROLLOUTS: usize = 5;
/// The timeout of a rollout: longer than a rollout takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The milliseconds from ready to deleted, for each replaced machine.
///
/// # Errors
/// The control plane or the server does not start, or a rollout does not end in time.
pub(super) async fn samples(capstan: &Path, folder: &Path) -> Result<Vec<f64>> {
    let plane = ControlPlane::start(Options::default()).await?;
    let cluster = Cluster::of(&plane)?;
    let foreign: Vec<String> = foreign_crds().iter().map(ToString::to_string).collect();
    cluster
        .apply(&format!(
            r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{NAMESPACE}"}}}}"#
        ))
        .await?;
    cluster.apply(&manifests(capstan, "crds").await?).await?;
    cluster.apply(&foreign.join("\n---\n")).await?;
    for mut object in surroundings()? {
        // The set is created below, without its status.
        if object.get("kind").and_then(Value::as_str) == Some("ControlPlaneMachineSet") {
            continue;
        }
        // The API server assigns the uid. No etcd operator runs here that would remove the hook.
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("uid");
        }
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("lifecycleHooks");
            spec.remove("providerID");
        }
        cluster.apply(&object.to_string()).await?;
    }
    let mut set = set()?;
    let fields = set
        .as_object_mut()
        .context("the set of the benchmark is not an object")?;
    fields.insert(
        "metadata".to_owned(),
        json!({"name": "cluster", "namespace": NAMESPACE}),
    );
    fields.remove("status");
    cluster.apply(&set.to_string()).await?;
    let client = plane.client().await?;
    let _provider = Provider::start(client.clone(), World::new(NAMESPACE, Speeds::FAST, 0));
    let flags = [
        cluster.flags(),
        vec!["--controllers".to_owned(), "--min-ready=0s".to_owned()],
    ]
    .concat();
    let _server = Server::start(capstan, &flags, "127.0.0.1", folder).await?;
    watch(&client).await
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// What the watches have observed.
#[derive(Default)]
struct Observed {
    /// When a node was first ready, by its name.
    ready: BTreeMap<String, Instant>,
    /// The machines that are not being deleted, with the names of their nodes.
    live: BTreeMap<String, Option<String>>,
    /// When a machine was first observed as being deleted, by its name.
    deleted: BTreeMap<String, Instant>,
}

impl Observed {
    fn machine(&mut self, machine: &DynamicObject, now: Instant) {
        let name = machine.metadata.name.clone().unwrap_or_default();
        if machine.metadata.deletion_timestamp.is_some() {
            self.live.remove(&name);
            self.deleted.entry(name).or_insert(now);
            return;
        }
        let node = machine.data.pointer("/status/nodeRef/name").and_then(Value::as_str);
        self.live.insert(name, node.map(str::to_owned));
    }

    fn node(&mut self, node: &DynamicObject, now: Instant) {
        let conditions = node.data.pointer("/status/conditions").and_then(Value::as_array);
        let is_ready = |condition: &Value| {
            condition.get("type") == Some(&json!("Ready")) && condition.get("status") == Some(&json!("True"))
        };
        if conditions.into_iter().flatten().any(is_ready) {
            self.ready
                .entry(node.metadata.name.clone().unwrap_or_default())
                .or_insert(now);
        }
    }

    /// Whether three machines run, and none of those in `before`.
    fn replaced(&self, before: &[String]) -> bool {
        let runs = |node: &Option<String>| node.as_ref().is_some_and(|node| self.ready.contains_key(node));
        self.live.len() == 3 && self.live.values().all(runs) && !before.iter().any(|name| self.live.contains_key(name))
    }
}

/// The index of a machine, which is the last part of its name.
fn index(machine: &str) -> &str {
    machine.rsplit('-').next().unwrap_or_default()
}

async fn watch(client: &Client) -> Result<Vec<f64>> {
    let machines: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        NAMESPACE,
        &resource("machine.openshift.io", "v1beta1", "Machine", "machines"),
    );
    let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "v1", "Node", "nodes"));
    let sets: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        NAMESPACE,
        &resource(
            "machine.openshift.io",
            "v1",
            "ControlPlaneMachineSet",
            "controlplanemachinesets",
        ),
    );
    let mut machine_events = Box::pin(watcher::watcher(machines, watcher::Config::default()));
    let mut node_events = Box::pin(watcher::watcher(nodes, watcher::Config::default()));
    let mut observed = Observed::default();
    let mut samples = Vec::new();
    for rollout in 0..=ROLLOUTS {
        let before: Vec<String> = if rollout == 0 {
            Vec::new()
        } else {
            observed.live.keys().cloned().collect()
        };
        if rollout > 0 {
            edit(&sets, &format!("m6i.{rollout}xlarge")).await?;
        }
        let deadline = Instant::now() + TIMEOUT;
        while !observed.replaced(&before) {
            tokio::select! {
                Some(event) = machine_events.next() => match event {
                    Ok(Event::Apply(machine) | Event::InitApply(machine)) => observed.machine(&machine, Instant::now()),
                    Ok(Event::Delete(machine)) => { observed.live.remove(machine.metadata.name.as_deref().unwrap_or_default()); }
                    _ => {}
                },
                Some(event) = node_events.next() => if let Ok(Event::Apply(node) | Event::InitApply(node)) = event {
                    observed.node(&node, Instant::now());
                },
                () = tokio::time::sleep_until(deadline) => {
                    let set = sets.get("cluster").await.context("reading the set")?;
                    let conditions = set.data.pointer("/status/conditions").unwrap_or(&Value::Null);
                    bail!("rollout {rollout} did not end within {TIMEOUT:?}: {conditions}")
                }
            }
        }
        samples.extend(before.iter().filter_map(|old| {
            let (_, node) = observed.live.iter().find(|(new, _)| index(new) == index(old))?;
            let took = observed
                .deleted
                .get(old)?
                .checked_duration_since(*observed.ready.get(node.as_ref()?)?)?;
            Some(took.as_secs_f64() * 1000.0)
        }));
    }
    Ok(samples)
}

/// Changes the instance type in the template.
async fn edit(sets: &Api<DynamicObject>, instance_type: &str) -> Result<()> {
    let value = json!({"spec": {"providerSpec": {"value": {"instanceType": instance_type}}}});
    let patch = json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": value}}});
    sets.patch("cluster", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .context("changing the instance type of the set")?;
    Ok(())
}

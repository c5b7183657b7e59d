//! Reads that no cache answers: what a plan is checked against right before it is acted upon.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::api::config_openshift_io::cluster_operator::{self, ClusterOperator};
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::cpms::observed::{Observed, Unparsable};
use futures::future::try_join_all;

use super::caches::View;
use super::cluster::Cluster;
use super::object::WatchedObject;
use super::step_error::StepError;

/// The set as it is: `None` if there is none, an error text if it cannot be read.
pub(super) type SetNow = Option<Result<Arc<ControlPlaneMachineSet>, String>>;

/// The set, all machines of the namespace and etcd's operator as they are now; the rest as the caches have it. Before a
/// machine is made or removed, the nodes of the control plane too, with those that are named here: a node that nobody
/// knows stops everything, also while the caches do not show it.
pub(super) async fn read(
    cluster: &impl Cluster,
    view: &View,
    decisive: Option<&[String]>,
) -> Result<(SetNow, Observed), StepError> {
    // Before the others: what another leader makes after this changes the version that a creation is written down with, and
    // what it made before is there.
    let set = cluster.set().await;
    let set = set.map_err(|error| StepError::new(format!("reading ControlPlaneMachineSet {NAME}"), error))?;
    let machines = async {
        let found = cluster.machines().await;
        found.map_err(|error| StepError::new("listing Machines", error))
    };
    let named = decisive.unwrap_or_default().iter().map(|name| node(cluster, name));
    let (machines, control_plane, named, etcd) = tokio::try_join!(
        machines,
        control_plane_nodes(cluster, decisive.is_some()),
        try_join_all(named),
        etcd(cluster, view.serves_cluster_operators),
    )?;
    let mut observed = observed(view);
    observed.unparsable.retain(|object| object.kind != "Machine");
    observed.machines.clear();
    for seen in machines {
        match seen.content {
            Ok(machine) => observed.machines.push(machine),
            Err(message) => observed.unparsable.push(Unparsable {
                kind: "Machine".to_owned(),
                name: seen.meta.name.unwrap_or_default(),
                message,
            }),
        }
    }
    if let Some(control_plane) = control_plane {
        observed.nodes.retain(|there| !there.is_control_plane());
        for seen in control_plane {
            let name = seen.meta.name.clone().unwrap_or_default();
            replace(&mut observed.nodes, &name, Some(seen));
        }
    }
    for (name, node) in named {
        replace(&mut observed.nodes, &name, node);
    }
    if let Some(etcd) = etcd {
        // One that cannot be read says nothing, which is not the same as that all is well.
        observed.etcd = Some(etcd.content.unwrap_or_default());
    }
    Ok((set.map(|set| set.content), observed))
}

/// A node that cannot be read is a node that nobody knows to be ready.
fn replace(nodes: &mut Vec<Arc<Node>>, name: &str, seen: Option<WatchedObject<Node>>) {
    nodes.retain(|there| there.metadata.name() != name);
    nodes.extend(seen.and_then(|seen| seen.content.ok()));
}

async fn control_plane_nodes(
    cluster: &impl Cluster,
    wanted: bool,
) -> Result<Option<Vec<WatchedObject<Node>>>, StepError> {
    if !wanted {
        return Ok(None);
    }
    let found = cluster.control_plane_nodes().await;
    found
        .map(Some)
        .map_err(|error| StepError::new("listing Nodes of the control plane", error))
}

async fn etcd(cluster: &impl Cluster, served: bool) -> Result<Option<WatchedObject<ClusterOperator>>, StepError> {
    if !served {
        return Ok(None);
    }
    let found = cluster.etcd().await;
    found.map_err(|error| StepError::new("reading ClusterOperator etcd", error))
}

async fn node(cluster: &impl Cluster, name: &str) -> Result<(String, Option<WatchedObject<Node>>), StepError> {
    let found = cluster.node(name).await;
    let found = found.map_err(|error| StepError::new(format!("reading Node {name}"), error))?;
    Ok((name.to_owned(), found))
}

/// What the caches know, as core reads it.
pub fn observed(view: &View) -> Observed {
    let snapshot = &view.snapshot;
    let unreadable = |kind: &str, objects: &BTreeMap<String, String>| -> Vec<Unparsable> {
        let objects = objects.iter().map(|(name, message)| Unparsable {
            kind: kind.to_owned(),
            name: name.clone(),
            message: message.clone(),
        });
        objects.collect()
    };
    Observed {
        machines: snapshot.machines.clone().unwrap_or_default(),
        nodes: snapshot.nodes.clone().unwrap_or_default().into_values().collect(),
        infrastructure: snapshot.infrastructure.clone(),
        etcd: snapshot
            .cluster_operators
            .as_ref()
            .and_then(|operators| operators.get(cluster_operator::ETCD))
            .cloned(),
        unparsable: unreadable("Machine", &view.unreadable_machines),
        ..Observed::default()
    }
}

//! The live read behind a plan: what no cache answers, right before a write.

use capstan_core::api::config_openshift_io::cluster_operator::{self, ClusterOperator};
use capstan_core::api::core_v1::node::{CONTROL_PLANE_LABEL, MASTER_LABEL, Node};
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{self, ControlPlaneMachineSet, NAME};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::model::NamespacedName;
use futures::future::try_join_all;

use crate::controllers::observed::serves_cluster_operators;
use crate::runtime::{Cluster, StepError, View, WatchedObject};

/// A view with the set, all machines of the namespace and the operator of etcd as they are now, and
/// with everything else as the caches have it.
///
/// `decisive` is given before a machine is created or deleted. Then the nodes of the control plane
/// are read too, and the nodes of these names: a node without a machine stops a rollout, also while
/// the caches do not show the node.
pub(in crate::controllers) async fn read(
    cluster: &impl Cluster,
    namespace: &str,
    view: &View,
    decisive: Option<&[String]>,
) -> Result<View, StepError> {
    // The set is read first. What another leader creates after this changes the version with which
    // a creation is recorded, and what it created before is in the answers below.
    let set = cluster.get::<ControlPlaneMachineSet>(&kinds::CONTROL_PLANE_MACHINE_SETS, namespace, NAME);
    let kind = control_plane_machine_set::KIND;
    let set = set
        .await
        .map_err(|error| StepError::new(format!("reading {kind} {NAME}"), error))?;
    let machines = async {
        let found = cluster.list::<Machine>(&kinds::MACHINES, namespace, &[]).await;
        found.map_err(|error| StepError::new("listing Machines", error))
    };
    let named = decisive.unwrap_or_default().iter().map(|name| node(cluster, name));
    let (machines, control_plane, named, etcd) = tokio::try_join!(
        machines,
        control_plane_nodes(cluster, decisive.is_some()),
        try_join_all(named),
        etcd(cluster, serves_cluster_operators(&view.objects)),
    )?;
    let mut live = view.clone();
    live.put(
        &kinds::CONTROL_PLANE_MACHINE_SETS,
        &NamespacedName::new(namespace, NAME),
        set,
    );
    live.replace(&kinds::MACHINES, machines);
    if let Some(control_plane) = control_plane {
        live.retain::<Node>(&kinds::NODES, |node| !node.is_control_plane());
        for node in control_plane {
            let key = NamespacedName::new("", node.name());
            live.put(&kinds::NODES, &key, Some(node));
        }
    }
    for (name, node) in named {
        live.put(&kinds::NODES, &NamespacedName::new("", name), node);
    }
    if let Some(etcd) = etcd {
        let key = NamespacedName::new("", cluster_operator::ETCD);
        live.put(&kinds::CLUSTER_OPERATORS, &key, Some(etcd));
    }
    Ok(live)
}

async fn control_plane_nodes(
    cluster: &impl Cluster,
    wanted: bool,
) -> Result<Option<Vec<WatchedObject<Node>>>, StepError> {
    if !wanted {
        return Ok(None);
    }
    let found = cluster.list::<Node>(&kinds::NODES, "", &[CONTROL_PLANE_LABEL, MASTER_LABEL]);
    found
        .await
        .map(Some)
        .map_err(|error| StepError::new("listing Nodes of the control plane", error))
}

/// The operator of etcd, where its kind is served.
async fn etcd(cluster: &impl Cluster, served: bool) -> Result<Option<WatchedObject<ClusterOperator>>, StepError> {
    if !served {
        return Ok(None);
    }
    let found = cluster.get::<ClusterOperator>(&kinds::CLUSTER_OPERATORS, "", cluster_operator::ETCD);
    found
        .await
        .map_err(|error| StepError::new("reading ClusterOperator etcd", error))
}

async fn node<'n>(cluster: &impl Cluster, name: &'n str) -> Result<(&'n str, Option<WatchedObject<Node>>), StepError> {
    let found = cluster.get::<Node>(&kinds::NODES, "", name).await;
    let found = found.map_err(|error| StepError::new(format!("reading Node {name}"), error))?;
    Ok((name, found))
}

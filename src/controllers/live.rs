//! Reads that no cache answers: what a plan is checked against right before it is acted upon.

use std::collections::BTreeMap;

use capstan_core::api::config_openshift_io::cluster_operator::{self, ClusterOperator};
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::state::{Observed, Unparsable};
use futures::future::try_join_all;
use kube::api::ListParams;
use kube::{Api, Client};

use super::caches::View;
use super::kind::Kind;
use super::object::{Cacheable, Seen};
use super::trouble::Trouble;

/// Reads the set, its machines and some nodes at one moment.
#[derive(Debug)]
pub(super) struct Live {
    machines: Api<Seen<Machine>>,
    sets: Api<Seen<ControlPlaneMachineSet>>,
    nodes: Api<Seen<Node>>,
    etcd: Api<Seen<ClusterOperator>>,
}

/// The set as it is: `None` if there is none, an error text if it cannot be read.
pub(super) type SetNow = Option<Result<ControlPlaneMachineSet, String>>;

impl Live {
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            machines: Kind::machines(namespace).api(client.clone()),
            sets: Kind::control_plane_machine_sets(namespace).api(client.clone()),
            nodes: Kind::nodes().api(client.clone()),
            etcd: Kind::cluster_operator(cluster_operator::ETCD).api(client.clone()),
        }
    }

    /// The set, all machines of the namespace, these nodes, and etcd's operator as they are now; the rest as the caches
    /// have it.
    pub(super) async fn read(&self, view: &View, nodes: &[String]) -> Result<(SetNow, Observed), Trouble> {
        let (set, machines, nodes, etcd) = tokio::try_join!(
            one(&self.sets, NAME, "ControlPlaneMachineSet"),
            list(&self.machines),
            try_join_all(nodes.iter().map(|name| async move {
                let node = one(&self.nodes, name, "Node").await?;
                Ok((name.clone(), node))
            })),
            self.etcd(view.serves_cluster_operators),
        )?;
        let mut observed = observed(view);
        observed.unparsable.retain(|object| object.kind != "Machine");
        observed.machines.clear();
        for seen in machines {
            match seen.content {
                Ok(machine) => observed.machines.push((*machine).clone()),
                Err(message) => observed.unparsable.push(Unparsable {
                    kind: "Machine".to_owned(),
                    name: seen.meta.name.unwrap_or_default(),
                    message,
                }),
            }
        }
        for (name, node) in nodes {
            observed.nodes.retain(|there| there.metadata.name() != name);
            // A node that cannot be read is a node that nobody knows to be ready.
            observed
                .nodes
                .extend(node.and_then(|node| node.content.ok()).map(|node| (*node).clone()));
        }
        if let Some(etcd) = etcd {
            observed.etcd = etcd.content.ok().map(|etcd| (*etcd).clone());
        }
        Ok((set.map(|set| set.content.map(|set| (*set).clone())), observed))
    }

    async fn etcd(&self, served: bool) -> Result<Option<Seen<ClusterOperator>>, Trouble> {
        if !served {
            return Ok(None);
        }
        one(&self.etcd, cluster_operator::ETCD, "ClusterOperator").await
    }
}

async fn one<T: Cacheable>(api: &Api<Seen<T>>, name: &str, kind: &str) -> Result<Option<Seen<T>>, Trouble> {
    let found = api.get_opt(name).await;
    found.map_err(|error| Trouble::new(format!("reading {kind} {name}"), error))
}

async fn list(api: &Api<Seen<Machine>>) -> Result<Vec<Seen<Machine>>, Trouble> {
    let found = api.list(&ListParams::default()).await;
    Ok(found.map_err(|error| Trouble::new("listing Machines", error))?.items)
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
    }
}

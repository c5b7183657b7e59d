//! Reads the objects of one MachinePool from a management cluster, for `capstan plan` and
//! `capstan status`. Nothing is written.
//!
//! The Nodes are read only if the provider has no infrastructure machines: the Machines report
//! theirs otherwise.

use anyhow::bail;
use capstan_core::api::kinds::{CLUSTER_API_CLUSTERS, CLUSTER_API_MACHINES, MACHINE_POOLS};
use kube::Client;

use super::super::cluster::CONNECT;
use super::super::cluster::Cluster;
use super::super::documents::Document;
use super::super::gather::list;
use super::super::managed_cluster::{Named, all_nodes, discover, get, note, resource};
use super::super::observe::runtime;
use crate::workload::ManagedCluster;

/// The objects that a plan of the pool needs.
///
/// # Errors
/// The management cluster cannot be reached, it refuses a request, or the pool does not exist.
pub(in crate::cli) fn objects(cluster: &Cluster, named: &Named) -> anyhow::Result<Vec<Document>> {
    runtime()?.block_on(async {
        let client = cluster.connect(CONNECT).await?.client;
        let (namespace, name) = (named.namespace(), named.name());
        let Some(pool) = get(&client, &resource(&MACHINE_POOLS), namespace, name).await? else {
            bail!("there must be a MachinePool {namespace}/{name} in the version v1beta2");
        };
        let owner = pool.text("/spec/clusterName").to_owned();
        let reference = ["apiGroup", "kind", "name"].map(|field| {
            let text = pool.text(&format!("/spec/template/spec/infrastructureRef/{field}"));
            text.to_owned()
        });
        let mut documents = vec![pool];
        let owner = get(&client, &resource(&CLUSTER_API_CLUSTERS), namespace, &owner).await?;
        documents.extend(owner.clone());
        documents.extend(list(&client, &resource(&CLUSTER_API_MACHINES), Some(namespace)).await?);
        let kind = infrastructure(&client, namespace, &reference, &mut documents).await?;
        if let (Some(owner), true) = (&owner, kind.is_empty()) {
            let managed = ManagedCluster {
                namespace: namespace.to_owned(),
                name: owner.text("/metadata/name").to_owned(),
                uid: owner.text("/metadata/uid").to_owned(),
            };
            match all_nodes(&client, &managed).await {
                Ok(nodes) => documents.extend(nodes),
                Err(error) => note(&format!("the Nodes are not known: {error}"))?,
            }
        }
        Ok(documents)
    })
}

/// Adds the infrastructure object and the infrastructure machines. Returns their kind, which is
/// empty if the provider has none.
async fn infrastructure(
    client: &Client,
    namespace: &str,
    reference: &[String; 3],
    documents: &mut Vec<Document>,
) -> anyhow::Result<String> {
    let [group, kind, name] = reference;
    let resource = discover(client, &[group.clone(), kind.clone()]).await?;
    let Some(found) = get(client, &resource, namespace, name).await? else {
        return Ok(String::new());
    };
    let machines = found.text("/status/infrastructureMachineKind").to_owned();
    documents.push(found);
    if !machines.is_empty() {
        let resource = discover(client, &[group.clone(), machines.clone()]).await?;
        documents.extend(list(client, &resource, Some(namespace)).await?);
    }
    Ok(machines)
}

//! Reads the objects of one KubeadmControlPlane from a management cluster, and the Nodes and etcd
//! members of the cluster that it manages, for `capstan plan` and `capstan status`. Nothing is
//! written.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use capstan_core::api::core_v1::node::CONTROL_PLANE_LABEL;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{
    CLUSTER_API_CLUSTERS, CLUSTER_API_MACHINES, KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES, MACHINE_POOLS, NODES,
};
use capstan_core::kcp::observed::{ETCD_MEMBERS, ETCD_MEMBERS_VERSION, Observed};
use capstan_core::model::is_subdomain;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::cluster::{CONNECT, Cluster};
use super::documents::Document;
use super::gather::list;
use super::kubeadm_control_plane;
use super::observe::runtime;
use super::output::plain;
use super::refusal::has_no_status;
use crate::runtime::served_kind;
use crate::workload::{ClusterReader as _, Connections, ManagedCluster, MembersReport, Settings};

/// The namespace and the name of an object in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    namespace: String,
    name: String,
}

impl Named {
    /// The namespace.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for Named {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if is_subdomain(namespace) && is_subdomain(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err("must be NAMESPACE/NAME, for example clusters/production"),
        }
    }
}

/// The objects that a plan of the control plane needs. Nodes and etcd members that do not respond
/// are left out with a note.
///
/// # Errors
/// The management cluster cannot be reached, it refuses a request, or the control plane does not
/// exist.
pub(super) fn objects(cluster: &Cluster, named: &Named) -> anyhow::Result<Vec<Document>> {
    runtime()?.block_on(async {
        let client = cluster.connect(CONNECT).await?.client;
        let mut documents = vec![control_plane(&client, named).await?];
        for kind in [
            &CLUSTER_API_CLUSTERS,
            &CLUSTER_API_MACHINES,
            &KUBEADM_CONFIGS,
            &MACHINE_POOLS,
        ] {
            documents.extend(list(&client, &resource(kind), Some(&named.namespace)).await?);
        }
        let observed = kubeadm_control_plane::observed(&documents)?;
        let Some(owner) = &observed.cluster else {
            return Ok(documents);
        };
        documents.extend(infrastructure(&client, named, owner.metadata.name(), &documents).await?);
        let managed = ManagedCluster {
            namespace: named.namespace.clone(),
            name: owner.metadata.name().to_owned(),
            uid: owner.metadata.uid().to_owned(),
        };
        let connections = Connections::new(&client, Settings::default());
        match nodes(&connections, &managed, CONTROL_PLANE_LABEL).await {
            Ok(nodes) => documents.extend(nodes),
            Err(error) => {
                note(&format!("the Nodes are not known: {error}"))?;
                return Ok(documents);
            }
        }
        if has_managed_etcd(&observed) {
            match members(&connections, &managed).await {
                Ok(report) => documents.push(document(&format!("cluster {managed}"), etcd_members(&report))),
                Err(error) => note(&format!("the etcd members are not known: {error:#}"))?,
            }
        }
        Ok(documents)
    })
}

async fn control_plane(client: &Client, named: &Named) -> anyhow::Result<Document> {
    let Named { namespace, name } = named;
    match get(client, &resource(&KUBEADM_CONTROL_PLANES), namespace, name).await? {
        Some(found) => Ok(found),
        None => bail!("there must be a KubeadmControlPlane {namespace}/{name} in the version v1beta2"),
    }
}

/// The infrastructure machines of the Machines of a Cluster. A missing object is left out, as it is
/// in files.
async fn infrastructure(
    client: &Client,
    named: &Named,
    cluster: &str,
    documents: &[Document],
) -> anyhow::Result<Vec<Document>> {
    let machines = documents.iter().filter(|document| {
        let is_machine = document.key().0 == CLUSTER_API_MACHINES.kind;
        is_machine && document.text("/spec/clusterName") == cluster
    });
    let reference = |machine: &Document| {
        ["apiGroup", "kind", "name"].map(|field| machine.text(&format!("/spec/infrastructureRef/{field}")).to_owned())
    };
    let references: BTreeSet<[String; 3]> = machines.map(reference).collect();
    let mut found = Vec::new();
    let mut known: Option<([String; 2], ApiResource)> = None;
    // The references are in order, so that each kind is looked up once.
    for [group, kind, name] in references {
        if group.is_empty() || kind.is_empty() || name.is_empty() {
            continue;
        }
        let key = [group, kind];
        let resource = match known.take().filter(|(last, _)| *last == key) {
            Some((_, resource)) => resource,
            None => discover(client, &key).await?,
        };
        found.extend(get(client, &resource, &named.namespace, &name).await?);
        known = Some((key, resource));
    }
    Ok(found)
}

/// A served version of a kind.
pub(super) async fn discover(client: &Client, [group, kind]: &[String; 2]) -> anyhow::Result<ApiResource> {
    let served = kube::discovery::group(client, group).await;
    let served = served.with_context(|| format!("reading the kinds of the API group {group}"))?;
    match served_kind(&served, kind) {
        Some((resource, _)) => Ok(resource),
        None => bail!("the kind {kind} of the API group {group} must be served: an object refers to it"),
    }
}

pub(super) fn note(text: &str) -> anyhow::Result<()> {
    let written = std::io::stderr().write_all(format!("note: {}\n", plain(text)).as_bytes());
    written.context("writing the note")
}

/// Whether etcd runs on machines that exist.
fn has_managed_etcd(observed: &Observed) -> bool {
    let kubeadm = &observed.control_plane.spec.kubeadm_config_spec;
    !kubeadm.cluster_configuration.has_external_etcd() && !observed.machines.is_empty()
}

async fn members(connections: &Connections, managed: &ManagedCluster) -> anyhow::Result<MembersReport> {
    Ok(connections.etcd(managed).await?.report().await?)
}

/// All Nodes of a cluster.
///
/// # Errors
/// The cluster does not respond.
pub(super) async fn all_nodes(client: &Client, managed: &ManagedCluster) -> anyhow::Result<Vec<Document>> {
    nodes(&Connections::new(client, Settings::default()), managed, "").await
}

async fn nodes(connections: &Connections, managed: &ManagedCluster, selector: &str) -> anyhow::Result<Vec<Document>> {
    let nodes: Vec<Value> = connections.list(managed, &NODES, "", selector).await?;
    let with_kind = nodes.into_iter().map(|mut node| {
        // Items of a list have no apiVersion and kind of their own.
        if let Some(fields) = node.as_object_mut() {
            fields.insert(String::from("apiVersion"), json!(NODES.api_version()));
            fields.insert(String::from("kind"), json!(NODES.kind));
        }
        document(&format!("cluster {managed}"), node)
    });
    Ok(with_kind.collect())
}

pub(super) async fn get(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Option<Document>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let kind = &resource.kind;
    let found = api.get_opt(name).await;
    if let Err(kube::Error::Api(status)) = &found
        && status.code == 404
        && has_no_status(status)
    {
        bail!(
            "the cluster must serve the kind {kind} in the version {}; its CRD, or this version of it, is missing",
            resource.api_version
        );
    }
    let found = found.with_context(|| format!("reading {kind} {namespace}/{name}"))?;
    let Some(mut found) = found else { return Ok(None) };
    found.types = Some(TypeMeta {
        api_version: resource.api_version.clone(),
        kind: kind.clone(),
    });
    let object = serde_json::to_value(found).with_context(|| format!("reading {kind} {namespace}/{name}"))?;
    Ok(Some(document("the cluster", object)))
}

fn document(place: &str, object: Value) -> Document {
    Document {
        file: place.to_owned(),
        line: 0,
        object,
    }
}

pub(super) fn resource(kind: &KindInfo) -> ApiResource {
    let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    ApiResource::from_gvk_with_plural(&gvk, &kind.plural)
}

/// The members in the form in which a file contains them. A member that does not answer itself is
/// not healthy.
fn etcd_members(report: &MembersReport) -> Value {
    let members = report.survey.members.iter().map(|(member, alarms)| {
        let alarms: Vec<String> = alarms.iter().map(ToString::to_string).collect();
        let mut object = json!({"name": member.name, "learner": member.is_learner, "alarms": alarms});
        if report.silent.contains_key(&member.name)
            && let Some(fields) = object.as_object_mut()
        {
            fields.insert(String::from("healthy"), json!(false));
        }
        object
    });
    json!({
        "apiVersion": ETCD_MEMBERS_VERSION, "kind": ETCD_MEMBERS,
        "leader": report.leader().unwrap_or_default(), "members": members.collect::<Vec<Value>>(),
    })
}

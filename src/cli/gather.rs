//! Reads the objects that the offline commands need from a cluster, with one list request for each
//! kind and without caches.

use anyhow::Context as _;
use capstan_core::api::core_v1::config_map::{self, ETCD_ENDPOINTS, ETCD_NAMESPACE};
use capstan_core::api::machine_openshift_io::{control_plane, control_plane_machine_set};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};

use super::cluster::{CONNECT, Cluster};
use super::documents::{Document, note};
use super::installed;

/// The kinds that plans and rules need, and whether they are in the namespace of the Machine API.
const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    (
        "machine.openshift.io",
        "v1",
        "ControlPlaneMachineSet",
        "controlplanemachinesets",
        true,
    ),
    (
        "machine.openshift.io",
        "v1alpha1",
        "ControlPlane",
        "controlplanes",
        true,
    ),
    ("machine.openshift.io", "v1beta1", "Machine", "machines", true),
    ("machine.openshift.io", "v1beta1", "MachineSet", "machinesets", true),
    ("", "v1", "Node", "nodes", false),
    ("config.openshift.io", "v1", "Infrastructure", "infrastructures", false),
    (
        "config.openshift.io",
        "v1",
        "ClusterOperator",
        "clusteroperators",
        false,
    ),
    ("config.openshift.io", "v1", "FeatureGate", "featuregates", false),
];

/// The objects of a cluster. A kind that the cluster does not serve is skipped. With a
/// ControlPlane, these are also the etcd members that vote, as the etcd operator lists them.
///
/// # Errors
/// The cluster cannot be reached, or it refuses a list request.
pub fn objects(cluster: &Cluster, namespace: &str) -> anyhow::Result<Vec<Document>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let client = cluster.connect(CONNECT).await?.client;
        let mut objects = Vec::new();
        for (group, version, kind, plural, namespaced) in KINDS {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            let namespace = namespaced.then_some(namespace);
            match list(&client, &resource, namespace).await {
                // A reader of sets may lack this permission, also where the kind is not served.
                Err(error) if is_forbidden(&error) && *plural == control_plane::PLURAL => {
                    note("ControlPlanes are not read: the permission to list controlplanes is missing");
                }
                found => objects.extend(found?),
            }
        }
        if objects.iter().any(|object| object.key().0 == control_plane::KIND) {
            objects.extend(voters(&client).await?);
        }
        let manages = [control_plane_machine_set::KIND, control_plane::KIND];
        if !objects.iter().any(|object| manages.contains(&object.key().0))
            && let Some(why) = absence(&client, namespace).await
        {
            note(&why);
        }
        Ok(objects)
    })
}

/// The ConfigMap in which the etcd operator lists the members that vote, if there is one.
async fn voters(client: &Client) -> anyhow::Result<Option<Document>> {
    let named = installed::named("v1", config_map::KIND, ETCD_NAMESPACE, ETCD_ENDPOINTS);
    match installed::api(client, &named).get_opt(ETCD_ENDPOINTS).await {
        Ok(found) => found.map(|found| document(&found, config_map::KIND)).transpose(),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            note(&format!(
                "the etcd members that vote are not read: the permission to get ConfigMap {ETCD_ENDPOINTS} in \
                 {ETCD_NAMESPACE} is missing"
            ));
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("reading ConfigMap {ETCD_ENDPOINTS} in {ETCD_NAMESPACE}")),
    }
}

fn document(object: &DynamicObject, kind: &str) -> anyhow::Result<Document> {
    Ok(Document {
        file: String::from("the cluster"),
        line: 0,
        object: serde_json::to_value(object).with_context(|| format!("reading a {kind}"))?,
    })
}

/// Why a cluster has no ControlPlaneMachineSet: it does not serve the kind, or the namespace does
/// not exist. `None` if there is another reason, or if the cluster does not tell.
pub(super) async fn absence(client: &Client, namespace: &str) -> Option<String> {
    let (kind, plural) = (control_plane_machine_set::KIND, control_plane_machine_set::PLURAL);
    let is_served = match client
        .list_api_group_resources(control_plane_machine_set::API_VERSION)
        .await
    {
        Ok(list) => list.resources.iter().any(|resource| resource.name == plural),
        Err(kube::Error::Api(status)) if status.code == 404 => false,
        Err(_) => return None,
    };
    if !is_served {
        return Some(format!(
            "the cluster does not serve {kind}s: their CRD is missing; `capstan manifests crds | kubectl apply \
             --server-side -f -` installs it"
        ));
    }
    let found = installed::get(client, &installed::named("v1", "Namespace", "", namespace)).await;
    matches!(found, Ok(None))
        .then(|| format!("the namespace {namespace} does not exist; --namespace selects another one"))
}

/// Whether the API server refused a request for a lack of permission.
pub(super) fn is_forbidden(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == 403)
}

/// The objects of a kind; no objects if the cluster does not serve it.
///
/// # Errors
/// The cluster does not respond, or it refuses the request.
pub(super) async fn list(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<Document>> {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    };
    match api.list(&ListParams::default()).await {
        Ok(list) => list
            .items
            .into_iter()
            .map(|mut object| {
                // Items of a list have no apiVersion and kind of their own.
                object.types = Some(kube::api::TypeMeta {
                    api_version: resource.api_version.clone(),
                    kind: resource.kind.clone(),
                });
                document(&object, &resource.kind)
            })
            .collect(),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("listing {}", resource.plural)),
    }
}

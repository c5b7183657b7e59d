//! The page of a cluster: it follows every object that the page shows, and reads nothing else.
//!
//! The watches of `capstan status` are complete before the page is shown. The other watches may
//! lack permissions: what they do not read becomes a note on the page.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capstan_core::admission::Snapshot;
use capstan_core::api::cluster_x_k8s_io::label;
use capstan_core::api::config_openshift_io::cluster_operator::{ClusterOperator, ETCD};
use capstan_core::api::core_v1::config_map::{ConfigMap, ETCD_ENDPOINTS, ETCD_NAMESPACE};
use capstan_core::api::kind::{KindInfo, Scope};
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::control_plane as scaled;
use capstan_core::api::meta::ObjectMeta;
use capstan_core::api::objects::CachedObject;
use capstan_core::authority::spec::{Api, PairMember};
use capstan_core::cpms::etcd::voters;
use capstan_core::kcp::observed::is_control_plane;
use capstan_core::pool::observed::is_pool;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::mirrored::{MACHINE, Pairs};
use super::outage::Watched;
use super::{
    Machinepools, Page, etcd_operator, events, kubeadm_control_planes, machine_pools, of_view, scaled_control_plane,
};
use crate::cli::documents::{self, Document};
use crate::cli::observe::ObservedCluster;
use crate::controllers::{Caches, control_plane_machine_sets, snapshot};
use crate::dashboard::{Content, Mirrored};
use crate::runtime::{Caches as RuntimeCaches, View, Watch, served_kind};

/// How long the first page waits for the watches that may lack permissions.
const FIRST_READ: Duration = Duration::from_secs(5);

static EVENTS: KindInfo = KindInfo::namespaced("", "v1", "Event", "events");

/// An object as it is stored.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
struct Stored(Value);

impl CachedObject for Stored {
    fn metadata(&self) -> Option<&ObjectMeta> {
        None
    }
}

/// Some watches, and what they read.
pub(in crate::cli) struct Followed {
    caches: Arc<RuntimeCaches>,
    views: watch::Receiver<Arc<View>>,
    /// The kinds whose objects are kept as they are stored.
    stored: Vec<KindInfo>,
}

impl Followed {
    fn start(client: &kube::Client, stored: &[&KindInfo], namespace: &str, more: &[Watch]) -> Self {
        let watches = stored.iter().map(|kind| Watch::of::<Stored>(kind).within(namespace));
        let watches: Vec<Watch> = watches.chain(more.iter().cloned()).collect();
        let caches = RuntimeCaches::start(client, &watches);
        Self {
            views: caches.views(),
            caches,
            stored: stored.iter().map(|kind| (*kind).clone()).collect(),
        }
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.views.borrow())
    }

    /// The objects that are kept as they are stored.
    fn documents(&self) -> Vec<Document> {
        let view = self.view();
        let mut documents = Vec::new();
        for kind in &self.stored {
            for stored in view.objects.all::<Stored>(kind).into_iter().flatten() {
                let mut object = stored.0.clone();
                // Items of a list have no apiVersion and kind of their own.
                if let Some(fields) = object.as_object_mut() {
                    fields.insert(String::from("apiVersion"), json!(kind.api_version()));
                    fields.insert(String::from("kind"), json!(kind.kind));
                }
                documents.push(Document {
                    file: String::from("the cluster"),
                    line: 0,
                    object,
                });
            }
        }
        documents
    }

    async fn first(&self) {
        let mut views = self.views.clone();
        let synced = views.wait_for(|view| view.synced);
        // What is missing after this time becomes a note.
        let _late = tokio::time::timeout(FIRST_READ, synced).await;
    }
}

fn is_scaled(document: &Document) -> bool {
    document.key().0 == scaled::KIND
}

/// A cluster that is followed.
pub(in crate::cli) struct Live {
    cluster: ObservedCluster,
    client: kube::Client,
    _caches: Arc<Caches>,
    views: watch::Receiver<Arc<View>>,
    machine_api: Followed,
    cluster_api: Followed,
    /// The list of the etcd members that vote, if there was a ControlPlane at the start.
    voters: Option<Followed>,
    infrastructure: Mutex<Vec<Infrastructure>>,
    outage: Watched,
}

/// A kind of infrastructure machines that was looked up.
struct Infrastructure {
    group: String,
    kind: String,
    /// `None` if the cluster does not serve the kind.
    followed: Option<Arc<Followed>>,
}

/// The group and the kind of a reference to infrastructure.
fn reference(reference: &Value) -> Option<(String, String)> {
    let text = |field: &str| Some(reference.get(field)?.as_str()?.to_owned());
    Some((text("apiGroup")?, text("kind")?))
}

impl Live {
    /// Follows a cluster, and waits for its first state.
    ///
    /// # Errors
    /// The cluster cannot be reached, or the watches of `capstan status` cannot be read.
    pub(in crate::cli) async fn start(cluster: &ObservedCluster) -> anyhow::Result<Self> {
        let (caches, views) = cluster.watch().await?;
        let client = cluster.connection().client().await?;
        let config = cluster.scope().options().authority;
        let (home, other) = (config.namespace(Api::MachineApi), config.namespace(Api::ClusterApi));
        let members = Watch::of::<PairMember>(&kinds::MACHINES).within(home);
        let stored = [
            &kinds::MACHINE_SETS,
            &kinds::MACHINE_HEALTH_CHECKS,
            &kinds::CONTROL_PLANES,
            &EVENTS,
        ];
        let machine_api = Followed::start(&client, &stored, home, &[members]);
        let mut stored = vec![
            &kinds::CLUSTER_API_MACHINES,
            &kinds::CLUSTER_API_MACHINE_SETS,
            &kinds::CLUSTER_API_MACHINE_HEALTH_CHECKS,
            &kinds::CLUSTER_API_CLUSTERS,
            &kinds::KUBEADM_CONTROL_PLANES,
            &kinds::KUBEADM_CONFIGS,
            &kinds::MACHINE_POOLS,
        ];
        if home != other {
            stored.push(&EVENTS);
        }
        let cluster_api = Followed::start(&client, &stored, other, &[]);
        machine_api.first().await;
        cluster_api.first().await;
        let has_scaled = machine_api.documents().iter().any(is_scaled);
        let listed = || Watch::of::<ConfigMap>(&kinds::CONFIG_MAPS).named(&[ETCD_ENDPOINTS]);
        let voters = has_scaled.then(|| Followed::start(&client, &[], home, &[listed().within(ETCD_NAMESPACE)]));
        if let Some(voters) = &voters {
            voters.first().await;
        }
        let live = Self {
            cluster: cluster.clone(),
            outage: Watched::start(&client),
            client,
            _caches: caches,
            views,
            machine_api,
            cluster_api,
            voters,
            infrastructure: Mutex::default(),
        };
        // The infrastructure of a MachinePool names the kind of its machines.
        loop {
            let new = live.follow_infrastructure().await;
            if new.is_empty() {
                return Ok(live);
            }
            for followed in new {
                followed.first().await;
            }
        }
    }

    /// Waits for a change in the cluster; returns false after the watches ended. It does not wait
    /// for changes of infrastructure machines.
    pub(in crate::cli) async fn changed(&mut self) -> bool {
        let changed = tokio::select! {
            changed = self.views.changed() => changed,
            changed = self.machine_api.views.changed() => changed,
            changed = self.cluster_api.views.changed() => changed,
            changed = self.outage.changed() => changed,
        };
        changed.is_ok()
    }

    /// Starts to follow the kinds of infrastructure that control planes and MachinePools refer to.
    /// Returns the new ones. A kind that the cluster does not serve stays unknown.
    pub(in crate::cli) async fn follow_infrastructure(&self) -> Vec<Arc<Followed>> {
        let config = self.cluster.scope().options().authority;
        let mut new = Vec::new();
        for (group, kind) in self.infrastructure_kinds() {
            let resource = match kube::discovery::group(&self.client, &group).await {
                Ok(served) => served_kind(&served, &kind),
                Err(kube::Error::Discovery(_)) => None,
                // The API server does not answer now. The kind is looked up again later.
                Err(_) => continue,
            };
            let followed = resource.map(|(resource, _)| {
                let info = KindInfo {
                    group: Cow::Owned(resource.group),
                    version: Cow::Owned(resource.version),
                    kind: Cow::Owned(resource.kind),
                    plural: Cow::Owned(resource.plural),
                    scope: Scope::Namespaced,
                };
                let namespace = config.namespace(Api::ClusterApi);
                Arc::new(Followed::start(&self.client, &[&info], namespace, &[]))
            });
            new.extend(followed.clone());
            let mut known = self.infrastructure.lock().unwrap_or_else(PoisonError::into_inner);
            known.push(Infrastructure { group, kind, followed });
        }
        new
    }

    /// The kinds of infrastructure that were not looked up yet.
    fn infrastructure_kinds(&self) -> BTreeSet<(String, String)> {
        let view = self.cluster_api.view();
        let machines = view.objects.all::<Stored>(&kinds::CLUSTER_API_MACHINES);
        let pools = view.objects.all::<Stored>(&kinds::MACHINE_POOLS);
        let of_machines = machines.into_iter().flatten().filter_map(|machine| {
            let labels = machine.0.pointer("/metadata/labels")?;
            labels
                .get(label::CONTROL_PLANE)
                .or_else(|| labels.get(label::POOL_NAME))?;
            reference(machine.0.pointer("/spec/infrastructureRef")?)
        });
        let of_pools = pools
            .into_iter()
            .flatten()
            .filter_map(|pool| reference(pool.0.pointer("/spec/template/spec/infrastructureRef")?));
        let mut wanted: BTreeSet<(String, String)> = of_machines.chain(of_pools).collect();
        let known = self.infrastructure.lock().unwrap_or_else(PoisonError::into_inner);
        for of_pool in known.iter() {
            let objects = of_pool.followed.iter().flat_map(|followed| followed.documents());
            let kinds = objects.filter_map(|object| {
                let kind = object.object.pointer("/status/infrastructureMachineKind")?.as_str()?;
                Some((of_pool.group.clone(), kind.to_owned()))
            });
            wanted.extend(kinds);
        }
        for looked_up in known.iter() {
            wanted.remove(&(looked_up.group.clone(), looked_up.kind.clone()));
        }
        wanted
    }

    /// The objects that the other commands do not read, as they are stored.
    pub(in crate::cli) fn documents(&self) -> Vec<Document> {
        let mut documents = self.machine_api.documents();
        documents.extend(self.cluster_api.documents());
        let known = self.infrastructure.lock().unwrap_or_else(PoisonError::into_inner);
        for followed in known.iter().filter_map(|kind| kind.followed.as_ref()) {
            documents.extend(followed.documents());
        }
        documents
    }

    /// The addresses of the etcd members that vote, if their list could be read.
    fn listed_voters(&self) -> Option<BTreeSet<IpAddr>> {
        let view = self.voters.as_ref()?.view();
        let list = view
            .objects
            .get::<ConfigMap>(&kinds::CONFIG_MAPS, ETCD_NAMESPACE, ETCD_ENDPOINTS);
        list.map(|list| voters(list))
    }

    /// The page of the cluster as it is now.
    ///
    /// # Errors
    /// No control plane can be shown.
    pub(in crate::cli) fn content(&self, now: Timestamp) -> anyhow::Result<Content> {
        let view = Arc::clone(&self.views.borrow());
        let documents = self.documents();
        let mut page = Page::default();
        page.content.mirrored = self.mirrored(&documents);
        page.content.events = events::of_objects(documents.iter().map(|document| &document.object));
        for caches in [&self.machine_api.caches, &self.cluster_api.caches] {
            page.content.notes.extend(caches.synced().err());
        }
        page.content.outdated = self.outage.note();
        let has_other = documents
            .iter()
            .any(|document| is_scaled(document) || is_control_plane(&document.object) || is_pool(&document.object));
        let (sets, undecodable) = control_plane_machine_sets(&view);
        let operators = view.objects.get::<ClusterOperator>(&kinds::CLUSTER_OPERATORS, "", ETCD);
        if sets.is_empty() && undecodable.is_none() && !has_other && !page.has_content() {
            page.content.empty = Some(self.why_empty());
        }
        if !sets.is_empty() || undecodable.is_some() {
            page.add(of_view(&self.cluster, &view, now).map(|mut report| {
                report.etcd_operator = etcd_operator(operators);
                report
            }));
        }
        let scaled: Vec<Document> = documents
            .iter()
            .filter(|document| is_scaled(document))
            .cloned()
            .collect();
        if !scaled.is_empty() {
            let around = documents::snapshot(&scaled).map(|own| Snapshot {
                control_planes: own.control_planes,
                ..snapshot(&view.objects)
            });
            page.add(around.and_then(|around| scaled_control_plane(&around, self.listed_voters(), &self.cluster)));
        }
        for report in kubeadm_control_planes(&documents, now) {
            page.add(report);
        }
        for report in machine_pools(&documents, Machinepools::default(), now) {
            page.add(report);
        }
        page.finish()
    }

    /// What a user sees in a cluster without control planes, or without their CRDs.
    fn why_empty(&self) -> String {
        let config = self.cluster.scope().options().authority;
        let (home, other) = (config.namespace(Api::MachineApi), config.namespace(Api::ClusterApi));
        format!(
            "The cluster answers. It has no ControlPlaneMachineSet or ControlPlane in the namespace {home}, and no \
             KubeadmControlPlane or MachinePool in the namespace {other}. The page shows them as soon as they exist. If \
             you expected one, check the context and the namespaces. The command capstan generate prints a \
             ControlPlaneMachineSet for machines that exist."
        )
    }

    /// The objects of both APIs.
    fn mirrored(&self, documents: &[Document]) -> Vec<Mirrored> {
        let mut pairs = Pairs::of_documents(documents, &self.cluster.scope().options().authority);
        let view = self.machine_api.view();
        for member in view.objects.all::<PairMember>(&kinds::MACHINES).into_iter().flatten() {
            pairs.add(Api::MachineApi, MACHINE, PairMember::clone(member));
        }
        pairs.shown()
    }
}

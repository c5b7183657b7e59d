//! The caches that admission and the controllers share: which kinds are watched, from the kind
//! table, and the snapshot that rules look things up in.
//!
//! Admission reads the snapshot without a lock and without a call to the API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use capstan_core::admission::{Snapshot, Source};
use capstan_core::api::cluster_x_k8s_io;
use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::config_openshift_io::feature_gate::FeatureGate;
use capstan_core::api::config_openshift_io::infrastructure::Infrastructure;
use capstan_core::api::core_v1::config_map::{ConfigMap, ETCD_NAMESPACE};
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{self, Home, KindEntry, Reader};
use capstan_core::api::machine_openshift_io::control_plane::ControlPlane;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::machine_openshift_io::machine_health_check::MachineHealthCheck;
use capstan_core::api::machine_openshift_io::machine_set::MachineSet;
use capstan_core::api::objects::{CachedObject, Index, Objects};
use capstan_core::authority::spec::{Api, Kind, PairMember};
use capstan_core::authority::state::Mirrors;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::observed::{etcd, feature_gate, infrastructure};
use crate::runtime::{Caches as RuntimeCaches, Subscription, View, Watch};

/// Watches the cluster in the background until it is dropped.
#[derive(Debug)]
pub struct Caches {
    caches: Arc<RuntimeCaches>,
    snapshot: Arc<ArcSwap<Snapshot>>,
    stop: CancellationToken,
}

/// What these parts of Capstan watch. `namespace` is that of the Machine API, and `cluster_api`
/// that of Cluster API.
pub fn watches(readers: &[Reader], namespace: &str, cluster_api: &str) -> Vec<Watch> {
    let entries: Vec<KindEntry> = kinds::all().collect();
    let is_read_whole = |entry: &&KindEntry| {
        let mut whole = readers.iter().filter(|reader| **reader != Reader::Guards);
        whole.any(|reader| entry.is_read_by(*reader))
    };
    let mut watches: Vec<Watch> = entries
        .iter()
        .filter(is_read_whole)
        .filter_map(|entry| Some(within(as_wire_type(entry)?, entry, namespace, cluster_api)))
        .collect();
    if readers.contains(&Reader::Guards) {
        let guarded = entries.iter().filter(|entry| entry.is_read_by(Reader::Guards));
        watches.extend(guarded.map(|entry| {
            let watch = Watch::of::<PairMember>(&entry.kind);
            within(watch, entry, namespace, cluster_api)
        }));
    }
    watches
}

/// What the controllers watch for the machines of `namespace`.
pub(super) fn controller_watches(namespace: &str) -> Vec<Watch> {
    watches_of(Reader::Controllers, namespace)
}

/// What these controllers of the Machine API watch.
pub(super) fn watches_of(controllers: Reader, namespace: &str) -> Vec<Watch> {
    // They watch no kind of Cluster API, so its namespace does not matter.
    watches(&[controllers], namespace, cluster_x_k8s_io::NAMESPACE)
}

/// Makes a watch of a line of the kind table.
type AsWatch = fn(&KindEntry) -> Watch;

/// A watch that keeps the objects of a kind as its wire type.
fn as_wire_type(entry: &KindEntry) -> Option<Watch> {
    fn of<T: CachedObject>(entry: &KindEntry) -> Watch {
        Watch::of::<T>(&entry.kind).named(entry.names)
    }
    let types: [(&KindInfo, AsWatch); 10] = [
        (&kinds::MACHINES, of::<Machine>),
        (&kinds::MACHINE_SETS, of::<MachineSet>),
        (&kinds::MACHINE_HEALTH_CHECKS, of::<MachineHealthCheck>),
        (&kinds::CONTROL_PLANE_MACHINE_SETS, of::<ControlPlaneMachineSet>),
        (&kinds::CONTROL_PLANES, of::<ControlPlane>),
        (&kinds::NODES, of::<Node>),
        (&kinds::INFRASTRUCTURES, of::<Infrastructure>),
        (&kinds::FEATURE_GATES, of::<FeatureGate>),
        (&kinds::CLUSTER_OPERATORS, of::<ClusterOperator>),
        (&kinds::CONFIG_MAPS, of::<ConfigMap>),
    ];
    let (_, watch) = types.into_iter().find(|(kind, _)| **kind == *entry.kind)?;
    Some(watch(entry))
}

/// The watch in the namespace of the kind.
pub(super) fn within(watch: Watch, entry: &KindEntry, machine_api: &str, cluster_api: &str) -> Watch {
    match entry.home {
        Home::MachineApi => watch.within(machine_api),
        Home::ClusterApi => watch.within(cluster_api),
        Home::Etcd => watch.within(ETCD_NAMESPACE),
        Home::Cluster => watch,
    }
}

impl Caches {
    /// Watches what the controllers read for the machines of `namespace`.
    pub fn start(client: &kube::Client, namespace: &str) -> Arc<Self> {
        Self::start_for(&[Reader::Controllers], client, namespace, cluster_x_k8s_io::NAMESPACE)
    }

    /// Watches what these parts of Capstan read. `namespace` is that of the Machine API, and
    /// `cluster_api` that of Cluster API.
    pub fn start_for(readers: &[Reader], client: &kube::Client, namespace: &str, cluster_api: &str) -> Arc<Self> {
        let caches = RuntimeCaches::start(client, &watches(readers, namespace, cluster_api));
        let empty = Snapshot {
            source: Source::Cluster,
            ..Snapshot::default()
        };
        let (snapshot, stop) = (Arc::new(ArcSwap::from_pointee(empty)), CancellationToken::new());
        let publishing = publish(caches.views(), Arc::clone(&snapshot), readers.contains(&Reader::Guards));
        tokio::spawn(stop.clone().run_until_cancelled_owned(publishing));
        Arc::new(Self { caches, snapshot, stop })
    }

    /// What rules look up: no lock, no call.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The newest view, and every later one.
    pub fn views(&self) -> watch::Receiver<Arc<View>> {
        self.caches.views()
    }

    /// Every changed object from now on.
    pub fn subscribe(&self) -> Subscription {
        self.caches.subscribe()
    }

    /// Whether every kind was read once, or is known not to be served.
    ///
    /// # Errors
    /// What is missing, for the person who reads `/readyz`.
    pub fn synced(&self) -> Result<(), String> {
        self.caches.synced()
    }
}

impl Drop for Caches {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Keeps the snapshot as the newest view is.
async fn publish(mut views: watch::Receiver<Arc<View>>, published: Arc<ArcSwap<Snapshot>>, mirrored: bool) {
    let indexes = MirrorIndexes::default();
    loop {
        let view = Arc::clone(&views.borrow_and_update());
        let mut next = snapshot(&view.objects);
        if mirrored {
            next.mirrors = indexes.mirrors(&view.objects);
        }
        published.store(Arc::new(next));
        if views.changed().await.is_err() {
            return;
        }
    }
}

/// What rules look up in a view, without the objects that exist in both APIs.
pub fn snapshot(objects: &Objects) -> Snapshot {
    let operators = objects.of::<ClusterOperator>(&kinds::CLUSTER_OPERATORS).map(|known| {
        let decoded = known
            .objects
            .iter()
            .map(|(key, one)| (key.name.clone(), Arc::clone(one)));
        let mut all: BTreeMap<String, Arc<ClusterOperator>> = decoded.collect();
        if let Some(etcd) = etcd(objects) {
            all.insert(
                capstan_core::api::config_openshift_io::cluster_operator::ETCD.to_owned(),
                etcd,
            );
        }
        all
    });
    let nodes = objects.of::<Node>(&kinds::NODES).map(|known| {
        let nodes = known.objects.iter();
        nodes.map(|(key, node)| (key.name.clone(), Arc::clone(node))).collect()
    });
    Snapshot {
        source: Source::Cluster,
        machines: all(objects, &kinds::MACHINES),
        nodes,
        infrastructure: infrastructure(objects).cloned(),
        feature_gate: feature_gate(objects).cloned(),
        cluster_operators: operators,
        control_plane_machine_sets: all(objects, &kinds::CONTROL_PLANE_MACHINE_SETS),
        control_planes: all(objects, &kinds::CONTROL_PLANES),
        ..Snapshot::default()
    }
}

fn all<T: CachedObject>(objects: &Objects, kind: &KindInfo) -> Option<Vec<Arc<T>>> {
    Some(objects.all::<T>(kind)?.cloned().collect())
}

/// The objects of both APIs by name, as the guards look them up. An index is made anew only when an
/// object of its kind changed.
#[derive(Debug, Default)]
struct MirrorIndexes {
    made: Mutex<BTreeMap<(String, String), Made>>,
}

type ByName = capstan_core::authority::state::Index;
type Made = (Arc<Index<PairMember>>, ByName);

impl MirrorIndexes {
    fn index(&self, objects: &Objects, kind: &KindInfo) -> Option<ByName> {
        let known = &objects.of::<PairMember>(kind)?.objects;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind.group.to_string(), kind.kind.to_string());
        if let Some((from, index)) = made.get(&key)
            && Arc::ptr_eq(from, known)
        {
            return Some(Arc::clone(index));
        }
        let names = known.iter().map(|(key, member)| (key.name.clone(), Arc::clone(member)));
        let index: ByName = Arc::new(names.collect());
        made.insert(key, (Arc::clone(known), Arc::clone(&index)));
        Some(index)
    }

    fn mirrors(&self, objects: &Objects) -> Mirrors {
        let mut mirrors = Mirrors::default();
        let pairs = [
            (Api::MachineApi, Kind::Machine, &kinds::MACHINES),
            (Api::MachineApi, Kind::MachineSet, &kinds::MACHINE_SETS),
            (Api::MachineApi, Kind::MachineHealthCheck, &kinds::MACHINE_HEALTH_CHECKS),
            (Api::ClusterApi, Kind::Machine, &kinds::CLUSTER_API_MACHINES),
            (Api::ClusterApi, Kind::MachineSet, &kinds::CLUSTER_API_MACHINE_SETS),
            (
                Api::ClusterApi,
                Kind::MachineHealthCheck,
                &kinds::CLUSTER_API_MACHINE_HEALTH_CHECKS,
            ),
        ];
        for (api, of, kind) in pairs {
            *mirrors.of_mut(api).slot(of) = self.index(objects, kind);
        }
        let known: Vec<&str> = kinds::KINDS.iter().map(|entry| entry.kind.group.as_ref()).collect();
        for entry in kinds::all().filter(|entry| !known.contains(&entry.kind.group.as_ref())) {
            if let Some(index) = self.index(objects, &entry.kind) {
                mirrors.infrastructure.insert(entry.kind.kind.to_string(), index);
            }
        }
        mirrors
    }
}

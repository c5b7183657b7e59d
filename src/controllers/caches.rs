//! The caches that admission and the controllers share: one store a kind, and one picture of them all.
//!
//! Admission reads the [`Snapshot`] without a lock and without a call. The picture is made anew after every change, or
//! after several that came together; what has not been read yet is `None` in it, and never guessed.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use capstan_core::admission::{Snapshot, Source};
use capstan_core::api::config_openshift_io::cluster_operator::{self, ClusterOperator};
use capstan_core::api::config_openshift_io::feature_gate::{self, FeatureGate};
use capstan_core::api::config_openshift_io::infrastructure::{self, Infrastructure};
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::machine_openshift_io::machine_set::MachineSet;
use capstan_core::authority::spec::PairMember;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::follow::follow;
use super::kind::Kind;
use super::mirrors::MirrorStores;
use super::object::Cacheable;
use super::store::{Contents, Store};

/// The cluster at one moment: what admission looks up, and what only the controllers need.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// What rules look up.
    pub snapshot: Arc<Snapshot>,
    /// The MachineSets of the namespace; `None` is unknown.
    pub machine_sets: Option<Vec<Arc<MachineSet>>>,
    /// Machines that cannot be read, by name, with the reason.
    pub unreadable_machines: BTreeMap<String, String>,
    /// ControlPlaneMachineSets that cannot be read, by name, with the reason.
    pub unreadable_sets: BTreeMap<String, String>,
    /// Whether the cluster serves ClusterOperators; false also while that is unknown.
    pub serves_cluster_operators: bool,
    /// Whether everything was read once, or is known not to be served.
    pub known: bool,
}

/// Watches the cluster in the background until it is dropped.
#[derive(Debug)]
pub struct Caches {
    stores: Stores,
    snapshot: ArcSwap<Snapshot>,
    view: watch::Sender<Arc<View>>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Stores {
    machines: Arc<Store<Machine>>,
    machine_sets: Arc<Store<MachineSet>>,
    sets: Arc<Store<ControlPlaneMachineSet>>,
    nodes: Arc<Store<Node>>,
    infrastructure: Arc<Store<Infrastructure>>,
    feature_gate: Arc<Store<FeatureGate>>,
    etcd: Arc<Store<ClusterOperator>>,
    own: Arc<Store<ClusterOperator>>,
    mirrors: Option<MirrorStores>,
}

impl Caches {
    /// Starts to watch what belongs to the machines of `namespace`.
    pub fn start(client: &Client, namespace: &str) -> Arc<Self> {
        Self::start_with(client, namespace, None)
    }

    /// The same, and what exists in both APIs: the other half lives in `cluster_api`.
    pub fn start_mirrored(client: &Client, namespace: &str, cluster_api: &str) -> Arc<Self> {
        Self::start_with(client, namespace, Some(cluster_api))
    }

    fn start_with(client: &Client, namespace: &str, cluster_api: Option<&str>) -> Arc<Self> {
        let (sender, mut changes) = watch::channel(0_u64);
        let stop = CancellationToken::new();
        let watching = Watching {
            client,
            changed: sender,
            stop: stop.clone(),
        };
        let stores = Stores {
            machines: watching.start(Kind::machines(namespace)),
            machine_sets: watching.start(Kind::machine_sets(namespace)),
            sets: watching.start(Kind::control_plane_machine_sets(namespace)),
            nodes: watching.start(Kind::nodes()),
            infrastructure: watching.start(Kind::infrastructure()),
            feature_gate: watching.start(Kind::feature_gate()),
            etcd: watching.start(Kind::cluster_operator(cluster_operator::ETCD)),
            own: watching.start(Kind::cluster_operator(cluster_operator::NAME)),
            mirrors: cluster_api.map(|cluster_api| {
                MirrorStores::start(namespace, cluster_api, |kind| watching.start::<PairMember>(kind))
            }),
        };
        let empty = Snapshot {
            source: Source::Cluster,
            ..Snapshot::default()
        };
        let caches = Arc::new(Self {
            stores,
            snapshot: ArcSwap::from_pointee(empty),
            view: watch::Sender::default(),
            stop: stop.clone(),
        });
        let publishing = Arc::downgrade(&caches);
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            loop {
                // What comes while the picture is made is in the next one.
                changes.mark_unchanged();
                let Some(caches) = publishing.upgrade() else { return };
                caches.publish();
                drop(caches);
                if changes.changed().await.is_err() {
                    return;
                }
            }
        }));
        caches
    }

    /// The picture that rules look at: no lock, no call.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The picture, and word of every new one.
    pub fn views(&self) -> watch::Receiver<Arc<View>> {
        self.view.subscribe()
    }

    /// Whether every kind has been read once, or is known not to be served.
    ///
    /// # Errors
    /// What is missing, for the person who reads `/readyz`.
    pub fn synced(&self) -> Result<(), String> {
        let missing: Vec<String> = self
            .stores
            .synced()
            .into_iter()
            .filter_map(|(kind, state)| match state {
                Ok(()) => None,
                Err(None) => Some(kind.to_owned()),
                Err(Some(reason)) => Some(format!("{kind} ({reason})")),
            })
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("not read yet: {}", missing.join(", ")))
        }
    }

    fn publish(&self) {
        let view = Arc::new(self.stores.view());
        self.snapshot.store(Arc::clone(&view.snapshot));
        self.view.send_replace(view);
    }
}

impl Drop for Caches {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Watching<'a> {
    client: &'a Client,
    changed: watch::Sender<u64>,
    stop: CancellationToken,
}

impl Watching<'_> {
    fn start<T: Cacheable>(&self, kind: Kind) -> Arc<Store<T>> {
        let store = Arc::new(Store::new(self.changed.clone()));
        let following = follow(self.client.clone(), kind, Arc::clone(&store));
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(following));
        store
    }
}

impl Stores {
    fn synced(&self) -> Vec<(&'static str, Result<(), Option<String>>)> {
        let mut synced = vec![
            ("machines", self.machines.synced()),
            ("machinesets", self.machine_sets.synced()),
            ("controlplanemachinesets", self.sets.synced()),
            ("nodes", self.nodes.synced()),
            ("infrastructures", self.infrastructure.synced()),
            ("featuregates", self.feature_gate.synced()),
            ("clusteroperators etcd", self.etcd.synced()),
            ("clusteroperators control-plane-machine-set", self.own.synced()),
        ];
        synced.extend(self.mirrors.iter().flat_map(MirrorStores::synced));
        synced
    }

    fn view(&self) -> View {
        let machines = self.machines.contents();
        let sets = self.sets.contents();
        let operators = self.etcd.contents().zip(self.own.contents());
        let snapshot = Snapshot {
            source: Source::Cluster,
            machines: machines.as_ref().map(all),
            nodes: self.nodes.contents().map(|nodes| {
                let nodes = nodes.objects.iter();
                nodes.map(|(name, node)| (name.clone(), Arc::clone(node))).collect()
            }),
            infrastructure: one(&self.infrastructure, infrastructure::NAME),
            feature_gate: one(&self.feature_gate, feature_gate::NAME),
            cluster_operators: operators.as_ref().map(|(etcd, own)| {
                let own = own.objects.get(cluster_operator::NAME).cloned();
                let both = [(cluster_operator::ETCD, of_etcd(etcd)), (cluster_operator::NAME, own)];
                let known = both
                    .into_iter()
                    .filter_map(|(name, there)| Some((name.to_owned(), there?)));
                known.collect()
            }),
            control_plane_machine_sets: sets.as_ref().map(all),
            mirrors: self.mirrors.as_ref().map(MirrorStores::picture).unwrap_or_default(),
            ..Snapshot::default()
        };
        View {
            snapshot: Arc::new(snapshot),
            machine_sets: self.machine_sets.contents().as_ref().map(all),
            unreadable_machines: machines.map(|contents| contents.unreadable).unwrap_or_default(),
            unreadable_sets: sets.map(|contents| contents.unreadable).unwrap_or_default(),
            serves_cluster_operators: operators.is_some_and(|(_, own)| own.served),
            known: self.synced().iter().all(|(_, state)| state.is_ok()),
        }
    }
}

fn all<T>(contents: &Contents<T>) -> Vec<Arc<T>> {
    contents.objects.values().cloned().collect()
}

/// The operator of etcd. One that cannot be read says nothing, which is not the same as that all is well.
fn of_etcd(operators: &Contents<ClusterOperator>) -> Option<Arc<ClusterOperator>> {
    let name = cluster_operator::ETCD;
    let silent = || operators.unreadable.contains_key(name).then(Arc::default);
    operators.objects.get(name).cloned().or_else(silent)
}

fn one<T: PartialEq>(store: &Store<T>, name: &str) -> Option<Arc<T>> {
    store.contents()?.objects.get(name).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controllers::object::WatchedObject;

    #[test]
    fn an_operator_of_etcd_that_cannot_be_read_is_there_and_says_nothing() {
        let store: Store<ClusterOperator> = Store::new(watch::Sender::new(0));
        store.absent();
        assert_eq!(of_etcd(&store.contents().unwrap()), None);
        let etcd = json!({"metadata": {"name": "etcd"}, "status": {"conditions": "all is well"}});
        store.replace(vec![serde_json::from_value(etcd).unwrap()]);
        let there = of_etcd(&store.contents().unwrap()).unwrap();
        assert!(there.status.conditions.is_empty());
    }

    #[test]
    fn a_picture_shares_its_objects_with_the_store_and_with_the_picture_before() {
        let (sender, _changes) = watch::channel(0);
        let store: Store<Machine> = Store::new(sender);
        let seen = |name: &str| -> WatchedObject<Machine> {
            serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
        };
        store.replace(vec![seen("a"), seen("b")]);
        let before = all(&store.contents().unwrap());
        store.apply(seen("c"));
        let after = all(&store.contents().unwrap());
        assert_eq!((before.len(), after.len()), (2, 3));
        assert!(
            before
                .iter()
                .zip(&after)
                .all(|(before, after)| Arc::ptr_eq(before, after))
        );
    }
}

//! The Machines of a pool that lost a label, which the caches do not show.
//!
//! Only the mode `own` looks for them: a core manager restores the labels otherwise. A Machine is
//! one of them only if the pool controls it, whatever its name is. Nothing here writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capstan_core::api::cluster_x_k8s_io::control_plane::Machine;
use capstan_core::api::cluster_x_k8s_io::machine_pool::MachinePool;
use capstan_core::api::kinds::CLUSTER_API_MACHINES;
use capstan_core::model::ObjectRef;

use tokio::time::Instant;

use crate::runtime::{Cluster, WatchedObject};

/// So many Machines are read one by one. More are listed.
const FEW: usize = 16;
/// A process that looked for no Machine for so long may have been paused, and another leader may
/// have made Machines meanwhile. It may believe that it still leads.
const PAUSED: Duration = Duration::from_mins(1);

/// The names of the Machines that a view shows, and those of the instances without one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Names {
    pub(super) machines: BTreeSet<String>,
    pub(super) without: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Known {
    /// The names of all Machines of the pool.
    names: BTreeSet<String>,
    /// Those that the caches do not show.
    unlabelled: Vec<Arc<Machine>>,
    /// The last search failed, or another leader may have made Machines since.
    failed: bool,
    /// When the last search ended; `None` if none did.
    searched: Option<Instant>,
    /// There was a long time between two searches since the last one for all.
    paused: bool,
}

impl Known {
    /// Whether this process may have been paused since the last search for all.
    fn may_lack(&self, now: Instant) -> bool {
        let is_long = |searched: Instant| now.duration_since(searched) > PAUSED;
        self.paused || self.searched.is_some_and(is_long)
    }
}

/// What is known of each pool.
#[derive(Debug, Default)]
pub(super) struct Unlabelled(Mutex<BTreeMap<ObjectRef, Known>>);

impl Unlabelled {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ObjectRef, Known>> {
        // Every change is one operation of the map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Machines of a pool that lost a label.
    pub(super) fn of(&self, pool: &ObjectRef) -> Vec<Arc<Machine>> {
        self.all()
            .get(pool)
            .map(|known| known.unlabelled.clone())
            .unwrap_or_default()
    }

    /// Whether no watch reports a change of the result: a Machine lacks a label, or the search
    /// failed.
    pub(super) fn is_unwatched(&self, pool: &ObjectRef) -> bool {
        let all = self.all();
        all.get(pool)
            .is_some_and(|known| known.failed || !known.unlabelled.is_empty())
    }

    pub(super) fn forget(&self, pool: &ObjectRef) {
        self.all().remove(pool);
    }

    /// Notes the names of Machines that a live read shows or that are created. The caches may not
    /// show one of them before it loses a label, and it would not be looked for then.
    pub(super) fn note<'a>(&self, pool: &ObjectRef, names: impl Iterator<Item = &'a String>) {
        let mut all = self.all();
        // Before the first search, nothing is known: that search is one for all.
        if let Some(known) = all.get_mut(pool) {
            known.names.extend(names.cloned());
        }
    }

    /// The next search of each pool is one for all Machines. What was found stays until then: a
    /// live view that is being read may already rest on it.
    pub(super) fn repeat_all(&self) {
        self.all().values_mut().for_each(|known| known.failed = true);
    }

    /// Looks for Machines that the caches showed and show no longer, for those of instances without
    /// one, and once for all. Returns whether the result is new.
    pub(super) async fn search<C: Cluster>(
        &self,
        cluster: &C,
        key: &ObjectRef,
        pool: &MachinePool,
        names: &Names,
    ) -> bool {
        match self.find(cluster, key, names).await {
            Ok(found) => self.found(key, pool, names, found, cluster.instant()),
            Err(error) => {
                tracing::warn!(%error, pool = %key, "the Machines without the labels of the pool cannot be read");
                self.all().entry(key.clone()).or_default().failed = true;
                false
            }
        }
    }

    /// Does the same before a write. `names` is what a live read shows. `whole` looks for all
    /// Machines of the pool, also for those that the caches never showed. A process that may have
    /// been paused does that, too.
    ///
    /// # Errors
    /// The Machines cannot be read, so that one of them may be there.
    pub(super) async fn search_live<C: Cluster>(
        &self,
        cluster: &C,
        key: &ObjectRef,
        pool: &MachinePool,
        names: &Names,
        whole: bool,
    ) -> kube::Result<()> {
        let now = cluster.instant();
        let may_lack = self.all().get(key).is_some_and(|known| known.may_lack(now));
        let found = match whole || may_lack {
            true => {
                self.forget(key);
                list(cluster, key).await?
            }
            false => self.find(cluster, key, names).await?,
        };
        self.found(key, pool, names, found, cluster.instant());
        Ok(())
    }

    async fn find<C: Cluster>(
        &self,
        cluster: &C,
        key: &ObjectRef,
        names: &Names,
    ) -> kube::Result<Vec<WatchedObject<Machine>>> {
        // A search that failed is repeated for all.
        let known = self
            .all()
            .get(key)
            .filter(|known| !known.failed)
            .map(|known| known.names.clone());
        let gone = known.iter().flatten().filter(|name| !names.machines.contains(*name));
        let sought: BTreeSet<&String> = gone.chain(&names.without).collect();
        match known.is_none() || sought.len() > FEW {
            true => list(cluster, key).await,
            false => read(cluster, key, &sought).await,
        }
    }

    /// Keeps what a search found. Returns whether the result is new.
    fn found(
        &self,
        key: &ObjectRef,
        pool: &MachinePool,
        names: &Names,
        found: Vec<WatchedObject<Machine>>,
        now: Instant,
    ) -> bool {
        let is_own = |machine: &Arc<Machine>| {
            let controller = machine.metadata.controller();
            controller.is_some_and(|owner| owner.uid == pool.metadata.uid())
                && !names.machines.contains(machine.metadata.name())
        };
        let found = found.into_iter().filter_map(|read| read.content.ok());
        let mut unlabelled: BTreeMap<String, Arc<Machine>> = BTreeMap::new();
        for machine in found.filter(is_own) {
            unlabelled.insert(machine.metadata.name().to_owned(), machine);
        }
        let known = Known {
            names: names.machines.iter().chain(unlabelled.keys()).cloned().collect(),
            unlabelled: unlabelled.into_values().collect(),
            failed: false,
            searched: Some(now),
            paused: self.all().get(key).is_some_and(|known| known.may_lack(now)),
        };
        let before = self.of(key);
        let is_new = before != known.unlabelled;
        self.all().insert(key.clone(), known);
        is_new
    }
}

/// All Machines of the namespace. With label selectors, a Machine with the labels that the caches
/// do not show yet would be missing, and so would one whose labels change between two lists.
async fn list<C: Cluster>(cluster: &C, key: &ObjectRef) -> kube::Result<Vec<WatchedObject<Machine>>> {
    cluster
        .list::<Machine>(&CLUSTER_API_MACHINES, &key.namespace, &[])
        .await
}

async fn read<C: Cluster>(
    cluster: &C,
    key: &ObjectRef,
    names: &BTreeSet<&String>,
) -> kube::Result<Vec<WatchedObject<Machine>>> {
    let mut found = Vec::new();
    for name in names {
        let read = cluster.get::<Machine>(&CLUSTER_API_MACHINES, &key.namespace, name);
        found.extend(read.await?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use capstan_core::api::kind::KindInfo;
    use capstan_core::api::kinds::MACHINE_POOLS;
    use capstan_core::api::meta::ObjectMeta;
    use capstan_core::api::objects::CachedObject;
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::{ReadOnly, Reads};

    /// An API server that has Machines, or answers nothing.
    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<(BTreeMap<String, Value>, bool)>>);

    impl Fake {
        fn store(&self, name: &str, labels: &Value) {
            let machine = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": name, "namespace": "ns", "labels": labels, "ownerReferences": [
                    {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "p", "uid": "p-uid",
                        "controller": true}]},
            });
            self.0.lock().unwrap().0.insert(name.to_owned(), machine);
        }

        fn remove(&self, name: &str) {
            self.0.lock().unwrap().0.remove(name);
        }

        fn fail(&self, fails: bool) {
            self.0.lock().unwrap().1 = fails;
        }

        fn stored<T: CachedObject>(&self, fits: impl Fn(&str) -> bool) -> kube::Result<Vec<WatchedObject<T>>> {
            let world = self.0.lock().unwrap();
            if world.1 {
                return Err(kube::Error::Service("no answer".into()));
            }
            let fitting = world.0.iter().filter(|(name, _)| fits(name));
            Ok(fitting.map(|(_, machine)| WatchedObject::of(machine.clone())).collect())
        }
    }

    impl Reads for Fake {
        fn get<T: CachedObject>(&self, _: &KindInfo, _: &str, name: &str) -> kube::Result<Option<WatchedObject<T>>> {
            Ok(self.stored(|one| one == name)?.pop())
        }

        fn list<T: CachedObject>(&self, _: &KindInfo, selectors: &[&str]) -> kube::Result<Vec<WatchedObject<T>>> {
            assert!(selectors.is_empty(), "{selectors:?}");
            self.stored(|_| true)
        }
    }

    fn labels(cluster: &str) -> Value {
        json!({"cluster.x-k8s.io/cluster-name": cluster, "cluster.x-k8s.io/pool-name": "p"})
    }

    /// The pool `p`, whose caches show no Machine.
    struct Pool {
        pool: MachinePool,
        key: ObjectRef,
        cluster: ReadOnly<Fake>,
        unlabelled: Unlabelled,
    }

    impl Pool {
        fn new() -> Self {
            let metadata = ObjectMeta {
                uid: Some("p-uid".to_owned()),
                ..ObjectMeta::default()
            };
            Self {
                pool: MachinePool {
                    metadata,
                    ..MachinePool::default()
                },
                key: MACHINE_POOLS.object("ns", "p"),
                cluster: ReadOnly::default(),
                unlabelled: Unlabelled::default(),
            }
        }

        async fn search(&self) -> bool {
            self.unlabelled
                .search(&self.cluster, &self.key, &self.pool, &Names::default())
                .await
        }

        async fn search_before_write(&self) -> kube::Result<()> {
            self.unlabelled
                .search_live(&self.cluster, &self.key, &self.pool, &Names::default(), false)
                .await
        }

        async fn search_all(&self) -> kube::Result<()> {
            self.unlabelled
                .search_live(&self.cluster, &self.key, &self.pool, &Names::default(), true)
                .await
        }

        fn found(&self) -> Vec<String> {
            let found = self.unlabelled.of(&self.key).into_iter();
            found.map(|machine| machine.metadata.name().to_owned()).collect()
        }
    }

    #[tokio::test]
    async fn v231_a_machine_that_lost_a_label_before_the_caches_showed_it_is_found() {
        for count in [1, FEW + 4] {
            let pool = Pool::new();
            assert!(!pool.search().await);
            // Machines are created. Only the live reads show them, with their labels.
            let names: Vec<String> = (10..10 + count).map(|number| format!("p-{number}")).collect();
            pool.unlabelled.note(&pool.key, names.iter());
            names.iter().for_each(|name| pool.cluster.0.store(name, &labels("c")));
            pool.search().await;
            pool.cluster.0.store("p-10", &labels("another"));
            pool.search().await;
            assert_eq!(pool.found(), names);
            // One that is gone is not looked for any more.
            pool.cluster.0.remove("p-10");
            assert!(pool.search().await);
            assert_eq!(pool.found(), names[1..]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn v266_a_process_that_was_paused_looks_for_all_machines_before_a_write() {
        let pool = Pool::new();
        assert!(!pool.search().await);
        // Another leader makes a Machine, which loses a label.
        pool.cluster.0.store("p-1", &labels("another"));
        pool.search_before_write().await.unwrap();
        assert!(pool.found().is_empty(), "this process was the leader all the time");
        tokio::time::advance(PAUSED * 2).await;
        // The search of the caches comes first, and finds nothing.
        assert!(!pool.search().await);
        pool.search_before_write().await.unwrap();
        assert_eq!(pool.found(), ["p-1"]);
        pool.search_before_write().await.unwrap();
        assert_eq!(pool.found(), ["p-1"]);
    }

    #[tokio::test]
    async fn v268_a_change_of_the_leader_keeps_what_a_live_view_rests_on() {
        let pool = Pool::new();
        pool.search().await;
        pool.cluster.0.store("p-1", &labels("another"));
        pool.search_all().await.unwrap();
        // The process becomes the leader before the view is used.
        pool.unlabelled.repeat_all();
        assert_eq!(pool.found(), ["p-1"]);
        // The next search looks for all Machines.
        pool.cluster.0.store("p-2", &labels("another"));
        pool.search_before_write().await.unwrap();
        assert_eq!(pool.found(), ["p-1", "p-2"]);
    }

    #[tokio::test]
    async fn v256_a_search_before_a_write_reads_a_machine_that_lost_a_label_since_or_fails() {
        let pool = Pool::new();
        pool.cluster.0.store("p-10", &labels("c"));
        let shown = Names {
            machines: [String::from("p-10")].into(),
            ..Names::default()
        };
        pool.unlabelled
            .search(&pool.cluster, &pool.key, &pool.pool, &shown)
            .await;
        assert!(pool.found().is_empty());
        // The live list with the labels does not show it any more.
        pool.cluster.0.store("p-10", &labels("another"));
        let live = Names::default();
        let search = || {
            pool.unlabelled
                .search_live(&pool.cluster, &pool.key, &pool.pool, &live, false)
        };
        pool.cluster.0.fail(true);
        assert!(search().await.is_err());
        pool.cluster.0.fail(false);
        search().await.unwrap();
        assert_eq!(pool.found(), ["p-10"]);
    }

    #[tokio::test]
    async fn v232_a_search_before_the_release_of_a_pool_finds_each_machine_or_fails() {
        let pool = Pool::new();
        assert!(!pool.search().await);
        // Another process made it, and it lost its label since.
        pool.cluster
            .0
            .store("p-10", &json!({"cluster.x-k8s.io/cluster-name": "c"}));
        assert!(!pool.search().await, "nothing tells its name");
        pool.search_all().await.unwrap();
        assert_eq!(pool.found(), ["p-10"]);
        // The plan from the caches continues without an answer. A release must not.
        pool.unlabelled.repeat_all();
        pool.cluster.0.fail(true);
        assert!(!pool.search().await);
        assert_eq!(pool.found(), ["p-10"], "the last answer stays");
        assert!(pool.search_all().await.is_err());
    }
}

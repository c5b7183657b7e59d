//! The Machines of a pool that lost a label, which the caches do not show.
//!
//! Only the mode `own` looks for them: a core manager restores the labels otherwise. A Machine is
//! one of them only if the pool controls it, whatever its name is. Nothing here writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capstan_core::api::cluster_x_k8s_io::control_plane::Machine;
use capstan_core::api::cluster_x_k8s_io::machine_pool::MachinePool;
use capstan_core::api::cluster_x_k8s_io::{label, label_value};
use capstan_core::api::kinds::CLUSTER_API_MACHINES;
use capstan_core::model::ObjectRef;

use crate::runtime::{Cluster, WatchedObject};

/// So many Machines are read one by one. More are listed.
const FEW: usize = 16;

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
    /// The last search failed.
    failed: bool,
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

    /// The next search is one for all Machines.
    pub(super) fn forget_all(&self) {
        self.all().clear();
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
        // A search that failed is repeated for all.
        let known = self
            .all()
            .get(key)
            .filter(|known| !known.failed)
            .map(|known| known.names.clone());
        let gone = known.iter().flatten().filter(|name| !names.machines.contains(*name));
        let sought: BTreeSet<&String> = gone.chain(&names.without).collect();
        let found = if known.is_none() || sought.len() > FEW {
            let selectors = [
                format!("{}!={}", label::POOL_NAME, label_value(&key.name)),
                format!("{}!={}", label::CLUSTER, pool.spec.cluster_name),
            ];
            let selectors = selectors.each_ref().map(String::as_str);
            cluster
                .list::<Machine>(&CLUSTER_API_MACHINES, &key.namespace, &selectors)
                .await
        } else {
            read(cluster, key, &sought).await
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, pool = %key, "the Machines without the labels of the pool cannot be read");
                self.all().entry(key.clone()).or_default().failed = true;
                return false;
            }
        };
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
        };
        let before = self.of(key);
        let is_new = before != known.unlabelled;
        self.all().insert(key.clone(), known);
        is_new
    }
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

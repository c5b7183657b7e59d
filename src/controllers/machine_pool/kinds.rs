//! The kinds that the controller watches: those of the kind table, and those that the pools name.
//!
//! A kind is discovered once, and again while its objects are unknown. It is watched while a pool
//! needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capstan_core::api::cluster_x_k8s_io::control_plane::{Cluster as ClusterObject, Machine};
use capstan_core::api::cluster_x_k8s_io::machine_pool::MachinePool;
use capstan_core::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{CLUSTER_API_CLUSTERS, CLUSTER_API_MACHINES, MACHINE_POOLS};
use capstan_core::model::ObjectRef;
use capstan_core::pool::Mode;
use serde_json::Value;

use crate::runtime::{Cluster, View, Watch};

/// Group and kind.
type Role = (String, String);

/// A kind that is known only at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedKind {
    /// The kind.
    pub kind: KindInfo,
    /// Whether only the objects with the label of a pool are needed.
    pub of_pools: bool,
}

/// Watches exactly these kinds besides those of the kind table.
pub type WatchKinds = Arc<dyn Fn(&[WatchedKind]) + Send + Sync>;

/// What is watched from the start.
pub(super) fn watches() -> Vec<Watch> {
    vec![
        Watch::of::<MachinePool>(&MACHINE_POOLS),
        Watch::of::<Machine>(&CLUSTER_API_MACHINES).labelled(capstan_core::api::cluster_x_k8s_io::label::POOL_NAME),
        Watch::of::<ClusterObject>(&CLUSTER_API_CLUSTERS),
    ]
}

/// The kinds that a pool names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Needed {
    /// The kind of its infrastructure object.
    pub(super) infrastructure: Option<Role>,
    /// The kind of its bootstrap object, if Capstan manages it.
    pub(super) bootstrap: Option<Role>,
    /// The kind of its infrastructure machines.
    pub(super) machines: Option<Role>,
}

impl Needed {
    /// Of a pool with this infrastructure object.
    pub(super) fn of(pool: &MachinePool, infrastructure: Option<&Infrastructure>, mode: Mode) -> Self {
        let template = &pool.spec.template.spec;
        let role = |group: &str, kind: &str| {
            let is_set = !group.is_empty() && !kind.is_empty();
            is_set.then(|| (group.to_owned(), kind.to_owned()))
        };
        let reference = &template.infrastructure_ref;
        let config = &template.bootstrap.config_ref;
        let status = infrastructure.and_then(|object| object.unknown_fields.get("status"));
        let machines = status.and_then(|status| status.get("infrastructureMachineKind"));
        let machines = machines.and_then(Value::as_str).unwrap_or_default();
        Self {
            infrastructure: role(&reference.api_group, &reference.kind),
            bootstrap: role(&config.api_group, &config.kind).filter(|_| mode == Mode::Own),
            machines: role(&reference.api_group, machines),
        }
    }

    fn roles(&self) -> impl Iterator<Item = (&Role, bool)> {
        let whole = [&self.infrastructure, &self.bootstrap].into_iter().flatten();
        whole
            .map(|role| (role, false))
            .chain(self.machines.iter().map(|role| (role, true)))
    }
}

#[derive(Default)]
struct Registry {
    discovered: BTreeMap<Role, KindInfo>,
    /// The kinds that the cluster did not serve when they were looked up last.
    missing: BTreeSet<Role>,
    needed: BTreeMap<ObjectRef, Needed>,
    /// The pool objects' kinds that are watched.
    watched: BTreeSet<(Role, String, bool)>,
}

/// The kinds that pools name.
pub(super) struct Kinds {
    watch: WatchKinds,
    registry: Mutex<Registry>,
}

impl Kinds {
    pub(super) fn new(watch: WatchKinds) -> Self {
        Self {
            watch,
            registry: Mutex::default(),
        }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A discovered kind.
    pub(super) fn known(&self, group: &str, kind: &str) -> Option<KindInfo> {
        let role = (group.to_owned(), kind.to_owned());
        self.registry().discovered.get(&role).cloned()
    }

    /// The objects with the name of a machine that may represent the same instance: the
    /// infrastructure machines of a Machine, and the Machine of an infrastructure machine.
    pub(super) fn counterparts(&self, object: &ObjectRef) -> Vec<ObjectRef> {
        let registry = self.registry();
        let roles: BTreeSet<&Role> = registry
            .needed
            .values()
            .filter_map(|needed| needed.machines.as_ref())
            .collect();
        let kinds: Vec<&KindInfo> = roles
            .into_iter()
            .filter_map(|role| registry.discovered.get(role))
            .collect();
        let (namespace, name) = (&object.namespace, &object.name);
        if CLUSTER_API_MACHINES.is_kind_of(object) {
            return kinds.into_iter().map(|kind| kind.object(namespace, name)).collect();
        }
        let is_machine = kinds.into_iter().any(|kind| kind.is_kind_of(object));
        Vec::from_iter(is_machine.then(|| CLUSTER_API_MACHINES.object(namespace, name)))
    }

    /// The infrastructure object of a pool in a view.
    pub(super) fn infrastructure_of(&self, pool: &MachinePool, view: &View) -> Option<Arc<Infrastructure>> {
        let reference = &pool.spec.template.spec.infrastructure_ref;
        let kind = self.known(&reference.api_group, &reference.kind)?;
        let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
        view.objects
            .get::<Infrastructure>(&kind, namespace, &reference.name)
            .cloned()
    }

    /// Discovers and watches what a pool needs. A known kind is discovered again if `again`: the
    /// cluster may serve another version. Returns whether a kind is new.
    pub(super) async fn discover<C: Cluster>(
        &self,
        cluster: &C,
        pool: &ObjectRef,
        needed: &Needed,
        again: bool,
    ) -> bool {
        let mut is_new = false;
        for (role, _) in needed.roles() {
            let (group, kind) = role;
            let known = self.known(group, kind);
            if known.is_some() && !again {
                continue;
            }
            let found = cluster.discover(group, kind).await;
            if let Ok(Some(_)) = found {
                self.registry().missing.remove(role);
            }
            match found {
                Ok(Some(found)) if known.as_ref() != Some(&found) => {
                    self.registry().discovered.insert(role.clone(), found);
                    is_new = true;
                }
                Ok(Some(_)) => {}
                Ok(None) if self.registry().missing.insert(role.clone()) => tracing::warn!(
                    group, kind, %pool, "the cluster does not serve the kind; pools that name it wait for it"
                ),
                Ok(None) => {}
                Err(error) => tracing::warn!(group, kind, %pool, %error, "discovery of the kind failed"),
            }
        }
        self.registry().needed.insert(pool.clone(), needed.clone());
        self.publish();
        is_new
    }

    /// A pool is gone.
    pub(super) fn forget(&self, pool: &ObjectRef) {
        self.registry().needed.remove(pool);
        self.publish();
    }

    /// Starts and stops watches if the kinds that are needed changed.
    fn publish(&self) {
        let mut registry = self.registry();
        let mut kinds: BTreeMap<(Role, String, bool), WatchedKind> = BTreeMap::new();
        for (role, of_pools) in registry.needed.values().flat_map(Needed::roles) {
            if let Some(kind) = registry.discovered.get(role) {
                let key = (role.clone(), kind.version.to_string(), of_pools);
                let kind = kind.clone();
                kinds.insert(key, WatchedKind { kind, of_pools });
            }
        }
        let wanted: BTreeSet<(Role, String, bool)> = kinds.keys().cloned().collect();
        if wanted != registry.watched {
            registry.watched = wanted;
            let kinds: Vec<WatchedKind> = kinds.into_values().collect();
            (self.watch)(&kinds);
        }
    }
}

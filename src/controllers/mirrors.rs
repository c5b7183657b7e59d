//! What exists in both APIs, as admission looks it up: one store for each kind of each half, and for each kind of the
//! infrastructure behind Cluster API's half.
//!
//! A kind that the cluster does not serve has no objects, which is known; so a cluster without Cluster API is judged too.

use std::sync::Arc;

use capstan_core::api::cluster_x_k8s_io;
use capstan_core::api::infrastructure_cluster_x_k8s_io as infrastructure;
use capstan_core::api::machine_openshift_io::{machine, machine_health_check, machine_set};
use capstan_core::authority::spec::{self, Api, PairMember};
use capstan_core::authority::state::Mirrors;

use super::kind::Kind;
use super::store::Store;

/// Stores of everything that may exist twice.
#[derive(Debug)]
pub(super) struct MirrorStores {
    halves: Vec<(Api, spec::Kind, &'static str, Arc<Store<PairMember>>)>,
    /// By kind.
    infrastructure: Vec<(&'static str, Arc<Store<PairMember>>)>,
}

impl MirrorStores {
    /// Starts to follow every kind in the namespace of its API.
    pub(super) fn start(machine_api: &str, cluster_api: &str, start: impl Fn(Kind) -> Arc<Store<PairMember>>) -> Self {
        let kinds = [
            (spec::Kind::Machine, machine::KIND, machine::PLURAL),
            (spec::Kind::MachineSet, machine_set::KIND, machine_set::PLURAL),
            (
                spec::Kind::MachineHealthCheck,
                machine_health_check::KIND,
                machine_health_check::PLURAL,
            ),
        ];
        let apis = [
            (Api::MachineApi, machine::API_VERSION, machine_api),
            (Api::ClusterApi, cluster_x_k8s_io::API_VERSION, cluster_api),
        ];
        let mut halves = Vec::new();
        for (api, version, namespace) in apis {
            for (of, kind, plural) in kinds {
                halves.push((api, of, plural, start(Kind::mirrored(version, kind, plural, namespace))));
            }
        }
        let mut stores = Vec::new();
        for platform in infrastructure::PLATFORMS {
            let version = format!("{}/{}", infrastructure::GROUP, platform.version);
            for (kind, plural) in [
                (platform.machine, platform.machines),
                (platform.template, platform.templates),
            ] {
                stores.push((kind, start(Kind::mirrored(&version, kind, plural, cluster_api))));
            }
        }
        for cluster in infrastructure::CLUSTERS {
            let version = format!("{}/{}", infrastructure::GROUP, cluster.version);
            let kind = Kind::mirrored(&version, cluster.kind, cluster.plural, cluster_api);
            stores.push((cluster.kind, start(kind)));
        }
        Self {
            halves,
            infrastructure: stores,
        }
    }

    /// Of each store, whether it was read once, or what went wrong.
    pub(super) fn synced(&self) -> Vec<(&'static str, Result<(), Option<String>>)> {
        let halves = self
            .halves
            .iter()
            .map(|(_, _, plural, store)| (*plural, store.synced()));
        let infrastructure = self.infrastructure.iter().map(|(kind, store)| (*kind, store.synced()));
        halves.chain(infrastructure).collect()
    }

    /// As admission looks at it. Nothing is copied: what did not change is shared with the picture before.
    pub(super) fn picture(&self) -> Mirrors {
        let mut mirrors = Mirrors::default();
        for (api, of, _, store) in &self.halves {
            *mirrors.of_mut(*api).slot(*of) = store.contents().map(|contents| contents.objects);
        }
        for (kind, store) in &self.infrastructure {
            if let Some(contents) = store.contents() {
                mirrors.infrastructure.insert((*kind).to_owned(), contents.objects);
            }
        }
        mirrors
    }
}

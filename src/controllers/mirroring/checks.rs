//! The objects of one mirrored MachineHealthCheck in a view, and the live reads that refresh them.

use std::collections::BTreeSet;

use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::authority::pair::Pair;
use capstan_core::authority::spec::Kind;

use super::objects::CHECKS;
use super::pairs::{Pairs, Unknown};
use crate::runtime::{Cluster, StepError, View};

impl Pairs {
    /// The MachineHealthChecks of a name.
    pub(super) fn check_pair(&self, view: &View, name: &str) -> Result<Pair, Unknown> {
        Ok(Pair {
            kind: Kind::MachineHealthCheck,
            name: name.to_owned(),
            machine_api: self.full(view, &kinds::MACHINE_HEALTH_CHECKS, name)?,
            cluster_api: self.full(view, &kinds::CLUSTER_API_MACHINE_HEALTH_CHECKS, name)?,
            surroundings: self.surroundings(view)?,
            ..Pair::default()
        })
    }

    /// The view with both MachineHealthChecks, the Cluster, and the Lease of another sync
    /// controller as live reads show them.
    pub(super) async fn refreshed_check<C: Cluster>(
        &self,
        cluster: &C,
        view: &View,
        name: &str,
    ) -> Result<View, StepError> {
        self.live(cluster, view, CHECKS, name, |_| Vec::new()).await
    }

    /// The names of the MachineHealthChecks that an object of a kind belongs to. `None`: all of
    /// them.
    pub(super) fn affected_checks(kind: &str, group: &str, name: &str) -> Option<BTreeSet<String>> {
        let is_kind = |known: &&KindInfo| known.group == group && known.kind == kind;
        if CHECKS.iter().any(is_kind) {
            return Some(BTreeSet::from([name.to_owned()]));
        }
        let surroundings: [&KindInfo; 2] = [&kinds::CLUSTER_API_CLUSTERS, &kinds::INFRASTRUCTURES];
        let is_of_all = surroundings.iter().any(is_kind);
        (!is_of_all).then(BTreeSet::new)
    }
}

//! State: the halves of all objects, each found by its name in one step, and who leads.
//!
//! A half that was not read is unknown, which is not the same as absent.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::TEMPLATE_SET;
use super::config::Config;
use super::spec::{Api, Decided, Kind, PairMember};
use crate::api::cluster_x_k8s_io;

/// MirroredPair of one kind, by name. Shared: a new picture of the cluster keeps what did not change.
pub type Index = Arc<BTreeMap<String, Arc<PairMember>>>;

/// The halves of one API. `None` is unknown.
#[derive(Clone, Debug, Default)]
pub struct MirroredPair {
    /// Machines.
    pub machines: Option<Index>,
    /// MachineSets.
    pub machine_sets: Option<Index>,
    /// MachineHealthChecks.
    pub machine_health_checks: Option<Index>,
}

impl MirroredPair {
    fn index(&self, kind: Kind) -> Option<&Index> {
        match kind.led_by() {
            Kind::Machine => self.machines.as_ref(),
            Kind::MachineSet => self.machine_sets.as_ref(),
            _ => self.machine_health_checks.as_ref(),
        }
    }

    /// The place where halves of a kind are kept.
    pub fn slot(&mut self, kind: Kind) -> &mut Option<Index> {
        match kind.led_by() {
            Kind::Machine => &mut self.machines,
            Kind::MachineSet => &mut self.machine_sets,
            _ => &mut self.machine_health_checks,
        }
    }
}

/// Everything that may exist twice.
#[derive(Clone, Debug, Default)]
pub struct Mirrors {
    /// The Machine API's half.
    pub machine_api: MirroredPair,
    /// Cluster API's half.
    pub cluster_api: MirroredPair,
    /// The infrastructure behind Cluster API's half, by kind. A kind that is not there is unknown.
    pub infrastructure: BTreeMap<String, Index>,
}

/// What is known of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// It was not read yet, or not given.
    Unknown,
    /// There is none.
    Absent,
    /// This is it.
    There(&'a PairMember),
}

impl<'a> Seen<'a> {
    /// The half, if there is one and it is known.
    pub fn there(self) -> Option<&'a PairMember> {
        match self {
            Self::There(half) => Some(half),
            Self::Unknown | Self::Absent => None,
        }
    }
}

impl Mirrors {
    /// The halves of an API.
    pub fn of_mut(&mut self, api: Api) -> &mut MirroredPair {
        match api {
            Api::MachineApi => &mut self.machine_api,
            Api::ClusterApi => &mut self.cluster_api,
        }
    }

    /// The half of an object of a kind in an API, in the namespace of that API.
    pub fn find(&self, api: Api, kind: Kind, name: &str, config: &Config) -> Seen<'_> {
        let halves = match api {
            Api::MachineApi => &self.machine_api,
            Api::ClusterApi => &self.cluster_api,
        };
        let Some(index) = halves.index(kind) else {
            return Seen::Unknown;
        };
        let here = |half: &&Arc<PairMember>| half.namespace.is_empty() || half.namespace == config.namespace(api);
        match index.get(name).filter(here) {
            Some(half) => Seen::There(half),
            None => Seen::Absent,
        }
    }

    /// The infrastructure cluster of a kind: the only one that there is, or one of this name.
    pub fn infrastructure_cluster(&self, kind: &str, name: Option<&str>) -> Seen<'_> {
        let Some(index) = self.infrastructure.get(kind) else {
            return Seen::Unknown;
        };
        let mut all = index.values();
        let only = all.next().filter(|_| all.next().is_none());
        let named = name.and_then(|name| index.get(name));
        named.or(only).map_or(Seen::Absent, |half| Seen::There(half))
    }

    /// The infrastructure that a half of Cluster API refers to.
    pub fn infrastructure_of(&self, half: &PairMember) -> Seen<'_> {
        let Some((kind, name)) = &half.infrastructure else {
            return Seen::Absent;
        };
        match self.infrastructure.get(kind) {
            None => Seen::Unknown,
            Some(index) => index.get(name).map_or(Seen::Absent, |half| Seen::There(half)),
        }
    }
}

/// The name of the object whose authority an object follows: its own, or for infrastructure that of the Machine or
/// MachineSet that it was made for.
pub fn leading_name<'a>(kind: Kind, half: &'a PairMember, name: &'a str) -> &'a str {
    match kind {
        Kind::InfrastructureMachine => {
            let machine =
                |owner: &&super::spec::Owner| owner.group == cluster_x_k8s_io::GROUP && owner.kind == "Machine";
            half.owners
                .iter()
                .find(machine)
                .map_or(name, |owner| owner.name.as_str())
        }
        Kind::InfrastructureTemplate => half.labels.get(TEMPLATE_SET).map_or(name, String::as_str),
        _ => name,
    }
}

/// Who leads an object, by the half of the Machine API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// The Machine API's half was not read.
    Unknown,
    /// There is no half in the Machine API: Cluster API's object stands for itself.
    Alone,
    /// It is decided.
    Decided(Decided),
}

impl Lead {
    /// By the half of the Machine API.
    pub fn of(machine_api: Seen<'_>) -> Self {
        match machine_api {
            Seen::Unknown => Self::Unknown,
            Seen::Absent => Self::Alone,
            Seen::There(half) => Self::Decided(half.lead()),
        }
    }

    /// Whether the half of an API is a copy, or locked because the lead is being handed over.
    pub fn locks(self, api: Api) -> bool {
        match self {
            Self::Unknown | Self::Alone => false,
            Self::Decided(Decided::Migrating) => true,
            Self::Decided(Decided::Leads(lead)) => lead != api,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_half_in_another_namespace_is_no_half() {
        let mut mirrors = Mirrors::default();
        let config = Config::default();
        let find = |mirrors: &Mirrors| mirrors.find(Api::ClusterApi, Kind::Machine, "a", &config) == Seen::Absent;
        assert_eq!(
            mirrors.find(Api::ClusterApi, Kind::Machine, "a", &config),
            Seen::Unknown
        );
        for (namespace, absent) in [("openshift-cluster-api", false), ("elsewhere", true)] {
            let half = PairMember::read(&json!({"metadata": {"name": "a", "namespace": namespace}}));
            let index = BTreeMap::from([(String::from("a"), Arc::new(half))]);
            *mirrors.of_mut(Api::ClusterApi).slot(Kind::Machine) = Some(Arc::new(index));
            assert_eq!(find(&mirrors), absent, "{namespace}");
        }
    }

    #[test]
    fn infrastructure_follows_the_machine_or_the_set_that_it_was_made_for() {
        let machine = PairMember::read(&json!({"metadata": {"ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": "u"}]}}));
        assert_eq!(leading_name(Kind::InfrastructureMachine, &machine, "x"), "m");
        let template = PairMember::read(&json!({"metadata": {"labels": {TEMPLATE_SET: "s"}}}));
        assert_eq!(leading_name(Kind::InfrastructureTemplate, &template, "s-1a2b"), "s");
        assert_eq!(leading_name(Kind::Machine, &machine, "x"), "x");
    }

    #[test]
    fn a_hand_over_locks_both_sides_and_an_object_without_a_half_is_free() {
        for api in [Api::MachineApi, Api::ClusterApi] {
            assert!(Lead::Decided(Decided::Migrating).locks(api));
            assert!(!Lead::Decided(Decided::Leads(api)).locks(api));
            assert!(Lead::Decided(Decided::Leads(api.other())).locks(api));
            assert!(!Lead::Alone.locks(api));
        }
    }
}

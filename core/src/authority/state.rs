//! Looks up the objects of mirrored pairs by name, and determines which API is authoritative.
//!
//! An object that was not read is unknown, which is different from absent.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::TEMPLATE_SET;
use super::config::Config;
use super::live::{LiveObject, LiveResult};
use super::spec::{Api, Authority, Kind, Owner, PairMember};
use crate::api::cluster_x_k8s_io;

/// The objects of one kind in one API, by [`index_key`] or, if all are in the namespace of that
/// API, by name. A new snapshot shares the objects that did not change.
pub type Index = Arc<BTreeMap<String, Arc<PairMember>>>;

/// The key of an object in an [`Index`] that has objects of several namespaces.
pub fn index_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Finds an object by name. An object without a namespace is in the namespace of its API.
fn find_in<'a>(index: &'a Index, namespace: &str, name: &str) -> Counterpart<'a> {
    let by_name = index.get(name).filter(|member| is_in(member, namespace));
    by_name
        .or_else(|| index.get(&index_key(namespace, name)))
        .map_or(Counterpart::Absent, |member| Counterpart::Found(member))
}

fn is_in(member: &PairMember, namespace: &str) -> bool {
    member.namespace.is_empty() || member.namespace == namespace
}

/// The mirrored objects of one API, by kind. `None` means that the kind was not read.
#[derive(Clone, Debug, Default)]
pub struct PairMembers {
    /// The Machines.
    pub machines: Option<Index>,
    /// The MachineSets.
    pub machine_sets: Option<Index>,
    /// The MachineHealthChecks.
    pub machine_health_checks: Option<Index>,
}

impl PairMembers {
    fn index(&self, kind: Kind) -> Option<&Index> {
        match kind.mirrored_kind() {
            Kind::Machine => self.machines.as_ref(),
            Kind::MachineSet => self.machine_sets.as_ref(),
            _ => self.machine_health_checks.as_ref(),
        }
    }

    /// Adds more objects of the same API.
    fn add(&mut self, other: &Self) {
        for (index, added) in [
            (&mut self.machines, &other.machines),
            (&mut self.machine_sets, &other.machine_sets),
            (&mut self.machine_health_checks, &other.machine_health_checks),
        ] {
            if let Some(added) = added {
                extend(index.get_or_insert_default(), added);
            }
        }
    }

    /// The index of a kind, to be filled.
    pub fn slot(&mut self, kind: Kind) -> &mut Option<Index> {
        match kind.mirrored_kind() {
            Kind::Machine => &mut self.machines,
            Kind::MachineSet => &mut self.machine_sets,
            _ => &mut self.machine_health_checks,
        }
    }
}

fn extend(index: &mut Index, added: &Index) {
    let added = added.iter().map(|(key, member)| (key.clone(), Arc::clone(member)));
    Arc::make_mut(index).extend(added);
}

/// All objects that may exist in both APIs, and the infrastructure of those in Cluster API.
#[derive(Clone, Debug, Default)]
pub struct Mirrors {
    /// The objects in the Machine API.
    pub machine_api: PairMembers,
    /// The objects in Cluster API.
    pub cluster_api: PairMembers,
    /// The infrastructure objects in Cluster API, by kind. A missing kind was not read.
    pub infrastructure: BTreeMap<String, Index>,
    /// Objects that were read for the edit that is judged. They replace the objects above.
    pub live: Vec<LiveObject>,
}

/// The result of looking up an object, usually the one of the same name in the other API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counterpart<'a> {
    /// The kind was not read yet, or was not given.
    Unknown,
    /// The kind was read, and the object does not exist.
    Absent,
    /// The object exists.
    Found(&'a PairMember),
}

impl<'a> Counterpart<'a> {
    /// The object, if it was found.
    pub fn found(self) -> Option<&'a PairMember> {
        match self {
            Self::Found(member) => Some(member),
            Self::Unknown | Self::Absent => None,
        }
    }
}

/// The mirrored objects that belong to Clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InClusters {
    /// How many were found.
    pub count: usize,
    /// One of them, as `Machine a`.
    pub example: Option<String>,
    /// The kinds that were not read. More objects of them may belong to the Clusters.
    pub unknown: Vec<(Api, Kind)>,
}

impl Mirrors {
    /// Adds the objects of other mirrors, except those that were read live.
    pub fn add(&mut self, other: &Self) {
        self.machine_api.add(&other.machine_api);
        self.cluster_api.add(&other.cluster_api);
        for (kind, added) in &other.infrastructure {
            extend(self.infrastructure.entry(kind.clone()).or_default(), added);
        }
    }

    /// The objects of an API, to be filled.
    pub fn of_mut(&mut self, api: Api) -> &mut PairMembers {
        match api {
            Api::MachineApi => &mut self.machine_api,
            Api::ClusterApi => &mut self.cluster_api,
        }
    }

    /// Looks up an object by API, kind and name, in the namespace of that API.
    pub fn find(&self, api: Api, kind: Kind, name: &str, config: &Config) -> Counterpart<'_> {
        let is_wanted = |live: &&LiveObject| {
            let read = &live.read;
            read.api == api && read.kind.mirrored_kind() == kind.mirrored_kind() && read.name == name
        };
        if let Some(live) = self.live.iter().find(is_wanted) {
            return match &live.result {
                LiveResult::Unknown => Counterpart::Unknown,
                LiveResult::Absent => Counterpart::Absent,
                LiveResult::Found(member) => Counterpart::Found(member),
            };
        }
        let members = match api {
            Api::MachineApi => &self.machine_api,
            Api::ClusterApi => &self.cluster_api,
        };
        match members.index(kind) {
            Some(index) => find_in(index, config.namespace(api), name),
            None => Counterpart::Unknown,
        }
    }

    /// The mirrored objects that belong to one of these Clusters, as far as they were read.
    pub fn mirrored_in_clusters(&self, clusters: &[&str], config: &Config) -> InClusters {
        let mut found = InClusters::default();
        for kind in [Kind::Machine, Kind::MachineSet, Kind::MachineHealthCheck] {
            for (api, members) in [
                (Api::MachineApi, &self.machine_api),
                (Api::ClusterApi, &self.cluster_api),
            ] {
                if members.index(kind).is_none() {
                    found.unknown.push((api, kind));
                }
            }
            for member in self
                .cluster_api
                .index(kind)
                .into_iter()
                .flat_map(|index| index.values())
            {
                let belongs = member.cluster.as_deref().is_some_and(|name| clusters.contains(&name));
                let counterpart = || self.find(Api::MachineApi, kind, &member.name, config);
                if belongs && is_in(member, &config.cluster_api_namespace) && counterpart().found().is_some() {
                    found.count += 1;
                    found
                        .example
                        .get_or_insert_with(|| format!("{} {}", kind.title(), member.name));
                }
            }
        }
        found
    }

    /// Looks up the infrastructure cluster of a kind: the one with this name, or the only one that
    /// exists.
    pub fn infrastructure_cluster(&self, kind: &str, name: Option<&str>, config: &Config) -> Counterpart<'_> {
        let Some(index) = self.infrastructure.get(kind) else {
            return Counterpart::Unknown;
        };
        let namespace = &config.cluster_api_namespace;
        let mut all = index.values().filter(|member| is_in(member, namespace));
        let only = all.next().filter(|_| all.next().is_none());
        let named = name.and_then(|name| find_in(index, namespace, name).found());
        named
            .or(only.map(Arc::as_ref))
            .map_or(Counterpart::Absent, Counterpart::Found)
    }

    /// Looks up the infrastructure that an object of Cluster API refers to.
    pub fn infrastructure_of(&self, member: &PairMember, config: &Config) -> Counterpart<'_> {
        let Some((kind, name)) = &member.infrastructure else {
            return Counterpart::Absent;
        };
        match self.infrastructure.get(kind) {
            None => Counterpart::Unknown,
            Some(index) => find_in(index, &config.cluster_api_namespace, name),
        }
    }
}

/// The names of the mirrored objects that an object may belong to, the most specific first.
///
/// An infrastructure machine belongs to the Machine that owns it and to the Machine of its name. An
/// infrastructure template belongs to the MachineSet that its label names and to the MachineSet
/// that its name is derived from. A user can write an owner or a label that names another object,
/// so one of these names alone does not decide. Any other object has its own name only.
pub fn pair_names<'a>(kind: Kind, member: &'a PairMember, name: &'a str) -> Vec<&'a str> {
    let mut names: Vec<&str> = match kind {
        Kind::InfrastructureMachine => {
            let is_machine = |owner: &&Owner| owner.group == cluster_x_k8s_io::GROUP && owner.kind == "Machine";
            let owners = member.owners.iter().filter(is_machine);
            owners.map(|owner| owner.name.as_str()).chain([name]).collect()
        }
        Kind::InfrastructureTemplate => {
            let label = member.labels.get(TEMPLATE_SET).map(String::as_str);
            label.into_iter().chain(template_set(name)).collect()
        }
        _ => vec![name],
    };
    names.retain(|name| !name.is_empty());
    names
}

/// The MachineSet from which the name of a template is derived: `<machineset>-<8 hexadecimal
/// digits>`.
pub fn template_set(name: &str) -> Option<&str> {
    let (set, hash) = name.rsplit_once('-')?;
    let is_hash = hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && !set.is_empty()).then_some(set)
}

/// The authority of a mirrored pair, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairAuthority {
    /// The object in the Machine API was not read.
    Unknown,
    /// There is no object in the Machine API. The object in Cluster API is not mirrored.
    Unmirrored,
    /// The object in the Machine API has this authority.
    Known(Authority),
}

impl PairAuthority {
    /// The authority according to the object in the Machine API.
    pub fn of(machine_api: Counterpart<'_>) -> Self {
        match machine_api {
            Counterpart::Unknown => Self::Unknown,
            Counterpart::Absent => Self::Unmirrored,
            Counterpart::Found(member) => Self::Known(member.authority()),
        }
    }

    /// Whether the object of an API is locked: it is the mirror, or a migration is in progress.
    pub fn locks(self, api: Api) -> bool {
        match self {
            Self::Unknown | Self::Unmirrored => false,
            Self::Known(Authority::Migrating) => true,
            Self::Known(Authority::Stable(authoritative)) => authoritative != api,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_in_another_namespace_is_not_part_of_the_pair() {
        let mut mirrors = Mirrors::default();
        let config = Config::default();
        let is_absent =
            |mirrors: &Mirrors| mirrors.find(Api::ClusterApi, Kind::Machine, "a", &config) == Counterpart::Absent;
        assert_eq!(
            mirrors.find(Api::ClusterApi, Kind::Machine, "a", &config),
            Counterpart::Unknown
        );
        for (namespace, absent) in [("openshift-cluster-api", false), ("elsewhere", true)] {
            let member = PairMember::read(&json!({"metadata": {"name": "a", "namespace": namespace}}));
            let index = BTreeMap::from([(String::from("a"), Arc::new(member))]);
            *mirrors.of_mut(Api::ClusterApi).slot(Kind::Machine) = Some(Arc::new(index));
            assert_eq!(is_absent(&mirrors), absent, "{namespace}");
        }
    }

    #[test]
    fn infrastructure_belongs_to_the_objects_that_its_owner_its_label_and_its_name_tell() {
        let machine = PairMember::read(&json!({"metadata": {"ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": "u"}]}}));
        assert_eq!(pair_names(Kind::InfrastructureMachine, &machine, "x"), ["m", "x"]);
        assert_eq!(pair_names(Kind::InfrastructureMachine, &machine, ""), ["m"]);
        let template = PairMember::read(&json!({"metadata": {"labels": {TEMPLATE_SET: "s"}}}));
        assert_eq!(pair_names(Kind::InfrastructureTemplate, &template, "t-1a2b"), ["s"]);
        assert_eq!(
            pair_names(Kind::InfrastructureTemplate, &template, "t-1a2b3c4d"),
            ["s", "t"]
        );
        assert_eq!(pair_names(Kind::Machine, &machine, "x"), ["x"]);
    }

    #[test]
    fn a_migration_locks_both_objects_and_an_unmirrored_object_is_not_locked() {
        for api in [Api::MachineApi, Api::ClusterApi] {
            assert!(PairAuthority::Known(Authority::Migrating).locks(api));
            assert!(!PairAuthority::Known(Authority::Stable(api)).locks(api));
            assert!(PairAuthority::Known(Authority::Stable(api.other())).locks(api));
            assert!(!PairAuthority::Unmirrored.locks(api));
        }
    }
}

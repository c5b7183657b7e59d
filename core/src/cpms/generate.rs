//! A set for a cluster that has none: Inactive, made from the machines that exist, and such that
//! activating it rolls nothing out. (Machines that differ from the newest one do: a set has one
//! template. So does one of five machines where a failure domain holds more than its share:
//! spreading them is what a set is for.)
//!
//! The newest machine's spec is the template, without what the failure domains decide; the failure
//! domains are those of the machines, and those of the cluster's MachineSets where they are not in
//! use and would move nothing. What cannot be described by a set is refused with a reason, never
//! guessed.
//!
//! Source: the ControlPlaneMachineSet enhancement, "Installing a ControlPlaneMachineSet within an
//! existing cluster".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::domains::{self, FailureDomain, Platform};
use super::fields;
use super::indexes;
use super::spec::Replicas;
use super::state::unclaimed;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::control_plane_machine_set::{
    API_VERSION, ControlPlaneMachineSet, KIND, MACHINE_TYPE, NAME,
};
use crate::api::machine_openshift_io::machine::Machine;
use crate::api::machine_openshift_io::machine_set::MachineSet;
use crate::api::machine_openshift_io::{NAMESPACE, label};

/// Why no set can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Fewer than two machines: no control plane that a set could look after.
    #[error("{0} control plane machine(s) exist, and a set looks after 3 or 5")]
    TooFewMachines(usize),
    /// More machines than a set can have.
    #[error("{0} control plane indexes exist, and a set looks after 3 or 5")]
    TooManyMachines(usize),
    /// The platform has no failure domains that a set could list, and is not supported.
    #[error("platform {0:?} is not supported; supported are AWS, Azure, GCP, Nutanix, OpenStack and VSphere")]
    Platform(String),
    /// A machine has a provider spec of another kind than its platform's.
    #[error("machine {machine} has a provider spec of kind {kind:?}, and the platform is {platform}")]
    OtherKind {
        /// The machine.
        machine: String,
        /// The kind of its provider spec.
        kind: String,
        /// The platform.
        platform: Platform,
    },
    /// The newest machine does not say to which cluster it belongs.
    #[error("machine {0} has no label machine.openshift.io/cluster-api-cluster")]
    NoCluster(String),
    /// Some machines name a failure domain and some do not: a set would move the latter.
    #[error("machines {} name no known failure domain, while others do", .0.join(", "))]
    MixedDomains(Vec<String>),
    /// Nodes of the control plane that no machine claims which a set would select: how many
    /// replicas there are to be is not known.
    #[error(
        "control plane node(s) {} belong to no control plane machine, so the number of replicas, which cannot be changed later, \
         is not known; give their machines the labels of a control plane machine, or remove the nodes", .0.join(", ")
    )]
    UnclaimedNodes(Vec<String>),
    /// Machines differ in something that one template cannot say.
    #[error("machines differ in {field}: {}; a set has one template", values.join(", "))]
    Differs {
        /// The field of the provider spec.
        field: &'static str,
        /// The values.
        values: Vec<String>,
    },
}

/// What there is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Existing<'a> {
    /// Machines of the namespace; those that are not of the control plane are ignored.
    pub machines: &'a [Arc<Machine>],
    /// MachineSets of the namespace.
    pub machine_sets: &'a [Arc<MachineSet>],
    /// The nodes, by name; `None`: they are not known, and not asked about.
    pub nodes: Option<&'a BTreeMap<String, Arc<Node>>>,
    /// The Infrastructure `cluster`; without it the platform is that of the machines.
    pub infrastructure: Option<&'a Infrastructure>,
}

/// The set that describes what exists. Its replicas cannot be changed later, so there is none while
/// a node of the control plane has no machine that counts.
pub fn generate(existing: &Existing<'_>) -> Result<ControlPlaneMachineSet, Unsupported> {
    let set = describe(existing)?;
    let machines = existing.machines.iter().filter(|machine| is_control_plane(machine));
    let unclaimed = unclaimed(existing.nodes.iter().flat_map(|nodes| nodes.values()), machines);
    if unclaimed.is_empty() {
        Ok(set)
    } else {
        Err(Unsupported::UnclaimedNodes(unclaimed))
    }
}

fn describe(existing: &Existing<'_>) -> Result<ControlPlaneMachineSet, Unsupported> {
    let machines = control_plane(existing.machines);
    let newest = match machines.as_slice() {
        [newest, _, ..] => *newest,
        few => return Err(Unsupported::TooFewMachines(few.len())),
    };
    let platform = platform(existing.infrastructure, newest)?;
    for machine in &machines {
        let spec = provider_spec(machine);
        if Platform::of(spec) != Some(platform) {
            return Err(Unsupported::OtherKind {
                machine: machine.metadata.name().to_owned(),
                kind: fields::text(spec, &["kind"]).unwrap_or_default().to_owned(),
                platform,
            });
        }
    }
    if platform == Platform::OpenStack {
        agree(&machines, "serverGroupName")?;
    }
    let cluster = newest
        .metadata
        .labels
        .get(label::CLUSTER)
        .ok_or_else(|| Unsupported::NoCluster(newest.metadata.name().to_owned()))?;
    let labels = json!({label::CLUSTER: cluster, label::ROLE: "master", label::TYPE: "master"});
    let (provider_spec, failure_domains) = spread(existing, &machines, newest, platform)?;
    let mut template = json!({
        "metadata": {"labels": labels},
        "spec": {"providerSpec": {"value": provider_spec}},
    });
    if !newest.spec.taints.is_empty() {
        fields::set(&mut template, &["spec", "taints"], json!(newest.spec.taints));
    }
    if let Some(metadata) = &newest.spec.metadata {
        fields::set(&mut template, &["spec", "metadata"], json!(metadata));
    }
    if !failure_domains.is_empty() {
        fields::set(
            &mut template,
            &["failureDomains"],
            list(platform, failure_domains.iter()),
        );
    }
    let namespace = newest.metadata.namespace.as_deref().unwrap_or(NAMESPACE);
    let set = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "state": "Inactive",
            "replicas": replicas(&machines)?.count(),
            "strategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": labels},
            "template": {"machineType": MACHINE_TYPE, MACHINE_TYPE: template},
        },
    });
    // Made of the same fields, so it always reads back; a default would be refused by every check
    // that follows.
    Ok(serde_json::from_value(set).unwrap_or_default())
}

/// The set that describes what exists, for a set that was generated before: `None` while machines
/// are missing, which says nothing about the control plane that is wanted; least of all that it has
/// a failure domain less. What cannot be changed any more stays.
pub fn update(
    existing: &Existing<'_>,
    before: &ControlPlaneMachineSet,
) -> Result<Option<ControlPlaneMachineSet>, Unsupported> {
    let mut staying = control_plane(existing.machines);
    staying.retain(|machine| !machine.metadata.is_deleting());
    let wanted = before.spec.replicas.unwrap_or_default();
    // Two of one index stand for one machine: another index lacks its own.
    if i64::try_from(places(&staying)).unwrap_or(i64::MAX) < i64::from(wanted) {
        return Ok(None);
    }
    let mut set = describe(existing)?;
    set.spec.replicas = before.spec.replicas;
    Ok(as_spread(before, set))
}

/// The set, with the failure domains that it had before where it would have too few without them.
/// `None` where it has none at all any more: then the template says where machines stand, and
/// cannot say two places.
fn as_spread(before: &ControlPlaneMachineSet, mut set: ControlPlaneMachineSet) -> Option<ControlPlaneMachineSet> {
    let listed = |set: &ControlPlaneMachineSet| -> BTreeSet<FailureDomain> {
        let template = set.spec.template.machine.iter();
        let domains = template.filter_map(|template| template.failure_domains.as_ref());
        domains.flat_map(domains::list).collect()
    };
    let (old, new) = (listed(before), listed(&set));
    let replicas = before.spec.replicas.and_then(|count| usize::try_from(count).ok());
    let spread = |domains: &BTreeSet<FailureDomain>| domains.len().clamp(1, replicas.unwrap_or(1).max(1));
    if spread(&new) >= spread(&old) {
        return Some(set);
    }
    let platform = new.first()?.platform();
    let all: BTreeSet<FailureDomain> = new.into_iter().chain(old).collect();
    let template = set.spec.template.machine.as_mut()?;
    template.failure_domains = serde_json::from_value(list(platform, all.iter())).ok();
    Some(set)
}

/// Failure domains as a set lists them.
fn list<'a>(platform: Platform, domains: impl Iterator<Item = &'a FailureDomain>) -> Value {
    let of_platform = domains.filter(|domain| domain.platform() == platform);
    let entries: Vec<&Value> = of_platform.map(FailureDomain::entry).collect();
    json!({"platform": platform.name(), platform.member(): entries})
}

fn is_control_plane(machine: &Machine) -> bool {
    let is = |key: &str| {
        let value = machine.metadata.labels.get(key).map(String::as_str);
        matches!(value, Some("master" | "control-plane"))
    };
    is(label::ROLE) && is(label::TYPE)
}

/// The machines of the control plane that are not going, newest first; after them those that are
/// going and have no successor yet, since where they stand there is still to be a machine. Only
/// those that a set would select: one that a person took a label off is neither described nor
/// moved, and admission does not count it.
fn control_plane(machines: &[Arc<Machine>]) -> Vec<&Machine> {
    let (mut staying, mut going): (Vec<&Machine>, Vec<&Machine>) = machines
        .iter()
        .map(|machine| &**machine)
        .filter(|machine| is_control_plane(machine))
        .partition(|machine| !machine.metadata.is_deleting());
    for machines in [&mut staying, &mut going] {
        machines.sort_by(|left, right| {
            let key = |machine: &Machine| (machine.metadata.creation_timestamp, machine.metadata.name().to_owned());
            key(right).cmp(&key(left))
        });
    }
    match staying.len() {
        // Deleting all of them at once says nothing about the control plane that is wanted.
        0 => going,
        // One machine is no control plane to describe.
        1 => staying,
        _ => {
            let indexes: BTreeSet<u32> = staying.iter().filter_map(|machine| index(machine)).collect();
            let replaced = |machine: &&Machine| index(machine).is_some_and(|index| indexes.contains(&index));
            let count = places(&staying);
            let missing = if count > 3 { 5_usize } else { 3 }.saturating_sub(count);
            staying.extend(going.into_iter().filter(|machine| !replaced(machine)).take(missing));
            staying
        }
    }
}

fn index(machine: &Machine) -> Option<u32> {
    indexes::of_name(machine.metadata.name())
}

fn provider_spec(machine: &Machine) -> &Value {
    machine.spec.provider_spec.value.as_ref().unwrap_or(&Value::Null)
}

fn platform(infrastructure: Option<&Infrastructure>, newest: &Machine) -> Result<Platform, Unsupported> {
    match infrastructure.and_then(Infrastructure::platform) {
        Some(name) => Platform::from_name(name).ok_or_else(|| Unsupported::Platform(name.to_owned())),
        None => {
            let spec = provider_spec(newest);
            let kind = fields::text(spec, &["kind"]).unwrap_or_default();
            Platform::of(spec).ok_or_else(|| Unsupported::Platform(kind.to_owned()))
        }
    }
}

/// How many machines of a set these are: one that is just being replaced by hand counts once.
fn places(machines: &[&Machine]) -> usize {
    let numbered: BTreeSet<u32> = machines.iter().filter_map(|machine| index(machine)).collect();
    let unnumbered = machines.iter().filter(|machine| index(machine).is_none()).count();
    numbered.len() + unnumbered
}

/// The size, from the indexes that exist.
fn replicas(machines: &[&Machine]) -> Result<Replicas, Unsupported> {
    match places(machines) {
        0..=3 => Ok(Replicas::Three),
        4 | 5 => Ok(Replicas::Five),
        more => Err(Unsupported::TooManyMachines(more)),
    }
}

fn agree(machines: &[&Machine], field: &'static str) -> Result<(), Unsupported> {
    let values: BTreeSet<&str> = machines
        .iter()
        .map(|machine| fields::text(provider_spec(machine), &[field]).unwrap_or_default())
        .collect();
    if values.len() < 2 {
        return Ok(());
    }
    Err(Unsupported::Differs {
        field,
        values: values.into_iter().map(|value| format!("{value:?}")).collect(),
    })
}

/// The provider spec of the template, and the failure domains.
fn spread(
    existing: &Existing<'_>,
    machines: &[&Machine],
    newest: &Machine,
    platform: Platform,
) -> Result<(Value, Vec<FailureDomain>), Unsupported> {
    let found: Vec<Option<FailureDomain>> = machines
        .iter()
        .map(|machine| domains::extract(provider_spec(machine), existing.infrastructure))
        .collect();
    let without: Vec<String> = machines
        .iter()
        .zip(&found)
        .filter(|(_, domain)| domain.is_none())
        .map(|(machine, _)| machine.metadata.name().to_owned())
        .collect();
    let whole = provider_spec(newest).clone();
    let must_name = platform == Platform::VSphere
        && existing
            .infrastructure
            .is_some_and(|infrastructure| !domains::defined_names(platform, infrastructure).is_empty());
    if without.len() == machines.len() && !must_name {
        return Ok((whole, Vec::new()));
    }
    if !without.is_empty() {
        return Err(Unsupported::MixedDomains(without));
    }
    let standing: Vec<FailureDomain> = found.into_iter().flatten().collect();
    let distinct: BTreeSet<&FailureDomain> = standing.iter().collect();
    if platform == Platform::Azure {
        return Ok(azure(existing, &whole, &standing));
    }
    // One that is going stands where it stands until it is gone, and may be what tells where its
    // successor belongs.
    let going = existing.machines.iter().filter(|machine| is_control_plane(machine));
    let going = going.filter_map(|machine| domains::extract(provider_spec(machine), existing.infrastructure));
    let all: BTreeSet<FailureDomain> = going.chain(standing.iter().cloned()).collect();
    let mut domains: Vec<FailureDomain> = all.into_iter().filter(|domain| domain.platform() == platform).collect();
    if distinct.len() == standing.len() {
        // Nobody shares a domain, so that one more to choose from moves nobody.
        domains.extend(unused(existing, platform, &domains));
    }
    domains.sort();
    Ok((domains::strip(&whole), domains))
}

/// Domains of MachineSets for workers that stand nowhere special.
fn unused(existing: &Existing<'_>, platform: Platform, used: &[FailureDomain]) -> BTreeSet<FailureDomain> {
    existing
        .machine_sets
        .iter()
        .filter(|set| {
            let template = &set.spec.template;
            let role = template.metadata.labels.get(label::ROLE).map(String::as_str);
            // Tainted sets are for special places, such as the edge zones of a cloud.
            role == Some("worker") && template.spec.taints.is_empty() && !set.metadata.is_deleting()
        })
        .filter_map(|set| set.spec.template.spec.provider_spec.value.as_ref())
        .filter_map(|spec| domains::extract(spec, existing.infrastructure))
        .filter(|domain| domain.platform() == platform && same_shape(domain, used))
        .filter(|domain| !used.contains(domain) && !shares_zone(domain, used))
        .collect()
}

/// Whether a domain says as much as those in use: a subnet where they have one, a root volume where
/// they have one.
fn same_shape(domain: &FailureDomain, used: &[FailureDomain]) -> bool {
    let shape = |domain: &FailureDomain| -> Vec<String> {
        domain
            .full()
            .as_object()
            .map(|map| map.keys().cloned().collect())
            .unwrap_or_default()
    };
    used.first().is_some_and(|first| shape(first) == shape(domain))
}

/// Whether a domain is another subnet of a zone that is in use: no place of its own for a control
/// plane.
fn shares_zone(domain: &FailureDomain, used: &[FailureDomain]) -> bool {
    let zone = |domain: &FailureDomain| domain.full().get("placement").cloned();
    zone(domain).is_some() && used.iter().any(|other| zone(other) == zone(domain))
}

/// Azure: what all machines have in common stays in the template, and only the rest makes a domain.
fn azure(existing: &Existing<'_>, whole: &Value, standing: &[FailureDomain]) -> (Value, Vec<FailureDomain>) {
    let values = |field: &str| -> BTreeSet<String> {
        let text = |domain: &FailureDomain| fields::text(domain.full(), &[field]).unwrap_or_default().to_owned();
        standing.iter().map(text).collect()
    };
    let (zones, subnets) = (values("zone"), values("subnet"));
    if zones.len() < 2 && subnets.len() < 2 {
        return (whole.clone(), Vec::new());
    }
    let mut template = whole.clone();
    for (field, differs) in [("zone", zones.len() > 1), ("subnet", subnets.len() > 1)] {
        if differs {
            fields::remove(&mut template, &[field]);
        }
    }
    let entry = |domain: &FailureDomain| {
        let mut entry = Map::new();
        let text = |field: &str| fields::text(domain.full(), &[field]).unwrap_or_default();
        let zone = if zones.len() > 1 { text("zone") } else { "" };
        entry.insert("zone".to_owned(), json!(zone));
        if subnets.len() > 1 && !text("subnet").is_empty() {
            entry.insert("subnet".to_owned(), json!(text("subnet")));
        }
        FailureDomain::new(Platform::Azure, Value::Object(entry))
    };
    let mut domains: BTreeSet<FailureDomain> = standing.iter().map(entry).collect();
    // Workers have a subnet of their own: of a MachineSet only the zone says anything about a
    // control plane.
    if subnets.len() < 2 && zones.len() == standing.len() && !zones.contains("") {
        let zone_of = |set: &Arc<MachineSet>| {
            let spec = set.spec.template.spec.provider_spec.value.as_ref()?;
            let domain = domains::extract(spec, None).filter(|domain| domain.platform() == Platform::Azure)?;
            fields::text(domain.full(), &["zone"]).map(|zone| json!({ "zone": zone }))
        };
        let more = existing
            .machine_sets
            .iter()
            .filter(|set| set.spec.template.spec.taints.is_empty());
        domains.extend(
            more.filter_map(zone_of)
                .map(|entry| FailureDomain::new(Platform::Azure, entry)),
        );
    }
    (template, domains.into_iter().collect())
}

#[cfg(test)]
mod tests;

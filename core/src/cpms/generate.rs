//! The generated set: an Inactive set for a cluster without a set, made from the existing machines.
//!
//! Activating it starts no rollout, with two exceptions: machines that differ from the newest
//! machine are replaced, because a set has one template; and of five machines, those that are not
//! spread evenly over the failure domains are moved.
//!
//! The template is the spec of the newest machine, without the fields that the failure domains set.
//! The failure domains are those of the machines. Unused failure domains of the cluster's
//! MachineSets are added if they would move no machine. Machines that a set cannot describe are
//! refused with a reason.
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

/// Why no set can be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// There is no machine.
    #[error(
        "no control plane machine exists: a Machine with the labels machine.openshift.io/cluster-api-machine-role and \
         machine.openshift.io/cluster-api-machine-type, both master, that is not in another namespace"
    )]
    NoMachine,
    /// There is one machine.
    #[error("{0} control plane machine(s) exist, and a set manages 3 or 5")]
    TooFewMachines(usize),
    /// There are more machines than a set can have.
    #[error("{0} control plane indexes exist, and a set manages 3 or 5")]
    TooManyMachines(usize),
    /// The platform is not supported.
    #[error("platform {0:?} is not supported; supported are AWS, Azure, GCP, Nutanix, OpenStack and VSphere")]
    Platform(String),
    /// The provider spec of a machine has another kind than its platform.
    #[error("machine {machine} has a provider spec of kind {kind:?}, and the platform is {platform}")]
    OtherKind {
        /// The machine.
        machine: String,
        /// The kind of its provider spec.
        kind: String,
        /// The platform.
        platform: Platform,
    },
    /// The machines are of several clusters, and the Infrastructure names none of them.
    #[error(
        "control plane machines of several clusters exist (label machine.openshift.io/cluster-api-cluster: {}), and \
         status.infrastructureName of the Infrastructure names none of them", .0.join(", ")
    )]
    SeveralClusters(Vec<String>),
    /// The newest machine has no cluster label.
    #[error("machine {0} has no label machine.openshift.io/cluster-api-cluster")]
    NoCluster(String),
    /// Some machines have a failure domain and others have none: a set would move the others.
    #[error("machines {} have no known failure domain, and other machines have one", .0.join(", "))]
    MixedDomains(Vec<String>),
    /// Some control plane nodes belong to no machine that a set would select, so that the number of
    /// replicas is unknown.
    #[error(
        "control plane node(s) {} belong to no control plane machine, so the number of replicas, which cannot be changed later, \
         is not known; give their machines the labels of a control plane machine, or remove the nodes", .0.join(", ")
    )]
    UnclaimedNodes(Vec<String>),
    /// Machines differ in a field that a failure domain does not set.
    #[error("machines differ in {field}: {}; a set has one template", values.join(", "))]
    Differs {
        /// The field of the provider spec.
        field: &'static str,
        /// The values.
        values: Vec<String>,
    },
}

/// The existing objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Existing<'a> {
    /// The machines of the namespace. Machines outside the control plane are ignored.
    pub machines: &'a [Arc<Machine>],
    /// MachineSets of the namespace.
    pub machine_sets: &'a [Arc<MachineSet>],
    /// The nodes, by name; `None` if they are unknown: then they are not checked.
    pub nodes: Option<&'a BTreeMap<String, Arc<Node>>>,
    /// The Infrastructure `cluster`. Without it, the platform is taken from the machines.
    pub infrastructure: Option<&'a Infrastructure>,
}

impl<'a> Existing<'a> {
    /// The existing objects with other machines.
    fn with(&self, machines: &'a [Arc<Machine>]) -> Self {
        Self { machines, ..*self }
    }
}

/// The object for which the machines are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// A set, which manages 3 or 5 machines.
    Set,
    /// A ControlPlane, which takes the template only.
    ControlPlane,
}

/// The set that describes the existing machines. Its replicas are immutable, so that no set is
/// generated while a control plane node belongs to no selected machine.
///
/// # Errors
/// No set can describe the machines.
pub fn generate(existing: &Existing<'_>) -> Result<ControlPlaneMachineSet, Unsupported> {
    described(existing, For::Set)
}

/// The set whose template a ControlPlane for the existing machines gets. It describes any number of
/// machines, and its own replicas mean nothing.
///
/// # Errors
/// No template can describe the machines.
pub fn generate_for_control_plane(existing: &Existing<'_>) -> Result<ControlPlaneMachineSet, Unsupported> {
    described(existing, For::ControlPlane)
}

fn described(existing: &Existing<'_>, object: For) -> Result<ControlPlaneMachineSet, Unsupported> {
    let machines = of_this_cluster(existing)?;
    let existing = &existing.with(&machines);
    let set = describe(existing, object)?;
    let machines = existing.machines.iter().filter(|machine| is_control_plane(machine));
    let unclaimed = unclaimed(existing.nodes.iter().flat_map(|nodes| nodes.values()), machines);
    if unclaimed.is_empty() {
        Ok(set)
    } else {
        Err(Unsupported::UnclaimedNodes(unclaimed))
    }
}

fn describe(existing: &Existing<'_>, object: For) -> Result<ControlPlaneMachineSet, Unsupported> {
    let machines = control_plane(existing.machines);
    let newest = match machines.as_slice() {
        [] => return Err(Unsupported::NoMachine),
        [_] if object == For::Set => return Err(Unsupported::TooFewMachines(1)),
        [newest, ..] => *newest,
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
    let replicas = match object {
        For::Set => replicas(&machines)?,
        For::ControlPlane => Replicas::Three,
    };
    let namespace = newest.metadata.namespace.as_deref().unwrap_or(NAMESPACE);
    let set = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "state": "Inactive",
            "replicas": replicas.count(),
            "strategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": labels},
            "template": {"machineType": MACHINE_TYPE, MACHINE_TYPE: template},
        },
    });
    // The value has only fields of the type, so that it always decodes. If it did not, every later
    // check would refuse the default.
    Ok(serde_json::from_value(set).unwrap_or_default())
}

/// The updated set, for a set that was generated before. `None` while machines are missing: then
/// the machines do not show the desired control plane, and a failure domain may be missing too.
/// Immutable fields keep their values.
pub fn update(
    existing: &Existing<'_>,
    before: &ControlPlaneMachineSet,
) -> Result<Option<ControlPlaneMachineSet>, Unsupported> {
    let machines = of_this_cluster(existing)?;
    let existing = &existing.with(&machines);
    let mut staying = control_plane(existing.machines);
    staying.retain(|machine| !machine.metadata.is_deleting());
    let wanted = before.spec.replicas.unwrap_or_default();
    // Two machines of one index count once: another index has no machine.
    if i64::try_from(places(&staying)).unwrap_or(i64::MAX) < i64::from(wanted) {
        return Ok(None);
    }
    let mut set = describe(existing, For::Set)?;
    set.spec.replicas = before.spec.replicas;
    Ok(as_spread(before, set))
}

/// The set with its previous failure domains, if it would have too few without them. `None` if it
/// would have none: then the template sets the location of all machines, and it can name only one.
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

/// Failure domains in the form of a set.
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

/// The control plane machines of this cluster. A namespace can have machines of another cluster, as
/// a hosting cluster does: a set of those machines would select none of this cluster. If all
/// machines have one cluster label, they are of this cluster, whatever the Infrastructure says.
fn of_this_cluster(existing: &Existing<'_>) -> Result<Vec<Arc<Machine>>, Unsupported> {
    let cluster = |machine: &Arc<Machine>| machine.metadata.labels.get(label::CLUSTER).cloned().unwrap_or_default();
    let mut machines: Vec<_> = existing.machines.to_vec();
    machines.retain(|machine| is_control_plane(machine));
    let clusters: BTreeSet<String> = machines.iter().map(cluster).collect();
    if clusters.len() < 2 {
        return Ok(machines);
    }
    let name = existing
        .infrastructure
        .map(|one| one.status.infrastructure_name.as_str());
    match name.filter(|name| !name.is_empty() && clusters.contains(*name)) {
        Some(name) => {
            machines.retain(|machine| cluster(machine) == name);
            Ok(machines)
        }
        None => {
            let quoted = clusters.into_iter().map(|cluster| format!("{cluster:?}"));
            Err(Unsupported::SeveralClusters(quoted.collect()))
        }
    }
}

/// The machines of the control plane that are not being deleted, newest first. After them, the
/// machines that are being deleted and have no replacement yet, since a machine is required in
/// their failure domains. Only machines that a set would select: a machine without one of the
/// labels is neither described nor moved, and admission does not count it.
fn control_plane(machines: &[Arc<Machine>]) -> Vec<&Machine> {
    let (mut staying, mut deleting): (Vec<&Machine>, Vec<&Machine>) = machines
        .iter()
        .map(|machine| &**machine)
        .filter(|machine| is_control_plane(machine))
        .partition(|machine| !machine.metadata.is_deleting());
    for machines in [&mut staying, &mut deleting] {
        machines.sort_by(|left, right| {
            let key = |machine: &Machine| (machine.metadata.creation_timestamp, machine.metadata.name().to_owned());
            key(right).cmp(&key(left))
        });
    }
    match staying.len() {
        // If all machines are being deleted, they describe the control plane.
        0 => deleting,
        // One machine does not describe a control plane.
        1 => staying,
        _ => {
            let indexes: BTreeSet<u32> = staying.iter().filter_map(|machine| index(machine)).collect();
            let replaced = |machine: &&Machine| index(machine).is_some_and(|index| indexes.contains(&index));
            let count = places(&staying);
            let missing = if count > 3 { 5_usize } else { 3 }.saturating_sub(count);
            staying.extend(deleting.into_iter().filter(|machine| !replaced(machine)).take(missing));
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

/// The number of indexes of these machines. A machine and its replacement count once.
fn places(machines: &[&Machine]) -> usize {
    let numbered: BTreeSet<u32> = machines.iter().filter_map(|machine| index(machine)).collect();
    let unnumbered = machines.iter().filter(|machine| index(machine).is_none()).count();
    numbered.len() + unnumbered
}

/// The number of replicas for the existing indexes.
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
    let in_use: Vec<FailureDomain> = found.into_iter().flatten().collect();
    let distinct: BTreeSet<&FailureDomain> = in_use.iter().collect();
    if platform == Platform::Azure {
        return Ok(azure(existing, &whole, &in_use));
    }
    // A machine that is being deleted keeps its failure domain until it is gone. It may be the only
    // machine that shows the failure domain of its replacement.
    let deleting = existing.machines.iter().filter(|machine| is_control_plane(machine));
    let deleting = deleting.filter_map(|machine| domains::extract(provider_spec(machine), existing.infrastructure));
    let all: BTreeSet<FailureDomain> = deleting.chain(in_use.iter().cloned()).collect();
    let mut domains: Vec<FailureDomain> = all.into_iter().filter(|domain| domain.platform() == platform).collect();
    if distinct.len() == in_use.len() {
        // No two machines share a failure domain, so that an additional one moves no machine.
        domains.extend(unused(existing, platform, &domains));
    }
    domains.sort();
    Ok((domains::strip(&whole), domains))
}

/// Failure domains of MachineSets for workers without taints, which no control plane machine uses.
fn unused(existing: &Existing<'_>, platform: Platform, used: &[FailureDomain]) -> BTreeSet<FailureDomain> {
    existing
        .machine_sets
        .iter()
        .filter(|set| {
            let template = &set.spec.template;
            let role = template.metadata.labels.get(label::ROLE).map(String::as_str);
            // MachineSets with taints are for special locations, such as the edge zones of a cloud.
            role == Some("worker") && template.spec.taints.is_empty() && !set.metadata.is_deleting()
        })
        .filter_map(|set| set.spec.template.spec.provider_spec.value.as_ref())
        .filter_map(|spec| domains::extract(spec, existing.infrastructure))
        .filter(|domain| domain.platform() == platform && same_shape(domain, used))
        .filter(|domain| !used.contains(domain) && !shares_zone(domain, used))
        .collect()
}

/// Whether a failure domain has the same fields as those in use: for example a subnet, or a root
/// volume.
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

/// Whether a failure domain is another subnet of a zone that is in use. It would not improve the
/// spread.
fn shares_zone(domain: &FailureDomain, used: &[FailureDomain]) -> bool {
    let zone = |domain: &FailureDomain| domain.full().get("placement").cloned();
    zone(domain).is_some() && used.iter().any(|other| zone(other) == zone(domain))
}

/// Azure: values that all machines share stay in the template, and the failure domains have the
/// others.
fn azure(existing: &Existing<'_>, whole: &Value, in_use: &[FailureDomain]) -> (Value, Vec<FailureDomain>) {
    let values = |field: &str| -> BTreeSet<String> {
        let text = |domain: &FailureDomain| fields::text(domain.full(), &[field]).unwrap_or_default().to_owned();
        in_use.iter().map(text).collect()
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
    let mut domains: BTreeSet<FailureDomain> = in_use.iter().map(entry).collect();
    // Workers have their own subnet. From a MachineSet, only the zone applies to a control plane.
    if subnets.len() < 2 && zones.len() == in_use.len() && !zones.contains("") {
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

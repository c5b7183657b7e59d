//! The state of a pool: its instances, each with its Machine and its Node.
//!
//! An instance is an infrastructure machine of the pool. A Machine without an instance, and an
//! instance without a Machine, are members too. The state decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::observed::Observed;
use super::recreation::Recreations;
use super::version;
use crate::api::cluster_x_k8s_io::annotation::{DELETE_MACHINE, PAUSED, REMEDIATE_MACHINE, REPLICAS_MANAGED_BY};
use crate::api::cluster_x_k8s_io::control_plane::{Cluster, Machine};
use crate::api::cluster_x_k8s_io::machine::FINALIZER;
use crate::api::cluster_x_k8s_io::machine_pool::{KIND, MachinePool};
use crate::api::core_v1::node::Node;
use crate::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use crate::api::meta::OwnerReference;

/// The annotation of a Machine that shows an instance which the provider cannot delete alone.
pub const RECORD: &str = "capstan.dev/instance-record";
/// The value of the annotation that marks a machine for deletion, if Capstan sets it. Capstan
/// removes only such a mark.
pub(super) const MARKED_BY_US: &str = "capstan.dev";
/// How long the core manager may take to add its finalizer to a new Machine.
const TAKEN_UP_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// An instance of the pool.
#[derive(Clone, Debug)]
pub struct Member {
    /// The name of the Machine, or that of the infrastructure machine.
    pub name: String,
    /// The Machine.
    pub machine: Option<Arc<Machine>>,
    /// The infrastructure machine.
    pub instance: Option<Arc<Infrastructure>>,
    /// The name of the Node: of the one with the provider ID of the instance, or else of the one
    /// that the Machine reports. Empty while no Node exists.
    pub node: String,
    /// The version of the kubelet; empty if it is not known.
    pub version: String,
    /// Whether the Node has been ready for `minReadySeconds`.
    pub is_available: bool,
    /// When the Node will have been ready for `minReadySeconds`.
    pub available_at: Option<Timestamp>,
    /// Why the instance is outdated.
    pub outdated: Option<String>,
    /// Until when the core manager may still take up the Machine, which is new and has no finalizer
    /// of it. Its deletion would leave the instance, and the Machine would be created again.
    pub taken_up_until: Option<Timestamp>,
}

impl Member {
    /// Whether the deletion of the Machine or of the infrastructure machine was requested.
    pub fn is_deleting(&self) -> bool {
        let machine = self.machine.iter().any(|machine| machine.metadata.is_deleting());
        machine || self.instance.iter().any(|instance| instance.metadata.is_deleting())
    }

    /// Whether a user or the cluster autoscaler wants this machine to be deleted first.
    pub fn is_marked(&self) -> bool {
        self.has(DELETE_MACHINE)
    }

    /// Whether Capstan set that mark.
    pub(super) fn is_marked_by_us(&self) -> bool {
        let mark = self
            .machine
            .iter()
            .find_map(|machine| machine.metadata.annotations.get(DELETE_MACHINE));
        mark.is_some_and(|value| value == MARKED_BY_US)
    }

    /// Whether a health check requests the remediation of the Machine.
    pub fn is_unhealthy(&self) -> bool {
        let is_false = |type_: &str| {
            let mut machines = self.machine.iter();
            machines.any(|machine| has_condition(machine, type_, "False"))
        };
        self.has(REMEDIATE_MACHINE) || (is_false("HealthCheckSucceeded") && is_false("OwnerRemediated"))
    }

    /// When the instance was first seen: its infrastructure machine is made before its Machine.
    pub(super) fn first_seen(&self) -> Option<Timestamp> {
        let instance = self.instance.as_ref().map(|instance| &instance.metadata);
        let created = instance.and_then(|metadata| metadata.creation_timestamp);
        created.or_else(|| self.created())
    }

    /// When the Machine was created, or else the infrastructure machine.
    pub fn created(&self) -> Option<Timestamp> {
        let machine = self.machine.as_ref().map(|machine| &machine.metadata);
        let metadata = machine.or(self.instance.as_ref().map(|instance| &instance.metadata))?;
        metadata.creation_timestamp
    }

    fn has(&self, annotation: &str) -> bool {
        let mut machines = self.machine.iter();
        machines.any(|machine| machine.metadata.annotations.contains_key(annotation))
    }
}

/// A Machine and its infrastructure machine.
type Pair<'a> = (Option<&'a Arc<Machine>>, Option<&'a Arc<Infrastructure>>);

/// The state of a pool.
#[derive(Clone, Debug)]
pub struct State {
    /// The pool.
    pub pool: MachinePool,
    /// The Cluster.
    pub cluster: Option<Arc<Cluster>>,
    /// The infrastructure object of the pool.
    pub infrastructure: Option<Arc<Infrastructure>>,
    /// The object that generates the bootstrap data of the pool.
    pub bootstrap: Option<Arc<Infrastructure>>,
    /// The members, by name.
    pub members: Vec<Member>,
    /// Whether all infrastructure machines are known.
    pub knows_instances: bool,
    /// The Nodes of the cluster; `None` if they are not known.
    pub nodes: Option<Vec<Arc<Node>>>,
    /// Machines with the labels of the pool that another object controls.
    pub foreign: Vec<String>,
    /// Machines with the labels of the pool that nothing controls, and that refer to another kind
    /// than that of the instances.
    pub unrelated: Vec<String>,
    /// Infrastructure machines of Machines of the pool that lack the labels of the pool.
    pub unlabelled: Vec<String>,
    /// Machines with the name of an instance that has no Machine. They lack the labels of the pool.
    pub strays: Vec<String>,
    /// Machines of the pool with the name of an instance that has no Machine, and what they refer
    /// to instead of it, as `Kind "name"`. No controller changes the reference of a Machine.
    pub misreferring: BTreeMap<String, String>,
    /// The creations that were repeated. Nothing is known of them from the objects alone.
    pub recreations: Recreations,
}

impl State {
    /// The state of the snapshot at a moment.
    pub fn observe(observed: &Observed, now: Timestamp) -> Self {
        let (own, foreign): (Vec<_>, Vec<_>) = observed
            .machines
            .iter()
            .partition(|machine| is_of(machine, &observed.pool));
        let (unrelated, own): (Vec<_>, Vec<_>) = own.into_iter().partition(|machine| is_unrelated(machine, observed));
        let mut instances: BTreeMap<&str, &Arc<Infrastructure>> = observed
            .instances
            .iter()
            .map(|instance| (instance.metadata.name(), instance))
            .collect();
        let nodes = observed.knows_nodes.then(|| nodes(&observed.nodes));
        let mut pairs: Vec<Pair<'_>> = Vec::new();
        for machine in own.iter().copied() {
            let reference = &machine.spec.infrastructure_ref;
            let is_kind = |instance: &&Arc<Infrastructure>| instance.kind == reference.kind;
            let instance = instances.get(reference.name.as_str()).copied().filter(is_kind);
            if instance.is_some() {
                instances.remove(reference.name.as_str());
            }
            pairs.push((Some(machine), instance));
        }
        let misreferring = misreferring(&own, &instances);
        pairs.extend(instances.into_values().map(|instance| (None, Some(instance))));
        let member = |(machine, instance)| member(machine, instance, nodes.as_ref(), &observed.pool, now);
        let mut members: Vec<Member> = pairs.into_iter().map(member).collect();
        members.sort_by(|left, right| left.name.cmp(&right.name));
        Self {
            pool: observed.pool.clone(),
            cluster: observed.cluster.clone(),
            infrastructure: observed.infrastructure.clone(),
            bootstrap: observed.bootstrap.clone(),
            members,
            knows_instances: observed.knows_instances,
            nodes: observed.knows_nodes.then(|| observed.nodes.clone()),
            unlabelled: unlabelled(observed),
            strays: strays(observed),
            misreferring,
            recreations: Recreations::default(),
            foreign: names(&foreign),
            unrelated: names(&unrelated),
        }
    }

    /// The name of the pool.
    pub fn name(&self) -> &str {
        self.pool.metadata.name()
    }

    /// The namespace of the pool.
    pub fn namespace(&self) -> &str {
        self.pool.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The number of instances that the pool wants.
    pub fn replicas(&self) -> usize {
        usize::try_from(self.pool.spec.replicas.unwrap_or(1)).unwrap_or(0)
    }

    /// Whether the pool or its Cluster is paused.
    pub fn is_paused(&self) -> bool {
        let cluster = self.cluster.iter().any(|cluster| cluster.spec.paused);
        cluster || self.pool.metadata.annotations.contains_key(PAUSED)
    }

    /// The kind of the infrastructure machines. `None` if the provider has none: then it cannot
    /// delete a single instance. Source: the MachinePool Machines proposal,
    /// `status.infrastructureMachineKind`.
    pub fn machine_kind(&self) -> Option<&str> {
        machine_kind(self.infrastructure.as_deref()?)
    }

    /// Whether the infrastructure of the pool exists, in one of the two forms of the contract.
    pub fn is_provisioned(&self) -> bool {
        let status = self.infrastructure.as_ref();
        let status = status.and_then(|infrastructure| infrastructure.unknown_fields.get("status"));
        let is = |pointer: &str| status.and_then(|status| status.pointer(pointer)) == Some(&Value::Bool(true));
        is("/initialization/provisioned") || is("/ready")
    }

    /// What the provider reports as a failure of the pool.
    pub fn failure(&self) -> Option<String> {
        let status = self.infrastructure.as_ref()?.unknown_fields.get("status")?;
        let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
        let parts = [text("failureReason"), text("failureMessage")];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join(": "))
    }

    /// The provider IDs that the provider lists.
    pub fn provider_ids(&self) -> Vec<&str> {
        let spec = self.infrastructure.as_ref().map(|infrastructure| &infrastructure.spec);
        let ids = spec
            .and_then(|spec| spec.get("providerIDList"))
            .and_then(Value::as_array);
        ids.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Whether something outside of the cluster sets the number of instances.
    pub fn is_scaled_outside(&self) -> bool {
        let managed = self.pool.metadata.annotations.get(REPLICAS_MANAGED_BY);
        managed.is_some_and(|by| by != "false")
    }

    /// The other MachinePool that controls the infrastructure object of this one.
    pub fn other_pool(&self) -> Option<&OwnerReference> {
        let owner = self.infrastructure.as_ref()?.metadata.controller()?;
        (owner.kind == KIND && !is_pool(owner, &self.pool)).then_some(owner)
    }

    /// The members of which no deletion was requested.
    pub fn staying(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.is_deleting())
    }
}

/// Whether a Machine belongs to the pool: the pool controls it, or nothing does.
fn is_of(machine: &Machine, pool: &MachinePool) -> bool {
    let mut owners = machine.metadata.controller().into_iter();
    owners.all(|owner| is_pool(owner, pool))
}

/// Whether a Machine with the labels of the pool belongs to something else: nothing controls it, it
/// refers to another kind than that of the instances, and it has the name of none of them (V272).
fn is_unrelated(machine: &Machine, observed: &Observed) -> bool {
    let Some(kind) = observed.infrastructure.as_deref().and_then(machine_kind) else {
        return false;
    };
    let reference = &machine.spec.infrastructure_ref;
    let group = &observed.pool.spec.template.spec.infrastructure_ref.api_group;
    let mut instances = observed.instances.iter();
    machine.metadata.controller().is_none()
        && !machine.metadata.annotations.contains_key(RECORD)
        && (reference.kind != kind || reference.api_group != *group)
        && instances.all(|instance| instance.metadata.name() != machine.metadata.name())
}

/// The kind of the infrastructure machines, as the infrastructure object of a pool reports it.
fn machine_kind(infrastructure: &Infrastructure) -> Option<&str> {
    let status = infrastructure.unknown_fields.get("status")?;
    let kind = status.get("infrastructureMachineKind").and_then(Value::as_str)?;
    (!kind.is_empty()).then_some(kind)
}

fn names(machines: &[&Arc<Machine>]) -> Vec<String> {
    let names = machines.iter().map(|machine| machine.metadata.name());
    names.map(str::to_owned).collect()
}

/// Whether an owner is the pool.
fn is_pool(owner: &OwnerReference, pool: &MachinePool) -> bool {
    let is_named = owner.kind == KIND && owner.name == pool.metadata.name();
    is_named && (pool.metadata.uid().is_empty() || owner.uid == pool.metadata.uid())
}

fn unlabelled(observed: &Observed) -> Vec<String> {
    let instances = observed.instances.iter();
    let unlabelled = instances.filter(|instance| !observed.is_of_pool(&instance.metadata.labels));
    let names = unlabelled.map(|instance| instance.metadata.name().to_owned());
    names.collect()
}

/// The Machines with the name of one of the instances that have no Machine.
fn misreferring(
    machines: &[&Arc<Machine>],
    instances: &BTreeMap<&str, &Arc<Infrastructure>>,
) -> BTreeMap<String, String> {
    let named = machines
        .iter()
        .filter(|machine| instances.contains_key(machine.metadata.name()));
    let refers = named.map(|machine| {
        let reference = &machine.spec.infrastructure_ref;
        let refers_to = format!("{} {:?}", reference.kind, reference.name);
        (machine.metadata.name().to_owned(), refers_to)
    });
    refers.collect()
}

fn strays(observed: &Observed) -> Vec<String> {
    let without = observed.instances_without_machine().into_iter();
    let taken = without.filter(|name| observed.unlabelled_machines.contains(*name));
    taken.map(str::to_owned).collect()
}

/// The Nodes by provider ID.
type NodesById<'a> = BTreeMap<&'a str, Option<&'a Arc<Node>>>;

/// The Nodes by provider ID. A Node without a provider ID belongs to no instance. Two Nodes with
/// one provider ID are ambiguous, and belong to none.
fn nodes(nodes: &[Arc<Node>]) -> NodesById<'_> {
    let mut by_id = NodesById::new();
    for node in nodes {
        let Some(id) = provider_id(node) else {
            continue;
        };
        by_id.entry(id).and_modify(|known| *known = None).or_insert(Some(node));
    }
    by_id
}

fn member(
    machine: Option<&Arc<Machine>>,
    instance: Option<&Arc<Infrastructure>>,
    nodes: Option<&NodesById<'_>>,
    pool: &MachinePool,
    now: Timestamp,
) -> Member {
    let of_instance = instance.and_then(|instance| instance.spec.get("providerID")?.as_str());
    let of_machine = machine.map(|machine| machine.spec.provider_id.as_str());
    let id = of_instance.or(of_machine).unwrap_or_default();
    let node = nodes.and_then(|nodes| nodes.get(id).copied().flatten());
    let available_at = node.and_then(|node| available_at(node, pool));
    let reported = machine.filter(|_| nodes.is_none());
    let version = node.map_or_else(
        || reported.map_or("", |machine| reported_version(machine)),
        |node| kubelet_version(node),
    );
    let node_name = node.map_or_else(
        || reported.map_or("", |machine| machine.status.node_ref.name.as_str()),
        |node| node.metadata.name(),
    );
    let is_available = match nodes {
        Some(_) => available_at.is_some_and(|time| time <= now),
        None => machine.is_some_and(|machine| has_condition(machine, "Available", "True")),
    };
    let own = machine.map(|machine| machine.metadata.name());
    let name = own.or(instance.map(|instance| instance.metadata.name()));
    Member {
        name: name.unwrap_or_default().to_owned(),
        machine: machine.cloned(),
        instance: instance.cloned(),
        node: node_name.to_owned(),
        version: version.to_owned(),
        is_available,
        available_at,
        outdated: instance
            .and_then(|instance| outdated_by_provider(instance))
            .or_else(|| outdated_by_version(version, pool)),
        taken_up_until: machine.and_then(|machine| taken_up_until(machine, now)),
    }
}

/// Until when the core manager may still take up a new Machine; `None` for one that it took up.
fn taken_up_until(machine: &Machine, now: Timestamp) -> Option<Timestamp> {
    let metadata = &machine.metadata;
    let is_taken_up = metadata.finalizers.iter().any(|one| one == FINALIZER);
    let until = metadata.creation_timestamp?.checked_add(TAKEN_UP_WITHIN).ok()?;
    (!is_taken_up && until > now).then_some(until)
}

/// When a ready Node has been ready for long enough.
fn available_at(node: &Node, pool: &MachinePool) -> Option<Timestamp> {
    let ready = node.ready_condition().filter(|_| node.is_ready())?;
    let seconds = pool.spec.template.spec.min_ready_seconds.unwrap_or(0).max(0);
    let since = ready.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH);
    since.checked_add(SignedDuration::from_secs(i64::from(seconds))).ok()
}

/// The provider ID of a Node.
pub(super) fn provider_id(node: &Node) -> Option<&str> {
    let id = node.unknown_fields.get("spec")?.get("providerID")?.as_str()?;
    (!id.is_empty()).then_some(id)
}

fn has_condition(machine: &Machine, type_: &str, status: &str) -> bool {
    let mut conditions = machine.status.conditions.iter();
    conditions.any(|condition| condition.type_ == type_ && condition.status == status)
}

fn kubelet_version(node: &Node) -> &str {
    let info = node.status.unknown_fields.get("nodeInfo");
    info.and_then(|info| info.get("kubeletVersion")?.as_str())
        .unwrap_or_default()
}

/// The version of the kubelet that the Machine controller reports.
fn reported_version(machine: &Machine) -> &str {
    let info = machine.status.unknown_fields.get("nodeInfo");
    info.and_then(|info| info.get("kubeletVersion")?.as_str())
        .unwrap_or_default()
}

/// Why an instance is outdated, if its provider reports it: with the condition `UpToDate`, or with
/// `status.latestModelApplied`. Only the provider knows what an instance was made from.
fn outdated_by_provider(instance: &Infrastructure) -> Option<String> {
    let status = instance.unknown_fields.get("status")?;
    if status.get("latestModelApplied") == Some(&Value::Bool(false)) {
        return Some(String::from(
            "its provider reports that it does not have the latest model",
        ));
    }
    let conditions = status.get("conditions").and_then(Value::as_array)?;
    let text = |condition: &Value, field: &str| {
        let text = condition.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let is_outdated =
        |condition: &&Value| text(condition, "type") == "UpToDate" && text(condition, "status") == "False";
    let condition = conditions.iter().find(is_outdated)?;
    let message = [text(condition, "message"), text(condition, "reason")];
    let message = message.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    Some(format!("its provider reports that it is not up to date: {message}"))
}

/// Why a machine does not run the version of the template. A machine whose version is not known,
/// and a template without one, differ in nothing.
fn outdated_by_version(running: &str, pool: &MachinePool) -> Option<String> {
    let wanted = pool.spec.template.spec.version.as_str();
    version::is_other(running, wanted).then(|| format!("it runs {running}, and the template has {wanted}"))
}

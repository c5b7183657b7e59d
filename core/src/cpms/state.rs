//! What the control plane looks like: machines with index, domain and node, and what differs from the template.
//!
//! Reads one snapshot and judges nothing: what to do about it is said by `plan`, what is wrong with it by `degraded`.
//! A node that is gone, a machine without provider spec, an owner that is not ours: each is a value here, and none
//! stops the reading of the others (defect B1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::changes::FieldChange;
use super::domains::{FailureDomain, Platform};
use super::indexes::{self, Member};
use super::placement::{self, Placement, Standing};
use super::reconcile_cache::{Compared, ReconcileCache, Seen};
use super::spec::Spec;
use crate::api::config_openshift_io::cluster_operator::ClusterOperator;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::GROUP;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::api::machine_openshift_io::machine::Machine;
use crate::model::PendingCreation;

/// One snapshot of what a set depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Every machine of the namespace, also those that the selector does not select.
    pub machines: Vec<Arc<Machine>>,
    /// Nodes; those that do not belong to a control plane are ignored unless a machine names them.
    pub nodes: Vec<Arc<Node>>,
    /// The Infrastructure `cluster`.
    pub infrastructure: Option<Arc<Infrastructure>>,
    /// The ClusterOperator `etcd`; `None` where the kind is not served.
    pub etcd: Option<Arc<ClusterOperator>>,
    /// Objects that could not be read.
    pub unparsable: Vec<Unparsable>,
    /// Creations that were sent and never answered, the last one last. Only who sent them knows.
    pub unanswered: Vec<Unanswered>,
    /// Creations that other processes recorded in the set. Only they know whether they were
    /// answered.
    pub pending: Vec<PendingCreate>,
}

impl Observed {
    /// Whether there is a machine of this name, selected or not.
    pub(super) fn has_machine(&self, name: &str) -> bool {
        self.machines.iter().any(|machine| machine.metadata.name() == name)
    }
}

/// A creation that another process recorded in the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCreate {
    /// The record.
    pub creation: PendingCreation,
    /// Until when it may still take effect, by the clock of this process.
    pub until: Timestamp,
}

/// A creation that was sent and never answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Unanswered {
    /// The index that it was for.
    pub index: u32,
    /// What was asked for.
    pub machine: Arc<Machine>,
    /// Until when it may still be carried out, also a second time, after its machine came and went; `None`: that is over.
    pub until: Option<Timestamp>,
}

/// An object that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unparsable {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why.
    pub message: String,
}

/// What the administrator of Capstan chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long the node of a replacement must have been ready before the machine counts as ready (`--min-ready`).
    pub min_ready: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min_ready: SignedDuration::from_secs(10),
        }
    }
}

/// The node of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The machine names none yet.
    None,
    /// The machine names a node that is not there: not ready (defect B1).
    Missing {
        /// Name of the node.
        name: String,
    },
    /// The node does not say that it is ready.
    NotReady {
        /// Name of the node.
        name: String,
        /// Since when.
        since: Option<Timestamp>,
        /// Whether it had been there for long enough that it must have been ready before.
        lived: bool,
    },
    /// The node is ready.
    Ready {
        /// Name of the node.
        name: String,
        /// Since when; `None` if it does not say, which only hand-written nodes do.
        since: Option<Timestamp>,
    },
}

impl NodeState {
    /// The name of the node.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Missing { name } | Self::NotReady { name, .. } | Self::Ready { name, .. } => Some(name),
        }
    }
}

/// Who manages a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody: it is adopted.
    Nobody,
    /// This set.
    Ours,
    /// A set of this name that is gone: the reference is repaired (defect B4).
    Former {
        /// Uid of the set that is gone.
        uid: String,
    },
    /// Somebody else: the machine is refused, and the rollout stops (defect B6).
    Foreign {
        /// Kind and name of the owner.
        owner: String,
    },
}

/// A machine of the set.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineState {
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// Version that this was read from.
    pub resource_version: String,
    /// Index in the control plane.
    pub index: u32,
    /// Whether name or annotation say the index.
    pub index_recorded: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Since when it is being deleted.
    pub deleting: Option<Timestamp>,
    /// Where it stands, in the words of the set where the set lists the place.
    pub domain: Option<FailureDomain>,
    /// Its node.
    pub node: NodeState,
    /// Its phase, as the machine controller reports it.
    pub phase: Option<String>,
    /// Why the machine cannot be made or kept, if its controller gave up.
    pub failed: Option<String>,
    /// In which fields it differs from what the set asks for; empty: up to date.
    pub changes: Vec<FieldChange>,
    /// Who manages it.
    pub owner: Owner,
    /// Hooks that hold back its deletion, as `name (owner)`.
    pub hooks: Vec<String>,
}

impl MachineState {
    /// Whether the node is ready and the machine has not failed.
    pub fn is_ready(&self) -> bool {
        let running = matches!(self.phase.as_deref(), None | Some("Running" | "Deleting"));
        running && matches!(self.node, NodeState::Ready { .. })
    }

    /// From when on the machine counts as ready for a rollout; `None` while it is not ready.
    pub fn stable_from(&self, settings: &Settings) -> Option<Timestamp> {
        match &self.node {
            NodeState::Ready { since, .. } if self.is_ready() => Some(since.map_or(Timestamp::MIN, |since| {
                since.checked_add(settings.min_ready).unwrap_or(Timestamp::MAX)
            })),
            _ => None,
        }
    }

    /// Whether it is up to date.
    pub fn is_current(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether a deletion was asked for.
    pub fn is_deleting(&self) -> bool {
        self.deleting.is_some()
    }

    /// Whether the node, which was ready, is away only for as long as a restart takes. It counts for what is
    /// reported, so that an upgrade raises no alarm, and never for what is decided.
    pub fn is_restarting(&self, now: Timestamp) -> bool {
        let running = matches!(self.phase.as_deref(), None | Some("Running" | "Deleting"));
        match &self.node {
            NodeState::NotReady {
                since: Some(since),
                lived: true,
                ..
            } => running && now.duration_since(*since) < RESTART,
            _ => false,
        }
    }

    /// Why the machine is not ready, as a clause; `None` if it is.
    pub fn unready_because(&self) -> Option<String> {
        if self.is_ready() {
            return None;
        }
        Some(match (&self.failed, &self.node) {
            (Some(message), _) => format!("failed: {message}"),
            (None, NodeState::None) => match self.phase.as_deref() {
                Some(phase) => format!("has no node yet (phase {phase})"),
                None => "has no node yet".to_owned(),
            },
            (None, NodeState::Missing { name }) => format!("names node {name}, which does not exist"),
            (None, NodeState::NotReady { name, since, .. }) => {
                let since = since.map_or_else(String::new, |since| format!(" since {since}"));
                format!("has node {name}, which is not ready{since}")
            }
            (None, NodeState::Ready { name, .. }) => format!(
                "has node {name}, which is ready, but is itself in phase {}",
                self.phase.as_deref().unwrap_or_default()
            ),
        })
    }
}

/// How long a node may be away and still be restarting.
const RESTART: SignedDuration = SignedDuration::from_mins(20);
/// A node that was there for longer than this before it went away must have been ready.
const LIVED: SignedDuration = SignedDuration::from_mins(10);

/// What the etcd operator reports (decision 17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Etcd {
    /// No such operator is known: nothing is said, and nothing waits for it.
    NotReported,
    /// All members are healthy.
    Healthy,
    /// A member is not, or the operator does not know.
    Unhealthy {
        /// What the operator says.
        message: String,
    },
}

impl Etcd {
    fn of(operator: Option<&ClusterOperator>) -> Self {
        let Some(operator) = operator else {
            return Self::NotReported;
        };
        let text = |message: Option<&String>, otherwise: &str| Self::Unhealthy {
            message: message
                .filter(|text| !text.is_empty())
                .map_or_else(|| otherwise.to_owned(), Clone::clone),
        };
        let available = operator.condition("Available");
        let degraded = operator.condition("Degraded");
        match (available, degraded) {
            (_, Some(degraded)) if degraded.status == "True" => text(degraded.message.as_ref(), "it is degraded"),
            (Some(available), _) if available.status != "True" => {
                text(available.message.as_ref(), "it is not available")
            }
            // Available while one of three members is away: the message is the only place where it says so.
            (Some(available), _) if available.message.as_deref().is_some_and(names_unhealthy_member) => {
                text(available.message.as_ref(), "")
            }
            (None, _) => text(None, "it does not say whether etcd is available"),
            _ => Self::Healthy,
        }
    }
}

fn names_unhealthy_member(message: &str) -> bool {
    message.contains("is unhealthy") || message.contains("are unhealthy")
}

/// What the control plane looks like.
#[derive(Clone, Debug)]
pub struct State {
    /// The snapshot that this was read from.
    pub observed: Observed,
    /// What the administrator chose.
    pub settings: Settings,
    /// Names what the template asks for.
    pub revision: String,
    /// The machines of the set, by index, then age, then name; each shared with the looks at the same machine before.
    pub machines: Vec<Arc<MachineState>>,
    /// The indexes of the control plane, those without machine included.
    pub indexes: BTreeSet<u32>,
    /// The failure domain of every index; empty without failure domains.
    pub placement: Placement,
    /// Control plane nodes that no machine of the set claims, nor one that strayed.
    pub unclaimed_nodes: Vec<String>,
    /// Machines that carry an owner reference of this set, are not selected any more, and are not on their way out.
    pub strayed: Vec<String>,
    /// What the etcd operator reports.
    pub etcd: Etcd,
    /// What could not be read: objects, and machines without provider spec.
    pub unparsable: Vec<Unparsable>,
}

impl State {
    /// Reads a snapshot.
    pub fn observe(spec: &Spec, observed: Observed, settings: Settings) -> Self {
        Self::observe_again(spec, observed, settings, &mut ReconcileCache::default())
    }

    /// The same, with what was read before.
    pub fn observe_again(spec: &Spec, observed: Observed, settings: Settings, cache: &mut ReconcileCache) -> Self {
        let revision = cache.ask(spec, observed.infrastructure.as_ref());
        let nodes: BTreeMap<&str, &Arc<Node>> =
            observed.nodes.iter().map(|node| (node.metadata.name(), node)).collect();
        let (selected, others): (Vec<&Arc<Machine>>, Vec<&Arc<Machine>>) = observed
            .machines
            .iter()
            .partition(|machine| spec.selector.matches(&machine.metadata.labels));
        let mut unparsable = observed.unparsable.clone();
        let compared = cache.compare(&selected);
        let domains: Vec<Option<&FailureDomain>> = compared
            .iter()
            .map(|compared| compared.domain.as_ref().map(|found| listed(spec, found)))
            .collect();
        let members: Vec<Member<'_>> = selected
            .iter()
            .zip(&domains)
            .map(|(machine, domain)| Member {
                name: machine.metadata.name(),
                uid: machine.metadata.uid(),
                annotations: &machine.metadata.annotations,
                domain: *domain,
            })
            .collect();
        let indexes = indexes::assign(&members);
        let standing: Vec<Standing<'_>> = members
            .iter()
            .zip(&indexes)
            .zip(&selected)
            .map(|((member, index), machine)| Standing {
                index: index.value,
                domain: member.domain,
                created: machine.metadata.creation_timestamp,
                name: member.name,
                deleting: machine.metadata.is_deleting(),
            })
            .collect();
        let placement = cache
            .place(spec.replicas.count(), &spec.failure_domains, &standing)
            .clone();
        let all = placement::indexes(spec.replicas.count(), indexes.iter().map(|index| index.value));
        // Where nobody knows what the names mean, nobody knows that a machine stands elsewhere.
        let places_known = !lacks_infrastructure(spec, &observed);
        let mut machines: Vec<Arc<MachineState>> = selected
            .iter()
            .zip(&indexes)
            .zip(&domains)
            .zip(&compared)
            .map(|(((machine, index), domain), compared)| {
                unparsable.extend(provides_nothing(machine));
                let seen = Seen {
                    node: machine
                        .node_name()
                        .and_then(|name| nodes.get(name))
                        .map(|node| Arc::clone(node)),
                    index: *index,
                    belongs: placement.get(&index.value).filter(|_| places_known).cloned(),
                };
                cache.tell(machine, seen, |seen| read(spec, machine, *domain, compared, seen))
            })
            .collect();
        machines.sort_by(|left, right| {
            (left.index, left.created, &left.name).cmp(&(right.index, right.created, &right.name))
        });
        let strayed = others.into_iter().filter(|machine| {
            let mut owners = machine.metadata.owner_references.iter();
            !machine.metadata.is_deleting() && owners.any(|owner| is_uid(spec, &owner.uid))
        });
        let strayed: Vec<&Arc<Machine>> = strayed.collect();
        // The node of a machine that lost its labels comes back with them; told apart, each would be given other advice.
        let unclaimed_nodes = unclaimed(&observed.nodes, selected.iter().chain(&strayed).copied());
        let strayed = strayed
            .iter()
            .map(|machine| machine.metadata.name().to_owned())
            .collect();
        let etcd = Etcd::of(observed.etcd.as_deref());
        unparsable.sort();
        Self {
            settings,
            revision,
            machines,
            indexes: all,
            placement,
            unclaimed_nodes,
            strayed,
            etcd,
            unparsable,
            observed,
        }
    }

    /// The machines of the set, in their order.
    pub fn each_machine(&self) -> impl Iterator<Item = &MachineState> {
        self.machines.iter().map(|machine| &**machine)
    }

    /// The machines of an index, oldest first.
    pub fn of_index(&self, index: u32) -> impl Iterator<Item = &MachineState> {
        self.each_machine().filter(move |machine| machine.index == index)
    }

    /// Whether a machine counts as ready for a rollout.
    pub fn is_stable(&self, machine: &MachineState, now: Timestamp) -> bool {
        machine.stable_from(&self.settings).is_some_and(|from| from <= now)
    }

    /// Whether names of failure domains mean nothing because the Infrastructure is not known.
    pub fn lacks_infrastructure(&self, spec: &Spec) -> bool {
        lacks_infrastructure(spec, &self.observed)
    }
}

/// What a machine is like.
fn read(
    spec: &Spec,
    machine: &Machine,
    domain: Option<&FailureDomain>,
    compared: &Compared,
    seen: &Seen,
) -> MachineState {
    let meta = &machine.metadata;
    MachineState {
        name: meta.name().to_owned(),
        uid: meta.uid().to_owned(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        index: seen.index.value,
        index_recorded: seen.index.recorded,
        created: meta.creation_timestamp,
        deleting: meta.deletion_timestamp,
        domain: domain.cloned(),
        node: node_of(machine, seen.node.as_deref()),
        phase: machine.phase().map(str::to_owned),
        failed: failure_of(machine),
        changes: with_domain(compared.changes.clone(), domain, seen.belongs.as_ref()),
        owner: owner_of(spec, machine),
        hooks: hooks_of(machine),
    }
}

/// A machine without provider spec, as an object that cannot be read.
fn provides_nothing(machine: &Machine) -> Option<Unparsable> {
    let message = match &machine.spec.provider_spec.value {
        Some(Value::Object(_)) => return None,
        None | Some(Value::Null) => "it has no provider spec",
        Some(_) => "its spec.providerSpec.value is no object",
    };
    Some(Unparsable {
        kind: "Machine".to_owned(),
        name: machine.metadata.name().to_owned(),
        message: message.to_owned(),
    })
}

fn lacks_infrastructure(spec: &Spec, observed: &Observed) -> bool {
    let by_name = spec.template.platform.is_some_and(Platform::by_name);
    by_name && !spec.failure_domains.is_empty() && observed.infrastructure.is_none()
}

fn is_uid(spec: &Spec, uid: &str) -> bool {
    !spec.uid.is_empty() && spec.uid == uid
}

/// A failure domain in the words of the set, if the set lists the place.
fn listed<'a>(spec: &'a Spec, found: &'a FailureDomain) -> &'a FailureDomain {
    let listed = spec.failure_domains.iter().find(|domain| *domain == found);
    listed.unwrap_or(found)
}

fn node_of(machine: &Machine, node: Option<&Node>) -> NodeState {
    let Some(name) = machine.node_name() else {
        return NodeState::None;
    };
    let name = name.to_owned();
    let Some(node) = node else {
        return NodeState::Missing { name };
    };
    let since = node
        .ready_condition()
        .and_then(|condition| condition.last_transition_time);
    if node.is_ready() {
        return NodeState::Ready { name, since };
    }
    let lived = match (node.metadata.creation_timestamp, since) {
        (Some(created), Some(since)) => since.duration_since(created) > LIVED,
        _ => false,
    };
    NodeState::NotReady { name, since, lived }
}

fn failure_of(machine: &Machine) -> Option<String> {
    let status = machine.status.as_ref()?;
    let error = [&status.error_reason, &status.error_message];
    let parts: Vec<&str> = error
        .into_iter()
        .filter_map(|part| part.as_deref())
        .filter(|part| !part.is_empty())
        .collect();
    let failed = machine.phase() == Some("Failed") || !parts.is_empty();
    failed.then(|| match parts.as_slice() {
        [] => "phase Failed, without a message".to_owned(),
        parts => parts.join(": "),
    })
}

/// What differs from the template, and the place if that is not where the machine belongs.
fn with_domain(
    mut found: Vec<FieldChange>,
    stands: Option<&FailureDomain>,
    belongs: Option<&FailureDomain>,
) -> Vec<FieldChange> {
    if belongs.is_some() && stands != belongs {
        found.push(FieldChange {
            field: "failureDomain".to_owned(),
            old: stands.map(|domain| domain.entry().clone()),
            new: belongs.map(|domain| domain.entry().clone()),
        });
    }
    found
}

fn owner_of(spec: &Spec, machine: &Machine) -> Owner {
    let Some(owner) = machine.metadata.controller() else {
        return Owner::Nobody;
    };
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    if group != GROUP || owner.kind != KIND || owner.name != spec.name {
        return Owner::Foreign {
            owner: format!("{} {}", owner.kind, owner.name),
        };
    }
    // A set that was read from a file has no uid to compare.
    if owner.uid == spec.uid || spec.uid.is_empty() {
        Owner::Ours
    } else {
        Owner::Former { uid: owner.uid.clone() }
    }
}

fn hooks_of(machine: &Machine) -> Vec<String> {
    let hooks = machine.spec.lifecycle_hooks.as_ref();
    hooks
        .into_iter()
        .flat_map(|hooks| hooks.pre_drain.iter().chain(&hooks.pre_terminate))
        .map(|hook| format!("{} ({})", hook.name, hook.owner))
        .collect()
}

/// Control plane nodes that no machine claims, by name or by the platform's id of the instance.
pub(super) fn unclaimed<'a>(
    nodes: impl IntoIterator<Item = &'a Arc<Node>>,
    machines: impl Iterator<Item = &'a Arc<Machine>> + Clone,
) -> Vec<String> {
    let names: BTreeSet<&str> = machines.clone().filter_map(|machine| machine.node_name()).collect();
    let ids: BTreeSet<&str> = machines
        .filter_map(|machine| machine.spec.provider_id.as_deref())
        .filter(|id| !id.is_empty())
        .collect();
    let id_of = |node: &Node| {
        let id = node.unknown_fields.get("spec")?.get("providerID")?.as_str()?;
        ids.contains(id).then_some(())
    };
    let mut unclaimed: Vec<String> = nodes
        .into_iter()
        .filter(|node| node.is_control_plane() && !names.contains(node.metadata.name()) && id_of(node).is_none())
        .map(|node| node.metadata.name().to_owned())
        .collect();
    unclaimed.sort();
    unclaimed
}

//! The state of one machine of a set: its index, its failure domain, its node, and the differences
//! from the template.
//!
//! The module decides nothing. A missing node, a failed machine and a foreign owner are values
//! here, and none of them prevents the state of other machines from being read (defect B1).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::changes::FieldChange;
use super::created_from::CreatedFrom;
use super::domains::FailureDomain;
use super::indexes::Index;
use super::observed::{Settings, Unparsable};
use super::spec::Spec;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::GROUP;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::api::machine_openshift_io::machine::Machine;

/// How long the node of a machine may be unready and still count as restarting.
const RESTART: SignedDuration = SignedDuration::from_mins(20);
/// A node that existed for longer than this before it became unready must have been ready.
const JOINED: SignedDuration = SignedDuration::from_mins(10);

/// The node of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The machine has no node yet.
    None,
    /// The node of the machine does not exist. The machine counts as not ready (defect B1).
    Missing {
        /// Name of the node.
        name: String,
    },
    /// The machine names the node of another machine. It counts as not ready.
    OfAnother {
        /// Name of the node.
        name: String,
        /// The machine that the node belongs to.
        machine: String,
    },
    /// The node does not report that it is ready.
    NotReady {
        /// Name of the node.
        name: String,
        /// Since when it has not been ready, from the node; `None` if the node has no time.
        since: Option<Timestamp>,
        /// Whether the node existed long enough before that time that it must have been ready.
        was_ready: bool,
    },
    /// The node is ready.
    Ready {
        /// Name of the node.
        name: String,
        /// Since when; `None` if the node has no time, as in files that users write.
        since: Option<Timestamp>,
    },
}

impl NodeState {
    /// The name of the node.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Missing { name }
            | Self::OfAnother { name, .. }
            | Self::NotReady { name, .. }
            | Self::Ready { name, .. } => Some(name),
        }
    }

    /// Reads the node of a machine; `node` is the object with the name that the machine states.
    pub fn of(machine: &Machine, node: Option<&Node>) -> Self {
        let Some(name) = machine.node_name() else {
            return Self::None;
        };
        let name = name.to_owned();
        let Some(node) = node else {
            return Self::Missing { name };
        };
        let since = node
            .ready_condition()
            .and_then(|condition| condition.last_transition_time);
        if node.is_ready() {
            return Self::Ready { name, since };
        }
        let was_ready = match (node.metadata.creation_timestamp, since) {
            (Some(created), Some(since)) => since.duration_since(created) > JOINED,
            _ => false,
        };
        Self::NotReady { name, since, was_ready }
    }
}

/// The controller of a machine, as its owner references name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The machine has no controller: the set adopts it.
    None,
    /// This set.
    Ours,
    /// A set of the same name that no longer exists. The reference is repaired (defect B4).
    Former {
        /// UID of the former set.
        uid: String,
    },
    /// Another object: the machine is not managed, and the rollout stops (defect B6).
    Foreign {
        /// Kind of the owner.
        kind: String,
        /// Name of the owner.
        name: String,
    },
}

impl Owner {
    fn of(spec: &Spec, machine: &Machine) -> Self {
        let Some(owner) = machine.metadata.controller() else {
            return Self::None;
        };
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        if group != GROUP || owner.kind != KIND || owner.name != spec.name {
            return Self::Foreign {
                kind: owner.kind.clone(),
                name: owner.name.clone(),
            };
        }
        // A set from a file has no UID to compare.
        if owner.uid == spec.uid || spec.uid.is_empty() {
            Self::Ours
        } else {
            Self::Former { uid: owner.uid.clone() }
        }
    }
}

/// A machine of the set.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineState {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// The version from which this was read.
    pub resource_version: String,
    /// Index in the control plane.
    pub index: u32,
    /// Whether the name or an annotation of the machine has the index.
    pub index_recorded: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When its deletion was requested.
    pub deleting: Option<Timestamp>,
    /// Its failure domain: the entry of the set if the set lists the domain.
    pub domain: Option<FailureDomain>,
    /// Its node.
    pub node: NodeState,
    /// Its phase, as the machine controller reports it.
    pub phase: Option<String>,
    /// The error of the machine controller, if it gave up on the machine.
    pub failed: Option<String>,
    /// The fields that differ from the template. Empty for a machine that is up to date.
    pub changes: Vec<FieldChange>,
    /// The fields of the template that a machine which was created from it lacks, or has with
    /// another value. They are an error of the template or of a webhook, and outdate no machine.
    pub lost: Vec<FieldChange>,
    /// Its controller.
    pub owner: Owner,
    /// The lifecycle hooks that delay its deletion, as `name (owner)`.
    pub hooks: Vec<String>,
    /// What delays its deletion, as [`held_by`].
    pub held_by: String,
}

/// The inputs of the state of a machine, other than the machine and the set.
#[derive(Debug)]
pub(super) struct MachineInputs {
    /// The node that the machine names, if it exists.
    pub(super) node: Option<Arc<Node>>,
    /// The machine that the node belongs to, if it is another one.
    pub(super) node_owner: Option<String>,
    /// The index of the machine.
    pub(super) index: Index,
    /// The failure domain that it is in: the entry of the set where the set lists the domain.
    pub(super) domain: Option<FailureDomain>,
    /// The failure domain of the index, if it is known.
    pub(super) belongs: Option<FailureDomain>,
}

/// The provider spec of a machine, compared with the template.
#[derive(Debug)]
pub(super) struct ComparedSpec {
    /// Its failure domain.
    pub(super) domain: Option<FailureDomain>,
    /// The fields that differ from the template.
    pub(super) changes: Vec<FieldChange>,
    /// What it was created from, if that is recorded.
    pub(super) created_from: Option<CreatedFrom>,
    /// Of a machine with a record, the fields of the template that it lacks or has with another
    /// value.
    pub(super) lost: Vec<FieldChange>,
}

impl MachineState {
    /// Reads a machine.
    pub(super) fn read(
        spec: &Spec,
        machine: &Machine,
        compared: &ComparedSpec,
        inputs: &MachineInputs,
        infrastructure: Option<&Infrastructure>,
    ) -> Self {
        let meta = &machine.metadata;
        let belongs = inputs.belongs.as_ref();
        let is_created_from = |domain| {
            let created_from = compared.created_from.as_ref();
            created_from.is_some_and(|record| record.is_current(spec, domain, infrastructure, meta.name()))
        };
        let (changes, lost) = if is_created_from(belongs) {
            let found = compared.domain.as_ref();
            let moved = found.is_some() && found != belongs && !is_created_from(found);
            let stored = if moved { found } else { belongs };
            (Vec::new(), with_domain(compared.lost.clone(), stored, belongs))
        } else {
            let changes = with_domain(compared.changes.clone(), inputs.domain.as_ref(), belongs);
            (changes, Vec::new())
        };
        Self {
            name: meta.name().to_owned(),
            uid: meta.uid().to_owned(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            index: inputs.index.value,
            index_recorded: inputs.index.recorded,
            created: meta.creation_timestamp,
            deleting: meta.deletion_timestamp,
            domain: inputs.domain.clone(),
            node: match (machine.node_name(), inputs.node_owner.clone()) {
                (Some(name), Some(machine)) => NodeState::OfAnother {
                    name: name.to_owned(),
                    machine,
                },
                _ => NodeState::of(machine, inputs.node.as_deref()),
            },
            phase: machine.phase().map(str::to_owned),
            failed: failure(machine),
            changes,
            lost,
            owner: Owner::of(spec, machine),
            hooks: hooks(machine),
            held_by: held_by(machine),
        }
    }

    /// Whether the node is ready and the machine has not failed.
    pub fn is_ready(&self) -> bool {
        self.is_running() && matches!(self.node, NodeState::Ready { .. })
    }

    fn is_running(&self) -> bool {
        matches!(self.phase.as_deref(), None | Some("Running" | "Deleting"))
    }

    /// From when on a rollout counts the machine as ready; `None` while it is not ready.
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

    /// Whether its deletion was requested.
    pub fn is_deleting(&self) -> bool {
        self.deleting.is_some()
    }

    /// Whether its node was ready, and has been unready for no longer than a restart takes. The
    /// status counts such a machine as ready, so that an upgrade raises no alert. No decision
    /// counts it.
    pub fn is_restarting(&self, now: Timestamp) -> bool {
        match &self.node {
            NodeState::NotReady {
                since: Some(since),
                was_ready: true,
                ..
            } => self.is_running() && now.duration_since(*since) < RESTART,
            _ => false,
        }
    }

    /// Why the machine is not ready, as a clause; `None` if it is ready.
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
            (None, NodeState::OfAnother { name, machine }) => {
                format!("names node {name}, which belongs to machine {machine}")
            }
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

/// A machine without a provider spec, as an object that cannot be decoded; `None` for a machine
/// that has one.
pub(crate) fn without_provider_spec(machine: &Machine) -> Option<Unparsable> {
    let message = match &machine.spec.provider_spec.value {
        Some(Value::Object(_)) => return None,
        None | Some(Value::Null) => "it has no provider spec",
        Some(_) => "its spec.providerSpec.value is not an object",
    };
    Some(Unparsable {
        kind: "Machine".to_owned(),
        name: machine.metadata.name().to_owned(),
        message: message.to_owned(),
    })
}

fn failure(machine: &Machine) -> Option<String> {
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

/// The fields that differ, and the failure domain if it is not that of the index.
fn with_domain(
    mut changes: Vec<FieldChange>,
    domain: Option<&FailureDomain>,
    belongs: Option<&FailureDomain>,
) -> Vec<FieldChange> {
    if belongs.is_some() && domain != belongs {
        changes.push(FieldChange {
            field: "failureDomain".to_owned(),
            old: domain.map(|domain| domain.entry().clone()),
            new: belongs.map(|domain| domain.entry().clone()),
        });
    }
    changes
}

/// What delays the deletion of a machine, as a clause that ends a sentence: its lifecycle hooks, or
/// else its finalizers. The component of a finalizer may not exist any more. Empty without either.
pub(crate) fn held_by(machine: &Machine) -> String {
    let hooks = hooks(machine);
    match machine.metadata.finalizers.as_slice() {
        _ if !hooks.is_empty() => format!("; held by {}", hooks.join(", ")),
        [] => String::new(),
        [one] => format!("; held by the finalizer {one}"),
        several => format!("; held by the finalizers {}", several.join(", ")),
    }
}

fn hooks(machine: &Machine) -> Vec<String> {
    let hooks = machine.spec.lifecycle_hooks.as_ref();
    hooks
        .into_iter()
        .flat_map(|hooks| hooks.pre_drain.iter().chain(&hooks.pre_terminate))
        .map(|hook| format!("{} ({})", hook.name, hook.owner))
        .collect()
}

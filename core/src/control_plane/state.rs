//! The state of a control plane: its machines with failure domain, node and differences from the
//! template, and the members of etcd.
//!
//! The module decides nothing. A node that is missing and a report that does not parse are values
//! here.

use std::sync::Arc;

use jiff::Timestamp;

use super::action::{REPLACED, REVISION};
use super::spec::Spec;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::GROUP;
use crate::api::machine_openshift_io::control_plane::KIND;
use crate::api::machine_openshift_io::machine::Machine;
use crate::cpms::changes::{FieldChange, changes, revision};
use crate::cpms::domains::{FailureDomain, extract};
use crate::cpms::etcd::{Etcd, members};
use crate::cpms::machine_state::NodeState;
use crate::cpms::observed::Observed;
use crate::cpms::selector::is_control_plane;
use crate::model::EtcdMember;

/// The controller of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The machine has no controller: the ControlPlane adopts it.
    None,
    /// This ControlPlane.
    Ours,
    /// Another object, as kind and name.
    Foreign(String),
}

/// A machine of the control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineState {
    /// The object.
    pub machine: Arc<Machine>,
    /// Its failure domain: the entry of the ControlPlane if that lists the domain.
    pub domain: Option<FailureDomain>,
    /// Its node.
    pub node: NodeState,
    /// Its controller.
    pub owner: Owner,
    /// The fields that differ from the template; empty for a machine that is up to date.
    pub changes: Vec<FieldChange>,
    /// Whether the machine is marked for its replacement.
    pub is_marked: bool,
}

impl MachineState {
    /// The name.
    pub fn name(&self) -> &str {
        self.machine.metadata.name()
    }

    /// When it was created, and its name: the order of age.
    pub fn age(&self) -> (Option<Timestamp>, &str) {
        (self.machine.metadata.creation_timestamp, self.name())
    }

    /// Whether its deletion was requested.
    pub fn is_deleting(&self) -> bool {
        self.machine.metadata.is_deleting()
    }

    /// Whether its node is ready.
    pub fn is_ready(&self) -> bool {
        matches!(self.node, NodeState::Ready { .. })
    }

    /// Whether it matches the template.
    pub fn is_current(&self) -> bool {
        self.changes.is_empty()
    }
}

/// The state of a control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The machines of the control plane, the oldest first.
    pub machines: Vec<MachineState>,
    /// The report of the etcd operator.
    pub etcd: Etcd,
    /// The members of etcd; `None` if the report does not count them.
    pub members: Option<Vec<EtcdMember>>,
    /// What the state was read from.
    pub observed: Observed,
}

impl State {
    /// Reads the state. A machine belongs to the control plane by its labels (decision 24).
    pub fn observe(spec: &Spec, observed: Observed) -> Self {
        let of_control_plane = |machine: &&Arc<Machine>| is_control_plane(&machine.metadata.labels);
        let members_of = observed.machines.iter().filter(of_control_plane);
        let mut machines: Vec<MachineState> = members_of.map(|machine| read(spec, machine, &observed)).collect();
        machines.sort_by(|left, right| left.age().cmp(&right.age()));
        Self {
            machines,
            etcd: Etcd::of(observed.etcd.as_deref()),
            members: observed.etcd.as_deref().and_then(members),
            observed,
        }
    }

    /// The machines that are not being deleted.
    pub fn standing(&self) -> impl Iterator<Item = &MachineState> {
        self.machines.iter().filter(|machine| !machine.is_deleting())
    }

    /// The machines that are being deleted.
    pub fn leaving(&self) -> impl Iterator<Item = &MachineState> {
        self.machines.iter().filter(|machine| machine.is_deleting())
    }
}

fn read(spec: &Spec, machine: &Arc<Machine>, observed: &Observed) -> MachineState {
    let named = |node: &&Arc<Node>| Some(node.metadata.name()) == machine.node_name();
    let node = observed.nodes.iter().find(named);
    let provider_spec = machine.spec.provider_spec.value.as_ref();
    let template = &spec.template.provider_spec;
    let found = provider_spec.and_then(|value| extract(value, observed.infrastructure.as_deref()));
    let domain = found.map(|found| {
        let mut listed = spec.failure_domains.iter();
        listed.find(|listed| **listed == found).cloned().unwrap_or(found)
    });
    let annotations = &machine.metadata.annotations;
    // A machine that was created from this template is up to date however it is stored. Otherwise
    // a webhook that changes machines would cause endless replacements.
    let own = revision(template, spec.comparison());
    let is_of_revision = annotations.get(REVISION) == Some(&own);
    let differences = match provider_spec {
        Some(value) if !is_of_revision => changes(template, value, spec.comparison()),
        _ => Vec::new(),
    };
    MachineState {
        domain,
        node: NodeState::of(machine, node.map(|node| &**node)),
        owner: owner(spec, machine),
        changes: differences,
        is_marked: annotations.contains_key(REPLACED),
        machine: Arc::clone(machine),
    }
}

fn owner(spec: &Spec, machine: &Machine) -> Owner {
    let Some(owner) = machine.metadata.controller() else {
        return Owner::None;
    };
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    // A ControlPlane from a file has no UID to compare.
    let same_uid = spec.uid.is_empty() || owner.uid == spec.uid;
    if group == GROUP && owner.kind == KIND && owner.name == spec.name && same_uid {
        Owner::Ours
    } else {
        Owner::Foreign(format!("{} {}", owner.kind, owner.name))
    }
}

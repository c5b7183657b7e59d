//! The state of a control plane: its machines with failure domain, node and differences from the
//! template, and the members of etcd.
//!
//! The module decides nothing. A node that is missing and a report that does not parse are values
//! here.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::action::REPLACED;
use super::hook::is_hooked;
use super::spec::Spec;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::GROUP;
use crate::api::machine_openshift_io::control_plane::KIND;
use crate::api::machine_openshift_io::machine::Machine;
use crate::cpms::changes::{self, FieldChange};
use crate::cpms::created_from::CreatedFrom;
use crate::cpms::domains::{FailureDomain, extract};
use crate::cpms::etcd::{Etcd, members};
use crate::cpms::machine_state::{NodeState, without_provider_spec};
use crate::cpms::node_owners;
use crate::cpms::observed::{Observed, Unparsable};
use crate::cpms::selector::is_control_plane;
use crate::cpms::state::{created, strayed, unclaimed};
use crate::cpms::stored_template::KnownTemplate;
use crate::model::EtcdMember;

/// The controller of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The machine has no controller: the ControlPlane adopts it.
    None,
    /// This ControlPlane.
    Ours,
    /// A ControlPlane of the same name that no longer exists. The reference is repaired.
    Former {
        /// UID of the former ControlPlane.
        uid: String,
    },
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
    /// Of a machine that was created from the current template, the fields of the template that it
    /// does not have.
    pub lost: Vec<FieldChange>,
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

/// A machine whose etcd member does not vote yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithoutVote {
    /// The name of the machine.
    pub machine: String,
    /// The addresses of its node. The etcd operator lists none of them.
    pub addresses: Vec<IpAddr>,
}

/// The state of a control plane.
#[derive(Clone, Debug)]
pub struct State {
    /// The machines of the control plane, the oldest first.
    pub machines: Vec<MachineState>,
    /// The report of the etcd operator.
    pub etcd: Etcd,
    /// The members of etcd; `None` if they are unknown.
    pub members: Option<Vec<EtcdMember>>,
    /// The template, and what is known of how it is stored.
    pub template: KnownTemplate,
    /// Stray machines: they carry an owner reference of the ControlPlane, or are known to be
    /// created for it; they do not have the labels, and are not being deleted.
    pub strayed: Vec<String>,
    /// Whether the hook of Capstan holds one of them, so that its etcd member is not removed.
    pub stray_members: bool,
    /// The control plane nodes that no machine claims, neither by name nor by instance.
    pub unclaimed_nodes: Vec<String>,
    /// The machines that are not being deleted, and whose etcd member does not vote yet, as the
    /// etcd operator reports. Machines without a ready node are not among them.
    pub without_vote: Vec<WithoutVote>,
    /// Objects that cannot be decoded, and machines without a provider spec.
    pub unparsable: Vec<Unparsable>,
    /// What the state was read from.
    pub observed: Observed,
}

impl State {
    /// Reads the state. A machine belongs to the control plane by its labels (decision 24).
    pub fn observe(spec: &Spec, observed: Observed) -> Self {
        let of_control_plane = |machine: &&Arc<Machine>| is_control_plane(&machine.metadata.labels);
        let (members_of, others): (Vec<&Arc<Machine>>, Vec<&Arc<Machine>>) =
            observed.machines.iter().partition(of_control_plane);
        let template = KnownTemplate::of(&spec.template, spec.comparison(), &observed.stored_templates);
        let nodes: BTreeMap<&str, &Arc<Node>> =
            observed.nodes.iter().map(|node| (node.metadata.name(), node)).collect();
        let around = Around {
            spec,
            template: &template,
            node_owners: node_owners::owners(&members_of, &nodes),
            nodes,
            infrastructure: observed.infrastructure.as_deref(),
        };
        let mut machines: Vec<MachineState> = members_of.iter().map(|machine| around.read(machine)).collect();
        machines.sort_by(|left, right| left.age().cmp(&right.age()));
        let without_vote = machines.iter();
        let without_vote = without_vote.filter_map(|machine| around.without_vote(machine, &observed));
        let without_vote: Vec<WithoutVote> = without_vote.collect();
        let mut unparsable = observed.unparsable.clone();
        unparsable.extend(members_of.iter().filter_map(|machine| without_provider_spec(machine)));
        unparsable.sort();
        let created = created(spec.pending_creations.as_deref().unwrap_or_default(), &spec.annotations);
        // The hook holds these machines, and only a machine with the labels loses it.
        let is_held = |machine: &&&Arc<Machine>| machine.metadata.is_deleting() && is_hooked(machine);
        let held: Vec<&Arc<Machine>> = others.iter().filter(is_held).copied().collect();
        let stray_members = !held.is_empty();
        let mut strayed = strayed(&spec.uid, &created, &observed.requested, others);
        strayed.extend(held);
        // A stray machine claims its node too, because the remedy is to repair the machine.
        let claiming = members_of.iter().chain(&strayed).copied();
        let unclaimed_nodes = unclaimed(&observed.nodes, claiming);
        let strayed = strayed.iter().map(|machine| machine.metadata.name().to_owned());
        Self {
            strayed: strayed.collect(),
            stray_members,
            without_vote,
            unclaimed_nodes,
            machines,
            etcd: health(&observed),
            members: match &observed.own_members {
                Some(own) => own.clone().ok(),
                None => observed.etcd.as_deref().and_then(members),
            },
            template,
            unparsable,
            observed,
        }
    }

    /// The machines that are not being deleted.
    pub fn standing(&self) -> impl Iterator<Item = &MachineState> {
        self.machines.iter().filter(|machine| !machine.is_deleting())
    }

    /// Whether Capstan manages the members of etcd, so that their names are known.
    pub fn manages_members(&self) -> bool {
        self.observed.own_members.is_some()
    }

    /// The member of etcd on the node of a machine, where the names of the members are known.
    pub fn member_of(&self, machine: &MachineState) -> Option<&EtcdMember> {
        let node = machine.node.name().filter(|_| self.manages_members())?;
        let mut members = self.members.iter().flatten();
        members.find(|member| member.name == node)
    }

    /// What is known about the health of etcd, as a text.
    pub(super) fn etcd_message(&self) -> &str {
        match &self.etcd {
            Etcd::Unhealthy { message } => message,
            Etcd::Healthy | Etcd::NotReported => "",
        }
    }

    /// The machines that are being deleted.
    pub fn leaving(&self) -> impl Iterator<Item = &MachineState> {
        self.machines.iter().filter(|machine| machine.is_deleting())
    }
}

/// The health of etcd: as the members answered Capstan, or as the etcd operator reports it.
fn health(observed: &Observed) -> Etcd {
    let members = match &observed.own_members {
        None => return Etcd::of(observed.etcd.as_deref()),
        Some(Err(unknown)) => {
            return Etcd::Unhealthy {
                message: unknown.to_string(),
            };
        }
        Some(Ok(members)) => members,
    };
    let named = |member: &EtcdMember| match member.name.as_str() {
        "" => String::from("a member that has not started"),
        name => name.to_owned(),
    };
    let unhealthy = members.iter().filter(|member| !member.is_healthy);
    let unhealthy: Vec<String> = unhealthy.map(named).collect();
    if unhealthy.is_empty() {
        return Etcd::Healthy;
    }
    Etcd::Unhealthy {
        message: format!("not healthy: {}", unhealthy.join(", ")),
    }
}

/// What the state of a machine is read from, other than the machine.
struct Around<'a> {
    spec: &'a Spec,
    template: &'a KnownTemplate,
    nodes: BTreeMap<&'a str, &'a Arc<Node>>,
    /// The machine of each node that several machines name.
    node_owners: BTreeMap<&'a str, &'a str>,
    infrastructure: Option<&'a Infrastructure>,
}

impl Around<'_> {
    fn read(&self, machine: &Arc<Machine>) -> MachineState {
        let spec = self.spec;
        let provider_spec = machine.spec.provider_spec.value.as_ref();
        let found = provider_spec.and_then(|value| extract(value, self.infrastructure));
        let found = found.map(|found| {
            let mut listed = spec.failure_domains.iter();
            listed.find(|listed| **listed == found).cloned().unwrap_or(found)
        });
        let created_in = self.created_in(machine, found.as_ref());
        let (template, comparison) = (&spec.template, spec.comparison());
        let (changes, lost) = match (provider_spec, created_in) {
            (None, _) => (Vec::new(), Vec::new()),
            (Some(value), None) => (self.template.changes(template, value, comparison), Vec::new()),
            (Some(value), Some(_)) => (Vec::new(), changes::lost(&template.provider_spec, value, comparison)),
        };
        MachineState {
            domain: self.domain(created_in.flatten(), found.as_ref()).cloned(),
            node: self.node(machine),
            owner: owner(spec, machine),
            changes,
            lost,
            is_marked: machine.metadata.annotations.contains_key(REPLACED),
            machine: Arc::clone(machine),
        }
    }

    /// The failure domain of a machine. A webhook may change its notation, so that the list does
    /// not have it. Then the one that was sent counts, unless the stored machine is in another one
    /// of the list, or in another zone (V225).
    fn domain<'d>(
        &self,
        sent: Option<&'d FailureDomain>,
        found: Option<&'d FailureDomain>,
    ) -> Option<&'d FailureDomain> {
        let (Some(sent), Some(found)) = (sent, found) else {
            return sent.or(found);
        };
        let zones = sent.zone().zip(found.zone());
        let is_elsewhere =
            self.spec.failure_domains.contains(found) || zones.is_some_and(|(sent, found)| sent != found);
        Some(if is_elsewhere { found } else { sent })
    }

    /// The failure domain in which a machine was created from the current template; `None` if it
    /// was not. Such a machine is up to date however it is stored. Otherwise a webhook that changes
    /// machines would cause endless replacements.
    fn created_in<'d>(
        &'d self,
        machine: &Machine,
        found: Option<&'d FailureDomain>,
    ) -> Option<Option<&'d FailureDomain>> {
        let record = CreatedFrom::read(machine)?;
        let (template, images) = (&self.spec.template.provider_spec, self.spec.comparison().images);
        let name = machine.metadata.name();
        let listed = self.spec.failure_domains.iter().map(Some);
        let mut candidates = std::iter::once(found).chain(listed);
        candidates.find(|domain| record.is_from(template, images, *domain, self.infrastructure, name))
    }

    /// A machine, if the etcd operator lists the members that vote, and none has an address of the
    /// node. The operator counts a learner that has started as available.
    fn without_vote(&self, machine: &MachineState, observed: &Observed) -> Option<WithoutVote> {
        let (Some(voters), None) = (&observed.voters, &observed.own_members) else {
            return None;
        };
        let node = machine.node.name().and_then(|name| self.nodes.get(name));
        let addresses: Vec<IpAddr> = node.into_iter().flat_map(|node| node.internal_addresses()).collect();
        let votes = addresses.is_empty() || addresses.iter().any(|address| voters.contains(address));
        (machine.is_ready() && !machine.is_deleting() && !votes).then(|| WithoutVote {
            machine: machine.name().to_owned(),
            addresses,
        })
    }

    fn node(&self, machine: &Machine) -> NodeState {
        let Some(name) = machine.node_name() else {
            return NodeState::None;
        };
        let owner = self.node_owners.get(name).copied();
        match owner.filter(|owner| *owner != machine.metadata.name()) {
            Some(owner) => NodeState::OfAnother {
                name: name.to_owned(),
                machine: owner.to_owned(),
            },
            None => NodeState::of(machine, self.nodes.get(name).map(|node| &***node)),
        }
    }
}

fn owner(spec: &Spec, machine: &Machine) -> Owner {
    let Some(owner) = machine.metadata.controller() else {
        return Owner::None;
    };
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    if group != GROUP || owner.kind != KIND || owner.name != spec.name {
        return Owner::Foreign(format!("{} {}", owner.kind, owner.name));
    }
    // A ControlPlane from a file has no UID to compare.
    if spec.uid.is_empty() || owner.uid == spec.uid {
        Owner::Ours
    } else {
        Owner::Former { uid: owner.uid.clone() }
    }
}

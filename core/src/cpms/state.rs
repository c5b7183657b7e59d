//! The state of a control plane: its machines with index, failure domain and node, and the
//! differences from the template.
//!
//! The module reads one snapshot and makes no decision. `plan` decides the next steps, and
//! `degraded` reports problems.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::created_from::CreatedFrom;
use super::domains::{FailureDomain, Platform};
use super::etcd::Etcd;
use super::indexes::{self, Index, LAST_CREATED, Member, RELEASED};
use super::machine_state::{ComparedSpec, MachineInputs, MachineState, without_provider_spec};
use super::node_owners;
use super::observed::{Observed, Settings, Unparsable};
use super::placement::{self, PlacedMachine, Placement};
use super::reconcile_cache::ReconcileCache;
use super::spec::Spec;
use super::stored_template::KnownTemplate;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::machine::Machine;
use crate::model::PendingCreation;

/// The state of a control plane.
#[derive(Clone, Debug)]
pub struct State {
    /// The snapshot from which this was read.
    pub observed: Observed,
    /// Settings of the controllers.
    pub settings: Settings,
    /// The name of the revision of the template.
    pub revision: String,
    /// The template, and what is known of how it is stored.
    pub template: Arc<KnownTemplate>,
    /// The machines of the set, by index, then age, then name. A machine that did not change is
    /// shared with the previous state.
    pub machines: Vec<Arc<MachineState>>,
    /// The indexes of the control plane, including those without a machine.
    pub indexes: BTreeSet<u32>,
    /// The failure domain in which each index belongs; empty without failure domains.
    pub placement: Placement,
    /// Control plane nodes that belong neither to a machine of the set nor to a stray machine.
    pub unclaimed_nodes: Vec<String>,
    /// Stray machines: they carry an owner reference of this set, or the set records that they were
    /// created for it; they are not members of it, and are not being deleted.
    pub strayed: Vec<String>,
    /// The report of the etcd operator.
    pub etcd: Etcd,
    /// Objects that cannot be decoded, and machines without a provider spec.
    pub unparsable: Vec<Unparsable>,
}

impl State {
    /// Reads a snapshot.
    pub fn observe(spec: &Spec, observed: Observed, settings: Settings) -> Self {
        Self::observe_with(spec, observed, settings, &mut ReconcileCache::default())
    }

    /// Reads a snapshot. The cache provides results for unchanged objects. The result does not
    /// depend on the content of the cache.
    pub fn observe_with(spec: &Spec, observed: Observed, settings: Settings, cache: &mut ReconcileCache) -> Self {
        let (revision, template) = cache.set_template(spec, &observed);
        let (selected, others): (Vec<&Arc<Machine>>, Vec<&Arc<Machine>>) = observed
            .machines
            .iter()
            .partition(|machine| spec.selector.selects_member(&machine.metadata.labels));
        let compared = cache.compare(&selected);
        let members = Selected::of(spec, &observed, selected, &compared);
        let standing = members.standing();
        let placement = cache
            .place(spec.replicas.count(), &spec.failure_domains, &standing)
            .clone();
        let indexes = placement::indexes(spec.replicas.count(), standing.iter().map(|machine| machine.index));
        let machines = members.read(spec, &observed, &placement, cache);
        let mut unparsable = observed.unparsable.clone();
        unparsable.extend(
            members
                .machines
                .iter()
                .filter_map(|machine| without_provider_spec(machine)),
        );
        unparsable.sort();
        let created = created(spec.pending_creations.as_deref().unwrap_or_default(), &spec.annotations);
        let strayed = strayed(&spec.uid, &created, &observed.requested, others);
        // A stray machine claims its node too, because the remedy is to repair the machine.
        let claiming = members.machines.iter().chain(&strayed).copied();
        let unclaimed_nodes = unclaimed(&observed.nodes, claiming);
        let strayed = strayed
            .iter()
            .map(|machine| machine.metadata.name().to_owned())
            .collect();
        let etcd = Etcd::of(observed.etcd.as_deref());
        Self {
            settings,
            revision,
            template,
            machines,
            indexes,
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

    /// Whether a rollout counts a machine as ready.
    pub fn is_stable(&self, machine: &MachineState, now: Timestamp) -> bool {
        machine.stable_from(&self.settings).is_some_and(|from| from <= now)
    }

    /// Whether the names of the failure domains are undefined because the Infrastructure is
    /// unknown.
    pub fn lacks_infrastructure(&self, spec: &Spec) -> bool {
        lacks_infrastructure(spec, &self.observed)
    }
}

/// The members of a set. The lists have the same order and length.
struct Selected<'a> {
    machines: Vec<&'a Arc<Machine>>,
    compared: &'a [Arc<ComparedSpec>],
    /// The failure domain of each machine, as in the set.
    domains: Vec<Option<&'a FailureDomain>>,
    indexes: Vec<Index>,
}

impl<'a> Selected<'a> {
    fn of(
        spec: &'a Spec,
        observed: &Observed,
        machines: Vec<&'a Arc<Machine>>,
        compared: &'a [Arc<ComparedSpec>],
    ) -> Self {
        let domain = |(machine, compared): (&&Arc<Machine>, &'a Arc<ComparedSpec>)| {
            let found = compared.domain.as_ref().map(|found| listed(spec, found));
            let record = compared.created_from.as_ref();
            let infrastructure = observed.infrastructure.as_deref();
            let recorded =
                record.and_then(|record| record.domain(spec, found, infrastructure, machine.metadata.name()));
            recorded.or(found)
        };
        let domains: Vec<Option<&FailureDomain>> = machines.iter().zip(compared).map(domain).collect();
        let members: Vec<Member<'_>> = machines
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
        Self {
            machines,
            compared,
            domains,
            indexes,
        }
    }

    /// The properties of the machines that placement uses.
    fn standing(&self) -> Vec<PlacedMachine<'a>> {
        self.machines
            .iter()
            .zip(&self.domains)
            .zip(&self.indexes)
            .map(|((machine, domain), index)| PlacedMachine {
                index: index.value,
                domain: *domain,
                created: machine.metadata.creation_timestamp,
                name: machine.metadata.name(),
                deleting: machine.metadata.is_deleting(),
            })
            .collect()
    }

    /// The state of each machine, by index, then age, then name.
    fn read(
        &self,
        spec: &Spec,
        observed: &Observed,
        placement: &Placement,
        cache: &mut ReconcileCache,
    ) -> Vec<Arc<MachineState>> {
        let nodes: BTreeMap<&str, &Arc<Node>> =
            observed.nodes.iter().map(|node| (node.metadata.name(), node)).collect();
        let owners = node_owners::owners(&self.machines, &nodes);
        // While the names of the failure domains are undefined, no machine is in the wrong one.
        let is_defined = !lacks_infrastructure(spec, observed);
        let rows = self
            .machines
            .iter()
            .zip(&self.indexes)
            .zip(&self.domains)
            .zip(self.compared);
        let mut machines: Vec<Arc<MachineState>> = rows
            .map(|(((machine, index), domain), compared)| {
                let inputs = MachineInputs {
                    node: machine
                        .node_name()
                        .and_then(|name| nodes.get(name))
                        .map(|node| Arc::clone(node)),
                    node_owner: machine
                        .node_name()
                        .and_then(|node| owners.get(node))
                        .filter(|owner| **owner != machine.metadata.name())
                        .map(|owner| (*owner).to_owned()),
                    index: *index,
                    domain: domain.cloned(),
                    belongs: placement.get(&index.value).filter(|_| is_defined).cloned(),
                };
                cache.machine_state(machine, inputs, |inputs| {
                    let infrastructure = observed.infrastructure.as_deref();
                    MachineState::read(spec, machine, compared, inputs, infrastructure)
                })
            })
            .collect();
        machines.sort_by(|left, right| {
            (left.index, left.created, &left.name).cmp(&(right.index, right.created, &right.name))
        });
        machines
    }
}

/// Of the machines that are not members, those that carry an owner reference of the set or that
/// were created for it, and that are not being deleted. A webhook of the cluster can take both the
/// labels and the owner reference out of a machine. Without other evidence, each reconcile would
/// create one more machine for the index.
///
/// Any one piece of evidence is enough, because other tools change each of them: the annotations of
/// the set, which a GitOps tool reverts; the record in the machine; and the memory of this process.
/// A user takes a machine out of the set with the annotation [`RELEASED`].
///
/// `own` is the uid of the set, or of another object with such machines. `created` has the names
/// that it records, and `requested` those in the memory of this process.
pub(crate) fn strayed<'a>(
    own: &str,
    created: &BTreeSet<String>,
    requested: &BTreeSet<String>,
    others: Vec<&'a Arc<Machine>>,
) -> Vec<&'a Arc<Machine>> {
    let is_ours = |uid: &str| !own.is_empty() && own == uid;
    let is_created = |machine: &Machine| {
        let (meta, name) = (&machine.metadata, machine.metadata.name());
        let released = meta.annotations.get(RELEASED).is_some_and(|uid| is_ours(uid));
        let in_machine = || CreatedFrom::read(machine).is_some_and(|record| record.is_of(own));
        !released && (created.contains(name) || requested.contains(name) || in_machine())
    };
    let is_stray = |machine: &&Arc<Machine>| {
        let mut owners = machine.metadata.owner_references.iter();
        !machine.metadata.is_deleting() && (owners.any(|owner| is_ours(&owner.uid)) || is_created(machine))
    };
    others.into_iter().filter(is_stray).collect()
}

/// The names of the machines that the set records as requested, or as created last for an index.
/// Records that cannot be read have no names: the set is degraded because of them.
pub(crate) fn created(pending: &[PendingCreation], annotations: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = pending.iter().map(|creation| creation.machine.clone()).collect();
    let last = annotations.get(LAST_CREATED);
    let last: BTreeMap<u32, String> = last
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    names.extend(last.into_values());
    names
}

fn lacks_infrastructure(spec: &Spec, observed: &Observed) -> bool {
    let by_name = spec.template.platform.is_some_and(Platform::by_name);
    by_name && !spec.failure_domains.is_empty() && observed.infrastructure.is_none()
}

/// The entry of the set for this failure domain, if the set lists it.
fn listed<'a>(spec: &'a Spec, found: &'a FailureDomain) -> &'a FailureDomain {
    // A parse sorts the failure domains of a set.
    let position = spec.failure_domains.binary_search(found);
    let listed = position.ok().and_then(|position| spec.failure_domains.get(position));
    listed.unwrap_or(found)
}

/// The control plane nodes that no machine claims, neither by name nor by the platform's id of the
/// instance.
pub(crate) fn unclaimed<'a>(
    nodes: impl IntoIterator<Item = &'a Arc<Node>>,
    machines: impl Iterator<Item = &'a Arc<Machine>> + Clone,
) -> Vec<String> {
    let names: BTreeSet<&str> = machines.clone().filter_map(|machine| machine.node_name()).collect();
    let ids: BTreeSet<&str> = machines
        .filter_map(|machine| machine.spec.provider_id.as_deref())
        .filter(|id| !id.is_empty())
        .collect();
    let is_claimed_by_id = |node: &Node| {
        let spec = node.unknown_fields.get("spec");
        let id = spec.and_then(|spec| spec.get("providerID")?.as_str());
        id.is_some_and(|id| ids.contains(id))
    };
    let is_unclaimed =
        |node: &Node| node.is_control_plane() && !names.contains(node.metadata.name()) && !is_claimed_by_id(node);
    let mut unclaimed: Vec<String> = nodes
        .into_iter()
        .filter(|node| is_unclaimed(node))
        .map(|node| node.metadata.name().to_owned())
        .collect();
    unclaimed.sort();
    unclaimed
}

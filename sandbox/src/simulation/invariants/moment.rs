//! What is true at one moment, and what follows from it for the ControlPlaneMachineSet controller.
//!
//! The comparison of a machine with the template is implemented here a second time, for the few
//! fields that the simulation uses. A mistake in core must not be repeated by the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::meta::Condition;
use capstan_core::cpms::created_from::CREATED_FROM;
use capstan_core::cpms::indexes::{INDEX, REPLACES};
use capstan_core::cpms::spec::{PAUSED_ROLLOUT, ROLLOUT_LIMIT};
use jiff::Timestamp;
use serde_json::Value;

use crate::simulation::machine_api::objects::{DROPPED, SELECTED};

/// For how many minutes a node certainly counts as one that joins.
const MOST_JOINING: i64 = 19;

/// Machines by name.
pub(crate) type Machines = BTreeMap<String, Arc<Machine>>;

/// What is true at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) machines: Arc<Machines>,
    pub(crate) nodes: Arc<BTreeMap<String, Arc<Node>>>,
    pub(crate) set: Option<Arc<ControlPlaneMachineSet>>,
    /// The etcd operator reports that all members are healthy.
    pub(crate) etcd_healthy: bool,
}

/// The index at the end of the name of a machine.
pub(crate) fn index(name: &str) -> Option<u32> {
    name.rsplit_once('-')?.1.parse().ok()
}

/// The index of a machine: the one at the end of its name, or the one that the controller recorded
/// in an annotation.
pub(crate) fn index_of(machine: &Machine) -> Option<u32> {
    let recorded = || machine.metadata.annotations.get(INDEX)?.parse().ok();
    index(machine.metadata.name()).or_else(recorded)
}

/// The provider spec of the template.
pub(crate) fn template_value(set: &ControlPlaneMachineSet) -> Option<&Value> {
    set.spec.template.machine.as_ref()?.spec.provider_spec.value.as_ref()
}

/// The instance type of the template.
pub(crate) fn template_type(set: &ControlPlaneMachineSet) -> Option<&str> {
    template_value(set)?.get("instanceType")?.as_str()
}

/// The instance type of a machine.
pub(crate) fn instance_type(machine: &Machine) -> Option<&str> {
    let value = machine.spec.provider_spec.value.as_ref()?;
    value.get("instanceType")?.as_str()
}

/// The zone of a machine.
pub(crate) fn zone(machine: &Machine) -> Option<&str> {
    let value = machine.spec.provider_spec.value.as_ref()?;
    value.pointer("/placement/availabilityZone")?.as_str()
}

fn listed_zones(set: &ControlPlaneMachineSet) -> BTreeSet<&str> {
    let template = set.spec.template.machine.iter();
    let domains = template.filter_map(|template| template.failure_domains.as_ref()?.aws.as_ref());
    let places = domains.flatten().filter_map(|one| one.placement.as_ref());
    places.map(|place| place.availability_zone.as_str()).collect()
}

/// The number of indexes in each listed zone. An index counts for the zone of its newest machine
/// that is not being deleted, or of its newest machine if all are being deleted.
pub(crate) fn spread<'a>(set: &'a ControlPlaneMachineSet, machines: &Machines) -> BTreeMap<&'a str, usize> {
    let mut counts: BTreeMap<&str, usize> = listed_zones(set).into_iter().map(|zone| (zone, 0)).collect();
    let mut newest: BTreeMap<Option<u32>, &Machine> = BTreeMap::new();
    let rank = |machine: &Machine| (!machine.metadata.is_deleting(), machine.metadata.creation_timestamp);
    for machine in machines.values() {
        let place = newest.entry(index_of(machine)).or_insert(machine);
        if rank(machine) >= rank(place) {
            *place = machine;
        }
    }
    for machine in newest.into_values() {
        if let Some(count) = zone(machine).and_then(|zone| counts.get_mut(zone)) {
            *count += 1;
        }
    }
    counts
}

/// The difference between the fullest and the emptiest zone.
pub(crate) fn unevenness(counts: &BTreeMap<&str, usize>) -> usize {
    let (least, most) = (counts.values().min(), counts.values().max());
    most.copied().unwrap_or(0) - least.copied().unwrap_or(0)
}

/// The highest number of indexes that a zone may have.
pub(crate) fn share(counts: &BTreeMap<&str, usize>) -> usize {
    counts.values().sum::<usize>().div_ceil(counts.len().max(1))
}

/// Whether a machine has the instance type of the template, and a zone that the set lists. A field
/// that a webhook drops counts only for machines that the controller did not create: each edit of
/// the template changes the type, too.
pub(crate) fn is_of_template(set: &ControlPlaneMachineSet, machine: &Machine) -> bool {
    let placed = || zone(machine).is_some_and(|zone| listed_zones(set).contains(zone));
    let value = machine.spec.provider_spec.value.as_ref();
    let has_key = || {
        let key = value.and_then(|value| value.get(DROPPED));
        key == template_value(set).and_then(|value| value.get(DROPPED))
    };
    let is_created = || machine.metadata.annotations.contains_key(CREATED_FROM);
    instance_type(machine) == template_type(set) && placed() && (is_created() || has_key())
}

/// Whether a machine is of the template, and its zone has no more indexes than its share.
pub(crate) fn is_current(set: &ControlPlaneMachineSet, machine: &Machine, machines: &Machines) -> bool {
    let is_crowded = || {
        let counts = spread(set, machines);
        zone(machine).and_then(|zone| counts.get(zone)) > Some(&share(&counts))
    };
    is_of_template(set, machine) && !is_crowded()
}

/// Whether every machine has the instance type of the template, and none is being deleted.
pub(crate) fn all_current(set: &ControlPlaneMachineSet, machines: &Machines) -> bool {
    machines
        .values()
        .all(|machine| !machine.metadata.is_deleting() && instance_type(machine) == template_type(set))
}

/// Whether the set selects a machine.
pub(crate) fn is_selected(machine: &Machine) -> bool {
    machine
        .metadata
        .labels
        .get(SELECTED)
        .is_some_and(|value| value == "master")
}

/// Whether a machine belongs to the set: the set selects it, or an object owns it. Without labels
/// and owner references the controller cannot find the machine. Seeds 7177 and 42182: a user
/// removed the labels before the machine was adopted, or before the set was deleted and created
/// again.
pub(crate) fn belongs_to_set(machine: &Machine) -> bool {
    is_selected(machine) || !machine.metadata.owner_references.is_empty()
}

impl Moment {
    /// The machines of an index that belong to the set.
    pub(crate) fn of_index(&self, wanted: Option<u32>) -> impl Iterator<Item = (&String, &Arc<Machine>)> {
        self.machines
            .iter()
            .filter(move |(_, machine)| index_of(machine) == wanted && belongs_to_set(machine))
    }

    /// The machines of an index that are not being deleted.
    pub(crate) fn live(&self, wanted: Option<u32>) -> Vec<(&String, &Arc<Machine>)> {
        self.of_index(wanted)
            .filter(|(_, machine)| !machine.metadata.is_deleting())
            .collect()
    }

    /// Whether a machine has not failed and its node is ready.
    pub(crate) fn is_ready(&self, machine: &Machine) -> bool {
        let node = machine.node_name().and_then(|name| self.nodes.get(name));
        machine.phase() != Some("Failed") && node.is_some_and(|node| node.is_ready())
    }

    /// The number of ready machines that are not being deleted.
    pub(crate) fn ready(&self) -> usize {
        let live = self.machines.values().filter(|machine| !machine.metadata.is_deleting());
        live.filter(|machine| self.is_ready(machine)).count()
    }

    /// Whether there is an Active set that is not being deleted.
    pub(crate) fn is_active(&self) -> bool {
        self.set
            .as_ref()
            .is_some_and(|set| set.spec.state.as_deref() == Some("Active") && !set.metadata.is_deleting())
    }

    /// Whether there is a set, and it is not Active.
    pub(crate) fn is_inactive(&self) -> bool {
        let set = self.set.as_ref();
        set.is_some_and(|set| set.spec.state.as_deref() != Some("Active"))
    }

    /// Whether the strategy is OnDelete.
    pub(crate) fn is_on_delete(&self) -> bool {
        let strategy = self.set.as_ref().and_then(|set| set.spec.strategy.as_ref());
        strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete")
    }

    /// Whether the rollout is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.set
            .as_ref()
            .is_some_and(|set| set.metadata.annotations.contains_key(PAUSED_ROLLOUT))
    }

    /// The limit of the rollout.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.set.as_ref()?.metadata.annotations.get(ROLLOUT_LIMIT)?.parse().ok()
    }

    /// The number of indexes with a machine that is up to date and is not being deleted.
    pub(crate) fn updated_indexes(&self) -> usize {
        let Some(set) = &self.set else { return 0 };
        let live = self.machines.values().filter(|machine| !machine.metadata.is_deleting());
        let updated: BTreeSet<Option<u32>> = live
            .filter(|machine| belongs_to_set(machine) && is_current(set, machine, &self.machines))
            .map(|machine| index_of(machine))
            .collect();
        updated.len()
    }

    /// Whether the rollout has a limit, and as many indexes are up to date.
    pub(crate) fn has_reached_limit(&self) -> bool {
        self.limit().is_some_and(|limit| self.updated_indexes() >= limit)
    }

    /// A machine of an index that is outdated and not ready, if another outdated machine of the
    /// index is ready, and a ready machine of the template replaces both.
    pub(crate) fn unready_outdated(&self, wanted: Option<u32>) -> Option<&String> {
        let set = self.set.as_ref()?;
        let live = self.live(wanted);
        if live.len() < 3 {
            return None;
        }
        let (updated, outdated): (Vec<_>, Vec<_>) =
            live.into_iter().partition(|(_, machine)| is_of_template(set, machine));
        let is_ready = |(_, machine): &(&String, &Arc<Machine>)| self.is_ready(machine);
        let is_replaced = updated.iter().any(is_ready) && outdated.iter().any(is_ready);
        let unready = outdated.into_iter().find(|one| !is_ready(one)).map(|(name, _)| name);
        unready.filter(|_| is_replaced)
    }

    /// Since when the node of a machine has been ready.
    pub(crate) fn ready_since(&self, machine: &Machine) -> Option<Timestamp> {
        let node = self.nodes.get(machine.node_name()?).filter(|node| node.is_ready())?;
        node.ready_condition()?.last_transition_time
    }

    /// The status of a condition of the set.
    pub(crate) fn condition(&self, type_: &str) -> Option<&str> {
        let mut conditions = self.set.as_ref()?.status.as_ref()?.conditions.iter();
        let found = conditions.find(|condition| condition.type_ == type_)?;
        Some(&found.status)
    }

    /// Whether there is a control plane node that belongs to no machine. A node whose provider id a
    /// machine has is joining.
    pub(crate) fn has_unmanaged_node(&self) -> bool {
        let selected = || self.machines.values().filter(|machine| is_selected(machine));
        let claimed: BTreeSet<&str> = selected().filter_map(|machine| machine.node_name()).collect();
        let ids: BTreeSet<&str> = selected()
            .filter_map(|machine| machine.spec.provider_id.as_deref())
            .collect();
        self.nodes.values().any(|node| {
            let known = claimed.contains(node.metadata.name()) || provider_id(node).is_some_and(|id| ids.contains(id));
            node.is_control_plane() && !known
        })
    }

    /// Whether each control plane node without a machine may be the node of a machine that is
    /// starting: there are not more of them, and none is old.
    pub(crate) fn has_only_joining_nodes(&self, now: Timestamp) -> bool {
        let selected = || self.machines.values().filter(|machine| is_selected(machine));
        let claimed: BTreeSet<&str> = selected().filter_map(|machine| machine.node_name()).collect();
        let starting = selected().filter(|machine| {
            machine.node_name().is_none() && machine.phase() != Some("Failed") && !machine.metadata.is_deleting()
        });
        let unclaimed = self.nodes.values().filter(|node| {
            let is_claimed = claimed.contains(node.metadata.name());
            node.is_control_plane() && !is_claimed
        });
        let unclaimed: Vec<_> = unclaimed.collect();
        let is_young = |node: &Arc<Node>| {
            let created = node.metadata.creation_timestamp;
            created.is_some_and(|created| now.duration_since(created).as_mins() < MOST_JOINING)
        };
        unclaimed.len() <= starting.count() && unclaimed.iter().all(|node| is_young(node))
    }

    /// Whether a replacement has failed.
    pub(crate) fn has_failed_replacement(&self) -> bool {
        let Some(set) = &self.set else { return false };
        self.machines.values().any(|machine| {
            machine.phase() == Some("Failed")
                && !machine.metadata.is_deleting()
                && is_selected(machine)
                && instance_type(machine) == template_type(set)
        })
    }

    /// Whether an index needs a machine.
    pub(crate) fn needs_machine(&self, wanted: Option<u32>) -> bool {
        let Some(set) = &self.set else { return false };
        let live = self.live(wanted);
        if live.is_empty() {
            return true;
        }
        let outdated = live
            .iter()
            .all(|(_, machine)| !is_current(set, machine, &self.machines));
        outdated && !self.is_on_delete() && !self.is_paused()
    }

    /// The reason why a machine may be deleted; `None` if it may not.
    pub(crate) fn reason_to_delete(&self, name: &str) -> Option<String> {
        let set = self.set.as_ref()?;
        let machine = self.machines.get(name)?;
        let live = self.live(index_of(machine)).into_iter();
        let others: Vec<_> = live.filter(|(other, _)| *other != name).collect();
        if !self.is_ready(machine) {
            let other = others.first();
            return other.map(|(other, _)| format!("it is not ready, and {other} exists"));
        }
        // The old machine need not stay because its zone would suit the others better.
        let replacement = others
            .iter()
            .find(|(_, other)| self.is_ready(other) && is_of_template(set, other));
        if let Some((other, _)) = replacement {
            return Some(format!("{other} is ready and current"));
        }
        // The template changed again before the old machine was deleted. One of two outdated
        // machines must be deleted before a third one may be created, and the other one continues
        // to serve.
        let outdated = !is_of_template(set, machine);
        let other = others.iter().find(|(_, other)| self.is_ready(other));
        other
            .filter(|_| outdated)
            .map(|(other, _)| format!("both are outdated, and {other} is ready"))
    }

    /// The number of indexes with a ready machine that is not being deleted.
    pub(crate) fn ready_indexes(&self) -> usize {
        let live = self.machines.values().filter(|machine| !machine.metadata.is_deleting());
        let indexes: BTreeSet<Option<u32>> = live
            .filter(|machine| belongs_to_set(machine) && self.is_ready(machine))
            .map(|machine| index_of(machine))
            .collect();
        indexes.len()
    }

    /// Whether a ready machine was created to replace this one.
    pub(crate) fn is_replaced(&self, name: &str) -> bool {
        let Some(machine) = self.machines.get(name) else {
            return false;
        };
        let replaces = |other: &Machine| {
            let replaced = other.metadata.annotations.get(REPLACES);
            replaced.is_some_and(|uid| uid == machine.metadata.uid())
        };
        let mut others = self.live(index_of(machine)).into_iter();
        others.any(|(_, other)| replaces(other) && self.is_ready(other))
    }

    /// Whether each index of an Active set has a machine of the template.
    pub(crate) fn is_complete(&self) -> bool {
        let Some(set) = self.set.as_ref().filter(|_| self.is_active()) else {
            return true;
        };
        let replicas = set.spec.replicas.and_then(|replicas| usize::try_from(replicas).ok());
        let live = self.machines.values().filter(|machine| !machine.metadata.is_deleting());
        let updated: BTreeSet<Option<u32>> = live
            .filter(|machine| is_selected(machine) && instance_type(machine) == template_type(set))
            .map(|machine| index_of(machine))
            .collect();
        replicas.is_none_or(|replicas| updated.len() >= replicas)
    }

    /// Whether each index of the set has one machine, none is being deleted, each is in a zone that
    /// the set lists, and the zones are even.
    pub(crate) fn has_even_zones(&self) -> bool {
        let Some(set) = &self.set else { return false };
        let counts = spread(set, &self.machines);
        let is_settled = self.machines.values().all(|machine| !machine.metadata.is_deleting());
        let placed = counts.values().sum::<usize>();
        is_settled && placed == self.machines.len() && unevenness(&counts) <= 1
    }

    /// Whether a machine was created from what the template contains now, in a zone that still is
    /// right, and no other machine of its index is of the template. `sent` is the provider spec
    /// that the controller sent, without the zone.
    pub(crate) fn is_only_of_revision(&self, name: &str, sent: &Value) -> bool {
        let (Some(set), Some(machine)) = (&self.set, self.machines.get(name)) else {
            return false;
        };
        let others = self.live(index_of(machine)).into_iter();
        let mut others = others.filter(|(other, _)| *other != name);
        template_value(set) == Some(sent)
            && is_current(set, machine, &self.machines)
            && !others.any(|(_, other)| is_of_template(set, other))
    }

    fn condition_degraded(&self) -> Option<&Condition> {
        let conditions = &self.set.as_ref()?.status.as_ref()?.conditions;
        let mut conditions = conditions.iter().filter(|condition| condition.status == "True");
        conditions.find(|condition| condition.type_ == "Degraded")
    }

    /// The message of the condition `Degraded` while it is True.
    pub(crate) fn degraded(&self) -> Option<&str> {
        self.condition_degraded().map(|condition| condition.message.as_str())
    }

    /// The reason of the condition `Degraded` while it is True.
    pub(crate) fn degraded_reason(&self) -> Option<&str> {
        self.condition_degraded().map(|condition| condition.reason.as_str())
    }

    /// Whether a machine exists and is ready.
    pub(crate) fn has_ready(&self, name: &str) -> bool {
        self.machines.get(name).is_some_and(|machine| self.is_ready(machine))
    }
}

/// The provider id of a node.
pub(crate) fn provider_id(node: &Node) -> Option<&str> {
    node.unknown_fields.get("spec")?.get("providerID")?.as_str()
}

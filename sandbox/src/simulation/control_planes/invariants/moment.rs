//! What invariants know of one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::api::machine_openshift_io::control_plane::ControlPlane;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::control_plane::spec::ACKNOWLEDGED;
use capstan_core::cpms::selector::is_control_plane;
use serde_json::Value;

use crate::simulation::control_planes::state::{Machines, Nodes, Plane};
use crate::simulation::engine::schedule::{MINUTE, SECOND};

/// The etcd operator reports a change of its members within this time, in milliseconds. The caches
/// do not matter, because the report is read live.
const REPORTED_WITHIN: i64 = MINUTE + 30 * SECOND;

/// The failure domain of a machine.
pub(in crate::simulation::control_planes) fn zone(machine: &Machine) -> String {
    let value = machine.spec.provider_spec.value.as_ref();
    let zone = value.and_then(|value| value.pointer("/placement/availabilityZone"));
    zone.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// One moment. Clones are cheap.
#[derive(Clone, Debug)]
pub(in crate::simulation::control_planes) struct Moment {
    pub(super) machines: Arc<Machines>,
    nodes: Arc<Nodes>,
    pub(super) object: Option<Arc<ControlPlane>>,
    /// Members that have not been healthy for longer than the report takes.
    pub(super) sick: Arc<BTreeSet<String>>,
    /// Members that have started and do not vote yet.
    learners: Arc<BTreeSet<String>>,
}

impl Moment {
    /// What is true now.
    pub(in crate::simulation::control_planes) fn of(plane: &Plane, now: i64) -> Self {
        let (machines, nodes) = plane.objects();
        let long = plane.etcd.wanting_since.iter();
        let long = long.filter(|(_, since)| now - **since > REPORTED_WITHIN);
        let sick = long.map(|(member, _)| member.clone());
        let sick = sick.filter(|member| !plane.is_healthy(member));
        let learners = plane.etcd.members.learners.iter();
        let learners = learners.filter(|member| !plane.etcd.starting.contains(*member));
        Self {
            machines,
            nodes,
            object: plane.object.clone(),
            sick: Arc::new(sick.collect()),
            learners: Arc::new(learners.cloned().collect()),
        }
    }

    /// The number of machines that the ControlPlane asks for.
    pub(super) fn replicas(&self) -> usize {
        let asked = self.object.as_ref().and_then(|object| object.spec.replicas);
        asked.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or(0)
    }

    /// The machines of the control plane that are not being deleted, also those that lost a label.
    pub(super) fn standing(&self) -> impl Iterator<Item = &Arc<Machine>> {
        let uid = self.object.as_ref().map_or("", |object| object.metadata.uid());
        let machines = self.machines.values();
        machines.filter(move |machine| {
            let owners = &machine.metadata.owner_references;
            let is_ours = is_control_plane(&machine.metadata.labels) || owners.iter().any(|owner| owner.uid == uid);
            !machine.metadata.is_deleting() && is_ours
        })
    }

    /// Whether the member of a machine that stands is a learner.
    pub(super) fn is_learning(&self) -> bool {
        self.standing()
            .any(|machine| self.learners.contains(machine.metadata.name()))
    }

    /// The number of machines that stand.
    pub(super) fn count(&self) -> usize {
        self.standing().count()
    }

    /// Whether the node of a machine is ready.
    pub(super) fn is_ready(&self, machine: &Machine) -> bool {
        let node = machine.node_name().and_then(|name| self.nodes.get(name));
        node.is_some_and(|node| node.is_ready())
    }

    /// Whether every machine that stands has a ready node.
    pub(super) fn all_ready(&self) -> bool {
        self.standing().all(|machine| self.is_ready(machine))
    }

    /// Whether a machine of the control plane is being deleted. One without the labels counts only
    /// through its etcd member, which is one more than there are machines.
    pub(super) fn has_leaving(&self) -> bool {
        let mut machines = self.machines.values();
        machines.any(|machine| machine.metadata.is_deleting() && is_control_plane(&machine.metadata.labels))
    }

    /// Whether a machine has the instance type of the template.
    pub(super) fn is_current(&self, machine: &Machine) -> bool {
        let type_of = |value: &Value| value.get("instanceType").cloned();
        let template = self
            .object
            .as_ref()
            .and_then(|object| object.spec.provider_spec.value.as_ref());
        let own = machine.spec.provider_spec.value.as_ref();
        template.and_then(type_of) == own.and_then(type_of)
    }

    /// Whether a machine that stands is outdated.
    pub(super) fn has_outdated(&self) -> bool {
        self.standing().any(|machine| !self.is_current(machine))
    }

    /// Whether no listed failure domain has two machines more than another one, and no machine is
    /// in another failure domain.
    pub(super) fn is_even(&self) -> bool {
        let Some(counts) = self.spread() else { return false };
        let most = counts.values().max().copied().unwrap_or(0);
        let least = counts.values().min().copied().unwrap_or(0);
        most <= least + 1
    }

    /// Whether the number and the shape are as wanted, and only the spread is not.
    pub(super) fn only_spread_is_wrong(&self) -> bool {
        self.count() == self.replicas() && !self.has_outdated() && !self.is_even()
    }

    /// What identifies the creation of a machine for a better spread: the spread before it, and its
    /// failure domain.
    pub(super) fn move_to(&self, machine: &Machine) -> String {
        format!("{} from {:?} of {}", zone(machine), self.spread(), self.count())
    }

    /// The number of machines in each listed failure domain; `None` while a machine is in another
    /// one.
    fn spread(&self) -> Option<BTreeMap<String, usize>> {
        let object = self.object.as_ref();
        let listed = object.and_then(|object| object.spec.failure_domains.as_ref());
        let listed = serde_json::to_value(listed).unwrap_or_default();
        let zones = listed.pointer("/aws").and_then(Value::as_array).into_iter().flatten();
        let zones = zones.filter_map(|zone| zone.pointer("/placement/availabilityZone")?.as_str());
        let mut counts: BTreeMap<String, usize> = zones.map(|zone| (zone.to_owned(), 0)).collect();
        for machine in self.standing() {
            *counts.get_mut(&zone(machine))? += 1;
        }
        Some(counts)
    }

    /// Whether a user accepted the replacement of the only machine.
    pub(super) fn is_acknowledged(&self) -> bool {
        let object = self.object.as_ref();
        object.is_some_and(|object| object.metadata.annotations.contains_key(ACKNOWLEDGED))
    }

    /// How many machines may be unhealthy while the health check deletes one.
    pub(super) fn most_unhealthy(&self) -> u64 {
        let machines = self.count().min(self.replicas());
        u64::try_from(machines.saturating_sub(1) / 2).unwrap_or(0)
    }
}

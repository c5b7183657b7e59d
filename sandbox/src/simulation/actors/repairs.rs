//! The simulated administrator: repairs what faults and users left behind, as the messages of the
//! controllers advise.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::created_from::CREATED_FROM;
use capstan_core::cpms::spec::{PAUSED_ROLLOUT, ROLLOUT_LIMIT};
use serde_json::json;

use super::user_actions::EDITED;
use crate::infrastructure::etcd::is_hooked;
use crate::simulation::engine::schedule::SECOND;
use crate::simulation::engine::world::World;
use crate::simulation::invariants::check::first_violation;
use crate::simulation::invariants::control_plane_machine_set::idle::Idle;
use crate::simulation::invariants::moment::{
    index_of, instance_type, is_of_template, is_selected, template_type, template_value,
};
use crate::simulation::machine_api::neighbours::is_foreign_node;
use crate::simulation::machine_api::objects::{self, DROPPED};
use crate::simulation::machine_api::state::ControlPlane;

/// The result of the repair of one machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repair {
    /// The machine needs nothing.
    Nothing,
    /// The machine was changed.
    Changed,
    /// The machine was deleted. The controllers act before anything else is repaired.
    Deleted,
}

impl World<ControlPlane> {
    /// Repairs what faults and users left behind. Returns whether there was anything to repair.
    pub(crate) fn repair_cluster(&mut self) -> bool {
        self.judge_idle();
        self.end_machine_faults();
        let mut any = self.is_busy();
        any |= self.remove_foreign_nodes();
        any |= self.resume_rollout();
        for name in self.environment.provider.down.keys().cloned().collect::<Vec<_>>() {
            self.node_back(&name);
            any = true;
        }
        any |= self.restore_etcd();
        // A set that is not Active replaces no machine.
        let is_active = self.environment.moment().is_active();
        let names: Vec<String> = self.environment.machines.keys().cloned().collect();
        for name in names {
            match self.repair_machine(&name, is_active) {
                Repair::Nothing => {}
                Repair::Changed => any = true,
                Repair::Deleted => return true,
            }
        }
        any |= is_active && self.delete_excess();
        if any {
            self.advance(SECOND);
        }
        any
    }

    /// Judges the state that Capstan reached before anything is repaired.
    fn judge_idle(&mut self) {
        let idle = Idle {
            now: &self.environment.moment(),
            evidence: &self.environment.evidence,
            operator: self.environment.operator.as_deref(),
        };
        if let Some((invariant, text)) = first_violation(&Idle::CHECKS, &idle) {
            self.violate(invariant, text);
        }
    }

    /// Removes the control plane nodes without a machine that the condition `Degraded` names. No
    /// condition names them while the set is not Active.
    fn remove_foreign_nodes(&mut self) -> bool {
        let moment = self.environment.moment();
        let is_reported = |name: &str| !moment.is_active() || moment.degraded().is_some_and(|text| text.contains(name));
        let nodes = self.environment.nodes.values();
        let foreign = nodes.filter(|node| is_foreign_node(&node.metadata));
        let names: Vec<String> = foreign.map(|node| node.metadata.name().to_owned()).collect();
        let mut any = false;
        for name in names.iter().filter(|name| is_reported(name)) {
            self.stranger_gone(name);
            any = true;
        }
        any
    }

    fn resume_rollout(&mut self) -> bool {
        let Some(set) = self.environment.set.clone() else {
            return false;
        };
        let mut any = false;
        for annotation in [PAUSED_ROLLOUT, ROLLOUT_LIMIT] {
            if set.metadata.annotations.contains_key(annotation) {
                self.annotate_set(annotation, None);
                any = true;
            }
        }
        any
    }

    fn repair_machine(&mut self, name: &str, is_active: bool) -> Repair {
        let Some(machine) = self.environment.machines.get(name).cloned() else {
            return Repair::Nothing;
        };
        let mut repair = Repair::Nothing;
        if !is_selected(&machine) {
            if self.environment.is_superfluous(&machine) {
                // With its labels it would be the second machine of its index, and Capstan would
                // ask to delete one of them.
                self.trace(|| format!("-- repair: machine {name} is deleted; its index has another machine"));
                self.delete_machine(name);
                return Repair::Deleted;
            }
            self.patch_machine(name, json!({"metadata": {"labels": objects::labels()}}));
            repair = Repair::Changed;
        }
        let nodes = &self.environment.nodes;
        let lost = machine.node_name().is_some_and(|node| !nodes.contains_key(node));
        let failed = machine.phase() == Some("Failed");
        let deleting = machine.metadata.is_deleting();
        let edited = self.environment.keeps_an_edit(&machine) || self.environment.lost_field(&machine);
        if (lost || failed || edited) && !deleting && is_active {
            self.trace(|| format!("-- repair: machine {name} is deleted, so that it is created again"));
            self.delete_machine(name);
            return Repair::Deleted;
        }
        // No set replaces the machine any more, so its member could never leave. Its owner releases
        // it.
        if deleting && !is_active && is_hooked(&machine) {
            self.environment.evidence.unhooked.insert(name.to_owned());
            self.environment.etcd.members.remove(name);
            self.patch_machine(name, json!({"spec": {"lifecycleHooks": null}}));
            repair = Repair::Changed;
        }
        repair
    }

    /// Deletes a machine that an index does not need. Returns whether there was one.
    fn delete_excess(&mut self) -> bool {
        let Some(name) = self.environment.excess_machine() else {
            return false;
        };
        self.trace(|| format!("-- repair: machine {name} is deleted; its index has another machine"));
        self.delete_machine(&name);
        true
    }
}

impl ControlPlane {
    /// Whether a webhook of another component dropped a field of the template from a machine.
    fn lost_field(&self, machine: &Machine) -> bool {
        let Some(set) = self.set.as_ref().filter(|_| self.webhook.drops == 0) else {
            return false;
        };
        let wanted = template_value(set).and_then(|value| value.get(DROPPED));
        let provider_spec = machine.spec.provider_spec.value.as_ref();
        let there = provider_spec.and_then(|value| value.get(DROPPED));
        let is_created = machine.metadata.annotations.contains_key(CREATED_FROM);
        is_created && is_of_template(set, machine) && wanted.is_some() && there.is_none()
    }

    /// Whether a machine has an instance type that a user wrote, and Capstan does not replace the
    /// machine: it records the template that it was created from. The set can be generated from
    /// such a machine. Then the template has the type as well, and the machine needs no repair
    /// (seed 50664).
    fn keeps_an_edit(&self, machine: &Machine) -> bool {
        let of_template = self.set.as_deref().and_then(template_type);
        let edited = instance_type(machine).filter(|type_| type_.starts_with(EDITED));
        edited.is_some() && edited != of_template && machine.metadata.annotations.contains_key(CREATED_FROM)
    }

    /// A machine of an index that has several machines of the template: one that is not ready, or
    /// the newest one.
    fn excess_machine(&self) -> Option<String> {
        let set = self.set.as_ref()?;
        let moment = self.moment();
        let mut alike: BTreeMap<Option<u32>, Vec<(bool, &String)>> = BTreeMap::new();
        for (name, machine) in self.machines.iter() {
            let stays = is_selected(machine) && !machine.metadata.is_deleting();
            if stays && is_of_template(set, machine) {
                let of_index = alike.entry(index_of(machine)).or_default();
                of_index.push((moment.is_ready(machine), name));
            }
        }
        let created = |name: &String| Some(self.machines.get(name)?.metadata.creation_timestamp);
        let of_index = alike.into_values().find(|of_index| of_index.len() > 1)?;
        let worst = of_index
            .into_iter()
            .min_by_key(|(ready, name)| (*ready, Reverse(created(name))));
        worst.map(|(_, name)| name.clone())
    }

    /// Whether a machine without the labels of the set may be deleted: every replica of the set has
    /// a ready machine, one of them with the index of this machine. If one is missing, etcd needs
    /// the member on this machine.
    fn is_superfluous(&self, machine: &Machine) -> bool {
        let moment = self.moment();
        let serving: BTreeSet<Option<u32>> = moment
            .machines
            .iter()
            .filter(|(_, one)| is_selected(one) && !one.metadata.is_deleting() && moment.is_ready(one))
            .map(|(_, other)| index_of(other))
            .collect();
        moment.set.is_some()
            && !machine.metadata.is_deleting()
            && serving.len() >= self.evidence.replicas
            && serving.contains(&index_of(machine))
    }
}

//! The simulated administrator: repairs what faults and users left behind, as the messages of the
//! controller advise.

use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::selector::is_control_plane;
use serde_json::json;

use crate::simulation::engine::schedule::HOUR;
use crate::simulation::engine::world::World;

use super::objects;
use super::state::Plane;
use super::users::FOREIGN;

/// What is done about a machine.
enum Repair {
    Nothing,
    Labels,
    Owner,
    Delete,
    Unhook,
}

impl Plane {
    /// Whether the status asks for a repair of etcd.
    fn waits_for_user(&self) -> bool {
        let status = self.object.as_ref().and_then(|object| object.status.as_ref());
        status.is_some_and(|status| status.failure_reason.as_deref() == Some("EtcdQuorumAtRisk"))
    }

    fn repair_of(&self, machine: &Machine) -> Repair {
        let deleting = machine.metadata.is_deleting();
        let lost = machine.node_name().is_some() && self.node_of(machine).is_none();
        let owned = machine
            .metadata
            .owner_references
            .iter()
            .any(|owner| owner.uid == FOREIGN);
        let is_replaced = self.object.is_some();
        let waits_for_user = self.waits_for_user();
        if !is_control_plane(&machine.metadata.labels) {
            Repair::Labels
        } else if owned {
            Repair::Owner
        } else if (lost || machine.phase() == Some("Failed")) && !deleting && is_replaced {
            Repair::Delete
        } else if deleting && self.is_hooked(machine) && (!is_replaced || (lost && waits_for_user)) {
            // Nothing replaces the machine any more, so its member could never leave. Or several
            // members are lost, so that neither the etcd operator nor the controller acts, and the
            // status asks for a repair.
            Repair::Unhook
        } else {
            Repair::Nothing
        }
    }
}

impl World<Plane> {
    /// Without an etcd operator, no object changes with the members, and the controller asks for
    /// them. It does so until an hour after the last fault, repair, or change of an object.
    pub(super) fn extend_polling(&mut self) {
        if self.environment.setup.own_members {
            self.environment.polls_until = self.calm_from() + HOUR;
        }
    }

    /// Repairs what faults and users left behind. Returns whether there was anything to repair.
    pub(super) fn repair_plane(&mut self) -> bool {
        self.end_machine_faults();
        let mut any = self.is_busy();
        for node in self.environment.provider.down.keys().cloned().collect::<Vec<_>>() {
            self.node_back(&node);
            any = true;
        }
        any |= self.restore_etcd();
        any |= self.remove_lost_members();
        let names: Vec<String> = self.environment.machines.keys().cloned().collect();
        for name in names {
            let Some(machine) = self.environment.machines.get(&name).cloned() else {
                continue;
            };
            match self.environment.repair_of(&machine) {
                Repair::Nothing => continue,
                Repair::Labels => self.patch_machine(&name, json!({"metadata": {"labels": objects::labels()}})),
                Repair::Owner => self.patch_machine(&name, json!({"metadata": {"ownerReferences": null}})),
                Repair::Delete => {
                    self.trace(|| format!("-- repair: machine {name} is deleted, so that it is replaced"));
                    self.delete_machine(&name);
                    // The controller acts before anything else is repaired.
                    return true;
                }
                Repair::Unhook => {
                    self.environment.evidence.disturbed.insert(name.clone());
                    self.environment.etcd.members.remove(&name);
                    self.patch_machine(&name, json!({"spec": {"lifecycleHooks": null}}));
                }
            }
            any = true;
        }
        any |= self.answer_request();
        if any {
            self.pass();
        }
        any
    }

    /// Removes the members whose machines are gone, where no etcd operator does: the controller
    /// removes those that started, and names the others as lost. The etcd operator removes none
    /// beside several members that are not healthy, and the status asks for a repair.
    fn remove_lost_members(&mut self) -> bool {
        let environment = &mut self.environment;
        let members = &environment.etcd.members;
        let machines = &environment.machines;
        let all = members.voters.iter().chain(&members.learners);
        let lost: Vec<String> = all.filter(|name| !machines.contains_key(*name)).cloned().collect();
        let by_user = environment.setup.own_members || environment.waits_for_user();
        if !by_user || environment.etcd.has_bootstrap || !environment.has_quorum() {
            return false;
        }
        for name in &lost {
            environment.etcd.members.remove(name);
        }
        if !lost.is_empty() {
            self.plan_etcd();
        }
        !lost.is_empty()
    }

    /// Accepts the replacement of the only machine, and lets the controller repeat attempts to
    /// improve the spread, if it asks for this.
    fn answer_request(&mut self) -> bool {
        let status = self
            .environment
            .object
            .as_ref()
            .and_then(|object| object.status.clone());
        let conditions = status.map(|status| status.conditions).unwrap_or_default();
        let asks = conditions.iter().any(|one| one.reason == "WaitingForAcknowledgement");
        if asks {
            self.acknowledge();
        }
        let is_uneven = conditions.iter().any(|one| one.reason == "SpreadUneven");
        if is_uneven {
            self.repeat_moves();
        }
        asks || is_uneven
    }
}

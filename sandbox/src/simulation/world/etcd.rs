//! The etcd members and their operator: it hooks the deletion of every machine with a member, lets one go when there are
//! more members than there are to be, and reports members that are not healthy.

use std::collections::BTreeSet;

use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::machine_openshift_io::machine::Machine;
use serde_json::{Value, json};

use crate::api::Part;
use crate::simulation::objects::{HOOK, Sort};
use crate::simulation::schedule::SECOND;

use super::{Actor, Due, World};

/// The members.
#[derive(Debug, Default)]
pub(super) struct Etcd {
    /// Machines with a member.
    pub(super) members: BTreeSet<String>,
    due: bool,
    /// How many faults say that a member is sick.
    pub(super) sick: u32,
}

/// Whether the operator reports that all is well.
pub(super) fn reports_well(operator: &ClusterOperator) -> bool {
    operator
        .condition("Available")
        .and_then(|condition| condition.message.as_deref())
        .is_none_or(|message| !message.contains("unhealthy"))
}

fn hooks(machine: &Machine) -> impl Iterator<Item = &str> {
    let hooks = machine.spec.lifecycle_hooks.as_ref();
    hooks
        .into_iter()
        .flat_map(|hooks| hooks.pre_drain.iter().map(|hook| hook.name.as_str()))
}

/// Whether the operator holds a machine.
pub(super) fn is_hooked(machine: &Machine) -> bool {
    hooks(machine).any(|name| name == HOOK)
}

enum Do {
    Join(String),
    Leave(String),
    Forget(String),
    Report(bool),
}

impl World {
    pub(super) fn look_after_etcd(&mut self) {
        self.check_quorum();
        if !self.etcd.due && self.next_of_etcd().is_some() {
            self.etcd.due = true;
            let delay = self.between(2 * SECOND, 30 * SECOND);
            self.after_ms(delay, Due::Etcd);
        }
    }

    fn serves(&self, name: &str) -> bool {
        let node = self
            .machines
            .get(name)
            .and_then(|machine| self.nodes.get(machine.node_name()?));
        node.is_some_and(|node| node.is_ready())
    }

    fn next_of_etcd(&self) -> Option<Do> {
        let well = self.etcd.sick == 0 && self.etcd.members.iter().all(|member| self.serves(member));
        let reported = self.operators.get("etcd").is_none_or(|operator| reports_well(operator));
        if well != reported {
            return Some(Do::Report(well));
        }
        let joining = self.machines.iter().find(|(name, machine)| {
            !machine.metadata.is_deleting()
                && self.serves(name)
                && !(is_hooked(machine) && self.etcd.members.contains(*name))
        });
        if let Some((name, _)) = joining {
            return Some(Do::Join(name.clone()));
        }
        let going = self
            .machines
            .iter()
            .filter(|(_, machine)| machine.metadata.is_deleting() && is_hooked(machine))
            .map(|(name, _)| name)
            .find(|name| self.enough_without(name));
        if let Some(name) = going {
            return Some(Do::Leave(name.clone()));
        }
        let lost = self
            .etcd
            .members
            .iter()
            .find(|member| !self.machines.contains_key(*member) && self.enough_without(member));
        lost.map(|member| Do::Forget(member.clone()))
    }

    /// Whether there are as many healthy members as there are to be, without this one. A machine that is going counts
    /// for as long as it has its member: that is what its hook is for.
    fn enough_without(&self, leaving: &str) -> bool {
        let members = self.etcd.members.iter();
        let healthy = members
            .filter(|member| *member != leaving && self.serves(member))
            .count();
        healthy >= usize::try_from(self.schedule.replicas).unwrap_or(3)
    }

    pub(super) fn tend_etcd(&mut self) {
        self.etcd.due = false;
        match self.next_of_etcd() {
            Some(Do::Join(name)) => {
                self.etcd.members.insert(name.clone());
                self.hook(&name, true);
            }
            Some(Do::Leave(name)) => {
                self.etcd.members.remove(&name);
                self.hook(&name, false);
            }
            Some(Do::Forget(member)) => {
                self.etcd.members.remove(&member);
            }
            Some(Do::Report(well)) => self.report_etcd(well),
            None => return,
        }
        self.look_after_etcd();
    }

    fn hook(&mut self, name: &str, hooked: bool) {
        let Some(machine) = self.machines.get(name) else { return };
        let mut list: Vec<Value> = hooks(machine)
            .filter(|hook| *hook != HOOK)
            .map(|hook| json!({"name": hook, "owner": "somebody"}))
            .collect();
        if hooked {
            list.push(json!({"name": HOOK, "owner": "clusteroperator/etcd"}));
        }
        let patch = json!({"spec": {"lifecycleHooks": {"preDrain": list}}});
        let _written = self.patch(Actor::Etcd, Sort::Machine, name, Part::Main, patch);
    }

    pub(super) fn report_etcd(&mut self, well: bool) {
        let message = if well {
            "EtcdMembersAvailable: all members are available"
        } else {
            "EtcdMembersAvailable: a member is unhealthy"
        };
        let now = self.timestamp().to_string();
        let condition = |name: &str, status: &str, message: &str| json!({"type": name, "status": status, "reason": "AsExpected", "message": message, "lastTransitionTime": now});
        let conditions = [
            condition("Available", "True", message),
            condition("Degraded", "False", ""),
        ];
        let patch = json!({"status": {"conditions": conditions}});
        let _written = self.patch(Actor::Etcd, Sort::Operator, "etcd", Part::Status, patch);
    }

    pub(super) fn etcd_sick(&mut self, time: i64) {
        self.trace(|| format!("   an etcd member is sick for {}s", time / 1000));
        self.etcd.sick += 1;
        self.after_ms(time, Due::EtcdWell);
        self.look_after_etcd();
    }

    pub(super) fn etcd_well(&mut self) {
        self.etcd.sick = self.etcd.sick.saturating_sub(1);
        self.look_after_etcd();
    }

    /// No controller brings etcd below its quorum.
    fn check_quorum(&mut self) {
        let members = self.etcd.members.len();
        let healthy = self.etcd.members.iter().filter(|member| self.serves(member)).count();
        let excused = !self.provider.down.is_empty() || !self.truth.vanished.is_empty() || self.truth.unhooked;
        if members > 0 && healthy < members / 2 + 1 && !excused {
            let text = format!("etcd has lost its quorum: {healthy} of {members} members are healthy");
            self.truth.violate("C12", text);
        }
    }
}

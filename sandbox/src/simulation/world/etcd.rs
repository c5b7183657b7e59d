//! The etcd members and their operator: it hooks the deletion of every machine with a member, lets one go when there are
//! more members than there are to be, and reports members that are not healthy. A new member learns before it votes, one at
//! a time; only those that vote are counted.

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
    /// Machines with a member that votes.
    pub(super) members: BTreeSet<String>,
    /// Machines with a member that does not vote yet.
    pub(super) learners: BTreeSet<String>,
    due: bool,
    /// How many faults say that a member is sick.
    sick: u32,
    /// How many faults say that no learner is promoted.
    unpromoted: u32,
    /// How many faults say that the operator says nothing.
    mute: u32,
}

impl Etcd {
    /// The member of a machine is gone.
    pub(super) fn forget(&mut self, name: &str) {
        self.members.remove(name);
        self.learners.remove(name);
    }

    fn ailment(&mut self, ailment: Ailment) -> &mut u32 {
        match ailment {
            Ailment::Sick => &mut self.sick,
            Ailment::Unpromoted => &mut self.unpromoted,
            Ailment::Mute => &mut self.mute,
        }
    }
}

/// What may be wrong with etcd for a while.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ailment {
    Sick,
    Unpromoted,
    Mute,
}

/// What the operator says of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Well,
    Sick,
    Nothing,
}

impl Report {
    fn of(operator: &ClusterOperator) -> Self {
        match operator.condition("Available") {
            None => Self::Nothing,
            Some(there) => match &there.message {
                Some(message) if message.contains("unhealthy") => Self::Sick,
                _ => Self::Well,
            },
        }
    }
}

/// Whether the operator reports that all is well.
pub(super) fn reports_well(operator: &ClusterOperator) -> bool {
    Report::of(operator) == Report::Well
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
    Promote(String),
    Leave(String),
    Forget(String),
    Report(Report),
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
        let all = || self.etcd.members.iter().chain(&self.etcd.learners);
        let well = self.etcd.sick == 0 && all().all(|member| self.serves(member));
        let report = match (self.etcd.mute > 0, well) {
            (true, _) => Report::Nothing,
            (false, true) => Report::Well,
            (false, false) => Report::Sick,
        };
        let reported = self.operators.get("etcd").map(|operator| Report::of(operator));
        if reported.is_some_and(|reported| reported != report) {
            return Some(Do::Report(report));
        }
        let joining = self.machines.iter().find(|(name, machine)| {
            let known = self.etcd.members.contains(*name) || self.etcd.learners.contains(*name);
            // One learns at a time.
            let wanted = if known {
                !is_hooked(machine)
            } else {
                self.etcd.learners.is_empty()
            };
            !machine.metadata.is_deleting() && self.serves(name) && wanted
        });
        if let Some((name, _)) = joining {
            return Some(Do::Join(name.clone()));
        }
        let promoted = self.etcd.learners.iter().find(|learner| self.serves(learner));
        if let (Some(name), 0) = (promoted, self.etcd.unpromoted) {
            return Some(Do::Promote(name.clone()));
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
        let mut lost = all().filter(|member| !self.machines.contains_key(*member));
        let lost = lost.find(|member| self.enough_without(member));
        lost.map(|member| Do::Forget(member.clone()))
    }

    /// Whether there are as many healthy members that vote as there are to be, without this one. A machine that is going
    /// counts for as long as it has its member: that is what its hook is for. One that does not vote is not missed.
    fn enough_without(&self, leaving: &str) -> bool {
        if !self.etcd.members.contains(leaving) {
            return true;
        }
        let counts_learners = self.orders.mutant.is_some_and(super::Mutant::counts_learners);
        let learners = self.etcd.learners.iter().filter(|_| counts_learners);
        let members = self.etcd.members.iter().chain(learners);
        let healthy = members
            .filter(|member| *member != leaving && self.serves(member))
            .count();
        healthy >= usize::try_from(self.schedule.replicas).unwrap_or(3)
    }

    pub(super) fn tend_etcd(&mut self) {
        self.etcd.due = false;
        match self.next_of_etcd() {
            Some(Do::Join(name)) => {
                if !self.etcd.members.contains(&name) {
                    self.etcd.learners.insert(name.clone());
                }
                self.hook(&name, true);
            }
            Some(Do::Promote(name)) => {
                self.trace(|| format!("   the etcd member of machine {name} votes from now on"));
                self.etcd.learners.remove(&name);
                self.etcd.members.insert(name);
            }
            Some(Do::Leave(name)) => {
                self.etcd.forget(&name);
                self.hook(&name, false);
            }
            Some(Do::Forget(member)) => self.etcd.forget(&member),
            Some(Do::Report(report)) => self.report_etcd(report),
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

    pub(super) fn report_etcd(&mut self, report: Report) {
        let message = match report {
            Report::Well => "EtcdMembersAvailable: all members are available",
            Report::Sick => "EtcdMembersAvailable: a member is unhealthy",
            Report::Nothing => {
                let patch = json!({"status": {"conditions": []}});
                let _written = self.patch(Actor::Etcd, Sort::Operator, "etcd", Part::Status, patch);
                return;
            }
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

    pub(super) fn etcd_ails(&mut self, ailment: Ailment, time: i64) {
        self.trace(|| format!("   etcd: {ailment:?} for {}s", time / 1000));
        *self.etcd.ailment(ailment) += 1;
        self.after_ms(time, Due::EtcdWell(ailment));
        self.look_after_etcd();
    }

    pub(super) fn etcd_well(&mut self, ailment: Ailment) {
        let count = self.etcd.ailment(ailment);
        *count = count.saturating_sub(1);
        self.look_after_etcd();
    }

    /// No controller brings etcd nearer to the loss of its quorum: as many members vote and are healthy as there are to be,
    /// whatever is replaced. A member that learns is none of them.
    fn check_quorum(&mut self) {
        let members = self.truth.replicas;
        let healthy = self.etcd.members.iter().filter(|member| self.serves(member)).count();
        let excused = !self.provider.down.is_empty() || !self.truth.vanished.is_empty() || self.truth.unhooked;
        if !self.etcd.members.is_empty() && healthy < members && !excused {
            let text = format!("the quorum of etcd is at risk: {healthy} of {members} members vote and are healthy");
            self.truth.violate("C12", text);
        }
    }
}

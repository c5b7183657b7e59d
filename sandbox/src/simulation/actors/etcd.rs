//! The etcd operator: it executes the steps of the state machine that the simulated provider uses
//! too.

use std::collections::BTreeSet;

use capstan_core::api::config_openshift_io::cluster_operator;
use serde_json::json;

use crate::api::Part;
use crate::infrastructure::etcd::{Ailments, Host, Members, Observed, Report, Step, is_hooked, with_hook};
use crate::simulation::engine::schedule::{MINUTE, SECOND};
use crate::simulation::engine::world::{Actor, World};
use crate::simulation::invariants::check::first_violation;
use crate::simulation::invariants::control_plane_machine_set::members::MemberState;
use crate::simulation::machine_api::kinds;
use crate::simulation::machine_api::state::{Ailment, ControlPlane, Event};
use crate::simulation::mutants::catalogue::Mutant;

use super::etcd_messages::{self, Message};

const ETCD: Actor = Actor::Named("etcd-operator");

impl ControlPlane {
    /// The next step of the etcd operator.
    fn next_etcd_step(&self) -> Option<Step> {
        let machines = self.machines.iter();
        let hosts = machines.map(|(name, machine)| Host::of(machine, self.has_ready_node(name)));
        let observed = Observed {
            hosts: hosts.collect(),
            reported: Some(self.etcd.reported),
            size: self.evidence.replicas,
            ailments: Ailments {
                sick: self.etcd.sick > 0,
                unpromoted: self.etcd.unpromoted > 0,
                mute: self.etcd.mute > 0,
                quorum_lost: !self.has_quorum(),
                counts_learners: self.has_bug(Mutant::counts_learners),
            },
        };
        self.etcd.members.next(&observed)
    }

    /// Whether most voters have an instance that runs. Without them there is no API server: no user
    /// can write, and no member changes, until etcd is restored.
    pub(crate) fn has_quorum(&self) -> bool {
        let voters = &self.etcd.members.voters;
        let runs = |voter: &&String| {
            let machine = self.machines.get(*voter);
            machine.is_some_and(|machine| self.provider.instances.contains(machine.metadata.uid()))
        };
        voters.is_empty() || 2 * voters.iter().filter(runs).count() > voters.len()
    }

    /// The machine on which an administrator restores etcd: one with a ready node, if possible one
    /// with a voter.
    fn survivor(&self) -> Option<String> {
        let ready = self.machines.keys().filter(|name| self.has_ready_node(name));
        let worst = |name: &&String| {
            let (members, machine) = (&self.etcd.members, self.machines.get(*name));
            let is_deleting = machine.is_some_and(|machine| machine.metadata.is_deleting());
            (!members.voters.contains(*name), is_deleting, (*name).clone())
        };
        ready.min_by_key(worst).cloned()
    }

    fn member_state(&self) -> MemberState {
        let voters = &self.etcd.members.voters;
        let (down, evidence) = (&self.provider.down, &self.evidence);
        MemberState {
            size: evidence.replicas,
            exists: !voters.is_empty(),
            healthy: voters.iter().filter(|voter| self.has_ready_node(voter)).count(),
            is_excused: !down.is_empty() || !evidence.vanished.is_empty() || !evidence.unhooked.is_empty(),
        }
    }

    /// Notes which exemptions excuse a missing voter, and ends those that no longer apply.
    fn note_exemptions(&mut self, state: &MemberState) {
        let is_missing = state.exists && state.healthy < state.size;
        if state.exists && !is_missing {
            let machines = &self.machines;
            let is_unhooked = |name: &str| machines.get(name).is_some_and(|machine| !is_hooked(machine));
            self.evidence.end_missing_members(is_unhooked);
        }
        let (down, evidence) = (&self.provider.down, &self.evidence);
        evidence.exempts("node-down", is_missing && !down.is_empty());
        evidence.exempts("vanished", is_missing && !evidence.vanished.is_empty());
        evidence.exempts("unhooked", is_missing && !evidence.unhooked.is_empty());
    }
}

impl World<ControlPlane> {
    /// Judges the members after a change, and queues the next step of the etcd operator.
    pub(crate) fn plan_etcd(&mut self) {
        let state = self.environment.member_state();
        self.environment.note_exemptions(&state);
        if let Some((invariant, text)) = first_violation(&MemberState::CHECKS, &state) {
            self.violate(invariant, text);
        }
        self.plan_restoration();
        if !self.environment.etcd.is_due && self.environment.next_etcd_step().is_some() {
            self.environment.etcd.is_due = true;
            let delay = self.between(&["etcd operator", "step"], 2 * SECOND, 30 * SECOND);
            self.schedule(delay, Event::Etcd);
        }
    }

    /// Executes the next step of the etcd operator.
    pub(crate) fn step_etcd(&mut self) {
        self.environment.etcd.is_due = false;
        let Some(step) = self.environment.next_etcd_step() else {
            return;
        };
        self.environment.etcd.members.take(&step);
        match &step {
            Step::Report(report) => self.report_etcd(*report),
            Step::Join(name) => self.hook(name, true),
            Step::Promote(name) => {
                self.trace(|| format!("   the etcd member of machine {name} is promoted to a voter"));
            }
            Step::Leave(name) => self.hook(name, false),
            Step::Forget(_) => {}
        }
        self.plan_etcd();
    }

    /// An administrator restores etcd some time after it lost its quorum.
    fn plan_restoration(&mut self) {
        if self.environment.etcd.is_restored_soon || self.environment.has_quorum() {
            return;
        }
        self.environment.etcd.is_restored_soon = true;
        self.trace(|| "   etcd lost its quorum".to_owned());
        let delay = self.between(&["administrator", "etcd"], 20 * MINUTE, 60 * MINUTE);
        self.schedule(delay, Event::EtcdRestored);
    }

    /// Restores etcd with one member, if it has no quorum. The operator then adds the other
    /// members. Returns whether etcd was restored.
    pub(crate) fn restore_etcd(&mut self) -> bool {
        self.environment.etcd.is_restored_soon = false;
        let survivor = self.environment.survivor();
        let Some(name) = survivor.filter(|_| !self.environment.has_quorum()) else {
            return false;
        };
        self.trace(|| format!("-- an administrator restores etcd on machine {name}"));
        self.environment.etcd.members = Members {
            voters: BTreeSet::from([name]),
            learners: BTreeSet::new(),
        };
        self.plan_etcd();
        true
    }

    fn hook(&mut self, name: &str, hooked: bool) {
        let Some(machine) = self.environment.machines.get(name) else {
            return;
        };
        let patch = json!({"spec": {"lifecycleHooks": {"preDrain": with_hook(machine, hooked)}}});
        let _written = self.patch(ETCD, &kinds::machine(name), Part::Main, patch);
    }

    /// Writes the first report of the etcd operator: all members are healthy.
    pub(crate) fn report_members(&mut self) {
        let message = etcd_messages::usual(Report::Healthy);
        self.write_report(Report::Healthy, message);
    }

    /// Writes a report of the etcd operator.
    fn report_etcd(&mut self, report: Report) {
        let message = if self.environment.setup.neighbours.etcd_messages {
            let number = self.between(&["etcd operator", "message"], 0, i64::from(u16::MAX));
            etcd_messages::any(report, usize::try_from(number).unwrap_or(0))
        } else {
            etcd_messages::usual(report)
        };
        self.write_report(report, message);
    }

    fn write_report(&mut self, report: Report, message: Option<Message>) {
        self.environment.etcd.reported = report;
        let now = self.timestamp().to_string();
        let condition = |name: &str, status: &str, message: &str| {
            json!({"type": name, "status": status, "reason": "AsExpected", "message": message,
                "lastTransitionTime": now})
        };
        let conditions = message.map(|message| {
            [
                condition("Available", message.available.0, message.available.1),
                condition("Degraded", message.degraded.0, message.degraded.1),
            ]
        });
        let conditions = conditions.map(Vec::from).unwrap_or_default();
        let patch = json!({"status": {"conditions": conditions}});
        let _written = self.patch(ETCD, &kinds::operator(cluster_operator::ETCD), Part::Status, patch);
    }

    /// An ailment of etcd begins.
    pub(crate) fn etcd_ails(&mut self, ailment: Ailment, time: i64) {
        self.trace(|| format!("   etcd: {ailment:?} for {}s", time / SECOND));
        *self.environment.etcd.count(ailment) += 1;
        self.note_sickness();
        self.schedule(time, Event::EtcdWell(ailment));
        self.plan_etcd();
    }

    fn note_sickness(&mut self) {
        let (now, etcd) = (self.now(), &mut self.environment.etcd);
        etcd.sick_since = etcd.sick_since.or(Some(now)).filter(|_| etcd.sick > 0);
    }

    /// An ailment of etcd ends.
    pub(crate) fn etcd_well(&mut self, ailment: Ailment) {
        let count = self.environment.etcd.count(ailment);
        *count = count.saturating_sub(1);
        self.note_sickness();
        self.plan_etcd();
    }
}

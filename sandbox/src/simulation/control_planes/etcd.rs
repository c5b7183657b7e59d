//! The etcd operator and its members: it executes the steps of the state machine that the simulated
//! provider uses too, and counts the members in its report.
//!
//! A new member has not started at first, then it is a learner, then it votes. The report counts a
//! learner that has started as available, and a ConfigMap lists the voters, as
//! cluster-etcd-operator does.

use std::collections::BTreeSet;

use capstan::controllers::control_plane::Answer;
use capstan_core::api::config_openshift_io::cluster_operator;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::control_plane::hook::HOOK;
use capstan_core::model::{EtcdMember, UnknownMembers};
use serde_json::{Map, Value, json};

use crate::api::Part;
use crate::infrastructure::etcd::{Ailments, Host, Members, Observed, Step, is_hooked, with_hook};
use crate::simulation::engine::schedule::{MINUTE, SECOND};
use crate::simulation::engine::world::{Actor, World};

use super::state::{Event, Plane};
use super::{kinds, objects};

const ETCD: Actor = Actor::Named("etcd-operator");
/// The name of the member of the bootstrap host. It is before the names of all machines.
pub(super) const BOOTSTRAP: &str = "bootstrap";

impl Plane {
    /// Whether a member answers.
    pub(super) fn is_healthy(&self, member: &str) -> bool {
        if member == BOOTSTRAP {
            return self.etcd.has_bootstrap;
        }
        let (starting, sick) = (self.etcd.starting.contains(member), self.etcd.sick.contains_key(member));
        self.runs(member) && self.has_ready_node(member) && !starting && !sick
    }

    /// Whether most voters answer, or may answer once their node does. Without them there is no API
    /// server: no user can write, and no member changes, until etcd is restored.
    pub(super) fn has_quorum(&self) -> bool {
        let voters = &self.etcd.members.voters;
        voters.is_empty() || 2 * voters.iter().filter(|voter| self.runs(voter)).count() > voters.len()
    }

    /// Whether the host of a member runs.
    fn runs(&self, member: &str) -> bool {
        let machine = self.machines.get(member);
        let runs = machine.is_some_and(|machine| self.provider.instances.contains(machine.metadata.uid()));
        runs || member == BOOTSTRAP && self.etcd.has_bootstrap
    }

    /// The report that the operator writes next; `None` while it reports nothing.
    fn report(&self) -> Option<String> {
        if self.etcd.mute > 0 {
            return None;
        }
        let members = &self.etcd.members;
        let all: Vec<&String> = members.voters.iter().chain(&members.learners).collect();
        let complaint = |member: &&&String| {
            let state = if self.etcd.starting.contains(**member) {
                "has not started"
            } else {
                "is unhealthy"
            };
            format!("{member} {state}")
        };
        let unhealthy = all.iter().filter(|member| !self.is_healthy(member));
        let unhealthy: Vec<String> = unhealthy.map(|member| complaint(&member)).collect();
        let count = all.len();
        Some(if unhealthy.is_empty() {
            format!("{count} members are available")
        } else {
            let healthy = count - unhealthy.len();
            format!("{healthy} of {count} members are available, {}", unhealthy.join(", "))
        })
    }

    fn observed(&self) -> Observed<'_> {
        let bootstrap = self.etcd.has_bootstrap.then_some(Host {
            name: BOOTSTRAP,
            deleting: false,
            hooked: true,
            ready: true,
        });
        let machines = self.machines.iter().map(|(name, machine)| {
            let is_member = self.etcd.members.voters.contains(name) || self.etcd.members.learners.contains(name);
            let ready = if is_member {
                self.is_healthy(name)
            } else {
                self.has_ready_node(name)
            };
            let mut host = Host::of(machine, ready);
            // No operator restores a hook.
            host.hooked |= self.setup.own_members && is_member;
            host
        });
        Observed {
            hosts: bootstrap.into_iter().chain(machines).collect(),
            reported: None,
            size: self.wanted(),
            ailments: Ailments {
                unpromoted: self.etcd.unpromoted > 0,
                quorum_lost: !self.has_quorum(),
                ..Ailments::default()
            },
        }
    }

    fn reports_anew(&self) -> bool {
        !self.setup.own_members && (self.report() != self.etcd.reported || self.etcd.listed != self.etcd.members.voters)
    }

    /// The next step of the operator, or of the nodes. Nodes do not remove members.
    fn next_member_step(&self) -> Option<Step> {
        let step = self.etcd.members.next(&self.observed())?;
        let removes = matches!(step, Step::Leave(_) | Step::Forget(_));
        (!(self.setup.own_members && removes)).then_some(step)
    }

    /// Notes since when each member has been unhealthy, or has not voted, and ends what excuses
    /// missing members.
    fn note_members(&mut self, now: i64) {
        let members = &self.etcd.members;
        let all: BTreeSet<&String> = members.voters.iter().chain(&members.learners).collect();
        let wanting = all
            .iter()
            .filter(|member| members.learners.contains(**member) || !self.is_healthy(member));
        let wanting: BTreeSet<String> = wanting.map(|member| (*member).clone()).collect();
        let is_whole = wanting.is_empty() && members.voters.len() >= self.wanted().min(self.machines.len());
        let machines = &self.machines;
        let is_hooked = |name: &String| machines.get(name).is_none_or(|machine| self.is_hooked(machine));
        let is_quiet = is_whole && self.evidence.disturbed.iter().all(is_hooked);
        let since = &mut self.etcd.wanting_since;
        since.retain(|member, _| wanting.contains(member));
        for member in wanting {
            since.entry(member).or_insert(now);
        }
        if is_quiet && self.provider.down.is_empty() {
            self.evidence.disturbed.clear();
        }
    }

    fn bootstrap_is_done(&self) -> bool {
        let voters = self.etcd.members.voters.iter();
        let own = voters.filter(|voter| *voter != BOOTSTRAP && self.is_healthy(voter));
        self.etcd.has_bootstrap && own.count() >= self.wanted()
    }
}

impl World<Plane> {
    /// Judges the members after a change, and queues the next step of the etcd operator.
    pub(super) fn plan_etcd(&mut self) {
        self.take_removed();
        let now = self.now();
        self.environment.note_members(now);
        self.show_members();
        self.judge_members();
        self.plan_restoration();
        if self.environment.bootstrap_is_done() && !self.environment.etcd.bootstrap_ends {
            self.environment.etcd.bootstrap_ends = true;
            let delay = self.between(&["bootstrap", "end"], 2 * MINUTE, 10 * MINUTE);
            self.schedule(delay, Event::BootstrapEnds);
        }
        let environment = &self.environment;
        let has_step = environment.next_member_step().is_some();
        if !environment.etcd.is_due && (environment.reports_anew() || has_step) {
            self.environment.etcd.is_due = true;
            let delay = self.between(&["etcd operator", "step"], 2 * SECOND, 30 * SECOND);
            self.schedule(delay, Event::Etcd);
        }
    }

    /// Executes the next step of the etcd operator.
    pub(super) fn step_etcd(&mut self) {
        self.environment.etcd.is_due = false;
        if self.environment.reports_anew() {
            self.write_report();
            return self.plan_etcd();
        }
        self.take_removed();
        let environment = &mut self.environment;
        let Some(step) = environment.next_member_step() else {
            return;
        };
        let is_new = matches!(&step, Step::Join(name) if !environment.etcd.members.voters.contains(name));
        environment.etcd.members.take(&step);
        match &step {
            Step::Join(name) => {
                if is_new {
                    environment.etcd.starting.insert(name.clone());
                    let delay = self.between(&["etcd", name, "start"], 5 * SECOND, 3 * MINUTE);
                    self.schedule(delay, Event::MemberStarts(name.clone()));
                }
                self.hook(name, true);
            }
            Step::Promote(name) => {
                self.trace(|| format!("   the etcd member of machine {name} is promoted to a voter"));
            }
            Step::Leave(name) => {
                environment.etcd.starting.remove(name);
                self.hook(name, false);
            }
            Step::Forget(name) => drop(environment.etcd.starting.remove(name)),
            Step::Report(_) => {}
        }
        self.plan_etcd();
    }

    /// A member that was added starts.
    pub(super) fn member_starts(&mut self, name: &str) {
        self.environment.etcd.starting.remove(name);
        self.plan_etcd();
    }

    fn hook(&mut self, name: &str, hooked: bool) {
        let machine = self.environment.machines.get(name);
        let Some(machine) = machine.filter(|_| !self.environment.setup.own_members) else {
            return;
        };
        let patch = json!({"spec": {"lifecycleHooks": {"preDrain": with_hook(machine, hooked)}}});
        let _written = self.patch(ETCD, &kinds::machine(name), Part::Main, patch);
    }

    /// Writes the report of the etcd operator.
    pub(super) fn write_report(&mut self) {
        if self.environment.setup.own_members {
            return;
        }
        let report = self.environment.report();
        let now = self.timestamp().to_string();
        let condition = |name: &str, status: &str, message: &str| {
            json!({"type": name, "status": status, "reason": "AsExpected", "message": message,
                "lastTransitionTime": now})
        };
        let conditions: Vec<Value> = match &report {
            None => Vec::new(),
            Some(text) => {
                let unhealthy = text.contains(" of ");
                let degraded = if unhealthy { text } else { "No unhealthy members found" };
                vec![
                    condition("Available", "True", &format!("EtcdMembersAvailable: {text}")),
                    condition("Degraded", "False", &format!("EtcdMembersDegraded: {degraded}")),
                ]
            }
        };
        self.environment.etcd.reported = report;
        let patch = json!({"status": {"conditions": conditions}});
        let _written = self.patch(ETCD, &kinds::operator(cluster_operator::ETCD), Part::Status, patch);
        self.write_voters();
    }

    /// Lists the members that vote, without the bootstrap host.
    fn write_voters(&mut self) {
        let etcd = &mut self.environment.etcd;
        let gone = etcd.listed.difference(&etcd.members.voters);
        let gone = gone.map(|voter| (voter.clone(), Value::Null));
        let voters = etcd.members.voters.iter().filter(|voter| *voter != BOOTSTRAP);
        let voters = voters.map(|voter| (voter.clone(), json!(objects::address(voter))));
        let data: Map<String, Value> = gone.chain(voters).collect();
        etcd.listed.clone_from(&etcd.members.voters);
        let _written = self.patch(ETCD, &kinds::etcd_endpoints(), Part::Main, json!({"data": data}));
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

    /// Restores etcd with one member, if it has no quorum. The operator then adds the others.
    pub(super) fn restore_etcd(&mut self) -> bool {
        self.environment.etcd.is_restored_soon = false;
        if self.environment.has_quorum() {
            return false;
        }
        let environment = &self.environment;
        let ready = environment
            .machines
            .keys()
            .filter(|name| environment.has_ready_node(name));
        let is_deleting = |name: &str| {
            environment
                .machines
                .get(name)
                .is_some_and(|one| one.metadata.is_deleting())
        };
        let voters = &environment.etcd.members.voters;
        let best = ready.min_by_key(|name| (!voters.contains(*name), is_deleting(name)));
        let Some(name) = best.cloned() else { return false };
        self.trace(|| format!("-- an administrator restores etcd on machine {name}"));
        let etcd = &mut self.environment.etcd;
        etcd.starting.clear();
        etcd.members = Members {
            voters: BTreeSet::from([name]),
            learners: BTreeSet::new(),
        };
        self.plan_etcd();
        true
    }

    /// The member of a machine is not healthy for a time.
    pub(super) fn member_ails(&mut self, name: &str, time: i64) {
        if !self.environment.etcd.members.voters.contains(name) {
            return;
        }
        self.environment.evidence.disturbed.insert(name.to_owned());
        *self.environment.etcd.sick.entry(name.to_owned()).or_default() += 1;
        self.schedule(time, Event::MemberWell(name.to_owned()));
        self.plan_etcd();
    }

    /// A member is healthy again.
    pub(super) fn member_well(&mut self, name: &str) {
        let sick = &mut self.environment.etcd.sick;
        if let Some(count) = sick.get_mut(name) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                sick.remove(name);
            }
        }
        self.plan_etcd();
    }
}

impl Plane {
    /// Whether a machine carries the hook that holds it until its member left.
    pub(super) fn is_hooked(&self, machine: &Machine) -> bool {
        if !self.setup.own_members {
            return is_hooked(machine);
        }
        let hooks = machine.spec.lifecycle_hooks.iter().flat_map(|hooks| &hooks.pre_drain);
        hooks.into_iter().any(|hook| hook.name == HOOK)
    }

    /// What the members answer now.
    fn answer(&self) -> Answer {
        if self.etcd.mute > 0 || !self.has_quorum() {
            return Err(UnknownMembers::NoAnswer("they do not answer".to_owned()));
        }
        let members = &self.etcd.members;
        let shown = |name: &String, is_learner: bool| EtcdMember {
            // A member that has not started has no name.
            name: match self.etcd.starting.contains(name) {
                true => String::new(),
                false => name.clone(),
            },
            is_learner,
            is_healthy: self.is_healthy(name),
        };
        let voters = members.voters.iter().map(|name| shown(name, false));
        let learners = members.learners.iter().map(|name| shown(name, true));
        Ok(voters.chain(learners).collect())
    }
}

impl World<Plane> {
    /// Removes the members that the controller removed.
    pub(super) fn take_removed(&mut self) {
        for name in self.environment.own_members.take_removed() {
            self.trace(|| format!("   the controller removes the etcd member of machine {name}"));
            self.environment.etcd.members.remove(&name);
            self.environment.etcd.starting.remove(&name);
        }
    }

    /// Shows the controller the members as they are now.
    pub(super) fn show_members(&mut self) {
        let answer = self.environment.answer();
        self.environment.own_members.show(answer);
    }
}

//! The etcd operator as a pure state machine: its members, and its next step.
//!
//! The simulated provider and the simulation share it. The operator hooks the deletion of each
//! machine that has a member. A new member is a learner until it is promoted, and there is at most
//! one learner. The member of a machine that is being deleted leaves only when enough healthy
//! voters remain. The state machine does no I/O: its caller writes the hook or the report that a
//! step asks for.

use std::collections::BTreeSet;

use capstan_core::api::machine_openshift_io::machine::{LifecycleHook, Machine};

/// The name of the lifecycle hook.
pub(crate) const HOOK: &str = "EtcdQuorumOperator";
/// The owner of the lifecycle hook.
pub(crate) const OWNER: &str = "clusteroperator/etcd";

/// What the operator reports about its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Report {
    /// All members are available.
    Healthy,
    /// A member is not healthy.
    Unhealthy,
    /// The operator reports nothing.
    #[default]
    Nothing,
}

/// A control plane machine, as the operator sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host<'a> {
    pub(crate) name: &'a str,
    pub(crate) deleting: bool,
    /// It carries the hook of the operator.
    pub(crate) hooked: bool,
    /// Its node is ready.
    pub(crate) ready: bool,
}

impl<'a> Host<'a> {
    /// A machine and whether its node is ready.
    pub(crate) fn of(machine: &'a Machine, ready: bool) -> Self {
        Self {
            name: machine.metadata.name(),
            deleting: machine.metadata.is_deleting(),
            hooked: is_hooked(machine),
            ready,
        }
    }
}

/// Everything that the operator decides on.
#[derive(Clone, Debug)]
pub(crate) struct Observed<'a> {
    /// The control plane machines, sorted by name.
    pub(crate) hosts: Vec<Host<'a>>,
    /// The report that is stored; `None` without an object to write it to.
    pub(crate) reported: Option<Report>,
    /// The number of voters that etcd should have.
    pub(crate) size: usize,
    /// What goes wrong.
    pub(crate) ailments: Ailments,
}

/// What goes wrong with etcd.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ailments {
    /// A member is not healthy although its node is ready.
    pub(crate) sick: bool,
    /// No learner is promoted.
    pub(crate) unpromoted: bool,
    /// The operator reports nothing.
    pub(crate) mute: bool,
    /// Most voters are gone, so etcd accepts no change of its members.
    pub(crate) quorum_lost: bool,
    /// A seeded bug: learners count as voters when a member leaves.
    pub(crate) counts_learners: bool,
}

impl Observed<'_> {
    fn is_ready(&self, name: &str) -> bool {
        // The hosts are sorted by name.
        let found = self.hosts.binary_search_by(|host| host.name.cmp(name)).ok();
        found.and_then(|at| self.hosts.get(at)).is_some_and(|host| host.ready)
    }
}

/// The next step of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The report is written.
    Report(Report),
    /// A machine gets a member, unless it has one, and the hook.
    Join(String),
    /// The learner of a machine becomes a voter.
    Promote(String),
    /// The member of a machine leaves, and the machine loses the hook.
    Leave(String),
    /// The member of a machine that is gone is removed.
    Forget(String),
}

/// The members of etcd, by the names of their machines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    /// Members that vote.
    pub(crate) voters: BTreeSet<String>,
    /// Members that do not vote yet.
    pub(crate) learners: BTreeSet<String>,
}

impl Members {
    /// Makes every machine with a hook a voter, unless it has a member. An operator that restarts
    /// learns its members like this.
    pub(crate) fn adopt(&mut self, hosts: &[Host<'_>]) {
        for host in hosts {
            if host.hooked && !self.has(host.name) {
                self.voters.insert(host.name.to_owned());
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.voters.contains(name) || self.learners.contains(name)
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.voters.iter().chain(&self.learners)
    }

    /// Removes the member of a machine.
    pub(crate) fn remove(&mut self, name: &str) {
        self.voters.remove(name);
        self.learners.remove(name);
    }

    /// The next step, if there is one.
    pub(crate) fn next(&self, observed: &Observed<'_>) -> Option<Step> {
        let report = self.report(observed);
        if observed.reported.is_some_and(|reported| reported != report) {
            return Some(Step::Report(report));
        }
        if observed.ailments.quorum_lost {
            return None;
        }
        let joins = |host: &&Host<'_>| {
            let wanted = if self.has(host.name) {
                !host.hooked
            } else {
                self.learners.is_empty()
            };
            !host.deleting && host.ready && wanted
        };
        if let Some(host) = observed.hosts.iter().find(joins) {
            return Some(Step::Join(host.name.to_owned()));
        }
        let promoted = self.learners.iter().find(|learner| observed.is_ready(learner));
        if let (Some(name), false) = (promoted, observed.ailments.unpromoted) {
            return Some(Step::Promote(name.clone()));
        }
        let leaves = |host: &&Host<'_>| host.deleting && host.hooked && self.is_enough_without(host.name, observed);
        if let Some(host) = observed.hosts.iter().find(leaves) {
            return Some(Step::Leave(host.name.to_owned()));
        }
        let is_lost = |name: &&String| !observed.hosts.iter().any(|host| host.name == name.as_str());
        let mut lost = self.all().filter(is_lost);
        let lost = lost.find(|name| self.is_enough_without(name, observed));
        lost.map(|name| Step::Forget(name.clone()))
    }

    fn report(&self, observed: &Observed<'_>) -> Report {
        let healthy = !observed.ailments.sick && self.all().all(|member| observed.is_ready(member));
        match (observed.ailments.mute, healthy) {
            (true, _) => Report::Nothing,
            (false, true) => Report::Healthy,
            (false, false) => Report::Unhealthy,
        }
    }

    /// Whether enough healthy voters remain without this machine. A machine that is being deleted
    /// counts until its member leaves; the hook keeps it running until then. The machine of a
    /// learner may always leave.
    fn is_enough_without(&self, leaving: &str, observed: &Observed<'_>) -> bool {
        if !self.voters.contains(leaving) {
            return true;
        }
        let learners = self.learners.iter().filter(|_| observed.ailments.counts_learners);
        let healthy = self
            .voters
            .iter()
            .chain(learners)
            .filter(|member| *member != leaving && observed.is_ready(member));
        healthy.count() >= observed.size
    }

    /// Takes a step that has been executed.
    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::Report(_) => {}
            Step::Join(name) => {
                if !self.voters.contains(name) {
                    self.learners.insert(name.clone());
                }
            }
            Step::Promote(name) => {
                self.learners.remove(name);
                self.voters.insert(name.clone());
            }
            Step::Leave(name) | Step::Forget(name) => self.remove(name),
        }
    }
}

fn hooks(machine: &Machine) -> &[LifecycleHook] {
    let hooks = machine.spec.lifecycle_hooks.as_ref();
    hooks.map_or(&[], |hooks| hooks.pre_drain.as_slice())
}

/// Whether a machine carries the hook of the operator.
pub(crate) fn is_hooked(machine: &Machine) -> bool {
    hooks(machine).iter().any(|hook| hook.name == HOOK)
}

/// The hooks of a machine, with or without the hook of the operator.
pub(crate) fn with_hook(machine: &Machine, hooked: bool) -> Vec<LifecycleHook> {
    let others = hooks(machine).iter().filter(|hook| hook.name != HOOK).cloned();
    let own = LifecycleHook {
        name: HOOK.to_owned(),
        owner: OWNER.to_owned(),
    };
    others.chain(hooked.then_some(own)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEALTHY: Ailments = Ailments {
        sick: false,
        unpromoted: false,
        mute: false,
        quorum_lost: false,
        counts_learners: false,
    };

    /// Machines as (name, hooked, deleting, ready).
    fn observed<'a>(machines: &[(&'a str, bool, bool, bool)]) -> Observed<'a> {
        let hosts = machines.iter().map(|(name, hooked, deleting, ready)| Host {
            name,
            hooked: *hooked,
            deleting: *deleting,
            ready: *ready,
        });
        Observed {
            hosts: hosts.collect(),
            reported: None,
            size: 3,
            ailments: HEALTHY,
        }
    }

    /// The next step of an operator that has just started.
    fn next(machines: &[(&str, bool, bool, bool)]) -> Option<Step> {
        let observed = observed(machines);
        let mut members = Members::default();
        members.adopt(&observed.hosts);
        members.next(&observed)
    }

    #[test]
    fn a_machine_with_a_ready_node_that_is_not_being_deleted_gets_a_member() {
        let machines = [
            ("a", false, false, false),
            ("b", false, true, true),
            ("c", false, false, true),
        ];
        assert_eq!(next(&machines), Some(Step::Join("c".into())));
    }

    #[test]
    fn a_member_leaves_only_if_enough_healthy_voters_remain() {
        let mut all = vec![
            ("a", true, true, true),
            ("b", true, false, true),
            ("c", true, false, true),
        ];
        assert_eq!(next(&all), None);
        all.push(("d", true, false, true));
        assert_eq!(next(&all), Some(Step::Leave("a".into())));
        // Three machines are being deleted, and one replacement has joined: only one member may
        // leave.
        let all = [
            ("a", true, true, true),
            ("b", true, true, true),
            ("c", true, true, true),
            ("d", true, false, true),
        ];
        assert_eq!(next(&all), Some(Step::Leave("a".into())));
        let all = [
            ("b", true, true, true),
            ("c", true, true, true),
            ("d", true, false, true),
        ];
        assert_eq!(next(&all), None);
        // A member whose node is gone is not healthy, so nothing is lost when it leaves.
        let all = [
            ("a", true, true, false),
            ("b", true, false, true),
            ("c", true, false, true),
            ("d", true, false, true),
        ];
        assert_eq!(next(&all), Some(Step::Leave("a".into())));
    }

    #[test]
    fn a_new_member_is_a_learner_until_it_is_promoted_and_the_next_one_waits() {
        let mut members = Members::default();
        let mut observed = observed(&[("a", false, false, true), ("b", false, false, true)]);
        let mut steps = Vec::new();
        while let Some(step) = members.next(&observed) {
            members.take(&step);
            for host in &mut observed.hosts {
                host.hooked |= step == Step::Join(host.name.to_owned());
            }
            steps.push(step);
        }
        let step = |make: fn(String) -> Step, name: &str| make(name.to_owned());
        assert_eq!(
            steps,
            [
                step(Step::Join, "a"),
                step(Step::Promote, "a"),
                step(Step::Join, "b"),
                step(Step::Promote, "b"),
            ]
        );
        observed.ailments.unpromoted = true;
        members.learners.insert("c".to_owned());
        // The machine of the learner is gone, and a learner may always leave.
        assert_eq!(members.next(&observed), Some(step(Step::Forget, "c")));
    }

    #[test]
    fn without_a_quorum_no_member_changes() {
        let machines = [
            ("a", true, true, false),
            ("b", true, true, true),
            ("c", false, false, true),
        ];
        let mut observed = observed(&machines);
        let mut members = Members::default();
        members.voters.insert("a".to_owned());
        members.learners.insert("b".to_owned());
        assert_eq!(members.next(&observed), Some(Step::Promote("b".into())));
        observed.ailments.quorum_lost = true;
        assert_eq!(members.next(&observed), None);
    }

    #[test]
    fn a_hook_that_a_user_removed_is_restored() {
        let observed = observed(&[("a", false, false, true)]);
        let mut members = Members::default();
        members.voters.insert("a".to_owned());
        assert_eq!(members.next(&observed), Some(Step::Join("a".into())));
        members.take(&Step::Join("a".into()));
        assert!(members.learners.is_empty());
    }
}

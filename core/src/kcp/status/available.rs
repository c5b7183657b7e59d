//! The condition `Available`: whether the managed cluster can be used.

use jiff::{SignedDuration, Timestamp};

use super::{Condition, fails_for_long, has_healthy_member, serves};
use crate::kcp::observed::EtcdMembers;
use crate::kcp::state::{MachineState, State};

const TYPE: &str = "Available";
/// How long after the initialization the member list may be missing.
const FIRST_MEMBERS: SignedDuration = SignedDuration::from_mins(2);

/// The members by what is known of them.
#[derive(Clone, Copy, Debug, Default)]
struct Members {
    all: usize,
    voting: usize,
    healthy: usize,
}

impl Members {
    fn needed(self) -> usize {
        self.voting / 2 + 1
    }
}

pub(super) fn condition(state: &State, now: Timestamp) -> Condition {
    let not = |message: String| Condition::new(TYPE, "False", "NotAvailable", message);
    if !state.is_initialized() {
        return not(String::from("Control plane not yet initialized"));
    }
    if state.is_deleting() {
        return not(String::from("Control plane is being deleted"));
    }
    let mut problems = Vec::new();
    let mut partial = Vec::new();
    if state.is_etcd_managed() {
        let Some(reported) = &state.reported else {
            return unknown_members(state, now);
        };
        if !matches(state, reported) {
            let message = "The list of etcd members does not match the list of Machines and Nodes";
            return not(message.to_owned());
        }
        let members = members(state, reported);
        let message = format!(
            "{} of {} etcd members are healthy, at least {} required for etcd quorum",
            members.healthy,
            members.all,
            members.needed()
        );
        if members.healthy < members.needed() {
            problems.push(message);
        } else if members.healthy < members.all {
            partial.push(message);
        }
    }
    let machines: Vec<&MachineState> = state
        .machines
        .iter()
        .filter(|machine| !machine.machine.spec.provider_id.is_empty())
        .collect();
    let serving = machines.iter().filter(|machine| serves(state, machine)).count();
    let message = format!(
        "{serving} of {} Machines have healthy control plane components, at least 1 required",
        state.machines.len()
    );
    let is_partial = machines.iter().any(|machine| fails_for_long(state, machine, now));
    if serving == 0 {
        problems.push(message);
    } else if is_partial {
        partial.push(message);
    }
    let certificates = state.condition("CertificatesAvailable");
    if certificates.is_none_or(|certificates| certificates.status != "True") {
        problems.push(String::from("Control plane certificates are not available"));
    }
    if problems.is_empty() {
        // A short failure of a member is not shown.
        let shown = if is_partial { partial.join("\n") } else { String::new() };
        return Condition::new(TYPE, "True", "Available", shown);
    }
    not(problems.join("\n"))
}

fn unknown_members(state: &State, now: Timestamp) -> Condition {
    let since = state
        .condition("Initialized")
        .filter(|initialized| initialized.status == "True");
    let is_new = since.is_some_and(|since| now.duration_since(since.last_transition_time) < FIRST_MEMBERS);
    if is_new {
        let message = "Waiting for etcd to report the list of members";
        return Condition::new(TYPE, "False", "NotAvailable", message);
    }
    Condition::new(TYPE, "Unknown", "InspectionFailed", "Failed to get etcd members")
}

/// Whether every machine with a Node has a member, and every member has a machine. While a machine
/// joins, one may be missing.
fn matches(state: &State, reported: &EtcdMembers) -> bool {
    let is_joining = state.machines.iter().any(|machine| machine.node().is_none());
    let has_member = |node: &str| reported.members.iter().any(|member| member.name == node);
    let has_machine = |name: &str| state.machines.iter().any(|machine| machine.node() == Some(name));
    let nodes = state.machines.iter().filter(|machine| !machine.is_deleting());
    let mut nodes = nodes.filter_map(|machine| machine.node());
    let mut names = reported.members.iter().map(|member| member.name.as_str());
    let every_member = is_joining || names.all(|name| name.is_empty() || has_machine(name));
    every_member && nodes.all(has_member)
}

/// A member without a name is starting, and counts as healthy. If exactly one machine has no Node,
/// the member without a machine is that machine's.
fn members(state: &State, reported: &EtcdMembers) -> Members {
    let mut joining = state.machines.iter().filter(|machine| machine.node().is_none());
    let mut only_joining = joining.next().filter(|_| joining.next().is_none());
    let mut members = Members::default();
    for member in &reported.members {
        members.all += 1;
        if member.name.is_empty() {
            members.healthy += 1;
            continue;
        }
        members.voting += usize::from(!member.learner);
        let mut machines = state.machines.iter();
        let machine = machines.find(|machine| machine.node() == Some(member.name.as_str()));
        let machine = machine.or_else(|| only_joining.take());
        let is_healthy = machine.is_some_and(has_healthy_member) && member.healthy != Some(false);
        members.healthy += usize::from(is_healthy);
    }
    members
}

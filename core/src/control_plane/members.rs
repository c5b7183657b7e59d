//! The etcd members of a control plane without an etcd operator (`--etcd-members capstan`): the
//! hook that holds a deleted machine, and the removal of its member.
//!
//! Every machine carries a hook of Capstan. The hook is removed only after the machine's etcd
//! member was removed, so a machine never goes before its member. A healthy member leaves only when
//! the machines that stay have enough healthy members. It must never take a member that did not
//! answer for a healthy one.

use std::sync::Arc;

use super::action::{Plan, Step, WaitReason};
use super::gates::Blocked;
use super::hook::{HOOK, hooks_patch, is_hooked};
use super::lost_members;
use super::spec::Spec;
use super::state::{MachineState, Owner, State};
use super::step::{patch, waits};
use crate::api::machine_openshift_io::control_plane::ControlPlane;
use crate::api::machine_openshift_io::machine::Machine;
use crate::cpms::action::Action;
use crate::cpms::etcd::Etcd;
use crate::cpms::observed::Observed;
use crate::cpms::selector::is_control_plane;
use crate::model::{EtcdMember, MembershipChange, UnknownMembers, quorum_after};

/// The steps that give every machine the hook, or that remove the hook where the etcd operator
/// manages the members. Without a report of the operator, the hooks stay. A deleted machine gets no
/// hook, and its hook is removed only after its member.
pub(super) fn hook_steps(spec: &Spec, state: &State) -> Vec<Step> {
    let manages = state.manages_members();
    if !manages && state.etcd == Etcd::NotReported {
        return Vec::new();
    }
    let wrong = |machine: &&MachineState| {
        let is_ours = !matches!(machine.owner, Owner::Foreign(_));
        is_ours && is_hooked(&machine.machine) != manages && !machine.is_deleting()
    };
    let because = if manages {
        "its etcd member must be removed before it goes"
    } else {
        "the etcd operator manages the members"
    };
    let machines = state.machines.iter().filter(wrong);
    machines
        .map(|machine| {
            let change = hooks_patch(&machine.machine, manages);
            patch(spec, machine, &[], Some(&change), because.to_owned())
        })
        .collect()
}

/// The members of a control plane whose machines carry the hook, for a reader that cannot ask them:
/// every machine with a node is assumed to have a healthy member, unless the conditions of the
/// ControlPlane say more. `None` without the hook.
pub fn assumed(machines: &[Arc<Machine>], object: &ControlPlane) -> Option<Result<Vec<EtcdMember>, UnknownMembers>> {
    let is_ours = |machine: &&Arc<Machine>| is_control_plane(&machine.metadata.labels);
    let hooked: Vec<&Arc<Machine>> = machines.iter().filter(is_ours).collect();
    if !hooked.iter().any(|machine| is_hooked(machine)) {
        return None;
    }
    let conditions = object.status.as_ref().map_or(&[][..], |status| &status.conditions);
    if let Some(unknown) = lost_members::reported(conditions) {
        return Some(Err(unknown));
    }
    let names = hooked.iter().filter_map(|machine| machine.node_name());
    Some(Ok(names.map(healthy).collect()))
}

/// A healthy voting member.
pub(super) fn healthy(node: &str) -> EtcdMember {
    EtcdMember {
        name: node.to_owned(),
        is_learner: false,
        is_healthy: true,
    }
}

/// Releases a deleted machine: the step that removes the hook. Its etcd member is removed right
/// before, see [`removed_by`]. While the member must stay, the plan says why.
pub(super) fn release(spec: &Spec, state: &State, plan: &mut Plan) {
    let held = state.leaving().filter(|machine| is_hooked(&machine.machine));
    if !state.manages_members() {
        let wait = |machine: &MachineState| waits(Some(machine), unmanaged(machine.name()));
        return plan.waits.extend(held.map(wait));
    }
    for machine in held {
        match may_leave(spec, state, machine) {
            Ok(()) => {
                let change = hooks_patch(&machine.machine, false);
                let because = match state.member_of(machine) {
                    Some(member) => format!("its etcd member {} is removed", member.name),
                    None => String::from("it has no etcd member"),
                };
                plan.steps.push(patch(spec, machine, &[], Some(&change), because));
                return;
            }
            Err(blocked) => plan.waits.push(waits(Some(machine), blocked)),
        }
    }
}

/// The etcd member that is removed before a step of a plan: the step removes the hook of its
/// machine.
pub fn removed_by<'s>(observed: &'s Observed, step: &Step) -> Option<&'s str> {
    let machine = released_by(observed, step).filter(|machine| is_hooked(machine))?;
    let members = observed.own_members.as_ref()?.as_ref().ok()?;
    member_of(members, machine).map(|member| member.name.as_str())
}

/// Whether a step releases a deleted machine. It is taken only if a live read confirms it.
pub fn is_release(observed: &Observed, step: &Step) -> bool {
    released_by(observed, step).is_some()
}

/// The deleted machine whose hooks a step changes.
fn released_by<'s>(observed: &'s Observed, step: &Step) -> Option<&'s Machine> {
    let Action::Patch { patch, .. } = &step.action else {
        return None;
    };
    patch.pointer("/spec/lifecycleHooks")?;
    let name = step.machine()?;
    let mut leaving = of_control_plane(observed).filter(|machine| machine.metadata.is_deleting());
    leaving.find(|machine| machine.metadata.name() == name)
}

/// The members that may lead in the place of one that is removed.
pub fn successors<'s>(observed: &'s Observed, removed: &str) -> Vec<&'s str> {
    let members = observed.own_members.as_ref().and_then(|own| own.as_deref().ok());
    let standing = of_control_plane(observed).filter(|machine| !machine.metadata.is_deleting());
    let standing = standing.filter_map(|machine| member_of(members?, machine));
    let healthy = standing.filter(|member| member.is_healthy && !member.is_learner && member.name != removed);
    healthy.map(|member| member.name.as_str()).collect()
}

/// The machines of the control plane, also those that lost their labels and have the hook.
fn of_control_plane(observed: &Observed) -> impl Iterator<Item = &Machine> {
    let machines = observed.machines.iter().map(|machine| &**machine);
    machines.filter(|machine| is_control_plane(&machine.metadata.labels) || is_hooked(machine))
}

fn member_of<'m>(members: &'m [EtcdMember], machine: &Machine) -> Option<&'m EtcdMember> {
    let node = machine.node_name()?;
    members.iter().find(|member| member.name == node)
}

/// What a user does about the hook of a deleted machine if Capstan does not manage the members.
fn unmanaged(machine: &str) -> Blocked {
    let message = format!(
        "machine {machine} carries the hook {HOOK}, and Capstan runs without --etcd-members=capstan, so that its etcd \
         member is not removed; start Capstan with this option, or remove the member of the machine from etcd and then \
         the hook"
    );
    (WaitReason::EtcdMembers, message)
}

/// The deleted machine whose hook is removed next while the ControlPlane is being deleted, with the
/// machines that still wait. No new machine takes over, so only the quorum decides (V226).
pub(super) fn released_last(observed: &Observed) -> (Option<&Machine>, Vec<(&Machine, Blocked)>) {
    let held = of_control_plane(observed).filter(|machine| machine.metadata.is_deleting() && is_hooked(machine));
    let mut waits = Vec::new();
    for machine in held {
        let name = machine.metadata.name();
        let removable = match &observed.own_members {
            None => Err(unmanaged(name)),
            Some(Err(unknown)) => Err(unanswered(&unknown.to_string())),
            Some(Ok(members)) => removable(members, observed, machine),
        };
        match removable {
            Ok(_) => return (Some(machine), Vec::new()),
            Err(blocked) => waits.push((machine, blocked)),
        }
    }
    (None, waits)
}

fn unanswered(message: &str) -> Blocked {
    let message = format!("the etcd members do not answer: {message}");
    (WaitReason::EtcdHealthy, message)
}

/// Why the member of a machine is not known for sure: another machine names the same node (V251),
/// or etcd has several members of one name (V252).
fn ambiguous(members: &[EtcdMember], observed: &Observed, machine: &Machine) -> Option<String> {
    let (name, node) = (machine.metadata.name(), machine.node_name()?);
    let mut others = observed.machines.iter().filter(|other| other.metadata.name() != name);
    if let Some(other) = others.find(|other| other.node_name() == Some(node)) {
        return Some(format!(
            "machines {name} and {} both name the node {node}, so the etcd member of {name} is not known; correct \
             status.nodeRef of the machine that does not run on this node",
            other.metadata.name()
        ));
    }
    let count = members.iter().filter(|member| member.name == node).count();
    (count > 1).then(|| {
        format!(
            "etcd has {count} members named {node}, so that of machine {name} is not known; remove those that do not \
             run on this node from etcd"
        )
    })
}

/// The member of a deleted machine, if etcd keeps its quorum without it; `None` if the machine has
/// none.
fn removable<'m>(
    members: &'m [EtcdMember],
    observed: &Observed,
    machine: &Machine,
) -> Result<Option<&'m EtcdMember>, Blocked> {
    let (name, node) = (machine.metadata.name(), machine.node_name());
    if let Some(message) = ambiguous(members, observed, machine) {
        return Err((WaitReason::EtcdMembers, message));
    }
    // A member has no name until it starts. It may vote a moment later (V250).
    if members.iter().any(|member| member.name.is_empty()) && member_of(members, machine).is_none() {
        let message = format!("an etcd member has not started, and may be that of machine {name}");
        return Err((WaitReason::EtcdMembers, message));
    }
    let Some(member) = member_of(members, machine) else {
        let nodes: Vec<&str> = of_control_plane(observed).filter_map(Machine::node_name).collect();
        let mut unclaimed = members.iter().map(|member| member.name.as_str());
        let unclaimed = unclaimed.find(|member| !member.is_empty() && !nodes.contains(member));
        return match unclaimed.filter(|_| node.is_none()) {
            Some(member) => Err((
                WaitReason::EtcdMembers,
                format!(
                    "machine {name} has no node, and etcd member {member} belongs to no machine, so it may be that of \
                     this machine; set the node reference of the machine, or remove the member if its node is gone"
                ),
            )),
            None => Ok(None),
        };
    };
    let quorum = quorum_after(members, MembershipChange::Remove(&member.name));
    let healthy = quorum.voting.saturating_sub(quorum.unhealthy);
    if !member.is_learner && healthy < quorum.needed() {
        let remedy = if members.iter().any(|member| member.name.is_empty()) {
            "one of the others has not started: remove it from etcd if it never starts, and repair the rest"
        } else {
            "repair the others"
        };
        let message = format!(
            "without etcd member {}, {healthy} of {} voting members would be healthy, and {} are needed; {remedy}",
            member.name,
            quorum.voting,
            quorum.needed()
        );
        return Err((WaitReason::EtcdQuorum, message));
    }
    Ok(Some(member))
}

fn may_leave(spec: &Spec, state: &State, machine: &MachineState) -> Result<(), Blocked> {
    let Some(members) = state.members.as_deref() else {
        return Err(unanswered(state.etcd_message()));
    };
    let Some(member) = removable(members, &state.observed, &machine.machine)? else {
        return Ok(());
    };
    let votes = |member: &EtcdMember| member.is_healthy && !member.is_learner;
    let staying = state.standing().filter_map(|machine| state.member_of(machine));
    let staying = staying.filter(|member| votes(member)).count();
    if votes(member) && staying < spec.replicas {
        let message = format!(
            "etcd member {} stays until {} machines have a healthy voting member; {staying} have one",
            member.name, spec.replicas
        );
        return Err((WaitReason::EtcdMembers, message));
    }
    Ok(())
}

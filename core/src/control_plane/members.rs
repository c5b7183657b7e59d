//! The etcd members of a control plane without an etcd operator (`--etcd-members capstan`): the
//! hook that holds a deleted machine, and the removal of its member.
//!
//! Every machine carries a hook of Capstan. The hook is removed only after the machine's etcd
//! member was removed, so a machine never goes before its member. A healthy member leaves only when
//! the machines that stay have enough healthy members. It must never take a member that did not
//! answer for a healthy one.

use std::sync::Arc;

use serde_json::json;

use super::action::{Plan, Step, WaitReason};
use super::spec::Spec;
use super::state::{MachineState, Owner, State};
use super::step::{patch, waits};
use crate::api::machine_openshift_io::machine::{LifecycleHook, Machine};
use crate::cpms::action::Action;
use crate::cpms::etcd::Etcd;
use crate::cpms::selector::is_control_plane;
use crate::model::{EtcdMember, MembershipChange, quorum_after};

/// The name of the hook.
pub const HOOK: &str = "capstan.dev/EtcdMember";
/// The owner of the hook.
pub const HOOK_OWNER: &str = "capstan";

/// The hook.
pub(super) fn hook() -> LifecycleHook {
    LifecycleHook {
        name: HOOK.to_owned(),
        owner: HOOK_OWNER.to_owned(),
    }
}

/// Whether a machine carries the hook.
pub(super) fn is_hooked(machine: &Machine) -> bool {
    hooks(machine).iter().any(|hook| hook.name == HOOK)
}

fn hooks(machine: &Machine) -> &[LifecycleHook] {
    let hooks = machine.spec.lifecycle_hooks.as_ref();
    hooks.map_or(&[], |hooks| hooks.pre_drain.as_slice())
}

/// The patch of the hooks of a machine, with or without the hook of Capstan. Other hooks stay.
pub(super) fn hooks_patch(machine: &Machine, hooked: bool) -> serde_json::Value {
    let others = hooks(machine).iter().filter(|one| one.name != HOOK).cloned();
    let all: Vec<LifecycleHook> = others.chain(hooked.then(hook)).collect();
    json!({"lifecycleHooks": {"preDrain": all}})
}

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
/// every machine with a node is assumed to have a healthy member. `None` without the hook.
pub fn assumed(machines: &[Arc<Machine>]) -> Option<Result<Vec<EtcdMember>, String>> {
    let is_ours = |machine: &&Arc<Machine>| is_control_plane(&machine.metadata.labels);
    let hooked: Vec<&Arc<Machine>> = machines.iter().filter(is_ours).collect();
    if !hooked.iter().any(|machine| is_hooked(machine)) {
        return None;
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
        let wait = |machine: &MachineState| {
            let message = format!(
                "machine {} carries the hook {HOOK}, and Capstan runs without --etcd-members=capstan, so that its etcd \
                 member is not removed; start Capstan with this option, or remove the member of the machine from etcd \
                 and then the hook",
                machine.name()
            );
            waits(Some(machine), (WaitReason::EtcdMembers, message))
        };
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
pub fn removed_by<'s>(state: &'s State, step: &Step) -> Option<&'s str> {
    let Action::Patch { patch, .. } = &step.action else {
        return None;
    };
    patch.pointer("/spec/lifecycleHooks")?;
    let name = step.machine()?;
    let machine = state.leaving().find(|machine| machine.name() == name)?;
    let leaves = state.manages_members() && is_hooked(&machine.machine);
    state
        .member_of(machine)
        .filter(|_| leaves)
        .map(|member| member.name.as_str())
}

/// Whether a step releases a deleted machine. It is taken only if a live read confirms it.
pub fn is_release(state: &State, step: &Step) -> bool {
    let Action::Patch { patch, .. } = &step.action else {
        return false;
    };
    let is_leaving = |name: &str| state.leaving().any(|machine| machine.name() == name);
    patch.pointer("/spec/lifecycleHooks").is_some() && step.machine().is_some_and(is_leaving)
}

/// The members that may lead in the place of one that is removed.
pub fn successors<'s>(state: &'s State, removed: &str) -> Vec<&'s str> {
    let standing = state.standing().filter_map(|machine| state.member_of(machine));
    let healthy = standing.filter(|member| member.is_healthy && !member.is_learner && member.name != removed);
    healthy.map(|member| member.name.as_str()).collect()
}

fn may_leave(spec: &Spec, state: &State, machine: &MachineState) -> Result<(), (WaitReason, String)> {
    let Some(members) = state.members.as_deref() else {
        let message = format!("the etcd members do not answer: {}", state.etcd_message());
        return Err((WaitReason::EtcdHealthy, message));
    };
    if members.iter().any(|member| member.name.is_empty()) && machine.node.name().is_none() {
        let message = format!(
            "an etcd member has not started, and may be that of machine {}",
            machine.name()
        );
        return Err((WaitReason::EtcdMembers, message));
    }
    let Some(member) = state.member_of(machine) else {
        return match state.unclaimed_member() {
            Some(member) if machine.node.name().is_none() => {
                let message = format!(
                    "machine {} has no node, and etcd member {member} belongs to no machine, so it may be that of this \
                     machine; set the node reference of the machine, or remove the member if its node is gone",
                    machine.name()
                );
                Err((WaitReason::EtcdMembers, message))
            }
            _ => Ok(()),
        };
    };
    if member.is_learner {
        return Ok(());
    }
    let quorum = quorum_after(members, MembershipChange::Remove(&member.name));
    let healthy = quorum.voting.saturating_sub(quorum.unhealthy);
    if healthy < quorum.needed() {
        let message = format!(
            "without etcd member {}, {healthy} of {} voting members would be healthy, and {} are needed; repair the \
             others",
            member.name,
            quorum.voting,
            quorum.needed()
        );
        return Err((WaitReason::EtcdQuorum, message));
    }
    let votes = |member: &EtcdMember| member.is_healthy && !member.is_learner;
    let staying = state.standing().filter_map(|machine| state.member_of(machine));
    let staying = staying.filter(|member| votes(member)).count();
    if member.is_healthy && staying < spec.replicas {
        let message = format!(
            "etcd member {} stays until {} machines have a healthy voting member; {staying} have one",
            member.name, spec.replicas
        );
        return Err((WaitReason::EtcdMembers, message));
    }
    Ok(())
}

//! The etcd members that are removed: members that do not work and have no machine, and the member
//! of a machine that is being deleted.
//!
//! One member is removed at a time, and only if etcd keeps its quorum. A member that has not
//! started does not vote, so its removal is always safe.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::action::{self, Action, Step, Wait, WaitReason, about, control_plane_ref, machine_ref};
use super::observed::ReportedMember;
use super::safety;
use super::state::{MachineState, State, condition, members_without_machine, possible_members};
use super::version::Version;
use crate::api::cluster_x_k8s_io::annotation::PRE_TERMINATE_PREFIX;
use crate::api::controlplane_cluster_x_k8s_io::annotation::PRE_TERMINATE_HOOK;
use crate::model::{EtcdMember, MembershipChange, Precondition};

/// The reason of the condition `Deleting` of a machine that is drained and waits for the hook.
const WAITING_FOR_HOOK: &str = "WaitingForPreTerminateHook";
/// A machine of this age has joined, or never will.
pub(super) const JOINED: SignedDuration = SignedDuration::from_mins(20);
/// From this version, the kubelet uses the API server of its own machine, so the etcd member must
/// be removed after all other hooks.
const LOCAL_KUBELET: (u64, u64) = (1, 31);

/// The removal of one member without a machine, or why it waits; `None` if every member has a
/// machine. A member that works is not removed: its machine may be lost (V94).
pub(super) fn surplus(state: &State) -> Option<Result<Step, Wait>> {
    let members = state.members()?;
    let mut unexpected: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let working = members_without_machine(state);
    unexpected.retain(|name| !state.has_machine_of(name) && !working.contains(name));
    unexpected.sort_unstable();
    let first = *unexpected.first()?;
    // The member may belong to a machine whose Node is not known. A Node with the provider ID is
    // enough: a machine that is being deleted may never get a reference to it (V247).
    if state.machines.is_empty() || state.machines.iter().any(|machine| machine.member.is_none()) {
        return None;
    }
    // kubeadm adds the member of a machine before etcd runs there, perhaps after its Node exists.
    let joining: Vec<&str> = machines_without_member(state, &members);
    let unnamed = members.iter().filter(|member| member.name.is_empty()).count();
    if first.is_empty() && unnamed <= joining.len() {
        let message = format!(
            "an etcd member has not started, and may be that of machine {}; if the machine did not join, delete it",
            joining.join(" or ")
        );
        return Some(Err(Wait::new(WaitReason::EtcdHealthy, message)));
    }
    let lost = |member: &str| match member {
        "" => None,
        member => safety::lost_quorum(&members, MembershipChange::Remove(member)),
    };
    // Another member may be removed, if etcd needs the first one.
    let Some(member) = unexpected.iter().find(|member| lost(member).is_none()) else {
        let what = format!("the removal of etcd member {first}, which has no machine,");
        let message = safety::why(lost(first)?, &what);
        return Some(Err(Wait::new(WaitReason::EtcdHealthy, message)));
    };
    let because = match *member {
        "" => String::from("an etcd member has not started and has no machine"),
        member => format!("etcd member {member} has no machine"),
    };
    Some(Ok(removal(state, member, because)))
}

/// The removal of a member that does not answer and that may be the member of a machine which never
/// got a Node. The health check gave up every such machine, and the machine cannot be replaced: no
/// machine can join beside this member (V297).
pub(super) fn of_given_up_machine(state: &State) -> Option<Step> {
    let members = state.members()?;
    let mut nodeless = state.machines.iter().filter(|machine| machine.member.is_none());
    if !nodeless.all(|machine| machine.needs_remediation() && !machine.is_deleting()) {
        return None;
    }
    let is_silent = |member: &ReportedMember| member.healthy == Some(false) && !member.name.is_empty();
    // Beside another member without a machine, it is not known which machines are in use.
    if !state
        .reported_members()
        .all(|member| is_silent(member) || state.has_machine_of(&member.name))
    {
        return None;
    }
    let names = state
        .reported_members()
        .filter(|member| is_silent(member))
        .map(|member| member.name.as_str());
    let unused = names.filter(|name| !state.has_machine_of(name) && !state.used_nodes.contains(*name));
    let mut removable = unused.filter(|name| safety::lost_quorum(&members, MembershipChange::Remove(name)).is_none());
    let member = removable.next()?;
    let because = format!("etcd member {member} does not answer, and its machine did not join or is gone");
    Some(removal(state, member, because))
}

fn removal(state: &State, member: &str, because: String) -> Step {
    Step {
        action: Action::RemoveMember {
            member: member.to_owned(),
        },
        subject: control_plane_ref(state.namespace(), state.name()),
        index: None,
        because,
        precondition: None,
    }
}

/// The machines whose Node is no etcd member yet. One that is being deleted never becomes one.
fn machines_without_member<'s>(state: &'s State, members: &[EtcdMember]) -> Vec<&'s str> {
    let is_member = |node: &str| members.iter().any(|member| member.name == node);
    let machines = state.machines.iter();
    let lacks = |machine: &MachineState| machine.member.as_deref().is_some_and(|node| !is_member(node));
    let joining = machines.filter(|machine| !machine.is_deleting() && lacks(machine));
    joining.map(MachineState::name).collect()
}

/// Why the member of a machine that is being deleted stays for now.
struct Held {
    wait: Wait,
    /// Whether the health of other machines is the only reason.
    by_others: bool,
}

/// The removal of the hook of one machine that is being deleted, or why it waits; `None` if no
/// machine is being deleted. A machine that must wait does not hold up another one.
pub(super) fn hook(state: &State, now: Timestamp) -> Option<Result<Step, Wait>> {
    let mut deleting: Vec<&MachineState> = state.deleting().collect();
    deleting.sort_by_key(|machine| (machine.machine.metadata.deletion_timestamp, machine.name()));
    if let Some(other) = deleting.iter().find(|machine| !machine.has(PRE_TERMINATE_HOOK)) {
        let message = format!("machine {} must disappear after its hook was removed", other.name());
        return Some(Err(about(state, other, WaitReason::MachineRemoved, message)));
    }
    let mut first = None;
    for machine in deleting {
        match release(state, machine, now) {
            Ok(step) => return Some(Ok(step)),
            Err(held) => first = first.or(Some(held.wait)),
        }
    }
    first.map(Err)
}

/// Whether machines are being deleted, and each of them keeps its member only because other
/// machines do not work. Such a deletion continues after another machine was repaired (V130).
pub(super) fn needs_repair(state: &State, now: Timestamp) -> bool {
    let is_held = |machine: &MachineState| {
        machine.has(PRE_TERMINATE_HOOK) && release(state, machine, now).is_err_and(|held| held.by_others)
    };
    state.deleting().next().is_some() && state.deleting().all(is_held)
}

/// The removal of the hook of a machine that is being deleted, or why it waits.
fn release(state: &State, machine: &MachineState, now: Timestamp) -> Result<Step, Box<Held>> {
    let held = |reason: WaitReason, message: String, by_others: bool| {
        Box::new(Held {
            wait: about(state, machine, reason, message),
            by_others,
        })
    };
    let waits = |message: String| held(WaitReason::MachineRemoved, message, false);
    let name = machine.name();
    if let Some(other) = other_hook(state, machine) {
        let message = format!("machine {name} has another hook, {other}, which must be removed first");
        return Err(waits(message));
    }
    let drained = machine
        .condition(condition::DELETING)
        .is_some_and(|deleting| deleting.status == "True" && deleting.reason == WAITING_FOR_HOOK);
    if !drained {
        let message = format!("machine {name} must be drained before its etcd member is removed");
        return Err(waits(message));
    }
    if state.machines.len() == 1 {
        if !state.has_data() {
            return Ok(remove_hook(state, machine, None, "the control plane has no data yet"));
        }
        let message = format!("machine {name} is the last one, and another one must join before it goes");
        return Err(waits(message));
    }
    if !safety::serves_after(state, machine) {
        let message = format!("no machine except {name} has healthy components");
        return Err(held(WaitReason::MachineRemoved, message, true));
    }
    if !state.is_etcd_managed() {
        return Ok(remove_hook(state, machine, None, "etcd is external"));
    }
    let Some(members) = state.members().filter(|members| !members.is_empty()) else {
        let message = format!("the etcd members are unknown, so that the member of machine {name} cannot be removed");
        return Err(held(WaitReason::EtcdHealthy, message, false));
    };
    if let Some(message) = ambiguous(machine, &members).or_else(|| contradiction(state, machine)) {
        return Err(waits(message));
    }
    for member in possible_members(machine, state) {
        if let Some(lost) = safety::lost_quorum(&members, MembershipChange::Remove(member)) {
            let what = format!("the removal of etcd member {member}");
            // A learner soon votes, unless it is that of a machine which fails to join (V175).
            let ends_by_itself = lost.learners > 0 && !awaits_repair(state, &members);
            return Err(held(WaitReason::EtcdHealthy, safety::why(lost, &what), !ends_by_itself));
        }
    }
    if let Some(held) = may_still_join(state, machine, &members, now) {
        return Err(Box::new(held));
    }
    // A member that is left behind votes, and does not answer any more. So the member of a machine
    // without a Node is removed too, if it is known.
    let others = state.machines.iter().filter(|other| other.name() != name);
    let nodeless: Vec<&MachineState> = others.filter(|other| other.member.is_none()).collect();
    let all_leave = !nodeless.is_empty() && nodeless.iter().all(|other| other.is_deleting());
    let because = "etcd keeps its quorum without its member";
    match possible_members(machine, state).as_slice() {
        [] => Ok(remove_hook(state, machine, None, "it never had a Node")),
        [member] if nodeless.is_empty() || machine.member.is_some() => {
            Ok(remove_hook(state, machine, Some(member), because))
        }
        // Each of them is the member of a machine that leaves.
        [member, ..] if all_leave => Ok(remove_hook(state, machine, Some(member), because)),
        several => {
            let message = format!(
                "machine {name} has no Node, and etcd member {} may be its own; its Node must join, or the members \
                 without a machine must be removed",
                several.join(" or ")
            );
            // The member may be that of a machine which must be replaced as well (V245).
            let repairs = nodeless.iter().any(|other| other.needs_remediation());
            Err(held(WaitReason::MachineRemoved, message, repairs))
        }
    }
}

/// Why the member of a machine is not known for sure: etcd has several members of its name (V252).
fn ambiguous(machine: &MachineState, members: &[EtcdMember]) -> Option<String> {
    let (name, node) = (machine.name(), machine.node()?);
    let count = members.iter().filter(|member| member.name == node).count();
    (count > 1).then(|| {
        format!(
            "etcd has {count} members named {node}, so that of machine {name} is not known; remove those that do not \
             run on this Node from etcd"
        )
    })
}

/// Why the member of a machine stays whose Node has the provider ID of another machine, or whose
/// provider ID another Node has: the member may run on the instance of the other one, and etcd
/// would lose two members with this one (V314). Other differences, such as capital letters, do not
/// name another instance.
fn contradiction(state: &State, machine: &MachineState) -> Option<String> {
    let (node, own) = (machine.node()?, machine.provider_id.as_ref()?);
    let registered = state.provider_ids.get(node);
    let mut others = state.machines.iter().filter(|other| other.name() != machine.name());
    let of_machine = others.find(|other| registered.is_some() && other.provider_id.as_ref() == registered);
    let mut nodes = state.provider_ids.iter();
    let of_node = nodes.find(|(other, id)| *other != node && *id == own);
    let other = match (of_machine, of_node) {
        (Some(other), _) => format!("its Node {node} has that of machine {}", other.name()),
        (None, Some((other, _))) => format!("so has the Node {other}, although the machine names the Node {node}"),
        (None, None) => return None,
    };
    Some(format!(
        "machine {} has the provider ID {own}, and {other}, so it is not known which instance runs the etcd member; \
         correct what is wrong. To correct the ID of a Node, delete the Node and restart its kubelet",
        machine.name()
    ))
}

/// Why a machine whose member is not known keeps its hook: its instance may join etcd after the
/// hook was removed, get a vote, and vanish, and etcd would have no quorum then (V242).
fn may_still_join(state: &State, machine: &MachineState, members: &[EtcdMember], now: Timestamp) -> Option<Held> {
    let until = joined_at(machine, now)?;
    // kubeadm labels the Node after it added the member, and Nodes without the label are not read.
    let possible = possible_members(machine, state);
    let has_joined = possible.into_iter().any(|name| state.remains.contains(name));
    if has_joined || machine.provider_id.is_none() || until <= now || safety::survives_lost_member(members) {
        return None;
    }
    let message = format!(
        "machine {} has no etcd member yet, and its instance may still join; etcd would lose its quorum if the instance \
         vanished after that. The hook of the machine is removed when its member is known, or at {until}; if the \
         instance certainly never joins, remove the annotation {PRE_TERMINATE_HOOK} from the machine",
        machine.name()
    );
    Some(Held {
        wait: Wait {
            until: Some(until),
            ..about(state, machine, WaitReason::MachineRemoved, message)
        },
        by_others: members.iter().any(|member| !member.is_learner && !member.is_healthy),
    })
}

/// When a machine that is being deleted has joined, or never will. A clock that is ahead must not
/// shorten this time (V257). So the age at the deletion, by the clock of the API server, and the
/// time since an observer first saw the deletion count together.
fn joined_at(machine: &MachineState, now: Timestamp) -> Option<Timestamp> {
    let metadata = &machine.machine.metadata;
    let created = metadata.creation_timestamp?;
    let Some((seen, deleted)) = machine.leaving_for.zip(metadata.deletion_timestamp) else {
        return created.checked_add(JOINED).ok();
    };
    let age = deleted.duration_since(created).saturating_add(seen);
    now.checked_add(JOINED.saturating_sub(age)).ok()
}

/// Whether a machine that has no voting member must be replaced.
pub(super) fn awaits_repair(state: &State, members: &[EtcdMember]) -> bool {
    let votes = |node: &str| members.iter().any(|member| member.name == node && !member.is_learner);
    let mut machines = state.machines.iter().filter(|machine| !machine.is_deleting());
    machines.any(|machine| machine.needs_remediation() && !machine.node().is_some_and(votes))
}

/// A hook of another controller that must be removed first.
fn other_hook<'a>(state: &State, machine: &'a MachineState) -> Option<&'a str> {
    let version = Version::tolerant(&state.control_plane.spec.version)?;
    let [major, minor, _] = version.core;
    let is_other = |name: &&String| name.starts_with(PRE_TERMINATE_PREFIX) && *name != PRE_TERMINATE_HOOK;
    let mut names = machine.machine.metadata.annotations.keys();
    names
        .find(is_other)
        .map(String::as_str)
        .filter(|_| (major, minor) >= LOCAL_KUBELET)
}

fn remove_hook(state: &State, machine: &MachineState, member: Option<&str>, because: &str) -> Step {
    let precondition = precondition(machine);
    let mut metadata = precondition.metadata();
    metadata.insert(String::from("annotations"), json!({ PRE_TERMINATE_HOOK: Value::Null }));
    Step {
        action: Action::RemoveHook {
            member: member.map(str::to_owned),
            move_leader_to: leaders_without(state, machine, member),
            patch: json!({ "metadata": metadata }),
        },
        subject: machine_ref(state.namespace(), machine.name()),
        index: None,
        because: format!("machine {} is drained, and {because}", machine.name()),
        precondition: Some(precondition),
    }
}

/// The machines to which leadership is moved before the member of a machine is removed, the best
/// first; empty if that member does not lead. A machine that is being deleted is the last choice,
/// while its hook keeps its member (V243). A Node with the provider ID is enough, as long as the
/// Machine has no reference to it (V264).
pub(super) fn leaders_after(state: &State, machine: &MachineState) -> Vec<String> {
    leaders_without(state, machine, machine.member.as_deref())
}

fn leaders_without(state: &State, machine: &MachineState, member: Option<&str>) -> Vec<String> {
    let leader = state.reported.as_ref().map(|reported| reported.leader.as_str());
    if member.is_none() || leader != member {
        return Vec::new();
    }
    let stays = |other: &MachineState| !other.is_deleting() || other.has(PRE_TERMINATE_HOOK);
    let is_candidate = |other: &&MachineState| other.member.is_some() && stays(other) && other.name() != machine.name();
    let fails = |other: &MachineState| {
        let member = other.member.as_deref();
        member.is_some_and(|member| state.is_reported_to_fail(member))
    };
    let mut others: Vec<&MachineState> = state.machines.iter().filter(is_candidate).collect();
    others.sort_by_key(|other| {
        (
            other.is_deleting(),
            fails(other) || !other.is_true(condition::ETCD_MEMBER),
            !other.is_true(condition::HEALTH_CHECK_SUCCEEDED),
            !other.is_current(),
            std::cmp::Reverse(other.machine.metadata.creation_timestamp),
            other.name().to_owned(),
        )
    });
    others.into_iter().map(|other| other.name().to_owned()).collect()
}

/// The precondition of a write to a machine.
pub(super) fn precondition(machine: &MachineState) -> Precondition {
    action::precondition(&machine.machine.metadata)
}

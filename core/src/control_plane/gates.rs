//! The gates of a step: whether etcd allows one machine more or one machine less.
//!
//! The arithmetic is that of `model::quorum_after`, which all controllers of control planes ask. A
//! member whose health is unknown is not healthy, and a report that does not parse allows nothing.

use super::action::WaitReason;
use super::state::{MachineState, State, WithoutVote};
use crate::api::core_v1::config_map::{ETCD_ENDPOINTS, ETCD_NAMESPACE};
use crate::cpms::etcd::Etcd;
use crate::model::{EtcdMember, MembershipChange, quorum_after};

/// Why a step waits.
pub(super) type Blocked = (WaitReason, String);

/// Whether a machine may be created.
///
/// The first machine of a control plane without nodes brings etcd with it. Every other machine
/// needs a report of the members. A member that is healthy and belongs to no machine belongs to a
/// node whose machine is not known, or to the bootstrap host, which has no node: one machine more
/// would be one too many beside the former.
///
/// While all members are healthy, the new member must not cost the quorum. One member that is not
/// healthy and belongs to no standing machine does not block its own replacement, provided that
/// etcd keeps its quorum without it.
pub(super) fn may_grow(state: &State) -> Result<(), Blocked> {
    let standing = state.standing().count();
    if state.machines.is_empty() && state.unclaimed_nodes.is_empty() && state.members.is_none() {
        return Ok(());
    }
    let members = counted(state)?;
    all_vote(state, members)?;
    let healthy = members.iter().filter(|member| member.is_healthy).count();
    // The report counts members and names only those that are not healthy. A machine that is being
    // deleted may have a healthy member as long as its node is ready, and that member must not be
    // taken for the member of a new machine.
    // Where the names of the members are known, the machine has a member or it has none.
    let has_member = |machine: &&MachineState| match state.manages_members() {
        true => state.member_of(machine).is_some_and(|member| member.is_healthy),
        false => machine.is_ready(),
    };
    let with_member = standing + state.leaving().filter(has_member).count();
    if healthy < with_member {
        let message = format!(
            "etcd has {} members, {healthy} of them healthy, for {} machines; each machine must have one",
            members.len(),
            state.machines.len()
        );
        return Err((WaitReason::EtcdMembers, message));
    }
    let spare = healthy.saturating_sub(with_member);
    if spare > 1 || (spare == 1 && !state.unclaimed_nodes.is_empty()) {
        return Err((WaitReason::EtcdMembers, without_machine(state, spare)));
    }
    let mut lost = members.iter().filter(|member| !member.is_healthy);
    match (lost.next(), lost.next()) {
        (None, _) => {
            is_reported_healthy(state)?;
            safe(members, MembershipChange::Add, "another member")
        }
        (Some(lost), None) => {
            belongs_to_none(state, lost)?;
            safe(
                members,
                MembershipChange::Remove(&lost.name),
                "the repair of a lost member",
            )
        }
        (Some(_), Some(_)) => Err((
            WaitReason::EtcdQuorum,
            String::from("several etcd members are not healthy; repair them: no machine is created meanwhile"),
        )),
    }
}

/// A member that is not healthy is lost only if no standing machine has its node. Otherwise it may
/// recover, and etcd would have the new member beside it.
fn belongs_to_none(state: &State, lost: &EtcdMember) -> Result<(), Blocked> {
    let mut standing = state.standing();
    match standing.find(|machine| machine.node.name() == Some(&*lost.name)) {
        None => Ok(()),
        Some(machine) => {
            let message = format!(
                "etcd member {} of machine {} is not healthy; repair it, or delete the machine",
                lost.name,
                machine.name()
            );
            Err((WaitReason::EtcdHealthy, message))
        }
    }
}

fn without_machine(state: &State, spare: usize) -> String {
    let nodes = if state.unclaimed_nodes.is_empty() {
        String::new()
    } else {
        format!(
            " (control plane nodes without one: {})",
            state.unclaimed_nodes.join(", ")
        )
    };
    format!(
        "{spare} healthy etcd member(s) belong to no machine{nodes}; restore the Machines with their labels, or remove \
         the members: another machine would be one too many"
    )
}

/// A member that has not started, or that does not vote yet, must do so before the next step.
fn all_vote(state: &State, members: &[EtcdMember]) -> Result<(), Blocked> {
    let mut members = members.iter();
    let member = members.find(|member| member.name.is_empty() || member.is_learner);
    let message = match (member, state.without_vote.first()) {
        (None, None) => return Ok(()),
        (Some(member), _) if member.name.is_empty() => String::from("an etcd member has not started"),
        (Some(member), _) => format!("etcd member {} does not vote yet", member.name),
        (None, Some(WithoutVote { machine, addresses })) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            format!(
                "the etcd member of machine {machine} does not vote yet: the ConfigMap {ETCD_ENDPOINTS} in \
                 {ETCD_NAMESPACE} does not list {}",
                addresses.join(" or ")
            )
        }
    };
    Err((WaitReason::EtcdMembers, message))
}

/// The members, if all of them vote and are healthy, and each machine has one.
pub(super) fn settled(state: &State) -> Result<&[EtcdMember], Blocked> {
    let members = counted(state)?;
    all_vote(state, members)?;
    is_reported_healthy(state)?;
    let machines = state.machines.len();
    if members.len() != machines {
        let message = format!("etcd has {} members for {machines} machines", members.len());
        return Err((WaitReason::EtcdMembers, message));
    }
    Ok(members)
}

/// Whether a machine with a healthy member may be deleted.
pub(super) fn may_shrink(state: &State) -> Result<(), Blocked> {
    let members = settled(state)?;
    let Some(leaves) = members.iter().find(|member| member.is_healthy) else {
        return Err((WaitReason::EtcdHealthy, String::from("no etcd member is healthy")));
    };
    safe(
        members,
        MembershipChange::Remove(&leaves.name),
        "the removal of a member",
    )
}

fn counted(state: &State) -> Result<&[EtcdMember], Blocked> {
    let message = match &state.etcd {
        Etcd::NotReported => "the ClusterOperator etcd does not exist, so the health of etcd is unknown".to_owned(),
        Etcd::Unhealthy { message } if state.manages_members() => format!("the members of etcd are unknown: {message}"),
        Etcd::Unhealthy { message } => format!("the members of etcd are unknown; its operator says: {message}"),
        Etcd::Healthy => String::from("the members of etcd are unknown"),
    };
    state.members.as_deref().ok_or((WaitReason::EtcdHealthy, message))
}

fn is_reported_healthy(state: &State) -> Result<(), Blocked> {
    match &state.etcd {
        Etcd::Unhealthy { message } if state.manages_members() => {
            Err((WaitReason::EtcdHealthy, format!("etcd is not healthy: {message}")))
        }
        Etcd::Unhealthy { message } => Err((
            WaitReason::EtcdHealthy,
            format!("etcd is not healthy; its operator says: {message}"),
        )),
        _ => Ok(()),
    }
}

fn safe(members: &[EtcdMember], change: MembershipChange<'_>, what: &str) -> Result<(), Blocked> {
    let quorum = quorum_after(members, change);
    if quorum.is_safe() {
        return Ok(());
    }
    let message = format!(
        "{what} would leave {} healthy of {} voting etcd members; {} are needed",
        quorum.voting.saturating_sub(quorum.unhealthy),
        quorum.voting,
        quorum.needed()
    );
    Err((WaitReason::EtcdQuorum, message))
}

//! The lost etcd members, where Capstan manages the members: those that do not answer and belong to
//! no machine.
//!
//! A member is left behind when its machine goes without the hook. It votes and never comes back,
//! so etcd tolerates one failure less, and admits no new member. While there is such a member, no
//! machine is created or deleted, and the ControlPlane is degraded.
//!
//! While pods of several etcd clusters are found, no member is known, so the same applies (V249).
//!
//! The module must never remove a member: only a user can tell whether its instance is gone, or
//! whether Machine and Node were deleted while etcd runs.

use super::action::Plan;
use super::state::State;
use crate::api::meta::Condition;
use crate::cpms::machine_state::NodeState;
use crate::cpms::status::condition;
use crate::model::{Degradation, EtcdMember, UnknownMembers};

/// The reason of the degradation by a lost member.
const LOST_MEMBER: &str = "LostEtcdMember";

/// The reason of the degradation by pods of several etcd clusters.
const SEVERAL_CLUSTERS: &str = "SeveralEtcdClusters";

const REASONS: [&str; 2] = [LOST_MEMBER, SEVERAL_CLUSTERS];

/// Whether no machine is created or deleted because of this reason. Everything else continues.
pub(super) fn is_about_members(reason: &Degradation) -> bool {
    REASONS.contains(&reason.reason)
}

/// The answer while pods of several etcd clusters are found. `message` names the pods and the
/// remedy.
pub fn several_clusters(message: String) -> UnknownMembers {
    UnknownMembers::Undecided(Degradation {
        reason: SEVERAL_CLUSTERS,
        message,
    })
}

/// What the controller reports about the members in the conditions of the ControlPlane, for a
/// reader that cannot ask them.
pub(super) fn reported(conditions: &[Condition]) -> Option<UnknownMembers> {
    let mut conditions = conditions.iter();
    let found = conditions.find(|there| there.type_ == condition::DEGRADED && there.status == "True")?;
    let reason = REASONS.into_iter().find(|reason| *reason == found.reason)?;
    let message = found.message.clone();
    Some(UnknownMembers::Undecided(Degradation { reason, message }))
}

/// The reason for which a user must tell which the members are.
pub(super) fn undecided(state: &State) -> Option<Degradation> {
    match &state.observed.own_members {
        Some(Err(UnknownMembers::Undecided(reason))) => Some(reason.clone()),
        _ => None,
    }
}

/// The first lost member, and what a user does about it.
pub(super) fn degraded(state: &State) -> Option<Degradation> {
    let member = lost(state).next()?;
    Some(Degradation {
        reason: LOST_MEMBER,
        message: format!(
            "etcd member {} does not answer and has no control plane machine, and etcd may admit no other member: {}if \
             its instance is gone for good, remove the member with etcdctl member remove",
            member.name,
            other_cause(state, &member.name)
        ),
    })
}

/// Whether the controller must read the members again although no object changes.
pub fn is_concerned(plan: &Plan) -> bool {
    plan.degraded.iter().any(is_about_members)
}

/// The lost members. A learner is not lost while a machine has no node: it may be that of the
/// machine, which joins.
fn lost(state: &State) -> impl Iterator<Item = &EtcdMember> {
    let mut standing = state.standing();
    let joins = standing.any(|machine| matches!(machine.node, NodeState::None));
    let members = state.members.iter().flatten().filter(|_| state.manages_members());
    let silent = members.filter(|member| !member.is_healthy);
    let lasting = silent.filter(move |member| !member.is_learner || !joins);
    lasting.filter(|member| {
        let mut machines = state.machines.iter();
        !member.name.is_empty() && machines.all(|machine| machine.node.name() != Some(&*member.name))
    })
}

/// Another cause than the loss of the instance, with its remedy, as a clause that continues.
fn other_cause(state: &State, name: &str) -> String {
    if !state.standing().any(|machine| state.member_of(machine).is_some()) {
        return String::from("no machine has a member with the name of its node; name the members as their nodes, or ");
    }
    let mut others = state.observed.machines.iter();
    if let Some(machine) = others.find(|machine| machine.node_name() == Some(name)) {
        let machine = machine.metadata.name();
        return format!("give machine {machine} the labels of a control plane machine, or ");
    }
    let mut nodes = state.observed.nodes.iter();
    if nodes.any(|node| node.metadata.name() == name) {
        return format!("restore the Machine of Node {name}, or ");
    }
    String::new()
}

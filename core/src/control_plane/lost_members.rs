//! The lost etcd members, where Capstan manages the members: those that do not answer and belong to
//! no machine.
//!
//! A member is left behind when its machine goes without the hook. It votes and never comes back,
//! so etcd tolerates one failure less, and admits no new member. A lost member is removed before
//! anything else, if the other members have a majority without it. While it stays, no machine is
//! created or deleted, and the ControlPlane is degraded.
//!
//! The module must never remove a member that works, that has not started, or whose machine may
//! only be unknown.

use super::action::{Plan, Step};
use super::gates::keeps_majority;
use super::spec::Spec;
use super::state::State;
use crate::cpms::action::Action;
use crate::cpms::machine_state::NodeState;
use crate::model::{Degradation, EtcdMember};

/// The reason of the degradation by a lost member that stays.
const LOST_MEMBER: &str = "LostEtcdMember";

/// Whether no machine is created or deleted because of this reason. Everything else continues.
pub(super) fn is_lost_member(reason: &Degradation) -> bool {
    reason.reason == LOST_MEMBER
}

/// The removal of a lost member.
pub(super) fn removal(spec: &Spec, state: &State) -> Option<Step> {
    let member = lost(state).find(|member| stays(state, member).is_none())?;
    Some(Step {
        action: Action::RemoveMember(member.name.clone()),
        subject: spec.object(),
        index: None,
        because: String::from("it does not answer and has no machine"),
        precondition: None,
    })
}

/// The first lost member that stays, and why.
pub(super) fn degraded(state: &State) -> Option<Degradation> {
    let mut staying = lost(state).filter_map(|member| Some((member, stays(state, member)?)));
    let (member, why) = staying.next()?;
    Some(Degradation {
        reason: LOST_MEMBER,
        message: format!(
            "etcd member {} does not answer and has no control plane machine, and etcd may admit no other member: \
             {why}, or remove the member with etcdctl member remove",
            member.name
        ),
    })
}

/// Whether the controller must read the members again although no object changes.
pub fn is_concerned(plan: &Plan) -> bool {
    let mut steps = plan.steps.iter();
    let mut degraded = plan.degraded.iter();
    steps.any(|step| matches!(step.action, Action::RemoveMember(_))) || degraded.any(is_lost_member)
}

/// The member that a step removes.
pub(super) fn removed<'s>(state: &'s State, step: &Step) -> Option<&'s str> {
    let Action::RemoveMember(name) = &step.action else {
        return None;
    };
    let found = lost(state).find(|member| member.name == *name)?;
    Some(&found.name)
}

/// The lost members. A learner is not lost while a machine has no node: it may be that of the
/// machine, which joins.
fn lost(state: &State) -> impl Iterator<Item = &EtcdMember> {
    let joins = without_node(state).is_some();
    let members = state.members.iter().flatten().filter(|_| state.manages_members());
    let silent = members.filter(|member| !member.is_healthy);
    let lasting = silent.filter(move |member| !member.is_learner || !joins);
    lasting.filter(|member| {
        let mut machines = state.machines.iter();
        !member.name.is_empty() && machines.all(|machine| machine.node.name() != Some(&*member.name))
    })
}

/// Why a lost member stays, as what a user must do; `None` if it is removed.
fn stays(state: &State, member: &EtcdMember) -> Option<String> {
    let name = member.name.as_str();
    if !state.standing().any(|machine| state.member_of(machine).is_some()) {
        return Some(String::from(
            "no machine has a member with the name of its node; name the members as their nodes",
        ));
    }
    let mut others = state.observed.machines.iter();
    if let Some(machine) = others.find(|machine| machine.node_name() == Some(name)) {
        let machine = machine.metadata.name();
        return Some(format!("give machine {machine} the labels of a control plane machine"));
    }
    let mut nodes = state.observed.nodes.iter();
    if nodes.any(|node| node.metadata.name() == name) {
        return Some(format!("restore the Machine of Node {name}, delete the Node"));
    }
    if let Some(machine) = without_node(state) {
        return Some(format!(
            "it may be the member of machine {machine}, which has no node; wait until the machine has one"
        ));
    }
    let members = state.members.as_deref().unwrap_or_default();
    let (healthy, quorum) = keeps_majority(members, name).err()?;
    Some(format!(
        "without it, {healthy} of {} voting members would be healthy, and {} are needed; repair the other members",
        quorum.voting,
        quorum.needed()
    ))
}

/// A machine that stays and has no node.
fn without_node(state: &State) -> Option<&str> {
    let mut standing = state.standing();
    let machine = standing.find(|machine| matches!(machine.node, NodeState::None))?;
    Some(machine.name())
}

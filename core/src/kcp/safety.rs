//! Whether a control plane works after a machine is added or removed: at least one machine with all
//! components, and the quorum of etcd.
//!
//! The numbers of etcd are those of `model::quorum_after`. An unknown component is not healthy.

use super::state::{MachineState, State, condition, possible_members};
use crate::model::{EtcdMember, MembershipChange, Quorum, quorum_after};

/// The components that serve the API on a machine. The etcd member is not one of them: the quorum
/// decides about it.
const SERVING: &[&str] = &[
    condition::API_SERVER,
    condition::CONTROLLER_MANAGER,
    condition::SCHEDULER,
];

/// Whether all components on a machine work.
fn serves(state: &State, machine: &MachineState) -> bool {
    let kubernetes = SERVING.iter().all(|type_| machine.is_true(type_));
    kubernetes && (!state.is_etcd_managed() || machine.is_true(condition::ETCD_POD))
}

/// Whether a machine serves the API after a machine is added. The new machine counts only if it is
/// the first one.
pub(super) fn serves_with_addition(state: &State) -> bool {
    state.machines.is_empty() || state.machines.iter().any(|machine| serves(state, machine))
}

/// Whether a machine serves the API after this one is removed.
pub(super) fn serves_without(state: &State, name: &str) -> bool {
    let mut others = state.machines.iter().filter(|machine| machine.name() != name);
    others.any(|machine| serves(state, machine))
}

/// Whether the API is served after this machine is removed as far as it was before: another machine
/// serves it, or this one does not.
pub(super) fn serves_after(state: &State, machine: &MachineState) -> bool {
    serves_without(state, machine.name()) || takes_no_part(state, machine)
}

/// Whether a machine certainly does not serve the API: it never joined, or its etcd member does not
/// work, without which its API server does not work either. The conditions of the pods alone do not
/// tell: they are false for every machine that is being deleted (V198).
fn takes_no_part(state: &State, machine: &MachineState) -> bool {
    let members = state.members().unwrap_or_default();
    let votes = |name: &&str| members.iter().any(|member| member.name == **name && !member.is_learner);
    let may_vote = possible_members(machine, state).iter().any(votes);
    let never_joined = machine.node().is_none() && !may_vote;
    let has_no_etcd = state.is_etcd_managed() && machine.is_false(condition::ETCD_MEMBER);
    never_joined || (has_no_etcd && !machine.is_true(condition::API_SERVER))
}

/// The quorum after a change, if it is not safe.
pub(super) fn lost_quorum(members: &[EtcdMember], change: MembershipChange<'_>) -> Option<Quorum> {
    let quorum = quorum_after(members, change);
    (!quorum.is_safe()).then_some(quorum)
}

/// Whether etcd keeps its quorum if one more member gets a vote and never answers.
pub(super) fn survives_lost_member(members: &[EtcdMember]) -> bool {
    let voting = || {
        members
            .iter()
            .filter(|member| !member.is_learner && !member.name.is_empty())
    };
    let quorum = Quorum {
        voting: voting().count() + 1,
        unhealthy: voting().filter(|member| !member.is_healthy).count() + 1,
        learners: 0,
    };
    quorum.is_safe()
}

/// Why a change of the etcd membership is not safe.
pub(super) fn why(quorum: Quorum, change: &str) -> String {
    let healthy = quorum.voting.saturating_sub(quorum.unhealthy);
    if quorum.learners > 0 {
        return format!(
            "{change} is not safe while {} etcd member(s) do not vote yet",
            quorum.learners
        );
    }
    if quorum.voting == 0 {
        return format!("{change} would leave no voting etcd member");
    }
    format!(
        "{change} would leave {healthy} healthy of {} voting etcd members; {} are needed",
        quorum.voting,
        quorum.needed()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::samples::World;

    #[test]
    fn one_machine_with_all_components_must_remain() {
        let mut world = World::new("abc");
        world.set(0, condition::SCHEDULER, "False");
        world.set(1, condition::ETCD_POD, "Unknown");
        let state = world.state();
        assert!(serves_with_addition(&state));
        assert!(serves_without(&state, "m-0") && serves_without(&state, "m-1"));
        assert!(!serves_without(&state, "m-2"));
        world.set(2, condition::API_SERVER, "");
        assert!(!serves_with_addition(&world.state()), "an absent condition");
        assert!(serves_with_addition(&World::new("").state()), "the first machine");
        assert!(!serves_without(&World::new("a").state(), "m-0"));
    }

    #[test]
    fn the_pod_of_etcd_does_not_count_with_external_etcd() {
        let mut world = World::new("ab").external();
        world.set(1, condition::ETCD_POD, "False");
        assert!(serves_without(&world.state(), "m-0"));
    }
}

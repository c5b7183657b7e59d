//! The progress of a rollout, for `capstan status` and `capstan wait`: a count, which is derived
//! from the state, and whether only a user can continue, which is derived from the plan. The plan
//! gives the reasons for a delay.

use jiff::Timestamp;

use super::action::{Plan, Wait};
use super::spec::Spec;
use super::state::State;

/// The progress of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Indexes with exactly one machine, if that machine is up to date, has been ready for the
    /// minimum time, and is not being deleted.
    pub done: usize,
    /// The number of indexes.
    pub of: usize,
}

/// Counts the indexes.
pub fn progress(spec: &Spec, state: &State, now: Timestamp) -> Progress {
    let done = |index: &&u32| {
        let mut machines = state.of_index(**index);
        let only = machines.next().filter(|_| machines.next().is_none());
        only.is_some_and(|only| only.is_current() && state.is_stable(only, now) && !only.is_deleting())
    };
    Progress {
        done: state.indexes.iter().filter(done).count(),
        of: spec.replicas.count(),
    }
}

/// The wait that only a user ends, if nothing else moves the rollout. A rollout moves while a
/// machine is created or deleted, and while an index waits only for what ends without a user.
pub fn waits_for_user(plan: &Plan) -> Option<&Wait> {
    let of_user: Vec<&Wait> = plan.waits.iter().filter(|wait| wait.reason.is_of_user()).collect();
    let is_held = |wait: &Wait| of_user.iter().any(|other| other.index == wait.index);
    let moves = plan.disruptive().is_some() || !plan.waits.iter().all(is_held);
    of_user.first().copied().filter(|_| !moves)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpms::action::WaitReason;
    use crate::cpms::simulation::{NEW, OLD, World};
    use crate::cpms::spec::{PAUSED_ROLLOUT, ROLLOUT_LIMIT};

    fn counted(world: &World) -> Progress {
        progress(&world.spec(), &world.state(), world.now)
    }

    #[test]
    fn an_index_is_done_when_its_only_machine_is_up_to_date_ready_and_stays() {
        let mut world = World::new("a b c", OLD);
        assert_eq!(counted(&world), Progress { done: 3, of: 3 });
        world.want(NEW);
        assert_eq!(counted(&world).done, 0, "outdated");
        let step = world.plan().steps.pop().unwrap();
        world.apply(&step);
        world.want(OLD);
        assert_eq!(counted(&world).done, 2, "two machines of one index");
        let name = "ocp-x7k2p-master-2";
        world.delete(name);
        assert_eq!(counted(&world).done, 1, "being deleted");
        world.node_down("ocp-x7k2p-master-1");
        assert_eq!(counted(&world).done, 0, "not ready");
    }

    fn reason(world: &World) -> Option<WaitReason> {
        waits_for_user(&world.plan()).map(|wait| wait.reason)
    }

    #[test]
    fn w90_a_rollout_that_only_a_user_can_continue_waits_for_the_user() {
        let outdated = || {
            let mut world = World::new("a b c", OLD);
            world.want(NEW);
            world
        };
        assert_eq!(reason(&World::new("a b c", OLD)), None, "nothing waits");
        assert_eq!(reason(&outdated()), None, "a machine is created next");

        let mut paused = outdated();
        paused.annotate(PAUSED_ROLLOUT, "true");
        assert_eq!(reason(&paused), Some(WaitReason::Pause));
        paused.node_down("ocp-x7k2p-master-1");
        assert_eq!(
            reason(&paused),
            Some(WaitReason::Pause),
            "an outdated machine is not ready"
        );

        let mut limited = outdated();
        limited.annotate(ROLLOUT_LIMIT, "0");
        assert_eq!(reason(&limited), Some(WaitReason::Limit));

        let mut on_delete = outdated();
        on_delete.strategy("OnDelete");
        assert_eq!(reason(&on_delete), Some(WaitReason::UserDelete));
        on_delete.delete("ocp-x7k2p-master-0");
        assert_eq!(reason(&on_delete), None, "a deleted machine is replaced");
    }

    #[test]
    fn w90_a_rollout_with_a_limit_moves_until_its_last_machine_is_replaced() {
        let mut world = World::new("a b c", OLD);
        world.want(NEW);
        world.annotate(ROLLOUT_LIMIT, "1");
        let step = world.plan().steps.pop().unwrap();
        world.apply(&step);
        let plan = world.plan();
        assert!(
            plan.waits.iter().any(|wait| wait.reason == WaitReason::Limit),
            "{plan:?}"
        );
        assert_eq!(reason(&world), None, "the first replacement starts");
    }
}

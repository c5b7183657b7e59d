//! The progress of a rollout: a count for `capstan status` and `capstan wait`. It is derived from
//! the state. The plan gives the reasons for a delay.

use jiff::Timestamp;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpms::simulation::{NEW, OLD, World};

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
}

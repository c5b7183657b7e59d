//! Safety without leader election (decision 15): planners with old snapshots, in any order, never
//! create a second machine for an index and never delete a machine that was not replaced.

use proptest::prelude::{ProptestConfig, TestCaseError, any, prop, prop_assert, prop_assert_eq, proptest};

use crate::cpms::plan::{Action, Step};
use crate::cpms::simulation::{NEW, World};

/// Checks that an index with a ready machine still has one, and that the number of machines is
/// within its limits.
fn check(before: &World, after: &World, step: &Step) -> Result<(), TestCaseError> {
    let replicas = before.spec().replicas.count();
    let live = |world: &World| {
        world
            .observed
            .machines
            .iter()
            .filter(|machine| !machine.metadata.is_deleting())
            .count()
    };
    match step.action {
        Action::Create { .. } => {
            prop_assert!(
                live(after) <= replicas + 1,
                "{} live machines after {:?}",
                live(after),
                step.machine()
            );
            let same = after
                .state()
                .of_index(step.index.unwrap())
                .filter(|machine| !machine.is_deleting())
                .count();
            prop_assert!(same <= 2, "{same} machines in one index after {:?}", step.machine());
        }
        Action::Delete { .. } => {
            let state = after.state();
            let served = state
                .of_index(step.index.unwrap())
                .any(|machine| !machine.is_deleting() && machine.is_current() && machine.is_ready());
            prop_assert!(served, "{:?} was deleted and not replaced", step.machine());
        }
        Action::Patch { .. } | Action::PatchSet(_) | Action::Records(_) => {}
    }
    Ok(())
}

/// The check of a controller that reads live before a disruptive step: it takes the step only if
/// the plan still has it.
fn still_holds(live: &World, step: &Step) -> bool {
    let identity = |step: &Step| {
        (
            step.verb(),
            step.machine().map(str::to_owned),
            step.precondition.clone(),
        )
    };
    !step.is_disruptive() || live.plan().disruptive().map(identity) == Some(identity(step))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn planners_with_old_snapshots_never_create_a_second_machine(
        lags in prop::collection::vec(0..25_usize, 1..60),
        choices in prop::collection::vec(any::<u8>(), 1..60),
        live_reads in any::<bool>(),
        deleted in prop::collection::vec(any::<bool>(), 3),
    ) {
        let mut world = World::new("a b c", NEW);
        // A machine that a user deletes can be gone before it is replaced. Then the same name
        // cannot be derived again. The live read before the write prevents a second machine.
        for (index, _) in deleted.iter().enumerate().filter(|(_, deleted)| **deleted && live_reads) {
            world.delete(&format!("ocp-x7k2p-master-{index}"));
        }
        let mut past = vec![world.clone()];
        let mut quiet = 0;
        let mut creations = 0;
        for turn in 0..400 {
            // Late in the run every snapshot is current, so that the run ends.
            let lag = if turn < 300 { lags[turn % lags.len()] } else { 0 };
            let seen = &past[past.len().saturating_sub(1 + lag)];
            for step in &seen.plan().steps {
                let before = world.clone();
                if live_reads && !still_holds(&world, step) {
                    break;
                }
                if !world.try_apply(step) {
                    break;
                }
                creations += usize::from(matches!(step.action, Action::Create { .. }));
                check(&before, &world, step)?;
            }
            let events = world.events();
            if !events.is_empty() {
                let choice = usize::from(choices[turn % choices.len()]) % events.len();
                world.happen(&events[choice].clone());
                quiet = 0;
            } else {
                quiet += 1;
            }
            world.pass(30);
            past.push(world.clone());
            if quiet > 60 {
                break;
            }
        }
        prop_assert_eq!(creations, 3, "one machine for each index");
        prop_assert!(world.state().machines.iter().all(|machine| machine.is_current() && machine.is_ready()));
        prop_assert_eq!(world.state().machines.len(), 3);
    }
}

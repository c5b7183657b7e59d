//! Random edits, failures and delays: etcd never loses its quorum by a step, at most one machine is
//! in transit, and the control plane settles at the number of its replicas.

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The controller executes its plan.
    Reconcile,
    /// A host makes progress.
    Progress(usize),
    /// A user changes the number of machines.
    Scale(i64),
    /// A user changes the shape of the machines.
    Reshape(u8),
    /// A machine fails. Failures that would cost the quorum by themselves are left out.
    Fail(usize),
    /// A user or a health check deletes a machine.
    Delete(usize),
    /// A user lists other failure domains.
    Domains(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => Just(Event::Reconcile),
        8 => (0..9_usize).prop_map(Event::Progress),
        1 => prop_oneof![Just(1), Just(3), Just(5), Just(7)].prop_map(Event::Scale),
        1 => (0..3_u8).prop_map(Event::Reshape),
        1 => (0..9_usize).prop_map(Event::Fail),
        1 => (0..9_usize).prop_map(Event::Delete),
        1 => (1..5_usize).prop_map(Event::Domains),
    ]
}

fn fail(world: &mut World, position: usize) {
    let mut failed = world.clone();
    let Some(one) = failed.hosts.get_mut(position) else {
        return;
    };
    (one.ready, one.member) = (false, Member::Unhealthy);
    let broken = failed
        .hosts
        .iter()
        .filter(|one| one.member == Member::Unhealthy)
        .count();
    if failed.has_quorum() && broken < 2 {
        *world = failed;
    }
}

fn apply(world: &mut World, event: Event) {
    match event {
        Event::Reconcile => {
            let next = world.plan();
            let disruptive = next.steps.iter().filter(|step| step.is_disruptive()).count();
            assert!(disruptive <= 1, "{next:?}");
            if disruptive == 1 {
                let standing = world.hosts.iter().filter(|one| !one.is_deleting());
                assert!(standing.clone().all(|one| one.ready), "a machine is in transit");
                let unstarted = |one: &Host| matches!(one.member, Member::None | Member::Unstarted);
                assert!(!standing.clone().any(unstarted), "a member is learning");
            }
            if let Some(Step {
                action: Action::Delete { .. },
                ..
            }) = next.disruptive()
            {
                let (voting, healthy) = world.voting();
                assert!(healthy == voting && healthy > 1 && world.hosts.len() > world.spec().replicas);
            }
            world.execute(&next);
        }
        Event::Progress(position) => drop(world.progress(position)),
        Event::Scale(replicas) => world.object["spec"]["replicas"] = json!(replicas),
        Event::Reshape(shape) => {
            world.object["spec"]["providerSpec"]["value"]["instanceType"] = json!(format!("m6i.{shape}xlarge"));
        }
        Event::Fail(position) => fail(world, position),
        Event::Domains(count) => super::spread::list(world, &["a", "b", "c", "d"][..count]),
        Event::Delete(position) => {
            // One voluntary disruption at a time, as the health check makes them.
            let quiet = world.hosts.iter().all(|one| !one.is_deleting());
            let name = world.hosts.get(position).map(|one| one.name().to_owned());
            if let Some(name) = name.filter(|_| quiet) {
                world.delete(&name);
            }
        }
    }
}

proptest! {
    #![proptest_config(Config::with_cases(192))]

    #[test]
    fn etcd_keeps_its_quorum_and_the_control_plane_settles(
        size in prop_oneof![Just(1_i64), Just(3), Just(5)],
        events in proptest::collection::vec(event(), 0..60),
    ) {
        let mut world = World::settled(size);
        world.object["metadata"]["annotations"] = json!({(ACKNOWLEDGED): RISK});
        for event in events {
            apply(&mut world, event);
            prop_assert!(world.has_quorum(), "{event:?}: {world:?}");
        }
        world.settle();
        let (spec, state) = (world.spec(), world.state());
        prop_assert_eq!(state.machines.len(), spec.replicas, "{:?}", plan(&spec, &state));
        prop_assert!(spec.replicas % 2 == 1 && state.machines.iter().all(MachineState::is_current));
        prop_assert_eq!(world.voting(), (spec.replicas, spec.replicas));
        let standing: Vec<&MachineState> = state.standing().collect();
        prop_assert!(!matches!(spread(&spec, &standing), Spread::Improvable { .. }), "{world:?}");
    }
}

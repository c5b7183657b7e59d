//! The same properties on every platform, with every strategy, for three and five machines, with
//! and without owners, and with machines that fail. A run that follows the plan, with a fair
//! provider and a user who follows the conditions, ends in the desired state. No step puts the
//! control plane at risk.

use proptest::prelude::{
    ProptestConfig, Strategy as _, TestCaseError, any, prop, prop_assert, prop_assert_eq, proptest,
};
use serde_json::json;

use super::{TakenStep, taken_step};
use crate::cpms::degraded::allows_repair;
use crate::cpms::domains::Platform;
use crate::cpms::indexes::REPLACES;
use crate::cpms::machine_state::{MachineState, Owner};
use crate::cpms::plan::Action;
use crate::cpms::preview::preview;
use crate::cpms::simulation::{Event, NEW, OLD, World};
use crate::cpms::spec::{RECREATE_ACKNOWLEDGED, RECREATE_RISK, Strategy};
use crate::cpms::state::State;

/// The relation of a machine to the set at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    Owned,
    Unowned,
    OfAFormerSet,
    /// Without an owner, and with a name without a number.
    Nameless,
}

/// The health of a machine at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Ready,
    NodeDown,
    NodeGone,
    Starting,
    Failed,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    zone: usize,
    outdated: bool,
    deleting: bool,
    ownership: Ownership,
    health: Health,
}

#[derive(Clone, Debug)]
struct Shape {
    platform: Option<Platform>,
    strategy: Strategy,
    five: bool,
    zones: usize,
    hook: bool,
    starts: Vec<Start>,
}

fn any_start() -> impl proptest::strategy::Strategy<Value = Start> {
    let ownership = prop::sample::select(vec![
        Ownership::Owned,
        Ownership::Owned,
        Ownership::Unowned,
        Ownership::OfAFormerSet,
        Ownership::Nameless,
    ]);
    let health = prop::sample::select(vec![
        Health::Ready,
        Health::Ready,
        Health::Ready,
        Health::NodeDown,
        Health::NodeGone,
        Health::Starting,
        Health::Failed,
    ]);
    (0..3_usize, any::<bool>(), prop::bool::weighted(0.2), ownership, health).prop_map(
        |(zone, outdated, deleting, ownership, health)| Start {
            zone,
            outdated,
            deleting,
            ownership,
            health,
        },
    )
}

fn any_shape() -> impl proptest::strategy::Strategy<Value = Shape> {
    let platforms: Vec<Option<Platform>> = Platform::ALL.into_iter().map(Some).chain([None]).collect();
    let strategies = vec![Strategy::RollingUpdate, Strategy::OnDelete, Strategy::Recreate];
    (
        prop::sample::select(platforms),
        prop::sample::select(strategies),
        any::<bool>(),
        1..4_usize,
        any::<bool>(),
        prop::collection::vec(any_start(), 5),
    )
        .prop_map(|(platform, strategy, five, zones, hook, starts)| Shape {
            platform,
            strategy,
            five,
            zones,
            hook,
            starts: starts.into_iter().take(if five { 5 } else { 3 }).collect(),
        })
}

fn world(shape: &Shape) -> World {
    let mut world = World::on(shape.platform, if shape.five { "a b c a b" } else { "a b c" }, NEW);
    world.zones(["a", "a b", "a b c"][shape.zones - 1]);
    world.etcd_hook = shape.hook;
    world.observed.machines.clear();
    world.observed.nodes.clear();
    match shape.strategy {
        Strategy::RollingUpdate => {}
        Strategy::OnDelete => world.strategy("OnDelete"),
        Strategy::Recreate => {
            world.gates.recreate = true;
            world.annotate(RECREATE_ACKNOWLEDGED, RECREATE_RISK);
            world.strategy("Recreate");
        }
    }
    for (index, start) in shape.starts.iter().enumerate() {
        let name = match start.ownership {
            Ownership::Nameless => format!("ocp-x7k2p-master-{}", ["blue", "red", "dun", "bay", "roan"][index]),
            _ => format!("ocp-x7k2p-master-{index}"),
        };
        let zone = ["a", "b", "c"][start.zone];
        world.add(&name, zone, if start.outdated { OLD } else { NEW });
        match start.ownership {
            Ownership::Owned => {}
            Ownership::Unowned | Ownership::Nameless => world.machine(&name).metadata.owner_references.clear(),
            Ownership::OfAFormerSet => "former".clone_into(&mut world.machine(&name).metadata.owner_references[0].uid),
        }
        match start.health {
            Health::Ready => {}
            Health::NodeDown => world.node_down(&name),
            Health::NodeGone => world.node_gone(&name),
            Health::Starting => {
                world.machine(&name).status = None;
                world.node_gone(&name);
            }
            Health::Failed => world.fail(&name, "the instance is gone"),
        }
        if start.deleting {
            world.delete(&name);
        }
    }
    world
}

fn live(world: &World) -> usize {
    let staying = world.observed.machines.iter();
    staying.filter(|machine| !machine.metadata.is_deleting()).count()
}

fn ready(world: &World) -> usize {
    let staying = world.observed.machines.iter();
    staying
        .filter(|machine| !machine.metadata.is_deleting() && world.is_ready(machine))
        .count()
}

/// Whether an index has no machine, or only machines that are being deleted.
fn lacks_machine(state: &State) -> bool {
    let mut indexes = state.indexes.iter();
    indexes.any(|index| state.of_index(*index).all(MachineState::is_deleting))
}

/// Whether a ready machine was created to replace the machine of this uid.
fn is_replaced(world: &World, uid: &str) -> bool {
    world.observed.machines.iter().any(|machine| {
        let meta = &machine.metadata;
        let replaces = meta.annotations.get(REPLACES).is_some_and(|replaced| replaced == uid);
        replaces && !meta.is_deleting() && world.is_ready(machine)
    })
}

/// Takes the steps of the plan, and checks each step against the state before it.
fn follow(world: &mut World, shape: &Shape, taken: &mut Vec<TakenStep>) -> Result<bool, TestCaseError> {
    let replicas = shape.starts.len();
    let plan = world.plan();
    let disruptive = plan.steps.iter().filter(|step| step.is_disruptive()).count();
    prop_assert!(disruptive <= 1, "more than one disruptive step: {:?}", plan.steps);
    if !plan.degraded.iter().all(allows_repair) {
        prop_assert_eq!(disruptive, 0, "{:?}", plan.degraded);
    }
    let is_degraded = !plan.degraded.is_empty();
    for step in &plan.steps {
        let (state, before) = (world.state(), ready(world));
        world.apply(step);
        let serves = |machine: &MachineState| machine.is_ready() && !machine.is_deleting();
        let of_index = |index: u32| {
            state
                .of_index(index)
                .filter(|machine| Some(machine.name.as_str()) != step.machine())
        };
        match step.action {
            Action::Create { .. } => {
                prop_assert!(live(world) <= replicas + 1, "{} live machines: {step:?}", live(world));
                let index = step.index.unwrap();
                let staying = of_index(index).filter(|machine| !machine.is_deleting()).count();
                prop_assert!(staying <= usize::from(!is_degraded), "{step:?}");
                prop_assert!(
                    of_index(index).all(|machine| !machine.is_current() || machine.is_deleting()),
                    "{step:?}"
                );
            }
            Action::Delete { .. } => {
                prop_assert!(shape.strategy != Strategy::OnDelete, "only the user deletes: {step:?}");
                let after = ready(world);
                prop_assert!(after == before || after + 1 >= replicas, "{after} ready after {step:?}");
                let uid = &step.precondition.as_ref().unwrap().uid;
                prop_assert!(
                    after == before || after >= replicas || !lacks_machine(&state) || is_replaced(world, uid),
                    "{after} ready after {step:?}"
                );
                let index = step.index.unwrap();
                if shape.strategy == Strategy::Recreate {
                    // The only machine of its index may be deleted only while every other index has
                    // a ready machine.
                    let alone = of_index(index).all(|machine| machine.is_deleting());
                    let mut others = state.indexes.iter().filter(|other| **other != index);
                    let served = others.all(|other| state.of_index(*other).any(serves));
                    prop_assert!(!alone || served, "{step:?}");
                } else {
                    prop_assert!(
                        of_index(index).any(|machine| !machine.is_deleting()),
                        "index emptied: {step:?}"
                    );
                }
            }
            Action::Patch { ref patch, .. } => {
                let owners = patch.pointer("/metadata/ownerReferences");
                prop_assert!(!is_degraded || owners.is_some(), "{step:?}");
            }
            Action::PatchSet(_) | Action::Records(_) => {}
        }
        taken.extend(taken_step(step));
    }
    Ok(!plan.steps.is_empty())
}

/// The action of a user or a health check when nothing changes any more. It creates a machine if
/// none is left, as the condition describes. It repairs one machine if none is ready. It deletes a
/// dead machine. It removes the hook of a dead machine that the etcd operator keeps while another
/// machine is dead too. Returns whether there was an action.
fn act_as_user(world: &mut World) -> bool {
    if world.observed.machines.is_empty() {
        world.add("ocp-x7k2p-master-0", "a", NEW);
        return true;
    }
    let state = world.state();
    if !state.each_machine().any(MachineState::is_ready)
        && let Some(machine) = world.observed.machines.first()
    {
        let name = machine.metadata.name().to_owned();
        let machine = world.machine(&name);
        machine.metadata.deletion_timestamp = None;
        let status = json!({"phase": "Running", "nodeRef": {"name": format!("node-of-{name}")}});
        machine.status = serde_json::from_value(status).unwrap();
        let since = world.ago(3600);
        world.set_node(&name, "True", since);
        return true;
    }
    let mut dead = state.machines.iter().filter(|machine| !machine.is_ready());
    if let Some(machine) = dead.clone().find(|machine| !machine.is_deleting()) {
        world.delete(&machine.name);
        return true;
    }
    let held = dead.find(|machine| !machine.hooks.is_empty());
    if let Some(machine) = held {
        world.machine(&machine.name).spec.lifecycle_hooks = None;
    }
    held.is_some()
}

/// Runs to the end. The provider answers in the order of `choices`, and lets some machines fail.
fn run(world: &mut World, shape: &Shape, choices: &[u8], mut failures: u8) -> Result<Vec<TakenStep>, TestCaseError> {
    let mut taken = Vec::new();
    for turn in 0..900 {
        if follow(world, shape, &mut taken)? {
            world.pass(1);
            continue;
        }
        let choice = usize::from(choices[turn % choices.len()]);
        let events = world.events();
        if !events.is_empty() {
            let event = events[choice % events.len()].clone();
            match &event {
                Event::Provisioned(name) | Event::Joined(name) if failures > 0 && choice.is_multiple_of(3) => {
                    failures -= 1;
                    let name = name.clone();
                    world.fail(&name, "no capacity");
                }
                _ => world.happen(&event),
            }
            world.pass(30);
        } else if let Some(until) = world.plan().reconcile_at.filter(|until| *until > world.now) {
            world.now = until;
        } else if !act_as_user(world) {
            return Ok(taken);
        }
    }
    Err(TestCaseError::fail(format!("no end: {:?}", world.plan())))
}

/// Checks that the state is the desired state, and that there is no further step.
fn ended(world: &World, shape: &Shape) -> Result<(), TestCaseError> {
    let (plan, state) = (world.plan(), world.state());
    prop_assert_eq!(&plan.degraded, &[], "a user who follows the conditions must be done");
    let has_wait = |machine: &MachineState| {
        plan.waits
            .iter()
            .any(|wait| wait.machine() == Some(machine.name.as_str()))
    };
    for index in &state.indexes {
        prop_assert!(
            state.of_index(*index).any(MachineState::is_ready),
            "{index}: {:?}",
            plan
        );
    }
    if shape.strategy == Strategy::OnDelete {
        // A machine that the user has not deleted must be unchanged, and its wait must be reported.
        let kept = state
            .each_machine()
            .all(|machine| machine.is_current() || has_wait(machine));
        prop_assert!(kept, "{:?}", plan);
    } else {
        prop_assert_eq!(state.machines.len(), shape.starts.len(), "{:?}", plan);
        prop_assert!(state.each_machine().all(MachineState::is_current), "{:?}", plan);
        prop_assert_eq!(&plan.waits, &[]);
    }
    prop_assert!(state.each_machine().all(|machine| machine.owner == Owner::Ours));
    prop_assert!(plan.steps.is_empty());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_state_platform_and_strategy_ends_in_the_desired_state(
        shape in any_shape(),
        choices in prop::collection::vec(any::<u8>(), 1..60),
        failures in 0..4_u8,
    ) {
        let mut world = world(&shape);
        run(&mut world, &shape, &choices, failures)?;
        ended(&world, &shape)?;
    }

    #[test]
    fn any_platform_and_strategy_takes_the_steps_of_the_preview(
        shape in any_shape(),
        choices in prop::collection::vec(any::<u8>(), 1..60),
        going in 0..8_usize,
    ) {
        let mut shape = shape;
        // A preview assumes that no machine fails, and that at most one machine is being deleted.
        for (index, start) in shape.starts.iter_mut().enumerate() {
            start.health = Health::Ready;
            start.deleting = index == going;
        }
        shape.hook = true;
        let mut world = world(&shape);
        let ahead = preview(&world.spec(), &world.state(), world.now);
        let previewed: Vec<TakenStep> = ahead.steps.iter().filter_map(taken_step).collect();
        prop_assert_eq!(previewed, run(&mut world, &shape, &choices, 0)?);
    }
}

/// Too rare for a property test: no ready machine is left, and then no machine at all.
#[test]
fn a_deleted_control_plane_is_restored_from_one_machine_of_a_user() {
    let healths = [
        Health::Ready,
        Health::NodeDown,
        Health::NodeGone,
        Health::Starting,
        Health::Failed,
    ];
    for strategy in [Strategy::RollingUpdate, Strategy::Recreate, Strategy::OnDelete] {
        for (health, hook) in healths.into_iter().flat_map(|health| [(health, false), (health, true)]) {
            let start = Start {
                zone: 0,
                outdated: true,
                deleting: true,
                ownership: Ownership::Owned,
                health,
            };
            let shape = Shape {
                platform: Some(Platform::Aws),
                strategy,
                five: false,
                zones: 1,
                hook,
                starts: vec![start; 3],
            };
            let mut world = world(&shape);
            run(&mut world, &shape, &[0], 0).unwrap();
            ended(&world, &shape).unwrap();
        }
    }
}

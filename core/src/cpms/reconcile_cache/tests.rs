use super::*;
use crate::cpms::observed::Settings;
use crate::cpms::simulation::{NEW, OLD, World};
use crate::cpms::state::State;

/// A whole rollout, in which each reconcile runs with the cache of the one before it and without a
/// cache.
#[test]
fn a_reconcile_has_the_same_result_with_and_without_the_cache() {
    let mut world = World::new("a b c", OLD);
    let mut cache = ReconcileCache::default();
    let mut reconciles = 0;
    let mut reconcile = |world: &World| {
        let set: Arc<ControlPlaneMachineSet> = Arc::new(serde_json::from_value(world.set.clone()).unwrap());
        let spec = cache.parse(&set, None, world.gates, true).unwrap();
        assert_eq!(spec, world.spec());
        let state = State::observe_with(&spec, world.observed.clone(), Settings::default(), &mut cache);
        assert_eq!(format!("{state:?}"), format!("{:?}", world.state()));
        reconciles += 1;
    };
    reconcile(&world);
    world.want(NEW);
    world.set["metadata"]["resourceVersion"] = "2001".into();
    for _ in 0..40 {
        reconcile(&world);
        let plan = world.plan();
        for step in &plan.steps {
            world.apply(step);
            reconcile(&world);
        }
        if let Some(event) = world.events().first() {
            world.happen(&event.clone());
            reconcile(&world);
        }
        world.pass(60);
    }
    world.zones("a b d");
    reconcile(&world);
    world.annotate(changes::ROLL_ON_IMAGE_CHANGE, "true");
    reconcile(&world);
    assert!(reconciles > 50, "{reconciles}");
}

//! Plans of a pool.

use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use serde_json::json;

use super::*;
use crate::pool::samples::{World, now};

#[test]
fn a_healthy_pool_needs_nothing() {
    let world = World::new(3);
    assert_eq!(plan(&world.state(), Mode::Extend, now()), Plan::default());
    // Without the core manager, Capstan sets the label of the Cluster and the owners too.
    let own = plan(&world.state(), Mode::Own, now());
    assert!(own.waits.is_empty() && own.degraded.is_empty());
    assert!(own.steps.iter().all(|step| matches!(step.action, Action::Patch(_))));
}

#[test]
fn an_instance_without_a_machine_gets_one_with_its_name_only_if_capstan_owns_the_pool() {
    let mut world = World::new(2);
    world.pool["spec"]["template"]["metadata"] = json!({"labels": {"team": "blue"}, "annotations": {"note": "x"}});
    let removed = world.machines.remove(1);
    assert!(world.plan().steps.is_empty());
    assert_eq!(world.waits(), ["Provider"]);

    let own = plan(&world.state(), Mode::Own, now());
    let created = own.steps.iter().find_map(|step| match &step.action {
        Action::Create(machine) => Some(serde_json::to_value(machine).unwrap()),
        _ => None,
    });
    let created = created.unwrap();
    assert_eq!(created["metadata"]["name"], "p-1");
    assert_eq!(created["metadata"]["labels"]["team"], "blue");
    assert_eq!(created["metadata"]["labels"]["cluster.x-k8s.io/pool-name"], "p");
    assert_eq!(created["metadata"]["ownerReferences"][0]["controller"], true);
    for field in ["clusterName", "bootstrap", "infrastructureRef"] {
        assert_eq!(created["spec"][field], removed["spec"][field], "{field}");
    }
}

#[test]
fn bug_4_what_the_template_says_of_deletion_and_readiness_reaches_the_machines() {
    let mut world = World::new(1);
    let template = &mut world.pool["spec"]["template"]["spec"];
    template["deletion"] = json!({"nodeDrainTimeoutSeconds": 60});
    template["readinessGates"] = json!([{"conditionType": "Checked"}]);
    template["minReadySeconds"] = json!(30);
    template["failureDomain"] = json!("a");
    let fields = json!({"deletion": {"nodeDrainTimeoutSeconds": 60}, "minReadySeconds": 30, "failureDomain": "a",
        "readinessGates": [{"conditionType": "Checked"}]});
    let steps = world.plan().steps;
    let [step] = steps.as_slice() else { panic!("{steps:?}") };
    let Action::Patch(patch) = &step.action else {
        panic!("{step:?}")
    };
    assert_eq!(patch["spec"], fields);
    assert_eq!(patch["metadata"], json!({"uid": "m-uid-0", "resourceVersion": "7"}));

    json_patch::merge(&mut world.machines[0], patch);
    // The API server adds a default, and the Machine has another timeout that the template leaves.
    world.machines[0]["spec"]["readinessGates"][0]["polarity"] = json!("Positive");
    world.machines[0]["spec"]["deletion"]["nodeDeletionTimeoutSeconds"] = json!(10);
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn v192_the_timeouts_of_the_template_reach_machines_that_are_being_deleted_also_with_their_pool() {
    let mut world = World::new(2);
    let template = &mut world.pool["spec"]["template"]["spec"];
    template["deletion"] = json!({"nodeDrainTimeoutSeconds": 60});
    template["minReadySeconds"] = json!(30);
    world.delete(0);
    let patch_of = |world: &World, mode: Mode| {
        let steps = plan(&world.state(), mode, now()).steps;
        let step = steps.into_iter().find(|step| step.subject.name == "p-0");
        match step.map(|step| step.action) {
            Some(Action::Patch(patch)) => patch["spec"].clone(),
            other => panic!("{other:?}"),
        }
    };
    for mode in [Mode::Extend, Mode::Own] {
        // Nothing but the timeouts: the Machine does not stay.
        assert_eq!(
            patch_of(&world, mode),
            json!({"deletion": {"nodeDrainTimeoutSeconds": 60}})
        );
    }
    world.pool["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:59:00Z");
    assert_eq!(
        patch_of(&world, Mode::Extend),
        json!({"deletion": {"nodeDrainTimeoutSeconds": 60}})
    );
    world.machines[0]["spec"]["deletion"] = json!({"nodeDrainTimeoutSeconds": 60});
    let steps = plan(&world.state(), Mode::Extend, now()).steps;
    assert!(steps.iter().all(|step| step.subject.name != "p-0"), "{steps:?}");
}

#[test]
fn bug_5_a_machine_whose_kubelet_has_another_version_is_outdated() {
    let mut world = World::new(2);
    world.outdate(1);
    let outdated: Vec<bool> = world
        .state()
        .members
        .iter()
        .map(|member| member.outdated.is_some())
        .collect();
    assert_eq!(outdated, [false, true]);
    // A template without a version leaves it to the provider.
    world.pool["spec"]["template"]["spec"]["version"] = json!("");
    assert!(world.state().members.iter().all(|member| member.outdated.is_none()));
}

#[test]
fn a_pool_whose_provider_cannot_delete_single_instances_is_shown_and_not_changed() {
    let mut world = World::new(3);
    world.infrastructure["status"] = json!({"ready": true});
    world.rolling(&json!(1));
    (0..3).for_each(|number| world.outdate(number));
    world.report_unhealthy(0);
    world.pool["spec"]["replicas"] = json!(1);
    assert!(world.plan().steps.is_empty());
    assert_eq!(world.waits(), ["ProviderSupport"]);
}

#[test]
fn a_machine_that_a_health_check_reports_is_deleted_and_the_next_one_waits_for_the_replacement() {
    let mut world = World::new(4);
    world.report_unhealthy(1);
    world.report_unhealthy(2);
    assert_eq!(world.deleted().as_deref(), Some("p-1"));
    world.delete(1);
    assert_eq!(world.deleted(), None);
    assert!(world.waits().contains(&"RemediationDeferred"));
    // The Machine is gone, and the provider has not created an instance yet.
    for objects in [&mut world.machines, &mut world.instances, &mut world.nodes] {
        objects.remove(1);
    }
    assert_eq!(world.deleted(), None);
    world.add(4);
    assert_eq!(world.deleted().as_deref(), Some("p-2"));
}

#[test]
fn the_limit_of_remediations_is_that_of_the_annotation() {
    let mut world = World::new(4);
    world.annotate("capstan.dev/remediation", &json!({"maxInFlight": "50%"}));
    (0..3).for_each(|number| world.report_unhealthy(number));
    world.delete(0);
    assert_eq!(world.deleted().as_deref(), Some("p-1"));
    world.delete(1);
    assert_eq!(world.deleted(), None);
    world.annotate("capstan.dev/remediation", &json!({"maxInFlight": 0}));
    assert_eq!(world.deleted(), None);
}

#[test]
fn v193_a_machine_whose_instance_is_gone_is_deleted_and_one_that_waits_for_its_instance_is_not() {
    let mut world = World::new(3);
    world.instances.remove(1);
    assert_eq!(world.deleted().as_deref(), Some("p-1"));
    // A Machine that is not the pool's own waits for its instance.
    world.machines[1]["spec"]["providerID"] = json!("");
    let owners = std::mem::replace(&mut world.machines[1]["metadata"]["ownerReferences"], json!([]));
    assert_eq!(world.deleted(), None);
    // That of a pool was created after its infrastructure machine.
    world.machines[1]["metadata"]["ownerReferences"] = owners;
    assert_eq!(world.deleted().as_deref(), Some("p-1"));
    // Files without any infrastructure machine may be incomplete.
    world.machines[1]["spec"]["providerID"] = json!("dev:///1");
    world.instances.clear();
    assert_eq!(world.deleted(), None);
}

#[test]
fn the_machines_of_a_scale_in_are_marked_in_one_order_and_deleted_by_the_provider() {
    let mut world = World::new(5);
    world.pool["spec"]["replicas"] = json!(2);
    world.outdate(4);
    world.report_unhealthy(3);
    world.annotate("capstan.dev/remediation", &json!({"maxInFlight": 0}));
    // A user marked a machine that is healthy and up to date: it goes before all others.
    world.machines[2]["metadata"]["annotations"]["cluster.x-k8s.io/delete-machine"] = json!("");
    let marked = |world: &World| -> Vec<String> {
        let plan = world.plan();
        plan.steps.iter().map(|step| step.subject.name.clone()).collect()
    };
    assert_eq!(marked(&world), ["p-4", "p-3"]);
    assert_eq!(world.deleted(), None);
    assert!(world.waits().contains(&"Provider"));
    for step in &world.plan().steps {
        let Action::Patch(patch) = &step.action else {
            panic!("{step:?}")
        };
        let machine = world
            .machines
            .iter_mut()
            .find(|machine| machine["metadata"]["name"] == step.subject.name);
        json_patch::merge(machine.unwrap(), patch);
    }
    assert!(marked(&world).is_empty());
    // The user wants the machines after all. Capstan removes its own marks only.
    world.pool["spec"]["replicas"] = json!(5);
    assert_eq!(marked(&world), ["p-4", "p-3"]);
}

#[test]
fn something_outside_that_sets_the_number_of_instances_is_respected() {
    let mut world = World::new(3);
    world.pool["spec"]["replicas"] = json!(1);
    world.pool["metadata"]["annotations"]["cluster.x-k8s.io/replicas-managed-by"] = json!("external-autoscaler");
    assert!(world.plan().steps.is_empty());
    world.pool["metadata"]["annotations"]["cluster.x-k8s.io/replicas-managed-by"] = json!("false");
    assert_eq!(world.plan().steps.len(), 2);
}

#[test]
fn a_rolling_update_deletes_one_outdated_machine_while_enough_are_available() {
    let mut world = World::new(3);
    (0..3).for_each(|number| world.outdate(number));
    assert_eq!(
        world.deleted(),
        None,
        "without a strategy, the provider replaces machines"
    );
    world.rolling(&json!(1));
    assert_eq!(world.deleted().as_deref(), Some("p-0"));
    world.delete(0);
    assert_eq!(world.deleted(), None);
    assert!(world.waits().contains(&"MaxUnavailable"));
    // An unavailable machine goes first, because its deletion costs no availability.
    let mut world = World::new(3);
    (0..3).for_each(|number| world.outdate(number));
    world.rolling(&json!(1));
    world.break_node(2);
    assert_eq!(world.deleted().as_deref(), Some("p-2"));
}

#[test]
fn without_unavailable_machines_the_provider_must_surge() {
    let mut world = World::new(3);
    world.rolling(&json!(0));
    world.outdate(0);
    assert_eq!(world.deleted(), None);
    assert!(world.waits().contains(&"MaxUnavailable"));
    // The provider surged. It deletes the outdated machine, which is marked.
    world.add(3);
    assert_eq!(world.deleted(), None);
    assert_eq!(world.plan().steps[0].subject.name, "p-0");
}

#[test]
fn on_delete_leaves_outdated_machines_to_the_user() {
    let mut world = World::new(2);
    world.outdate(0);
    world.annotate("capstan.dev/rollout", &json!({"strategy": {"type": "OnDelete"}}));
    assert_eq!((world.deleted(), world.waits()), (None, vec!["OnDelete"]));
}

/// The list of a report contains what Capstan deletes, and not what the provider or a user does.
#[test]
fn w143_a_plan_lists_only_the_deletions_that_the_strategy_makes() {
    let mut world = World::new(3);
    (0..3).for_each(|machine| world.outdate(machine));
    let listed = |world: &World| {
        let report = crate::pool::report::report(&world.state(), Mode::Extend, &world.plan());
        let rollout = report["rollout"].as_array().unwrap().iter();
        let machines = rollout.map(|planned| planned["machine"].as_str().unwrap().to_owned());
        machines.collect::<Vec<String>>()
    };
    assert!(listed(&world).is_empty(), "the provider decides");
    for strategy in ["OnDelete", "Recreate"] {
        world.annotate("capstan.dev/rollout", &json!({"strategy": {"type": strategy}}));
        assert!(listed(&world).is_empty(), "{strategy}");
    }
    world.rolling(&json!(0));
    assert!(listed(&world).is_empty(), "the provider must surge");
    world.rolling(&json!(1));
    assert_eq!(listed(&world).len(), 3);
    // The provider deletes the surplus, which is marked.
    let first = listed(&world)[0].clone();
    world.pool["spec"]["replicas"] = json!(2);
    assert_eq!(listed(&world).len(), 2);
    assert!(!listed(&world).contains(&first));
    world.pool["metadata"]["annotations"]["cluster.x-k8s.io/paused"] = json!("");
    assert!(listed(&world).is_empty(), "paused");
}

#[test]
fn a_strategy_that_cannot_be_read_stops_deletions_and_is_reported() {
    let mut world = World::new(2);
    world.outdate(0);
    world.report_unhealthy(1);
    world.annotate("capstan.dev/rollout", &json!({"strategy": {"type": "Recreate"}}));
    assert_eq!(world.deleted(), None);
    assert_eq!(world.plan().degraded[0].reason, "InvalidStrategy");
}

#[test]
fn a_paused_pool_and_one_that_is_being_deleted_are_left_alone() {
    for pointer in [
        "/metadata/annotations/cluster.x-k8s.io~1paused",
        "/metadata/deletionTimestamp",
    ] {
        let mut world = World::new(2);
        world.report_unhealthy(0);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        world.pool.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = json!("2026-06-01T11:00:00Z");
        let plan = world.plan();
        let said = plan.notes.len() + plan.waits.len();
        assert_eq!((plan.steps.len(), said), (0, 1), "{pointer}");
    }
}

#[test]
fn a_node_that_became_ready_just_now_is_waited_for_until_min_ready_seconds_passed() {
    let mut world = World::new(2);
    world.pool["spec"]["template"]["spec"]["minReadySeconds"] = json!(60);
    for machine in &mut world.machines {
        machine["spec"]["minReadySeconds"] = json!(60);
    }
    world.nodes[0]["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-06-01T11:59:30Z");
    let plan = world.plan();
    assert_eq!(plan.reconcile_at, Some("2026-06-01T12:00:30Z".parse().unwrap()));
    assert_eq!(plan.waits[0].reason, WaitReason::MachineReady);
}

#[test]
fn a_machine_that_another_object_controls_is_reported_and_not_counted() {
    let mut world = World::new(2);
    world.machines[0]["metadata"]["ownerReferences"][0]["name"] = json!("other");
    world.report_unhealthy(0);
    let state = world.state();
    assert_eq!(state.foreign, ["p-0"]);
    assert_eq!(world.deleted(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever the machines are like, a rolling update never deletes an available machine if this
    /// makes more than `maxUnavailable` unavailable, and a paused limit of remediations holds.
    #[test]
    fn a_plan_respects_max_unavailable_and_the_limit_of_remediations(
        replicas in 0_usize..6, machines in proptest::collection::vec(any::<[bool; 5]>(), 0..7),
        max_unavailable in 0_usize..4, max_in_flight in 0_usize..3,
    ) {
        let mut world = World::new(machines.len());
        world.pool["spec"]["replicas"] = json!(replicas);
        world.rolling(&json!(max_unavailable));
        world.annotate("capstan.dev/remediation", &json!({"maxInFlight": max_in_flight}));
        for (number, [outdated, broken, unhealthy, deleting, marked]) in machines.iter().enumerate() {
            if *outdated { world.outdate(number); }
            if *broken { world.break_node(number); }
            if *unhealthy { world.report_unhealthy(number); }
            if *deleting { world.delete(number); }
            if *marked {
                world.machines[number]["metadata"]["annotations"]["cluster.x-k8s.io/delete-machine"] = json!("");
            }
        }
        let Some(name) = world.deleted() else { return Ok(()) };
        let number: usize = name.trim_start_matches("p-").parse().unwrap();
        let [outdated, broken, unhealthy, deleting, _] = machines[number];
        prop_assert!(!deleting, "{name} is being deleted already");
        let left = |keep: &dyn Fn(&[bool; 5]) -> bool| {
            machines.iter().enumerate().filter(|(place, one)| *place != number && !one[3] && keep(one)).count()
        };
        let available = left(&|one| !one[1]);
        let is_remediation = world.plan().steps.iter().any(|step| step.because.starts_with("a health check"));
        if is_remediation {
            prop_assert!(unhealthy);
            let in_flight = machines.iter().filter(|one| one[3] && one[2]).count();
            prop_assert!(in_flight < max_in_flight);
        } else {
            prop_assert!(outdated);
            prop_assert!(broken || replicas.saturating_sub(available) <= max_unavailable);
            // The provider deletes while there is a surplus.
            prop_assert!(left(&|_| true) < replicas);
        }
    }
}

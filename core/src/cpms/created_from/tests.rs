use serde_json::json;

use crate::cpms::action::Action;
use crate::cpms::domains::Platform;
use crate::cpms::plan::Plan;
use crate::cpms::simulation::{NEW, OLD, World};

/// Follows the plan until nothing more happens. Returns the names of the machines that were
/// created, and the last plan.
fn run(world: &mut World) -> (Vec<String>, Plan) {
    let mut created = Vec::new();
    for _ in 0..200 {
        let plan = world.plan();
        for step in &plan.steps {
            if matches!(step.action, Action::Create { .. }) {
                created.push(step.machine().unwrap().to_owned());
            }
            world.apply(step);
        }
        let Some(event) = world.events().into_iter().next() else {
            if plan.steps.is_empty() && plan.reconcile_at.is_none() {
                return (created, plan);
            }
            world.pass(60);
            continue;
        };
        world.happen(&event);
        world.pass(60);
    }
    panic!("the rollout does not end: {created:?}");
}

fn reasons(plan: &Plan) -> Vec<&str> {
    plan.degraded.iter().map(|degraded| degraded.reason).collect()
}

#[test]
fn s1_a_field_that_a_webhook_drops_makes_the_set_degraded_and_deletes_nothing() {
    let mut world = World::new("a b c", NEW);
    world.template()["spec"]["providerSpec"]["value"]["keyName"] = json!("admin");
    world.webhook = |value| drop(value.as_object_mut().unwrap().remove("keyName"));
    let (created, end) = run(&mut world);
    assert_eq!(created.len(), 1, "{created:?}");
    assert_eq!(reasons(&end), ["TemplateNotStored"]);
    assert!(
        end.degraded[0].message.contains("keyName: nothing → \"admin\""),
        "{end:?}"
    );
    assert_eq!(world.observed.machines.len(), 4);
    // The set continues after the template is corrected, and each other machine is replaced once.
    world.template()["spec"]["providerSpec"]["value"]
        .as_object_mut()
        .unwrap()
        .remove("keyName");
    let (created, end) = run(&mut world);
    assert_eq!((created.len(), reasons(&end)), (2, Vec::new()));
    assert!(end.waits.is_empty(), "{end:?}");
}

#[test]
fn s1_an_unknown_field_that_a_webhook_drops_is_named() {
    let mut world = World::new("a b c", NEW);
    world.template()["spec"]["providerSpec"]["value"]["metadataServiceOptions"] = json!({"httpTokens": "Required"});
    world.webhook = |value| value["metadataServiceOptions"] = json!({});
    let (created, end) = run(&mut world);
    assert_eq!((created.len(), reasons(&end)), (1, vec!["TemplateNotStored"]));
    assert!(
        end.degraded[0].message.contains("metadataServiceOptions.httpTokens")
            || end.degraded[0].message.contains("metadataServiceOptions: nothing"),
        "{end:?}"
    );
}

#[test]
fn s1_a_field_that_a_webhook_adds_replaces_each_machine_once() {
    let mut world = World::new("a b c", NEW);
    world.webhook = |value| value["tags"] = json!([{"name": "cost-center", "value": "7"}]);
    let (created, end) = run(&mut world);
    assert_eq!((created.len(), reasons(&end)), (3, Vec::new()));
    assert!(end.waits.is_empty(), "{end:?}");
    assert!(world.state().each_machine().all(|machine| machine.is_current()));
}

#[test]
fn s1_a_zone_that_a_webhook_changes_makes_the_set_degraded_and_deletes_nothing() {
    let mut world = World::new("a b c", NEW);
    world.webhook = |value| value["placement"]["availabilityZone"] = json!("us-east-1d");
    let (created, end) = run(&mut world);
    assert_eq!((created.len(), reasons(&end)), (1, vec!["TemplateNotStored"]));
    assert!(end.degraded[0].message.contains("failureDomain"), "{end:?}");
}

#[test]
fn a_changed_template_and_a_copy_under_another_name_are_compared_by_their_fields() {
    let mut world = World::new("a b c", NEW);
    world.webhook = |value| value["tags"] = json!([{"name": "cost-center", "value": "7"}]);
    run(&mut world);
    let original = world.observed.machines[0].metadata.name().to_owned();
    let copy = format!("copy-{}", world.state().of_index(0).next().unwrap().index);
    world.machine(&original).metadata.name = Some(copy.clone());
    let state = world.state();
    let machine = state.each_machine().find(|machine| machine.name == copy).unwrap();
    assert_eq!(machine.changes[0].field, "tags");
    world.want(OLD);
    assert!(world.state().each_machine().all(|machine| !machine.is_current()));
}

#[test]
fn a_failure_domain_with_another_definition_outdates_its_machines() {
    let mut world = World::on(Some(Platform::VSphere), "a b c", NEW);
    run(&mut world);
    let mut infrastructure = json!(**world.observed.infrastructure.as_ref().unwrap());
    infrastructure["spec"]["platformSpec"]["vsphere"]["failureDomains"][0]["topology"]["datastore"] =
        json!("/dc/datastore/z");
    world.observed.infrastructure = Some(std::sync::Arc::new(serde_json::from_value(infrastructure).unwrap()));
    let state = world.state();
    let outdated = state.each_machine().filter(|machine| !machine.is_current());
    assert_eq!(outdated.count(), 1);
}

/// Two failure domains of one workspace.
fn share_a_workspace(world: &mut World, networks: [&str; 2]) {
    let mut infrastructure = json!(**world.observed.infrastructure.as_ref().unwrap());
    let domains = &mut infrastructure["spec"]["platformSpec"]["vsphere"]["failureDomains"];
    domains[1]["topology"] = domains[0]["topology"].clone();
    for (position, network) in networks.into_iter().enumerate() {
        domains[position]["topology"]["networks"] = json!([network]);
        domains[position]["topology"]["template"] = json!("rhcos");
    }
    world.observed.infrastructure = Some(std::sync::Arc::new(serde_json::from_value(infrastructure).unwrap()));
}

#[test]
fn s2_failure_domains_that_differ_in_networks_only_replace_each_machine_once() {
    for networks in [["x", "y"], ["x", "x"]] {
        let mut world = World::on(Some(Platform::VSphere), "a b c", NEW);
        share_a_workspace(&mut world, networks);
        let (created, end) = run(&mut world);
        assert!(created.len() <= 4, "{networks:?}: {created:?}");
        assert_eq!(reasons(&end), [""; 0]);
        let (again, _) = run(&mut world);
        assert_eq!(again, [""; 0]);
    }
}

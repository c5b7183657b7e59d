use serde_json::{Value, json};

use crate::cpms::action::{Action, Step};
use crate::cpms::simulation::{OLD, World};

const M0: &str = "ocp-x7k2p-master-0";

fn settle(world: &mut World) -> Vec<Step> {
    let steps = world.plan().steps;
    for step in &steps {
        world.apply(step);
    }
    assert_eq!(world.plan().steps, [], "written once");
    steps
}

fn spec_of(world: &mut World) -> Value {
    serde_json::to_value(&world.machine(M0).spec).unwrap()
}

#[test]
fn b16_taints_and_metadata_of_the_node_are_applied_in_place() {
    let mut world = World::new("a b c", OLD);
    world.machine(M0).spec.taints = serde_json::from_value(json!([
        {"key": "mine", "effect": "NoExecute"}, {"key": "dedicated", "value": "old", "effect": "NoSchedule"}]))
    .unwrap();
    world.template()["spec"]["taints"] = json!([{"key": "dedicated", "value": "infra", "effect": "NoSchedule"}]);
    world.template()["spec"]["metadata"] = json!({"labels": {"rack": "7"}, "annotations": {"note": "n"}});
    let steps = settle(&mut world);
    assert_eq!(steps.len(), 3);
    assert!(
        steps.iter().all(|step| matches!(step.action, Action::Patch { .. })),
        "{steps:?}"
    );
    assert!(
        steps[0]
            .because
            .contains("taint dedicated:NoSchedule differs from the template"),
        "{}",
        steps[0].because
    );
    let spec = spec_of(&mut world);
    assert_eq!(
        spec["taints"],
        json!([{"key": "mine", "effect": "NoExecute"},
               {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}])
    );
    assert_eq!(
        spec["metadata"],
        json!({"labels": {"rack": "7"}, "annotations": {"note": "n"}})
    );
    assert!(
        spec["lifecycleHooks"]["preDrain"].is_array(),
        "hooks of other components stay"
    );
}

#[test]
fn only_fields_from_the_template_are_removed_with_it() {
    let mut world = World::new("a b c", OLD);
    let mine = |world: &mut World| {
        let meta = &mut world.machine(M0).metadata;
        meta.labels.insert("team".to_owned(), "infra".to_owned());
        meta.annotations.insert("mine".to_owned(), "stays".to_owned());
    };
    mine(&mut world);
    let bare = world.machine(M0).spec.clone();
    // Machine 0 already has the label, so that it is not copied from the template.
    world.template()["metadata"]["labels"]["team"] = json!("infra");
    world.template()["metadata"]["labels"]["tier"] = json!("control");
    world.template()["metadata"]["annotations"] = json!({"note": "rack 7"});
    world.template()["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    world.template()["spec"]["metadata"] = json!({"labels": {"rack": "7"}, "annotations": {"n": "o"}});
    settle(&mut world);
    let labels = world.machine(M0).metadata.labels.clone();
    assert_eq!((labels["team"].as_str(), labels["tier"].as_str()), ("infra", "control"));
    for field in ["team", "tier"] {
        world.template()["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove(field);
    }
    world.template()["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    for field in ["taints", "metadata"] {
        world.template()["spec"].as_object_mut().unwrap().remove(field);
    }
    let steps = settle(&mut world);
    assert!(
        steps[0]
            .because
            .contains("annotation note was removed from the template"),
        "{}",
        steps[0].because
    );
    let machine = world.machine(M0);
    assert_eq!(
        machine.metadata.labels.get("team").map(String::as_str),
        Some("infra"),
        "the machine had it before"
    );
    assert!(!machine.metadata.labels.contains_key("tier"));
    assert_eq!(
        machine.metadata.annotations.keys().collect::<Vec<_>>(),
        ["mine"],
        "the record is removed too"
    );
    assert!(machine.spec.taints.is_empty());
    assert!(
        machine
            .spec
            .metadata
            .as_ref()
            .is_none_or(|meta| meta.labels.is_empty() && meta.annotations.is_empty())
    );
    assert_eq!(machine.spec.lifecycle_hooks, bare.lifecycle_hooks);
    assert!(
        !world.machine("ocp-x7k2p-master-1").metadata.labels.contains_key("team"),
        "added, and removed"
    );
}

#[test]
fn a_new_machine_records_its_template_fields() {
    let mut world = World::new("a b c", OLD);
    world.delete(M0);
    world.template()["metadata"]["labels"]["team"] = json!("infra");
    let plan = world.plan();
    let Action::Create { machine, .. } = &plan.disruptive().unwrap().action else {
        panic!("{plan:?}");
    };
    assert_eq!(
        machine.metadata.annotations["capstan.dev/from-template"],
        r#"{"labels":["team"]}"#
    );
}

#[test]
fn the_spec_of_a_machine_that_is_authoritative_in_cluster_api_is_not_changed() {
    let mut world = World::new("a b c", OLD);
    world.machine(M0).status.as_mut().unwrap().authority.authoritative_api = Some("ClusterAPI".to_owned());
    world.template()["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    let steps = settle(&mut world);
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(world.machine(M0).spec.taints.is_empty());
}

#[test]
fn annotations_that_capstan_writes_are_not_copied_from_the_template() {
    let mut world = World::new("a b c", OLD);
    world.template()["metadata"]["annotations"] =
        json!({"capstan.dev/index": "7", "capstan.dev/replaces": "x", "capstan.dev/from-template": "{}"});
    assert_eq!(world.plan().steps, []);
    world
        .machine(M0)
        .metadata
        .annotations
        .insert("capstan.dev/from-template".to_owned(), "no record".to_owned());
    assert_eq!(world.plan().steps, []);
}

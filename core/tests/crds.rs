//! The CustomResourceDefinitions: every rule of the schema is in them, every field is described,
//! and only the provider spec keeps unknown fields.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

use capstan_core::admission::rule_files;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::MAX_FAILURE_DOMAINS;
use capstan_core::cel::rules::Enforcer;
use capstan_core::schema::crd::{self, CrdError};
use serde_json::{Map, Value, json};

fn definitions() -> Vec<Value> {
    crd::crds(&rule_files().unwrap()).unwrap()
}

fn walk(path: &str, node: &Value, visit: &mut dyn FnMut(&str, &Map<String, Value>)) {
    let Value::Object(map) = node else { return };
    visit(path, map);
    for (name, child) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        walk(&format!("{path}.{name}"), child, visit);
    }
    for child in [map.get("items"), map.get("additionalProperties")]
        .into_iter()
        .flatten()
    {
        walk(&format!("{path}[]"), child, visit);
    }
}

#[test]
fn every_rule_that_the_schema_enforces_is_in_the_crd_of_each_of_its_kinds() {
    let rules = rule_files().unwrap();
    let mut all = definitions();
    all.extend(crd::control_plane_crds(&rules).unwrap());
    let yaml = serde_json::to_string(&all).unwrap();
    for file in rules {
        for rule in &file.rules {
            let message = serde_json::to_string(&rule.message).unwrap();
            let enforced = rule.enforced_by.contains(&Enforcer::Schema);
            let expected = if enforced { file.kinds().len() } else { 0 };
            assert_eq!(yaml.matches(&message).count(), expected, "{}", rule.id);
        }
    }
}

#[test]
fn n1_every_list_of_failure_domains_has_a_maximum() {
    let crds = definitions();
    let set = crds
        .iter()
        .find(|crd| crd::name(crd).starts_with("controlplanemachinesets"))
        .unwrap();
    let path = "/properties/spec/properties/template/properties/machines_v1beta1_machine_openshift_io/properties\
        /failureDomains/properties";
    let fields = crd::schema(set).unwrap().pointer(path).and_then(Value::as_object);
    let lists: Vec<_> = fields
        .unwrap()
        .iter()
        .filter(|(_, field)| field["type"] == "array")
        .collect();
    assert_eq!(lists.len(), 6);
    for (name, list) in lists {
        assert_eq!(list["maxItems"], MAX_FAILURE_DOMAINS, "{name}");
    }
}

#[test]
fn every_field_is_described_for_kubectl_explain() {
    for definition in definitions() {
        walk(
            crd::name(&definition),
            crd::schema(&definition).unwrap(),
            &mut |path, node| {
                let known = path.ends_with(".metadata") || path.ends_with(".metadata.name") || path.ends_with("[]");
                let open = node.contains_key("x-kubernetes-preserve-unknown-fields");
                assert!(
                    known || open || node.contains_key("description"),
                    "{path} has no description"
                );
            },
        );
    }
}

#[test]
fn only_the_provider_spec_of_a_control_plane_machine_set_keeps_unknown_fields() {
    let definitions = definitions();
    let mut open = Vec::new();
    walk(
        "",
        crd::schema(definitions.first().unwrap()).unwrap(),
        &mut |path, node| {
            let unnamed = node.get("type") == Some(&json!("object"))
                && !node.contains_key("properties")
                && !node.contains_key("additionalProperties");
            if node.contains_key("x-kubernetes-preserve-unknown-fields") || unnamed {
                open.push(path.to_owned());
            }
        },
    );
    assert_eq!(
        open,
        [".spec.template.machines_v1beta1_machine_openshift_io.spec.providerSpec.value"]
    );
}

#[test]
fn the_crds_can_be_applied_offline() {
    let definitions = crd::definitions(&rule_files().unwrap()).unwrap();
    let machine = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": "m"},
        "spec": {"authoritativeAPI": "Both", "somethingElse": {"kept": true}}});
    let definition = definitions
        .iter()
        .find(|definition| definition.describes(&machine))
        .unwrap();
    let outcome = definition.apply(&machine, None);
    assert_eq!(outcome.object.pointer("/spec/somethingElse/kept"), Some(&json!(true)));
    let fields: Vec<&str> = outcome
        .violations
        .iter()
        .map(|violation| violation.path.as_str())
        .collect();
    // As in an API server, an invalid value blocks the evaluation of the rules.
    assert_eq!(fields, ["<nil>", "spec.authoritativeAPI"]);
}

#[test]
fn a_rule_with_a_path_that_does_not_exist_is_an_error() {
    let mut files = rule_files().unwrap();
    files[0].rules[0].path = "spec.nothing".into();
    assert!(matches!(crd::crds(&files), Err(CrdError::NoSuchPath { .. })));
}

#[test]
fn the_yaml_text_contains_the_crds_in_order() {
    let files = rule_files().unwrap();
    let all = crd::crd_yaml(&files).unwrap();
    let parsed: Vec<Value> = serde_saphyr::from_multiple(&all).unwrap();
    assert_eq!(parsed, crd::crds(&files).unwrap());
}

//! Edits of a pool, and what the rules say.

use serde_json::json;

use super::*;
use crate::api::cluster_x_k8s_io::annotation::{AUTOSCALER_MAX_SIZE, AUTOSCALER_MIN_SIZE};
use crate::model::User;

fn pool() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
        "metadata": {"name": "p", "namespace": "ns", "annotations": {}},
        "spec": {"clusterName": "c", "replicas": 3, "template": {"spec": {
            "clusterName": "c", "version": "v1.34.0", "bootstrap": {"dataSecretName": "boot"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachinePool",
                "name": "p"}}}},
    })
}

fn with<T>(object: Option<&Value>, old: Option<&Value>, subresource: &str, judge: impl Fn(&Edit<'_>) -> T) -> T {
    let user = User::default();
    let operation = match (object, old) {
        (None, _) => Operation::Delete,
        (_, None) => Operation::Create,
        _ => Operation::Update,
    };
    judge(&Edit {
        operation,
        subresource,
        namespace: "ns",
        name: "p",
        object,
        old: old.map(|old| old as &dyn Stored),
        propagation: None,
        user: &user,
        dry_run: false,
    })
}

fn rules(object: &Value, old: Option<&Value>) -> Vec<String> {
    let verdict = with(Some(object), old, "", validate);
    verdict.violations.into_iter().map(|violation| violation.rule).collect()
}

fn warnings(object: Option<&Value>, old: &Value, subresource: &str) -> Vec<String> {
    let verdict = with(object, Some(old), subresource, validate);
    assert_eq!(verdict.violations, []);
    verdict.warnings.into_iter().map(|warning| warning.text).collect()
}

fn defaulted(object: &Value, old: Option<&Value>) -> Value {
    let (verdict, patch) = with(Some(object), old, "", mutate);
    assert_eq!(verdict, Verdict::default());
    let mut defaulted = object.clone();
    json_patch::patch(&mut defaulted, &patch.unwrap()).unwrap();
    defaulted
}

#[test]
fn a_pool_gets_its_defaults_once() {
    let mut object = pool();
    object["spec"]["template"]["spec"]["version"] = json!("1.34.0");
    object["spec"].as_object_mut().unwrap().remove("replicas");
    let complete = defaulted(&object, None);
    assert_eq!(complete["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "c");
    assert_eq!(complete["spec"]["replicas"], 1);
    assert_eq!(complete["spec"]["template"]["spec"]["version"], "v1.34.0");
    let deletion = json!({"nodeDeletionTimeoutSeconds": 10});
    assert_eq!(complete["spec"]["template"]["spec"]["deletion"], deletion);
    assert_eq!(defaulted(&complete, None), complete);
    assert!(rules(&complete, None).is_empty());
}

#[test]
fn the_default_of_the_replicas_is_within_the_limits_of_the_autoscaler() {
    let mut object = pool();
    object["spec"].as_object_mut().unwrap().remove("replicas");
    object["metadata"]["annotations"] = json!({AUTOSCALER_MIN_SIZE: "2", AUTOSCALER_MAX_SIZE: "5"});
    for (before, expected) in [(None, 2), (Some(1), 2), (Some(4), 4), (Some(9), 5)] {
        let old = before.map(|replicas| {
            let mut old = pool();
            old["spec"]["replicas"] = json!(replicas);
            old
        });
        assert_eq!(defaulted(&object, old.as_ref())["spec"]["replicas"], expected);
    }
    object["spec"]["replicas"] = json!(7);
    assert_eq!(defaulted(&object, None)["spec"]["replicas"], 7);
    for (least, most) in [("x", "5"), ("2", ""), ("6", "5"), ("-1", "5")] {
        object["metadata"]["annotations"] = json!({AUTOSCALER_MIN_SIZE: least, AUTOSCALER_MAX_SIZE: most});
        assert_eq!(rules(&object, None), ["mp-autoscaler-limits"], "{least} {most}");
    }
    object["spec"].as_object_mut().unwrap().remove("replicas");
    let (verdict, _) = with(Some(&object), None, "", mutate);
    assert_eq!(verdict.violations[0].rule, "mp-autoscaler-limits");
}

#[test]
fn a_pool_that_breaks_a_rule_is_refused() {
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 9] = [
        (|pool| pool["spec"]["replicas"] = json!(-1), "mp-replicas"),
        (
            |pool| pool["spec"]["template"]["spec"]["bootstrap"] = json!({}),
            "mp-bootstrap",
        ),
        (
            |pool| pool["spec"]["template"]["spec"]["clusterName"] = json!("d"),
            "mp-cluster-name",
        ),
        (
            |pool| pool["spec"]["template"]["spec"]["version"] = json!("v1.34"),
            "mp-version",
        ),
        (
            |pool| pool["spec"]["template"]["spec"]["version"] = json!("v01.34.0"),
            "mp-version",
        ),
        (
            |pool| pool["spec"]["template"]["metadata"] = json!({"labels": {"a b": "c"}}),
            "mp-template-metadata",
        ),
        (
            |pool| pool["metadata"]["annotations"] = json!({ROLLOUT: "RollingUpdate"}),
            "mp-strategy",
        ),
        (
            |pool| pool["metadata"]["annotations"] = json!({REMEDIATION: "{\"maxInFlight\": -1}"}),
            "mp-strategy",
        ),
        (|pool| pool["spec"]["replicas"] = json!("3"), "mp-type"),
    ];
    for (change, rule) in changes {
        let mut object = pool();
        change(&mut object);
        assert_eq!(rules(&object, None), [rule]);
    }
    assert!(rules(&pool(), None).is_empty());
}

#[test]
fn a_pool_stays_in_its_cluster_and_one_that_is_being_deleted_can_lose_its_finalizers() {
    let (mut object, old) = (pool(), pool());
    object["spec"]["clusterName"] = json!("d");
    object["spec"]["template"]["spec"]["clusterName"] = json!("d");
    assert_eq!(rules(&object, Some(&old)), ["mp-cluster-immutable"]);
    // A rule of today does not keep an older object from going.
    let mut old = pool();
    old["spec"]["template"]["spec"]["bootstrap"] = json!({});
    old["metadata"]["deletionTimestamp"] = json!("2026-06-01T12:00:00Z");
    assert!(rules(&old.clone(), Some(&old)).is_empty());
    // What was stored unreadable may stay, so that other fields can be changed.
    let mut old = pool();
    old["metadata"]["annotations"] = json!({ROLLOUT: "RollingUpdate"});
    assert!(rules(&old.clone(), Some(&old)).is_empty());
}

#[test]
fn v102_a_pool_that_was_stored_invalid_can_be_labelled_and_lose_its_finalizers() {
    let mut old = pool();
    old["spec"]["template"]["spec"]["bootstrap"] = json!({});
    old["spec"]["template"]["spec"]["clusterName"] = json!("d");
    old["spec"]["template"]["spec"]["version"] = json!("notsemver");
    old["spec"]["template"]["metadata"] = json!({"labels": {"a b": "c"}});
    old["metadata"]["annotations"] =
        json!({ROLLOUT: "RollingUpdate", AUTOSCALER_MIN_SIZE: "x", AUTOSCALER_MAX_SIZE: "5"});
    old["metadata"]["finalizers"] = json!(["theirs"]);
    let changes: [fn(&mut Value); 3] = [
        |pool| pool["metadata"]["labels"] = json!({"team": "blue"}),
        |pool| pool["metadata"]["annotations"]["note"] = json!("x"),
        |pool| pool["metadata"]["finalizers"] = json!([]),
    ];
    for change in changes {
        let mut object = old.clone();
        change(&mut object);
        let complete = defaulted(&object, Some(&old));
        // A version that cannot be read stays as it was written.
        assert_eq!(complete["spec"]["template"]["spec"]["version"], "notsemver");
        assert_eq!(rules(&complete, Some(&old)), [""; 0]);
    }
    // Another invalid value is refused.
    let mut object = old.clone();
    object["spec"]["template"]["spec"]["version"] = json!("latest");
    assert_eq!(rules(&object, Some(&old)), ["mp-version"]);
    let verdict = with(Some(&object), Some(&old), "", validate);
    assert!(
        format!("{:?}", verdict.violations).contains("\\\"latest"),
        "{:?}",
        verdict.violations
    );
    // A new pool has no stored values.
    assert_eq!(rules(&old, None).len(), 6);
    // The default of the replicas does not ask for limits that were stored unreadable.
    let mut object = old.clone();
    object["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(defaulted(&object, Some(&old))["spec"]["replicas"], 3);
}

#[test]
fn an_edit_says_what_it_does_to_the_machines() {
    let old = pool();
    let mut fewer = pool();
    fewer["spec"]["replicas"] = json!(1);
    let scaled = warnings(Some(&fewer), &old, "");
    assert!(
        scaled[0].starts_with("this update removes 2 of 3 machine(s)"),
        "{scaled:?}"
    );
    let scale = json!({"spec": {"replicas": 1}});
    assert_eq!(warnings(Some(&scale), &old, "scale"), scaled);

    let mut newer = pool();
    newer["spec"]["template"]["spec"]["version"] = json!("v1.35.0");
    let strategy = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}});
    newer["metadata"]["annotations"] = json!({ROLLOUT: strategy.to_string()});
    let rolled = warnings(Some(&newer), &old, "");
    let expected = "this update replaces all machines, for v1.35.0: at most 1 of 3 may be unavailable";
    assert_eq!(rolled, [expected]);

    let deleted = warnings(None, &old, "");
    assert!(deleted[0].contains("its 3 machine(s)"), "{deleted:?}");
    assert!(warnings(Some(&old), &old, "").is_empty());
}

#[test]
fn semantic_versions_are_recognised() {
    for valid in ["1.2.3", "1.2.3-rc.1", "1.2.3+build.01", "1.2.3-a-b.0+x"] {
        assert!(is_semantic(valid), "{valid}");
    }
    for invalid in ["", "1.2", "1.2.3.4", "1.2.x", "1.2.3-", "1.2.3-01", "1.2.3+"] {
        assert!(!is_semantic(invalid), "{invalid}");
    }
}

#[test]
fn w79_a_negative_number_of_replicas_is_refused() {
    let mut object = pool();
    object["spec"]["replicas"] = json!(-1);
    assert_eq!(rules(&object, None), ["mp-replicas"]);
    // What is stored may stay.
    assert!(rules(&object, Some(&object.clone())).is_empty());
}

#[test]
fn w161_a_strategy_that_replaces_nothing_has_a_warning() {
    let old = pool();
    let with_strategy = |unavailable: &Value, surge: &Value| {
        let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
        let strategy = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
        let mut new = pool();
        new["metadata"]["annotations"][ROLLOUT] = json!(strategy.to_string());
        new
    };
    let nothing = with_strategy(&json!("10%"), &json!(0));
    let expected = [
        "maxUnavailable and maxSurge of the annotation capstan.dev/rollout are 0, so that nothing replaces an \
                     outdated machine: increase one",
    ];
    assert_eq!(warnings(Some(&nothing), &old, ""), expected);
    let created = with(Some(&nothing), None, "", validate);
    assert_eq!(created.warnings.len(), 1);
    // The stored strategy stays, and an upgrade says what it does.
    assert!(warnings(Some(&nothing), &nothing, "").is_empty());
    let mut newer = nothing.clone();
    newer["spec"]["template"]["spec"]["version"] = json!("v1.35.0");
    let rolled = warnings(Some(&newer), &nothing, "");
    assert!(
        rolled[0].ends_with("none, because maxUnavailable and maxSurge are 0"),
        "{rolled:?}"
    );
    assert!(warnings(Some(&with_strategy(&json!(1), &json!(0))), &old, "").is_empty());
    assert!(warnings(Some(&with_strategy(&json!(0), &json!(1))), &old, "").is_empty());
}

#[test]
fn w162_refusals_of_strategies_name_no_types_of_rust() {
    let refusal = |annotation: &str, value: &Value| {
        let mut new = pool();
        new["metadata"]["annotations"][annotation] = json!(value.to_string());
        let verdict = with(Some(&new), None, "", validate);
        format!("{:?}", verdict.violations)
    };
    let rolling = |value: Value| json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": value}});
    let cases = [
        (ROLLOUT, json!(1), "expected an object with the field strategy"),
        (
            ROLLOUT,
            json!({"strategy": "OnDelete"}),
            "expected an object with the field type",
        ),
        (
            ROLLOUT,
            rolling(json!(1)),
            "expected an object with the fields maxUnavailable and maxSurge",
        ),
        (
            ROLLOUT,
            rolling(json!({"maxUnavailable": "200%"})),
            "a percentage of at most 100%",
        ),
        (REMEDIATION, json!("1"), "expected an object with the field maxInFlight"),
    ];
    for (annotation, value, expected) in cases {
        let refusal = refusal(annotation, &value);
        assert!(refusal.contains(expected), "{refusal}");
    }
}

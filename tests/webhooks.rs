//! Checks that the registered webhooks are served, and that the rule files describe their rules.
//! The tests need no API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use capstan::manifests::{policy_files, webhook_files};
use capstan_core::admission::{
    Admission, Feature, Options, Phase, Route, routes, routes_of, rule_files, rule_files_of,
};
use capstan_core::cel::Program;
use capstan_core::cel::rules::{Case, Enforcer, Rule, Scope};
use capstan_core::schema::crd::{control_plane_crd_files, crd_files, kubeadm_crd_files};
use serde_json::{Value, json};

fn admission() -> Admission {
    Admission::new(Options::default()).unwrap()
}

/// The configurations by kind.
fn configurations() -> Vec<Value> {
    Feature::ALL.into_iter().flat_map(configurations_of).collect()
}

/// The configurations of a feature.
fn configurations_of(feature: Feature) -> Vec<Value> {
    webhook_files(feature)
        .iter()
        .map(|(name, text)| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}")))
        .collect()
}

/// Each webhook, with the phase of its configuration.
fn webhooks() -> Vec<(Phase, Value)> {
    let mut webhooks = Vec::new();
    for configuration in configurations() {
        let phase = match configuration["kind"].as_str().unwrap() {
            "MutatingWebhookConfiguration" => Phase::Mutate,
            "ValidatingWebhookConfiguration" => Phase::Validate,
            kind => panic!("{kind} is not a webhook configuration"),
        };
        for webhook in configuration["webhooks"].as_array().unwrap() {
            webhooks.push((phase, webhook.clone()));
        }
    }
    webhooks
}

fn words(list: &Value) -> BTreeSet<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect()
}

#[test]
fn every_route_is_registered_and_every_registration_is_served() {
    let served: BTreeSet<(String, bool)> = routes()
        .iter()
        .map(|route| (route.path.to_owned(), route.phase == Phase::Mutate))
        .collect();
    let registered: BTreeSet<(String, bool)> = webhooks()
        .iter()
        .map(|(phase, webhook)| {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
            (path.to_owned(), *phase == Phase::Mutate)
        })
        .collect();
    assert_eq!(registered, served);
    assert_eq!(webhooks().len(), routes().len(), "each path must be registered once");
}

/// The feature that is not installed must have no webhook: nothing would answer it.
#[test]
fn a_feature_registers_the_webhooks_that_its_server_serves() {
    for feature in Feature::ALL {
        let served: BTreeSet<String> = routes_of(feature).iter().map(|route| route.path.to_owned()).collect();
        let registered: BTreeSet<String> = configurations_of(feature)
            .iter()
            .flat_map(|configuration| configuration["webhooks"].as_array().unwrap().clone())
            .map(|webhook| {
                let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
                path.to_owned()
            })
            .collect();
        assert_eq!(registered, served, "{feature:?}");
    }
}

/// The resources of a route with its operations: one rule, and one more for those of which only
/// deletions are judged.
fn expected_rules(route: &Route) -> Vec<(BTreeSet<&str>, BTreeSet<&str>)> {
    let operations = match route.phase {
        Phase::Mutate => BTreeSet::from(["CREATE", "UPDATE"]),
        // Every KubeadmControlPlane may be deleted.
        Phase::Validate if route.group == "controlplane.cluster.x-k8s.io" => BTreeSet::from(["CREATE", "UPDATE"]),
        Phase::Validate => BTreeSet::from(["CREATE", "UPDATE", "DELETE"]),
    };
    let whole = route
        .resources
        .iter()
        .filter(|resource| !route.only_deletions.contains(resource));
    let resources = whole.copied().chain(route.subresources.iter().map(String::as_str));
    let mut rules = vec![(resources.collect(), operations)];
    if !route.only_deletions.is_empty() {
        let deleted = route.only_deletions.iter().copied().collect();
        rules.push((deleted, BTreeSet::from(["DELETE"])));
    }
    rules
}

#[test]
fn a_route_receives_only_the_resources_that_it_reviews() {
    for (_, webhook) in webhooks() {
        let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
        let route = routes().iter().find(|route| route.path == path).unwrap();
        let rules = webhook["rules"].as_array().unwrap();
        let registered: Vec<_> = rules
            .iter()
            .map(|rule| {
                assert_eq!(words(&rule["apiGroups"]), BTreeSet::from([route.group]), "{path}");
                assert_eq!(rule["scope"], "Namespaced", "{path}");
                (words(&rule["resources"]), words(&rule["operations"]))
            })
            .collect();
        assert_eq!(registered, expected_rules(route), "{path}");
    }
}

/// A status is written often. No rule reads the status of a set, of a cluster, or of a cluster's
/// infrastructure.
#[test]
fn a_status_is_sent_only_where_a_rule_reads_it() {
    for (_, webhook) in webhooks() {
        for rule in webhook["rules"].as_array().unwrap() {
            for resource in words(&rule["resources"]) {
                let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
                let unread = plural == "controlplanemachinesets"
                    || plural == "controlplanes"
                    || plural.ends_with("clusters")
                    || plural.starts_with("kubeadmcontrolplane")
                    || plural == "machinepools";
                assert!(!(unread && part == "status"), "{resource}");
                assert!(
                    part != "scale"
                        || plural.ends_with("machinesets")
                        || plural.ends_with("controlplanes")
                        || plural == "machinepools",
                    "{resource}"
                );
            }
        }
    }
}

#[test]
fn every_webhook_fails_closed_with_a_short_timeout_for_all_objects() {
    let mut names = BTreeSet::new();
    for (phase, webhook) in webhooks() {
        let name = webhook["name"].as_str().unwrap().to_owned();
        for (field, expected) in [
            ("failurePolicy", json!("Fail")),
            ("timeoutSeconds", json!(5)),
            ("sideEffects", json!("None")),
            ("matchPolicy", json!("Equivalent")),
            ("admissionReviewVersions", json!(["v1"])),
            ("objectSelector", Value::Null),
        ] {
            assert_eq!(webhook[field], expected, "{name}: {field}");
        }
        // No label that a user can set may disable the rules. The API server sets this one.
        let selector = match webhook["rules"][0]["apiGroups"][0].as_str().unwrap() {
            _ if !is_mirrored(&webhook) => Value::Null,
            "machine.openshift.io" => json!({"matchLabels": {"kubernetes.io/metadata.name": "openshift-machine-api"}}),
            _ => json!({"matchLabels": {"kubernetes.io/metadata.name": "openshift-cluster-api"}}),
        };
        assert_eq!(webhook["namespaceSelector"], selector, "{name}");
        let again = if phase == Phase::Mutate {
            json!("IfNeeded")
        } else {
            Value::Null
        };
        assert_eq!(webhook["reinvocationPolicy"], again, "{name}");
        assert!(names.insert(name), "two webhooks have one name");
    }
}

#[test]
fn the_removal_of_finalizers_during_a_deletion_is_exempt_and_every_condition_is_known() {
    let meta = |deleting: bool, finalizers: &[&str]| {
        let mut meta = json!({"name": "cluster"});
        if deleting {
            meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if !finalizers.is_empty() {
            meta["finalizers"] = json!(finalizers);
        }
        meta
    };
    let object = |meta: Value, spec: Value| json!({"metadata": meta, "spec": spec});
    let (a, b) = (json!({"replicas": 3}), json!({"replicas": 5}));
    let deleting = || object(meta(true, &["x", "y"]), a.clone());
    // Operation, object, old object, and whether the webhook reviews the request.
    let cases = [
        ("UPDATE", object(meta(true, &["x"]), a.clone()), deleting(), false),
        ("UPDATE", object(meta(true, &[]), a.clone()), deleting(), false),
        (
            "UPDATE",
            json!({"metadata": meta(true, &[])}),
            json!({"metadata": meta(true, &["x"])}),
            false,
        ),
        ("UPDATE", object(meta(true, &["z"]), a.clone()), deleting(), true),
        ("UPDATE", object(meta(true, &[]), b), deleting(), true),
        ("UPDATE", json!({"metadata": meta(true, &[])}), deleting(), true),
        (
            "UPDATE",
            object(meta(false, &[]), a.clone()),
            object(meta(false, &["x"]), a.clone()),
            true,
        ),
        ("CREATE", object(meta(true, &[]), a.clone()), Value::Null, true),
        ("DELETE", Value::Null, deleting(), true),
    ];
    for (phase, webhook) in webhooks() {
        let conditions = webhook["matchConditions"].as_array().unwrap();
        let names: Vec<&str> = conditions
            .iter()
            .map(|condition| condition["name"].as_str().unwrap())
            .collect();
        let exempt = "not-the-removal-of-finalizers";
        let (controllers, sync) = ("not-by-the-controllers-of-the-api", "not-by-the-sync-controllers");
        let sets = "not-by-the-controllers-of-control-plane-machine-sets";
        let metadata = "not-metadata-written-by-the-controllers";
        let elsewhere = "not-a-deletion-in-another-namespace";
        let instances = "not-the-instances-written-by-the-controllers";
        let expected: &[&str] = match (is_mirrored(&webhook), phase) {
            _ if is_of(&webhook, "kubeadmcontrolplanetemplate") => &[exempt],
            _ if is_of(&webhook, "kubeadmcontrolplane") => &[metadata, exempt],
            _ if is_of(&webhook, "machinepool") => &[metadata, instances, exempt],
            (_, Phase::Mutate) if is_of(&webhook, ".controlplane.") => &[metadata, exempt],
            _ if is_of(&webhook, ".controlplane.") => &[metadata, elsewhere, exempt],
            (true, _) if webhook["name"].as_str().unwrap().contains("machine-api") => {
                &[controllers, sync, sets, exempt]
            }
            (true, _) => &[controllers, sync, exempt],
            (false, Phase::Mutate) => &[metadata, exempt],
            (false, Phase::Validate) => &[metadata, elsewhere, exempt],
        };
        assert_eq!(names, expected);
        let finalizers = conditions.last().unwrap();
        let program = Program::compile(finalizers["expression"].as_str().unwrap()).unwrap();
        for (operation, object, old, asked) in &cases {
            let request = json!({"operation": operation, "namespace": "openshift-machine-api"});
            let some = |value| Some(value).filter(|value: &&Value| !value.is_null());
            let matches = program.evaluate_request(&request, some(object), some(old)).unwrap();
            assert_eq!(matches, *asked, "{operation} {object} {old}");
        }
    }
}

/// W127: without the finalizer of a set, the garbage collector deletes the machines of the set.
#[test]
fn w127_the_removal_of_the_finalizer_that_keeps_the_machines_is_reviewed() {
    let mut reviewed = Vec::new();
    for (_, webhook) in webhooks() {
        let conditions = webhook["matchConditions"].as_array().unwrap();
        let expression = conditions.last().unwrap()["expression"].as_str().unwrap();
        let program = Program::compile(expression).unwrap();
        let object = |finalizers: &[&str]| {
            json!({"metadata": {"name": "cluster", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": finalizers}, "spec": {}})
        };
        for finalizer in [
            "controlplanemachineset.machine.openshift.io",
            "controlplane.machine.openshift.io",
        ] {
            let old = object(&[finalizer, "x"]);
            let matches = |namespace: &str, left: &[&str]| {
                let request = json!({"operation": "UPDATE", "namespace": namespace});
                let object = object(left);
                program.evaluate_request(&request, Some(&object), Some(&old)).unwrap()
            };
            if matches("openshift-machine-api", &["x"]) {
                reviewed.push(format!("{finalizer} {}", webhook["name"].as_str().unwrap()));
            }
            assert!(!matches("openshift-machine-api", &[finalizer]), "{webhook}");
            assert!(!matches("elsewhere", &["x"]), "{webhook}");
        }
    }
    assert_eq!(
        reviewed,
        [
            "controlplanemachineset.machine.openshift.io validate.controlplanemachineset.capstan.dev",
            "controlplane.machine.openshift.io validate.controlplane.capstan.dev"
        ]
    );
}

/// Whether a webhook reviews objects that exist in both APIs.
fn is_mirrored(webhook: &Value) -> bool {
    !is_of(webhook, "controlplane") && !is_of(webhook, "machinepool")
}

/// Whether the name of a webhook contains a kind.
fn is_of(webhook: &Value, kind: &str) -> bool {
    webhook["name"].as_str().unwrap().contains(kind)
}

#[test]
fn the_removal_of_the_sync_finalizer_is_reviewed() {
    let object = |finalizers: &[&str]| json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}, "spec": {}});
    let ours = "sync.machine.openshift.io/finalizer";
    let cases = [
        (object(&["x"]), object(&["x", ours]), true),
        (object(&[ours]), object(&["x", ours]), false),
        (object(&[]), object(&["x"]), false),
    ];
    let changes = [
        ("metadata", "labels"),
        ("metadata", "annotations"),
        ("metadata", "ownerReferences"),
        ("spec", "paused"),
        ("status", "phase"),
    ];
    for (_, webhook) in webhooks().iter().filter(|(_, webhook)| is_mirrored(webhook)) {
        let conditions = webhook["matchConditions"].as_array().unwrap();
        let program = Program::compile(conditions.last().unwrap()["expression"].as_str().unwrap()).unwrap();
        for (object, old, asked) in &cases {
            let request = json!({"operation": "UPDATE"});
            let matches = program.evaluate_request(&request, Some(object), Some(old)).unwrap();
            assert_eq!(matches, *asked, "{object} {old}");
        }
        // Every other change is reviewed, also while the object is being deleted.
        for (part, field) in changes {
            let old = object(&["x"]);
            let mut changed = object(&[]);
            changed[part][field] = json!({"cluster.x-k8s.io/paused": ""});
            for (new, old) in [(&changed, &old), (&old, &changed)] {
                let mut new = new.clone();
                new["metadata"]["finalizers"] = json!([]);
                let request = json!({"operation": "UPDATE"});
                let matches = program.evaluate_request(&request, Some(&new), Some(old)).unwrap();
                assert!(matches, "{part}.{field}");
            }
        }
    }
}

#[test]
fn only_requests_of_the_controllers_of_an_api_are_not_reviewed() {
    let config = Options::default().authority;
    for (_, webhook) in webhooks().iter().filter(|(_, webhook)| is_mirrored(webhook)) {
        let name = webhook["name"].as_str().unwrap();
        let expression = webhook["matchConditions"][0]["expression"].as_str().unwrap();
        let program = Program::compile(expression).unwrap();
        let asked_with = |user: Value| {
            let request = json!({"operation": "UPDATE", "userInfo": user});
            program.evaluate_request(&request, None, None).unwrap()
        };
        let token = json!({"authentication.kubernetes.io/credential-id": ["JTI=1"]});
        let asked = |user: &str| asked_with(json!({"username": user, "extra": token}));
        let own = if name.contains("machine-api") {
            &config.machine_api_controllers
        } else {
            &config.cluster_api_controllers
        };
        for user in own.iter().chain(&config.etcd_operators) {
            assert!(!asked(user), "{name}: {user}");
            // A user who impersonates the controller has no token of it.
            assert!(asked_with(json!({"username": user})), "{name}: {user}");
            assert!(
                asked_with(json!({"username": user, "extra": {"scopes": ["a"]}})),
                "{name}: {user}"
            );
        }
        for user in [
            "kube:admin",
            capstan_core::authority::config::COLLECTORS[0],
            &config.sync_identities[0],
        ] {
            assert!(asked(user), "{name}: {user}");
        }
    }
}

/// The webhooks of an owner of machines, by the kind in their names, and the controllers that write
/// its metadata.
const OWNERS: [(&str, &[&str]); 4] = [
    (
        ".controlplanemachineset.",
        &[
            "system:serviceaccount:openshift-machine-api:capstan-controllers",
            "system:serviceaccount:openshift-machine-api:control-plane-machine-set-operator",
        ],
    ),
    (
        ".controlplane.",
        &["system:serviceaccount:openshift-machine-api:capstan-control-plane"],
    ),
    (
        ".kubeadmcontrolplane.",
        &[
            "system:serviceaccount:openshift-machine-api:capstan-kubeadm-control-plane",
            "system:serviceaccount:capi-kubeadm-control-plane-system:capi-kubeadm-control-plane-manager",
        ],
    ),
    (
        ".machinepool.",
        &[
            "system:serviceaccount:openshift-machine-api:capstan-machine-pool",
            "system:serviceaccount:openshift-cluster-api:capi-manager",
            "system:serviceaccount:capi-system:capi-manager",
        ],
    ),
];

#[test]
fn the_instances_of_a_pool_are_not_reviewed_for_its_controllers_only() {
    let token = json!({"authentication.kubernetes.io/credential-id": ["JTI=1"]});
    let pool = |ids: &[&str], replicas: u8| json!({"spec": {"providerIDList": ids, "replicas": replicas}});
    let without = |replicas: u8| json!({"spec": {"replicas": replicas}});
    let mut larger = pool(&["a"], 3);
    larger["spec"]["clusterName"] = json!("c");
    // Object, old object, and whether the webhook reviews a request of the controllers.
    let cases = [
        (pool(&["a", "b"], 3), pool(&["a"], 3), false),
        (pool(&["a"], 3), without(3), false),
        (without(3), pool(&["a"], 3), false),
        (pool(&["a", "b"], 4), pool(&["a"], 3), true),
        (larger.clone(), pool(&["a"], 3), true),
        (pool(&["a"], 3), larger, true),
    ];
    let controllers = [
        "system:serviceaccount:openshift-machine-api:capstan-machine-pool",
        "system:serviceaccount:openshift-cluster-api:capi-manager",
    ];
    for (_, webhook) in webhooks().iter().filter(|(_, webhook)| is_of(webhook, "machinepool")) {
        let expression = webhook["matchConditions"][1]["expression"].as_str().unwrap();
        let program = Program::compile(expression).unwrap();
        for (object, old, asked) in &cases {
            let asked_with = |user: &str, extra: &Value| {
                let request = json!({"operation": "UPDATE", "userInfo": {"username": user, "extra": extra}});
                program.evaluate_request(&request, Some(object), Some(old)).unwrap()
            };
            for user in controllers {
                assert_eq!(asked_with(user, &token), *asked, "{object} {old}");
                assert!(asked_with(user, &json!({})), "an impersonated user is reviewed");
            }
            assert!(asked_with("admin", &token), "{object} {old}");
        }
    }
}

#[test]
fn metadata_of_an_owner_is_not_reviewed_for_its_controllers_only() {
    for (kind, own) in OWNERS {
        metadata_is_not_reviewed_for(kind, own);
    }
}

fn metadata_is_not_reviewed_for(kind: &str, own: &[&str]) {
    let token = json!({"authentication.kubernetes.io/credential-id": ["JTI=1"]});
    let set = |annotation: &str, replicas: u8| {
        json!({"metadata": {"name": "cluster", "annotations": {"capstan.dev/pending-creations": annotation}},
            "spec": {"replicas": replicas}})
    };
    let bare = |annotation: &str| json!({"metadata": {"name": "cluster", "annotations": {"a": annotation}}});
    // Operation, object, old object, and whether the webhook reviews a request of Capstan's
    // controllers.
    let cases = [
        ("UPDATE", set("[]", 3), set("", 3), false),
        ("UPDATE", bare("b"), bare("c"), false),
        ("UPDATE", set("", 5), set("", 3), true),
        ("UPDATE", bare("b"), set("", 3), true),
        ("UPDATE", set("", 3), bare("b"), true),
        ("CREATE", set("", 3), Value::Null, true),
        ("DELETE", Value::Null, set("", 3), true),
    ];
    let mut judged = 0;
    for (_, webhook) in webhooks().iter().filter(|(_, webhook)| is_of(webhook, kind)) {
        let expression = webhook["matchConditions"][0]["expression"].as_str().unwrap();
        let program = Program::compile(expression).unwrap();
        for (operation, object, old, asked) in &cases {
            let some = |value| Some(value).filter(|value: &&Value| !value.is_null());
            let asked_with = |user: Value| {
                let request = json!({"operation": operation, "userInfo": user});
                program.evaluate_request(&request, some(object), some(old)).unwrap()
            };
            for user in own {
                assert_eq!(
                    asked_with(json!({"username": user, "extra": token})),
                    *asked,
                    "{operation} {object} {old}"
                );
                // A user who impersonates the service account has no token of it.
                assert!(asked_with(json!({"username": user})), "{operation} {object}");
                assert!(asked_with(json!({"username": user, "extra": {"scopes": ["a"]}})));
            }
            for user in [
                "kube:admin",
                "system:serviceaccount:openshift-machine-api:capstan-webhook",
            ] {
                assert!(
                    asked_with(json!({"username": user, "extra": token})),
                    "{user}: {operation} {object}"
                );
            }
            judged += 1;
        }
    }
    assert_eq!(judged, 2 * cases.len(), "both phases");
}

/// Compares generated files with the files of a folder of the repository.
fn assert_generated(folder: &str, expected: Vec<(String, String)>) {
    let expected: BTreeMap<String, String> = expected.into_iter().collect();
    let found: BTreeMap<String, String> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    assert!(
        expected == found,
        "{folder} must agree with its sources; each file begins with the command that generates it"
    );
}

#[test]
fn the_policies_in_the_repository_agree_with_the_rules() {
    for feature in [Feature::Admission, Feature::Mirroring, Feature::ControlPlane] {
        let folder = format!("webhooks/{}/policies", feature.name());
        assert_generated(
            &folder,
            policy_files(feature, &rule_files_of(feature).unwrap()).unwrap(),
        );
    }
    assert!(rule_files_of(Feature::Controllers).unwrap().is_empty());
}

#[test]
fn the_crds_in_the_repository_agree_with_the_types_and_rules() {
    assert_generated("manifests/crds", crd_files(&rule_files().unwrap()).unwrap());
    assert_generated(
        "manifests/crds-kubeadm-control-plane",
        kubeadm_crd_files(&rule_files().unwrap()).unwrap(),
    );
    assert_generated(
        "manifests/crds-control-plane",
        control_plane_crd_files(&rule_files().unwrap()).unwrap(),
    );
}

#[test]
fn a_policy_has_the_rules_of_its_rule_file_and_no_others() {
    for file in admission().files() {
        let (_, text) = policy_files(Feature::Admission, std::slice::from_ref(file))
            .unwrap()
            .remove(0);
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let [policy, binding] = documents.as_slice() else {
            panic!("{text}")
        };
        assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
        assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
        assert_eq!(policy["spec"]["failurePolicy"], "Fail");
        let messages: Vec<&str> = policy["spec"]["validations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|validation| validation["message"].as_str().unwrap())
            .collect();
        let rules = file
            .rules
            .iter()
            .filter(|rule| rule.enforced_by.contains(&Enforcer::Policy));
        let named = |rule: &Rule| format!("[{}] ({})", rule.id, capstan_core::model::rule_link(&rule.id));
        let ids: Vec<String> = rules.map(named).collect();
        assert_eq!(messages.len(), ids.len());
        for (message, id) in messages.iter().zip(&ids) {
            assert!(message.ends_with(id.as_str()), "{message} does not name {id}");
        }
    }
}

/// Whether the expression of a rule holds for one of its cases.
fn holds(rule: &Rule, program: &Program, case: &Case) -> bool {
    let verdict = match rule.scope {
        Scope::Field if program.uses_old_self() && case.old.is_none() => return true,
        Scope::Field => program.evaluate(&case.this, case.old.as_ref()),
        Scope::Request => {
            let part = |name: &str| case.this.get(name);
            program.evaluate_request(part("request").unwrap(), part("object"), part("oldObject"))
        }
    };
    verdict.unwrap_or_else(|error| panic!("{}: {:?}: {error}", rule.id, case.this))
}

#[test]
fn every_rule_allows_and_denies_its_cases() {
    let files = rule_files().unwrap();
    let rules = files
        .iter()
        .flat_map(|file| file.rules.iter().map(move |rule| (file, rule)));
    for (file, rule) in rules {
        let program = Program::compile(&file.expand(&rule.expression)).unwrap();
        assert!(
            !rule.cases.allow.is_empty(),
            "{} must have a case that it allows",
            rule.id
        );
        assert!(
            !rule.cases.deny.is_empty(),
            "{} must have a case that it denies",
            rule.id
        );
        for case in &rule.cases.allow {
            assert!(holds(rule, &program, case), "{} denies {case:?}", rule.id);
        }
        for case in &rule.cases.deny {
            assert!(!holds(rule, &program, case), "{} allows {case:?}", rule.id);
        }
    }
}

#[test]
fn every_rule_has_a_unique_id_and_advice() {
    let admission = admission();
    let mut ids = BTreeSet::new();
    for rule in admission.table() {
        assert!(ids.insert(rule.id.clone()), "{} must be the id of one rule", rule.id);
        assert!(
            rule.id.starts_with(|letter: char| letter.is_ascii_lowercase())
                && rule
                    .id
                    .chars()
                    .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'),
            "{} must be an id",
            rule.id
        );
        assert!(!rule.message.is_empty(), "{} must have a message", rule.id);
        assert!(!rule.operations.is_empty(), "{} judges nothing", rule.id);
        assert!(!rule.enforced_by.is_empty(), "{} must be enforced", rule.id);
    }
    for rule in admission.files().iter().flat_map(|file| &file.rules) {
        assert!(!rule.advice.is_empty(), "{} must have advice", rule.id);
    }
}

/// Whether a webhook reviews a request of a user with a credential.
fn reviews(webhook: &Value, request: &Value) -> bool {
    let expression = webhook["matchConditions"][0]["expression"].as_str().unwrap();
    let program = Program::compile(expression).unwrap();
    program.evaluate_request(request, None, None).unwrap()
}

fn request_of(user: &str, subresource: &str) -> Value {
    let mut request = json!({"operation": "UPDATE", "userInfo": {"username": user,
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]}}});
    if !subresource.is_empty() {
        request["subResource"] = json!(subresource);
    }
    request
}

/// They create and delete Machines while Capstan is unavailable, also objects without a mirror.
#[test]
fn f1_the_controllers_of_openshift_work_while_the_webhook_is_unavailable() {
    let account = |name: &str| format!("system:serviceaccount:{name}");
    let cluster_api = [
        "openshift-cluster-api:capi-manager",
        "openshift-cluster-api:capi-controllers",
        "openshift-cluster-api:capa-controller-manager",
        "openshift-etcd-operator:etcd-operator",
    ];
    let machine_api = [
        "openshift-machine-api:machine-api-controllers",
        "openshift-etcd-operator:etcd-operator",
    ];
    for (_, webhook) in webhooks().iter().filter(|(_, webhook)| is_mirrored(webhook)) {
        let name = webhook["name"].as_str().unwrap();
        let (own, other) = if name.contains("machine-api") {
            (&machine_api[..], &cluster_api[..1])
        } else {
            (&cluster_api[..], &machine_api[..1])
        };
        for user in own {
            assert!(!reviews(webhook, &request_of(&account(user), "")), "{name}: {user}");
            assert!(
                !reviews(webhook, &request_of(&account(user), "status")),
                "{name}: {user}"
            );
        }
        for user in other
            .iter()
            .chain(&["openshift-cluster-api-x:a", "default:capi-manager"])
        {
            assert!(reviews(webhook, &request_of(&account(user), "")), "{name}: {user}");
        }
    }
}

/// A Scale does not show whether its MachineSet is a mirror, so a policy cannot guard it.
#[test]
fn h10_the_webhook_reviews_scale_requests_of_controllers() {
    for (_, webhook) in webhooks().iter().filter(|(_, webhook)| is_mirrored(webhook)) {
        for user in [
            "system:serviceaccount:openshift-machine-api:machine-api-controllers",
            "system:serviceaccount:openshift-cluster-api:capi-manager",
            "system:serviceaccount:openshift-cluster-api:capa-controller-manager",
        ] {
            let name = webhook["name"].as_str().unwrap();
            assert!(reviews(webhook, &request_of(user, "scale")), "{name}: {user}");
        }
    }
}

/// A request in a version that no rule names would not reach the webhook.
#[test]
fn f11_a_kind_is_reviewed_in_every_version_that_is_served() {
    for (phase, webhook) in webhooks() {
        // The API server converts these kinds to the version that the rule names.
        let converted = is_of(&webhook, "kubeadmcontrolplane") || is_of(&webhook, "machinepool");
        let group = &webhook["rules"][0]["apiGroups"][0];
        if phase == Phase::Validate && !converted && group != "machine.openshift.io" {
            assert_eq!(webhook["rules"][0]["apiVersions"], json!(["*"]), "{}", webhook["name"]);
        }
    }
}

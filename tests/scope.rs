//! The scope of the webhooks: which requests the API server sends to them, and who is exempt. The
//! tests evaluate the match conditions, and compare `docs/operations.md` with the manifests. They
//! need no API server; `tests/cluster/outage.rs` sends the requests to one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use capstan::manifests::webhook_files;
use capstan_core::admission::{Feature, Options, Phase};
use capstan_core::cel::Program;
use serde_json::{Value, json};

/// The configurations of a feature.
fn configurations_of(feature: Feature) -> Vec<Value> {
    let files = webhook_files(feature).into_iter();
    files.map(|(_, text)| serde_saphyr::from_str(&text).unwrap()).collect()
}

/// Each webhook, with the phase of its configuration.
fn webhooks() -> Vec<(Phase, Value)> {
    let mut webhooks = Vec::new();
    for configuration in Feature::ALL.into_iter().flat_map(configurations_of) {
        let phase = match configuration["kind"].as_str().unwrap() {
            "MutatingWebhookConfiguration" => Phase::Mutate,
            _ => Phase::Validate,
        };
        let listed = configuration["webhooks"].as_array().unwrap();
        webhooks.extend(listed.iter().map(|webhook| (phase, webhook.clone())));
    }
    webhooks
}

/// Whether a webhook reviews objects that exist in both APIs.
fn is_mirrored(webhook: &Value) -> bool {
    !is_of(webhook, "controlplane") && !is_of(webhook, "machinepool")
}

/// Whether the name of a webhook contains a kind.
fn is_of(webhook: &Value, kind: &str) -> bool {
    webhook["name"].as_str().unwrap().contains(kind)
}

/// Whether a webhook is called: every condition must hold. A condition that cannot be evaluated
/// counts as one that holds, because `failurePolicy: Fail` then refuses the request.
fn is_called(webhook: &Value, request: &Value, object: Option<&Value>, old: Option<&Value>) -> bool {
    let conditions = webhook["matchConditions"].as_array().unwrap();
    conditions.iter().all(|condition| {
        let program = Program::compile(condition["expression"].as_str().unwrap()).unwrap();
        program.evaluate_request(request, object, old).unwrap_or(true)
    })
}

/// A request of a user with a token, or of a user who impersonates it.
fn request_on(user: &str, token: bool, operation: &str, resource: &str) -> Value {
    let extra = if token {
        json!({"authentication.kubernetes.io/credential-id": ["JTI=1"]})
    } else {
        json!({"scopes": ["a"]})
    };
    json!({"operation": operation, "namespace": "openshift-machine-api", "resource": {"resource": resource},
        "userInfo": {"username": user, "extra": extra}})
}

const CAPSTAN: &str = "system:serviceaccount:openshift-machine-api:capstan-controllers";
const SETS_OF_OPENSHIFT: &str = "system:serviceaccount:openshift-machine-api:control-plane-machine-set-operator";
const SYNC_OF_OPENSHIFT: &str = "system:serviceaccount:openshift-cluster-api:capi-controllers";

/// The webhooks of the Machine API's mirrored objects.
fn machine_api_webhooks() -> Vec<Value> {
    let webhooks = webhooks().into_iter().map(|(_, webhook)| webhook);
    let found: Vec<Value> = webhooks
        .filter(|webhook| webhook["name"].as_str().unwrap().contains("machine-api"))
        .collect();
    assert_eq!(found.len(), 2, "both phases");
    found
}

#[test]
fn the_controllers_of_sets_replace_machines_without_a_review_and_nothing_else() {
    let machine = |authority: Value, owner: &str, label: &str| {
        json!({"metadata": {"name": "m", "labels": {"a": label}, "ownerReferences": [{"kind": owner}]},
            "spec": {"authoritativeAPI": authority}})
    };
    let owned = machine(json!("MachineAPI"), "ControlPlaneMachineSet", "");
    let bare = json!({"metadata": {"name": "m", "labels": {"a": ""}}, "spec": {"authoritativeAPI": "MachineAPI"}});
    let of_worker = machine(json!("MachineAPI"), "MachineSet", "");
    let mirror = machine(json!("ClusterAPI"), "ControlPlaneMachineSet", "");
    let empty = machine(json!(""), "ControlPlaneMachineSet", "");
    let labelled = machine(json!("MachineAPI"), "ControlPlaneMachineSet", "x");
    // Operation, object, old object, and whether the webhook is called for OpenShift's operator.
    let cases = [
        ("CREATE", Some(&owned), None, false),
        ("CREATE", Some(&empty), None, false),
        ("CREATE", Some(&bare), None, true),
        ("CREATE", Some(&of_worker), None, true),
        ("CREATE", Some(&mirror), None, true),
        ("DELETE", None, Some(&owned), false),
        ("DELETE", None, Some(&bare), true),
        ("DELETE", None, Some(&of_worker), true),
        ("UPDATE", Some(&owned), Some(&bare), false),
        ("UPDATE", Some(&labelled), Some(&owned), true),
        ("UPDATE", Some(&mirror), Some(&owned), true),
    ];
    for webhook in machine_api_webhooks() {
        for (operation, object, old, called) in cases {
            for (user, token, expected) in [
                (SETS_OF_OPENSHIFT, true, called),
                (SETS_OF_OPENSHIFT, false, true),
                ("kube:admin", true, true),
                (
                    "system:serviceaccount:default:control-plane-machine-set-operator",
                    true,
                    true,
                ),
            ] {
                let request = request_on(user, token, operation, "machines");
                assert_eq!(
                    is_called(&webhook, &request, object, old),
                    expected,
                    "{user} {operation} {object:?} {old:?}"
                );
            }
        }
        for (operation, object, old) in [("CREATE", Some(&owned), None), ("DELETE", None, Some(&owned))] {
            let request = request_on(CAPSTAN, true, operation, "machines");
            assert!(!is_called(&webhook, &request, object, old), "{operation}");
            let request = request_on(SETS_OF_OPENSHIFT, true, operation, "machinesets");
            assert!(
                is_called(&webhook, &request, object, old),
                "{operation} of a MachineSet"
            );
        }
    }
}

#[test]
fn the_controllers_of_control_planes_replace_machines_without_a_review() {
    let account = |name: &str| format!("system:serviceaccount:openshift-machine-api:{name}");
    let (own, kubeadm) = (
        account("capstan-control-plane"),
        account("capstan-kubeadm-control-plane"),
    );
    let machine = |kind: &str| json!({"metadata": {"name": "m", "ownerReferences": [{"kind": kind}]}, "spec": {}});
    let (owned, worker) = (machine("ControlPlane"), machine("MachineSet"));
    for webhook in machine_api_webhooks() {
        for (user, token, object, called) in [
            (&own, true, &owned, false),
            (&own, false, &owned, true),
            (&own, true, &worker, true),
            (&kubeadm, true, &owned, true),
        ] {
            for (operation, new, old) in [("CREATE", Some(object), None), ("DELETE", None, Some(object))] {
                let request = request_on(user, token, operation, "machines");
                let is_called = is_called(&webhook, &request, new, old);
                assert_eq!(is_called, called, "{user} {operation} {object}");
            }
        }
    }
    let all = webhooks();
    let cluster_api = all
        .iter()
        .filter(|(_, webhook)| is_mirrored(webhook) && !webhook["name"].as_str().unwrap().contains("machine-api"));
    let object = machine("KubeadmControlPlane");
    let mut judged = 0;
    for (_, webhook) in cluster_api {
        for (user, token, called) in [(&kubeadm, true, false), (&kubeadm, false, true), (&own, true, true)] {
            let request = request_on(user, token, "CREATE", "machines");
            assert_eq!(is_called(webhook, &request, Some(&object), None), called, "{user}");
        }
        judged += 1;
    }
    assert_eq!(judged, 2, "Cluster API and its infrastructure");
}

#[test]
fn the_controllers_of_machine_pools_write_metadata_without_a_review_and_change_no_spec() {
    let pool = |replicas: u8, label: &str| json!({"metadata": {"name": "p", "labels": {"a": label}}, "spec": {"replicas": replicas}});
    let own = "system:serviceaccount:openshift-machine-api:capstan-machine-pool";
    let core = "system:serviceaccount:capi-system:capi-manager";
    let core_of_openshift = "system:serviceaccount:openshift-cluster-api:capi-manager";
    let all = webhooks();
    let of_pools: Vec<&Value> = all
        .iter()
        .filter(|(_, webhook)| is_of(webhook, "machinepool"))
        .map(|(_, webhook)| webhook)
        .collect();
    assert_eq!(of_pools.len(), 2, "mutation and validation");
    for webhook in of_pools {
        for (user, token, new, called) in [
            (own, true, pool(3, "y"), false),
            (core, true, pool(3, "y"), false),
            (core_of_openshift, true, pool(3, "y"), false),
            (core, false, pool(3, "y"), true),
            (own, true, pool(4, "x"), true),
            ("jane", true, pool(3, "y"), true),
        ] {
            let request = request_on(user, token, "UPDATE", "machinepools");
            let is_called = is_called(webhook, &request, Some(&new), Some(&pool(3, "x")));
            assert_eq!(is_called, called, "{user} {token} {new}");
        }
    }
}

#[test]
fn the_sync_controllers_write_mirrors_without_a_review_and_migrate_nothing() {
    let object = |authority: &str, size: u8| json!({"metadata": {"name": "m"}, "spec": {"authoritativeAPI": authority, "size": size}});
    let (mirror, changed, own) = (
        object("ClusterAPI", 1),
        object("ClusterAPI", 2),
        object("MachineAPI", 1),
    );
    let bare = json!({"metadata": {"name": "m"}});
    // Operation, resource, object, old object, and whether the webhook is called.
    let cases = [
        ("UPDATE", "machinesets", Some(&changed), Some(&mirror), false),
        ("UPDATE", "machinesets", Some(&bare), Some(&bare), false),
        ("UPDATE", "machinesets", Some(&own), Some(&mirror), true),
        ("UPDATE", "machinesets", Some(&bare), Some(&mirror), true),
        ("CREATE", "machinesets", Some(&mirror), None, false),
        ("CREATE", "machinesets", Some(&own), None, true),
        ("CREATE", "machinesets", Some(&bare), None, true),
        // The mutating pass pauses a new MachineHealthCheck.
        ("CREATE", "machinehealthchecks", Some(&mirror), None, true),
        ("DELETE", "machinesets", None, Some(&own), false),
    ];
    for webhook in machine_api_webhooks() {
        for (operation, resource, object, old, called) in cases {
            for user in [CAPSTAN, SYNC_OF_OPENSHIFT] {
                for (token, expected) in [(true, called), (false, true)] {
                    let request = request_on(user, token, operation, resource);
                    let is_called = is_called(&webhook, &request, object, old);
                    assert_eq!(is_called, expected, "{user} {operation} {resource} {object:?} {old:?}");
                }
                let mut scale = request_on(user, true, operation, resource);
                scale["subResource"] = json!("scale");
                assert!(
                    is_called(&webhook, &scale, object, old),
                    "a policy cannot guard a Scale"
                );
            }
        }
    }
}

/// `capstan manifests` replaces this list by the configured identities.
#[test]
fn the_exempt_sync_controllers_are_those_of_the_rules() {
    let identities = Options::default().authority.sync_identities;
    let literals: Vec<String> = identities.iter().map(|identity| format!("'{identity}'")).collect();
    let list = format!("in [{}]", literals.join(", "));
    for (_, webhook) in webhooks().iter().filter(|(_, webhook)| is_mirrored(webhook)) {
        let expression = webhook["matchConditions"][1]["expression"].as_str().unwrap();
        assert!(expression.contains(&list), "{expression}");
    }
}

#[test]
fn only_the_deletion_of_a_set_outside_the_home_namespace_is_exempt() {
    let set = json!({"metadata": {"name": "cluster", "namespace": "default"}, "spec": {"replicas": 3}});
    for (phase, webhook) in webhooks()
        .iter()
        .filter(|(_, webhook)| is_of(webhook, "controlplanemachineset"))
    {
        for (operation, object, old, called) in [
            ("CREATE", Some(&set), None, true),
            ("UPDATE", Some(&set), Some(&set), true),
            ("DELETE", None, Some(&set), *phase == Phase::Mutate),
        ] {
            for (namespace, expected) in [("default", called), ("openshift-machine-api", true)] {
                let mut request = request_on("kube:admin", true, operation, "controlplanemachinesets");
                request["namespace"] = json!(namespace);
                assert_eq!(
                    is_called(webhook, &request, object, old),
                    expected,
                    "{operation} in {namespace}"
                );
            }
        }
    }
}

/// The rows of the first table after a heading of `docs/operations.md`, as cells.
fn documented(heading: &str) -> Vec<Vec<String>> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md")).unwrap();
    let section = page
        .split(&format!("\n{heading}\n"))
        .nth(1)
        .expect("the page must have the heading");
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

/// The requests of a webhook, as the page describes them.
fn described(webhook: &Value) -> String {
    let rules = webhook["rules"].as_array().unwrap().iter().map(|rule| {
        let list = |field: &str| {
            rule[field]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item.as_str().unwrap())
        };
        let operations: Vec<&str> = list("operations").collect();
        let resources: Vec<String> = list("resources").map(|resource| format!("`{resource}`")).collect();
        format!("{} of {}", operations.join(", "), resources.join(", "))
    });
    if webhook["rules"][0]["apiGroups"][0] == "infrastructure.cluster.x-k8s.io" {
        // The list of the providers is compared with the route.
        return "CREATE, UPDATE, DELETE of the machines and machine templates of nine providers, with `/status`; \
                DELETE of their clusters"
            .to_owned();
    }
    rules.collect::<Vec<_>>().join("; ")
}

#[test]
fn operations_md_lists_what_the_api_server_sends() {
    let mut expected = Vec::new();
    for feature in Feature::ALL {
        for configuration in configurations_of(feature) {
            for webhook in configuration["webhooks"].as_array().unwrap() {
                let selector = &webhook["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"];
                let namespace = selector.as_str().map_or("all".to_owned(), |name| format!("`{name}`"));
                expected.push(vec![
                    format!("`{}`", webhook["name"].as_str().unwrap()),
                    format!("`{}`", feature.name()),
                    described(webhook),
                    namespace,
                ]);
            }
        }
    }
    assert_eq!(documented("## API Extensions"), expected);
    assert_eq!(capstan_core::api::infrastructure_cluster_x_k8s_io::PLATFORMS.len(), 9);
}

#[test]
fn operations_md_lists_every_match_condition_and_its_service_accounts() {
    let mut conditions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, webhook) in webhooks() {
        for condition in webhook["matchConditions"].as_array().unwrap() {
            let expression = condition["expression"].as_str().unwrap();
            let accounts = expression.split("'system:serviceaccount:").skip(1).map(|rest| {
                let account = rest.split('\'').next().unwrap();
                let (namespace, name) = account.split_once(':').unwrap();
                format!("`{}`", if name.is_empty() { namespace } else { name })
            });
            let name = format!("`{}`", condition["name"].as_str().unwrap());
            conditions.entry(name).or_default().extend(accounts);
        }
    }
    let rows = documented("### Exempt requests");
    let documented: BTreeSet<&String> = rows.iter().map(|row| &row[0]).collect();
    assert_eq!(documented, conditions.keys().collect());
    for row in &rows {
        for account in &conditions[&row[0]] {
            assert!(row[1].contains(account.as_str()), "{}: {account}", row[0]);
        }
    }
}

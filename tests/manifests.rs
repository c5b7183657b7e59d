//! What is installed fits together: names, labels, ports, and flags that the program knows. No API
//! server is needed; `tests/cluster` asks one whether it takes them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails is what these are for"
)]

use std::path::Path;

use capstan::cli::Cli;
use capstan::manifests::{deployment_files, join, rbac_files, server_flags, webhook_files};
use capstan_core::admission::Feature;
use clap::Parser as _;
use serde_json::{Value, json};

fn documents(files: &[(String, String)]) -> Vec<Value> {
    serde_saphyr::from_multiple(&join(files)).unwrap()
}

fn of_kind(files: &[(String, String)], kind: &str) -> Value {
    let mut found: Vec<Value> = documents(files)
        .into_iter()
        .filter(|document| document["kind"] == kind)
        .collect();
    assert_eq!(found.len(), 1, "{kind}");
    found.remove(0)
}

fn deployment() -> Value {
    of_kind(&deployment_files(Feature::Admission), "Deployment")
}

fn container() -> Value {
    deployment()["spec"]["template"]["spec"]["containers"][0].clone()
}

fn arguments() -> Vec<String> {
    serde_json::from_value(container()["args"].clone()).unwrap()
}

#[test]
fn the_program_knows_the_flags_that_the_deployment_gives_it() {
    let mut arguments = arguments();
    arguments.insert(0, "capstan".to_owned());
    Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_controllers_run_under_the_account_that_their_roles_are_bound_to() {
    let deployment = of_kind(&deployment_files(Feature::Controllers), "Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    let mut arguments: Vec<String> = serde_json::from_value(pod["containers"][0]["args"].clone()).unwrap();
    assert!(arguments.contains(&"--controllers".to_owned()));
    // They judge no edits, and may not read what only an answer needs.
    assert!(arguments.contains(&"--controllers-only".to_owned()));
    let roles = join(&rbac_files(Feature::Controllers));
    assert!(!roles.contains("x-k8s.io") && !roles.contains("machinehealthchecks"));
    arguments.insert(0, "capstan".to_owned());
    Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
    let bindings: Vec<Value> = documents(&rbac_files(Feature::Controllers))
        .into_iter()
        .filter(|document| document["metadata"]["name"] == "capstan-controllers" && document["subjects"].is_array())
        .collect();
    assert_eq!(bindings.len(), 2);
    for binding in bindings {
        assert_eq!(binding["subjects"][0]["name"], pod["serviceAccountName"]);
    }
    assert_eq!(
        deployment["spec"]["selector"]["matchLabels"],
        deployment["spec"]["template"]["metadata"]["labels"]
    );
}

#[test]
fn the_webhooks_name_the_service_which_selects_the_pods_whose_certificate_is_for_it() {
    let service = of_kind(&deployment_files(Feature::Admission), "Service");
    let deployment = deployment();
    let template = &deployment["spec"]["template"];
    assert_eq!(service["spec"]["selector"], template["metadata"]["labels"]);
    assert_eq!(
        deployment["spec"]["selector"]["matchLabels"],
        template["metadata"]["labels"]
    );
    let budget = of_kind(&deployment_files(Feature::Admission), "PodDisruptionBudget");
    assert_eq!(
        budget["spec"]["selector"]["matchLabels"],
        template["metadata"]["labels"]
    );
    let (name, namespace) = (&service["metadata"]["name"], &service["metadata"]["namespace"]);
    let mut arguments = arguments();
    for feature in Feature::ALL {
        arguments.extend(server_flags(feature).iter().map(|flag| (*flag).to_owned()));
        for configuration in documents(&webhook_files(feature)) {
            for webhook in configuration["webhooks"].as_array().unwrap() {
                let target = &webhook["clientConfig"]["service"];
                assert_eq!((&target["name"], &target["namespace"]), (name, namespace));
                assert_eq!(target["port"], service["spec"]["ports"][0]["port"]);
            }
            let configuration = configuration["metadata"]["name"].as_str().unwrap();
            assert!(arguments.contains(&format!("--webhook-configuration={configuration}")));
        }
    }
    let (name, namespace) = (name.as_str().unwrap(), namespace.as_str().unwrap());
    assert!(arguments.contains(&format!("--dns-name={name}.{namespace}.svc")));
    let ports = container()["ports"].clone();
    let named = |name: &str| {
        let ports = ports.as_array().unwrap();
        ports.iter().find(|port| port["name"] == name).unwrap()["containerPort"].clone()
    };
    assert_eq!(
        service["spec"]["ports"][0]["targetPort"], "webhook",
        "the service goes to the port of the webhooks"
    );
    assert!(arguments.contains(&format!("--listen=0.0.0.0:{}", named("webhook"))));
    assert!(arguments.contains(&format!("--health-addr=0.0.0.0:{}", named("health"))));
}

#[test]
fn the_end_of_a_pod_has_time_for_all_its_steps() {
    let seconds = |flag: &str| -> u64 {
        let arguments = arguments();
        let value = arguments
            .iter()
            .find_map(|argument| argument.strip_prefix(flag))
            .unwrap();
        value.strip_suffix('s').unwrap().parse().unwrap()
    };
    let steps = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
        .as_u64()
        .unwrap()
        + seconds("--shutdown-delay=")
        + seconds("--drain-timeout=");
    let grace = deployment()["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].clone();
    assert!(
        grace.as_u64().unwrap() > steps,
        "{steps} seconds of steps, {grace} of grace"
    );
}

#[test]
fn a_rollout_and_a_drain_always_leave_one_server() {
    let deployment = deployment();
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(
        deployment["spec"]["strategy"]["rollingUpdate"],
        json!({"maxUnavailable": 0, "maxSurge": 1})
    );
    let budget = of_kind(&deployment_files(Feature::Admission), "PodDisruptionBudget");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    let container = container();
    assert_eq!(container["resources"].get("limits"), None);
    for probe in ["readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], "health");
    }
}

#[test]
fn the_server_reads_and_writes_only_what_is_its_own() {
    let account = of_kind(&rbac_files(Feature::Admission), "ServiceAccount");
    let pod = deployment()["spec"]["template"]["spec"].clone();
    assert_eq!(pod["serviceAccountName"], account["metadata"]["name"]);
    for binding in ["RoleBinding", "ClusterRoleBinding"] {
        let binding = of_kind(&rbac_files(Feature::Admission), binding);
        assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
        assert_eq!(binding["subjects"][0]["name"], account["metadata"]["name"]);
        assert_eq!(binding["subjects"][0]["namespace"], account["metadata"]["namespace"]);
    }
    let mut writes = Vec::new();
    for role in ["Role", "ClusterRole"] {
        for rule in of_kind(&rbac_files(Feature::Admission), role)["rules"]
            .as_array()
            .unwrap()
        {
            let text = rule.to_string();
            assert!(!text.contains('*'), "{role}: {text} has a wildcard");
            let resources: Vec<&str> = rule["resources"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            for verb in rule["verbs"].as_array().unwrap().iter().filter_map(Value::as_str) {
                if ["get", "list", "watch"].contains(&verb) {
                    assert!(
                        !resources.contains(&"secrets") || !rule["resourceNames"].is_null(),
                        "{role} reads every Secret"
                    );
                } else {
                    writes.push(format!("{verb} {} {}", resources.join(","), rule["resourceNames"]));
                }
            }
        }
    }
    assert_eq!(
        writes,
        [
            r#"update secrets ["capstan-webhook-tls"]"#,
            "create secrets null",
            r#"patch mutatingwebhookconfigurations,validatingwebhookconfigurations ["capstan"]"#,
        ]
    );
    assert!(arguments().contains(&"--self-managed-secret=openshift-machine-api/capstan-webhook-tls".to_owned()));
}

/// A feature must not add a permission to write what another feature manages.
#[test]
fn the_role_of_mirroring_writes_only_the_ca_bundles_of_its_configurations() {
    let account = of_kind(&rbac_files(Feature::Admission), "ServiceAccount");
    let mut writes = Vec::new();
    for document in documents(&rbac_files(Feature::Mirroring)) {
        for subject in document["subjects"].as_array().into_iter().flatten() {
            assert_eq!(subject["name"], account["metadata"]["name"]);
        }
        for rule in document["rules"].as_array().into_iter().flatten() {
            assert!(!rule.to_string().contains('*'), "{rule} has a wildcard");
            for verb in rule["verbs"].as_array().unwrap().iter().filter_map(Value::as_str) {
                if !["get", "list", "watch"].contains(&verb) {
                    writes.push(format!("{verb} {} {}", rule["resources"], rule["resourceNames"]));
                }
            }
        }
    }
    let resources = r#"["mutatingwebhookconfigurations","validatingwebhookconfigurations"]"#;
    assert_eq!(writes, [format!(r#"patch {resources} ["capstan-mirroring"]"#)]);
    let roles = join(&rbac_files(Feature::Admission));
    assert!(!roles.contains("x-k8s.io") && !roles.contains("machinehealthchecks"));
}

/// Each feature adds flags to one command line.
#[test]
fn the_program_knows_the_flags_of_all_features_together() {
    let mut arguments = arguments();
    arguments.insert(0, "capstan".to_owned());
    for feature in Feature::ALL {
        arguments.extend(server_flags(feature).iter().map(|flag| (*flag).to_owned()));
    }
    Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_policy_is_in_the_kustomization_of_its_feature() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for feature in ["admission", "mirroring"] {
        let folder = root.join("webhooks").join(feature);
        let text = std::fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
        let kustomization: Value = serde_saphyr::from_str(&text).unwrap();
        let mut listed: Vec<String> = serde_json::from_value(kustomization["resources"].clone()).unwrap();
        listed.sort();
        let mut expected = vec!["mutating.yaml".to_owned(), "validating.yaml".to_owned()];
        for entry in std::fs::read_dir(folder.join("policies")).unwrap() {
            expected.push(format!("policies/{}", entry.unwrap().file_name().to_string_lossy()));
        }
        expected.sort();
        assert_eq!(listed, expected, "{feature}");
    }
}

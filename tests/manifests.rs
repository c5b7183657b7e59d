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
use capstan::manifests::{
    controllers_files, controllers_rbac_files, deployment_files, join, rbac_files, webhook_files,
};
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
    of_kind(&deployment_files(), "Deployment")
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
    let deployment = of_kind(&controllers_files(), "Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    let mut arguments: Vec<String> = serde_json::from_value(pod["containers"][0]["args"].clone()).unwrap();
    assert!(arguments.contains(&"--controllers".to_owned()));
    // They judge no edits, and may not read what only an answer needs.
    assert!(arguments.contains(&"--controllers-only".to_owned()));
    let roles = join(&controllers_rbac_files());
    assert!(!roles.contains("x-k8s.io") && !roles.contains("machinehealthchecks"));
    arguments.insert(0, "capstan".to_owned());
    Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
    let bindings: Vec<Value> = documents(&controllers_rbac_files())
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
    let service = of_kind(&deployment_files(), "Service");
    let deployment = deployment();
    let template = &deployment["spec"]["template"];
    assert_eq!(service["spec"]["selector"], template["metadata"]["labels"]);
    assert_eq!(
        deployment["spec"]["selector"]["matchLabels"],
        template["metadata"]["labels"]
    );
    let budget = of_kind(&deployment_files(), "PodDisruptionBudget");
    assert_eq!(
        budget["spec"]["selector"]["matchLabels"],
        template["metadata"]["labels"]
    );
    let (name, namespace) = (&service["metadata"]["name"], &service["metadata"]["namespace"]);
    let mut configurations = Vec::new();
    for configuration in documents(&webhook_files()) {
        for webhook in configuration["webhooks"].as_array().unwrap() {
            let target = &webhook["clientConfig"]["service"];
            assert_eq!((&target["name"], &target["namespace"]), (name, namespace));
            assert_eq!(target["port"], service["spec"]["ports"][0]["port"]);
        }
        configurations.push(configuration["metadata"]["name"].as_str().unwrap().to_owned());
    }
    let (name, namespace) = (name.as_str().unwrap(), namespace.as_str().unwrap());
    let arguments = arguments();
    assert!(arguments.contains(&format!("--dns-name={name}.{namespace}.svc")));
    for configuration in configurations {
        assert!(arguments.contains(&format!("--webhook-configuration={configuration}")));
    }
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
    let budget = of_kind(&deployment_files(), "PodDisruptionBudget");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    let container = container();
    assert_eq!(container["resources"].get("limits"), None);
    for probe in ["readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], "health");
    }
}

#[test]
fn the_server_reads_and_writes_only_what_is_its_own() {
    let account = of_kind(&rbac_files(), "ServiceAccount");
    let pod = deployment()["spec"]["template"]["spec"].clone();
    assert_eq!(pod["serviceAccountName"], account["metadata"]["name"]);
    for binding in ["RoleBinding", "ClusterRoleBinding"] {
        let binding = of_kind(&rbac_files(), binding);
        assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
        assert_eq!(binding["subjects"][0]["name"], account["metadata"]["name"]);
        assert_eq!(binding["subjects"][0]["namespace"], account["metadata"]["namespace"]);
    }
    let mut writes = Vec::new();
    for role in ["Role", "ClusterRole"] {
        for rule in of_kind(&rbac_files(), role)["rules"].as_array().unwrap() {
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

#[test]
fn kustomize_takes_every_file_that_is_installed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read =
        |path: &str| -> Value { serde_saphyr::from_str(&std::fs::read_to_string(root.join(path)).unwrap()).unwrap() };
    let manifests: Vec<String> =
        serde_json::from_value(read("manifests/kustomization.yaml")["resources"].clone()).unwrap();
    for (name, _) in rbac_files().iter().chain(&deployment_files()) {
        assert!(manifests.contains(name), "manifests/kustomization.yaml lacks {name}");
    }
    let mut webhooks: Vec<String> =
        serde_json::from_value(read("webhooks/kustomization.yaml")["resources"].clone()).unwrap();
    webhooks.sort();
    let mut expected: Vec<String> = webhook_files().into_iter().map(|(name, _)| name).collect();
    for entry in std::fs::read_dir(root.join("webhooks/policies")).unwrap() {
        expected.push(format!("policies/{}", entry.unwrap().file_name().to_string_lossy()));
    }
    expected.sort();
    assert_eq!(webhooks, expected);
}

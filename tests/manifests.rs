//! What is installed fits together: names, labels, ports, and flags that the program knows. No API
//! server is needed; `tests/cluster` asks one whether it takes them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails is what these are for"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use capstan::cli::Cli;
use capstan::manifests::{Component, REGISTRATION_FILES, deployment_files, join, rbac_files, webhook_files};
use capstan_core::admission::Feature;
use clap::Parser as _;
use serde_json::{Value, json};

#[path = "manifests/registration.rs"]
mod registration;

fn documents(files: &[(String, String)]) -> Vec<Value> {
    serde_saphyr::from_multiple(&join(files)).unwrap()
}

/// The files of `rbac_files` or `deployment_files` of the webhook server, without the Deployment
/// that registers its webhooks.
fn of_server(mut files: Vec<(String, String)>) -> Vec<(String, String)> {
    files.retain(|(name, _)| !REGISTRATION_FILES.contains(&name.as_str()));
    files
}

/// The only object of a kind, beside those of the registration.
fn of_kind(files: &[(String, String)], kind: &str) -> Value {
    let mut found: Vec<Value> = documents(&of_server(files.to_vec()))
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

/// The namespace in which the kubelet expands the flags.
const NAMESPACE: &str = "openshift-machine-api";

/// The flags of a container, as the kubelet expands them.
fn expanded(container: &Value) -> Vec<String> {
    let arguments: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
    let variables: Vec<&Value> = container["env"].as_array().into_iter().flatten().collect();
    let namespace = variables.iter().find(|variable| variable["name"] == "POD_NAMESPACE");
    let source = &namespace.unwrap()["valueFrom"]["fieldRef"]["fieldPath"];
    assert_eq!(source, "metadata.namespace");
    let expand = |text: &String| text.replace("$(POD_NAMESPACE)", NAMESPACE);
    let arguments: Vec<String> = arguments.iter().map(expand).collect();
    assert!(
        !arguments.iter().any(|argument| argument.contains("$(")),
        "{arguments:?}"
    );
    arguments
}

/// The flags of the webhook server with all features.
fn arguments() -> Vec<String> {
    let files = Component::Mirroring
        .patch(deployment_files(Feature::Admission))
        .unwrap();
    expanded(&of_kind(&files, "Deployment")["spec"]["template"]["spec"]["containers"][0])
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
    let mut arguments = expanded(&pod["containers"][0]);
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
fn the_controller_of_control_planes_runs_under_the_account_that_its_roles_are_bound_to() {
    runs_under_its_account("control-plane-controllers");
}

#[test]
fn the_controller_of_kubeadm_control_planes_runs_under_the_account_that_its_roles_are_bound_to() {
    runs_under_its_account("kubeadm-control-plane-controllers");
}

#[test]
fn the_controller_of_machine_pools_runs_under_the_account_that_its_roles_are_bound_to() {
    runs_under_its_account("machine-pool-controllers");
}

#[test]
fn v99_the_account_of_each_deployment_may_review_the_tokens_of_clients_of_its_metrics() {
    let bindings = documents(&Component::SecureMetrics.files());
    let binding = bindings
        .iter()
        .find(|object| object["kind"] == "ClusterRoleBinding")
        .unwrap();
    let accounts: BTreeSet<&str> = binding["subjects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|subject| subject["name"].as_str().unwrap())
        .collect();
    let deployments = Feature::ALL
        .iter()
        .flat_map(|feature| documents(&of_server(deployment_files(*feature))));
    for deployment in deployments.filter(|object| object["kind"] == "Deployment") {
        let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
        assert!(accounts.contains(account.as_str().unwrap()), "{account}");
    }
}

/// Checks a component with one controller. Its name is the flag of the controller.
fn runs_under_its_account(component: &str) {
    let file = |name: &str| {
        let folder = format!("{}/manifests/components/{component}", env!("CARGO_MANIFEST_DIR"));
        (
            name.to_owned(),
            std::fs::read_to_string(format!("{folder}/{name}")).unwrap(),
        )
    };
    let deployment = of_kind(&[file("deployment.yaml")], "Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    let mut arguments = expanded(&pod["containers"][0]);
    for flag in [format!("--{component}"), "--controllers-only".to_owned()] {
        assert!(arguments.contains(&flag), "{flag}");
    }
    arguments.insert(0, "capstan".to_owned());
    Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
    let objects = documents(&[file("rbac.yaml")]);
    let bindings: Vec<&Value> = objects.iter().filter(|object| object["subjects"].is_array()).collect();
    assert!(bindings.len() >= 2, "{bindings:?}");
    for binding in bindings {
        assert_eq!(binding["subjects"][0]["name"], pod["serviceAccountName"]);
        assert_eq!(binding["subjects"][0]["namespace"], NAMESPACE);
    }
    assert_eq!(
        deployment["spec"]["selector"]["matchLabels"],
        deployment["spec"]["template"]["metadata"]["labels"]
    );
}

#[test]
fn the_mirroring_controllers_run_under_the_account_that_their_roles_are_bound_to() {
    let feature = Feature::MirroringControllers;
    let deployment = of_kind(&deployment_files(feature), "Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    let mut arguments = expanded(&pod["containers"][0]);
    for flag in ["--mirroring-controllers", "--controllers-only"] {
        assert!(arguments.contains(&flag.to_owned()), "{flag}");
    }
    arguments.insert(0, "capstan".to_owned());
    Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
    let objects = documents(&rbac_files(feature));
    let bindings: Vec<&Value> = objects.iter().filter(|object| object["subjects"].is_array()).collect();
    assert_eq!(bindings.len(), 3);
    for binding in bindings {
        assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
        assert_eq!(binding["subjects"][0]["name"], pod["serviceAccountName"]);
        assert_eq!(binding["subjects"][0]["namespace"], NAMESPACE);
    }
    // Secrets are read in the namespace of Cluster API only.
    for object in objects
        .iter()
        .filter(|object| object["rules"].to_string().contains("secrets"))
    {
        assert_eq!(
            (&object["kind"], &object["metadata"]["namespace"]),
            (&json!("Role"), &json!("openshift-cluster-api"))
        );
    }
    assert_eq!(
        deployment["spec"]["selector"]["matchLabels"],
        deployment["spec"]["template"]["metadata"]["labels"]
    );
    let account = format!("system:serviceaccount:{NAMESPACE}:capstan-mirroring");
    let defaults = capstan_core::authority::config::Config::default();
    assert!(defaults.sync_identities.contains(&account));
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
    let arguments = arguments();
    for feature in Feature::ALL {
        for configuration in documents(&webhook_files(feature)) {
            for webhook in configuration["webhooks"].as_array().unwrap() {
                let target = &webhook["clientConfig"]["service"];
                assert_eq!((&target["name"], &target["namespace"]), (name, namespace));
                assert_eq!(target["port"], service["spec"]["ports"][0]["port"]);
            }
            // These are the names whose caBundle the server writes by default.
            let configuration = configuration["metadata"]["name"].as_str().unwrap();
            let written = [
                "capstan",
                "capstan-mirroring",
                "capstan-kubeadm-control-plane",
                "capstan-control-plane",
                "capstan-machine-pools",
            ];
            assert!(written.contains(&configuration), "{configuration}");
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
        let bindings = documents(&of_server(rbac_files(Feature::Admission)));
        for binding in bindings.iter().filter(|document| document["kind"] == binding) {
            assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
            assert_eq!(binding["subjects"][0]["name"], account["metadata"]["name"]);
            assert_eq!(binding["subjects"][0]["namespace"], account["metadata"]["namespace"]);
        }
    }
    let mut writes = Vec::new();
    for role in ["Role", "ClusterRole"] {
        let roles = documents(&of_server(rbac_files(Feature::Admission)));
        let roles = roles.iter().filter(|document| document["kind"] == role);
        for rule in roles.flat_map(|role| role["rules"].as_array().unwrap()) {
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

/// With certificates of another program, the server can write nothing.
#[test]
fn certificates_of_another_program_need_no_permission_to_write() {
    let mirroring = Component::Mirroring;
    for source in [Component::CertManager, Component::ServiceCa] {
        let patched = |files: Vec<(String, String)>| {
            let files = mirroring.patch(files).unwrap();
            source.patch(Component::CertificateFiles.patch(files).unwrap()).unwrap()
        };
        let roles = [
            of_server(rbac_files(Feature::Admission)),
            rbac_files(Feature::Mirroring),
        ];
        let roles = documents(&patched(roles.concat()));
        for rule in roles
            .iter()
            .flat_map(|role| role["rules"].as_array().into_iter().flatten())
        {
            assert_eq!(rule["verbs"], json!(["get", "list", "watch"]), "{rule}");
            assert!(!rule["resources"].to_string().contains("secrets"), "{rule}");
        }
        assert!(roles.iter().all(|object| object["kind"] != "Secret"));
        let deployment = of_kind(&patched(deployment_files(Feature::Admission)), "Deployment");
        let pod = &deployment["spec"]["template"]["spec"];
        let mut arguments = expanded(&pod["containers"][0]);
        arguments.insert(0, "capstan".to_owned());
        Cli::try_parse_from(&arguments).unwrap_or_else(|error| panic!("{error}"));
        let folder = pod["containers"][0]["volumeMounts"][0]["mountPath"].as_str().unwrap();
        for file in [
            format!("--tls-cert={folder}/tls.crt"),
            format!("--tls-key={folder}/tls.key"),
        ] {
            assert!(arguments.contains(&file), "{arguments:?}");
        }
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], "capstan-tls");
    }
}

#[test]
fn cert_manager_issues_the_certificate_that_the_server_reads_for_its_service() {
    let service = of_kind(&deployment_files(Feature::Admission), "Service");
    let objects = documents(&Component::CertManager.files());
    let certificate = objects
        .iter()
        .find(|object| object["metadata"]["name"] == "capstan-tls")
        .unwrap();
    let name = service["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        certificate["spec"]["dnsNames"],
        json!([format!("{name}.{NAMESPACE}.svc")])
    );
    assert_eq!(certificate["spec"]["secretName"], "capstan-tls");
    for feature in [Feature::Admission, Feature::Mirroring] {
        for configuration in documents(&Component::CertManager.patch(webhook_files(feature)).unwrap()) {
            let source = &configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
            assert_eq!(*source, format!("{NAMESPACE}/capstan-tls"));
        }
    }
}

#[test]
fn the_service_ca_issues_the_certificate_of_the_service_and_fills_every_configuration() {
    let service = of_kind(
        &Component::ServiceCa
            .patch(deployment_files(Feature::Admission))
            .unwrap(),
        "Service",
    );
    let annotation = "service.beta.openshift.io/serving-cert-secret-name";
    assert_eq!(service["metadata"]["annotations"][annotation], "capstan-tls");
    for feature in [Feature::Admission, Feature::Mirroring] {
        for configuration in documents(&Component::ServiceCa.patch(webhook_files(feature)).unwrap()) {
            let annotation = "service.beta.openshift.io/inject-cabundle";
            assert_eq!(configuration["metadata"]["annotations"][annotation], "true");
        }
    }
}

/// A manifest must not contain a key, and the server may not create a Secret.
#[test]
fn the_secret_of_self_managed_certificates_is_installed_empty() {
    let secret = of_kind(&rbac_files(Feature::Admission), "Secret");
    assert_eq!(secret["metadata"]["name"], "capstan-webhook-tls");
    assert!(secret.get("data").is_none() && secret.get("stringData").is_none());
}

#[test]
fn a_single_node_has_one_replica_of_each_deployment() {
    let files = [
        deployment_files(Feature::Admission),
        deployment_files(Feature::Controllers),
    ]
    .concat();
    let objects = documents(&Component::SingleNode.patch(files).unwrap());
    let deployments: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Deployment").collect();
    assert_eq!(deployments.len(), 3);
    assert!(deployments.iter().all(|deployment| deployment["spec"]["replicas"] == 1));
}

/// A port that no NetworkPolicy admits would not answer.
#[test]
fn the_network_policies_admit_the_ports_of_the_pods() {
    let files = Component::NetworkPolicies.files();
    let admitted = |labels: &Value| -> Vec<u64> {
        let selects = |policy: &&Value| {
            let selector = policy["spec"]["podSelector"]["matchLabels"].as_object().unwrap();
            selector.iter().all(|(key, value)| labels[key] == *value)
        };
        let policies = documents(&files);
        let rules = policies.iter().filter(selects).flat_map(|policy| {
            let rules = policy["spec"]["ingress"].as_array().unwrap().clone();
            rules
                .into_iter()
                .flat_map(|rule| rule["ports"].as_array().unwrap().clone())
        });
        let mut ports: Vec<u64> = rules.map(|port| port["port"].as_u64().unwrap()).collect();
        ports.sort_unstable();
        ports
    };
    let with_deployments = Feature::ALL
        .into_iter()
        .filter(|feature| !deployment_files(*feature).is_empty());
    for feature in with_deployments {
        let files = Component::SecureMetrics.patch(deployment_files(feature)).unwrap();
        let template = of_kind(&files, "Deployment")["spec"]["template"].clone();
        let ports = template["spec"]["containers"][0]["ports"].as_array().unwrap().clone();
        let mut ports: Vec<u64> = ports
            .iter()
            .map(|port| port["containerPort"].as_u64().unwrap())
            .collect();
        ports.sort_unstable();
        assert_eq!(admitted(&template["metadata"]["labels"]), ports, "{feature:?}");
    }
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

/// A namespace that the transformer misses would be that of another installation.
#[test]
fn the_transformer_of_the_namespace_agrees_with_the_manifests() {
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(["manifests", "namespace-transformer"])
        .output();
    let generated = String::from_utf8(command.unwrap().stdout).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/namespace/replacements.yaml");
    assert_eq!(generated, std::fs::read_to_string(path).unwrap());
}

/// Helm renders what is in the folder, so each file there must be one of the generated ones.
#[test]
fn the_templates_of_the_chart_agree_with_the_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(["manifests", "chart", "--out"])
        .arg(folder.path())
        .status();
    assert!(command.unwrap().success());
    let read = |folder: &Path| -> BTreeMap<String, String> {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let named = files.map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        });
        named.filter(|(name, _)| name.ends_with(".yaml")).collect()
    };
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/capstan");
    let (generated, templates) = (read(folder.path()), read(&chart.join("templates")));
    assert_eq!(
        templates.keys().collect::<Vec<_>>(),
        generated.keys().collect::<Vec<_>>()
    );
    for (name, text) in generated {
        assert!(
            templates[&name] == text,
            "generate {name} again; its first line says how"
        );
    }
    let yaml =
        |name: &str| -> Value { serde_saphyr::from_str(&std::fs::read_to_string(chart.join(name)).unwrap()).unwrap() };
    for field in ["version", "appVersion"] {
        assert_eq!(yaml("Chart.yaml")[field], env!("CARGO_PKG_VERSION"));
    }
    assert_eq!(yaml("values.yaml")["image"], container()["image"]);
}

/// Without its webhook server, a webhook configuration that stays refuses every write.
#[test]
fn v56_the_commands_that_remove_capstan_cover_every_feature() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("manifests/README.md")).unwrap();
    let (_, remove) = page.split_once("## Remove").unwrap();
    let folders = |pattern: &str| -> Vec<String> {
        let commands = remove
            .lines()
            .filter_map(|line| line.trim().strip_prefix("kubectl delete -k "));
        let folders = commands.filter_map(|line| line.split(' ').next());
        folders
            .filter(|folder| folder.starts_with(pattern))
            .map(str::to_owned)
            .collect()
    };
    let overlays: Vec<String> = folders("manifests/overlays/")
        .iter()
        .map(|folder| std::fs::read_to_string(root.join(folder).join("kustomization.yaml")).unwrap())
        .collect();
    for feature in Feature::ALL {
        let name = feature.name();
        if !webhook_files(feature).is_empty() {
            assert!(folders("webhooks/").contains(&format!("webhooks/{name}")), "{name}");
        }
        let component = format!("- ../../components/{name}\n");
        let base = name == "admission";
        assert!(
            base || overlays.iter().any(|overlay| overlay.contains(&component)),
            "{name}"
        );
    }
}

#[test]
fn w21_the_threat_model_names_what_the_server_may_do_with_secrets() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/threat-model.md");
    let page = std::fs::read_to_string(path).unwrap();
    let row = page
        .lines()
        .find(|line| line.starts_with("| `capstan-webhook` |"))
        .unwrap();
    let mut about_secrets = row.split(';').filter(|part| part.contains("Secret"));
    assert_eq!(
        about_secrets.next(),
        Some(" read and update the Secret `capstan-webhook-tls`")
    );
    assert_eq!(about_secrets.next(), None);
    let rules: Vec<Value> = documents(&rbac_files(Feature::Admission))
        .into_iter()
        .chain(documents(&deployment_files(Feature::Admission)))
        .filter(|object| ["Role", "ClusterRole"].contains(&object["kind"].as_str().unwrap()))
        .flat_map(|role| role["rules"].as_array().unwrap().clone())
        .filter(|rule| rule["resources"].as_array().unwrap().contains(&json!("secrets")))
        .collect();
    let allowed = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["capstan-webhook-tls"],
        "verbs": ["get", "list", "watch", "update"]}]);
    assert_eq!(json!(rules), allowed);
}

#[test]
fn w11_the_feature_of_kubeadm_control_planes_is_removed_by_the_names_of_its_objects() {
    let page = include_str!("../docs/kubeadm-control-plane.md");
    let section = page
        .split("## Give the CRDs back")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    assert!(section.contains("kubectl delete -k webhooks/kubeadm-control-plane"));
    for object in documents(&rbac_files(Feature::KubeadmControlPlane)) {
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        let name = object["metadata"]["name"].as_str().unwrap();
        assert!(section.contains(&kind) && section.contains(name), "{kind} {name}");
    }
    let bypass = include_str!("../docs/operations.md")
        .split("### Bypass the webhook")
        .nth(1)
        .unwrap();
    let bypass = bypass.split("\n### ").next().unwrap();
    for feature in Feature::ALL {
        for configuration in documents(&webhook_files(feature)) {
            let name = configuration["metadata"]["name"].as_str().unwrap();
            assert!(bypass.contains(name), "{name}");
            assert!(bypass.contains(&format!("webhooks/{}", feature.name())), "{name}");
        }
    }
}

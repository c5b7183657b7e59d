//! The permissions of `capstan register`, the manifests without webhooks, and the bundle for OLM,
//! in which the command creates what a bundle cannot contain.

use std::collections::BTreeMap;

use capstan::cli::Cli;
use capstan::manifests::{BUNDLE_RBAC, REGISTRATION_FILES, deployment_files, policy_files, rbac_files, webhook_files};
use capstan_core::admission::Feature;
use clap::Parser as _;
use serde_json::{Value, json};

use super::{documents, expanded};

/// The rules of the ClusterRole with this name.
fn rules(objects: &[Value], name: &str) -> Vec<Value> {
    let role = objects
        .iter()
        .find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == name);
    role.unwrap()["rules"].as_array().unwrap().clone()
}

/// The names for which rules allow these verbs on a resource.
fn named(rules: &[Value], resource: &str, verbs: &Value) -> Vec<String> {
    let is_wanted = |rule: &&Value| {
        let resources = rule["resources"].as_array().unwrap();
        resources.contains(&json!(resource)) && rule["verbs"] == *verbs && !rule["resourceNames"].is_null()
    };
    let mut found = rules.iter().filter(is_wanted);
    let names = found.next().unwrap()["resourceNames"].clone();
    assert!(found.next().is_none(), "{resource}");
    let mut names: Vec<String> = serde_json::from_value(names).unwrap();
    names.sort();
    names
}

#[test]
fn the_registration_may_write_each_of_its_objects_and_no_other() {
    let files = [rbac_files(Feature::Admission), deployment_files(Feature::Admission)].concat();
    let files: Vec<(String, String)> = files
        .into_iter()
        .filter(|(name, _)| REGISTRATION_FILES.contains(&name.as_str()))
        .collect();
    let objects = documents(&files);
    let own = rules(&objects, "capstan-registration");
    let in_bundle: Vec<Value> = serde_saphyr::from_multiple(BUNDLE_RBAC).unwrap();
    let in_bundle = rules(&in_bundle, "capstan-registration-bundle");
    let mut written: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for feature in Feature::ALL {
        let rules = capstan_core::admission::rule_files_of(feature).unwrap();
        let mut all = webhook_files(feature);
        all.extend(policy_files(feature, &rules).unwrap());
        for object in all.iter().flat_map(|file| documents(std::slice::from_ref(file))) {
            let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase()).replace("policys", "policies");
            written
                .entry(plural)
                .or_default()
                .push(object["metadata"]["name"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(written.len(), 4);
    for (resource, mut names) in written {
        names.sort();
        let (rules, verbs) = if resource.ends_with("configurations") {
            assert_eq!(named(&in_bundle, &resource, &json!(["delete"])), names, "{resource}");
            (&own, json!(["get", "patch"]))
        } else {
            (&in_bundle, json!(["get", "patch"]))
        };
        assert_eq!(named(rules, &resource, &verbs), names, "{resource}");
    }
    // Without a bundle, it can neither create nor delete a webhook configuration.
    for rule in &own {
        let is_set = rule["resources"] == json!(["controlplanemachinesets"]);
        let verbs = if is_set {
            json!(["create"])
        } else {
            json!(["get", "patch"])
        };
        assert_eq!(rule["verbs"], verbs, "{rule}");
        assert_eq!(rule["resourceNames"].is_null(), is_set, "{rule}");
    }
    let find = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let pod = &find("Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], find("ServiceAccount")["metadata"]["name"]);
    let mut arguments = expanded(&pod["containers"][0]);
    arguments.insert(0, "capstan".to_owned());
    Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
}

/// An installation that is interrupted at any step registers nothing.
#[test]
fn the_manifests_contain_no_webhook_unless_a_flag_asks_for_them() {
    let printed = |flags: &[&str]| -> Vec<Value> {
        let features: Vec<&str> = Feature::ALL.map(Feature::name).to_vec();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.args(["manifests", "all", "--feature", &features.join(",")]);
        let output = command.args(flags).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
    };
    let configurations = |objects: &[Value]| -> Vec<Value> {
        let is_one = |object: &&Value| object["kind"].as_str().unwrap().ends_with("WebhookConfiguration");
        objects.iter().filter(is_one).cloned().collect()
    };
    let (default, fixed) = (printed(&[]), printed(&["--static-webhooks"]));
    let number = configurations(&default).len();
    assert_eq!(number, configurations(&fixed).len());
    assert_eq!(number, 10);
    assert!(
        configurations(&default)
            .iter()
            .all(|object| object["webhooks"].is_null())
    );
    assert!(
        configurations(&fixed)
            .iter()
            .all(|object| object["webhooks"].is_array())
    );
    let registers = |objects: &[Value]| {
        let of_registration = objects
            .iter()
            .filter(|object| object["metadata"]["name"] == "capstan-registration");
        of_registration.count()
    };
    assert_eq!((registers(&default), registers(&fixed)), (6, 0));
}

/// The objects of the bundle for OLM are those of the other ways to install. OLM makes the service
/// accounts and the bindings from the ClusterServiceVersion.
#[test]
fn the_bundle_contains_the_manifests_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let printed = |what: &str, flags: &[&str]| -> String {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_capstan"));
        let output = command.args(["manifests", what]).args(flags).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for features in [
        "--feature=admission",
        "--feature=admission,controllers,mirroring,control-plane",
    ] {
        let out = folder.path().join(features);
        printed("bundle", &[features, &format!("--out={}", out.display())]);
        let mut bundle: Vec<Value> = Vec::new();
        for file in std::fs::read_dir(out.join("manifests")).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            bundle.push(serde_saphyr::from_str(&text).unwrap());
        }
        let is_version = |object: &Value| object["kind"] == "ClusterServiceVersion";
        let position = bundle.iter().position(is_version).unwrap();
        let install = bundle.remove(position)["spec"]["install"]["spec"].clone();

        let flags = [features, "--certificates=service-ca"];
        let mut manifests: Vec<Value> = serde_saphyr::from_multiple(&printed("all", &flags)).unwrap();
        manifests.extend(serde_saphyr::from_multiple::<Value>(BUNDLE_RBAC).unwrap());
        let mut plain = Vec::new();
        let mut rules: BTreeMap<(&str, String), Vec<Value>> = BTreeMap::new();
        let mut deployments = Vec::new();
        for object in &manifests {
            let mut object = object.clone();
            object["metadata"].as_object_mut().unwrap().remove("namespace");
            match object["kind"].as_str().unwrap() {
                "Service" | "PodDisruptionBudget" => plain.push(object),
                "ClusterRole" if object["metadata"]["name"] == "capstan-registration" => {
                    let labels = &mut object["metadata"]["labels"];
                    labels["olm.owner"] = json!(concat!("capstan.v", env!("CARGO_PKG_VERSION")));
                    labels["olm.owner.kind"] = json!("ClusterServiceVersion");
                    labels["olm.owner.namespace"] = json!("openshift-machine-api");
                    plain.push(object);
                }
                kind if kind.ends_with("WebhookConfiguration") || kind.starts_with("ValidatingAdmissionPolicy") => {}
                "Deployment" if object["metadata"]["name"] == "capstan-registration" => {
                    let flags = object.pointer_mut("/spec/template/spec/containers/0/args").unwrap();
                    flags
                        .as_array_mut()
                        .unwrap()
                        .push(json!("--owner=capstan-registration"));
                    deployments.push(json!({"name": object["metadata"]["name"],
                        "label": object["metadata"]["labels"], "spec": object["spec"]}));
                }
                "Deployment" => deployments.push(json!({"name": object["metadata"]["name"],
                    "label": object["metadata"]["labels"], "spec": object["spec"]})),
                kind @ ("RoleBinding" | "ClusterRoleBinding") => {
                    let role = manifests.iter().find(|role| {
                        role["kind"] == object["roleRef"]["kind"]
                            && role["metadata"]["name"] == object["roleRef"]["name"]
                    });
                    let list = if kind == "RoleBinding" {
                        "permissions"
                    } else {
                        "clusterPermissions"
                    };
                    let account = object["subjects"][0]["name"].as_str().unwrap().to_owned();
                    let granted = role.unwrap()["rules"].as_array().unwrap().clone();
                    rules.entry((list, account)).or_default().extend(granted);
                }
                "ServiceAccount" | "Role" | "ClusterRole" => {}
                other => panic!("{other}: OLM does not accept it in a bundle"),
            }
        }
        let sorted = |mut objects: Vec<Value>| {
            objects.sort_by_key(Value::to_string);
            objects
        };
        assert_eq!(sorted(bundle), sorted(plain), "{features}");
        assert_eq!(install["deployments"], json!(deployments), "{features}");
        let mut found: BTreeMap<(&str, String), Vec<Value>> = BTreeMap::new();
        for list in ["permissions", "clusterPermissions"] {
            for entry in install[list].as_array().unwrap() {
                let account = entry["serviceAccountName"].as_str().unwrap().to_owned();
                found.insert((list, account), entry["rules"].as_array().unwrap().clone());
            }
        }
        assert_eq!(found, rules, "{features}");
    }
}

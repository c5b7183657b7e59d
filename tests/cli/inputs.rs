//! Objects that are given twice, subfolders, an update of the status, the deletion of a Cluster,
//! and flags with unusual names.

use serde_json::{Value, json};

use super::plans::world;
use super::{Folder, capstan, machine, path, set, stderr, stdout};

const MACHINE_API: &str = "openshift-machine-api";
const CLUSTER_API: &str = "openshift-cluster-api";

/// The documents of a text.
fn documents(text: &str) -> Vec<&str> {
    text.split("\n---\n").collect()
}

fn of_kind<'t>(documents: &[&'t str], kind: &str) -> &'t str {
    let kind = format!("\"kind\":\"{kind}\"");
    documents.iter().find(|document| document.contains(&kind)).unwrap()
}

#[test]
fn v50_an_object_that_is_given_twice_counts_once() {
    let world = world(|_| ());
    let known = documents(&world);
    let machine = of_kind(&known, "Machine");
    let arguments = ["plan", "-f", "-", "--now", "2026-01-01T01:00:00Z", "-o", "json"];
    let once = capstan(&arguments, &world);
    let twice = capstan(&arguments, &format!("{world}\n---\n{machine}"));
    assert_eq!(twice.status.code(), Some(0), "{}", stderr(&twice));
    assert_eq!(stdout(&twice), stdout(&once));
    let note = "Machine openshift-machine-api/prod-x7k2p-master-0 is given more than once and counts once";
    assert!(stderr(&twice).contains(note), "{}", stderr(&twice));
}

#[test]
fn v50_two_different_objects_of_one_name_are_an_error() {
    let world = world(|_| ());
    let known = documents(&world);
    for kind in ["Machine", "ControlPlaneMachineSet", "Node"] {
        let other = of_kind(&known, kind).replace("\"metadata\":{", "\"metadata\":{\"generation\":7,");
        let input = format!("{world}\n---\n{other}");
        let folder = Folder::new();
        let file = folder.file("all.yaml", &input);
        for arguments in [
            vec!["plan", "-f", path(&file)],
            vec!["generate", "-f", path(&file)],
            vec!["status", "-o", "html", "-f", path(&file)],
            vec!["check", "--with", path(&file), path(&file)],
            vec!["check", "--old", path(&file), path(&file)],
            vec!["check", folder.0.path().to_str().unwrap()],
        ] {
            let output = capstan(&arguments, "");
            assert_eq!(output.status.code(), Some(2), "{arguments:?} {}", stdout(&output));
            let differs = format!("{kind} ");
            assert!(
                stderr(&output).contains(&differs) && stderr(&output).contains("differs from the one at"),
                "{}",
                stderr(&output)
            );
        }
    }
}

/// A folder of new manifests is checked beside the current objects, which rules look up.
#[test]
fn v50_an_object_of_a_folder_may_differ_from_the_given_one() {
    let folder = Folder::new();
    folder.objects("set.yaml", &[set()]);
    let current: Vec<Value> = (0..3).map(|index| machine(index, ["a", "b", "c"][index])).collect();
    folder.objects("machines.yaml", &current);
    let outside = Folder::new();
    let mut before = current;
    before[0]["metadata"]["labels"]["team"] = json!("a");
    let with = outside.objects("with.yaml", &before);
    let output = capstan(
        &[
            "check",
            "-o",
            "json",
            "--with",
            path(&with),
            folder.0.path().to_str().unwrap(),
        ],
        "",
    );
    assert_ne!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(!stdout(&output).contains("more than one"), "{}", stdout(&output));
}

#[test]
fn v51_an_identity_stays_one_flag_and_one_user() {
    let users = [
        "user # x",
        "user: x",
        "$(POD_NAMESPACE)",
        "a\\b 'c' \"d\"",
        "- x",
        "system:a:b",
    ];
    for user in users {
        for flag in ["--sync-identity", "--autoscaler-identity", "--hook-identity"] {
            for extra in [&[][..], &["--single-node", "--certificates", "cert-manager"]] {
                let features = ["manifests", "all", "--feature", "admission,mirroring,controllers"];
                let given = format!("{flag}={user}");
                let arguments = [&features[..], &[given.as_str()], extra].concat();
                let output = capstan(&arguments, "");
                assert_eq!(output.status.code(), Some(0), "{user}: {}", stderr(&output));
                let objects: Vec<Value> = serde_saphyr::from_multiple(&stdout(&output)).unwrap();
                // The registration reads the flags of the server.
                let is_configured = |object: &&Value| {
                    object["kind"] == "Deployment" && object["metadata"]["name"] != "capstan-registration"
                };
                let deployments: Vec<&Value> = objects.iter().filter(is_configured).collect();
                assert_eq!(deployments.len(), 2);
                for deployment in deployments {
                    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
                    // The kubelet replaces `$$` by `$`, and expands a single `$(NAME)`.
                    let escaped = json!(format!("{flag}={}", user.replace('$', "$$")));
                    assert!(arguments.as_array().unwrap().contains(&escaped), "{arguments}");
                }
            }
        }
    }
}

#[test]
fn v51_an_identity_that_no_user_has_is_refused() {
    for user in ["", " ", "a\nb", "a "] {
        for arguments in [
            vec!["manifests", "all", "--feature", "admission,mirroring"],
            vec!["check", "-"],
            vec!["serve", "--dev-certificate", "memory"],
        ] {
            for flag in ["--sync-identity", "--autoscaler-identity", "--hook-identity"] {
                let arguments = [&arguments[..], &[flag, user]].concat();
                let output = capstan(&arguments, "");
                assert_eq!(output.status.code(), Some(2), "{arguments:?}");
                assert!(
                    stderr(&output).contains("must be the name of a user"),
                    "{}",
                    stderr(&output)
                );
            }
        }
    }
}

#[test]
fn w191_manifests_without_content_have_a_note() {
    let output = capstan(&["manifests", "webhooks", "--feature", "controllers"], "");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), "");
    let note = "note: no manifests of this kind belong to --feature controllers";
    assert!(stderr(&output).starts_with(note), "{}", stderr(&output));
}

#[test]
fn v52_every_flag_for_a_namespace_takes_names_of_namespaces_only() {
    for (command, flags) in [
        (vec!["manifests", "all"], vec!["--namespace", "--cluster-api-namespace"]),
        (vec!["check", "-"], vec!["--namespace", "--cluster-api-namespace"]),
        (
            vec!["serve", "--dev-certificate", "memory"],
            vec!["--namespace", "--cluster-api-namespace"],
        ),
        (vec!["plan"], vec!["--namespace", "--cluster-api-namespace"]),
        (vec!["uninstall"], vec!["--namespace"]),
    ] {
        for flag in flags {
            for name in ["x' || true || '", "A", "", "a.b", "-a"] {
                let flag = format!("{flag}={name}");
                let output = capstan(&[&command[..], &[&flag]].concat(), "");
                assert_eq!(output.status.code(), Some(2), "{command:?} {flag}");
                assert!(
                    stderr(&output).contains("must be the name of a namespace"),
                    "{}",
                    stderr(&output)
                );
            }
        }
    }
}

/// A Machine of one of the APIs.
fn mirrored(group: &str, kind: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": group, "kind": kind,
        "metadata": {"name": "a", "namespace": namespace, "uid": format!("{group}-{kind}")},
        "spec": {"clusterName": "prod-x7k2p"},
    })
}

fn cluster() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "prod-x7k2p", "namespace": CLUSTER_API}, "spec": {}})
}

#[test]
fn v53_a_given_mirrored_object_decides_about_the_deletion_of_its_cluster() {
    let folder = Folder::new();
    let all = [
        mirrored("machine.openshift.io/v1beta1", "Machine", MACHINE_API),
        mirrored("cluster.x-k8s.io/v1beta2", "Machine", CLUSTER_API),
    ];
    let cluster = folder.objects("cluster.yaml", &[cluster()]);
    let with = folder.objects("with.yaml", &all);
    let arguments = [
        "check",
        "--operation",
        "delete",
        "-o",
        "json",
        "--with",
        path(&with),
        path(&cluster),
    ];
    let output = capstan(&arguments, "");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(rows[0]["causes"][0]["rule"], "authority-cluster-in-use");
}

#[test]
fn v53_a_skipped_check_of_a_cluster_names_the_kinds_that_were_not_given() {
    let folder = Folder::new();
    let kinds = ["Machine", "MachineSet"];
    let mut others: Vec<Value> = Vec::new();
    for kind in kinds {
        others.push(mirrored("machine.openshift.io/v1beta1", kind, MACHINE_API));
        let mut other = mirrored("cluster.x-k8s.io/v1beta2", kind, CLUSTER_API);
        other["spec"]["clusterName"] = json!("another");
        others.push(other);
    }
    others.push(mirrored(
        "machine.openshift.io/v1beta1",
        "MachineHealthCheck",
        MACHINE_API,
    ));
    let cluster = folder.objects("cluster.yaml", &[cluster()]);
    let with = folder.objects("with.yaml", &others);
    let arguments = [
        "check",
        "--operation",
        "delete",
        "--strict",
        "--with",
        path(&with),
        path(&cluster),
    ];
    let output = capstan(&arguments, "");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let missing = "none was given: MachineHealthCheck in Cluster API [authority-cluster-in-use]";
    assert!(stdout(&output).contains(missing), "{}", stdout(&output));
}

/// A Machine with a status that names the authoritative API.
fn with_authority(api: &str) -> Value {
    let mut machine = machine(0, "a");
    machine["metadata"]["uid"] = json!("u");
    machine["metadata"]["resourceVersion"] = json!("5");
    machine["spec"]["authoritativeAPI"] = json!("MachineAPI");
    machine["status"] = json!({"authoritativeAPI": api, "synchronizedGeneration": 5, "synchronizedAPI": "MachineAPI"});
    machine
}

#[test]
fn v54_an_update_of_the_status_alone_is_judged_as_the_webhook_does() {
    let folder = Folder::new();
    let old = folder.objects("old.yaml", &[with_authority("MachineAPI")]);
    let mut forged = with_authority("ClusterAPI");
    forged["metadata"]["resourceVersion"] = json!("6");
    let mut shrunk = with_authority("MachineAPI");
    shrunk["status"]["synchronizedGeneration"] = json!(4);
    let mut removed = with_authority("MachineAPI");
    removed["status"].as_object_mut().unwrap().remove("authoritativeAPI");
    for (new, rule) in [
        (forged, "authority-passes-through-migrating"),
        (shrunk, "authority-generation-grows"),
        (removed, "authority-stays-decided"),
    ] {
        let file = folder.objects("new.yaml", &[new]);
        let output = capstan(&["check", "-o", "json", "--old", path(&old), path(&file)], "");
        assert_eq!(output.status.code(), Some(1), "{rule}: {}", stdout(&output));
        assert!(stdout(&output).contains(rule), "{rule}: {}", stdout(&output));
    }
    let same = folder.objects("new.yaml", &[with_authority("MachineAPI")]);
    let output = capstan(&["check", "-o", "json", "--old", path(&old), path(&same)], "");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

#[test]
fn v54_a_status_that_changes_beside_other_fields_is_reported_as_skipped() {
    let folder = Folder::new();
    let old = folder.objects("old.yaml", &[with_authority("MachineAPI")]);
    let mut new = with_authority("ClusterAPI");
    new["metadata"]["annotations"] = json!({"a": "b"});
    let file = folder.objects("new.yaml", &[new]);
    let arguments = ["check", "-o", "json", "--old", path(&old), path(&file)];
    let output = capstan(&arguments, "");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("status: not checked"), "{}", stdout(&output));
    let strict = capstan(&[&arguments[..], &["--strict"]].concat(), "");
    assert_eq!(strict.status.code(), Some(1), "{}", stdout(&strict));
}

#[test]
fn v55_subfolders_that_are_not_read_are_named() {
    let folder = Folder::new();
    folder.objects("set.yaml", &[set()]);
    std::fs::create_dir(folder.0.path().join("machines")).unwrap();
    std::fs::create_dir(folder.0.path().join(".git")).unwrap();
    let name = folder.0.path().to_str().unwrap();
    for arguments in [vec!["plan", "-f", name], vec!["check", name], vec!["convert", name]] {
        let output = capstan(&arguments, "");
        let note = format!("note: the subfolders of {name} are not read: machines; name each folder");
        assert!(stderr(&output).contains(&note), "{arguments:?} {}", stderr(&output));
    }
}

#[test]
fn v55_a_folder_without_manifests_is_an_error_for_every_command() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.path().join("inner")).unwrap();
    let name = folder.0.path().to_str().unwrap();
    for arguments in [
        vec!["plan", "-f", name],
        vec!["check", name],
        vec!["convert", name],
        vec!["generate", "-f", name],
    ] {
        let output = capstan(&arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {}", stdout(&output));
        let error = "must contain a file that ends in .yaml, .yml or .json; its subfolders are not read: inner";
        assert!(stderr(&output).contains(error), "{}", stderr(&output));
    }
}

#[test]
fn the_program_has_no_server_that_allows_everything() {
    let output = capstan(&["serve", "--dev-certificate", "memory", "--null-reviewer"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("unexpected argument '--null-reviewer'"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn every_command_has_a_man_page() {
    let folder = Folder::new();
    let pages = folder.0.path().join("man1");
    let output = capstan(&["man", "--out", pages.to_str().unwrap()], "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let help = stdout(&capstan(&["--help"], ""));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    // Other lines continue a description.
    let commands = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"check") && names.contains(&"man"), "{names:?}");
    for name in names.iter().filter(|name| **name != "help") {
        let page = std::fs::read_to_string(pages.join(format!("capstan-{name}.1"))).unwrap();
        assert!(page.contains(".TH") && page.contains("SYNOPSIS"), "{name}");
        assert!(!page.contains("null\\-reviewer"), "{name}");
    }
    assert!(stdout(&capstan(&["man"], "")).contains(".TH capstan 1"));
}

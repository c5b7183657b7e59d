//! The arguments of `capstan migrate`. `tests/mirroring` runs it with a cluster.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::stub::{Stub, not_served, status, version};
use super::{Folder, capstan, path, stderr, stdout};

#[test]
fn a_migration_needs_one_direction_and_a_cluster() {
    let refused = |arguments: &[&str], text: &str| {
        let output = capstan(&[&["migrate"], arguments].concat(), "");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(text), "{error}");
    };
    refused(&["machine", "a"], "--to <TO>");
    refused(
        &["machine", "a", "--to", "clusterAPI", "--cancel"],
        "cannot be used with",
    );
    refused(&["machine", "a", "--to", "elsewhere"], "machineAPI, clusterAPI");
    refused(&["pod", "a", "--to", "clusterAPI"], "machine, machineset");
    refused(&["machine", "--to", "clusterAPI"], "NAME");
    refused(
        &["machine", "a", "--selector", "pool=a", "--to", "clusterAPI"],
        "cannot be used with",
    );
    refused(&["machine", "a", "--to", "clusterAPI", "--parallel", "2"], "--wait");
    let folder = Folder::new();
    let kubeconfig = folder.file(
        "kubeconfig",
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
         users: [{name: a, user: {}}]\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n",
    );
    let cluster = [
        "machineset",
        "a",
        "--to",
        "machineAPI",
        "--kubeconfig",
        path(&kubeconfig),
    ];
    refused(&cluster, "cannot reach the API server at http://127.0.0.1:1");
}

/// Migrates the Machine `a` to Cluster API.
fn migrate_a(config: &Path, flags: &[&str]) -> Output {
    let command = [
        "migrate",
        "machine",
        "a",
        "--to",
        "clusterAPI",
        "--kubeconfig",
        path(config),
    ];
    capstan(&[&command[..], flags].concat(), "")
}

#[test]
fn w177_a_missing_permission_is_reported_without_structures_of_the_client() {
    let text = "machines.machine.openshift.io \"a\" is forbidden";
    let stub = Stub::new(move |_, path| match path {
        "/version" => version(),
        _ => status(403, "Forbidden", text),
    });
    let config = stub.usual();
    for format in ["text", "json"] {
        let output = migrate_a(&config, &["-o", format]);
        let all = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{all}");
        assert!(all.contains("is forbidden") && !all.contains("Status {"), "{all}");
    }
}

#[test]
fn w101_an_object_that_is_named_twice_is_migrated_once() {
    let stub = Stub::new(|method, path| match (method, path) {
        ("GET", "/version") => version(),
        ("GET", path) if path.contains("/machines/") && path.contains("machine.openshift.io") => {
            let name = path.rsplit('/').next().unwrap();
            let machine = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                "metadata": {"name": name, "namespace": "openshift-machine-api", "uid": "u", "resourceVersion": "1"},
                "spec": {"authoritativeAPI": "MachineAPI"}, "status": {"authoritativeAPI": "MachineAPI"}});
            (200, machine.to_string())
        }
        ("GET", _) => not_served(),
        _ => status(500, "InternalError", "nothing may be written"),
    });
    let config = stub.usual();
    let command = [
        "migrate",
        "machine",
        "b",
        "a",
        "b",
        "a",
        "--to",
        "clusterAPI",
        "-o",
        "json",
        "--kubeconfig",
    ];
    let output = capstan(&[&command[..], &[path(&config)]].concat(), "");
    let result: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let names: Vec<&Value> = result["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| &object["name"])
        .collect();
    assert_eq!(names, [&json!("b"), &json!("a")]);
}

/// A cluster with the Machines `asked`, whose request is stored and whose field cannot be
/// converted, and `plain`. It counts the patches.
fn two_machines(patches: &Arc<AtomicUsize>) -> Stub {
    let patches = Arc::clone(patches);
    Stub::new(move |method, path| {
        let machine = |name: &str, spec: Value| {
            json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                "metadata": {"name": name, "namespace": "openshift-machine-api", "uid": "u", "resourceVersion": "1"},
                "spec": spec, "status": {"authoritativeAPI": "MachineAPI", "synchronizedAPI": "MachineAPI"}})
        };
        let of = |path: &str| path.contains("machine.openshift.io");
        match (method, path) {
            ("GET", "/version") => version(),
            ("GET", path) if of(path) && path.ends_with("/machines/asked") => {
                let field = json!({"kind": "AWSMachineProviderConfig", "apiVersion": "machine.openshift.io/v1beta1",
                    "fieldOfTomorrow": 1});
                let spec = json!({"authoritativeAPI": "ClusterAPI", "providerSpec": {"value": field}});
                (200, machine("asked", spec).to_string())
            }
            (method, path) if of(path) && path.contains("/machines/plain") => {
                patches.fetch_add(usize::from(method == "PATCH"), Ordering::SeqCst);
                (
                    200,
                    machine("plain", json!({"authoritativeAPI": "ClusterAPI"})).to_string(),
                )
            }
            ("GET", path) if path.contains("customresourcedefinitions") => status(403, "Forbidden", "not allowed"),
            ("GET", path) if of(path) => status(404, "NotFound", "there is no such object"),
            ("GET", _) => not_served(),
            _ => status(500, "InternalError", "nothing else may be written"),
        }
    })
}

#[test]
fn w147_a_stored_request_that_cannot_be_converted_is_not_possible() {
    let stub = two_machines(&Arc::default());
    let config = stub.usual();
    let command = ["migrate", "machine", "asked", "--to", "clusterAPI", "--dry-run"];
    let output = capstan(&[&command[..], &["--kubeconfig", path(&config)]].concat(), "");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}{}", stderr(&output));
    assert!(text.contains("fieldOfTomorrow"), "{text}");
}

#[test]
fn w148_a_closed_pipe_does_not_prevent_a_request() {
    let patches = Arc::new(AtomicUsize::new(0));
    let stub = two_machines(&patches);
    let config = stub.usual();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let command = ["migrate", "machine", "plain", "--cancel", "--kubeconfig", path(&config)];
    let code = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(command)
        .stdout(writer)
        .status()
        .unwrap();
    assert_eq!((code.code(), patches.load(Ordering::SeqCst)), (Some(0), 1));
}

#[test]
fn w149_without_a_wait_an_object_that_does_not_exist_skips_no_other_one() {
    let patches = Arc::new(AtomicUsize::new(0));
    let stub = two_machines(&patches);
    let config = stub.usual();
    let command = ["migrate", "machine", "absent", "plain", "--cancel"];
    let output = capstan(&[&command[..], &["--kubeconfig", path(&config)]].concat(), "");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(2), "{text}{}", stderr(&output));
    assert_eq!(patches.load(Ordering::SeqCst), 1, "{text}");
}

#[test]
fn w146_a_request_that_is_stored_already_is_reported() {
    let stub = Stub::new(|method, path| match (method, path) {
        ("GET", "/version") => version(),
        ("GET", path) if path.contains("/machines/a") && path.contains("machine.openshift.io") => {
            let machine = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                "metadata": {"name": "a", "namespace": "openshift-machine-api", "uid": "u", "resourceVersion": "1"},
                "spec": {"authoritativeAPI": "ClusterAPI"}, "status": {"authoritativeAPI": "MachineAPI"}});
            (200, machine.to_string())
        }
        ("GET", path) if path.contains("customresourcedefinitions") => status(403, "Forbidden", "not allowed"),
        ("GET", _) => not_served(),
        _ => status(500, "InternalError", "nothing may be written"),
    });
    let config = stub.usual();
    // The Machine has no provider spec, so that the stored request cannot be carried out.
    for (flags, code) in [(&[][..], 0), (&["--dry-run"], 1)] {
        let output = migrate_a(&config, flags);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(code), "{text}{}", stderr(&output));
        assert!(text.contains("Cluster API is requested already"), "{text}");
    }
}

//! `capstan check` of objects that exist in the Machine API and in Cluster API: the verdict of a
//! cluster, offline, also for kinds without a schema in Capstan; and that each row of the document
//! has a test of the sync controller. No API server is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails is what these are for"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const MACHINE_API: &str = include_str!("fixtures/mirrored/machine-api.yaml");
const SYNC: &str = "system:serviceaccount:openshift-machine-api:capstan-controllers";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/mirrored")
        .join(name)
}

/// Exit code and output of `capstan check` of a manifest.
fn check(arguments: &[&str], text: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.yaml");
    std::fs::write(&file, text).unwrap();
    let (machine_api, cluster_api) = (fixture("machine-api.yaml"), fixture("cluster-api.yaml"));
    let arguments = arguments.iter().map(|argument| match *argument {
        "MACHINE_API" => machine_api.as_os_str(),
        "CLUSTER_API" => cluster_api.as_os_str(),
        argument => std::ffi::OsStr::new(argument),
    });
    let output = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .arg("check")
        .args(arguments)
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), text)
}

#[test]
fn a_mirror_is_judged_for_a_plain_user_and_for_the_given_user() {
    let scaled = MACHINE_API.replace("replicas: 3", "replicas: 5");
    let (code, output) = check(&["--old", "MACHINE_API"], &scaled);
    assert!(
        code == 1 && output.contains("spec.replicas: Forbidden") && output.contains("[authority-spec-locked]"),
        "{output}"
    );
    let (code, output) = check(&["--old", "MACHINE_API", "--as", SYNC], &scaled);
    assert_eq!(code, 0, "{output}");
    let (code, output) = check(
        &["--old", "MACHINE_API", "--as", "gitops", "--sync-identity", "gitops"],
        &scaled,
    );
    assert_eq!(code, 0, "{output}");
    let (code, output) = check(
        &["--old", "MACHINE_API", "--as", SYNC, "--sync-identity", "gitops"],
        &scaled,
    );
    assert_eq!(code, 1, "{output}");
}

#[test]
fn the_configured_namespaces_are_guarded() {
    let elsewhere = |text: &str| {
        text.replace("openshift-machine-api", "machines")
            .replace("openshift-cluster-api", "capi")
    };
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.yaml");
    std::fs::write(&old, elsewhere(MACHINE_API)).unwrap();
    let scaled = elsewhere(&MACHINE_API.replace("replicas: 3", "replicas: 5"));
    let old = ["--old", old.to_str().unwrap()];
    // Objects in other namespaces are not mirrored.
    let (code, output) = check(&old, &scaled);
    assert_eq!(code, 0, "{output}");
    let namespaces = ["--namespace", "machines", "--cluster-api-namespace", "capi"];
    let (code, output) = check(&[&old[..], &namespaces[..]].concat(), &scaled);
    assert!(code == 1 && output.contains("[authority-spec-locked]"), "{output}");
    assert!(output.contains("in capi") && !output.contains("openshift-"), "{output}");
    let sync = ["--as", "system:serviceaccount:machines:capstan-controllers"];
    let (code, output) = check(&[&old[..], &namespaces[..], &sync[..]].concat(), &scaled);
    assert_eq!(code, 0, "{output}");
}

#[test]
fn a_document_without_namespace_is_judged_in_the_namespace_of_its_api() {
    let anywhere = |text: &str| text.replace(", namespace: openshift-machine-api", "");
    assert_ne!(anywhere(MACHINE_API), MACHINE_API);
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.yaml");
    std::fs::write(&old, anywhere(MACHINE_API)).unwrap();
    let scaled = anywhere(&MACHINE_API.replace("replicas: 3", "replicas: 5"));
    let (code, output) = check(&["--old", old.to_str().unwrap()], &scaled);
    assert!(code == 1 && output.contains("[authority-spec-locked]"), "{output}");
}

#[test]
fn manifests_contain_the_requested_namespaces() {
    for what in ["webhooks", "policies", "rbac", "deployment"] {
        let output = Command::new(env!("CARGO_BIN_EXE_capstan"))
            .args([
                "manifests",
                what,
                "--feature=admission,controllers,mirroring",
                "--namespace=machines",
                "--cluster-api-namespace=capi",
            ])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("machines"), "{what}");
        for name in ["openshift-machine-api", "openshift-cluster-api"] {
            assert!(!text.contains(name), "{what}: {name}");
        }
        if what == "deployment" {
            // The namespace of the Machine API comes from the pod, so that kustomize can change it.
            // The process that registers the webhooks reads the other flags from the server.
            for (flag, count) in [("--namespace=$(POD_NAMESPACE)", 3), ("--cluster-api-namespace=capi", 2)] {
                assert_eq!(text.matches(&format!("        - {flag}\n")).count(), count, "{text}");
            }
        }
    }
}

#[test]
fn a_migration_request_names_what_prevents_it() {
    let back = MACHINE_API.replacen("authoritativeAPI: ClusterAPI", "authoritativeAPI: MachineAPI", 1);
    let (code, output) = check(&["--old", "MACHINE_API", "--with", "CLUSTER_API"], &back);
    assert_eq!(code, 0, "{output}");
    assert!(
        output.contains("warning: cannot migrate: spec.template.spec.readinessGates"),
        "{output}"
    );
    assert!(
        output.contains("not checked: AWSMachineTemplate t is not known"),
        "{output}"
    );
}

#[test]
fn a_creation_is_judged_by_the_given_objects_and_names_what_is_missing() {
    let new = MACHINE_API.replacen("authoritativeAPI: ClusterAPI", "authoritativeAPI: MachineAPI", 1);
    let new = &new[..new.find("status:").unwrap()];
    let (code, output) = check(&["--with", "CLUSTER_API"], new);
    assert!(
        code == 1 && output.contains("[authority-create-beside-cluster-api]"),
        "{output}"
    );
    let (code, output) = check(&[], new);
    assert!(code == 0 && output.contains("not checked"), "{output}");
    let (code, output) = check(&[], MACHINE_API);
    assert!(
        code == 0 && output.contains("warning: status.authoritativeAPI: dropped"),
        "{output}"
    );
}

#[test]
fn f9_an_object_of_another_namespace_in_the_given_files_does_not_replace_the_mirror() {
    let new = MACHINE_API.replacen("authoritativeAPI: ClusterAPI", "authoritativeAPI: MachineAPI", 1);
    let new = &new[..new.find("status:").unwrap()];
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere.yaml");
    let cluster_api = std::fs::read_to_string(fixture("cluster-api.yaml")).unwrap();
    std::fs::write(&elsewhere, cluster_api.replace("openshift-cluster-api", "elsewhere")).unwrap();
    let elsewhere = elsewhere.to_str().unwrap();
    for arguments in [
        ["--with", "CLUSTER_API", "--with", elsewhere],
        ["--with", elsewhere, "--with", "CLUSTER_API"],
    ] {
        let (code, output) = check(&arguments, new);
        assert!(
            code == 1 && output.contains("[authority-create-beside-cluster-api]"),
            "{output}"
        );
    }
    let (code, output) = check(&["--with", elsewhere], new);
    assert_eq!(code, 0, "{output}");
}

#[test]
fn a_kind_of_cluster_api_is_judged_without_a_schema() {
    let cluster_api = std::fs::read_to_string(fixture("cluster-api.yaml")).unwrap();
    let (code, output) = check(&["--with", "MACHINE_API"], &cluster_api);
    assert!(
        code == 1 && output.contains("[authority-capi-create-unpaused]"),
        "{output}"
    );
    let (code, output) = check(&["--with", "MACHINE_API", "--operation", "delete"], &cluster_api);
    assert!(
        code == 0 && output.contains("MachineSet workers in the Machine API is deleted too"),
        "{output}"
    );
}

/// A response to an API server is limited in size; the offline output is not.
#[test]
fn offline_every_field_that_prevents_a_migration_is_named() {
    let machine_api = MACHINE_API.replace("ClusterAPI", "MachineAPI");
    let fields: String = (0..60)
        .map(|number| format!("fieldOfTomorrow{number:02}: {}, ", "x".repeat(60)))
        .collect();
    let many = |text: &str| text.replace("ami: {id: a}", &format!("{fields}ami: {{id: a}}"));
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.yaml");
    std::fs::write(&old, many(&machine_api)).unwrap();
    let asked = many(&machine_api).replacen("authoritativeAPI: MachineAPI", "authoritativeAPI: ClusterAPI", 1);
    let (code, output) = check(&["--old", old.to_str().unwrap()], &asked);
    assert_eq!(code, 0, "{output}");
    for number in 0..60 {
        assert!(
            output.contains(&format!("fieldOfTomorrow{number:02}: Capstan")),
            "{number}: {output}"
        );
    }
    assert!(!output.contains("more; capstan check"), "{output}");
}

/// The rows of the table about tests, as pairs of a row and a kind, with the names of the tests.
fn tested() -> Vec<(BTreeSet<String>, String, Vec<String>)> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/both-apis.md")).unwrap();
    let table = page
        .split("| rows | kind | test in `tests/mirroring` |")
        .nth(1)
        .unwrap();
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let rows = cells[0].split(", ").map(str::to_owned).collect();
            let tests = cells[2].split('`').skip(1).step_by(2).map(str::to_owned).collect();
            (rows, cells[1].to_owned(), tests)
        })
        .collect()
}

#[test]
fn each_row_of_the_document_has_a_test_of_the_sync_controller_for_each_kind() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mirroring");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources: String = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let tested = tested();
    for (rows, kind, tests) in &tested {
        assert!(!tests.is_empty(), "{rows:?} of {kind}");
        for test in tests {
            // The function, and a call or an attribute that runs it.
            assert!(sources.contains(&format!("fn {test}(")), "{test} does not exist");
            let runs = sources.matches(&format!("{test}(")).count() > 1
                || sources.contains(&format!("#[tokio::test(flavor = \"multi_thread\")]\nasync fn {test}("));
            assert!(runs, "nothing runs {test}");
        }
    }
    let of = |kind: &str| -> BTreeSet<&str> {
        let rows = tested.iter().filter(|(_, of, _)| of == kind);
        rows.flat_map(|(rows, _, _)| rows.iter().map(String::as_str)).collect()
    };
    let creation = ["T1", "T3", "T4", "T9", "T10", "T11", "migration there and back"];
    for (kind, others) in [
        ("Machine", &["T7", "T8", "T12", "T13", "A11", "A12"][..]),
        (
            "MachineSet",
            &["D1", "D2", "D3", "A11", "a rollout under either authority"],
        ),
        ("MachineHealthCheck", &["D1", "D2", "D3"]),
    ] {
        let expected: BTreeSet<&str> = creation.iter().chain(others).copied().collect();
        assert_eq!(of(kind), expected, "{kind}");
    }
}

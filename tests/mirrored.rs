//! `capstan check` of what exists in the Machine API and in Cluster API: the verdict of a cluster, offline, also for kinds whose
//! schema is somebody else's. No API server is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails is what these are for"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

const OURS: &str = include_str!("fixtures/mirrored/machine-api.yaml");
const SYNC: &str = "system:serviceaccount:openshift-machine-api:capstan-controllers";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/mirrored")
        .join(name)
}

/// Exit code and output of `capstan check` over a text.
fn check(arguments: &[&str], text: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.yaml");
    std::fs::write(&file, text).unwrap();
    let (ours, theirs) = (fixture("machine-api.yaml"), fixture("cluster-api.yaml"));
    let arguments = arguments.iter().map(|argument| match *argument {
        "OURS" => ours.as_os_str(),
        "THEIRS" => theirs.as_os_str(),
        argument => std::ffi::OsStr::new(argument),
    });
    let output = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .arg("check")
        .args(arguments)
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

#[test]
fn a_copy_is_judged_as_a_plain_user_and_as_whoever_is_named() {
    let scaled = OURS.replace("replicas: 3", "replicas: 5");
    let (code, said) = check(&["--old", "OURS"], &scaled);
    assert!(
        code == 1 && said.contains("spec.replicas: Forbidden") && said.contains("[authority-spec-locked]"),
        "{said}"
    );
    let (code, said) = check(&["--old", "OURS", "--as", SYNC], &scaled);
    assert_eq!(code, 0, "{said}");
    let (code, said) = check(
        &["--old", "OURS", "--as", "gitops", "--sync-identity", "gitops"],
        &scaled,
    );
    assert_eq!(code, 0, "{said}");
    let (code, said) = check(&["--old", "OURS", "--as", SYNC, "--sync-identity", "gitops"], &scaled);
    assert_eq!(code, 1, "{said}");
}

#[test]
fn the_namespaces_are_those_that_are_configured() {
    let elsewhere = |text: &str| {
        text.replace("openshift-machine-api", "machines")
            .replace("openshift-cluster-api", "capi")
    };
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.yaml");
    std::fs::write(&old, elsewhere(OURS)).unwrap();
    let scaled = elsewhere(&OURS.replace("replicas: 3", "replicas: 5"));
    let old = ["--old", old.to_str().unwrap()];
    // Elsewhere nothing is mirrored.
    let (code, said) = check(&old, &scaled);
    assert_eq!(code, 0, "{said}");
    let namespaces = ["--namespace", "machines", "--cluster-api-namespace", "capi"];
    let (code, said) = check(&[&old[..], &namespaces[..]].concat(), &scaled);
    assert!(code == 1 && said.contains("[authority-spec-locked]"), "{said}");
    assert!(said.contains("in capi") && !said.contains("openshift-"), "{said}");
    let sync = ["--as", "system:serviceaccount:machines:capstan-controllers"];
    let (code, said) = check(&[&old[..], &namespaces[..], &sync[..]].concat(), &scaled);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_document_without_a_namespace_is_judged_where_its_api_lives() {
    let anywhere = |text: &str| text.replace(", namespace: openshift-machine-api", "");
    assert_ne!(anywhere(OURS), OURS);
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.yaml");
    std::fs::write(&old, anywhere(OURS)).unwrap();
    let scaled = anywhere(&OURS.replace("replicas: 3", "replicas: 5"));
    let (code, said) = check(&["--old", old.to_str().unwrap()], &scaled);
    assert!(code == 1 && said.contains("[authority-spec-locked]"), "{said}");
}

#[test]
fn what_is_installed_is_for_the_namespaces_that_are_asked_for() {
    for what in ["webhooks", "policies", "rbac", "deployment"] {
        let output = Command::new(env!("CARGO_BIN_EXE_capstan"))
            .args([
                "manifests",
                what,
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
            let flags = "- serve\n        - --namespace=machines\n        - --cluster-api-namespace=capi\n";
            assert_eq!(text.matches(flags).count(), 2, "{text}");
        }
    }
}

#[test]
fn a_migration_names_what_stands_in_its_way() {
    let back = OURS.replacen("authoritativeAPI: ClusterAPI", "authoritativeAPI: MachineAPI", 1);
    let (code, said) = check(&["--old", "OURS", "--with", "THEIRS"], &back);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("warning: cannot migrate: spec.template.spec.readinessGates"),
        "{said}"
    );
    assert!(
        said.contains("not checked: AWSMachineTemplate t is not known"),
        "{said}"
    );
}

#[test]
fn a_creation_is_judged_by_what_is_given_and_says_what_is_not() {
    let new = OURS.replacen("authoritativeAPI: ClusterAPI", "authoritativeAPI: MachineAPI", 1);
    let new = &new[..new.find("status:").unwrap()];
    let (code, said) = check(&["--with", "THEIRS"], new);
    assert!(
        code == 1 && said.contains("[authority-create-beside-cluster-api]"),
        "{said}"
    );
    let (code, said) = check(&[], new);
    assert!(code == 0 && said.contains("not checked"), "{said}");
    let (code, said) = check(&[], OURS);
    assert!(code == 1 && said.contains("[authority-status-at-creation]"), "{said}");
}

#[test]
fn a_kind_of_cluster_api_is_judged_without_its_schema() {
    let theirs = std::fs::read_to_string(fixture("cluster-api.yaml")).unwrap();
    let (code, said) = check(&["--with", "OURS"], &theirs);
    assert!(code == 1 && said.contains("[authority-capi-create-unpaused]"), "{said}");
    let (code, said) = check(&["--with", "OURS", "--operation", "delete"], &theirs);
    assert!(
        code == 0 && said.contains("the Machine API's MachineSet workers is deleted with it"),
        "{said}"
    );
}

/// Where an answer to the API server has to stop, this goes on.
#[test]
fn offline_every_field_that_stands_in_the_way_is_named() {
    let ours = OURS.replace("ClusterAPI", "MachineAPI");
    let fields: String = (0..60)
        .map(|number| format!("fieldOfTomorrow{number:02}: {}, ", "x".repeat(60)))
        .collect();
    let many = |text: &str| text.replace("ami: {id: a}", &format!("{fields}ami: {{id: a}}"));
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.yaml");
    std::fs::write(&old, many(&ours)).unwrap();
    let asked = many(&ours).replacen("authoritativeAPI: MachineAPI", "authoritativeAPI: ClusterAPI", 1);
    let (code, said) = check(&["--old", old.to_str().unwrap()], &asked);
    assert_eq!(code, 0, "{said}");
    for number in 0..60 {
        assert!(
            said.contains(&format!("fieldOfTomorrow{number:02}: Capstan")),
            "{number}: {said}"
        );
    }
    assert!(!said.contains("more; capstan check"), "{said}");
}

//! The files of a release: checksums, manifests, chart, binary, and the list of components.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use capstan_sandbox::control_plane::Binaries;
use capstan_sandbox::neighbours::tools;
use capstan_sandbox::release;
use serde_json::Value;

const CAPSTAN: &str = env!("CARGO_BIN_EXE_capstan");

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_release_is_complete_and_its_checksums_fit() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let image = folder.path().join("capstan-amd64.oci.tar");
    std::fs::write(&image, "an image").unwrap();
    release::assemble(Path::new(CAPSTAN), &[image], &out).unwrap();
    assert!(out.join("capstan-amd64.oci.tar").exists());
    assert!(
        release::assemble(Path::new(CAPSTAN), &[], &out).is_err(),
        "the folder is not empty"
    );

    let sums = run(Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(&out));
    let files = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(sums.lines().count(), files - 1, "{sums}");

    let printed = run(Command::new(CAPSTAN).args(["manifests", "all"]));
    assert_eq!(std::fs::read_to_string(out.join("install.yaml")).unwrap(), printed);

    let version = env!("CARGO_PKG_VERSION");
    let bundle = out.join(format!("capstan-bundle-{version}.tgz"));
    let listed = run(Command::new("tar").arg("-tzf").arg(bundle));
    assert!(
        listed.contains("manifests/capstan.clusterserviceversion.yaml"),
        "{listed}"
    );
    let chart = out.join(format!("capstan-{version}.tgz"));
    let shown = run(Command::new(tools::helm().unwrap()).args(["show", "chart"]).arg(chart));
    assert!(shown.contains(&format!("version: {version}")), "{shown}");

    let provenance = json(&out.join("provenance.json"));
    let subjects: Vec<&str> = provenance["subject"]
        .as_array()
        .unwrap()
        .iter()
        .map(|subject| subject["name"].as_str().unwrap())
        .collect();
    assert!(
        subjects.contains(&"install.yaml") && subjects.contains(&"capstan.cdx.json"),
        "{subjects:?}"
    );
    let commit = &provenance["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"];
    assert_eq!(commit.as_str().unwrap().len(), 40);

    components(&json(&out.join("capstan.cdx.json")));
    kubectl_finds_the_plugin(&out, folder.path());
}

/// Every component is a locked crate with its checksum, and those of tests are not listed.
fn components(list: &Value) {
    assert_eq!(list["specVersion"], "1.5");
    let components = list["components"].as_array().unwrap();
    let names: BTreeSet<&str> = components.iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in ["capstan-core", "kube", "rustls", "tokio"] {
        assert!(names.contains(name), "{name}");
    }
    for name in ["insta", "proptest", "capstan-sandbox", "capstan"] {
        assert!(!names.contains(name), "{name}");
    }
    let mut references: BTreeSet<&str> = components.iter().map(|one| one["bom-ref"].as_str().unwrap()).collect();
    references.insert(list["metadata"]["component"]["bom-ref"].as_str().unwrap());
    for component in components {
        let name = component["name"].as_str().unwrap();
        let hashed = component["hashes"].as_array().unwrap().len();
        assert_eq!(hashed, usize::from(name != "capstan-core"), "{component}");
        assert_ne!(component["licenses"][0]["expression"], "", "{component}");
    }
    for dependency in list["dependencies"].as_array().unwrap() {
        for on in dependency["dependsOn"].as_array().unwrap() {
            assert!(references.contains(on.as_str().unwrap()), "{on}");
        }
    }
}

/// kubectl runs the binary of the archive for `kubectl capstan`.
fn kubectl_finds_the_plugin(out: &Path, folder: &Path) {
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let archive = out.join(format!("capstan-{}-{platform}.tar.gz", env!("CARGO_PKG_VERSION")));
    let path = folder.join("path");
    std::fs::create_dir(&path).unwrap();
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&path));
    let kubectl = Binaries::locate().unwrap().kubectl;
    let version = run(Command::new(kubectl).args(["capstan", "version"]).env("PATH", &path));
    assert!(version.starts_with("capstan "), "{version}");
}

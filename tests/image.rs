//! The root file system of the image: the binary runs in it, without anything of this machine.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Builds the root file system of the program under test.
fn root(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    let output = assemble(&root);
    assert!(output.status.success(), "{}", text(&output.stderr));
    root
}

fn assemble(root: &Path) -> Output {
    Command::new(repository().join("image/root-file-system.sh"))
        .arg(env!("CARGO_BIN_EXE_capstan"))
        .arg(root)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What runs a program in another root. In a user namespace of its own, a process needs no
/// permission for that; a machine without user namespaces must give the permission.
fn chroot() -> Command {
    let namespace = ["--user", "--map-root-user"];
    let try_out = Command::new("unshare").args(namespace).arg("true").output();
    if try_out.is_ok_and(|output| output.status.success()) {
        let mut command = Command::new("unshare");
        command.args(namespace).arg("chroot");
        return command;
    }
    Command::new("chroot")
}

/// Runs the entry point in the root file system.
fn run(root: &Path, arguments: &[&str]) -> Output {
    chroot()
        .arg(root)
        .arg("/usr/bin/capstan")
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap()
}

#[test]
fn the_program_runs_in_the_root_file_system_of_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let root = root(folder.path());
    let output = run(&root, &["version", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains(env!("CARGO_PKG_VERSION")),
        "{}",
        text(&output.stdout)
    );
    // Rules, CRDs and manifests are part of the binary.
    let output = run(
        &root,
        &["manifests", "all", "--feature", "admission,controllers,mirroring"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("kind: Deployment"));
    std::fs::write(
        root.join("set.yaml"),
        "{apiVersion: machine.openshift.io/v1, kind: ControlPlaneMachineSet}",
    )
    .unwrap();
    let output = run(&root, &["check", "/set.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn the_image_contains_the_program_and_its_libraries_only() {
    let folder = tempfile::tempdir().unwrap();
    let root = root(folder.path());
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                files.push(name);
            }
        }
    }
    files.retain(|name| !name.contains(".so"));
    files.sort();
    assert_eq!(files, ["etc/group", "etc/passwd", "usr/bin/capstan"]);
    let again = assemble(&root);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("must be empty"), "{}", text(&again.stderr));
}

#[test]
fn the_image_starts_the_program_as_the_user_that_the_deployments_require() {
    let file = std::fs::read_to_string(repository().join("Containerfile")).unwrap();
    let lines: Vec<&str> = file.lines().filter(|line| !line.starts_with('#')).collect();
    let base: Vec<&&str> = lines.iter().filter(|line| line.starts_with("FROM ")).collect();
    assert_eq!(base, [&"FROM scratch"]);
    assert!(lines.contains(&"USER 65532:65532"));
    assert!(lines.contains(&"ENTRYPOINT [\"/usr/bin/capstan\"]"));
    for manifest in [
        "manifests/base/deployment.yaml",
        "manifests/components/controllers/deployment.yaml",
    ] {
        let text = std::fs::read_to_string(repository().join(manifest)).unwrap();
        let deployments: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
        for deployment in deployments.iter().filter(|object| object["kind"] == "Deployment") {
            let pod = &deployment["spec"]["template"]["spec"];
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            let container = &pod["containers"][0];
            // The entry point of the image runs, with these arguments.
            assert!(container.get("command").is_none() && container["args"][0] == "serve");
        }
    }
}

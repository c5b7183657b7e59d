//! Assembles the files of a release: manifests, the Helm chart, the bundle for OLM, the binary, a
//! list of its components, the provenance, and checksums.
//!
//! It must never build or download anything: the caller builds the binary. The result depends on
//! the sources and the binary only, and not on the time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::environment::workspace;

const REPOSITORY: &str = "https://github.com/capstan-dev/capstan";

/// The manifests of a release: the name of the file, and the arguments of `capstan manifests`.
const MANIFESTS: [(&str, &[&str]); 4] = [
    ("crds.yaml", &["crds"]),
    ("install.yaml", &["all"]),
    ("install-controllers.yaml", &["all", "--feature=admission,controllers"]),
    (
        "install-all.yaml",
        &["all", "--feature=admission,controllers,mirroring"],
    ),
];

/// Writes all files of the release of this binary, and copies of other files such as images, into
/// an empty folder.
///
/// # Errors
/// The folder is not empty, or a program that it needs (cargo, git, tar) fails.
pub fn assemble(capstan: &Path, others: &[PathBuf], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let is_empty = fs::read_dir(folder)?.next().is_none();
    ensure!(
        is_empty,
        "{} must be empty: all its files are released",
        folder.display()
    );
    let version = env!("CARGO_PKG_VERSION");
    for (name, arguments) in MANIFESTS {
        let text = run(Command::new(capstan).arg("manifests").args(arguments))?;
        write(folder, name, &text)?;
    }
    archive(
        folder,
        &format!("capstan-{version}.tgz"),
        &workspace().join("charts"),
        &["capstan"],
    )?;
    bundle(capstan, folder, version)?;
    binary(capstan, folder, version)?;
    for file in others {
        let name = file
            .file_name()
            .with_context(|| format!("{} must be a file", file.display()))?;
        fs::copy(file, folder.join(name)).with_context(|| format!("copying {}", file.display()))?;
    }
    write(folder, "capstan.cdx.json", &pretty(&components()?)?)?;
    let subjects = digests(folder)?;
    write(folder, "provenance.json", &pretty(&provenance(&subjects)?)?)?;
    let mut sums = String::new();
    for (name, digest) in digests(folder)? {
        writeln!(sums, "{digest}  {name}")?;
    }
    write(folder, "SHA256SUMS", &sums)
}

/// The bundle for the Operator Lifecycle Manager.
fn bundle(capstan: &Path, folder: &Path, version: &str) -> Result<()> {
    let content = tempfile::tempdir().context("creating a folder for the bundle")?;
    run(Command::new(capstan)
        .args(["manifests", "bundle", "--out"])
        .arg(content.path()))?;
    let files = ["bundle.Containerfile", "manifests", "metadata"];
    archive(folder, &format!("capstan-bundle-{version}.tgz"), content.path(), &files)
}

/// The binary under both of its names: kubectl runs `kubectl-capstan` for `kubectl capstan`.
fn binary(capstan: &Path, folder: &Path, version: &str) -> Result<()> {
    let content = tempfile::tempdir().context("creating a folder for the binary")?;
    fs::copy(capstan, content.path().join("capstan")).with_context(|| format!("copying {}", capstan.display()))?;
    std::os::unix::fs::symlink("capstan", content.path().join("kubectl-capstan"))?;
    fs::copy(workspace().join("LICENSE"), content.path().join("LICENSE"))?;
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let files = ["LICENSE", "capstan", "kubectl-capstan"];
    archive(
        folder,
        &format!("capstan-{version}-{platform}.tar.gz"),
        content.path(),
        &files,
    )
}

/// Packs files of a folder. The archive contains no owner and no time.
fn archive(folder: &Path, name: &str, from: &Path, files: &[&str]) -> Result<()> {
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
    // Without the flag, gzip writes the time into its header.
    command.args(["--use-compress-program=gzip -n", "--create", "--file"]);
    run(command.arg(folder.join(name)).arg("--directory").arg(from).args(files))?;
    Ok(())
}

/// The crates that the binary is built from, as CycloneDX.
fn components() -> Result<Value> {
    let mut command = Command::new("cargo");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    command.args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        &target,
    ]);
    let metadata: Value =
        serde_json::from_str(&run(command.current_dir(workspace()))?).context("reading cargo metadata")?;
    let packages: BTreeMap<&str, &Value> = list(&metadata, "/packages")
        .map(|package| (text(package, "id"), package))
        .collect();
    let nodes: BTreeMap<&str, &Value> = list(&metadata, "/resolve/nodes")
        .map(|node| (text(node, "id"), node))
        .collect();
    let root = list(&metadata, "/packages").find(|package| text(package, "name") == "capstan");
    let root = text(root.context("cargo metadata does not list capstan")?, "id");
    let mut wanted = BTreeSet::from([root]);
    let mut next = vec![root];
    let mut dependencies = Vec::new();
    while let Some(id) = next.pop() {
        let direct: BTreeSet<&str> = nodes.get(id).map(|node| direct(node)).unwrap_or_default();
        next.extend(direct.iter().filter(|id| !wanted.contains(*id)));
        wanted.extend(&direct);
        dependencies.push(json!({"ref": id, "dependsOn": direct}));
    }
    dependencies.sort_by_key(|entry| text(entry, "ref").to_owned());
    let lock = fs::read_to_string(workspace().join("Cargo.lock")).context("reading Cargo.lock")?;
    let component = |id: &&str| packages.get(*id).map(|package| component(package, &lock));
    let mut components: Vec<Value> = wanted.iter().filter(|id| **id != root).filter_map(component).collect();
    components.sort_by_key(|entry| text(entry, "purl").to_owned());
    let application = packages.get(root).map(|package| component_of_root(package));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": application},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The crates that a crate is built with, without those of its tests.
fn direct(node: &Value) -> BTreeSet<&str> {
    let is_built = |dependency: &&Value| {
        let mut kinds = list(dependency, "/dep_kinds");
        kinds.any(|kind| kind.get("kind").and_then(Value::as_str) != Some("dev"))
    };
    list(node, "/deps")
        .filter(is_built)
        .map(|dependency| text(dependency, "pkg"))
        .collect()
}

fn component_of_root(package: &Value) -> Value {
    json!({"type": "application", "bom-ref": text(package, "id"), "name": "capstan", "version": text(package, "version")})
}

fn component(package: &Value, lock: &str) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let rest = lock.split(&entry).nth(1).unwrap_or_default();
    let rest = rest.split("[[package]]").next().unwrap_or_default();
    let checksum = rest.lines().find_map(|line| line.strip_prefix("checksum = \""));
    let hashes: Vec<Value> = checksum
        .map(|checksum| json!({"alg": "SHA-256", "content": checksum.trim_end_matches('"')}))
        .into_iter()
        .collect();
    // Some crates use the former notation of SPDX.
    let license = text(package, "license").replace('/', " OR ");
    json!({
        "type": "library",
        "bom-ref": text(package, "id"),
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
        "licenses": [{"expression": license}],
        "hashes": hashes,
    })
}

/// From which commit the files were made, as an in-toto statement. It is not signed.
fn provenance(subjects: &BTreeMap<String, String>) -> Result<Value> {
    let git = |arguments: &[&str]| run(Command::new("git").args(arguments).current_dir(workspace()));
    let commit = git(&["rev-parse", "HEAD"])?;
    let changes = git(&["status", "--porcelain"])?;
    let subjects: Vec<Value> = subjects
        .iter()
        .map(|(name, digest)| json!({"name": name, "digest": {"sha256": digest}}))
        .collect();
    Ok(json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{REPOSITORY}/blob/main/Makefile#release"),
                "externalParameters": {"command": "make release", "uncommittedChanges": !changes.is_empty()},
                "resolvedDependencies": [{"uri": format!("git+{REPOSITORY}"), "digest": {"gitCommit": commit.trim()}}],
            },
            "runDetails": {"builder": {"id": format!("{REPOSITORY}/blob/main/Makefile")}},
        },
    }))
}

/// The SHA-256 of each file in a folder.
fn digests(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut digests = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let digest: String = Sha256::digest(content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        digests.insert(name, digest);
    }
    Ok(digests)
}

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// The standard output of a program that must succeed.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {program}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed: {errors}");
    String::from_utf8(output.stdout).with_context(|| format!("reading the output of {program}"))
}

//! Builds the binaries from the Go module that pins them. One process builds at a time; what is half built is never
//! found.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::binaries::Tool;
use super::process::{Tether, spawn_tethered};

/// Names the way of building, beside the versions. Change it when a change below makes other binaries.
pub(super) const RECIPE: &str = "1: trimpath, no cgo, stripped, version stamped\n";

/// Builds `tools` into `cache`, each under a temporary name first.
///
/// # Errors
/// The step that failed; what Go had to say is on standard error already.
pub(super) fn build(go: &Path, module: &Path, cache: &Path, tools: &[Tool]) -> Result<()> {
    fs::create_dir_all(cache).with_context(|| format!("creating {}", cache.display()))?;
    let _only_builder = lock(cache)?;
    // Another process may have built them while this one waited.
    let missing: Vec<Tool> = tools
        .iter()
        .copied()
        .filter(|tool| !cache.join(tool.file_name()).is_file())
        .collect();
    let version = pinned_version(module)?;
    for (index, tool) in missing.iter().enumerate() {
        let name = tool.file_name();
        tell(&format!(
            "building {name} with Go, {} of {} (all four take about four minutes, once)",
            index + 1,
            missing.len()
        ));
        let began = Instant::now();
        let unfinished = cache.join(format!(".{name}.unfinished"));
        let mut command = Command::new(go);
        command
            .current_dir(module)
            .args(["build", "-trimpath", "-ldflags", &linker_flags(&version), "-o"])
            .arg(&unfinished)
            .arg(package(*tool))
            // Standard output is for the answer of whoever called us.
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .env("CGO_ENABLED", "0")
            // Settings of the user's other projects.
            .env("GOFLAGS", "")
            .env("GOWORK", "off");
        // Interrupted, Go removes its work folder. In our process group, so that Ctrl-C reaches the compilers too.
        let status = spawn_tethered(
            command,
            Tether {
                signal: Signal::INT,
                own_group: false,
            },
        )
        .and_then(|mut child| child.wait())
        .with_context(|| format!("running {}", go.display()))?;
        if !status.success() {
            bail!("building {name} with {} failed ({status})", go.display());
        }
        fs::rename(&unfinished, cache.join(name)).with_context(|| format!("moving {name} into {}", cache.display()))?;
        tell(&format!("built {name} in {} s", began.elapsed().as_secs()));
    }
    Ok(())
}

fn package(tool: Tool) -> &'static str {
    match tool {
        Tool::Etcd => "go.etcd.io/etcd/server/v3",
        Tool::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
        Tool::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
        Tool::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
    }
}

/// The version of Kubernetes in `go.mod`, such as `v1.36.3`.
fn pinned_version(module: &Path) -> Result<String> {
    let path = module.join("go.mod");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
        .find_map(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .with_context(|| format!("{} requires no k8s.io/kubernetes", path.display()))
}

/// Without the stamp the server calls itself v0.0.0, and kubectl warns about the skew.
fn linker_flags(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let base = "k8s.io/component-base/version";
    format!("-s -w -X {base}.gitVersion={version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}")
}

/// The right to build, until it is dropped. The kernel takes it back from a process that dies.
fn lock(cache: &Path) -> Result<File> {
    let path = cache.join(".lock");
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            tell("another process builds the control plane's binaries; waiting for it");
            file.lock().with_context(|| format!("locking {}", path.display()))?;
        }
        Err(fs::TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("locking {}", path.display()));
        }
    }
    Ok(file)
}

/// Straight to the stream: the test harness swallows what `eprintln!` writes, and a silent four minutes look like a
/// hang.
fn tell(line: &str) {
    // Progress that cannot be shown is no reason to fail.
    let _ = io::stderr().write_all(format!("capstan-sandbox: {line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_plane::binaries::module_folder;

    #[test]
    fn the_stamped_version_is_the_one_that_go_mod_pins() {
        let version = pinned_version(&module_folder()).unwrap();
        assert!(version.starts_with("v1."), "{version}");
        let flags = linker_flags("v1.36.3");
        assert!(flags.contains("gitVersion=v1.36.3") && flags.contains("gitMajor=1") && flags.contains("gitMinor=36"));
    }

    /// A module in which a shell, called as Go would be (`build -trimpath -ldflags … -o FILE PACKAGE`), runs `body`.
    fn module_where_a_shell_builds(folder: &Path, body: &str) {
        fs::copy(module_folder().join("go.mod"), folder.join("go.mod")).unwrap();
        fs::write(folder.join("build"), body).unwrap();
    }

    const SHELL: &str = "/bin/sh";

    #[test]
    fn two_builders_at_once_build_each_binary_once() {
        let module = tempfile::tempdir().unwrap();
        let cache = module.path().join("cache");
        module_where_a_shell_builds(module.path(), "echo $6 >> runs; sleep 0.2; echo built > $5");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| build(Path::new(SHELL), module.path(), &cache, &[Tool::Etcd, Tool::Kubectl]).unwrap());
            }
        });
        let runs = fs::read_to_string(module.path().join("runs")).unwrap();
        assert_eq!(runs, "go.etcd.io/etcd/server/v3\nk8s.io/kubernetes/cmd/kubectl\n");
        assert_eq!(fs::read_to_string(cache.join("kubectl")).unwrap(), "built\n");
    }

    #[test]
    fn a_failed_build_leaves_nothing_that_would_be_found() {
        let module = tempfile::tempdir().unwrap();
        let cache = module.path().join("cache");
        module_where_a_shell_builds(module.path(), "echo half > $5; exit 3");
        let error = build(Path::new(SHELL), module.path(), &cache, &[Tool::Etcd]).unwrap_err();
        assert!(error.to_string().contains("building etcd"), "{error}");
        assert!(!cache.join("etcd").exists());
    }
}

//! Builds the binaries from the Go module that pins their versions.
//!
//! One process builds at a time. A binary gets its final name when it is complete, so an
//! interrupted build leaves no binary.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::tool::Tool;
use crate::go::{self, Program, report};

/// Identifies the way of building. Change it when a change in this file changes the binaries.
pub(super) const RECIPE: &str = "1: trimpath, no cgo, stripped, version stamped\n";

/// Builds `tools` into the folder `cache`.
///
/// # Errors
/// A step fails. Go has printed its own messages on standard error.
pub(super) fn build(go: &Path, module: &Path, cache: &Path, tools: &[Tool]) -> Result<()> {
    fs::create_dir_all(cache).with_context(|| format!("creating {}", cache.display()))?;
    let _only_builder = go::lock(cache)?;
    // Another process may have built them while this one waited.
    let missing: Vec<Tool> = tools
        .iter()
        .copied()
        .filter(|tool| !cache.join(tool.file_name()).is_file())
        .collect();
    let flags = linker_flags(&pinned_version(module)?);
    for (index, tool) in missing.iter().enumerate() {
        let name = tool.file_name();
        report(&format!(
            "building {name} with Go, {} of {} (all of them take about four minutes, once)",
            index + 1,
            missing.len()
        ));
        let began = Instant::now();
        let program = Program {
            name,
            package: tool.package(),
            linker_flags: &flags,
        };
        go::build(go, module, &program, cache)?;
        report(&format!("built {name} in {} s", began.elapsed().as_secs()));
    }
    Ok(())
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

/// The linker flags that set the version. Without them the server reports v0.0.0, and kubectl warns
/// about version skew.
fn linker_flags(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let base = "k8s.io/component-base/version";
    format!("-s -w -X {base}.gitVersion={version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_plane::binaries::module_folder;

    #[test]
    fn the_binaries_report_the_version_that_go_mod_pins() {
        let version = pinned_version(&module_folder()).unwrap();
        assert!(version.starts_with("v1."), "{version}");
        let flags = linker_flags("v1.36.3");
        assert!(flags.contains("gitVersion=v1.36.3") && flags.contains("gitMajor=1") && flags.contains("gitMinor=36"));
    }

    /// Makes a module in which a shell runs `body` when it is called like Go: `build -trimpath
    /// -ldflags … -o FILE PACKAGE`.
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
    fn a_failed_build_leaves_no_binary() {
        let module = tempfile::tempdir().unwrap();
        let cache = module.path().join("cache");
        module_where_a_shell_builds(module.path(), "echo half > $5; exit 3");
        let error = build(Path::new(SHELL), module.path(), &cache, &[Tool::Etcd]).unwrap_err();
        assert!(error.to_string().contains("building etcd"), "{error}");
        assert!(!cache.join("etcd").exists());
    }
}

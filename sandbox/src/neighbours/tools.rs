//! The tools of other projects that judge what Capstan is installed with. Helm has the version of
//! `sandbox/neighbours/helm/go.mod`, and promtool is that of this machine, or of Debian.
//!
//! Only tests use them: Capstan needs none of them, and none of them becomes a part of Capstan.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::programs;
use crate::environment::Places;
use crate::go;

/// Helm, which is built if it is missing.
///
/// # Errors
/// Go is not installed, or the build fails.
pub fn helm() -> Result<PathBuf> {
    programs::program_of("helm", "helm.sh/helm/v3/cmd/helm")
}

/// The tool of Prometheus that tests alerts: the one on `PATH`, or else the one of Debian's package
/// `prometheus`. The package is unpacked beside the other neighbours and is not installed, because
/// its installation starts a server. A build with Go would take seven minutes of a processor.
///
/// # Errors
/// There is no promtool on `PATH`, and the package cannot be downloaded or unpacked.
pub fn promtool() -> Result<PathBuf> {
    let places = Places::from_environment();
    if let Some(installed) = places.on_path("promtool") {
        return Ok(installed);
    }
    let cache = places.target.join("neighbours/prometheus");
    let unpacked = cache.join("package");
    let program = unpacked.join("usr/bin/promtool");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    let _only_one = go::lock(&cache)?;
    // Another process may have unpacked it while this one waited.
    if !program.is_file() {
        let advice = "the test of the alerts needs promtool on PATH: install Prometheus";
        unpack("prometheus", &cache, &unpacked).context(advice)?;
        ensure!(
            program.is_file(),
            "{advice}. Debian's package contains no {}",
            program.display()
        );
    }
    Ok(program)
}

/// Downloads a package of Debian to `cache`, and unpacks it as the folder `unpacked`.
fn unpack(package: &str, cache: &Path, unpacked: &Path) -> Result<()> {
    let download = format!(
        "rm -rf unfinished {package}_*.deb && {{ apt-get download -qq {package} || {{ apt-get update -qq && \
         apt-get download -qq {package}; }}; }} && dpkg-deb --extract {package}_*.deb unfinished"
    );
    let output = Command::new("sh")
        .args(["-c", &download])
        .current_dir(cache)
        .output()
        .context("running sh")?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "downloading Debian's package {package} failed: {message}"
    );
    // The folder gets its final name when it is complete.
    fs::rename(cache.join("unfinished"), unpacked).with_context(|| format!("naming {}", unpacked.display()))
}

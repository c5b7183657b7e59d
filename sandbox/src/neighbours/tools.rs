//! The tools of other projects that judge what Capstan is installed with. Their versions are those
//! of `sandbox/neighbours/*/go.mod`.
//!
//! Only tests use them: Capstan needs none of them, and none of them becomes a part of Capstan.

use std::path::PathBuf;

use anyhow::Result;

use super::programs;

/// Helm, which is built if it is missing.
///
/// # Errors
/// Go is not installed, or the build fails.
pub fn helm() -> Result<PathBuf> {
    programs::program_of("helm", "helm.sh/helm/v3/cmd/helm")
}

/// The tool of Prometheus that tests alerts, which is built if it is missing.
///
/// # Errors
/// Go is not installed, or the build fails.
pub fn promtool() -> Result<PathBuf> {
    programs::program_of("promtool", "github.com/prometheus/prometheus/cmd/promtool")
}

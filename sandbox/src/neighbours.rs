//! Components of other projects that run beside Capstan in tests, from published Go modules.
//!
//! Nothing of them is part of this repository. Programs are built once into the target folder, and
//! files are read from Go's module cache. The versions are those of `sandbox/neighbours/*/go.mod`
//! and of [`provider_crds`].
//! It must never connect to an address other than 127.0.0.1, except that Go downloads modules.

pub mod cluster_api;
pub mod kubelet;
pub mod machine_webhook;
pub mod olm;
pub mod openshift_api;
mod programs;
pub mod provider_crds;
pub mod suite;
pub mod tools;

use anyhow::Result;

/// Builds all programs that are missing, so that no test waits for Go.
///
/// # Errors
/// Go is not installed, or a build fails.
pub fn build() -> Result<()> {
    cluster_api::build()?;
    kubelet::build()?;
    machine_webhook::build()?;
    olm::build()?;
    tools::helm().map(drop)
}

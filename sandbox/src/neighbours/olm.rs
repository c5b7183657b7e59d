//! The operators of the Operator Lifecycle Manager (OLM) beside the control plane:
//! `sandbox/neighbours/olm`. One executes install plans, the other installs a
//! ClusterServiceVersion. OLM's own programs listen on all addresses of a machine; this one has no
//! server.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::programs;
use crate::control_plane::{ControlPlane, Process};
use crate::go;

/// The name of the module and of its program.
const NAME: &str = "olm";

/// The folder with OLM's CRDs.
///
/// # Errors
/// Go is not installed, or cannot download the module.
pub fn definitions() -> Result<PathBuf> {
    let go = go::locate("reading the CRDs of the Operator Lifecycle Manager")?;
    let module = programs::module(NAME);
    Ok(go::dependency(&go, &module, "github.com/operator-framework/api")?.join("crds"))
}

/// Builds the program if it is missing.
pub(super) fn build() -> Result<()> {
    programs::program(NAME).map(drop)
}

/// The steps of the install plan that OLM makes for the objects of a bundle.
///
/// # Errors
/// The program cannot be built, or OLM refuses the bundle.
pub fn plan(bundle: &[Value], namespace: &str) -> Result<Value> {
    let mut child = Command::new(programs::program(NAME)?)
        .arg("plan")
        .env("NAMESPACE", namespace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting OLM")?;
    let mut input = child.stdin.take().context("OLM has no input")?;
    // The program reads its whole input before it answers.
    input.write_all(&serde_json::to_vec(bundle)?)?;
    drop(input);
    let output = child.wait_with_output().context("waiting for OLM")?;
    ensure!(
        output.status.success(),
        "OLM cannot plan the bundle ({})",
        output.status
    );
    serde_json::from_slice(&output.stdout).context("parsing the steps of OLM")
}

/// Starts both operators. They stop when the process is dropped.
///
/// # Errors
/// The program cannot be built or started.
pub async fn start(plane: &ControlPlane, namespace: &str) -> Result<Process> {
    let program = tokio::task::spawn_blocking(|| programs::program(NAME))
        .await
        .context("building OLM")??;
    let mut command = Command::new(program);
    command
        .env("NAMESPACE", namespace)
        .env("KUBECONFIG", plane.kubeconfig()?);
    Process::spawn(NAME, command, &plane.folder().join("olm.log"))
}

//! The port-forwards of a kubelet, with the streaming server that kubelets and container runtimes
//! use: `sandbox/neighbours/kubelet`.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::programs;
use crate::control_plane::{ControlPlane, Process, free_port};

/// The name of the module and of its program.
const NAME: &str = "kubelet";

/// Builds the program if it is missing.
pub(super) fn build() -> Result<()> {
    programs::program(NAME).map(drop)
}

/// A running kubelet. It stops when this is dropped.
#[derive(Debug)]
pub struct Kubelet {
    /// Its port on loopback, for the status of a Node.
    pub port: u16,
    _process: Process,
}

impl Kubelet {
    /// Starts a kubelet beside a control plane. It forwards each port of each pod to the same port
    /// on loopback, by SPDY, and by WebSocket if `accepts_websocket`.
    ///
    /// # Errors
    /// The program cannot be built or started.
    pub async fn start(plane: &ControlPlane, accepts_websocket: bool) -> Result<Self> {
        let program = tokio::task::spawn_blocking(|| programs::program(NAME))
            .await
            .context("building the kubelet")??;
        let files = plane.serving_certificate(NAME)?;
        let port = free_port()?;
        let mut command = Command::new(program);
        command
            .arg(format!("--listen=127.0.0.1:{port}"))
            .arg(format!("--certificate={}", files.certificate.display()))
            .arg(format!("--key={}", files.key.display()))
            .arg(format!("--websocket={accepts_websocket}"));
        let ready = format!("https://127.0.0.1:{port}/readyz");
        // Several kubelets can run beside one control plane, each with a log.
        let name = format!("{NAME}-{port}");
        let process = plane.start_server(&name, command, &ready).await?;
        Ok(Self {
            port,
            _process: process,
        })
    }
}

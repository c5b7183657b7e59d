//! The port-forwards of a kubelet, with the streaming server that kubelets and container runtimes
//! use: `sandbox/neighbours/kubelet`.

use anyhow::Result;

use super::programs::{self, Server};
use crate::control_plane::ControlPlane;

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
    _server: Server,
}

impl Kubelet {
    /// Starts a kubelet beside a control plane. It forwards each port of each pod to the same port
    /// on loopback, by SPDY, and by WebSocket if `accepts_websocket`.
    ///
    /// # Errors
    /// The program cannot be built or started.
    pub async fn start(plane: &ControlPlane, accepts_websocket: bool) -> Result<Self> {
        let accepts = format!("--websocket={accepts_websocket}");
        let server = programs::serve(plane, NAME, &[accepts]).await?;
        Ok(Self {
            port: server.port,
            _server: server,
        })
    }
}

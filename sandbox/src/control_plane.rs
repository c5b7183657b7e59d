//! A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager and kubectl, for tests and `make
//! run`.
//!
//! It owns where the binaries come from, how they are started, who may speak to them, and that they end with their
//! owner, also when the owner is killed. It must never listen on, or speak to, anything but 127.0.0.1, and never touch
//! a cluster of the user's.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use capstan_sandbox::control_plane::{ControlPlane, Options};
//!
//! let plane = ControlPlane::start(Options::default()).await?;
//! plane.allow("alice", &["get", "list"], "", &["configmaps"]).await?;
//! let output = plane.kubectl().as_user("alice", &["devs"]).args(["get", "configmaps"]).run().await?;
//! assert!(output.success(), "{output}");
//! # Ok(())
//! # }
//! ```

mod access;
mod audit;
mod binaries;
mod build;
mod certificates;
mod folder;
mod kubectl;
mod plane;
mod process;
mod proxy;
mod wait;
mod webhook;

pub use audit::AuditEvent;
pub use binaries::Binaries;
pub use kubectl::{Editor, Kubectl, Output};
pub use plane::{ControlPlane, Options};
pub use process::Process;
pub use proxy::{Call, Calm, Faults, Proxy};
pub use wait::{free_port, wait_until};
pub use webhook::point_at;

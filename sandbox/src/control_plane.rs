//! A real control plane on loopback for tests and `make run`: etcd, kube-apiserver,
//! kube-controller-manager and kubectl.
//!
//! It decides where the binaries come from, how they are started, and which users they know. The
//! servers stop with their owner, also when the owner is killed. It must never listen on or connect
//! to an address other than 127.0.0.1, and never use a cluster of the user.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use capstan_sandbox::control_plane::{ControlPlane, Options};
//!
//! let plane = ControlPlane::start(Options::default()).await?;
//! plane.allow("alice", &["get", "list"], "", &["configmaps"]).await?;
//! let kubectl = plane.kubectl().as_user("alice", &["devs"]);
//! let output = kubectl.args(["get", "configmaps"]).run().await?;
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
mod kubeconfig;
mod kubectl;
mod plane;
mod ports;
mod process;
mod proxy;
mod tool;
mod wait;
mod webhook;

pub use audit::AuditEvent;
pub use binaries::Binaries;
pub(crate) use kubectl::KubectlCall;
pub use kubectl::{Editor, Kubectl, Output};
pub use plane::{ControlPlane, Options};
pub use ports::free_port;
pub use process::Process;
pub(crate) use process::{Tether, spawn_tethered};
pub use proxy::{Call, Calm, Faults, Proxy};
pub use wait::wait_until;
pub(crate) use webhook::CertificateFiles;
pub use webhook::point_at;

//! The controller of KubeadmControlPlanes beside the real controllers of Cluster API: core, the
//! kubeadm bootstrap provider, and the infrastructure provider with machines in memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a panic fails the test, and figures are printed"
)]

mod crashes;
mod lifecycle;
mod port_forward;
mod shards;
mod unhealthy;
mod upstream;
mod world;

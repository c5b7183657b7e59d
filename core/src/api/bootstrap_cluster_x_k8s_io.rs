//! The kubeadm bootstrap provider of Cluster API: `bootstrap.cluster.x-k8s.io`, version `v1beta2`.

pub mod kubeadm_config;

/// The API group.
pub const GROUP: &str = "bootstrap.cluster.x-k8s.io";
/// The version.
pub const VERSION: &str = "v1beta2";

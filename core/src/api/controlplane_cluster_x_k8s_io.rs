//! The kubeadm control plane provider of Cluster API: `controlplane.cluster.x-k8s.io`. The stored
//! version is `v1beta2`. Objects of `v1beta1` have no wire types: `kcp` converts them first.

pub mod kubeadm_control_plane;
pub mod kubeadm_control_plane_template;

/// The API group.
pub const GROUP: &str = "controlplane.cluster.x-k8s.io";
/// The stored version.
pub const VERSION: &str = "v1beta2";
/// The group and the stored version.
pub const API_VERSION: &str = "controlplane.cluster.x-k8s.io/v1beta2";
/// The group and the older version, which is deprecated.
pub const API_VERSION_V1BETA1: &str = "controlplane.cluster.x-k8s.io/v1beta1";

/// Annotations that users set.
pub mod annotation {
    /// While it is present, CoreDNS is not managed.
    pub const SKIP_CORE_DNS: &str = "controlplane.cluster.x-k8s.io/skip-coredns";
}

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

/// Keeps a KubeadmControlPlane until its machines are deleted.
pub const FINALIZER: &str = "kubeadm.controlplane.cluster.x-k8s.io";

/// Annotations of control planes and of their machines.
pub mod annotation {
    /// On a control plane: a machine is being replaced because it is unhealthy. The value is JSON.
    pub const REMEDIATION_IN_PROGRESS: &str = "controlplane.cluster.x-k8s.io/remediation-in-progress";
    /// On a machine: the unhealthy machine that it replaces. The value is JSON.
    pub const REMEDIATION_FOR: &str = "controlplane.cluster.x-k8s.io/remediation-for";
    /// On a machine: its etcd member must be removed before the instance is deleted.
    pub const PRE_TERMINATE_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
    /// While it is present, CoreDNS is not managed.
    pub const SKIP_CORE_DNS: &str = "controlplane.cluster.x-k8s.io/skip-coredns";
    /// While it is present, kube-proxy is not managed.
    pub const SKIP_KUBE_PROXY: &str = "controlplane.cluster.x-k8s.io/skip-kube-proxy";
}

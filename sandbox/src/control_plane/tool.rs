//! The binaries of the control plane, by name and by Go package.

/// A binary. Binaries that build quickly come first, so that a broken build environment fails
/// early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Etcd,
    ApiServer,
    ControllerManager,
    Kubectl,
    /// Runs many calls of kubectl in one process.
    KubectlSession,
}

impl Tool {
    /// The binaries that a control plane needs.
    pub(super) const REQUIRED: [Self; 4] = [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Kubectl];

    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::KubectlSession => "kubectl-session",
        }
    }

    /// The Go package that the binary is built from.
    pub(super) fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::KubectlSession => "./session",
        }
    }
}

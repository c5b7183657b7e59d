//! The KubeadmConfig that a machine of a control plane is to have.
//!
//! Nothing here compares; see `outdated`.

use super::version::Version;
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::{InitConfiguration, JoinConfiguration, KubeadmConfigSpec};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::Spec;

/// How a machine gets its control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// `kubeadm init`: the first machine.
    Init,
    /// `kubeadm join`.
    Join,
}

impl Bootstrap {
    /// The command of kubeadm.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Join => "join",
        }
    }
}

/// The gate of kubeadm with which the kubelet of a control plane machine uses the API server of
/// the same machine.
const LOCAL_MODE: &str = "ControlPlaneKubeletLocalMode";

/// The configuration of a new machine.
pub(super) fn config(spec: &Spec, bootstrap: Bootstrap) -> KubeadmConfigSpec {
    let mut config = spec.kubeadm_config_spec.clone();
    match bootstrap {
        Bootstrap::Init => config.join_configuration = JoinConfiguration::default(),
        Bootstrap::Join => {
            config.init_configuration = InitConfiguration::default();
            config.join_configuration.control_plane.get_or_insert_default();
        }
    }
    if needs_local_mode(&spec.version) {
        let gates = &mut config.cluster_configuration.feature_gates;
        gates.entry(LOCAL_MODE.to_owned()).or_insert(true);
    }
    config
}

/// From 1.31 the gate must be on during an upgrade. From 1.36 kubeadm does not know it.
fn needs_local_mode(version: &str) -> bool {
    Version::tolerant(version).is_some_and(|version| {
        let [major, minor, _] = version.core;
        major == 1 && (31..36).contains(&minor)
    })
}

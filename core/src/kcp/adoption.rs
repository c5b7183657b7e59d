//! Which machines without a controller a control plane takes over.
//!
//! Either all of them are adopted, or none: a machine that cannot be managed needs a user. Source:
//! the adoption in the KubeadmControlPlane controller of Cluster API.

use super::state::State;
use super::version::Version;
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config;
use crate::api::cluster_x_k8s_io::control_plane::Machine;
use crate::model::Degradation;

/// Why no machine is adopted; `None` if all can be adopted.
pub(super) fn refusal(state: &State) -> Option<Degradation> {
    let problems = state.adoptable.iter().filter_map(|machine| {
        let problem = problem(&state.control_plane.spec.version, machine)?;
        Some(format!("machine {} {problem}", machine.metadata.name()))
    });
    let problems: Vec<String> = problems.collect();
    (!problems.is_empty()).then(|| Degradation {
        reason: "AdoptionFailed",
        message: format!(
            "machines without a controller cannot be adopted: {}. Correct the version of the control plane or of the \
             machines. Remove the label cluster.x-k8s.io/control-plane of a machine that does not belong to it, and \
             delete no machine while etcd needs its member",
            problems.join("; ")
        ),
    })
}

/// Why a machine cannot be adopted by a control plane of a version.
fn problem(version: &str, machine: &Machine) -> Option<String> {
    let kind = &machine.spec.bootstrap.config_ref.kind;
    if kind != kubeadm_config::KIND {
        return Some(format!(
            "must have a KubeadmConfig in spec.bootstrap.configRef, not {kind:?}"
        ));
    }
    let own = &machine.spec.version;
    // Without a version, the machine is taken over as it is.
    if own.is_empty() {
        return None;
    }
    let is_near = match (Version::tolerant(version), Version::tolerant(own)) {
        (Some(wanted), Some(own)) => {
            let ([major, minor, _], [own_major, own_minor, _]) = (wanted.core, own.core);
            major == own_major && minor.abs_diff(own_minor) <= 1
        }
        _ => false,
    };
    (!is_near).then(|| format!("must be at most one minor version from {version}, but its version is {own:?}"))
}

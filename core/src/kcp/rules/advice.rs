//! What an update does to the machines that run. The result is a warning, and never a refusal.

use super::table::ROLLOUT;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::{IntOrString, KubeadmControlPlane, Spec};
use crate::kcp::outdated::{changes_between, summary};
use crate::model::Warning;

/// Warns of an update that replaces machines.
pub(super) fn rollout(old: &KubeadmControlPlane, new: &KubeadmControlPlane) -> Option<Warning> {
    let changes = changes_between(&old.spec, &new.spec);
    if changes.is_empty() {
        return rollout_after(&old.spec, &new.spec);
    }
    let machines = match old.spec.replicas.unwrap_or(1) {
        1 => String::from("the machine"),
        count => format!("all {count} machines, one after the other"),
    };
    let text = format!(
        "this update replaces {machines}, because of {}; {}",
        summary(&changes),
        order(&new.spec)
    );
    Some(Warning::new(ROLLOUT.id(), text))
}

/// Warns of a new time before which all machines are outdated. Admission has no clock, so that the
/// time may be in the future.
fn rollout_after(old: &Spec, new: &Spec) -> Option<Warning> {
    let after = new.rollout.after.filter(|after| old.rollout.after != Some(*after))?;
    let text = format!(
        "from {after} on, this update replaces the machines that were created before that time; {}",
        order(new)
    );
    Some(Warning::new(ROLLOUT.id(), text))
}

/// The order of a creation and a deletion.
fn order(spec: &Spec) -> &'static str {
    let surge = spec.rollout.strategy.rolling_update.max_surge.as_ref();
    if surge.and_then(IntOrString::number) == Some(0) {
        "a machine is deleted before its replacement is created"
    } else {
        "a replacement is created before a machine is deleted"
    }
}

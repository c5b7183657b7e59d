//! The hooks that are removed because the Cluster is being deleted.
//!
//! Core deletes the workers of a Cluster first, and then the control plane. A Machine that lost the
//! label of control planes counts as a worker, and its hook would hold it for ever: the control
//! plane is not deleted before it, and its etcd member cannot leave without a quorum. No hook is
//! removed here while the Cluster stays, and none of a Machine that is not being deleted.

use super::{Step, release};
use crate::api::cluster_x_k8s_io::label;
use crate::api::controlplane_cluster_x_k8s_io::annotation::PRE_TERMINATE_HOOK;
use crate::kcp::state::State;

/// The removals of hooks. They are the only steps of their plan unless the control plane itself is
/// being deleted.
pub(super) fn releases(state: &State) -> Vec<Step> {
    if !state.cluster_is_deleting() {
        return Vec::new();
    }
    let own = state.machines.iter().map(|machine| &machine.machine);
    // The deletion of the control plane removes the hooks of its own machines.
    let own = own.filter(|_| !state.is_deleting());
    let held = own.chain(&state.orphans).filter(|machine| {
        let metadata = &machine.metadata;
        let is_worker = !metadata.labels.contains_key(label::CONTROL_PLANE);
        metadata.is_deleting() && is_worker && metadata.annotations.contains_key(PRE_TERMINATE_HOOK)
    });
    held.map(|machine| release(state, machine, "the Cluster is being deleted"))
        .collect()
}

//! What must hold when nothing happens any more, before the users repair what faults left behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::api::machine_openshift_io::machine::Machine;

use crate::simulation::invariants::check::Check;
use crate::simulation::invariants::evidence::Evidence;
use crate::simulation::invariants::moment::{Moment, index_of};
use crate::simulation::machine_api::neighbours::is_foreign_node;

/// A control plane in which no event is due.
pub(crate) struct Idle<'a> {
    pub(crate) now: &'a Moment,
    pub(crate) evidence: &'a Evidence,
}

impl<'a> Idle<'a> {
    /// The checks. The first one that fails counts.
    pub(crate) const CHECKS: [Check<Self>; 2] = [
        Check::new("P7", unmanaged_node_unreported),
        Check::new("P7", index_empty),
    ];
}

/// A condition that is not True names no remedy.
fn unmanaged_node_unreported(idle: &Idle<'_>) -> Option<String> {
    let mut nodes = idle.now.nodes.values().filter(|_| idle.now.is_active());
    let node = nodes.find(|node| is_foreign_node(&node.metadata))?;
    let text = || {
        format!(
            "no machine claims node {}, and the set is not Degraded",
            node.metadata.name()
        )
    };
    idle.now.degraded().is_none().then(text)
}

/// An index without a machine gets one, also while another machine has failed. A machine that is
/// still starting, or being deleted, comes first.
fn index_empty(idle: &Idle<'_>) -> Option<String> {
    let now = idle.now;
    let is_settled = |machine: &Arc<Machine>| {
        let has_failed = machine.phase() == Some("Failed");
        !machine.metadata.is_deleting() && (has_failed || now.is_ready(machine))
    };
    let indexes: BTreeSet<Option<u32>> = now.machines.values().map(|machine| index_of(machine)).collect();
    let replicas = idle.evidence.replicas;
    let empty = indexes.len() < replicas && now.machines.len() <= replicas;
    let reason = now.degraded_reason();
    let excused = reason.is_some_and(|reason| reason != "FailedReplacement");
    let text = || {
        format!(
            "{} indexes have machines, and the set reports {reason:?}",
            indexes.len()
        )
    };
    (empty && now.is_active() && now.machines.values().all(is_settled) && !excused).then(text)
}

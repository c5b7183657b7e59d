//! What must hold when nothing happens any more, before the users repair what faults left behind.

use crate::simulation::invariants::check::Check;
use crate::simulation::invariants::evidence::Evidence;
use crate::simulation::invariants::moment::Moment;
use crate::simulation::machine_api::neighbours::is_foreign_node;

/// A control plane in which no event is due.
pub(crate) struct Rest<'a> {
    pub(crate) now: &'a Moment,
    pub(crate) evidence: &'a Evidence,
}

impl<'a> Rest<'a> {
    /// The checks. The first one that fails counts.
    pub(crate) const CHECKS: [Check<Self>; 2] = [
        Check::new("P7", unmanaged_node_unreported),
        Check::new("P7", index_empty),
    ];
}

/// A condition that is not True names no remedy.
fn unmanaged_node_unreported(rest: &Rest<'_>) -> Option<String> {
    let mut nodes = rest.now.nodes.values().filter(|_| rest.now.is_active());
    let node = nodes.find(|node| is_foreign_node(&node.metadata))?;
    let text = || {
        format!(
            "no machine claims node {}, and the set is not Degraded",
            node.metadata.name()
        )
    };
    rest.now.degraded().is_none().then(text)
}

/// An index without a machine gets one, also while another machine has failed.
fn index_empty(rest: &Rest<'_>) -> Option<String> {
    let now = rest.now;
    let all_stay = now.machines.values().all(|machine| !machine.metadata.is_deleting());
    let empty = now.is_active() && all_stay && now.machines.len() < rest.evidence.replicas;
    let reason = now.degraded_reason();
    let excused = reason.is_some_and(|reason| reason != "FailedReplacement");
    let text = || {
        format!(
            "there are {} machines, and the set reports {reason:?}",
            now.machines.len()
        )
    };
    (empty && !excused).then(text)
}

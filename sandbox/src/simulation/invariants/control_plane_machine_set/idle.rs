//! What must hold when nothing happens any more, before the users repair what faults left behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::machine_openshift_io::machine::Machine;

use crate::simulation::invariants::check::Check;
use crate::simulation::invariants::evidence::Evidence;
use crate::simulation::invariants::moment::{Moment, index_of, is_of_template};
use crate::simulation::machine_api::neighbours::is_foreign_node;

/// A control plane in which no event is due.
pub(crate) struct Idle<'a> {
    pub(crate) now: &'a Moment,
    pub(crate) evidence: &'a Evidence,
    /// Capstan's ClusterOperator.
    pub(crate) operator: Option<&'a ClusterOperator>,
}

impl<'a> Idle<'a> {
    /// The checks. The first one that fails counts.
    pub(crate) const CHECKS: [Check<Self>; 4] = [
        Check::new("P7", unmanaged_node_unreported),
        Check::new("P7", index_empty),
        Check::new("P11", outdated_machine_counted),
        Check::new("P11", operator_differs),
    ];
}

impl Idle<'_> {
    /// Whether the set is Active, and a process leads and may write what it reports.
    fn is_reported(&self) -> bool {
        self.now.is_active() && self.evidence.is_undisturbed()
    }
}

/// A condition that is not True names no remedy.
fn unmanaged_node_unreported(idle: &Idle<'_>) -> Option<String> {
    let mut nodes = idle.now.nodes.values().filter(|_| idle.now.is_active());
    let node = nodes.find(|node| is_foreign_node(&node.metadata))?;
    idle.evidence.tests("P7", true);
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

fn outdated_machine_counted(idle: &Idle<'_>) -> Option<String> {
    let now = idle.now;
    let set = now.set.as_ref().filter(|_| idle.is_reported())?;
    let counted = set.status.as_ref()?.updated_replicas?;
    let live = now.machines.values().filter(|machine| !machine.metadata.is_deleting());
    let updated = live.filter(|machine| is_of_template(set, machine)).count();
    let text = || format!("status.updatedReplicas is {counted}, and {updated} machine(s) are of the template");
    (usize::try_from(counted).unwrap_or(0) > updated).then(text)
}

/// The ClusterOperator has the conditions of an Active set, and does not allow an upgrade of a
/// cluster whose set is degraded.
fn operator_differs(idle: &Idle<'_>) -> Option<String> {
    let operator = idle.operator.filter(|_| idle.is_reported())?;
    idle.evidence.tests("P11", true);
    let reported = |type_: &str| operator.condition(type_).map(|condition| condition.status.as_str());
    let mut copied = ["Available", "Degraded", "Progressing"].into_iter();
    let differs = copied.find(|type_| idle.now.condition(type_) != reported(type_));
    let allows = idle.now.degraded().is_some() && reported("Upgradeable") != Some("False");
    let differs = differs.or(allows.then_some("Upgradeable"))?;
    Some(format!(
        "condition {differs} of the ClusterOperator is {:?}, and that of the set is {:?}",
        reported(differs),
        idle.now.condition(differs)
    ))
}

//! A ControlPlane beside a ControlPlaneMachineSet, and the deletion of a ControlPlane.

use std::sync::Arc;

use crate::api::machine_openshift_io::control_plane::{FINALIZER, KIND};
use crate::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use crate::cpms::rules::{Finalizer, Lookup};
use crate::model::{Operation, RuleInfo, Verdict, Violation, ViolationKind, Warning};

const ACTIVE_SET: &str = "cp-active-set";
const UNMANAGED: &str = "cp-deletion-leaves-machines";
/// The finalizer of a ControlPlane.
pub(super) const KEPT: Finalizer = Finalizer {
    name: FINALIZER,
    owner: "ControlPlane",
    at_deletion: "cp-deletion-without-finalizer",
    at_removal: "cp-removal-of-finalizer",
};

/// Refuses a ControlPlane beside a set that is Active: both would create and delete machines.
pub(super) fn judge(exists: bool, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let Some(sets) = lookup.sets else {
        let why = "a ControlPlane and an Active set would both manage the control plane machines";
        return lookup.unknown(verdict, ACTIVE_SET, "spec", "the ControlPlaneMachineSets", why);
    };
    // A set with another name, or in another namespace, has no controller.
    let is_active = |set: &&Arc<ControlPlaneMachineSet>| {
        let namespace = set.metadata.namespace.as_deref();
        let is_managed = set.metadata.name() == NAME && namespace.is_none_or(|own| own == lookup.namespace);
        is_managed && set.spec.state.as_deref() == Some("Active")
    };
    let Some(active) = sets.iter().find(is_active) else {
        return;
    };
    let allowed = format!(
        "must not {} while the ControlPlaneMachineSet {} is Active: both would manage the control plane machines",
        if exists { "change" } else { "be created" },
        active.metadata.name()
    );
    let violation = Violation::new(ACTIVE_SET, "spec", ViolationKind::Forbidden, allowed);
    verdict.deny(violation.advice("delete the ControlPlaneMachineSet first: its machines stay"));
}

/// Warns that nothing manages the machines after the deletion.
pub(super) fn warn_of_deletion(lookup: &Lookup<'_>, verdict: &mut Verdict) {
    if !verdict.allowed() {
        return;
    }
    let count = lookup.control_plane().map(|machines| machines.len());
    let machines = match count.filter(|count| *count > 0) {
        Some(count) => format!("{count} machines"),
        None => String::from("the machines"),
    };
    let text = format!(
        "deleting the ControlPlane leaves {machines} running and unmanaged: unhealthy machines are not replaced"
    );
    verdict.warn(Warning::new(UNMANAGED, text));
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let mut rules = vec![
        RuleInfo::webhook(
            ACTIVE_SET,
            KIND,
            "spec",
            BOTH,
            "no ControlPlaneMachineSet is Active beside a ControlPlane",
        ),
        RuleInfo::webhook(
            UNMANAGED,
            KIND,
            "",
            &[Operation::Delete],
            "warns that the machines become unmanaged",
        ),
    ];
    rules.extend(KEPT.table(KIND));
    rules
}

//! The deletion of a set: its machines continue to run, and are not replaced any more. A rule in
//! CEL refuses foreground deletion, with which the garbage collector would delete the machines
//! (`cpms-foreground-deletion`, defect B2). For the same reason the rule here refuses the deletion
//! of a set that owns machines and has no finalizer: nothing would remove the owner references
//! before the garbage collector acts on them.

use super::lookup::Lookup;
use crate::api::machine_openshift_io::control_plane_machine_set::{FINALIZER, KIND};
use crate::api::meta::OwnerReference;
use crate::model::{Edit, Operation, Propagation, RuleInfo, Stored, Verdict, Violation, ViolationKind, Warning};

const UNMANAGED: &str = "cpms-deletion-leaves-machines";
const NO_FINALIZER: &str = "cpms-deletion-without-finalizer";

pub(super) fn judge(edit: &Edit<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    if let Some(old) = edit.old
        && verdict.allowed()
    {
        require_finalizer(edit, old, lookup, verdict);
    }
    let active = edit
        .old
        .and_then(|old| old.at("spec.state"))
        .and_then(|state| state.as_str())
        == Some("Active");
    if !verdict.allowed() {
        return;
    }
    if edit.old.is_none() {
        let text =
            "not checked, because the stored set is not given: the machines of an active set would become unmanaged";
        return verdict.warn(Warning::not_judged(UNMANAGED, text));
    }
    if !active {
        return;
    }
    let machines = match lookup.control_plane().map(|machines| machines.len()) {
        Some(count) => format!("its {count} machines"),
        None => String::from("its machines"),
    };
    verdict.warn(Warning::new(
        UNMANAGED,
        format!(
            "deleting this active set leaves {machines} running and unmanaged: failed machines are not replaced, and changes are \
             not rolled out, until the generated Inactive set is activated"
        ),
    ));
}

/// Refuses a deletion after which the garbage collector would delete the machines.
fn require_finalizer(edit: &Edit<'_>, old: &dyn Stored, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    const PATH: &str = "metadata.finalizers";
    let finalizers = old.at(PATH);
    let mut finalizers = finalizers.iter().filter_map(|found| found.as_array()).flatten();
    let keeps_machines = finalizers.any(|name| name == FINALIZER) || edit.propagation == Some(Propagation::Orphan);
    if keeps_machines || edit.is_deleting() {
        return;
    }
    let uid = old.at("metadata.uid");
    let Some(uid) = uid.as_ref().and_then(|uid| uid.as_str()) else {
        return;
    };
    let Some(machines) = lookup.machines else {
        let why = "the garbage collector deletes the machines that the set owns";
        return lookup.unknown(verdict, NO_FINALIZER, PATH, "the Machines", why);
    };
    let is_owned = |owners: &[OwnerReference]| owners.iter().any(|owner| owner.uid == uid);
    let owned = machines
        .iter()
        .filter(|machine| is_owned(&machine.metadata.owner_references));
    let count = owned.count();
    if count > 0 {
        let allowed = format!(
            "must contain {FINALIZER} while the set owns {count} machine(s): without it, the garbage collector deletes \
             the machines together with the set"
        );
        verdict.deny(
            Violation::new(NO_FINALIZER, PATH, ViolationKind::Required, allowed).advice(
                "add the finalizer, or start Capstan's controllers, which add it; or delete with \
                 propagationPolicy Orphan",
            ),
        );
    }
}

pub(super) fn table() -> Vec<RuleInfo> {
    let message = "warns that the machines of an active set become unmanaged";
    let requires = "refuses the deletion of a set that owns machines and has no finalizer";
    vec![
        RuleInfo::webhook(
            NO_FINALIZER,
            KIND,
            "metadata.finalizers",
            &[Operation::Delete],
            requires,
        ),
        RuleInfo::webhook(UNMANAGED, KIND, "", &[Operation::Delete], message),
    ]
}

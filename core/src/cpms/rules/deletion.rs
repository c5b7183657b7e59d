//! The deletion of a set: its machines continue to run, and are not replaced any more. A rule in
//! CEL refuses foreground deletion, with which the garbage collector would delete the machines
//! (`cpms-foreground-deletion`, defect B2). For the same reason a set that owns machines keeps its
//! finalizer: see [`Finalizer`].

use super::finalizer::Finalizer;
use super::lookup::Lookup;
use crate::api::machine_openshift_io::control_plane_machine_set::{FINALIZER, KIND};
use crate::model::{Edit, Operation, RuleInfo, Verdict, Warning};

const UNMANAGED: &str = "cpms-deletion-leaves-machines";
/// The finalizer of a set.
pub(super) const KEPT: Finalizer = Finalizer {
    name: FINALIZER,
    owner: "set",
    at_deletion: "cpms-deletion-without-finalizer",
    at_removal: "cpms-removal-of-finalizer",
};

pub(super) fn judge(edit: &Edit<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    if !edit.namespace.is_empty() && edit.namespace != lookup.namespace {
        let text = format!(
            "not checked, because the set is in the namespace {}, and the Machines that are known are those of {}: the \
             garbage collector deletes the machines that a set without a finalizer owns",
            edit.namespace, lookup.namespace
        );
        return verdict.warn(Warning::not_judged(UNMANAGED, text));
    }
    if let Some(old) = edit.old
        && verdict.allowed()
    {
        KEPT.require(edit, old, lookup, verdict);
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
    let count = lookup.control_plane().map(|machines| machines.len());
    let machines = match count.filter(|count| *count > 0) {
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

pub(super) fn table() -> Vec<RuleInfo> {
    let message = "warns that the machines of an active set become unmanaged";
    let mut rules = KEPT.table(KIND);
    rules.push(RuleInfo::webhook(UNMANAGED, KIND, "", &[Operation::Delete], message));
    rules
}

//! Deleting a set: its machines stay, and nothing replaces them any more. That the garbage
//! collector must not be told to delete them is a rule in CEL (`cpms-foreground-deletion`, defect
//! B2).

use super::lookup::Lookup;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::model::{Edit, Operation, RuleInfo, Verdict, Warning};

const UNMANAGED: &str = "cpms-deletion-leaves-machines";

pub(super) fn judge(edit: &Edit<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
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
            "not checked: the set as it is was not given, and deleting an active set ends the care of its machines";
        return verdict.warn(Warning::new(UNMANAGED, text));
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
            "deleting this active set leaves {machines} running and unmanaged: a failed machine is not replaced and a \
             template change not rolled out, until the Inactive set that is generated next is activated"
        ),
    ));
}

pub(super) fn table() -> Vec<RuleInfo> {
    let message = "deleting an active set warns of what stops being managed";
    vec![RuleInfo::webhook(UNMANAGED, KIND, "", &[Operation::Delete], message)]
}

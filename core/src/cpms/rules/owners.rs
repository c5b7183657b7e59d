//! The warning about owners of a set. A set has none: the garbage collector deletes a set whose
//! owners do not exist, and then nothing manages the machines.

use serde_json::Value;

use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::model::{Operation, RuleInfo, Stored, Verdict, Warning};

const RULE: &str = "cpms-owner";
const PATH: &str = "metadata.ownerReferences";
/// The most owners that are named.
const MOST: usize = 4;

/// Warns of the owners that an edit adds.
pub(super) fn warn(old: Option<&dyn Stored>, object: &Value, verdict: &mut Verdict) {
    let before = old.and_then(|old| old.at(PATH)).and_then(Value::as_array);
    let before = before.map_or(&[][..], Vec::as_slice);
    let uid = |owner: &Value| owner.get("uid").cloned();
    let is_known = |owner: &Value| before.iter().any(|known| uid(known) == uid(owner));
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let added = owners.into_iter().flatten().filter(|owner| !is_known(owner));
    for owner in added.take(MOST) {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        verdict.warn(Warning::new(
            RULE,
            format!(
                "{PATH}: {} {} becomes an owner of the set; a set has no owner. If no owner exists, or the last one is \
                 deleted, the garbage collector deletes the set: its machines stay, and nothing manages them",
                text("kind"),
                text("name")
            ),
        ));
    }
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let message = "warns of an owner of the set, with which the set is deleted";
    vec![RuleInfo::webhook(RULE, KIND, PATH, BOTH, message)]
}

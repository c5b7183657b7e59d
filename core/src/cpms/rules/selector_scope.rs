//! The warning that a selector matches more than control plane machines.
//!
//! Such a selector is not refused: it is immutable, and stored sets have it. A machine belongs to
//! the set only if it also carries the role label and the type label `master` (decision 24), so
//! that the controller does not write to other machines.

use super::Lookup;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::selector::{MASTER, MEMBER_LABELS, is_control_plane};
use crate::cpms::spec::Spec;
use crate::model::{Operation, RuleInfo, Verdict, Warning};

const RULE: &str = "cpms-selector-scope";
/// The most machines that the warning names.
const MOST_NAMES: usize = 3;

/// Warns of a selector that does not require both labels of a control plane machine.
pub(super) fn warn(spec: &Spec, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    if MEMBER_LABELS.iter().all(|key| spec.selector.requires(key, MASTER)) {
        return;
    }
    let machines = lookup.machines.into_iter().flatten().map(|machine| &machine.metadata);
    let others = machines.filter(|meta| spec.selector.matches(&meta.labels) && !is_control_plane(&meta.labels));
    let mut names: Vec<&str> = others.map(|meta| meta.name()).collect();
    names.sort_unstable();
    let count = names.len();
    names.truncate(MOST_NAMES);
    let matched = match count {
        0 => String::from("does not require the role label and the type label \"master\""),
        _ => format!("also matches {count} other machine(s), such as {}", names.join(", ")),
    };
    verdict.warn(Warning::new(
        RULE,
        format!(
            "spec.selector {matched}; only machines with the role label and the type label \"master\" belong to the set"
        ),
    ));
}

pub(super) fn table() -> Vec<RuleInfo> {
    vec![RuleInfo::webhook(
        RULE,
        KIND,
        "spec.selector",
        &[Operation::Create, Operation::Update],
        "warns of a selector that matches more than control plane machines",
    )]
}

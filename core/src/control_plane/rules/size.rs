//! The number of machines of a new ControlPlane, and of one without redundancy.
//!
//! The number has a default, so that a manifest without it asks for one machine. A creation must
//! never delete machines that exist; a scale-in is an edit of its own.

use serde_json::Value;

use crate::api::machine_openshift_io::control_plane::KIND;
use crate::cpms::rules::Lookup;
use crate::model::{Operation, RuleInfo, Verdict, Violation, ViolationKind, Warning};

const BELOW: &str = "cp-replicas-below-machines";
const SINGLE: &str = "cp-single-machine";
const PATH: &str = "spec.replicas";

/// Refuses the creation of a ControlPlane that would delete control plane machines.
pub(super) fn judge_creation(replicas: i64, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let Some(machines) = lookup.control_plane() else {
        let why = "a new ControlPlane must not ask for fewer machines than there are";
        return lookup.unknown(verdict, BELOW, PATH, "the control plane Machines", why);
    };
    let standing = machines.iter().filter(|machine| !machine.metadata.is_deleting());
    let mut names: Vec<&str> = standing.map(|machine| machine.metadata.name()).collect();
    names.sort_unstable();
    let count = i64::try_from(names.len()).unwrap_or(i64::MAX);
    if replicas >= count {
        return;
    }
    let allowed = format!(
        "must be at least {count}, the number of control plane Machines ({}): a new ControlPlane deletes none",
        names.join(", ")
    );
    let violation = Violation::new(BELOW, PATH, ViolationKind::Forbidden, allowed);
    let advice = format!("set {PATH} to {}; scale in with a later edit", count | 1);
    verdict.deny(violation.got(&Value::from(replicas)).advice(advice));
}

/// Warns of an edit that leaves one machine.
pub(super) fn warn_of_single(before: i64, after: i64, verdict: &mut Verdict) {
    if after == 1 && before > 1 && verdict.allowed() {
        let text = format!(
            "{PATH} changes from {before} to 1, which is also the default of a manifest without it: {} of {before} \
             machines are deleted, and etcd with one member tolerates no failure",
            before - 1
        );
        verdict.warn(Warning::new(SINGLE, text));
    }
}

pub(super) fn table() -> Vec<RuleInfo> {
    let rule = |id, operation: &'static [Operation], message| RuleInfo::webhook(id, KIND, PATH, operation, message);
    vec![
        rule(
            BELOW,
            &[Operation::Create],
            "a new ControlPlane asks for at least as many machines as there are",
        ),
        rule(
            SINGLE,
            &[Operation::Update],
            "warns of a scale-in to one machine, which tolerates no failure",
        ),
    ]
}

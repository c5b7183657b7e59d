//! Whether the selector of a set matches the control plane machines that exist. A set of another
//! cluster matches none: it would manage nothing, and report every machine as a foreign one.
//!
//! It never judges a stored set that is edited: its selector is immutable.

use super::{Judged, Lookup};
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::api::machine_openshift_io::machine::Machine;
use crate::cpms::selector::Selector;
use crate::model::{Operation, RuleInfo, Verdict, Violation, ViolationKind, Warning};

const RULE: &str = "cpms-selector-matches-machines";
const PATH: &str = "spec.selector";
/// The most machines that a message names.
const MOST_NAMES: usize = 5;

/// Refuses a set that becomes active, and warns of a new Inactive set, if its selector matches none
/// of the machines. Returns whether the set may manage the machines.
pub(super) fn judge(
    is_new: bool,
    new: &Judged<'_>,
    activated: bool,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) -> bool {
    if !is_new && !activated {
        return true;
    }
    let selector = new.spec().map(|spec| &spec.selector);
    let Some((selector, machines)) = selector.zip(lookup.control_plane()) else {
        return true;
    };
    let Some(reason) = mismatch(selector, machines) else {
        return true;
    };
    if activated {
        let allowed = format!("must match the control plane Machines: {reason}");
        let violation = Violation::new(RULE, PATH, ViolationKind::Forbidden, allowed);
        verdict
            .deny(violation.advice("use the labels of the Machines in the selector and in the labels of the template"));
    } else {
        let text = format!("{PATH}: the set cannot become active: {reason}");
        verdict.warn(Warning::new(RULE, text));
    }
    false
}

/// Why the selector matches none of the machines; `None` if it matches one, or if there are none.
fn mismatch(selector: &Selector, mut machines: Vec<&Machine>) -> Option<String> {
    machines.sort_unstable_by_key(|machine| machine.metadata.name());
    let first = *machines.first()?;
    if machines
        .iter()
        .any(|machine| selector.matches(&machine.metadata.labels))
    {
        return None;
    }
    let wrong = selector.failing(&first.metadata.labels).map(|(key, requirement)| {
        let there = first.metadata.labels.get(key);
        let there = there.map_or_else(|| String::from("no such label"), |value| format!("the value {value:?}"));
        format!(
            "{requirement} is required, and Machine {} has {there}",
            first.metadata.name()
        )
    });
    let wrong: Vec<String> = wrong.collect();
    let names = machines.iter().map(|machine| machine.metadata.name());
    let names: Vec<&str> = names.take(MOST_NAMES).collect();
    let more = machines.len() - names.len();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    Some(format!(
        "the selector matches none of {}{more}, because {}",
        names.join(", "),
        wrong.join("; ")
    ))
}

pub(super) fn table() -> Vec<RuleInfo> {
    vec![RuleInfo::webhook(
        RULE,
        KIND,
        PATH,
        &[Operation::Create, Operation::Update],
        "the selector of a set that becomes active matches control plane machines, if there are any",
    )]
}

//! The warning that machines share an index when a set becomes Active.
//!
//! The number of machines equals the number of replicas then, so that a shared index means that
//! another index has no machine. The controller creates machines for the empty indexes first, and
//! deletes machines of the shared index afterwards. This module only describes that.

use super::Lookup;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::indexes::shared;
use crate::cpms::observed::{Observed, Settings};
use crate::cpms::spec::{Spec, Strategy};
use crate::cpms::state::State;
use crate::model::{Operation, RuleInfo, Verdict, Warning};

const RULE: &str = "cpms-shared-index";

/// Warns of the machines that share an index, and of what the controller does about them.
pub(super) fn warn(spec: &Spec, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let Some(machines) = lookup.machines else { return };
    let observed = Observed {
        machines: machines.to_vec(),
        infrastructure: lookup.infrastructure.cloned(),
        ..Observed::default()
    };
    let state = State::observe(spec, observed, Settings::default());
    let staying = state.each_machine().filter(|machine| !machine.is_deleting());
    let shared = shared(staying.map(|machine| (machine.index, machine.name.as_str())));
    let empty = state
        .indexes
        .iter()
        .filter(|index| state.of_index(**index).next().is_none());
    let empty: Vec<String> = empty.map(u32::to_string).collect();
    if shared.is_empty() {
        return;
    }
    for (index, names) in shared {
        let names = names.join(", ");
        verdict.warn(Warning::new(
            RULE,
            format!("index {index} is the number at the end of the names of several machines: {names}"),
        ));
    }
    let then = match spec.strategy {
        Strategy::OnDelete => "then delete all but one of the machines that share an index",
        _ => "when they are ready, all but one of the machines that share an index are deleted",
    };
    verdict.warn(Warning::new(
        RULE,
        format!(
            "machines are created for the indexes that have none ({}); {then}",
            empty.join(", ")
        ),
    ));
}

pub(super) fn table() -> Vec<RuleInfo> {
    vec![RuleInfo::webhook(
        RULE,
        KIND,
        "spec.state",
        &[Operation::Create, Operation::Update],
        "warns of machines that have the same index when a set becomes active",
    )]
}

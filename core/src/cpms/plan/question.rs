//! The question to the API server how machines of a template are stored.

use jiff::{SignedDuration, Timestamp};

use super::made_machine;
use crate::cpms::machine_state::MachineState;
use crate::cpms::spec::{SetState, Spec};
use crate::cpms::state::State;
use crate::cpms::stored_template::TemplateQuestion;

/// How long after an answer the API server is tried again.
const RETRY: SignedDuration = SignedDuration::from_mins(1);

/// The machine to try, if the answer decides which machines are outdated; `None` also if it is
/// known that the API server stores the template as it is in the set.
pub fn question(spec: &Spec, state: &State) -> Option<TemplateQuestion> {
    let again = !state.template.lost.is_empty();
    if spec.deleting || spec.state == SetState::Inactive || state.template.stored.is_some() && !again {
        return None;
    }
    let mut machines = state.each_machine().filter(|machine| !machine.is_deleting());
    let outdated = machines.find(|machine| machine.changes.iter().any(|change| change.field != "failureDomain"));
    let index = match outdated {
        Some(machine) => machine.index,
        None => *state.indexes.first().filter(|_| state.template.has_unknown_fields)?,
    };
    Some(TemplateQuestion {
        template: state.template.key.clone(),
        machine: made_machine(spec, state, index, outdated).ok()?,
        again,
    })
}

/// When a rollout that waits for a corrected webhook tries the API server again. No watch event
/// reports that the webhook was corrected.
pub(super) fn retry_at(state: &State, now: Timestamp) -> Option<Timestamp> {
    let pending = |machine: &MachineState| !machine.is_current() && !machine.is_deleting();
    let waits = !state.template.lost.is_empty() && state.each_machine().any(pending);
    now.checked_add(RETRY).ok().filter(|_| waits)
}

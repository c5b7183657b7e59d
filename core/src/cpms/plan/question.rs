//! The question to the API server how machines of a template are stored.

use super::made_machine;
use crate::cpms::spec::{SetState, Spec};
use crate::cpms::state::State;
use crate::cpms::stored_template::TemplateQuestion;

/// The machine to try, if the answer decides which machines are outdated; `None` also if the answer
/// is known.
pub fn question(spec: &Spec, state: &State) -> Option<TemplateQuestion> {
    if spec.deleting || spec.state == SetState::Inactive || state.template.stored.is_some() {
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
    })
}

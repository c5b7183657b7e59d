//! The question to the API server how machines of a template are stored.

use jiff::{SignedDuration, Timestamp};

use super::machine::made;
use crate::control_plane::selection::domain_of_new;
use crate::control_plane::spec::Spec;
use crate::control_plane::state::{MachineState, State};
use crate::cpms::stored_template::TemplateQuestion;

/// How long after an answer the API server is tried again.
const RETRY: SignedDuration = SignedDuration::from_mins(1);

/// The machine to try, if the answer decides which machines are outdated; `None` also if it is
/// known that the API server stores the template as it is in the ControlPlane.
pub fn question(spec: &Spec, state: &State) -> Option<TemplateQuestion> {
    let again = !state.template.lost.is_empty();
    if spec.deleting || state.template.stored.is_some() && !again {
        return None;
    }
    let standing: Vec<&MachineState> = state.standing().collect();
    if standing.iter().all(|machine| machine.is_current()) && !state.template.has_unknown_fields && !again {
        return None;
    }
    let domain = domain_of_new(spec, &standing, None);
    Some(TemplateQuestion {
        template: state.template.key.clone(),
        machine: made(spec, state, domain).ok()?,
        again,
    })
}

/// When the API server is tried again, if it stores the template with other values. No watch event
/// reports that the template's webhook was corrected or removed.
pub fn retry_at(state: &State, now: Timestamp) -> Option<Timestamp> {
    now.checked_add(RETRY).ok().filter(|_| !state.template.lost.is_empty())
}

//! The machines of a ControlPlane that were requested and may still be created, and the records of
//! their creations.
//!
//! The records and their codec are those of ControlPlaneMachineSets. The index of a record is the
//! number at the end of the name. While a requested machine may still be created, no other machine
//! is created or deleted: it would be one machine more.

use jiff::Timestamp;

use super::action::{Plan, Step};
use super::spec::Spec;
use super::state::State;
use crate::api::meta::Condition;
use crate::cpms::indexes::of_name;
use crate::cpms::pending_creates::{Late, Records, late_of};
use crate::model::NewCondition;

/// How many of the last names a ControlPlane keeps: more than it has machines at any time.
const KEPT: u32 = 16;

/// Whether a requested machine other than this one may still be created; until when.
pub(super) fn another_coming<'a>(state: &'a State, machine: Option<&str>) -> Option<(&'a str, Timestamp)> {
    let others = late(state).filter(|late| !late.exists && Some(late.machine) != machine);
    let last = others.max_by_key(|late| late.until)?;
    Some((last.machine, last.until))
}

/// When the next creation is over.
pub(super) fn next_end(state: &State) -> Option<Timestamp> {
    late(state).map(|late| late.until).min()
}

/// The step that removes the records of creations that are over.
pub(super) fn cleanup(spec: &Spec, state: &State, plan: &Plan) -> Option<Step> {
    records(spec, state, plan)?.cleanup(|number| number < KEPT)
}

/// The condition `Creating`; `None` for a ControlPlane that never had a pending creation.
pub(super) fn condition(spec: &Spec, previous: &[Condition], state: &State, plan: &Plan) -> Option<NewCondition> {
    records(spec, state, plan)?.condition(previous)
}

fn late(state: &State) -> impl Iterator<Item = Late<'_>> {
    late_of(&state.observed, |_, name| {
        state.machines.iter().any(|machine| machine.name() == name)
    })
}

fn records<'a>(spec: &'a Spec, state: &'a State, plan: &'a Plan) -> Option<Records<'a>> {
    let next = plan.disruptive().and_then(|step| {
        let machine = step.machine()?;
        Some((of_name(machine)?, machine))
    });
    Some(Records {
        object: spec.object(),
        precondition: spec.precondition(),
        annotations: &spec.annotations,
        recorded: spec.pending_creations.as_ref().ok()?,
        next,
        late: late(state).collect(),
    })
}

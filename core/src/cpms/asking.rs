//! What was asked for: before a creation is sent it is written down in the set, as the condition `Creating`.
//!
//! Whoever acts next, a process that has just begun or another leader, finds it there and leaves room for a machine that may
//! still come. The write carries the version of the set that the plan was made from: of two who see the cluster differently
//! one is refused, before it asks for a machine. A process remembers its own creations better than the set does, which knows
//! only that somebody asked.
//!
//! It must never keep anybody from asking again for the same machine: the API server makes a name once.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::plan::{Action, Plan, Step};
use super::state::State;
use super::status;
use crate::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus,
};
use crate::api::meta::Condition;

/// The condition: machines are asked for that do not show yet, or that may come once more.
pub const CREATING: &str = "Creating";
/// Its reason, while it is true.
pub const REASON: &str = "MachineRequested";

const BETWEEN: &str = "; ";

/// How a creation is written down.
pub fn claim(index: u32, machine: &str) -> String {
    format!("machine {machine} for index {index}")
}

/// How a step is written down; `None` for one that makes no machine.
pub fn claim_of(step: &Step) -> Option<String> {
    match (&step.action, step.index, &step.machine) {
        (Action::Create(_), Some(index), Some(machine)) => Some(claim(index, machine)),
        _ => None,
    }
}

fn condition(status: Option<&ControlPlaneMachineSetStatus>) -> Option<&Condition> {
    let mut conditions = status?.conditions.iter();
    conditions.find(|condition| condition.type_ == CREATING)
}

/// What is written down.
pub fn claims(status: Option<&ControlPlaneMachineSetStatus>) -> impl Iterator<Item = &str> {
    let asked = condition(status).filter(|condition| condition.status == "True");
    let texts = asked.into_iter().flat_map(|asked| asked.message.split(BETWEEN));
    texts.filter(|text| !text.is_empty())
}

/// The conditions of a set with a creation written down; `None` where it stands there.
pub fn write_down(set: &ControlPlaneMachineSet, claim: &str, now: Timestamp) -> Option<Vec<Condition>> {
    let status = set.status.as_ref();
    let mut claims: Vec<&str> = claims(status).collect();
    if claims.contains(&claim) {
        return None;
    }
    claims.push(claim);
    let earlier = status.map_or(&[][..], |status| &status.conditions);
    let said = status::creating(claims.join(BETWEEN));
    Some(status::merge(earlier, vec![said], set.metadata.generation, now))
}

/// What of that is still open: it may still come, also a second time after its machine came, or it is asked for again.
/// `None` where nothing was ever written down.
pub(super) fn open(
    previous: Option<&ControlPlaneMachineSetStatus>,
    state: &State,
    plan: &Plan,
    now: Timestamp,
) -> Option<String> {
    condition(previous)?;
    let next = plan.disruptive().and_then(claim_of);
    let late: Vec<Late> = late(state, now).collect();
    let is_open = |text: &&str| next.as_deref() == Some(*text) || late.iter().any(|late| late.claim == *text);
    Some(claims(previous).filter(is_open).collect::<Vec<_>>().join(BETWEEN))
}

/// Whether a machine of this name was asked for, for this index, and never answered.
pub(super) fn is_asked_for(state: &State, index: u32, machine: &str) -> bool {
    let observed = &state.observed;
    let mut own = observed.unanswered.iter();
    own.any(|sent| sent.index == index && sent.machine.metadata.name() == machine)
        || observed.asked.iter().any(|asked| asked.claim == claim(index, machine))
}

/// A creation that may still be carried out.
pub(super) struct Late {
    claim: String,
    /// When that is over.
    pub(super) until: Timestamp,
    /// Whether its machine is there, by another request or by this one.
    there: bool,
}

/// The creations that may still be carried out.
pub(super) fn late(state: &State, now: Timestamp) -> impl Iterator<Item = Late> {
    let observed = &state.observed;
    let own = observed.unanswered.iter().filter_map(|sent| {
        let name = sent.machine.metadata.name();
        Some(Late {
            claim: claim(sent.index, name),
            until: sent.until?,
            there: observed.has_machine(name),
        })
    });
    let others = observed.asked.iter().map(|asked| {
        let mut machines = state.each_machine();
        Late {
            claim: asked.claim.clone(),
            until: asked.until,
            there: machines.any(|machine| claim(machine.index, &machine.name) == asked.claim),
        }
    });
    own.chain(others).filter(move |late| late.until > now)
}

/// Those of them whose machine is not there, each of which would be one more, with the time when that is over.
pub(super) fn coming(state: &State, now: Timestamp) -> BTreeMap<String, Timestamp> {
    let late = late(state, now).filter(|late| !late.there);
    late.map(|late| (late.claim, late.until)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(conditions: &serde_json::Value) -> ControlPlaneMachineSet {
        let status = json!({ "conditions": conditions });
        serde_json::from_value(json!({"metadata": {"name": "cluster", "generation": 7}, "status": status})).unwrap()
    }

    #[test]
    fn what_is_written_down_is_read_again_beside_what_stood_there() {
        let other = json!({"type": "Available", "status": "True", "reason": "R", "message": "m; n",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let mut set = set(&json!([other]));
        assert_eq!(claims(set.status.as_ref()).count(), 0);
        for (claim, all) in [
            ("machine a-0 for index 0", vec!["machine a-0 for index 0"]),
            (
                "machine b-1 for index 1",
                vec!["machine a-0 for index 0", "machine b-1 for index 1"],
            ),
        ] {
            let conditions = write_down(&set, claim, now).unwrap();
            set.status.as_mut().unwrap().conditions = conditions;
            assert_eq!(claims(set.status.as_ref()).collect::<Vec<_>>(), all);
            assert_eq!(write_down(&set, claim, now), None, "it stands there");
        }
        let types: Vec<&str> = set
            .status
            .as_ref()
            .unwrap()
            .conditions
            .iter()
            .map(|one| one.type_.as_str())
            .collect();
        assert_eq!(types, ["Available", CREATING]);
    }

    #[test]
    fn what_is_over_is_not_written_down_again_with_the_next() {
        let over = json!({"type": CREATING, "status": "False", "reason": "AsExpected", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let conditions = write_down(&set(&json!([over])), &claim(2, "c-2"), now).unwrap();
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].message, "machine c-2 for index 2");
        assert_eq!(conditions[0].last_transition_time, now);
    }
}

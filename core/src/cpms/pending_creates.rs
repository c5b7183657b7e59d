//! What was asked for: before a creation is sent it is written down in the set, as the condition `Creating`.
//!
//! Whoever acts next, a process that has just begun or another leader, finds it there and leaves room for a machine that may
//! still come. The write carries the version of the set that the plan was made from: of two who see the cluster differently
//! one is refused, before it asks for a machine. A request says whose it is and of when: nobody relies on another's, who may
//! take it away, also for the same machine. A process remembers its own creations better than the set does, which knows only
//! that somebody asked.
//!
//! It must never keep anybody from asking again for the same machine: the API server makes a name once.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::action::{Action, Plan, Step};
use super::state::State;
use super::status;
use crate::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus,
};
use crate::api::meta::Condition;
use crate::model::merge_conditions;

/// The condition: machines are asked for that do not show yet, or that may come once more.
pub const CREATING: &str = "Creating";
/// Its reason, while it is true.
pub const REASON: &str = "MachineRequested";

const BETWEEN: &str = "; ";

const BY: &str = ", asked for by ";
const AT: &str = " at ";

/// What is asked for.
pub fn claim(index: u32, machine: &str) -> String {
    format!("machine {machine} for index {index}")
}

/// What a step asks for; `None` for one that makes no machine.
pub fn claim_of(step: &Step) -> Option<String> {
    match (&step.action, step.index, step.machine()) {
        (Action::Create { .. }, Some(index), Some(machine)) => Some(claim(index, machine)),
        _ => None,
    }
}

/// How it is written down that somebody asks for it at a time.
pub fn request(claim: &str, who: &str, at: Timestamp) -> String {
    let who = who.replace(BETWEEN, " ");
    format!("{claim}{BY}{who}{AT}{at}")
}

/// What a request that is written down asks for.
pub fn claim_in(request: &str) -> &str {
    request.split_once(BY).map_or(request, |(claim, _)| claim)
}

/// Who wrote a request down, and when by his clock.
pub fn asked_by(request: &str) -> Option<(&str, Timestamp)> {
    let (_, by) = request.split_once(BY)?;
    let (who, at) = by.rsplit_once(AT)?;
    Some((who, at.parse().ok()?))
}

fn condition(status: Option<&ControlPlaneMachineSetStatus>) -> Option<&Condition> {
    let mut conditions = status?.conditions.iter();
    conditions.find(|condition| condition.type_ == CREATING)
}

/// The requests that are written down.
pub fn requests(status: Option<&ControlPlaneMachineSetStatus>) -> impl Iterator<Item = &str> {
    let asked = condition(status).filter(|condition| condition.status == "True");
    let texts = asked.into_iter().flat_map(|asked| asked.message.split(BETWEEN));
    texts.filter(|text| !text.is_empty())
}

/// The conditions of a set with one more request written down, and without those that it takes the place of.
pub fn write_down(
    set: &ControlPlaneMachineSet,
    request: &str,
    replaces: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Vec<Condition> {
    let status = set.status.as_ref();
    let others = requests(status).filter(|there| *there != request && !replaces(there));
    let all: Vec<&str> = others.chain([request]).collect();
    let earlier = status.map_or(&[][..], |status| &status.conditions);
    let said = status::creating(all.join(BETWEEN));
    merge_conditions(earlier, vec![said], set.metadata.generation, now)
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
    let late: Vec<Late<'_>> = late(state, now).collect();
    let is_open = |text: &&str| next.as_deref() == Some(claim_in(text)) || late.iter().any(|late| late.is(text));
    Some(requests(previous).filter(is_open).collect::<Vec<_>>().join(BETWEEN))
}

/// Whether a machine of this name was asked for, for this index, and never answered.
pub(super) fn is_asked_for(state: &State, index: u32, machine: &str) -> bool {
    let observed = &state.observed;
    let mut own = observed.unanswered.iter();
    own.any(|sent| sent.index == index && sent.machine.metadata.name() == machine)
        || observed
            .asked
            .iter()
            .any(|asked| claim_in(&asked.request) == claim(index, machine))
}

/// A creation that may still be carried out.
pub(super) struct Late<'a> {
    claim: String,
    /// How it is written down, where it is another's.
    request: Option<&'a str>,
    /// When that is over.
    pub(super) until: Timestamp,
    /// Whether its machine is there, by another request or by this one.
    there: bool,
}

impl Late<'_> {
    fn is(&self, request: &str) -> bool {
        self.request
            .map_or_else(|| claim_in(request) == self.claim, |there| there == request)
    }
}

/// The creations that may still be carried out.
pub(super) fn late(state: &State, now: Timestamp) -> impl Iterator<Item = Late<'_>> {
    let observed = &state.observed;
    let own = observed.unanswered.iter().filter_map(|sent| {
        let name = sent.machine.metadata.name();
        Some(Late {
            claim: claim(sent.index, name),
            request: None,
            until: sent.until?,
            there: observed.has_machine(name),
        })
    });
    let others = observed.asked.iter().map(|asked| {
        let wanted = claim_in(&asked.request);
        let mut machines = state.each_machine();
        Late {
            claim: wanted.to_owned(),
            request: Some(&asked.request),
            until: asked.until,
            there: machines.any(|machine| claim(machine.index, &machine.name) == wanted),
        }
    });
    own.chain(others).filter(move |late| late.until > now)
}

/// Those of them whose machine is not there, each of which would be one more, with the time when that is over.
pub(super) fn coming(state: &State, now: Timestamp) -> BTreeMap<String, Timestamp> {
    let mut coming = BTreeMap::new();
    for late in late(state, now).filter(|late| !late.there) {
        let until = coming.entry(late.claim).or_insert(late.until);
        *until = late.until.max(*until);
    }
    coming
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
        assert_eq!(requests(set.status.as_ref()).count(), 0);
        let mut write = |request: &str, replaces: &str| {
            let conditions = write_down(&set, request, |there| there == replaces, now);
            set.status.as_mut().unwrap().conditions = conditions;
            requests(set.status.as_ref()).map(str::to_owned).collect::<Vec<_>>()
        };
        let (first, second) = (
            request(&claim(0, "a-0"), "one", now),
            request(&claim(0, "a-0"), "two", now),
        );
        assert_eq!(claim_in(&first), "machine a-0 for index 0");
        assert_eq!(claim_in("machine a-0 for index 0"), "machine a-0 for index 0");
        assert_eq!(asked_by(&first), Some(("one", now)));
        assert_eq!(asked_by("machine a-0 for index 0"), None);
        assert_eq!(
            asked_by(&request(&claim(0, "a-0"), "o; n at e", now)),
            Some(("o n at e", now))
        );
        assert_eq!(write(&first, ""), std::slice::from_ref(&first));
        assert_eq!(
            write(&second, ""),
            [first.clone(), second.clone()],
            "both may still come"
        );
        assert_eq!(write(&first, ""), [second.clone(), first.clone()]);
        let later = request(&claim(0, "a-0"), "one", now + jiff::SignedDuration::from_mins(2));
        assert_eq!(write(&later, &first), [second, later]);
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
        let conditions = write_down(&set(&json!([over])), &claim(2, "c-2"), |_| false, now);
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].message, "machine c-2 for index 2");
        assert_eq!(conditions[0].last_transition_time, now);
    }
}

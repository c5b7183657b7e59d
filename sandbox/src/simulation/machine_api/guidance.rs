//! What a search for new schedules needs to know of the environment: the states that may trigger
//! incidents, and what a schedule must not contain.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::simulation::engine::schedule::{Disruption, Effect, HOUR, Incident, MINUTE, StoredState};

use super::act::{Act, ClusterFault};
use super::kinds::{MACHINE, NODE, SET};
use super::state::ClusterSchedule;

/// Nothing happens later, in milliseconds, so that the last incident ends before faults do.
const LATEST: i64 = 3 * HOUR;
/// Two replicas believe that they lead for this long at most, in milliseconds.
const TWO_LEADERS: i64 = 5 * MINUTE;

/// States of machines, nodes, and the set. The first one is of a machine.
pub(super) fn states() -> Vec<StoredState> {
    let state = |kind, count, fields: &[(&str, Value)]| StoredState {
        kind,
        fields: fields
            .iter()
            .map(|(pointer, value)| ((*pointer).to_owned(), value.clone()))
            .collect::<BTreeMap<_, _>>(),
        name: String::new(),
        count,
        number: 1,
    };
    let phase = |phase: &str| state(MACHINE, 1, &[("/status/phase", json!(phase))]);
    let deleting = ("/metadata/deletionTimestamp", json!(true));
    vec![
        phase("Provisioning"),
        phase("Provisioned"),
        phase("Failed"),
        state(MACHINE, 1, std::slice::from_ref(&deleting)),
        state(MACHINE, 2, std::slice::from_ref(&deleting)),
        state(MACHINE, 1, &[("/status", Value::Null)]),
        state(MACHINE, 4, &[("/status/phase", json!("Running"))]),
        state(NODE, 4, &[("/metadata/name", json!(true))]),
        state(SET, 1, &[deleting]),
        state(SET, 1, &[("/status/updatedReplicas", json!(1))]),
        state(SET, 1, &[("/status/updatedReplicas", json!(2))]),
        state(SET, 1, &[("/status/unavailableReplicas", json!(1))]),
    ]
}

/// Removes what the judges do not allow for: faults of processes in a world whose status is judged,
/// webhooks that do not exist, two leaders for long, and incidents after the faults.
pub(super) fn restrict(schedule: &mut ClusterSchedule) {
    let has_webhooks = schedule.setup.neighbours.webhooks;
    let is_possible = |incident: &Incident<Act>| {
        let is_of_webhook = matches!(
            incident,
            Incident::Act(Act::Fault(ClusterFault::Refusals(_) | ClusterFault::Drops(_)))
        );
        has_webhooks || !is_of_webhook
    };
    schedule.incidents.retain(|(_, incident)| is_possible(incident));
    for (at, _) in &mut schedule.incidents {
        *at = (*at).clamp(0, LATEST);
    }
    // An incident that a call triggers may come at any time, and a disruption needs an end.
    schedule.triggers.retain(
        |trigger| matches!(&trigger.then, Effect::Happens(incident @ Incident::Act(_)) if is_possible(incident)),
    );
    let is_disruption = |(_, incident): &(i64, Incident<Act>)| matches!(incident, Incident::Disruption(_));
    if !schedule.rates.is_zero() || schedule.incidents.iter().any(is_disruption) {
        schedule.setup.neighbours.judges_status = false;
    }
    let both: Vec<i64> = schedule
        .incidents
        .iter()
        .filter(|(_, incident)| *incident == Disruption::Lead(true, true).into())
        .map(|(at, _)| at + TWO_LEADERS)
        .collect();
    for end in both {
        schedule.at_ms(end, Disruption::Lead(true, false));
    }
}

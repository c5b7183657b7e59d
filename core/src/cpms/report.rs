//! `capstan plan -o json`: a contract, on which pipelines depend. Only its own words; nothing is decided here.
//!
//! `{set, revision, changes, placement, degraded, next, waits, rollout}`, as described in the reference of the command.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::domains::FailureDomain;
use super::plan::{Plan, Step};
use super::preview::Preview;
use super::spec::Spec;
use super::state::State;
use crate::model::canonical_json;
use jiff::Timestamp;

/// The report.
pub fn report(spec: &Spec, state: &State, plan: &Plan, preview: &Preview, now: Timestamp) -> Value {
    json!({
        "set": spec.name,
        "revision": state.revision,
        "changes": changes(state),
        "placement": placement(spec, state, now),
        "degraded": plan.degraded.iter()
            .map(|reason| json!({"reason": reason.reason, "message": reason.message}))
            .collect::<Vec<Value>>(),
        "next": steps(spec, &plan.steps),
        "waits": plan.waits.iter()
            .map(|wait| json!({
                "index": wait.index,
                "machine": wait.machine,
                "for": wait.reason.name(),
                "message": wait.message,
            }))
            .collect::<Vec<Value>>(),
        "rollout": steps(spec, &preview.steps),
    })
}

/// The report of a set that is leaving or is not valid: there is no state to speak of, only what is done and what stops.
pub fn bare_report(set: &str, plan: &Plan) -> Value {
    let step = |step: &Step| {
        json!({
            "action": step.action.name(),
            "index": step.index,
            "machine": step.machine,
            "failureDomain": Value::Null,
            "because": step.because,
        })
    };
    let degraded = plan
        .degraded
        .iter()
        .map(|reason| json!({"reason": reason.reason, "message": reason.message}));
    let steps: Vec<Value> = plan
        .steps
        .iter()
        .filter(|step| step.machine.is_some())
        .map(step)
        .collect();
    json!({
        "set": set,
        "revision": Value::Null,
        "changes": [],
        "placement": [],
        "degraded": degraded.collect::<Vec<Value>>(),
        "next": steps,
        "waits": [],
        "rollout": steps,
    })
}

/// Every difference that some machine has from the template, once; where machines differ in what they have, each
/// stands there. A move is a change of `failureDomain`.
fn changes(state: &State) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    state
        .machines
        .iter()
        .filter(|machine| !machine.is_deleting())
        .flat_map(|machine| &machine.changes)
        .map(|change| json!({"field": change.field, "old": change.old, "new": change.new}))
        .filter(|change| seen.insert(canonical_json(change)))
        .collect()
}

fn placement(spec: &Spec, state: &State, now: Timestamp) -> Vec<Value> {
    state
        .indexes
        .iter()
        .map(|index| {
            let machines: Vec<Value> = state
                .of_index(*index)
                .map(|machine| {
                    json!({
                        "name": machine.name,
                        "ready": machine.is_ready() && (machine.is_deleting() || state.is_stable(machine, now)),
                        "current": machine.is_current(),
                        "deleting": machine.is_deleting(),
                    })
                })
                .collect();
            json!({
                "index": index,
                "failureDomain": entry(spec, state.placement.get(index)),
                "machines": machines,
            })
        })
        .collect()
}

/// Steps about machines; that the set gets its finalizer is no part of a rollout.
fn steps(spec: &Spec, steps: &[Step]) -> Vec<Value> {
    steps
        .iter()
        .filter(|step| step.machine.is_some())
        .map(|step| {
            json!({
                "action": step.action.name(),
                "index": step.index,
                "machine": step.machine,
                "failureDomain": entry(spec, step.failure_domain.as_ref()),
                "because": step.because,
            })
        })
        .collect()
}

/// The set's own entry, or null for a place that the set does not list.
fn entry(spec: &Spec, domain: Option<&FailureDomain>) -> Value {
    let listed = domain.and_then(|domain| spec.failure_domains.iter().find(|listed| *listed == domain));
    listed.map_or(Value::Null, |domain| domain.entry().clone())
}

#[cfg(test)]
mod tests {
    use crate::cpms::plan::plan;
    use crate::cpms::preview::preview;
    use crate::cpms::simulation::{NEW, World};

    #[test]
    fn the_report_is_the_contract_of_the_command() {
        let world = World::new("a b c", NEW);
        let (spec, state) = (world.spec(), world.state());
        let plan = plan(&spec, &state, world.now);
        let ahead = preview(&spec, &state, world.now);
        insta::assert_json_snapshot!(super::report(&spec, &state, &plan, &ahead, world.now));
    }
}

//! The output of `capstan plan -o json`. Pipelines depend on its fields. Nothing is decided here.
//!
//! `{set, revision, changes, placement, degraded, next, waits, rollout}`, as described in the
//! reference of the command; for an Inactive set also `activation`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::action::{Plan, Step};
use super::degraded::{invalid, unparsable};
use super::domains::FailureDomain;
use super::observed::{Observed, Unparsable};
use super::preview::{Preview, preview};
use super::removal;
use super::spec::{SetState, Spec};
use super::state::State;
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use crate::model::{Degradation, Violation, canonical_json};

/// The report.
pub fn report(spec: &Spec, state: &State, plan: &Plan, preview: &Preview, now: Timestamp) -> Value {
    json!({
        "set": spec.name,
        "revision": state.revision,
        "changes": changes(state),
        "placement": placement(spec, state, now),
        "degraded": reasons(&plan.degraded),
        "next": steps(spec, &plan.steps),
        "waits": plan.waits.iter()
            .map(|wait| json!({
                "index": wait.index,
                "machine": wait.machine(),
                "for": wait.reason.name(),
                "message": wait.message,
            }))
            .collect::<Vec<Value>>(),
        "rollout": steps(spec, &preview.steps),
    })
}

/// The report of an Inactive set: `next` and `rollout` are empty, and `activation` contains the
/// steps after an activation.
pub fn inactive_report(spec: &Spec, state: &State, plan: &Plan, now: Timestamp) -> Value {
    let active = Spec {
        state: SetState::Active,
        ..spec.clone()
    };
    let ahead = preview(&active, state, now);
    let mut report = report(spec, state, plan, &Preview::default(), now);
    if let Some(report) = report.as_object_mut() {
        report.insert("activation".to_owned(), json!(steps(spec, &ahead.steps)));
    }
    report
}

/// The report of a set that is being deleted: the steps before the finalizer is removed. A step
/// that patches the set has no index and no machine.
pub fn leaving_report(set: &ControlPlaneMachineSet, observed: &Observed) -> Value {
    let all = |steps: &[Step]| -> Vec<Value> { steps.iter().map(|step| shown(step, &Value::Null)).collect() };
    let plan = removal::leave(set, observed);
    let mut report = bare(set.metadata.name(), &plan.degraded);
    if let Some(report) = report.as_object_mut() {
        report.insert("next".to_owned(), json!(all(&plan.steps)));
        report.insert("rollout".to_owned(), json!(all(&removal::whole(set, observed))));
    }
    report
}

/// The report of a set that is not valid: it has no steps.
pub fn invalid_report(set: &ControlPlaneMachineSet, violations: &[Violation]) -> Value {
    bare(set.metadata.name(), &invalid(violations))
}

/// The report of a set that cannot be decoded.
pub fn unreadable_report(set: &Unparsable) -> Value {
    bare(&set.name, &Vec::from_iter(unparsable(std::slice::from_ref(set))))
}

fn bare(set: &str, degraded: &[Degradation]) -> Value {
    json!({
        "set": set,
        "revision": Value::Null,
        "changes": [],
        "placement": [],
        "degraded": reasons(degraded),
        "next": [],
        "waits": [],
        "rollout": [],
    })
}

fn reasons(degraded: &[Degradation]) -> Vec<Value> {
    let shown = |reason: &Degradation| json!({"reason": reason.reason, "message": reason.message});
    degraded.iter().map(shown).collect()
}

/// Every difference of a machine from the template, once, with the values of all machines that
/// differ. A move is a change of `failureDomain`.
fn changes(state: &State) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    state
        .each_machine()
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

/// The steps for machines. Adding the finalizer to the set is not part of a rollout.
fn steps(spec: &Spec, steps: &[Step]) -> Vec<Value> {
    steps
        .iter()
        .filter(|step| step.machine().is_some())
        .map(|step| shown(step, &entry(spec, step.failure_domain())))
        .collect()
}

fn shown(step: &Step, failure_domain: &Value) -> Value {
    json!({
        "action": step.verb(),
        "index": step.index,
        "machine": step.machine(),
        "failureDomain": failure_domain,
        "because": step.because,
    })
}

/// The entry of the set for a failure domain; null if the set does not list it.
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

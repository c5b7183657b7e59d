//! The output of `capstan status -o json` for a ControlPlaneMachineSet. Pipelines depend on its
//! fields. Nothing is decided here.

use capstan_core::cpms::machine_state::MachineState;
use capstan_core::cpms::plan::Plan;
use capstan_core::cpms::progress::progress;
use capstan_core::cpms::spec::Spec;
use capstan_core::cpms::state::State;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::{Assessment, Reading};

/// The output of `capstan status -o json`.
pub(in crate::cli) fn as_json(assessment: &Assessment, now: Timestamp) -> Value {
    let plan = &assessment.plan;
    let conditions = assessment.set.status.as_ref().map(|status| &status.conditions);
    let mut all = json!({
        "set": assessment.set.metadata.name(),
        "valid": matches!(assessment.reading, Reading::Valid(_)),
        "deleting": matches!(assessment.reading, Reading::Leaving),
        "active": assessment.is_active(),
        "generation": assessment.set.metadata.generation,
        "conditions": conditions,
        "waits": plan.waits.iter().map(|wait| json!({
            "index": wait.index, "machine": wait.machine(), "for": wait.reason.name(), "message": wait.message,
        })).collect::<Vec<Value>>(),
        "notes": plan.notes,
    });
    let reasons = plan
        .degraded
        .iter()
        .map(|reason| json!({"reason": reason.reason, "message": reason.message}));
    let mut put = |field: &str, value: Value| {
        if let Some(all) = all.as_object_mut() {
            all.insert(field.to_owned(), value);
        }
    };
    put("degraded", reasons.collect());
    if let Reading::Valid(read) = &assessment.reading {
        let (spec, state) = &**read;
        let tree = progress(spec, state, now);
        put("strategy", json!(spec.strategy.name()));
        put("revision", json!(state.revision));
        put("progress", json!({"updated": tree.done, "total": tree.of}));
        put(
            "indexes",
            state
                .indexes
                .iter()
                .map(|index| of_index(spec, state, plan, *index))
                .collect(),
        );
        put(
            "machines",
            state
                .each_machine()
                .map(|machine| of_machine(spec, state, plan, machine))
                .collect(),
        );
    }
    all
}

fn of_index(spec: &Spec, state: &State, plan: &Plan, index: u32) -> Value {
    let waits = plan
        .waits
        .iter()
        .filter(|wait| wait.index == Some(index) && wait.machine().is_none());
    json!({
        "index": index,
        "failureDomain": listed_domain(spec, state, index),
        "machines": state.of_index(index).map(|machine| machine.name.as_str()).collect::<Vec<&str>>(),
        "waits": waits.map(|wait| wait.message.as_str()).collect::<Vec<&str>>(),
    })
}

/// The failure domain of an index as the set lists it; null if the set does not list it.
fn listed_domain(spec: &Spec, state: &State, index: u32) -> Value {
    let domain = state.placement.get(&index);
    let listed = domain.filter(|domain| spec.failure_domains.contains(domain));
    listed.map_or(Value::Null, |domain| domain.entry().clone())
}

fn of_machine(spec: &Spec, state: &State, plan: &Plan, machine: &MachineState) -> Value {
    json!({
        "name": machine.name,
        "index": machine.index,
        "failureDomain": listed_domain(spec, state, machine.index),
        "phase": machine.phase,
        "node": machine.node.name(),
        "ready": machine.is_ready(),
        "current": machine.is_current(),
        "deleting": machine.is_deleting(),
        "hooks": machine.hooks,
        "changes": machine.changes.iter()
            .map(|change| json!({"field": change.field, "old": change.old, "new": change.new}))
            .collect::<Vec<Value>>(),
        "waits": waits(plan, machine).collect::<Vec<&str>>(),
    })
}

/// The reasons why this machine, or a step for it, waits.
pub(super) fn waits<'a>(plan: &'a Plan, machine: &'a MachineState) -> impl Iterator<Item = &'a str> {
    let about = plan.waits.iter().filter(|wait| wait.machine() == Some(&machine.name));
    about.map(|wait| wait.message.as_str())
}

//! The output of `capstan plan -o json` for a ControlPlane. Its fields are those of a
//! ControlPlaneMachineSet, and `kind`. A place in `placement` is a failure domain, because the
//! machines of a ControlPlane have no indexes. Nothing is decided here.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::action::{Plan, Step};
use super::preview::Preview;
use super::spec::Spec;
use super::state::{MachineState, State};
use crate::api::machine_openshift_io::control_plane::KIND;
use crate::cpms::changes::revision;
use crate::cpms::domains::FailureDomain;
use crate::model::{Violation, canonical_json};

/// The report.
pub fn report(spec: &Spec, state: &State, plan: &Plan, preview: &Preview) -> Value {
    let degraded = plan.degraded.iter();
    let waits = plan.waits.iter();
    json!({
        "kind": KIND,
        "set": spec.name,
        "revision": revision(&spec.template.provider_spec, spec.comparison()),
        "changes": changes(state),
        "placement": placement(state),
        "degraded": degraded
            .map(|reason| json!({"reason": reason.reason, "message": reason.message}))
            .collect::<Vec<Value>>(),
        "next": steps(&plan.steps),
        "waits": waits
            .map(|wait| json!({
                "index": Value::Null,
                "machine": wait.subject.as_ref().map(|machine| machine.name.as_str()),
                "for": wait.reason.name(),
                "message": wait.message,
            }))
            .collect::<Vec<Value>>(),
        "notes": plan.notes,
        "rollout": steps(&preview.steps),
    })
}

/// The report of a ControlPlane that is not valid: it has no steps.
pub fn invalid_report(name: &str, violations: &[Violation]) -> Value {
    let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
    json!({
        "kind": KIND,
        "set": name,
        "revision": Value::Null,
        "changes": [],
        "placement": [],
        "degraded": [{"reason": "InvalidSpec", "message": texts.join("; ")}],
        "next": [],
        "waits": [],
        "notes": [],
        "rollout": [],
    })
}

/// Every difference of a machine from the template, once.
fn changes(state: &State) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    state
        .standing()
        .flat_map(|machine| &machine.changes)
        .map(|change| json!({"field": change.field, "old": change.old, "new": change.new}))
        .filter(|change| seen.insert(canonical_json(change)))
        .collect()
}

/// The machines by failure domain.
fn placement(state: &State) -> Vec<Value> {
    let domains: BTreeSet<Option<&FailureDomain>> =
        state.machines.iter().map(|machine| machine.domain.as_ref()).collect();
    let shown = |machine: &MachineState| {
        json!({
            "name": machine.name(),
            "ready": machine.is_ready(),
            "current": machine.is_current(),
            "deleting": machine.is_deleting(),
        })
    };
    let place = |domain: Option<&FailureDomain>| {
        let machines = state
            .machines
            .iter()
            .filter(|machine| machine.domain.as_ref() == domain);
        json!({
            "index": Value::Null,
            "failureDomain": domain.map(FailureDomain::entry),
            "machines": machines.map(shown).collect::<Vec<Value>>(),
        })
    };
    domains.into_iter().map(place).collect()
}

fn steps(steps: &[Step]) -> Vec<Value> {
    let shown = |step: &Step| {
        json!({
            "action": step.verb(),
            "index": Value::Null,
            "machine": step.subject.name,
            "failureDomain": step.failure_domain().map(FailureDomain::entry),
            "because": step.because,
        })
    };
    steps.iter().map(shown).collect()
}

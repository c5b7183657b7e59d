//! The output of `capstan plan -o json` for a MachinePool. Pipelines depend on its fields. Nothing
//! is decided here.
//!
//! A plan has the fields `{set, kind, mode, revision, changes, placement, degraded, next, waits,
//! notes, rollout}`: the fields of a ControlPlaneMachineSet, and `kind`, `mode` and `notes`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::action::{Mode, Plan, Step};
use super::rollout::outdated;
use super::state::{Member, State};
use crate::api::cluster_x_k8s_io::machine_pool::KIND;
use crate::model::hex_hash;

/// The hexadecimal digits of a revision.
const REVISION_DIGITS: usize = 8;

/// The report.
pub fn report(state: &State, mode: Mode, plan: &Plan) -> Value {
    json!({
        "set": state.name(),
        "kind": KIND,
        "mode": mode.name(),
        "revision": revision(state),
        "changes": changes(state),
        "placement": placement(state),
        "degraded": plan
            .degraded
            .iter()
            .map(|reason| json!({"reason": reason.reason, "message": reason.message}))
            .collect::<Vec<Value>>(),
        "next": plan.steps.iter().map(step).collect::<Vec<Value>>(),
        "waits": waits(plan),
        "notes": plan.notes,
        "rollout": outdated(state).into_iter().map(replacement).collect::<Vec<Value>>(),
    })
}

/// A hash of what all machines are to have.
fn revision(state: &State) -> String {
    // Wire types always serialise.
    let template = serde_json::to_value(&state.pool.spec.template).unwrap_or_default();
    hex_hash(&template, REVISION_DIGITS)
}

/// The versions that outdated machines run.
fn changes(state: &State) -> Vec<Value> {
    let wanted = &state.pool.spec.template.spec.version;
    let running = |member: &Member| {
        let info = member.node.as_ref()?.status.unknown_fields.get("nodeInfo")?;
        info.get("kubeletVersion").and_then(Value::as_str).map(str::to_owned)
    };
    let versions: BTreeSet<String> = outdated(state).into_iter().filter_map(running).collect();
    let change = |old| json!({"field": "version", "old": old, "new": wanted});
    versions.into_iter().map(change).collect()
}

/// The machines of each failure domain.
fn placement(state: &State) -> Vec<Value> {
    let mut domains: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for member in &state.members {
        let machine = member.machine.as_ref();
        let domain = machine.map_or("", |machine| machine.spec.failure_domain.as_str());
        domains.entry(domain).or_default().push(json!({
            "name": member.name,
            "ready": member.is_available,
            "current": member.outdated.is_none(),
            "deleting": member.is_deleting(),
        }));
    }
    let shown = domains.into_iter().map(|(domain, machines)| {
        json!({
            "index": Value::Null,
            "failureDomain": (!domain.is_empty()).then_some(domain),
            "machines": machines,
        })
    });
    shown.collect()
}

fn step(step: &Step) -> Value {
    json!({
        "action": step.verb(),
        "index": Value::Null,
        "machine": step.subject.name,
        "failureDomain": Value::Null,
        "because": step.because,
    })
}

fn replacement(member: &Member) -> Value {
    json!({
        "action": "delete",
        "index": Value::Null,
        "machine": member.name,
        "failureDomain": Value::Null,
        "because": member.outdated,
    })
}

fn waits(plan: &Plan) -> Vec<Value> {
    let shown = plan.waits.iter().map(|wait| {
        json!({
            "index": Value::Null,
            "machine": wait.subject.as_ref().map(|subject| &subject.name),
            "for": wait.reason.name(),
            "message": wait.message,
            "until": wait.until.map(|until| until.to_string()),
        })
    });
    shown.collect()
}

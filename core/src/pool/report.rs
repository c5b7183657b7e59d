//! The output of `capstan plan -o json` for a MachinePool. Pipelines depend on its fields. Nothing
//! is decided here.
//!
//! A plan has the fields `{set, kind, mode, revision, changes, placement, degraded, next, waits,
//! notes, rollout}`: the fields of a ControlPlaneMachineSet, and `kind`, `mode` and `notes`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::action::{Mode, Plan, Step};
use super::rollout::{outdated, planned};
use super::state::{Member, State};
use super::status;
use crate::api::cluster_x_k8s_io::machine as machine_kind;
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
        "rollout": planned(state).into_iter().map(replacement).collect::<Vec<Value>>(),
    })
}

/// The report of `capstan status`: the fields of a plan, `{set, kind, mode, revision, progress,
/// machines, conditions, next, waits, notes}`.
pub fn status_report(state: &State, mode: Mode, plan: &Plan) -> Value {
    let conditions = status::conditions(state, mode, plan).into_iter().map(|condition| {
        json!({
            "type": condition.type_,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        })
    });
    let is_updated = |member: &&Member| member.is_available && member.outdated.is_none();
    json!({
        "set": state.name(),
        "kind": KIND,
        "mode": mode.name(),
        "revision": revision(state),
        "progress": {
            "updated": state.staying().filter(is_updated).count(),
            "total": state.replicas(),
        },
        "machines": state.members.iter().map(|member| machine(member, plan)).collect::<Vec<Value>>(),
        "conditions": conditions.collect::<Vec<Value>>(),
        "next": plan.steps.iter().map(step).collect::<Vec<Value>>(),
        "waits": waits(plan),
        "notes": plan.notes,
    })
}

fn machine(member: &Member, plan: &Plan) -> Value {
    let concerns = |name: &str| name == member.name;
    let waits = plan.waits.iter().filter(|wait| {
        let mut subjects = wait.subject.iter();
        subjects.any(|subject| concerns(&subject.name))
    });
    json!({
        "name": member.name,
        "node": member.node,
        "version": member.version,
        "ready": member.is_available,
        "current": member.outdated.is_none(),
        "outdated": member.outdated,
        "unhealthy": member.is_unhealthy(),
        "marked": member.is_marked(),
        "record": member.is_record(),
        "deleting": member.is_deleting(),
        "waits": waits.map(|wait| wait.message.as_str()).collect::<Vec<&str>>(),
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
    let is_other = |member: &&Member| !member.version.is_empty() && member.version != *wanted;
    let other = outdated(state).into_iter().filter(is_other);
    let versions: BTreeSet<&str> = other.map(|member| member.version.as_str()).collect();
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
        "machine": (step.subject.kind == machine_kind::KIND).then_some(&step.subject.name),
        "object": format!("{}/{}", step.subject.kind, step.subject.name),
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

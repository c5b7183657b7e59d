//! What the controller reports of a pool: conditions, and the selector of its Machines.
//!
//! The core manager of Cluster API writes the counters of a pool and the conditions of its
//! Machines, and sets `UpToDate` of every Machine to `True`. Capstan writes none of them beside it,
//! because both would overwrite each other without end. The real state is in `MachinesUpToDate` of
//! the pool. A condition that cannot be known is `Unknown`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::action::{Plan, WaitReason};
use super::own;
use super::rollout::outdated;
use super::state::{Member, State};
use super::strategy::{Rollout, strategy};
use super::{Mode, condition};
use crate::api::cluster_x_k8s_io::{label, label_value};
use crate::model::{Degradation, NotStored, ReportedCondition as Condition, changed_conditions, status_patch};

/// The longest list of names in a message.
const NAMES: usize = 3;
/// The reason of the condition `Degraded` if a step fails again and again.
const STEP_FAILS: &str = "StepFails";

/// The patch of the status of the stored pool; `None` if the status is stored as far as the API
/// server stores it.
pub fn patch(
    stored: &Value,
    state: &State,
    mode: Mode,
    plan: &Plan,
    not_stored: &NotStored,
    now: Timestamp,
) -> Option<Value> {
    let mut after = Map::new();
    after.insert(String::from("selector"), json!(selector(state)));
    if mode == Mode::Own {
        own::counters(stored, state, &mut after);
    }
    let conditions = changed_conditions(stored, &conditions(state, mode, plan), now);
    after.extend(conditions.map(|conditions| (String::from("conditions"), conditions)));
    status_patch(stored, after).filter(|patch| !not_stored.repeats(stored, patch))
}

/// The plan with the report of a step that has been failing for some time.
pub fn with_failing(plan: &Plan, error: &str) -> Plan {
    let mut plan = plan.clone();
    plan.degraded.push(Degradation {
        reason: STEP_FAILS,
        message: error.to_owned(),
    });
    plan
}

/// Whether the stored status reports such a step.
pub fn reports_failing(stored: &Value) -> bool {
    let conditions = stored.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let has = |one: &Value, field: &str, text: &str| one.get(field).and_then(Value::as_str) == Some(text);
    conditions.any(|one| has(one, "type", condition::DEGRADED) && has(one, "reason", STEP_FAILS))
}

/// The selector of the Machines of a pool, as text.
pub fn selector(state: &State) -> String {
    let (cluster, pool) = (&state.pool.spec.cluster_name, label_value(state.name()));
    format!("{}={cluster},{}={pool}", label::CLUSTER, label::POOL_NAME)
}

/// The conditions of a pool, ordered by type.
pub fn conditions(state: &State, mode: Mode, plan: &Plan) -> Vec<Condition> {
    let mut conditions = vec![
        available(state),
        degraded(plan),
        deletable(state),
        deleting(state, plan),
        infrastructure_ready(state),
        machines_ready(state),
        machines_up_to_date(state),
        remediating(state, plan),
        rolling_out(state, plan),
        scaling(state, "ScalingDown", state.staying().count() > state.replicas()),
        scaling(state, "ScalingUp", state.staying().count() < state.replicas()),
    ];
    if mode == Mode::Own {
        conditions.push(match state.is_paused() {
            true => Condition::new("Paused", "True", "Paused", "the MachinePool or its Cluster is paused"),
            false => Condition::new("Paused", "False", "NotPaused", ""),
        });
    }
    conditions.sort_by_key(|condition| condition.type_);
    conditions
}

/// A condition that is true, or false with a message.
fn holds(type_: &'static str, reasons: [&'static str; 2], problem: Option<String>) -> Condition {
    match problem {
        None => Condition::new(type_, "True", reasons[0], ""),
        Some(message) => Condition::new(type_, "False", reasons[1], message),
    }
}

/// A condition that is false unless there is a message.
fn lasts(type_: &'static str, reasons: [&'static str; 2], what: Option<String>) -> Condition {
    match what {
        Some(message) => Condition::new(type_, "True", reasons[0], message),
        None => Condition::new(type_, "False", reasons[1], ""),
    }
}

/// How many machines, and the names of the first ones.
fn list(members: &[&Member], what: &str) -> Option<String> {
    let first = members.iter().take(NAMES).map(|member| member.name.as_str());
    let names = first.collect::<Vec<&str>>().join(", ");
    let more = if members.len() > NAMES { ", …" } else { "" };
    (!members.is_empty()).then(|| format!("{} machine(s) {what}: {names}{more}", members.len()))
}

fn max_unavailable(state: &State) -> usize {
    let strategy = strategy(&state.pool.metadata.annotations, state.replicas());
    match strategy.map(|strategy| strategy.rollout) {
        Ok(Rollout::Rolling { max_unavailable, .. }) => max_unavailable,
        _ => 0,
    }
}

fn available(state: &State) -> Condition {
    if state.pool.metadata.is_deleting() {
        let message = "the pool is being deleted";
        return Condition::new("Available", "False", "Deleting", message);
    }
    let (replicas, allowed) = (state.replicas(), max_unavailable(state));
    let count = state.staying().filter(|member| member.is_available).count();
    let problem = (count.saturating_add(allowed) < replicas)
        .then(|| format!("{count} of {replicas} machine(s) are available, and at most {allowed} may be unavailable"));
    holds("Available", ["Available", "NotAvailable"], problem)
}

fn degraded(plan: &Plan) -> Condition {
    let Some(first) = plan.degraded.first() else {
        return Condition::new(condition::DEGRADED, "False", "NotDegraded", "");
    };
    let messages: Vec<&str> = plan.degraded.iter().map(|one| one.message.as_str()).collect();
    Condition::new(condition::DEGRADED, "True", first.reason, messages.join("; "))
}

/// Whether a single instance can be deleted.
fn deletable(state: &State) -> Condition {
    if state.infrastructure.is_none() {
        let message = "the infrastructure object does not exist";
        return Condition::new(condition::DELETABLE, "Unknown", "InfrastructureDoesNotExist", message);
    }
    let problem = state.machine_kind().is_none().then(|| {
        String::from(
            "the provider cannot delete a single instance (status.infrastructureMachineKind of the infrastructure \
             object is empty), so no Machine is deleted and no unhealthy Machine is remediated",
        )
    });
    holds(
        condition::DELETABLE,
        ["InstancesDeletable", "ProviderCannotDeleteInstances"],
        problem,
    )
}

fn deleting(state: &State, plan: &Plan) -> Condition {
    let is_deleting = state.pool.metadata.is_deleting();
    let waits = plan.waits.iter().map(|wait| wait.message.as_str());
    let message = is_deleting.then(|| waits.collect::<Vec<&str>>().join("; "));
    lasts("Deleting", ["Deleting", "NotDeleting"], message)
}

fn infrastructure_ready(state: &State) -> Condition {
    let type_ = "InfrastructureReady";
    let reference = &state.pool.spec.template.spec.infrastructure_ref;
    let name = format!("{} {:?}", reference.kind, reference.name);
    if state.infrastructure.is_none() {
        return Condition::new(type_, "False", "DoesNotExist", format!("{name} does not exist"));
    }
    if let Some(other) = state.other_pool() {
        let message = format!("{name} belongs to MachinePool {}", other.name);
        return Condition::new(type_, "False", "OfAnotherPool", message);
    }
    if let Some(failure) = state.failure() {
        return Condition::new(type_, "False", "Failed", format!("{name} reports a failure: {failure}"));
    }
    let problem = (!state.is_provisioned()).then(|| format!("{name} is not provisioned yet"));
    holds(type_, ["Ready", "NotReady"], problem)
}

fn machines_ready(state: &State) -> Condition {
    let unready: Vec<&Member> = state.staying().filter(|member| !member.is_available).collect();
    holds(
        "MachinesReady",
        ["Ready", "NotReady"],
        list(&unready, "are not available"),
    )
}

fn machines_up_to_date(state: &State) -> Condition {
    let outdated = outdated(state);
    holds(
        "MachinesUpToDate",
        ["UpToDate", "NotUpToDate"],
        list(&outdated, "are outdated"),
    )
}

fn remediating(state: &State, plan: &Plan) -> Condition {
    let unhealthy: Vec<&Member> = state.members.iter().filter(|member| member.is_unhealthy()).collect();
    let mut message = list(&unhealthy, "are unhealthy");
    let deferred = plan
        .waits
        .iter()
        .find(|wait| wait.reason == WaitReason::RemediationDeferred);
    if let (Some(message), Some(deferred)) = (&mut message, deferred) {
        message.push_str("; ");
        message.push_str(&deferred.message);
    }
    lasts("Remediating", ["Remediating", "NotRemediating"], message)
}

fn rolling_out(state: &State, plan: &Plan) -> Condition {
    let mut message = list(&outdated(state), "are outdated");
    let reasons = [WaitReason::MaxUnavailable, WaitReason::OnDelete];
    let wait = plan.waits.iter().find(|wait| reasons.contains(&wait.reason));
    if let (Some(message), Some(wait)) = (&mut message, wait) {
        message.push_str("; ");
        message.push_str(&wait.message);
    }
    lasts("RollingOut", ["RollingOut", "NotRollingOut"], message)
}

fn scaling(state: &State, type_: &'static str, is_scaling: bool) -> Condition {
    let reasons = match type_ {
        "ScalingUp" => ["ScalingUp", "NotScalingUp"],
        _ => ["ScalingDown", "NotScalingDown"],
    };
    let (staying, replicas) = (state.staying().count(), state.replicas());
    let message = format!("the pool has {staying} instance(s), and wants {replicas}");
    let is_shown = is_scaling && !state.pool.metadata.is_deleting();
    lasts(type_, reasons, is_shown.then_some(message))
}

//! The output of `capstan plan -o json` and `capstan status -o json` for a KubeadmControlPlane.
//! Pipelines depend on its fields. Nothing is decided here.
//!
//! A plan has the fields `{set, kind, revision, changes, placement, degraded, next, waits, notes,
//! rollout, etcd}`: the fields of a ControlPlaneMachineSet, and `kind`, `notes` and `etcd`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::action::{Action, Plan, Step, machine_name};
use super::outdated::revision;
use super::preview::{LONGEST, Preview};
use super::safety::lost_quorum;
use super::state::{MachineState, State};
use super::status::{Condition, Status, machine_conditions};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::KIND;
use crate::model::{EtcdMember, MembershipChange, canonical_json};

/// The report.
pub fn report(state: &State, plan: &Plan, preview: &Preview) -> Value {
    let cut = preview
        .is_cut
        .then(|| format!("the rollout has more steps: only the first {LONGEST} are planned"));
    let notes: Vec<&String> = plan.notes.iter().chain(&cut).collect();
    json!({
        "set": state.name(),
        "kind": KIND,
        "revision": revision(&state.control_plane.spec),
        "changes": changes(state),
        "placement": placement(state),
        "degraded": degraded(plan),
        "next": steps(&plan.steps),
        "waits": waits(plan),
        "notes": notes,
        "rollout": steps(&preview.steps),
        "etcd": etcd(state),
    })
}

/// The output of `capstan status -o json`: the computed status, and the machines.
pub fn status_report(state: &State, plan: &Plan, status: &Status, now: Timestamp) -> Value {
    let of_machines = machine_conditions(state, now);
    let machines: Vec<Value> = state
        .machines
        .iter()
        .map(|machine| {
            let own = of_machines.iter().find(|(name, _)| *name == machine.name());
            let waits = plan.waits.iter().filter(|wait| {
                let subject = wait.subject.as_ref().and_then(machine_name);
                subject == Some(machine.name())
            });
            json!({
                "name": machine.name(),
                "failureDomain": Some(machine.failure_domain()).filter(|domain| !domain.is_empty()),
                "version": machine.machine.spec.version,
                "phase": machine.machine.status.phase,
                "node": machine.node(),
                "ready": is_ready(state, machine),
                "current": machine.is_current(),
                "deleting": machine.is_deleting(),
                "conditions": own.map(|(_, conditions)| conditions.iter().map(condition).collect::<Vec<Value>>()),
                "waits": waits.map(|wait| wait.message.as_str()).collect::<Vec<&str>>(),
            })
        })
        .collect();
    let is_done = |machine: &&MachineState| machine.is_current() && !machine.is_deleting() && is_ready(state, machine);
    let versions = status.versions.iter();
    json!({
        "set": state.name(),
        "kind": KIND,
        "revision": revision(&state.control_plane.spec),
        "deleting": state.is_deleting(),
        "active": !state.is_paused(),
        "initialized": state.is_initialized(),
        "conditions": status.conditions.iter().map(condition).collect::<Vec<Value>>(),
        "progress": {
            "updated": state.machines.iter().filter(is_done).count(),
            "total": state.replicas(),
        },
        "selector": status.selector,
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "upToDateReplicas": status.up_to_date_replicas,
        "versions": versions
            .map(|(version, replicas)| json!({"version": version, "replicas": replicas}))
            .collect::<Vec<Value>>(),
        "lastRemediation": status.last_remediation,
        "machines": machines,
        "etcd": etcd(state),
        "next": steps(&plan.steps),
        "waits": waits(plan),
        "notes": plan.notes,
        "degraded": degraded(plan),
    })
}

fn condition(condition: &Condition) -> Value {
    json!({
        "type": condition.type_,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    })
}

fn degraded(plan: &Plan) -> Vec<Value> {
    let reasons = plan.degraded.iter();
    reasons
        .map(|reason| json!({"reason": reason.reason, "message": reason.message}))
        .collect()
}

/// What the control plane waits for, as JSON.
pub(super) fn waits(plan: &Plan) -> Vec<Value> {
    let shown = plan.waits.iter().map(|wait| {
        json!({
            "index": wait.index,
            "machine": wait.subject.as_ref().and_then(machine_name),
            "for": wait.reason.name(),
            "message": wait.message,
            "until": wait.until.map(|until| until.to_string()),
        })
    });
    shown.collect()
}

/// Every difference of a machine, once, with the values of all machines that differ.
fn changes(state: &State) -> Vec<Value> {
    let mut found = BTreeSet::new();
    let machines = state.machines.iter().filter(|machine| !machine.is_deleting());
    machines
        .flat_map(|machine| &machine.differences)
        .flat_map(|difference| &difference.changes)
        .map(|change| json!({"field": change.field, "old": change.old, "new": change.new}))
        .filter(|change| found.insert(canonical_json(change)))
        .collect()
}

/// The machines of each failure domain, known failure domains first.
fn placement(state: &State) -> Vec<Value> {
    let mut domains: Vec<&str> = state.failure_domains.iter().map(String::as_str).collect();
    let mut others: Vec<&str> = state.machines.iter().map(MachineState::failure_domain).collect();
    others.retain(|domain| !domains.contains(domain));
    others.sort_unstable();
    others.dedup();
    domains.extend(others);
    let shown = domains.into_iter().map(|domain| {
        let machines = state
            .machines
            .iter()
            .filter(|machine| machine.failure_domain() == domain);
        let machines: Vec<Value> = machines.map(|machine| shown_machine(state, machine)).collect();
        json!({
            "index": Value::Null,
            "failureDomain": (!domain.is_empty()).then_some(domain),
            "machines": machines,
        })
    });
    shown.collect()
}

/// Whether a machine has a Node and healthy components.
pub(super) fn is_ready(state: &State, machine: &MachineState) -> bool {
    machine.node().is_some() && state.components().iter().all(|type_| machine.is_true(type_))
}

fn shown_machine(state: &State, machine: &MachineState) -> Value {
    json!({
        "name": machine.name(),
        "ready": is_ready(state, machine),
        "current": machine.is_current(),
        "deleting": machine.is_deleting(),
    })
}

/// The steps for machines and etcd members. Patches of the control plane itself are bookkeeping.
fn steps(steps: &[Step]) -> Vec<Value> {
    let visible = steps
        .iter()
        .filter(|step| !matches!(step.action, Action::PatchControlPlane(_)));
    visible.map(shown).collect()
}

/// A step as JSON.
pub(super) fn shown(step: &Step) -> Value {
    let mut value = json!({
        "action": step.verb(),
        "index": step.index,
        "machine": step.machine_of_control_plane(),
        "failureDomain": step.domain(),
        "because": step.because,
    });
    let mut put = |field: &str, content: Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.insert(field.to_owned(), content);
        }
    };
    match &step.action {
        Action::Create { bootstrap, .. } => put("bootstrap", json!(bootstrap.name())),
        Action::Delete {
            member, move_leader_to, ..
        } => {
            put("moveLeaderTo", json!(move_leader_to));
            if let Some(member) = member {
                put("member", json!(member));
            }
        }
        Action::RemoveMember { member } => put("member", json!(member)),
        Action::RemoveHook {
            member, move_leader_to, ..
        } => {
            put("member", json!(member));
            put("moveLeaderTo", json!(move_leader_to));
        }
        Action::Patch(_) | Action::PatchControlPlane(_) => {}
    }
    value
}

/// The etcd members, and which changes keep the quorum; null if etcd is external or unknown.
fn etcd(state: &State) -> Value {
    let Some(members) = state.members() else {
        return Value::Null;
    };
    let is_safe = |change: MembershipChange<'_>| lost_quorum(&members, change).is_none();
    let voting = members.iter().filter(|member| votes(member)).count();
    let healthy = members
        .iter()
        .filter(|member| votes(member) && member.is_healthy)
        .count();
    let shown: Vec<Value> = members
        .iter()
        .map(|member| {
            let may_be_removed = member.name.is_empty() || is_safe(MembershipChange::Remove(&member.name));
            json!({
                "name": member.name,
                "learner": member.is_learner,
                "healthy": member.is_healthy,
                "removalIsSafe": may_be_removed,
            })
        })
        .collect();
    json!({
        "members": shown,
        "voting": voting,
        "healthy": healthy,
        "quorum": voting / 2 + 1,
        "additionIsSafe": is_safe(MembershipChange::Add),
    })
}

/// A member without a name has not started, and does not vote.
fn votes(member: &EtcdMember) -> bool {
    !member.is_learner && !member.name.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kcp::plan::plan;
    use crate::kcp::preview::preview;
    use crate::kcp::samples::{World, now};

    #[test]
    fn the_status_has_the_conditions_the_counters_and_the_machines() {
        let mut world = World::new("abc");
        world.unhealthy(1);
        let state = world.state();
        let plan = plan(&state, now());
        let status = crate::kcp::status::status(&state, &plan, now());
        let report = super::status_report(&state, &plan, &status, now());
        assert_eq!(
            (&report["set"], &report["kind"]),
            (&json!("cp"), &json!("KubeadmControlPlane"))
        );
        assert_eq!(report["conditions"][0]["type"], "Available");
        assert_eq!(report["progress"], json!({"updated": 3, "total": 3}));
        assert_eq!(report["readyReplicas"], 3);
        assert_eq!(report["versions"], json!([{"version": "v1.30.0", "replicas": 3}]));
        assert_eq!(report["machines"][1]["conditions"][1]["reason"], "MachineDeleting");
        assert_eq!(report["next"][0]["action"], "delete");
    }

    #[test]
    fn the_report_has_the_fields_of_a_set_and_those_of_etcd() {
        let mut world = World::new("abc");
        world.spec()["version"] = json!("v1.30.1");
        let state = world.state();
        let report = super::report(&state, &plan(&state, now()), &preview(&world.observed(), now()));
        let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "changes",
                "degraded",
                "etcd",
                "kind",
                "next",
                "notes",
                "placement",
                "revision",
                "rollout",
                "set",
                "waits"
            ]
        );
        assert_eq!(
            (&report["set"], &report["kind"]),
            (&json!("cp"), &json!("KubeadmControlPlane"))
        );
        assert_eq!(
            report["changes"],
            json!([{"field": "version", "old": "v1.30.0", "new": "v1.30.1"}])
        );
        let next = &report["next"][0];
        assert_eq!(next["action"], "create");
        assert_eq!(next["failureDomain"], "a");
        assert_eq!(next["index"], json!(null));
        assert!(next["machine"].as_str().unwrap().starts_with("cp-"));
        assert_eq!(report["rollout"].as_array().unwrap().len(), 6);
        assert_eq!(report["placement"][1]["machines"][0]["name"], "m-1");
        assert_eq!(report["etcd"]["quorum"], 2);
        assert_eq!(report["etcd"]["members"][0]["removalIsSafe"], true);
    }
}

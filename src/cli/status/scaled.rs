//! The output of `capstan status` for a ControlPlane: its machines by failure domain. Pipelines
//! depend on the fields of the JSON. Nothing is decided here.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use capstan_core::api::machine_openshift_io::control_plane::KIND;
use capstan_core::control_plane::action::Plan;
use capstan_core::control_plane::state::MachineState;
use capstan_core::cpms::changes::revision;
use capstan_core::cpms::domains::FailureDomain;
use capstan_core::cpms::machine_state::NodeState;
use serde_json::{Value, json};

use super::{LEAVING, error};
use crate::controllers::control_plane::Assessment;

/// The output of `capstan status -o json`. The fields are those of a set, and `kind`; a
/// ControlPlane has no indexes.
pub(super) fn as_json(assessment: &Assessment) -> Value {
    let (object, plan) = (assessment.object(), assessment.plan());
    let read = assessment.read();
    let conditions = object.status.as_ref().map(|status| &status.conditions);
    let mut all = json!({
        "kind": KIND,
        "set": object.metadata.name(),
        "valid": read.is_some(),
        "deleting": object.metadata.is_deleting(),
        "active": read.is_some(),
        "conditions": conditions,
        "waits": plan.waits.iter().map(|wait| json!({
            "index": Value::Null,
            "machine": wait.subject.as_ref().map(|machine| machine.name.as_str()),
            "for": wait.reason.name(),
            "message": wait.message,
        })).collect::<Vec<Value>>(),
        "notes": plan.notes,
        "degraded": plan.degraded.iter()
            .map(|reason| json!({"reason": reason.reason, "message": reason.message}))
            .collect::<Vec<Value>>(),
    });
    if let (Some((spec, state)), Some(all)) = (read, all.as_object_mut()) {
        let updated = state
            .standing()
            .filter(|machine| machine.is_current() && machine.is_ready());
        let progress = json!({"updated": updated.count(), "total": spec.replicas});
        all.insert(
            "revision".to_owned(),
            json!(revision(&spec.template.provider_spec, spec.comparison())),
        );
        all.insert("progress".to_owned(), progress);
        let machines = state.machines.iter().map(|machine| of_machine(plan, machine));
        all.insert("machines".to_owned(), machines.collect());
    }
    all
}

fn of_machine(plan: &Plan, machine: &MachineState) -> Value {
    json!({
        "name": machine.name(),
        "index": Value::Null,
        "failureDomain": machine.domain.as_ref().map(FailureDomain::entry),
        "phase": machine.machine.phase(),
        "node": machine.node.name(),
        "ready": machine.is_ready(),
        "current": machine.is_current(),
        "deleting": machine.is_deleting(),
        "changes": machine.changes.iter()
            .map(|change| json!({"field": change.field, "old": change.old, "new": change.new}))
            .collect::<Vec<Value>>(),
        "waits": waits(plan, machine).collect::<Vec<&str>>(),
    })
}

fn waits<'a>(plan: &'a Plan, machine: &'a MachineState) -> impl Iterator<Item = &'a str> {
    let about = plan.waits.iter().filter(|wait| {
        let subject = wait.subject.as_ref();
        subject.is_some_and(|subject| subject.name == machine.name())
    });
    about.map(|wait| wait.message.as_str())
}

fn node(machine: &MachineState) -> String {
    match &machine.node {
        NodeState::None => "no node yet".to_owned(),
        NodeState::Missing { name } => format!("node {name} does not exist"),
        NodeState::OfAnother { name, machine } => format!("node {name} belongs to machine {machine}"),
        NodeState::NotReady { name, .. } => format!("node {name} not ready"),
        NodeState::Ready { name, .. } => format!("node {name} ready"),
    }
}

/// The output of `capstan status` for a terminal.
pub(super) fn as_text(assessment: &Assessment) -> String {
    let (object, plan) = (assessment.object(), assessment.plan());
    let name = object.metadata.name();
    let Some((spec, state)) = assessment.read() else {
        let head = if object.metadata.is_deleting() {
            format!("ControlPlane {name} {LEAVING}")
        } else {
            format!("ControlPlane {name}: the controller does nothing\n")
        };
        let reasons = plan.degraded.iter();
        let text = reasons.fold(head, |text, reason| {
            format!("{text}Degraded ({}): {}\n", reason.reason, reason.message)
        });
        let waits = plan.waits.iter();
        return waits.fold(text, |text, wait| format!("{text}Waits: {}\n", wait.message));
    };
    let updated = state
        .standing()
        .filter(|machine| machine.is_current() && machine.is_ready());
    let (done, all) = (updated.count(), spec.replicas);
    let bar = format!(
        "{}{}",
        "█".repeat(done.min(all) * 6),
        "░".repeat(all.saturating_sub(done) * 6)
    );
    let revision = revision(&spec.template.provider_spec, spec.comparison());
    let mut text =
        format!("ControlPlane {name}  {all} machine(s)  revision {revision}\n[{bar}] {done} of {all} up to date\n");
    let domains: BTreeSet<Option<&FailureDomain>> =
        state.machines.iter().map(|machine| machine.domain.as_ref()).collect();
    let last = domains.last().copied();
    // Writing to a String does not fail.
    for domain in domains {
        let (branch, trunk) = if Some(domain) == last {
            ("└─", "  ")
        } else {
            ("├─", "│ ")
        };
        let title = domain.map_or_else(|| String::from("no failure domain"), ToString::to_string);
        let _ = writeln!(text, "{branch} {title}");
        let machines: Vec<&MachineState> = state
            .machines
            .iter()
            .filter(|one| one.domain.as_ref() == domain)
            .collect();
        for (position, machine) in machines.iter().enumerate() {
            let end = position + 1 == machines.len();
            let (branch, below) = if end { ("└─", "   ") } else { ("├─", "│  ") };
            let age = if machine.is_current() { "up to date" } else { "outdated" };
            let marked = if machine.is_marked { ", to be replaced" } else { "" };
            let phase = machine.machine.phase().unwrap_or("no phase");
            let deleting = if machine.is_deleting() { ", being deleted" } else { "" };
            let state = format!("{phase}{deleting}, {age}{marked}, {}", node(machine));
            let _ = writeln!(text, "{trunk} {branch} {}  {state}", machine.name());
            for wait in waits(plan, machine) {
                let _ = writeln!(text, "{trunk} {below} waits: {wait}");
            }
        }
    }
    for reason in &plan.degraded {
        let _ = writeln!(text, "Degraded ({}): {}", reason.reason, reason.message);
    }
    text.push_str(&error(object.status.iter().flat_map(|status| &status.conditions)));
    for wait in plan.waits.iter().filter(|wait| wait.subject.is_none()) {
        let _ = writeln!(text, "Waits: {}", wait.message);
    }
    for note in &plan.notes {
        let _ = writeln!(text, "Note: {note}");
    }
    if let Some(step) = plan.disruptive() {
        let machine = step.machine().unwrap_or_default();
        let _ = writeln!(text, "Next: {} {machine}: {}", step.verb(), step.because);
    }
    text
}

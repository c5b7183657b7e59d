//! Conditions of machines, and conditions of the control plane that summarize them.

use jiff::{SignedDuration, Timestamp};

use super::{Condition, lines};
use crate::kcp::membership;
use crate::kcp::remediation::{self, Decision};
use crate::kcp::state::{MachineState, State, condition};

/// A new machine without the condition `UpToDate` is not counted for this time.
const NEW: SignedDuration = SignedDuration::from_secs(10);

/// The conditions that the controller writes on each machine, by the name of the machine. A machine
/// whose request for remediation is answered has also `OwnerRemediated`.
pub fn machine_conditions(state: &State, now: Timestamp) -> Vec<(&str, Vec<Condition>)> {
    let answer = answer(state, now);
    let conditions = |machine: &MachineState| {
        let mut conditions = vec![up_to_date_condition(machine)];
        if let Some((_, answer)) = answer.as_ref().filter(|(name, _)| *name == machine.name()) {
            conditions.push(answer.clone());
        }
        conditions
    };
    let machines = state.machines.iter();
    machines.map(|machine| (machine.name(), conditions(machine))).collect()
}

/// The answer to the health check of the most broken machine.
fn answer(state: &State, now: Timestamp) -> Option<(&str, Condition)> {
    const TYPE: &str = condition::OWNER_REMEDIATED;
    match remediation::decide(state, now, membership::needs_repair(state, now)) {
        Decision::Nothing | Decision::InProgress => None,
        Decision::Deferred(refusal) => {
            let condition = Condition::new(TYPE, "False", "RemediationDeferred", refusal.message);
            Some((refusal.machine.name(), condition))
        }
        Decision::Impossible(refusal) => {
            let condition = Condition::new(TYPE, "False", "CannotBeRemediated", refusal.message);
            Some((refusal.machine.name(), condition))
        }
        Decision::Delete(machine, _) => {
            let condition = Condition::new(TYPE, "False", "MachineDeleting", "Machine is deleting");
            Some((machine.name(), condition))
        }
    }
}

/// Why a machine is outdated; empty for a machine that is up to date. A machine that agrees with
/// the control plane is up to date once the kubelet of its Node has its version.
pub(super) fn outdated_because(machine: &MachineState) -> Vec<String> {
    if !machine.is_current() {
        let reasons = machine.differences.iter().map(|difference| difference.reason.clone());
        return reasons.collect();
    }
    let wanted = &machine.machine.spec.version;
    let other = machine.kubelet_version.iter().filter(|version| *version != wanted);
    other
        .map(|version| format!("Node has version {version}, {wanted} required"))
        .collect()
}

/// The condition `UpToDate` of a machine.
pub(super) fn up_to_date_condition(machine: &MachineState) -> Condition {
    const TYPE: &str = "UpToDate";
    let reasons = outdated_because(machine);
    if reasons.is_empty() {
        return Condition::new(TYPE, "True", "UpToDate", "");
    }
    let reason = if machine.is_current() {
        "Updating"
    } else {
        "NotUpToDate"
    };
    let lines: Vec<String> = reasons.iter().map(|reason| format!("* {reason}")).collect();
    Condition::new(TYPE, "False", reason, lines.join("\n"))
}

/// `MachinesReady`.
pub(super) fn ready(state: &State) -> Condition {
    const TYPE: &str = "MachinesReady";
    if state.machines.is_empty() {
        return Condition::new(TYPE, "True", "NoReplicas", "");
    }
    let not_ready: Vec<&MachineState> = state
        .machines
        .iter()
        .filter(|machine| !machine.is_true("Ready"))
        .collect();
    let names: Vec<String> = not_ready
        .iter()
        .map(|machine| {
            let message = machine.condition("Ready").map(|ready| ready.message.as_str());
            match message.filter(|message| !message.is_empty()) {
                Some(message) => format!("Machine {}: {message}", machine.name()),
                None => format!("Machine {} is not ready", machine.name()),
            }
        })
        .collect();
    let message = lines(String::new(), names.iter().map(String::as_str));
    let message = message.trim_start().to_owned();
    if not_ready.is_empty() {
        Condition::new(TYPE, "True", "Ready", "")
    } else if not_ready.iter().any(|machine| machine.is_false("Ready")) {
        Condition::new(TYPE, "False", "NotReady", message)
    } else {
        Condition::new(TYPE, "Unknown", "ReadyUnknown", message)
    }
}

/// `MachinesUpToDate`. A machine that was created just now is not counted.
pub(super) fn up_to_date(state: &State, now: Timestamp) -> Condition {
    const TYPE: &str = "MachinesUpToDate";
    let counts = |machine: &&MachineState| {
        let created = machine.machine.metadata.creation_timestamp;
        machine.condition("UpToDate").is_some() || created.is_none_or(|created| now.duration_since(created) > NEW)
    };
    let counted: Vec<&MachineState> = state.machines.iter().filter(counts).collect();
    if counted.is_empty() {
        return Condition::new(TYPE, "True", "NoReplicas", "");
    }
    let outdated: Vec<String> = counted
        .iter()
        .filter_map(|machine| {
            let first = outdated_because(machine).into_iter().next()?;
            Some(format!("Machine {}: {first}", machine.name()))
        })
        .collect();
    if outdated.is_empty() {
        return Condition::new(TYPE, "True", "UpToDate", "");
    }
    let message = lines(String::new(), outdated.iter().map(String::as_str));
    Condition::new(TYPE, "False", "NotUpToDate", message.trim_start())
}

//! The status of a migration and of the synchronization, on the Machine of the Machine API.
//!
//! `synchronizedGeneration` is written for readers and decides nothing (decision 26). The CRD does
//! not let it decrease, except in the write that ends a migration.
//!
//! Must never: change the time of a condition without a change of its status.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::pair::{FullObject, Part, Write};
use super::spec::{Api, Authority, Kind};
use crate::api::machine_openshift_io::authority::SYNCHRONIZED;

/// The content of the condition Synchronized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synchronized {
    /// "True", "False" or "Unknown".
    pub status: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl Synchronized {
    /// The mirror agrees. `losses` are the values that it cannot hold.
    pub fn agrees(kind: Kind, from: Api, losses: &[String]) -> Self {
        let (kind, to) = (kind.title(), from.other().title());
        let mut message = format!("the {kind} in {} is copied to {to}", from.title());
        if let Some(first) = losses.first() {
            let more = losses.len() - 1;
            let others = if more == 0 {
                String::new()
            } else {
                format!(" (and {more} more)")
            };
            message = format!("{message}, without {first}{others}");
        }
        Self {
            status: "True",
            reason: "ResourceSynchronized",
            message,
        }
    }

    /// The mirror does not agree.
    pub fn blocked(reason: &'static str, message: String) -> Self {
        let status = "False";
        Self {
            status,
            reason,
            message,
        }
    }

    fn severity(&self) -> Option<&'static str> {
        match self.status {
            "True" => None,
            "False" => Some("Error"),
            _ => Some("Info"),
        }
    }
}

/// The conditions of a Machine with another condition Synchronized. `None` if it is stored already.
fn conditions(machine: &FullObject, condition: &Synchronized, now: Timestamp) -> Option<Value> {
    let list = machine.value.pointer("/status/conditions").and_then(Value::as_array);
    let mut list = list.cloned().unwrap_or_default();
    let at = list
        .iter()
        .position(|known| known.get("type").and_then(Value::as_str) == Some(SYNCHRONIZED));
    let known = at.and_then(|at| list.get(at)).cloned().unwrap_or_default();
    let text = |field: &str| known.get(field).and_then(Value::as_str).unwrap_or_default();
    let same_status = text("status") == condition.status;
    let severity = condition.severity().unwrap_or_default();
    let is_same = same_status
        && text("reason") == condition.reason
        && text("message") == condition.message
        && text("severity") == severity;
    if is_same {
        return None;
    }
    let time = match text("lastTransitionTime") {
        time if same_status && !time.is_empty() => time.to_owned(),
        _ => now.to_string(),
    };
    let mut wanted = json!({"type": SYNCHRONIZED, "status": condition.status, "reason": condition.reason,
        "message": condition.message, "lastTransitionTime": time});
    if let (Value::Object(fields), false) = (&mut wanted, severity.is_empty()) {
        fields.insert(String::from("severity"), severity.into());
    }
    match at.and_then(|at| list.get_mut(at)) {
        Some(known) => *known = wanted,
        None => list.push(wanted),
    }
    Some(list.into())
}

/// When the status of the condition Synchronized changed last.
pub(super) fn changed(machine: &FullObject) -> Option<Timestamp> {
    let conditions = machine.value.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let condition = conditions.find(|condition| condition.get("type") == Some(&SYNCHRONIZED.into()))?;
    condition.get("lastTransitionTime")?.as_str()?.parse().ok()
}

/// The source that a mirror agrees with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The API.
    pub api: Api,
    /// The generation. `None`: the next write reports it.
    pub generation: Option<i64>,
}

/// Reports the synchronization; `agreed` once the mirror agrees with its source. A field that the
/// status does not have is written only with a condition: the CRD may drop it.
pub fn synchronization(
    machine: &FullObject,
    condition: &Synchronized,
    agreed: Option<Agreed>,
    now: Timestamp,
) -> Option<Write> {
    let mut status = Map::new();
    if let Some(conditions) = conditions(machine, condition, now) {
        status.insert(String::from("conditions"), conditions);
    }
    let is_changed = !status.is_empty();
    if let Some(Agreed { api, generation }) = agreed {
        let known = machine.member.synchronized_generation;
        let grows = |generation: &i64| known.map_or(is_changed, |known| known < *generation);
        if let Some(generation) = generation.filter(grows) {
            status.insert(String::from("synchronizedGeneration"), generation.into());
        }
        if is_changed && machine.member.synchronized_api.is_none() {
            status.insert(String::from("synchronizedAPI"), api.as_str().into());
        }
    }
    let because = format!("the condition Synchronized is {}", condition.status);
    (!status.is_empty()).then(|| Write::status(Part::MachineApi, machine, status.into(), because))
}

/// Sets `status.authoritativeAPI`, and with it `status.synchronizedAPI`: the API that is, or was
/// last, authoritative.
pub fn authority(machine: &FullObject, authority: Authority, synchronized_api: Api, because: &str) -> Write {
    let status = json!({"authoritativeAPI": authority.as_str(), "synchronizedAPI": synchronized_api.as_str()});
    Write::status(Part::MachineApi, machine, status, because)
}

/// Begins a migration from an API whose object has this generation, which the mirror agrees with.
pub fn begun(machine: &FullObject, from: Api, generation: Option<i64>) -> Write {
    let mut status = json!({"authoritativeAPI": Authority::Migrating.as_str(), "synchronizedAPI": from.as_str()});
    let known = machine.member.synchronized_generation;
    if let (Value::Object(fields), Some(generation)) = (&mut status, generation)
        && known.is_none_or(|known| known < generation)
    {
        fields.insert(String::from("synchronizedGeneration"), generation.into());
    }
    Write::status(Part::MachineApi, machine, status, "a migration is requested")
}

/// The reason of the condition Synchronized between the end of a migration and the first copy from
/// the API that became authoritative.
pub(super) const CHANGED: &str = "AuthoritativeAPIChanged";

/// Ends a migration in one write: the target is authoritative, and nothing is copied from it yet.
pub fn finished(machine: &FullObject, kind: Kind, to: Api, now: Timestamp) -> Write {
    let condition = Synchronized {
        status: "Unknown",
        reason: CHANGED,
        message: format!(
            "{} is authoritative now, and its {} is not copied yet",
            to.title(),
            kind.title()
        ),
    };
    let mut status = json!({"authoritativeAPI": to.as_str(), "synchronizedAPI": to.as_str(),
        "synchronizedGeneration": 0});
    if let (Value::Object(fields), Some(conditions)) = (&mut status, conditions(machine, &condition, now)) {
        fields.insert(String::from("conditions"), conditions);
    }
    let because = format!("the migration to {} is complete", to.title());
    Write::status(Part::MachineApi, machine, status, because)
}

//! Whether the synchronization fails for many objects at once: for a condition of the
//! ClusterOperator `machine-api`, which OpenShift shows to administrators and collects for support.
//!
//! A single object that cannot be converted has its own condition, and is no failure of the
//! cluster. Neither is an object that is not synchronized for a moment, such as a Machine whose
//! instance is being created. An object whose owner has no counterpart, such as a Machine of a
//! ControlPlane, is not mirrored, and does not count: its own condition tells that.
//!
//! Must never: change a condition of another type, or count a migration that a user requested as a
//! failure.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Operational Aspects of API
//! Extensions".

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::pair::FullObject;
use super::report;
use super::sync::OWNER_NOT_SUPPORTED;

/// The ClusterOperator of the Machine API.
pub const OPERATOR: &str = "machine-api";
/// The type of the condition.
pub const CONDITION: &str = "MirroringDegraded";
/// The synchronization fails widely if it fails for at least this many objects, and for at least
/// half of all.
const LEAST: usize = 2;
/// How long an object must not have been synchronized before it counts.
const LASTING: SignedDuration = SignedDuration::from_mins(5);

/// The number of mirrored objects, and of those that are not synchronized, by the reason of their
/// condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    all: usize,
    blocked: BTreeMap<String, usize>,
    example: Option<String>,
    next: Option<Timestamp>,
}

impl Tally {
    /// When an object begins to count although nothing changed.
    pub fn next(&self) -> Option<Timestamp> {
        self.next
    }

    /// Counts an object of the Machine API at a time.
    pub fn add(&mut self, kind: &str, object: &FullObject, now: Timestamp) {
        let condition = object.member.synchronized.as_ref();
        let failing = condition.filter(|condition| condition.status == "False");
        // Its owner exists in one API only, so it is never mirrored.
        if failing.is_some_and(|condition| condition.reason == OWNER_NOT_SUPPORTED) {
            return;
        }
        self.all += 1;
        let Some(condition) = failing else {
            return;
        };
        let since = report::changed(object).and_then(|since| since.checked_add(LASTING).ok());
        if let Some(since) = since.filter(|since| *since > now) {
            self.next = Some(self.next.map_or(since, |next| next.min(since)));
        } else {
            *self.blocked.entry(condition.reason.clone()).or_default() += 1;
            self.example
                .get_or_insert_with(|| format!("{kind} {}: {}", object.member.name, condition.message));
        }
    }

    /// Status, reason, and message of the condition.
    fn condition(&self) -> (&'static str, &'static str, String) {
        let failing: usize = self.blocked.values().sum();
        if failing < LEAST || failing * 2 < self.all {
            return ("False", "AsExpected", String::new());
        }
        let reasons: Vec<String> = self
            .blocked
            .iter()
            .map(|(reason, count)| format!("{reason}: {count}"))
            .collect();
        let example = self.example.as_deref().unwrap_or_default();
        let message = format!(
            "{failing} of {} mirrored objects are not synchronized ({}); for example {example}",
            self.all,
            reasons.join(", ")
        );
        ("True", "SynchronizationFailing", message)
    }
}

/// The merge patch of the status of the ClusterOperator; `None` if its condition is right. Without
/// a failure, no condition is added.
pub fn patch(operator: &FullObject, tally: &Tally, now: Timestamp) -> Option<Value> {
    let (status, reason, message) = tally.condition();
    let stored = operator.value.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = stored.cloned().unwrap_or_default();
    let is_own = |condition: &Value| condition.get("type").and_then(Value::as_str) == Some(CONDITION);
    let known = conditions.iter().find(|condition| is_own(condition)).cloned();
    if known.is_none() && status == "False" {
        return None;
    }
    let known = known.unwrap_or_default();
    let text = |field: &str| known.get(field).and_then(Value::as_str).unwrap_or_default();
    let same_status = text("status") == status;
    if same_status && text("reason") == reason && text("message") == message {
        return None;
    }
    let time = match text("lastTransitionTime") {
        time if same_status && !time.is_empty() => time.to_owned(),
        // The API server stores whole seconds.
        _ => Timestamp::from_second(now.as_second()).unwrap_or(now).to_string(),
    };
    let mut wanted = Map::from_iter([
        (String::from("type"), CONDITION.into()),
        (String::from("status"), status.into()),
        (String::from("reason"), reason.into()),
        (String::from("lastTransitionTime"), time.into()),
    ]);
    if !message.is_empty() {
        wanted.insert(String::from("message"), message.into());
    }
    match conditions.iter_mut().find(|condition| is_own(condition)) {
        Some(known) => *known = wanted.into(),
        None => conditions.push(wanted.into()),
    }
    let metadata = json!({"uid": operator.uid(), "resourceVersion": operator.resource_version()});
    Some(json!({"metadata": metadata, "status": {"conditions": conditions}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn tally(synced: usize, blocked: usize) -> Tally {
        since("2026-01-01T00:00:00Z", synced, blocked)
    }

    fn since(since: &str, synced: usize, blocked: usize) -> Tally {
        let mut tally = Tally::default();
        let object = |status: &str| {
            FullObject::from(json!({"metadata": {"name": "a"}, "status": {"conditions": [
                {"type": "Synchronized", "status": status, "reason": "ClusterNotFound", "message": "m",
                    "lastTransitionTime": since}]}}))
        };
        (0..synced).for_each(|_| tally.add("Machine", &object("True"), now()));
        (0..blocked).for_each(|_| tally.add("Machine", &object("False"), now()));
        tally
    }

    fn operator(conditions: &Value) -> FullObject {
        FullObject::from(
            json!({"metadata": {"name": OPERATOR, "uid": "u", "resourceVersion": "7"},
            "status": {"conditions": conditions}}),
        )
    }

    #[test]
    fn one_object_is_no_wide_failure_and_half_of_them_are() {
        let healthy = operator(&json!([{"type": "Available", "status": "True"}]));
        assert_eq!(patch(&healthy, &tally(0, 1), now()), None);
        assert_eq!(patch(&healthy, &tally(5, 4), now()), None);
        let written = patch(&healthy, &tally(4, 4), now()).unwrap();
        let conditions = written.pointer("/status/conditions").and_then(Value::as_array).unwrap();
        assert_eq!(conditions.len(), 2, "the conditions of other reporters stay");
        assert_eq!(conditions[1]["status"], "True");
        assert!(
            conditions[1]["message"]
                .as_str()
                .unwrap()
                .starts_with("4 of 8 mirrored objects")
        );
        assert_eq!(written["metadata"]["resourceVersion"], "7");
    }

    /// Nothing that a user can do would end the report.
    #[test]
    fn v213_objects_whose_owner_has_no_counterpart_are_no_failure_of_the_cluster() {
        let mut tally = tally(1, 1);
        let owned = FullObject::from(json!({"metadata": {"name": "m"}, "status": {"conditions": [
            {"type": "Synchronized", "status": "False", "reason": "OwnerNotSupported",
                "message": "metadata.ownerReferences: a ControlPlane has no counterpart in Cluster API",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}));
        (0..3).for_each(|_| tally.add("Machine", &owned, now()));
        assert_eq!(patch(&operator(&json!([])), &tally, now()), None);
        // They hide no failure of the others.
        let object = |status: &str| {
            FullObject::from(json!({"metadata": {"name": "a"}, "status": {"conditions": [
                {"type": "Synchronized", "status": status, "reason": "ClusterNotFound", "message": "m",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
        };
        tally.add("Machine", &object("False"), now());
        let written = patch(&operator(&json!([])), &tally, now()).unwrap();
        let message = written.pointer("/status/conditions/0/message").and_then(Value::as_str);
        assert!(message.unwrap().starts_with("2 of 3 mirrored objects"), "{message:?}");
    }

    #[test]
    fn objects_that_are_not_synchronized_for_a_moment_do_not_count_yet() {
        let recent = now() - SignedDuration::from_mins(1);
        let tally = since(&recent.to_string(), 0, 3);
        assert_eq!(patch(&operator(&json!([])), &tally, now()), None);
        assert_eq!(tally.next(), Some(recent + LASTING));
    }

    #[test]
    fn the_condition_ends_with_the_failure_and_then_nothing_is_written() {
        let failing = patch(&operator(&json!([])), &tally(0, 3), now()).unwrap();
        let stored = operator(&failing["status"]["conditions"]);
        assert_eq!(patch(&stored, &tally(0, 3), now()), None);
        let ended = patch(&stored, &tally(3, 0), now()).unwrap();
        assert_eq!(ended["status"]["conditions"][0]["status"], "False");
        let stored = operator(&ended["status"]["conditions"]);
        assert_eq!(patch(&stored, &tally(3, 0), now()), None);
    }
}

//! The events about machines and control planes, for the page.

use serde_json::Value;

use crate::dashboard::{SeenEvent, words};

/// The kinds whose events are shown.
const SUBJECTS: [&str; 7] = [
    "ControlPlaneMachineSet",
    "ControlPlane",
    "KubeadmControlPlane",
    "Machine",
    "MachineSet",
    "MachineHealthCheck",
    "Node",
];

/// The most events that are shown.
const MOST: usize = 20;

/// The newest events among some objects, the newest first.
pub(super) fn of_objects<'a>(objects: impl Iterator<Item = &'a Value>) -> Vec<SeenEvent> {
    let mut events: Vec<SeenEvent> = objects.filter_map(read).collect();
    events.sort_by(|left, right| (&right.time, &right.subject).cmp(&(&left.time, &left.subject)));
    events.dedup();
    events.truncate(MOST);
    events
}

/// An event; `None` for another object, and for an event about another kind.
fn read(object: &Value) -> Option<SeenEvent> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let subject = match (text("/involvedObject/kind"), text("/regarding/kind")) {
        ("", kind) => (kind, text("/regarding/name")),
        (kind, _) => (kind, text("/involvedObject/name")),
    };
    if text("/kind") != "Event" || !SUBJECTS.contains(&subject.0) {
        return None;
    }
    let times = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/firstTimestamp",
    ];
    let time = times.into_iter().map(text).find(|time| !time.is_empty());
    let counts = ["/series/count", "/count"];
    let count = counts.iter().find_map(|pointer| object.pointer(pointer)?.as_u64());
    let message = [text("/message"), text("/note")]
        .into_iter()
        .find(|text| !text.is_empty());
    Some(SeenEvent {
        time: time.unwrap_or_default().to_owned(),
        warning: text("/type") == "Warning",
        subject: format!("{} {}", subject.0, subject.1),
        message: message.map_or_else(|| words(text("/reason")), str::to_owned),
        count: count.unwrap_or(1).max(1),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_events_about_machines_come_first() {
        let event = |kind: &str, name: &str, time: &str, reason: &str, message: &str| {
            json!({"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason, "message": message,
                "involvedObject": {"kind": kind, "name": name}, "lastTimestamp": time, "count": 2})
        };
        let objects = [
            event("Machine", "a", "2026-01-01T00:00:00Z", "FailedCreate", ""),
            event("Pod", "b", "2026-01-01T00:00:02Z", "Killing", "x"),
            event(
                "ControlPlaneMachineSet",
                "cluster",
                "2026-01-01T00:00:01Z",
                "Created",
                "created m-1",
            ),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}),
        ];
        let events = of_objects(objects.iter());
        let shown: Vec<(&str, &str)> = events
            .iter()
            .map(|event| (event.subject.as_str(), event.message.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("ControlPlaneMachineSet cluster", "created m-1"),
                ("Machine a", "Failed create")
            ]
        );
        assert!(events.iter().all(|event| event.warning && event.count == 2));
    }

    #[test]
    fn at_most_twenty_events_are_shown() {
        let event = |number: usize| json!({"kind": "Event", "involvedObject": {"kind": "Machine", "name": format!("m-{number}")}});
        let objects: Vec<Value> = (0..50).map(event).collect();
        assert_eq!(of_objects(objects.iter()).len(), MOST);
    }
}

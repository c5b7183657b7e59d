//! The state of a MachinePool as a page of text.

use std::fmt::Write as _;

use serde_json::Value;

/// The page of a report of `capstan_core::pool::report::status_report`.
pub(super) fn page(report: &Value) -> String {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = |key: &str| report.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let number = |pointer: &str| report.pointer(pointer).map_or_else(String::new, Value::to_string);
    // Writing to a String does not fail.
    let mut page = format!(
        "MachinePool {}  revision {}\n{} of {} up to date and available\n",
        text(report, "set"),
        text(report, "revision"),
        number("/progress/updated"),
        number("/progress/total"),
    );
    let machines = list("machines");
    for (place, machine) in machines.iter().enumerate() {
        let is_last = place + 1 == machines.len();
        let (branch, trunk) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
        let is = |key: &str| machine.get(key).and_then(Value::as_bool) == Some(true);
        let mut states = vec![if is("ready") { "available" } else { "not available" }];
        states.push(if is("current") { "up to date" } else { "outdated" });
        for (key, state) in [
            ("unhealthy", "unhealthy"),
            ("marked", "marked for deletion"),
            ("record", "cannot be deleted alone"),
            ("deleting", "being deleted"),
        ] {
            states.extend(is(key).then_some(state));
        }
        let node = match text(machine, "node").as_str() {
            "" => String::from("no Node yet"),
            node => format!("Node {node}"),
        };
        let (name, version) = (text(machine, "name"), text(machine, "version"));
        let _ = writeln!(page, "{branch} {name}  {version}  {}, {node}", states.join(", "));
        for wait in machine.get("waits").and_then(Value::as_array).into_iter().flatten() {
            let _ = writeln!(page, "{trunk} waits: {}", wait.as_str().unwrap_or_default());
        }
    }
    for condition in list("conditions") {
        let message = text(&condition, "message");
        let colon = if message.is_empty() { "" } else { ": " };
        let (type_, status) = (text(&condition, "type"), text(&condition, "status"));
        let _ = writeln!(
            page,
            "{type_}: {status} ({}){colon}{message}",
            text(&condition, "reason")
        );
    }
    for wait in list("waits").iter().filter(|wait| text(wait, "machine").is_empty()) {
        let _ = writeln!(page, "Waits: {}", text(wait, "message"));
    }
    for note in list("notes") {
        let _ = writeln!(page, "Note: {}", note.as_str().unwrap_or_default());
    }
    for step in list("next") {
        let _ = writeln!(
            page,
            "Next: {} {}: {}",
            text(&step, "action"),
            text(&step, "object"),
            text(&step, "because")
        );
    }
    page
}

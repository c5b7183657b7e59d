//! Formats the JSON report of a plan as text for a terminal.

use serde_json::Value;

pub(super) fn page(report: &Value) -> String {
    let mut page = String::new();
    let line = |page: &mut String, text: String| {
        page.push_str(text.trim_end());
        page.push('\n');
    };
    let revision = word(report, "revision");
    let revision = if revision.is_empty() {
        String::new()
    } else {
        format!(", revision {revision}")
    };
    let kind = match word(report, "kind") {
        "" => "ControlPlaneMachineSet",
        kind => kind,
    };
    line(&mut page, format!("{kind} {}{revision}", word(report, "set")));
    section(&mut page, "Changes", list(report, "changes"), |change| {
        let shown = |key: &str| match change.get(key) {
            None | Some(Value::Null) => String::from("nothing"),
            Some(value) => value.to_string(),
        };
        format!("{}: {} → {}", word(change, "field"), shown("old"), shown("new"))
    });
    section(&mut page, "Placement", list(report, "placement"), placement);
    section(&mut page, "Degraded", list(report, "degraded"), |reason| {
        format!("{}: {}", word(reason, "reason"), word(reason, "message"))
    });
    section(&mut page, "Next", list(report, "next"), step);
    section(&mut page, "Waits", list(report, "waits"), |wait| {
        format!("{}: {}", word(wait, "for"), word(wait, "message"))
    });
    for note in list(report, "notes") {
        line(&mut page, format!("\nNote: {}", note.as_str().unwrap_or_default()));
    }
    for (title, part) in [
        ("Rollout", "rollout"),
        (
            "The set is Inactive. After activation, the controller would",
            "activation",
        ),
    ] {
        let mut number = 0;
        section(&mut page, title, list(report, part), |planned| {
            number += 1;
            format!("{number}. {}", step(planned))
        });
    }
    let idle = ["degraded", "next", "waits", "notes", "rollout", "activation"]
        .iter()
        .all(|part| list(report, part).is_empty());
    if idle {
        let why = if report.get("activation").is_some() {
            String::from("the set is Inactive, and its activation would change nothing")
        } else if revision.is_empty() {
            String::from("the set is being deleted, and no machine has it as an owner")
        } else if list(report, "placement").iter().all(is_empty) {
            String::from("there is no machine, and none is wanted")
        } else {
            format!("all machines match the {}", common_name(kind))
        };
        line(&mut page, format!("\nNothing to do: {why}."));
    }
    page
}

fn section(page: &mut String, title: &str, entries: &[Value], mut format_entry: impl FnMut(&Value) -> String) {
    if entries.is_empty() {
        return;
    }
    page.push_str(&format!("\n{title}\n"));
    for entry in entries {
        page.push_str(&format!("  {}\n", format_entry(entry)));
    }
}

/// What users call an object of a kind.
fn common_name(kind: &str) -> &'static str {
    match kind {
        "ControlPlaneMachineSet" => "set",
        "MachinePool" => "pool",
        _ => "control plane",
    }
}

/// Whether a place has no machine.
fn is_empty(place: &Value) -> bool {
    list(place, "machines").is_empty()
}

/// The machines of an index, or of a failure domain.
fn placement(place: &Value) -> String {
    let machines: Vec<String> = list(place, "machines").iter().map(machine).collect();
    let machines = if machines.is_empty() {
        String::from("no machine")
    } else {
        machines.join(", ")
    };
    let index = place.get("index").filter(|index| !index.is_null());
    let place = format!("{}{}", index.map_or_else(String::new, Value::to_string), domain(place));
    match place.trim_start() {
        "" => format!("no failure domain: {machines}"),
        place => format!("{place}: {machines}"),
    }
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn is(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn machine(machine: &Value) -> String {
    let mut states = vec![if is(machine, "ready") { "ready" } else { "not ready" }];
    if !is(machine, "current") {
        states.push("outdated");
    }
    if is(machine, "deleting") {
        states.push("being deleted");
    }
    format!("{} ({})", word(machine, "name"), states.join(", "))
}

fn domain(value: &Value) -> String {
    let Some(entry) = value.get("failureDomain").filter(|entry| !entry.is_null()) else {
        return String::new();
    };
    if let Some(name) = entry.as_str() {
        return format!(" in {name}");
    }
    // The short name of the failure domain on each platform, or the whole entry.
    let word = ["/placement/availabilityZone", "/zone", "/availabilityZone", "/name"]
        .iter()
        .find_map(|pointer| entry.pointer(pointer)?.as_str());
    let zone = word.is_some_and(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let what = if zone { "zone " } else { "" };
    format!(" in {what}{}", word.map_or_else(|| entry.to_string(), str::to_owned))
}

fn step(step: &Value) -> String {
    format!(
        "{} {}{}: {}",
        word(step, "action"),
        subject(step),
        domain(step),
        word(step, "because")
    )
}

/// The machine of a step, or else its etcd member or its object, or else the set.
fn subject(step: &Value) -> &str {
    let text = |key: &str| step.get(key).and_then(Value::as_str);
    let member = || match text("member") {
        Some("") => Some("without a name"),
        member => member,
    };
    let object = || text("object");
    text("machine").or_else(member).or_else(object).unwrap_or("the set")
}

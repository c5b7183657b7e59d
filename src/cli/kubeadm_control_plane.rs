//! Plans and states of a KubeadmControlPlane from its objects, for `capstan plan` and
//! `capstan status`.
//!
//! Nothing here decides: `capstan_core::kcp` does.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;
use capstan_core::kcp::first_machine::plan_of_objects;
use capstan_core::kcp::observed::{Observed, SnapshotError, is_control_plane};
use capstan_core::kcp::preview::preview;
use capstan_core::kcp::report::{report, status_report};
use capstan_core::kcp::state::{MachineState, State};
use capstan_core::kcp::status::status;
use jiff::Timestamp;
use serde_json::Value;

use super::documents::{Document, note_other_namespaces, require_namespace};

/// The report of `capstan plan`.
///
/// # Errors
/// An object cannot be read, or the files contain several control planes.
pub(super) fn plan(documents: &[Document], now: Timestamp) -> anyhow::Result<Value> {
    let observed = observed(documents)?;
    let state = State::observe(&observed, now);
    if state.is_etcd_managed() && state.reported.is_none() && !state.machines.is_empty() {
        note("no etcd members are given, so that the conditions of the Machines alone decide about etcd")?;
    }
    note_other_namespaces(documents, state.namespace(), "control plane");
    let next = plan_of_objects(&state, now);
    let report = report(&state, &next, &preview(&observed, now));
    note_lost_quorum(&report)?;
    Ok(report)
}

/// The reports of `capstan plan` and `capstan status`, without notes about the input.
///
/// # Errors
/// An object cannot be read, or the objects contain several control planes.
pub(super) fn reports(documents: &[Document], now: Timestamp) -> anyhow::Result<(Value, Value)> {
    let observed = observed(documents)?;
    let state = State::observe(&observed, now);
    let next = plan_of_objects(&state, now);
    let status = status(&state, &next, now);
    Ok((
        report(&state, &next, &preview(&observed, now)),
        status_report(&state, &next, &status, now),
    ))
}

/// The report of `capstan status`, and its text.
///
/// # Errors
/// An object cannot be read, or the files contain several control planes.
pub(super) fn state(documents: &[Document], now: Timestamp) -> anyhow::Result<(Value, String)> {
    let observed = observed(documents)?;
    let state = State::observe(&observed, now);
    note_other_namespaces(documents, state.namespace(), "control plane");
    let next = plan_of_objects(&state, now);
    let status = status(&state, &next, now);
    let report = status_report(&state, &next, &status, now);
    note_lost_quorum(&report)?;
    let text = page(&state, &report);
    Ok((report, text))
}

/// The text of a field of an object of the report.
fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn page(state: &State, report: &Value) -> String {
    let list = |key: &str| report.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    // Without a number of replicas, the total is null.
    let number = |pointer: &str| match report.pointer(pointer) {
        Some(Value::Number(number)) => number.to_string(),
        _ => String::from("?"),
    };
    let mut page = format!(
        "KubeadmControlPlane {}  {}  revision {}\n{} of {} up to date and ready\n",
        state.name(),
        state.control_plane.spec.version,
        text(report, "revision"),
        number("/progress/updated"),
        number("/progress/total"),
    );
    // Writing to a String does not fail.
    if let Some([healthy, voting, quorum]) = etcd_counts(report) {
        let _ = writeln!(
            page,
            "etcd: {healthy} of {voting} voting members healthy; the quorum is {quorum}"
        );
    }
    let last = state.machines.last().map(MachineState::name);
    for machine in list("machines") {
        let name = text(&machine, "name");
        page.push_str(&machine_lines(&machine, last == Some(name.as_str())));
    }
    for condition in list("conditions") {
        let message = text(&condition, "message").replace('\n', "\n    ");
        let colon = if message.is_empty() { "" } else { ": " };
        let (type_, status) = (text(&condition, "type"), text(&condition, "status"));
        let _ = writeln!(
            page,
            "{type_}: {status} ({}){colon}{message}",
            text(&condition, "reason")
        );
    }
    for reason in list("degraded") {
        let _ = writeln!(
            page,
            "Degraded ({}): {}",
            text(&reason, "reason"),
            text(&reason, "message")
        );
    }
    for wait in list("waits").iter().filter(|wait| text(wait, "machine").is_empty()) {
        let _ = writeln!(page, "Waits: {}", text(wait, "message"));
    }
    for note in list("notes") {
        let _ = writeln!(page, "Note: {}", note.as_str().unwrap_or_default());
    }
    for step in list("next") {
        let words = ["action", "machine", "member"].map(|key| text(&step, key));
        let words: Vec<&str> = words
            .iter()
            .map(String::as_str)
            .filter(|word| !word.is_empty())
            .collect();
        let _ = writeln!(page, "Next: {}: {}", words.join(" "), text(&step, "because"));
    }
    page
}

/// The lines of a machine of the report. `is_last` is the last machine of the page.
fn machine_lines(machine: &Value, is_last: bool) -> String {
    let name = text(machine, "name");
    let (branch, trunk) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
    let is = |key: &str| machine.get(key).and_then(Value::as_bool) == Some(true);
    let mut states = vec![if is("ready") { "ready" } else { "not ready" }];
    states.push(if is("current") { "up to date" } else { "outdated" });
    if is("deleting") {
        states.push("being deleted");
    }
    let place = match text(machine, "failureDomain").as_str() {
        "" => String::new(),
        domain => format!("  in {domain}"),
    };
    let node = match text(machine, "node").as_str() {
        "" => String::from("no Node yet"),
        node => format!("Node {node}"),
    };
    let version = text(machine, "version");
    let mut lines = format!("{branch} {name}{place}  {version}  {}, {node}\n", states.join(", "));
    let waits = machine.get("waits").and_then(Value::as_array);
    for wait in waits.into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(lines, "{trunk} waits: {wait}");
    }
    lines
}

/// The snapshot of the objects.
///
/// # Errors
/// An object cannot be read, or the objects contain several control planes.
pub(super) fn observed(documents: &[Document]) -> anyhow::Result<Observed> {
    require_namespace(documents, is_control_plane)?;
    let objects: Vec<Value> = documents.iter().map(|document| document.object.clone()).collect();
    let places = |error: &SnapshotError| match error {
        SnapshotError::Repeated { places, .. } | SnapshotError::SameUid { places, .. } => {
            let two = places.map(|place| documents.get(place).map_or_else(String::new, Document::place));
            format!(": {}", two.join(" and "))
        }
        _ => String::new(),
    };
    Observed::of_objects(&objects).map_err(|error| {
        let step = format!("reading the objects of the KubeadmControlPlane{}", places(&error));
        anyhow::Error::new(error).context(step)
    })
}

/// The healthy voting members of etcd in a report, all voting ones, and the quorum; `None` if they
/// are not known.
fn etcd_counts(report: &Value) -> Option<[u64; 3]> {
    let count = |key: &str| report.get("etcd")?.get(key)?.as_u64();
    Some([count("healthy")?, count("voting")?, count("quorum")?])
}

/// Notes that etcd has no quorum. The conditions of the Machines in files can be older than the
/// members, and the conditions of the control plane follow from them.
fn note_lost_quorum(report: &Value) -> anyhow::Result<()> {
    match etcd_counts(report) {
        Some([healthy, voting, quorum]) if healthy < quorum => note(&format!(
            "etcd has no quorum: {healthy} of {voting} voting members are healthy, and {quorum} are needed. The \
             conditions of the Machines may be older"
        )),
        _ => Ok(()),
    }
}

fn note(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stderr(), "note: {text}").context("writing the note")
}

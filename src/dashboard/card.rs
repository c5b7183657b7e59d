//! The section of the page about one control plane. It begins with what a user reads first: what
//! happens, why, and whether to act.
//!
//! Every text of a report is escaped, and `bdi` keeps text that is written from right to left from
//! changing the order of what is around it.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::machines;
use super::report::{Change, Mood, Report};
use super::summary::Summary;
use super::tables::{self, value};
use super::timeline::timeline;

/// The fields that the summary names.
const NAMED: usize = 2;

/// One control plane. `anchor` is its address on the page. A forecast is the state after an edit
/// that was not sent.
pub(super) fn control_plane(report: &Report, anchor: &str, is_forecast: bool) -> Markup {
    let forecast = if is_forecast { "Forecast of " } else { "" };
    let label = format!("{forecast}{} {}", report.kind, report.title());
    html! {
        article class="card" id=(anchor) aria-label=(label) {
            header {
                h2 { span class="kind" { (report.kind) } " " bdi { (report.title()) } }
                p class="facts" { (facts(report)) }
                @if !is_forecast {
                    button type="button" class="edit-this" data-object={ (report.kind) "/" (report.name) } {
                        "Edit" span class="spoken" { " " (report.kind) " " (report.title()) }
                    }
                }
            }
            (state(report, &report.summary(), is_forecast))
            (notes(report))
            (machines::section(report, anchor))
            (timeline(report, anchor))
            (tables::changes(report))
            @if let Some(etcd) = &report.etcd { (tables::etcd_members(etcd)) }
            (tables::conditions("etcd, as its operator reports", &report.etcd_operator))
            (tables::conditions("Conditions of the object", &report.conditions))
            @match report.kind.as_str() {
                "ControlPlaneMachineSet" => {},
                _ => p class="footnote" { "Capstan carries out this plan only if its controller for this kind is installed." },
            }
        }
    }
}

pub(super) fn class_of(mood: Mood) -> &'static str {
    match mood {
        Mood::Calm => "calm",
        Mood::Busy => "busy",
        Mood::Paused => "paused",
        Mood::Alarm => "alarm",
    }
}

/// The mark of a mood, which is not only a colour.
pub(super) fn mark(mood: Mood) -> Markup {
    let (sign, spoken) = match mood {
        Mood::Calm => ("✓", "Good: "),
        Mood::Busy => ("…", "In progress: "),
        Mood::Paused => ("‖", "Waits for you: "),
        Mood::Alarm => ("!", "Act: "),
    };
    html! {
        span class={ "mark " (class_of(mood)) } aria-hidden="true" { (sign) }
        span class="spoken" { (spoken) }
    }
}

/// What happens, why, and what the user must do.
fn state(report: &Report, summary: &Summary, is_forecast: bool) -> Markup {
    let (updated, total) = report.up_to_date();
    html! {
        div class={ "state " (class_of(summary.mood)) } {
            p class="headline" {
                (mark(summary.mood))
                span { @if is_forecast { "After the edit. " } bdi { (summary.title) } }
            }
            (machines::bar(report, &format!("{updated} of {total} up to date")))
            dl {
                @if !summary.now.is_empty() {
                    div { dt { "Now" } dd class="now" { bdi { (summary.now) } } }
                }
                @if !report.changes.is_empty() {
                    // The change is not the reason of a problem.
                    div { dt { @if summary.mood == Mood::Alarm { "Change" } @else { "Why" } } dd { (why(&report.changes)) } }
                }
                div {
                    dt { "You" }
                    dd class="you" {
                        @match summary.you.as_slice() {
                            [one] => bdi { (one) },
                            several => ul { @for action in several { li { bdi { (action) } } } },
                        }
                    }
                }
            }
        }
    }
}

fn facts(report: &Report) -> Markup {
    let state = match (report.deleting, report.active) {
        (true, _) => "being deleted",
        (false, Some(true)) => "active",
        (false, Some(false)) => "inactive",
        (false, None) => "",
    };
    let revision = if report.revision.is_empty() {
        String::new()
    } else {
        format!("revision {}", report.revision)
    };
    let facts = [state, &report.strategy, &revision];
    html! { @for fact in facts.iter().filter(|fact| !fact.is_empty()) { span class="chip" { (fact) } " " } }
}

/// The fields that differ, in one line.
fn why(changes: &[Change]) -> Markup {
    let mut fields: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in changes {
        fields.entry(&change.field).or_default().push(change);
    }
    let more = fields.len().saturating_sub(NAMED);
    html! {
        "The template has another value: "
        @for (position, (field, changes)) in fields.iter().take(NAMED).enumerate() {
            @if position > 0 { ", " }
            strong { bdi { (field) } }
            @if let [change] = changes.as_slice() {
                @if is_short(change) { " " (value(&change.old)) " → " (value(&change.new)) }
            }
        }
        @if more == 1 { ", and 1 more field" } @else if more > 1 { ", and " (more) " more fields" }
        "."
    }
}

/// Whether both values fit in a sentence.
fn is_short(change: &Change) -> bool {
    let is_short = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.chars().count() <= 60,
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => false,
        _ => true,
    };
    is_short(&change.old) && is_short(&change.new)
}

fn notes(report: &Report) -> Markup {
    html! {
        @if !report.notes.is_empty() {
            ul class="notes" aria-label="Notes" { @for note in &report.notes { li { bdi { (note) } } } }
        }
    }
}

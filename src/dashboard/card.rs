//! The section of the page about one control plane. It begins with what a user reads first: what
//! happens, why, and whether to act.
//!
//! Every text of a report is escaped, and `bdi` keeps text that is written from right to left from
//! changing the order of what is around it.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::machines;
use super::report::{Change, Mood, Report};
use super::summary::{Item, Summary, lower};
use super::tables::{self, value};
use super::timeline::timeline;
use super::words::BEFORE;

/// The fields that the summary names.
const NAMED: usize = 2;

/// What a card shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShownAs {
    /// The state of a control plane.
    State,
    /// The last state that is known of a control plane. It names no action, because the state may
    /// have changed.
    LastKnown,
    /// The state after an edit that was not sent.
    Forecast,
}

/// One control plane. `anchor` is its address on the page.
pub(super) fn control_plane(report: &Report, anchor: &str, shown_as: ShownAs) -> Markup {
    let is_forecast = shown_as == ShownAs::Forecast;
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
            (state(report, &report.summary(), shown_as))
            (notes(report))
            (machines::section(report, anchor))
            (timeline(report, anchor))
            (tables::changes(report))
            @if let Some(etcd) = &report.etcd { (tables::etcd_members(etcd)) }
            (tables::conditions("etcd, as its operator reports", &report.etcd_operator, None))
            (tables::conditions("Conditions of the object", &report.conditions, report.generation))
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
        Mood::Unused => "unused",
        Mood::Alarm => "alarm",
    }
}

/// The mark of a mood, which is not only a colour.
pub(super) fn mark(mood: Mood) -> Markup {
    let (sign, spoken) = match mood {
        Mood::Calm => ("✓", "Good: "),
        Mood::Busy => ("…", "In progress: "),
        Mood::Paused => ("‖", "Waits for you: "),
        Mood::Unused => ("i", "Not in use: "),
        Mood::Alarm => ("!", "Act: "),
    };
    html! {
        span class={ "mark " (class_of(mood)) } aria-hidden="true" { (sign) }
        span class="spoken" { (spoken) }
    }
}

/// The mark of something to know, which is no problem.
pub(super) fn note_mark(sign: &str, spoken: &str) -> Markup {
    html! { span class="mark paused" aria-hidden="true" { (sign) } span class="spoken" { (spoken) } }
}

/// What happens, why, and what the user must do.
fn state(report: &Report, summary: &Summary, shown_as: ShownAs) -> Markup {
    let is_forecast = shown_as == ShownAs::Forecast;
    let (updated, total) = report.up_to_date();
    html! {
        div class={ "state " (class_of(summary.mood)) } {
            p class="headline" {
                (mark(summary.mood))
                @match shown_as {
                    ShownAs::Forecast => span { "If you send this edit: " bdi { (lower(&summary.title)) } },
                    ShownAs::LastKnown => span { (BEFORE) bdi { (lower(&summary.title)) } },
                    ShownAs::State => span { bdi { (summary.title) } },
                }
            }
            @if !is_forecast { (machines::bar(report, &format!("{updated} of {total} up to date"))) }
            dl {
                @if !summary.now.is_empty() {
                    div { dt { @if is_forecast { "First" } @else { "Now" } } dd class="now" { bdi { (summary.now) } } }
                }
                @if !report.changes.is_empty() {
                    // The change is not the reason of a problem.
                    div { dt { @if matches!(summary.mood, Mood::Alarm | Mood::Paused | Mood::Unused) { "Change" } @else { "Why" } } dd { (count(report)) (why(&report.changes)) } }
                }
                @if shown_as != ShownAs::LastKnown {
                    div {
                        dt { "You" }
                        dd class="you" {
                            @if is_forecast { p { "Nothing was sent. Send the edit yourself, for example with kubectl apply." } }
                            @match summary.you.as_slice() {
                                [one] => (item(one)),
                                several => ul { @for one in several { li { (item(one)) } } },
                            }
                        }
                    }
                }
            }
        }
    }
}

/// An action, with its details.
fn item(item: &Item) -> Markup {
    html! {
        bdi { (item.text) }
        @if !item.details.is_empty() { " " span class="details" { bdi { (item.details) } } }
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

/// How many machines exist, if this is another number than wanted and no replacement explains it.
fn count(report: &Report) -> Markup {
    let total = report.progress.map_or(0, |progress| progress.total);
    let machines = report.placement.iter().flat_map(|place| &place.machines);
    let standing = machines.filter(|machine| !machine.deleting).count();
    html! { @if standing < total { (standing) " of " (total) " machines exist. " } }
}

/// The fields that differ, in one line.
fn why(changes: &[Change]) -> Markup {
    let mut fields: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in changes {
        fields.entry(&change.field).or_default().push(change);
    }
    let more = fields.len().saturating_sub(NAMED);
    html! {
        "The machines differ from the template: "
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

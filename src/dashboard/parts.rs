//! The sections of the page about one control plane.
//!
//! Every text of a report is escaped, and `bdi` keeps text that is written from right to left from
//! changing the order of what is around it.

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde_json::Value;

use super::report::{Change, Condition, Etcd, Mood, Place, Placed, Report, Step, domain};

/// The fields that the line below the headline names.
const NAMED: usize = 3;

/// One control plane. `anchor` is its address on the page.
pub(super) fn control_plane(report: &Report, anchor: &str) -> Markup {
    let (mood, headline) = report.headline();
    html! {
        article class="control-plane" id=(anchor) aria-label=(format!("{} {}", report.kind, report.title())) {
            header {
                h2 { (report.kind) " " bdi { (report.title()) } }
                p class="facts" { (facts(report)) }
                @match report.kind.as_str() {
                    "ControlPlaneMachineSet" => {},
                    "MachinePool" => p class="facts" { "Capstan shows this plan, and has no controller that carries it out." },
                    _ => p class="facts" { "Capstan carries out this plan only if its controller for this kind is installed." },
                }
            }
            p class={ "headline " (class_of(mood)) } {
                span class="mark" aria-hidden="true" { (mark_of(mood)) } " "
                bdi { (headline) }
            }
            (why(&report.changes))
            @if let Some(progress) = report.progress {
                p class="progress" {
                    progress max=(progress.total.max(1)) value=(progress.updated) aria-label="Machines up to date" {}
                    span { (progress.updated) " of " (progress.total) " up to date" }
                }
            }
            (attention(report))
            section {
                h3 { "Machines" }
                div class="places" { @for place in &report.placement { (place_of(report, place)) } }
            }
            (timeline(report))
            (changes(&report.changes))
            @if let Some(etcd) = &report.etcd { (etcd_members(etcd)) }
            (conditions("etcd, by its operator", &report.etcd_operator))
            (conditions("Conditions, as the object stores them", &report.conditions))
        }
    }
}

pub(super) fn class_of(mood: Mood) -> &'static str {
    match mood {
        Mood::Calm => "calm",
        Mood::Busy => "busy",
        Mood::Alarm => "alarm",
    }
}

pub(super) fn mark_of(mood: Mood) -> &'static str {
    match mood {
        Mood::Calm => "✓",
        Mood::Busy => "…",
        Mood::Alarm => "!",
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
    if changes.is_empty() {
        return html! {};
    }
    let fields: BTreeSet<&str> = changes.iter().map(|change| change.field.as_str()).collect();
    let more = fields.len().saturating_sub(NAMED);
    html! {
        p class="why" {
            "Why: machines differ from the template in "
            @for (position, field) in fields.iter().take(NAMED).enumerate() {
                @if position > 0 { ", " }
                strong { bdi { (field) } }
            }
            @if more > 0 { " and " (more) " more fields" }
            "."
        }
    }
}

/// What a user must act on, and what the control plane waits for.
fn attention(report: &Report) -> Markup {
    let waits = report.waits.iter().filter(|wait| wait.machine.is_empty());
    let waits: Vec<&str> = waits.map(|wait| wait.message.as_str()).collect();
    if report.degraded.is_empty() && waits.is_empty() && report.notes.is_empty() {
        return html! {};
    }
    html! {
        section {
            h3 { "What to know" }
            ul class="attention" {
                @for reason in &report.degraded {
                    li class="alarm" { strong { (reason.reason) } ": " bdi { (reason.message) } }
                }
                @for wait in waits { li class="busy" { bdi { (wait) } } }
                @for note in &report.notes { li { bdi { (note) } } }
            }
        }
    }
}

fn place_of(report: &Report, place: &Place) -> Markup {
    let name = domain(&place.failure_domain);
    html! {
        section class="place" {
            h4 {
                @if let Some(index) = place.index { "Index " (index) " " }
                @if !name.is_empty() { bdi { (name) } }
            }
            @if place.machines.is_empty() { p class="empty" { "No machine" } }
            @for machine in &place.machines { (machine_of(report, machine)) }
        }
    }
}

/// The words for the state of a machine, the most important first.
pub(super) fn states(machine: &Placed) -> Vec<&'static str> {
    let mut states = Vec::new();
    if machine.deleting {
        states.push("being deleted");
    }
    states.push(if machine.ready { "ready" } else { "not ready" });
    states.push(if machine.current { "up to date" } else { "outdated" });
    states
}

fn machine_of(report: &Report, placed: &Placed) -> Markup {
    let machine = report.machine(&placed.name);
    html! {
        div class={ "machine " (class_of_machine(placed)) } {
            p class="name" { bdi { (placed.name) } }
            p { (states(placed).join(", ")) }
            @if let Some(machine) = machine {
                @if !machine.phase.is_empty() { p { "Phase " (machine.phase) } }
                @if !machine.version.is_empty() { p { "Version " (machine.version) } }
                p { @if machine.node.is_empty() { "No node yet" } @else { "Node " bdi { (machine.node) } } }
                @for hook in &machine.hooks { p { "Hook " bdi { (hook) } } }
                @for wait in &machine.waits { p class="wait" { bdi { (wait) } } }
            }
        }
    }
}

pub(super) fn class_of_machine(machine: &Placed) -> &'static str {
    match machine {
        Placed { deleting: true, .. } => "leaving",
        Placed { ready: false, .. } => "unready",
        Placed { current: false, .. } => "outdated",
        _ => "fine",
    }
}

/// What is done now, and what follows.
fn timeline(report: &Report) -> Markup {
    let (title, steps) = if report.rollout.is_empty() && !report.activation.is_empty() {
        ("After an activation", &report.activation)
    } else {
        ("Rollout", &report.rollout)
    };
    if report.next.is_empty() && steps.is_empty() && report.waits.is_empty() {
        return html! {};
    }
    // A plan lists the steps of now again as the first steps of the rollout.
    let later = steps.iter().skip_while(|step| report.next.contains(step));
    let done = report.done();
    html! {
        section {
            h3 { (title) }
            ol class="timeline" {
                @if !done.is_empty() {
                    li class="done" {
                        span class="when" { "Done" } " "
                        @for (position, name) in done.iter().enumerate() {
                            @if position > 0 { ", " }
                            bdi { (name) }
                        }
                        @if done.len() == 1 { " is up to date" } @else { " are up to date" }
                    }
                }
                @for step in &report.next { li class="now" { span class="when" { "Now" } " " (step_of(step)) } }
                @for wait in &report.waits { li class="wait" { bdi { (wait.sentence()) } } }
                @for step in later { li { span class="when" { "Next" } " " (step_of(step)) } }
            }
        }
    }
}

fn step_of(step: &Step) -> Markup {
    let place = domain(&step.failure_domain);
    html! {
        strong { (step.action) } " " bdi { (step.subject()) }
        @if !place.is_empty() { " in " bdi { (place) } }
        @if !step.because.is_empty() { span class="because" { ": " bdi { (step.because) } } }
    }
}

/// The old and the new revision, side by side.
fn changes(changes: &[Change]) -> Markup {
    if changes.is_empty() {
        return html! {};
    }
    html! {
        section {
            h3 { "Changes" }
            div class="wide" tabindex="0" role="group" aria-label="Changes" {
                table {
                    thead { tr { th scope="col" { "Field" } th scope="col" { "In machines" } th scope="col" { "In the template" } } }
                    tbody {
                        @for change in changes {
                            tr {
                                th scope="row" { bdi { (change.field) } }
                                td data-label="In machines" { del { (value(&change.old)) } }
                                td data-label="In the template" { ins { (value(&change.new)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn value(value: &Value) -> Markup {
    match value {
        Value::Null => html! { em { "nothing" } },
        Value::String(text) => html! { bdi { (text) } },
        other => html! { code { (other.to_string()) } },
    }
}

fn etcd_members(etcd: &Etcd) -> Markup {
    html! {
        section {
            h3 { "etcd" }
            p { (etcd.healthy) " of " (etcd.voting) " voting members are healthy; a quorum needs " (etcd.quorum) "." }
            ul class="members" {
                @for member in &etcd.members {
                    li class=(if member.healthy { "fine" } else { "unready" }) {
                        bdi { @if member.name.is_empty() { "not started" } @else { (member.name) } }
                        ": " (if member.healthy { "healthy" } else { "not healthy" })
                        @if member.learner { ", learner" }
                        @if !member.removal_is_safe { ", needed for the quorum" }
                    }
                }
            }
        }
    }
}

fn conditions(title: &str, conditions: &[Condition]) -> Markup {
    if conditions.is_empty() {
        return html! {};
    }
    html! {
        section {
            h3 { (title) }
            div class="wide" tabindex="0" role="group" aria-label=(title) {
                table {
                    thead { tr { th scope="col" { "Type" } th scope="col" { "Status" } th scope="col" { "Reason" } th scope="col" { "Message" } } }
                    tbody {
                        @for condition in conditions {
                            tr {
                                th scope="row" { (condition.type_) }
                                td data-label="Status" { (condition.status) }
                                td data-label="Reason" { (condition.reason) }
                                td data-label="Message" { @if !condition.message.is_empty() { bdi { (condition.message) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

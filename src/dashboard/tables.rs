//! The tables of a control plane: the old and the new revision, etcd, and conditions.

use maud::{Markup, html};
use serde_json::Value;

use super::report::{Condition, Etcd, Report};
use super::words::{status, words};

/// The old and the new revision, side by side.
pub(super) fn changes(report: &Report) -> Markup {
    if report.changes.is_empty() {
        return html! {};
    }
    let machines = report.placement.iter().flat_map(|place| &place.machines);
    let old = machines.filter(|machine| !machine.current && !machine.deleting).count();
    html! {
        section {
            h3 { "Old and new revision" }
            div class="wide" tabindex="0" role="group" aria-label="Old and new revision" {
                table class="diff" {
                    thead {
                        tr {
                            th scope="col" { "Field" }
                            th scope="col" { "Old" span class="index" { (old) @if old == 1 { " machine" } @else { " machines" } } }
                            th scope="col" { "New" @if !report.revision.is_empty() { span class="index" { "revision " (report.revision) } } }
                        }
                    }
                    tbody {
                        @for change in &report.changes {
                            tr {
                                th scope="row" { bdi { (change.field) } }
                                td data-label="Old" { del { (value(&change.old)) } }
                                td data-label="New" { ins { (value(&change.new)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A value of a field.
pub(super) fn value(value: &Value) -> Markup {
    match value {
        Value::Null => html! { em { "nothing" } },
        Value::String(text) => html! { bdi { (text) } },
        other => html! { code { (other.to_string()) } },
    }
}

/// The etcd members.
pub(super) fn etcd_members(etcd: &Etcd) -> Markup {
    html! {
        section {
            h3 { "etcd members" }
            p { (etcd.healthy) " of " (etcd.voting) " voting members are healthy; a quorum needs " (etcd.quorum) "." }
            ul class="compact" {
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

/// Conditions in plain words. A condition whose status means a problem is marked.
///
/// `generation` is that of the object. A condition about an older one is marked.
pub(super) fn conditions(title: &str, conditions: &[Condition], generation: Option<i64>) -> Markup {
    if conditions.is_empty() {
        return html! {};
    }
    html! {
        section {
            h3 { (title) }
            div class="wide" tabindex="0" role="group" aria-label=(title) {
                table class="conditions" {
                    thead { tr { th scope="col" { "Condition" } th scope="col" { "Status" } th scope="col" { "Why" } } }
                    tbody {
                        @for condition in conditions {
                            tr class=(if is_problem(condition) { "alarm" } else { "" }) {
                                th scope="row" { bdi { (condition.type_) } }
                                td data-label="Status" { strong { (status(&condition.status)) } @if is_problem(condition) { " (a problem)" } }
                                td data-label="Why" {
                                    @if is_old(condition, generation) {
                                        span class="old" { "From before the last edit. " }
                                    }
                                    (reason(condition))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn reason(condition: &Condition) -> Markup {
    let reason = words(&condition.reason);
    html! {
        @if !reason.is_empty() { bdi { (reason) } }
        @if !reason.is_empty() && !condition.message.is_empty() { ": " }
        @if !condition.message.is_empty() { bdi { (condition.message) } }
    }
}

/// Whether the controller has not judged the present object yet.
fn is_old(condition: &Condition, generation: Option<i64>) -> bool {
    matches!((condition.observed_generation, generation), (Some(observed), Some(present)) if observed < present)
}

/// Whether the status of a condition means a problem. Of other conditions, this is not known.
fn is_problem(condition: &Condition) -> bool {
    matches!(
        (condition.type_.as_str(), condition.status.as_str()),
        ("Degraded" | "Stalled", "True") | ("Available" | "Ready", "False")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_shown_in_words_and_a_problem_is_marked() {
        let condition = |type_: &str, status: &str| Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: "AllReplicasUpdated".to_owned(),
            observed_generation: Some(if status == "True" { 3 } else { 2 }),
            message: String::new(),
        };
        let page = conditions(
            "Conditions",
            &[
                condition("Degraded", "True"),
                condition("Available", "True"),
                condition("Progressing", "False"),
            ],
            Some(3),
        )
        .into_string();
        assert_eq!(page.matches("(a problem)").count(), 1, "{page}");
        assert_eq!(page.matches("From before the last edit").count(), 1, "{page}");
        let old = page.find("From before").unwrap();
        assert!(page.find("Progressing").unwrap() < old, "{page}");
        assert!(
            page.contains("<strong>yes</strong>") && page.contains("All replicas updated"),
            "{page}"
        );
    }
}

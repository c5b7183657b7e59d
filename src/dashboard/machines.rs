//! The machines of a control plane by failure domain, and how many of them are up to date.

use std::collections::HashMap;

use maud::{Markup, html};

use super::report::{Machine, Place, Placed, Report, domain};
use super::words::sentence;

/// The most machines of a failure domain that are shown at once. The others can be opened.
const SHOWN: usize = 6;
/// The most failure domains or indexes that are shown at once.
const PLACES: usize = 24;
/// The most parts of the bar. More machines are shown as one part.
const PARTS: usize = 40;

/// The state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    /// It is not ready, and it was before.
    Unready,
    /// It is being deleted.
    Leaving,
    /// It is new, and not ready yet.
    Starting,
    /// Its readiness is not known.
    Unknown,
    /// It does not exist yet.
    Missing,
    /// It is ready, and differs from the template.
    Outdated,
    /// It is ready and up to date.
    Fine,
}

impl Look {
    /// The state of a machine, with its details if they are known.
    pub(super) fn of(placed: &Placed, machine: Option<&Machine>) -> Self {
        let is_new = machine.is_some_and(|machine| machine.node.is_empty());
        match placed {
            Placed { deleting: true, .. } => Self::Leaving,
            Placed { unknown: true, .. } => Self::Unknown,
            Placed { ready: false, .. } if is_new => Self::Starting,
            Placed { ready: false, .. } => Self::Unready,
            Placed { current: false, .. } => Self::Outdated,
            _ => Self::Fine,
        }
    }

    /// The class of its element.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Unready => "unready",
            Self::Leaving => "leaving",
            Self::Starting => "starting",
            Self::Unknown => "unknown",
            Self::Missing => "missing",
            Self::Outdated => "outdated",
            Self::Fine => "fine",
        }
    }
}

/// The state of a machine in words.
pub(super) fn state(placed: &Placed, machine: Option<&Machine>) -> String {
    let revision = if placed.current { "up to date" } else { "outdated" };
    let ready = match (Look::of(placed, machine), placed.ready) {
        (Look::Leaving, true) => "being deleted, ready",
        (Look::Leaving, false) => "being deleted, not ready",
        (Look::Starting, _) => "starting",
        (Look::Unknown, _) => "readiness not known",
        (_, true) => "ready",
        (_, false) => "not ready",
    };
    format!("{ready}, {revision}")
}

/// The details of the machines by name.
pub(super) fn details(report: &Report) -> HashMap<&str, &Machine> {
    let machines = report.machines.iter();
    machines.map(|machine| (machine.name.as_str(), machine)).collect()
}

/// One part for each index or machine, with its state.
pub(super) fn bar(report: &Report, label: &str) -> Markup {
    let (updated, total) = report.up_to_date();
    let parts = parts(report);
    html! {
        @if parts.is_empty() {
        } @else if parts.len() > PARTS {
            progress max=(total.max(1)) value=(updated) aria-label=(label) {}
        } @else {
            div class="bar" role="img" aria-label=(label) { @for part in parts { span class=(part.class()) {} } }
        }
    }
}

/// The state of each index; of each machine if there are no indexes.
pub(super) fn parts(report: &Report) -> Vec<Look> {
    let details = details(report);
    let look = |placed: &Placed| Look::of(placed, details.get(placed.name.as_str()).copied());
    let has_indexes = report.placement.iter().any(|place| place.index.is_some());
    let mut parts: Vec<Look> = if has_indexes {
        let of_index = |place: &Place| {
            let states: Vec<Look> = place.machines.iter().map(look).collect();
            match states.as_slice() {
                [] => Look::Missing,
                [one] => *one,
                several if several.contains(&Look::Unready) => Look::Unready,
                // A replacement is under way.
                _ => Look::Starting,
            }
        };
        report.placement.iter().map(of_index).collect()
    } else {
        report
            .placement
            .iter()
            .flat_map(|place| &place.machines)
            .map(look)
            .collect()
    };
    // What is done comes first, then what happens now.
    parts.sort_by_key(|look| match look {
        Look::Fine => 0,
        Look::Starting | Look::Leaving => 1,
        Look::Unready | Look::Unknown => 2,
        Look::Outdated => 3,
        Look::Missing => 4,
    });
    // As many parts as the label counts: machines that are missing, and no surplus.
    if !has_indexes && !parts.is_empty() {
        parts.resize(report.up_to_date().1, Look::Missing);
    }
    parts
}

/// The machines by failure domain. `anchor` is the address of the control plane on the page.
pub(super) fn section(report: &Report, anchor: &str) -> Markup {
    let details = details(report);
    let (first, rest) = report.placement.split_at(PLACES.min(report.placement.len()));
    let places = |places: &[Place], from: usize| {
        html! {
            div class="places" {
                @for (position, place) in places.iter().enumerate() {
                    (place_of(place, &format!("{anchor}-more-{}", from + position), &details))
                }
            }
        }
    };
    html! {
        @if !first.is_empty() {
            section {
                h3 { "Machines by failure domain" }
                (places(first, 0))
                @if !rest.is_empty() {
                    details id={ (anchor) "-places" } {
                        summary { (rest.len()) " more failure domains or indexes" }
                        (places(rest, first.len()))
                    }
                }
            }
        }
    }
}

fn place_of(place: &Place, more: &str, details: &HashMap<&str, &Machine>) -> Markup {
    let name = domain(&place.failure_domain);
    let mut machines: Vec<(&Placed, Option<&Machine>)> = place
        .machines
        .iter()
        .map(|placed| (placed, details.get(placed.name.as_str()).copied()))
        .collect();
    if machines.len() > SHOWN {
        machines.sort_by_key(|(placed, machine)| Look::of(placed, *machine));
    }
    let (first, rest) = machines.split_at(SHOWN.min(machines.len()));
    html! {
        section class="place" {
            h4 {
                bdi { @if name.is_empty() { "No failure domain" } @else { (name) } }
                @if let Some(index) = place.index { " " span class="index" { "index " (index) } }
            }
            @if first.is_empty() { p class="empty" { "No machine" } }
            @for (placed, machine) in first { (machine_of(placed, *machine)) }
            @if !rest.is_empty() {
                details id=(more) {
                    summary { (rest.len()) " more machines" }
                    ul class="compact" {
                        @for (placed, machine) in rest {
                            li class=(Look::of(placed, *machine).class()) { bdi { (placed.name) } ": " (state(placed, *machine)) }
                        }
                    }
                }
            }
        }
    }
}

fn machine_of(placed: &Placed, machine: Option<&Machine>) -> Markup {
    let look = Look::of(placed, machine);
    html! {
        div class={ "machine " (look.class()) } {
            p class="name" { bdi { (placed.name) } }
            p class="condition" { (state(placed, machine)) }
            @if let Some(machine) = machine {
                @for wait in &machine.waits { p class="wait" { bdi { (sentence(wait)) } } }
                dl {
                    div { dt { "Node" } dd { @if machine.node.is_empty() { "none yet" } @else { bdi { (machine.node) } } } }
                    @if !machine.phase.is_empty() { div { dt { "Phase" } dd { bdi { (machine.phase) } } } }
                    @if !machine.version.is_empty() { div { dt { "Version" } dd { bdi { (machine.version) } } } }
                    @for hook in &machine.hooks { div { dt { "Hook" } dd { bdi { (hook) } } } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report(placement: &Value, machines: &Value) -> Report {
        let status = json!({"set": "cluster", "machines": machines});
        Report::of(json!({"set": "cluster", "placement": placement}), Some(status)).unwrap()
    }

    #[test]
    fn a_machine_without_a_node_is_starting_and_one_that_lost_it_is_not_ready() {
        let machine = |name: &str| json!({"name": name, "ready": false, "current": true});
        let placement = json!([{"index": 0, "machines": [machine("new"), machine("old"), machine("unknown")]}]);
        let report = report(
            &placement,
            &json!([{"name": "new", "node": null}, {"name": "old", "node": "n"}]),
        );
        let details = details(&report);
        let states: Vec<String> = report.placement[0]
            .machines
            .iter()
            .map(|placed| state(placed, details.get(placed.name.as_str()).copied()))
            .collect();
        assert_eq!(
            states,
            ["starting, up to date", "not ready, up to date", "not ready, up to date"]
        );
    }

    #[test]
    fn an_index_with_two_machines_is_one_part_of_the_bar() {
        let machine = |current: bool| json!({"name": current.to_string(), "ready": true, "current": current});
        let placement = json!([
            {"index": 0, "machines": [machine(true), machine(false)]},
            {"index": 1, "machines": [machine(false)]},
            {"index": 2, "machines": [machine(true)]},
        ]);
        assert_eq!(
            parts(&report(&placement, &json!([]))),
            [Look::Fine, Look::Starting, Look::Outdated]
        );
    }

    #[test]
    fn of_many_machines_those_that_are_not_ready_come_first_and_the_others_can_be_opened() {
        let machine = |number: usize| json!({"name": format!("m-{number}"), "ready": number != 30, "current": true});
        let machines: Vec<Value> = (0..40).map(machine).collect();
        let page = section(&report(&json!([{"machines": machines}]), &json!([])), "a").into_string();
        let (before, after) = page.split_once("<details").unwrap();
        assert!(
            before.contains("m-30<") && before.contains("m-4<") && !before.contains("m-5<"),
            "{before}"
        );
        assert!(after.contains("34 more machines") && after.contains("m-39<"), "{after}");
    }
}

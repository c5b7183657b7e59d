//! The sections of the page about more than one control plane: all of them in one table, the
//! objects of both APIs, and the events.

use maud::{Markup, html};

use super::content::{Content, Mirrored, SeenEvent};
use super::parts::{class_of, mark_of};
use super::report::{Mood, Report};

/// The most mirrored objects that are shown at once. The others can be opened.
const SHOWN: usize = 10;

/// The address of a control plane on the page.
pub(super) fn anchor(position: usize) -> String {
    format!("control-plane-{position}")
}

/// Everything before the control planes.
pub(super) fn before(state: &Content) -> Markup {
    html! {
        @if let Some(reason) = &state.outdated {
            p class="headline alarm" id="outdated" {
                span class="mark" aria-hidden="true" { (mark_of(Mood::Alarm)) } " "
                bdi { (reason) }
            }
        }
        @if let Some((mood, summary)) = state.summary() {
            p class={ "headline summary " (class_of(mood)) } {
                span class="mark" aria-hidden="true" { (mark_of(mood)) } " " (summary)
            }
        }
        @if !state.notes.is_empty() {
            section aria-label="Notes" {
                ul class="attention" { @for note in &state.notes { li class="alarm" { bdi { (note) } } } }
            }
        }
        @if state.reports.len() > 1 { (control_planes(&state.reports)) }
    }
}

/// Everything after the control planes.
pub(super) fn after(state: &Content) -> Markup {
    html! {
        (mirrored(&state.mirrored))
        (events(&state.events))
    }
}

fn control_planes(reports: &[Report]) -> Markup {
    html! {
        section class="overview" {
            h2 { "Control planes" }
            div class="wide" tabindex="0" role="group" aria-label="Control planes" {
                table {
                    thead { tr { th scope="col" { "Kind" } th scope="col" { "Name" } th scope="col" { "Up to date" } th scope="col" { "State" } } }
                    tbody {
                        @for (position, report) in reports.iter().enumerate() {
                            @let (mood, headline) = report.headline();
                            tr {
                                td data-label="Kind" { (report.kind) }
                                th scope="row" { a href={ "#" (anchor(position)) } { bdi { (report.title()) } } }
                                td data-label="Up to date" { @if let Some(progress) = report.progress { (progress.updated) " of " (progress.total) } }
                                td data-label="State" { (marked(mood)) bdi { (headline) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The mark of a mood, which is not only a colour.
fn marked(mood: Mood) -> Markup {
    html! { span class={ "mark " (class_of(mood)) } aria-hidden="true" { (mark_of(mood)) } " " }
}

fn mirrored(all: &[Mirrored]) -> Markup {
    if all.is_empty() {
        return html! {};
    }
    let count = |mood: Mood| all.iter().filter(|pair| pair.mood == mood).count();
    let (alarms, migrations) = (count(Mood::Alarm), count(Mood::Busy));
    let mut ordered: Vec<&Mirrored> = all.iter().collect();
    ordered.sort_by_key(|pair| match pair.mood {
        Mood::Alarm => 0,
        Mood::Busy => 1,
        Mood::Calm => 2,
    });
    let urgent = alarms + migrations;
    let (first, rest) = ordered.split_at(urgent.max(SHOWN).min(ordered.len()));
    html! {
        section class="mirrored" {
            h2 { "Objects in both APIs" }
            p class="facts" {
                (all.len()) " in all, " (migrations) " in migration, " (alarms) " with a problem."
            }
            (pairs(first, "Objects in both APIs"))
            @if !rest.is_empty() {
                details id="more-mirrored" {
                    summary { "The other " (rest.len()) ", which are calm" }
                    (pairs(rest, "More objects in both APIs"))
                }
            }
        }
    }
}

fn pairs(pairs: &[&Mirrored], label: &str) -> Markup {
    html! {
        div class="wide" tabindex="0" role="group" aria-label=(label) {
            table {
                thead {
                    tr {
                        th scope="col" { "Object" } th scope="col" { "Authoritative" } th scope="col" { "Mirror" }
                        th scope="col" { "Synchronized" } th scope="col" { "Migration" }
                    }
                }
                tbody {
                    @for pair in pairs {
                        tr {
                            th scope="row" { (marked(pair.mood)) (pair.kind) " " bdi { (pair.name) } }
                            td data-label="Authoritative" { (pair.authority()) }
                            td data-label="Mirror" { (pair.mirror) }
                            td data-label="Synchronized" { bdi { (pair.synchronized) } }
                            td data-label="Migration" { @if pair.migration.is_empty() { "not requested" } @else { bdi { (pair.migration) } } }
                        }
                    }
                }
            }
        }
    }
}

fn events(events: &[SeenEvent]) -> Markup {
    if events.is_empty() {
        return html! {};
    }
    html! {
        section class="events" {
            h2 { "Latest events" }
            ol class="attention" {
                @for event in events {
                    li class=(if event.warning { "alarm" } else { "" }) {
                        @if !event.time.is_empty() { time datetime=(event.time) { (shown_time(&event.time)) } " " }
                        @if event.warning { strong { "Warning " } }
                        bdi { (event.subject) } ": " bdi { (event.message) }
                        @if event.count > 1 { " (" (event.count) " times)" }
                    }
                }
            }
        }
    }
}

/// A time in the form `2026-01-31 12:00:00`, which is UTC; other text is shown as it is.
fn shown_time(time: &str) -> String {
    match (time.get(..10), time.get(10..11), time.get(11..19)) {
        (Some(day), Some("T"), Some(clock)) if time.ends_with('Z') => format!("{day} {clock}"),
        _ => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::Side;
    use super::*;

    fn pair(name: &str, mood: Mood) -> Mirrored {
        Mirrored {
            kind: "Machine".to_owned(),
            name: name.to_owned(),
            authoritative: Some(Side::MachineApi),
            mirror: "Cluster API".to_owned(),
            in_cluster_api: true,
            synchronized: "yes".to_owned(),
            migration: String::new(),
            mood,
        }
    }

    #[test]
    fn objects_with_a_problem_come_first_and_calm_ones_can_be_opened() {
        let mut all: Vec<Mirrored> = (0..40)
            .map(|number| pair(&format!("calm-{number}"), Mood::Calm))
            .collect();
        all.push(pair("broken", Mood::Alarm));
        let page = mirrored(&all).into_string();
        assert!(page.contains("41 in all, 0 in migration, 1 with a problem."), "{page}");
        let (before, after) = page.split_once("<details").unwrap();
        assert!(before.contains("broken") && before.contains("calm-8") && !before.contains("calm-9<"));
        assert!(after.contains("The other 31") && after.contains("calm-39"));
    }

    #[test]
    fn a_time_is_shown_without_its_fraction() {
        assert_eq!(shown_time("2026-01-31T12:00:00Z"), "2026-01-31 12:00:00");
        assert_eq!(shown_time("2026-01-31T12:00:00.123456Z"), "2026-01-31 12:00:00");
        assert_eq!(shown_time("soon"), "soon");
    }
}

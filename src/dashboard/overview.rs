//! The sections of the page about more than one control plane: all of them in one table, the
//! objects of both APIs, and the events.

use maud::{Markup, html};

use super::card::{class_of, mark};
use super::content::{Content, Mirrored, Role, SeenEvent, Side};
use super::report::{Mood, Report};
use super::summary::Summary;

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
            div class="state alarm" id="outdated" {
                p class="headline" { (mark(Mood::Alarm)) span { "This is an old state" } }
                p { bdi { (reason) } }
            }
        }
        @if !state.notes.is_empty() {
            ul class="notes alarm" aria-label="What could not be read" {
                @for note in &state.notes { li { bdi { (note) } } }
            }
        }
        @if let Some((mood, summary)) = state.summary() {
            section class={ "overview state " (class_of(mood)) } aria-label="All objects" {
                p class="headline summary" { (mark(mood)) span { (summary) } }
                @if !state.reports.is_empty() { (objects(state)) }
            }
        }
    }
}

/// Everything after the control planes.
pub(super) fn after(state: &Content) -> Markup {
    html! {
        (mirrored(&state.mirrored))
        (events(&state.events))
    }
}

/// One line for each control plane, and one for the objects of both APIs. What needs a user comes
/// first.
fn objects(state: &Content) -> Markup {
    let reports = state.reports.iter().enumerate();
    let mut objects: Vec<(usize, &Report, Summary)> = reports
        .map(|(position, report)| (position, report, report.summary()))
        .collect();
    objects.sort_by_key(|(_, _, summary)| urgency(summary.mood));
    html! {
        div class="wide" tabindex="0" role="group" aria-label="All objects" {
            table class="glance" {
                thead { tr { th scope="col" { "Object" } th scope="col" { "State" } th scope="col" { "Now" } } }
                tbody {
                    @if mood_of(&state.mirrored) == Mood::Alarm { (pairs_at_a_glance(&state.mirrored)) }
                    @for (position, report, summary) in &objects {
                        tr {
                            th scope="row" {
                                (mark(summary.mood))
                                a href={ "#" (anchor(*position)) } { span class="kind" { (report.kind) } " " bdi { (report.title()) } }
                            }
                            td data-label="State" { bdi class="clamp" { (summary.title) } }
                            (now(summary))
                        }
                    }
                    @if !state.mirrored.is_empty() && mood_of(&state.mirrored) != Mood::Alarm {
                        (pairs_at_a_glance(&state.mirrored))
                    }
                }
            }
        }
    }
}

/// The order of what is shown: what needs a user comes first.
fn urgency(mood: Mood) -> u8 {
    match mood {
        Mood::Alarm => 0,
        Mood::Paused => 1,
        Mood::Busy => 2,
        Mood::Calm => 3,
    }
}

/// What a user must do, or what happens.
fn now(summary: &Summary) -> Markup {
    html! {
        @match (summary.mood, summary.you.first(), summary.now.as_str()) {
            (Mood::Alarm | Mood::Paused, Some(you), _) => td data-label="Now" { span class="clamp" { strong { "You: " } bdi { (you) } } },
            (_, _, "") => td data-label="Now" {},
            (_, _, now) => td data-label="Now" { bdi class="clamp" { (now) } },
        }
    }
}

fn pairs_at_a_glance(all: &[Mirrored]) -> Markup {
    let first = all.iter().find(|pair| pair.mood == Mood::Alarm);
    html! {
        tr {
            th scope="row" { (mark(mood_of(all))) a href="#both-apis" { "Objects in both APIs" } }
            td data-label="State" { (counted(all)) }
            @match first {
                Some(pair) => td data-label="Now" { (pair.kind) " " bdi { (pair.name) } " has a problem" },
                None => td data-label="Now" {},
            }
        }
    }
}

/// What a user must know about all pairs.
fn mood_of(all: &[Mirrored]) -> Mood {
    let moods = all.iter().map(|pair| pair.mood);
    moods.min_by_key(|mood| urgency(*mood)).unwrap_or(Mood::Calm)
}

fn count(all: &[Mirrored], mood: Mood) -> usize {
    all.iter().filter(|pair| pair.mood == mood).count()
}

fn counted(all: &[Mirrored]) -> String {
    let (alarms, migrations) = (count(all, Mood::Alarm), count(all, Mood::Busy));
    let pairs = if all.len() == 1 { "pair" } else { "pairs" };
    format!(
        "{} {pairs}, {migrations} in migration, {alarms} with a problem",
        all.len()
    )
}

fn mirrored(all: &[Mirrored]) -> Markup {
    if all.is_empty() {
        return html! {};
    }
    let urgent = count(all, Mood::Alarm) + count(all, Mood::Busy);
    let mut ordered: Vec<&Mirrored> = all.iter().collect();
    ordered.sort_by_key(|pair| urgency(pair.mood));
    let (first, rest) = ordered.split_at(urgent.max(SHOWN).min(ordered.len()));
    html! {
        section class="card mirrored" id="both-apis" {
            h2 { "Objects in both APIs" }
            p class="facts" { (counted(all)) "." }
            (pairs(first, "Objects in both APIs"))
            @if !rest.is_empty() {
                details id="more-mirrored" {
                    summary { (rest.len()) " more pairs, all without a problem" }
                    (pairs(rest, "More objects in both APIs"))
                }
            }
        }
    }
}

fn pairs(pairs: &[&Mirrored], label: &str) -> Markup {
    html! {
        div class="wide" tabindex="0" role="group" aria-label=(label) {
            table class="pairs" {
                thead {
                    tr {
                        th scope="col" { "Object" } th scope="col" { "Machine API" } th scope="col" { "Cluster API" }
                        th scope="col" { "Synchronized" } th scope="col" { "Migration" }
                    }
                }
                tbody {
                    @for pair in pairs {
                        tr {
                            th scope="row" { (mark(pair.mood)) span { span class="kind" { (pair.kind) } " " bdi { (pair.name) } } }
                            td data-label="Machine API" { (role(pair, Side::MachineApi)) }
                            td data-label="Cluster API" { (role(pair, Side::ClusterApi)) }
                            td data-label="Synchronized" { bdi { (pair.synchronized) } }
                            td data-label="Migration" { @if pair.migration.is_empty() { "not requested" } @else { bdi { (pair.migration) } } }
                        }
                    }
                }
            }
        }
    }
}

fn role(pair: &Mirrored, side: Side) -> Markup {
    let role = pair.role(side);
    let class = match role {
        Role::Authoritative => "role authoritative",
        Role::Mirror => "role",
        Role::Locked => "role locked",
        Role::Absent => "role absent",
    };
    html! { span class=(class) { (role.title()) } }
}

fn events(events: &[SeenEvent]) -> Markup {
    if events.is_empty() {
        return html! {};
    }
    html! {
        section class="card events" {
            h2 { "Latest events" }
            ol {
                @for event in events {
                    li class=(if event.warning { "warning" } else { "" }) {
                        p class="of" {
                            @if event.warning { strong { "Warning " } }
                            bdi { (event.subject) }
                            @if !event.time.is_empty() { time datetime=(event.time) { (shown_time(&event.time)) } }
                            @if event.count > 1 { span class="index" { (event.count) " times" } }
                        }
                        p { bdi { (event.message) } }
                    }
                }
            }
        }
    }
}

/// A time in the form `2026-01-31 12:00:00 UTC`; other text is shown as it is.
pub(super) fn shown_time(time: &str) -> String {
    match (time.get(..10), time.get(10..11), time.get(11..19)) {
        (Some(day), Some("T"), Some(clock)) if time.ends_with('Z') => format!("{day} {clock} UTC"),
        _ => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, mood: Mood) -> Mirrored {
        Mirrored {
            kind: "Machine".to_owned(),
            name: name.to_owned(),
            authoritative: Some(Side::MachineApi),
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
        assert!(page.contains("41 pairs, 0 in migration, 1 with a problem."), "{page}");
        let (before, after) = page.split_once("<details").unwrap();
        assert!(before.contains("broken") && before.contains("calm-8") && !before.contains("calm-9<"));
        assert!(after.contains("31 more pairs") && after.contains("calm-39"));
    }

    #[test]
    fn a_time_is_shown_without_its_fraction() {
        assert_eq!(shown_time("2026-01-31T12:00:00Z"), "2026-01-31 12:00:00 UTC");
        assert_eq!(shown_time("2026-01-31T12:00:00.123456Z"), "2026-01-31 12:00:00 UTC");
        assert_eq!(shown_time("soon"), "soon");
    }
}

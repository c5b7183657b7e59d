//! The sections of the page about more than one control plane: all of them in one table, the
//! objects of both APIs, and the events.

use maud::{Markup, html};

use super::card::{class_of, mark};
use super::content::{Content, Mirrored, Role, SeenEvent, Side, is_own};
use super::report::{Mood, Report};
use super::summary::Summary;
use super::words::{BEFORE, sentence};

/// The most mirrored objects that are shown at once. The others can be opened.
const SHOWN: usize = 10;

/// The address of a control plane on the page.
pub(super) fn anchor(position: usize) -> String {
    format!("control-plane-{position}")
}

/// Everything before the control planes. Pairs of both APIs with a problem are shown here too.
pub(super) fn before(state: &Content) -> Markup {
    html! {
        @if let Some(reason) = &state.outdated {
            div class="state alarm" id="outdated" {
                p class="headline" { (mark(Mood::Alarm)) span { "The API server does not answer: this is an old state" } }
                p { bdi { (reason) } }
                p {
                    "Check that the API server runs, and that this computer reaches it. Do not act on the state below: "
                    "it may have changed."
                }
            }
        }
        @if !state.notes.is_empty() {
            ul class="notes alarm" aria-label="What could not be read" {
                @for note in &state.notes { li { bdi { (note) } } }
            }
        }
        @let lines = state.summary();
        @if let Some(mood) = lines.iter().map(|line| line.mood).min_by_key(|mood| urgency(*mood)) {
            section class={ "overview state " (class_of(mood)) } aria-label="All objects" {
                @for line in &lines {
                    p class="headline summary" {
                        (mark(line.mood))
                        span { @if state.outdated.is_some() { (BEFORE) } bdi { (shortened(&line.text)) } }
                    }
                    @if !line.rest.is_empty() { p class="rest" { bdi { (shortened(&line.rest)) } } }
                }
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

/// One line for each control plane, one for each pair of both APIs with a problem, and one for the
/// other pairs. After the control plane of the cluster itself, what needs a user comes first.
fn objects(state: &Content) -> Markup {
    let (problems, others): (Vec<&Mirrored>, Vec<&Mirrored>) =
        state.mirrored.iter().partition(|pair| pair.mood == Mood::Alarm);
    let objects = by_urgency(&state.reports);
    let (own, rest) = objects.split_at(objects.partition_point(|(_, report, _)| is_own(report)));
    html! {
        div class="wide" tabindex="0" role="group" aria-label="All objects" {
            table class="glance" {
                thead { tr { th scope="col" { "Object" } th scope="col" { "State" } th scope="col" { "Now" } } }
                tbody {
                    @for (position, report, summary) in own { (control_plane(*position, report, summary)) }
                    @for pair in &problems { (problem(pair)) }
                    @for (position, report, summary) in rest { (control_plane(*position, report, summary)) }
                    @if !others.is_empty() { (pairs_at_a_glance(&others, problems.is_empty())) }
                }
            }
        }
    }
}

fn control_plane(position: usize, report: &Report, summary: &Summary) -> Markup {
    html! {
        tr {
            th scope="row" {
                (mark(summary.mood))
                a href={ "#" (anchor(position)) } { span class="kind" { (report.kind) } " " bdi { (report.title()) } }
            }
            td data-label="State" { bdi class="clamp" { (shortened(&summary.title)) } }
            (now(summary))
        }
    }
}

/// The control planes with their positions: that of the cluster itself, then what needs a user.
pub(super) fn by_urgency(reports: &[Report]) -> Vec<(usize, &Report, Summary)> {
    let reports = reports.iter().enumerate();
    let mut ordered: Vec<(usize, &Report, Summary)> = reports
        .map(|(position, report)| (position, report, report.summary()))
        .collect();
    ordered.sort_by_key(|(_, report, summary)| (!is_own(report), urgency(summary.mood)));
    ordered
}

/// The order of what is shown: what needs a user comes first.
fn urgency(mood: Mood) -> u8 {
    match mood {
        Mood::Alarm => 0,
        Mood::Paused => 1,
        Mood::Busy => 2,
        Mood::Unused => 3,
        Mood::Calm => 4,
    }
}

/// What a user must do, or what happens.
fn now(summary: &Summary) -> Markup {
    html! {
        @match (summary.mood, summary.you.first(), summary.now.as_str()) {
            (Mood::Alarm | Mood::Paused | Mood::Unused, Some(you), _) => (action(&you.text, &you.details)),
            (_, _, "") => td data-label="Now" {},
            (_, _, now) => td data-label="Now" { bdi class="clamp" { (shortened(now)) } },
        }
    }
}

/// What a user must do, and why.
fn action(text: &str, details: &str) -> Markup {
    html! {
        td class="action" {
            strong { "You: " bdi { (shortened(text)) } }
            @if !details.is_empty() { " " span class="clamp" { bdi { (shortened(details)) } } }
        }
    }
}

/// The longest word that the overview shows whole. A longer one is a name, and the card has it.
const LONGEST: usize = 40;

/// A text whose long words lose their middle, so that names do not hide what to do.
fn shortened(text: &str) -> String {
    let word = |word: &str| {
        let letters: Vec<char> = word.chars().collect();
        match (
            letters.get(..LONGEST / 2),
            letters.get(letters.len().saturating_sub(LONGEST / 4)..),
        ) {
            (Some(first), Some(last)) if letters.len() > LONGEST => first.iter().chain(&['…']).chain(last).collect(),
            _ => word.to_owned(),
        }
    };
    text.split(' ').map(word).collect::<Vec<String>>().join(" ")
}

fn problem(pair: &Mirrored) -> Markup {
    html! {
        tr {
            th scope="row" { (mark(pair.mood)) a href="#both-apis" { span class="kind" { (pair.kind) } " " bdi { (pair.name) } } }
            td data-label="State" { "Not synchronized between the Machine API and Cluster API" }
            (action(&pair.action(), &sentence(pair.problem())))
        }
    }
}

fn pairs_at_a_glance(all: &[&Mirrored], are_all: bool) -> Markup {
    let title = if are_all {
        "Objects in both APIs"
    } else {
        "Other objects in both APIs"
    };
    html! {
        tr {
            th scope="row" { (mark(mood_of(all))) a href="#both-apis" { (title) } }
            td data-label="State" { (counted(all)) }
            td data-label="Now" {}
        }
    }
}

/// What a user must know about all pairs.
fn mood_of(all: &[&Mirrored]) -> Mood {
    let moods = all.iter().map(|pair| pair.mood);
    moods.min_by_key(|mood| urgency(*mood)).unwrap_or(Mood::Calm)
}

fn count(all: &[&Mirrored], mood: Mood) -> usize {
    all.iter().filter(|pair| pair.mood == mood).count()
}

fn counted(all: &[&Mirrored]) -> String {
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
    let mut ordered: Vec<&Mirrored> = all.iter().collect();
    ordered.sort_by_key(|pair| urgency(pair.mood));
    let urgent = count(&ordered, Mood::Alarm) + count(&ordered, Mood::Busy);
    let (first, rest) = ordered.split_at(urgent.max(SHOWN).min(ordered.len()));
    html! {
        section class="card mirrored" id="both-apis" {
            h2 { "Objects in both APIs" }
            p class="facts" { (counted(&ordered)) "." }
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
    fn each_pair_with_a_problem_has_a_line_with_its_reason_and_what_to_do() {
        let broken = Mirrored {
            synchronized: "no: the field spec.x cannot be converted".to_owned(),
            ..pair("broken", Mood::Alarm)
        };
        let state = Content {
            reports: Vec::new(),
            mirrored: vec![pair("calm", Mood::Calm), broken],
            ..Content::default()
        };
        let page = objects(&state).into_string();
        assert!(page.contains("The field spec.x cannot be converted"), "{page}");
        assert!(page.contains("Correct the object of the Machine API"), "{page}");
        assert!(page.contains("1 pair, 0 in migration, 0 with a problem"), "{page}");
    }

    #[test]
    fn w83_a_pair_without_its_authoritative_object_names_it() {
        let lone = Mirrored {
            authoritative: Some(Side::ClusterApi),
            in_cluster_api: false,
            ..pair("lone", Mood::Alarm)
        };
        assert_eq!(lone.problem(), "the authoritative object does not exist");
        assert_eq!(lone.action(), "Restore the object of Cluster API.");
    }

    #[test]
    fn a_long_name_does_not_hide_what_to_do() {
        let name = "n".repeat(253);
        let text = shortened(&format!("{name} is not ready; bring it back"));
        assert_eq!(
            text,
            format!("{}…{} is not ready; bring it back", "n".repeat(20), "n".repeat(10))
        );
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn a_time_is_shown_without_its_fraction() {
        assert_eq!(shown_time("2026-01-31T12:00:00Z"), "2026-01-31 12:00:00 UTC");
        assert_eq!(shown_time("2026-01-31T12:00:00.123456Z"), "2026-01-31 12:00:00 UTC");
        assert_eq!(shown_time("soon"), "soon");
    }
}

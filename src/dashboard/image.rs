//! The control planes and the objects of both APIs as an SVG image, for a ticket or a document.

use std::collections::HashMap;

use maud::{Markup, PreEscaped, html};

use super::card::class_of;
use super::content::{Content, Mirrored, Role, Side};
use super::direction::changes_direction;
use super::machines::{Look, details, state};
use super::report::{Machine, Mood, Place, Placed, Report, domain};

/// The width of a column, in pixels.
const COLUMN: usize = 264;
/// The height of a machine, in pixels.
const ROW: usize = 58;
/// The space above the machines of a column.
const HEAD: usize = 36;
/// The space above the columns: the name of the control plane, and its state.
const TITLE: usize = 76;
/// The space between boxes.
const GAP: usize = 12;
/// The columns side by side. More columns begin a new line.
const COLUMNS: usize = 4;
/// The columns that a title needs.
const LEAST: usize = 3;
/// The most machines of a column. The others are counted.
const MOST: usize = 12;
/// The most mirrored objects in an image.
const PAIRS: usize = 20;

/// The style of the image, which is a part of it.
const STYLE: &str = include_str!("image.css");

/// Where an image has its elements, from its top.
struct Drawing {
    parts: Vec<(usize, Markup)>,
    height: usize,
    width: usize,
}

impl Drawing {
    fn add(&mut self, part: Markup, width: usize, height: usize) {
        self.parts.push((self.height, part));
        self.height += height;
        self.width = self.width.max(width);
    }
}

/// The control planes and the objects of both APIs as one SVG file, one below the other.
pub fn file(content: &Content) -> String {
    let least = LEAST * (COLUMN + GAP) + GAP;
    let mut drawing = Drawing {
        parts: Vec::new(),
        height: GAP,
        width: least,
    };
    if let Some(reason) = &content.outdated {
        let text = html! { text class="h unready" x=(GAP) y="16" { (shown(reason, least - 2 * GAP)) } };
        drawing.add(text, 0, 3 * GAP);
    }
    for report in &content.reports {
        let (width, height) = size(report);
        drawing.add(control_plane(report), width, height);
    }
    for mirrored in content.mirrored.iter().take(PAIRS) {
        drawing.add(pair(mirrored), 0, ROW + GAP);
    }
    if let Some(more) = content.mirrored.len().checked_sub(PAIRS + 1) {
        let text = html! { text class="s" x=(GAP) y="16" { "and " (more + 1) " more pairs" } };
        drawing.add(text, 0, 2 * GAP);
    }
    let (width, height) = (drawing.width, drawing.height);
    html! {
        svg xmlns="http://www.w3.org/2000/svg" role="img" width=(width) height=(height)
            viewBox=(format!("0 0 {width} {height}")) {
            title { "Control planes and their machines" }
            style { (PreEscaped(STYLE)) }
            rect class="back" width=(width) height=(height) rx="8" {}
            @for (top, drawn) in &drawing.parts { g transform=(format!("translate(0 {top})")) { (drawn) } }
        }
    }
    .into_string()
}

/// The lines of columns of a control plane.
fn lines(report: &Report) -> impl Iterator<Item = &[Place]> {
    report.placement.chunks(COLUMNS)
}

/// The width and the height of a control plane, in pixels.
fn size(report: &Report) -> (usize, usize) {
    let columns = report.placement.len().clamp(LEAST, COLUMNS);
    let height: usize = lines(report).map(height).sum();
    (columns * (COLUMN + GAP) + GAP, TITLE + height + GAP)
}

/// The height of a line of columns, with the space below it.
fn height(line: &[Place]) -> usize {
    let most = line.iter().map(|place| place.machines.len().min(MOST + 1)).max();
    HEAD + most.unwrap_or(0).max(1) * (ROW + GAP) + GAP
}

fn control_plane(report: &Report) -> Markup {
    let summary = report.summary();
    let (width, _) = size(report);
    let details = details(report);
    let mut columns = Vec::new();
    let mut top = TITLE;
    for line in lines(report) {
        for (position, place) in line.iter().enumerate() {
            let left = GAP + position * (COLUMN + GAP);
            columns.push(column(place, left, top, height(line) - GAP, &details));
        }
        top += height(line);
    }
    let doing = match (summary.mood, summary.you.first()) {
        (Mood::Alarm | Mood::Paused | Mood::Unused, Some(you)) => &you.text,
        _ => &summary.now,
    };
    let title = width - 2 * GAP - 28;
    html! {
        g {
            circle class=(look_of(summary.mood).class()) cx=(GAP + 10) cy="18" r="10" {}
            text class="m" x=(GAP + 10) y="22" { (sign(summary.mood)) }
            text class="t" x=(GAP + 28) y="23" { (shown(&format!("{} {}", report.kind, report.title()), title)) }
            text class={ "h " (look_of(summary.mood).class()) } x=(GAP + 28) y="43" { (shown(&summary.title, title)) }
            text class="s" x=(GAP + 28) y="61" { (shown(doing, title)) }
            @for column in &columns { (column) }
        }
    }
}

/// The colour of a mood.
fn look_of(mood: Mood) -> Look {
    match mood {
        Mood::Calm => Look::Fine,
        Mood::Busy => Look::Starting,
        Mood::Paused | Mood::Unused => Look::Outdated,
        Mood::Alarm => Look::Unready,
    }
}

/// The mark of a mood, which is not only a colour.
fn sign(mood: Mood) -> &'static str {
    match class_of(mood) {
        "calm" => "✓",
        "busy" => "…",
        "paused" => "‖",
        "unused" => "i",
        _ => "!",
    }
}

fn column(place: &Place, left: usize, top: usize, height: usize, details: &HashMap<&str, &Machine>) -> Markup {
    let index = place.index.map_or_else(String::new, |index| format!(", index {index}"));
    let head = format!("{}{index}", domain(&place.failure_domain));
    let (drawn, more) = place.machines.split_at(place.machines.len().min(MOST));
    let row = |position: usize| top + HEAD + position * (ROW + GAP);
    html! {
        rect class="p" x=(left) y=(top) width=(COLUMN) height=(height) rx="8" {}
        text class="h" x=(left + GAP) y=(top + 23) { (shown(&head, COLUMN - 2 * GAP)) }
        @if drawn.is_empty() { text class="s" x=(left + GAP) y=(row(0) + 24) { "No machine" } }
        @for (position, machine) in drawn.iter().enumerate() {
            (machine_box(machine, details.get(machine.name.as_str()).copied(), left + GAP, row(position)))
        }
        @if !more.is_empty() { text class="s" x=(left + GAP) y=(row(MOST) + 24) { "and " (more.len()) " more" } }
    }
}

/// A box with a coloured edge.
fn framed(class: &str, left: usize, top: usize, width: usize) -> Markup {
    html! {
        rect class="box" x=(left) y=(top) width=(width) height=(ROW) rx="5" {}
        rect class=(class) x=(left) y=(top) width="4" height=(ROW) rx="2" {}
    }
}

fn machine_box(placed: &Placed, machine: Option<&Machine>, left: usize, top: usize) -> Markup {
    let class = Look::of(placed, machine).class();
    let state = state(placed, machine);
    html! {
        g {
            title { (shown(&placed.name, usize::MAX)) ": " (state) }
            (framed(class, left, top, COLUMN - 2 * GAP))
            text class="h" x=(left + 14) y=(top + 24) { (shown(&placed.name, COLUMN - 2 * GAP - 24)) }
            text class=(class) x=(left + 14) y=(top + 43) { (state) }
        }
    }
}

/// A mirrored pair: the object of each API, and between them the direction of the copy.
fn pair(mirrored: &Mirrored) -> Markup {
    let middle = COLUMN + 2 * GAP;
    let end = middle + COLUMN;
    let role = mirrored.role(Side::ClusterApi);
    // The page has the whole sentence.
    let migration = match mirrored.migration.split(':').next() {
        None | Some("") => "no migration".to_owned(),
        Some(summary) => format!("migration {summary}"),
    };
    let synchronized = match (role, mirrored.synchronized.as_str()) {
        (Role::Absent, _) => "no mirror".to_owned(),
        (_, "yes") => "synchronized".to_owned(),
        (_, other) if other.starts_with("no") => "not synchronized".to_owned(),
        (_, _) => "synchronization not known".to_owned(),
    };
    let subject = format!("{} {}", mirrored.kind, mirrored.name);
    html! {
        g {
            title { (shown(&subject, usize::MAX)) ": " (shown(&mirrored.synchronized, usize::MAX)) }
            (side(mirrored, Side::MachineApi, GAP))
            @match role {
                Role::Mirror => {
                    path class="arrow" d=(format!("M{middle} 14H{}", end - 14)) {}
                    path class="head" d=(format!("M{} 14l-9 -4v8z", end - 8)) {}
                },
                Role::Authoritative => {
                    path class="arrow" d=(format!("M{} 14H{}", middle + 6, end - 8)) {}
                    path class="head" d=(format!("M{middle} 14l9 -4v8z")) {}
                },
                Role::Locked => text class="h starting" x=(middle) y="18" { "both are locked" },
                Role::Absent => {},
            }
            text class="s" x=(middle) y="35" { (shown(&synchronized, COLUMN - GAP)) }
            text class="s" x=(middle) y="51" { (shown(&migration, COLUMN - GAP)) }
            (side(mirrored, Side::ClusterApi, end))
        }
    }
}

fn side(mirrored: &Mirrored, api: Side, left: usize) -> Markup {
    let role = mirrored.role(api);
    let subject = format!("{} {}", mirrored.kind, mirrored.name);
    html! {
        @if role == Role::Absent {
            rect class="absent" x=(left) y="0" width=(COLUMN) height=(ROW) rx="5" {}
        } @else {
            (framed(look_of(mirrored.mood).class(), left, 0, COLUMN))
        }
        text class="h" x=(left + 14) y="24" { (shown(&subject, COLUMN - 28)) }
        text class="s" x=(left + 14) y="43" { (api.title()) ", " (role.title()) }
    }
}

/// A text without characters that an SVG image cannot contain or that change the direction of the
/// text, and cut in its middle where it is wider than `most` pixels.
fn shown(text: &str, most: usize) -> String {
    let letters: Vec<char> = text
        .chars()
        .filter(|letter| !letter.is_control() && !changes_direction(*letter))
        .collect();
    let width = |letters: &[char]| letters.iter().map(|letter| width_of(*letter)).sum::<usize>();
    if width(&letters) <= most {
        return letters.into_iter().collect();
    }
    // Half of the space for the beginning, and the rest for the end.
    let (mut before, mut after) = (0, letters.len());
    let mut used = width_of('…');
    while let Some(letter) = letters.get(before) {
        if used + width_of(*letter) > most / 2 {
            break;
        }
        used += width_of(*letter);
        before += 1;
    }
    while let Some(letter) = after.checked_sub(1).and_then(|last| letters.get(last)) {
        if after <= before || used + width_of(*letter) > most {
            break;
        }
        used += width_of(*letter);
        after -= 1;
    }
    let start = letters.iter().take(before);
    let end = letters.iter().skip(after);
    start.chain(std::iter::once(&'…')).chain(end).collect()
}

/// The width of a character in bold text, in pixels, rounded up. The font is not known.
fn width_of(letter: char) -> usize {
    match letter {
        'i' | 'j' | 'l' | 'f' | 't' | '.' | ',' | ':' | '\'' | '|' | '!' | ' ' => 5,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 12,
        letter if letter.is_ascii_uppercase() => 9,
        letter if letter.is_ascii() => 8,
        _ => 14,
    }
}

#[cfg(test)]
mod tests {
    use super::{Mirrored, Mood, Side, pair, shown};

    #[test]
    fn w50_an_object_that_does_not_exist_is_no_mirror_in_the_image() {
        let mut mirrored = Mirrored {
            kind: String::from("MachineSet"),
            name: String::from("workers"),
            authoritative: Some(Side::MachineApi),
            in_cluster_api: true,
            synchronized: String::from("yes"),
            migration: String::new(),
            mood: Mood::Calm,
        };
        let drawn = pair(&mirrored).into_string();
        assert!(
            drawn.contains("Cluster API, mirror") && drawn.contains("arrow"),
            "{drawn}"
        );
        mirrored.in_cluster_api = false;
        let drawn = pair(&mirrored).into_string();
        assert!(drawn.contains("Cluster API, does not exist"), "{drawn}");
        assert!(!drawn.contains("arrow") && !drawn.contains(", mirror"), "{drawn}");
    }

    #[test]
    fn a_long_name_keeps_its_beginning_and_its_end() {
        assert_eq!(shown("control-plane-0", 200), "control-plane-0");
        assert_eq!(shown("control-plane-abcdefghij-0", 100), "contr…fghij-0");
        assert_eq!(shown("a\u{202e}b\u{7}c", 90), "abc");
    }

    #[test]
    fn w51_wide_letters_take_the_space_that_they_need() {
        assert_eq!(shown("WWWWWWWWWW", 60).chars().count(), 5);
        assert_eq!(shown("機械機械機械", 60).chars().count(), 4);
    }
}

//! The machines by failure domain as an SVG image, for a ticket or a document.

use maud::{Markup, PreEscaped, html};

use super::content::{Content, Mirrored, Side};
use super::direction::changes_direction;
use super::parts::{class_of_machine, states};
use super::report::{Mood, Place, Placed, Report, domain};

/// The width of a column, in pixels.
const COLUMN: usize = 230;
/// The height of a machine, in pixels.
const ROW: usize = 62;
/// The space above the machines of a column.
const HEAD: usize = 40;
/// The space between boxes.
const GAP: usize = 10;
/// The columns side by side. More columns begin a new line.
const COLUMNS: usize = 5;
/// The most mirrored objects in an image.
const PAIRS: usize = 20;
/// The mark of a pair in which no object is authoritative.
const LOCKED: &str = "locked";

/// The style of the image, which is a part of it.
const STYLE: &str = include_str!("image.css");

/// The control planes and the objects of both APIs as one SVG file, one below the other.
pub fn file(content: &Content) -> String {
    let mut top = 0;
    let mut images = Vec::new();
    if let Some(reason) = &content.outdated {
        images.push((
            top,
            html! { text class="h" x=(GAP) y=(GAP + 14) { (shown(reason, 3 * COLUMN)) } },
        ));
        top += 3 * GAP;
    }
    for report in &content.reports {
        let (drawn, height) = (image(report), size(report).1);
        images.push((top, drawn));
        top += height;
    }
    let mut width = content.reports.iter().map(|report| size(report).0).max().unwrap_or(0);
    for mirrored in content.mirrored.iter().take(PAIRS) {
        images.push((top, pair(mirrored)));
        top += ROW + 2 * GAP;
        width = width.max(3 * (COLUMN + GAP) + GAP);
    }
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(top) viewBox=(format!("0 0 {width} {top}")) {
            style { (PreEscaped(STYLE)) }
            @for (top, drawn) in &images { g transform=(format!("translate(0 {top})")) { (drawn) } }
        }
    }
    .into_string()
}

/// A mirrored pair: the object of each API, and between them the direction of the copy.
fn pair(mirrored: &Mirrored) -> Markup {
    let (arrow, state) = match mirrored.authoritative {
        Some(Side::MachineApi) => ("→", mirrored.mood),
        Some(Side::ClusterApi) => ("←", mirrored.mood),
        None => (LOCKED, Mood::Busy),
    };
    let arrow = if mirrored.in_cluster_api { arrow } else { "" };
    let class = match state {
        Mood::Calm => "fine",
        Mood::Busy => "outdated",
        Mood::Alarm => "unready",
    };
    let subject = format!("{} {}", mirrored.kind, mirrored.name);
    let side = |api: Side, left: usize| {
        let exists = api == Side::MachineApi || mirrored.in_cluster_api;
        let role = match (exists, mirrored.authoritative) {
            (false, _) => "does not exist",
            (true, Some(authoritative)) if authoritative == api => "authoritative",
            (true, Some(_)) => "mirror",
            (true, None) => LOCKED,
        };
        html! {
            rect class=(if exists { class } else { "absent" }) x=(left) y=(GAP) width=(COLUMN) height=(ROW) rx="4" {}
            text class="h" x=(left + GAP) y=(GAP + 24) { (shown(&subject, COLUMN - 2 * GAP)) }
            text class="s" x=(left + GAP) y=(GAP + 44) { (api.title()) ", " (role) }
        }
    };
    let middle = COLUMN + 3 * GAP;
    // The page has the whole sentence.
    let migration = match mirrored.migration.split(':').next() {
        None | Some("") => "no migration".to_owned(),
        Some(summary) => format!("migration {summary}"),
    };
    html! {
        g {
            title { (shown(&subject, usize::MAX)) ": " (shown(&mirrored.synchronized, usize::MAX)) }
            (side(Side::MachineApi, GAP))
            text class="h" x=(middle) y=(GAP + 20) { (arrow) }
            text class="s" x=(middle) y=(GAP + 36) { "synchronized: " (shown(&mirrored.synchronized, COLUMN - 11 * GAP)) }
            text class="s" x=(middle) y=(GAP + 52) { (shown(&migration, COLUMN - 3 * GAP)) }
            (side(Side::ClusterApi, GAP + 2 * (COLUMN + GAP)))
        }
    }
}

/// The width and the height of an image, in pixels.
fn size(report: &Report) -> (usize, usize) {
    let columns = report.placement.len().clamp(1, COLUMNS);
    let height: usize = report.placement.chunks(COLUMNS).map(height).sum();
    (columns * (COLUMN + GAP) + GAP, height + GAP)
}

/// The image of a control plane, without its style.
fn image(report: &Report) -> Markup {
    let places = &report.placement;
    let lines: Vec<&[Place]> = places.chunks(COLUMNS).collect();
    let heights: Vec<usize> = lines.iter().map(|line| height(line)).collect();
    let (width, height) = size(report);
    let mut tops = Vec::new();
    let mut top = GAP;
    for height in &heights {
        tops.push(top);
        top += height;
    }
    let title = format!(
        "The machines of {} {} by failure domain",
        report.kind,
        shown(&report.name, usize::MAX)
    );
    html! {
        svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label=(title) width=(width) height=(height)
            viewBox=(format!("0 0 {width} {height}")) {
            title { (title) }
            @for ((line, top), height) in lines.iter().zip(&tops).zip(&heights) {
                @for (position, place) in line.iter().enumerate() {
                    (column(place, GAP + position * (COLUMN + GAP), *top, height - GAP))
                }
            }
        }
    }
}

/// The height of a line of columns, with the space below it.
fn height(line: &[Place]) -> usize {
    let most = line.iter().map(|place| place.machines.len()).max().unwrap_or(0);
    HEAD + most.max(1) * (ROW + GAP) + GAP
}

fn column(place: &Place, left: usize, top: usize, height: usize) -> Markup {
    let index = place.index.map_or_else(String::new, |index| format!("Index {index}  "));
    let head = format!("{index}{}", domain(&place.failure_domain));
    html! {
        rect class="p" x=(left) y=(top) width=(COLUMN) height=(height) rx="6" {}
        text class="h" x=(left + GAP) y=(top + 24) { (shown(&head, COLUMN - 2 * GAP)) }
        @if place.machines.is_empty() {
            text class="s" x=(left + GAP) y=(top + HEAD + 24) { "No machine" }
        }
        @for (row, machine) in place.machines.iter().enumerate() {
            (machine_box(machine, left + GAP, top + HEAD + row * (ROW + GAP)))
        }
    }
}

fn machine_box(machine: &Placed, left: usize, top: usize) -> Markup {
    html! {
        g {
            title { (shown(&machine.name, usize::MAX)) ": " (states(machine).join(", ")) }
            rect class=(class_of_machine(machine)) x=(left) y=(top) width=(COLUMN - 2 * GAP) height=(ROW) rx="4" {}
            text class="h" x=(left + GAP) y=(top + 24) { (shown(&machine.name, COLUMN - 4 * GAP)) }
            text class="s" x=(left + GAP) y=(top + 44) { (states(machine).join(", ")) }
        }
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
            mirror: String::new(),
            in_cluster_api: true,
            synchronized: String::from("yes"),
            migration: String::new(),
            mood: Mood::Calm,
        };
        let drawn = pair(&mirrored).into_string();
        assert!(drawn.contains("Cluster API, mirror") && drawn.contains('→'), "{drawn}");
        mirrored.in_cluster_api = false;
        let drawn = pair(&mirrored).into_string();
        assert!(drawn.contains("Cluster API, does not exist"), "{drawn}");
        assert!(!drawn.contains('→') && !drawn.contains("mirror"), "{drawn}");
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

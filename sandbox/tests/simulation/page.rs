//! `docs/simulation.md` names every invariant, and every act and disruption of a schedule.

use std::collections::BTreeSet;
use std::path::Path;

use capstan_sandbox::simulation::{EXEMPTIONS, invariants};

const PAGE: &str = include_str!("../../../docs/simulation.md");

fn sources(folder: &Path, found: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// The ids of invariants in the sources of the simulation.
fn named() -> BTreeSet<String> {
    let mut text = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/simulation"), &mut text);
    let quoted = text.split('"').skip(1);
    let is_id = |word: &&str| {
        let number = word.strip_prefix(['C', 'G', 'P']);
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        *word == "ESR" || number.is_some_and(is_number)
    };
    quoted.filter(is_id).map(str::to_owned).collect()
}

#[test]
fn the_page_contains_every_invariant() {
    let rows: BTreeSet<(&str, &str)> = PAGE
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            Some((cells.next()?, cells.next()?))
        })
        .collect();
    for invariant in invariants() {
        assert!(rows.contains(&(invariant.id, invariant.text)), "{invariant:?}");
    }
    let listed: BTreeSet<String> = invariants().map(|invariant| invariant.id.to_owned()).collect();
    assert_eq!(named(), listed);
}

#[test]
fn the_page_contains_every_exemption() {
    for exemption in EXEMPTIONS {
        let (id, end) = (exemption.id, exemption.end);
        let row = format!("| `{id}` | {} | {} | {end} |", exemption.invariant, exemption.text);
        assert!(PAGE.lines().any(|line| line == row), "{row}");
    }
}

/// The names of the variants of an enum.
fn variants(source: &'static str, name: &str) -> Vec<&'static str> {
    let (_, body) = source.split_once(&format!("pub enum {name} {{")).unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let lines = body.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("///"));
    lines.map(|line| line.split(['(', ',']).next().unwrap()).collect()
}

#[test]
fn the_page_contains_every_act_and_disruption() {
    let acts = include_str!("../../src/simulation/machine_api/act.rs");
    let disruptions = include_str!("../../src/simulation/engine/schedule.rs");
    // The page describes these by the scenarios that contain them.
    let described = [
        "EditTemplate",
        "Domains",
        "Pause",
        "Limit",
        "DeleteSet",
        "CreateSet",
        "Strategy",
        "Activate",
        "Forbidden",
    ];
    let all = [
        variants(acts, "UserAction"),
        variants(acts, "ClusterFault"),
        variants(disruptions, "Disruption"),
    ]
    .concat();
    assert!(all.len() > 30, "{all:?}");
    for name in all {
        assert!(
            described.contains(&name) || PAGE.contains(&format!("`{name}")),
            "{name}"
        );
    }
}

//! The page names every invariant, every scenario's acts, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use capstan_sandbox::simulation::INVARIANTS;

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

/// Quoted names of invariants in the sources of the simulation.
fn named() -> BTreeSet<String> {
    let mut text = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/simulation"), &mut text);
    let quoted = text.split('"').skip(1);
    let is_name = |word: &&str| {
        let rest = word.strip_prefix(['C', 'G', 'P']);
        *word == "ESR" || rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    quoted.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn every_invariant_that_is_checked_is_in_the_page_with_what_it_says() {
    let rows: BTreeSet<(&str, &str)> = PAGE
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            Some((cells.next()?, cells.next()?))
        })
        .collect();
    for (name, says) in INVARIANTS {
        assert!(rows.contains(&(name, says)), "{name}: {says}");
    }
    let listed: BTreeSet<String> = INVARIANTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(named(), listed);
}

#[test]
fn every_act_is_in_the_page() {
    let schedule = include_str!("../../src/simulation/schedule.rs");
    let (_, acts) = schedule.split_once("pub enum Act {").unwrap();
    let (acts, _) = acts.split_once("\n}").unwrap();
    // What only users do is told by the scenarios that do it.
    let told = [
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
    for line in acts
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("///"))
    {
        let name = line.split(['(', ',']).next().unwrap();
        assert!(told.contains(&name) || PAGE.contains(&format!("`{name}")), "{name}");
    }
}

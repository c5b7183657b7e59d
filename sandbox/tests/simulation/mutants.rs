//! The simulation finds every known bug, and `docs/mutants.md` agrees with the catalogue of known
//! bugs.

use std::collections::BTreeSet;

use capstan_sandbox::simulation::{CATALOGUE, LIMIT, hunt, page, row, scenarios};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/mutants.md");
const UPDATE: &str =
    "to update the page: CAPSTAN_UPDATE=1 cargo test -p capstan-sandbox --test simulation every_known_bug";

#[test]
fn every_known_bug_is_found_by_an_invariant_that_describes_it() {
    let found = hunt(LIMIT, false, 2).unwrap();
    let survivors: Vec<String> = found
        .iter()
        .filter(|one| one.caught_by.is_none())
        .map(|one| {
            let accidents: Vec<_> = one.accidents.iter().take(3).collect();
            format!("{}: {accidents:?}", one.about.id)
        })
        .collect();
    assert!(survivors.is_empty(), "not caught: {survivors:#?}");
    if std::env::var_os("CAPSTAN_UPDATE").is_some() {
        std::fs::write(PAGE, page(&found)).unwrap();
    }
}

/// The number of seeds that a bug takes changes with every change of the simulation, so only its
/// range is compared.
#[test]
fn the_page_lists_the_catalogue() {
    let there = std::fs::read_to_string(PAGE).unwrap();
    let lines: Vec<&str> = there.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(lines.len(), CATALOGUE.len(), "{UPDATE}");
    for (line, about) in lines.iter().zip(CATALOGUE) {
        let found = line
            .strip_prefix(&row(about))
            .unwrap_or_else(|| panic!("{line}\n{UPDATE}"));
        let columns: Vec<&str> = found.split('|').map(str::trim).collect();
        let [invariant, seeds, ""] = columns[..] else {
            panic!("{line}\n{UPDATE}")
        };
        assert!(about.fits.contains(&invariant), "{line}");
        assert!((1..=LIMIT).contains(&seeds.parse::<u64>().unwrap()), "{line}");
    }
    let beginning = |text: &str| text.split("| bug |").next().unwrap_or_default().to_owned();
    assert_eq!(beginning(&there), beginning(&page(&[])), "{UPDATE}");
}

#[test]
fn known_bugs_have_different_ids_and_existing_scenarios() {
    let ids: BTreeSet<&str> = CATALOGUE.iter().map(|about| about.id).collect();
    let mutants: BTreeSet<_> = CATALOGUE.iter().map(|about| about.mutant).collect();
    assert_eq!((ids.len(), mutants.len()), (CATALOGUE.len(), CATALOGUE.len()));
    assert!(CATALOGUE.len() >= 25);
    for about in CATALOGUE {
        let known = scenarios().any(|name| name == about.scenario);
        assert!(known && !about.fits.is_empty(), "{}", about.id);
    }
}

//! The checker is checked: every known bug is found, and the page that lists them says what the catalogue says.

use std::collections::BTreeSet;

use capstan_sandbox::simulation::{CATALOGUE, LIMIT, SCENARIOS, hunt, page, row};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/mutants.md");

#[test]
fn every_known_bug_is_found_by_an_invariant_that_fits_it() {
    let found = hunt(LIMIT, false, 2).unwrap();
    let survivors: Vec<String> = found
        .iter()
        .filter(|one| one.caught_by.is_none())
        .map(|one| {
            format!(
                "{}: {:?}",
                one.about.id,
                one.accidents.iter().take(3).collect::<Vec<_>>()
            )
        })
        .collect();
    assert!(survivors.is_empty(), "not caught: {survivors:#?}");
    if std::env::var_os("CAPSTAN_UPDATE").is_some() {
        std::fs::write(PAGE, page(&found)).unwrap();
    }
}

/// How many seeds a bug takes moves with every change of the world. What the page says of a bug does not, and what it says
/// was found must be possible.
#[test]
fn the_page_lists_the_catalogue_and_nothing_else() {
    let there = std::fs::read_to_string(PAGE).unwrap();
    let lines: Vec<&str> = there.lines().filter(|line| line.starts_with("| `")).collect();
    let again = "CAPSTAN_UPDATE=1 cargo test -p capstan-sandbox --test simulation every_known_bug";
    assert_eq!(lines.len(), CATALOGUE.len(), "{again}");
    for (line, about) in lines.iter().zip(CATALOGUE) {
        let found = line
            .strip_prefix(&row(about))
            .unwrap_or_else(|| panic!("{line}\n{again}"));
        let columns: Vec<&str> = found.split('|').map(str::trim).collect();
        let [by, seeds, ""] = columns[..] else {
            panic!("{line}\n{again}")
        };
        assert!(about.fits.contains(&by), "{line}");
        assert!((1..=LIMIT).contains(&seeds.parse::<u64>().unwrap()), "{line}");
    }
    let beginning = |text: &str| text.split("| bug |").next().unwrap_or_default().to_owned();
    assert_eq!(beginning(&there), beginning(&page(&[])), "{again}");
}

#[test]
fn bugs_have_names_of_their_own_and_scenarios_that_exist() {
    let names: BTreeSet<&str> = CATALOGUE.iter().map(|about| about.id).collect();
    let mutants: BTreeSet<_> = CATALOGUE.iter().map(|about| about.mutant).collect();
    assert_eq!((names.len(), mutants.len()), (CATALOGUE.len(), CATALOGUE.len()));
    assert!(CATALOGUE.len() >= 25);
    for about in CATALOGUE {
        let known = SCENARIOS.iter().any(|(name, _)| *name == about.scenario);
        assert!(known && !about.fits.is_empty(), "{}", about.id);
    }
}

//! The simulation finds every known bug, and `docs/mutants.md` agrees with the catalogue of known
//! bugs.

use std::collections::BTreeSet;
use std::path::Path;

use capstan_sandbox::simulation::decisions::{self, DECISIONS, End, MOST};
use capstan_sandbox::simulation::{CATALOGUE, LIMIT, generated, hunt, invariants, page, row, scenarios, sections};

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
    let (catalogue, _) = there.split_once("\n## ").unwrap();
    let lines: Vec<&str> = catalogue.lines().filter(|line| line.starts_with("| `")).collect();
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
    assert!(there.ends_with(&sections()), "{UPDATE}");
}

#[test]
fn mutants_of_decisions_fit_the_sources() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    decisions::write_sources(&repository, folder.path()).unwrap();
    let ids: BTreeSet<&str> = DECISIONS.iter().map(|one| one.id).collect();
    assert_eq!(ids.len(), DECISIONS.len());
    for one in DECISIONS {
        let End::Found {
            scenario,
            by,
            schedules,
        } = one.end
        else {
            continue;
        };
        assert!(scenarios().any(|name| name == scenario), "{}", one.id);
        assert!(invariants().any(|invariant| invariant.id == by), "{}", one.id);
        assert!(schedules <= MOST, "{}", one.id);
    }
}

/// Every point of the decisions is a mutant with a name of its own, and every mutant that was
/// hunted has an end. `make mutants` hunts those that the page does not contain.
#[test]
fn generated_mutants_fit_the_sources_and_have_an_end() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mutants = generated::mutants(&repository).unwrap();
    let page = std::fs::read_to_string(repository.join("docs/generated-mutants.md")).unwrap();
    let rows = generated::rows(&page);
    let names: BTreeSet<_> = mutants.iter().collect();
    assert_eq!(names.len(), mutants.len());
    assert!(mutants.len() > 700, "{}", mutants.len());
    for file in generated::FILES {
        assert!(mutants.iter().any(|mutant| mutant.file == *file), "{file}");
    }
    let unexplained = rows.iter().filter(|row| row.is_unexplained());
    let unexplained: Vec<String> = unexplained.map(generated::Row::line).collect();
    assert!(
        unexplained.is_empty(),
        "not found, and without a reason: {unexplained:#?}"
    );
    let unused = generated::REASONS.iter().filter(|reason| {
        !mutants
            .iter()
            .any(|mutant| generated::reason_of(mutant) == Some(reason.text))
    });
    let unused: Vec<_> = unused.collect();
    assert!(
        unused.len() * 5 <= generated::REASONS.len(),
        "these reasons fit no mutant: {unused:#?}"
    );
}

/// S1, S3, S7, and S8 are found when their fixes are removed from the sources.
#[test]
fn reverted_fixes_are_found() {
    for defect in ["S1", "S3", "S7", "S8"] {
        let reverted = DECISIONS.iter().find(|one| one.defect == defect).unwrap();
        assert!(matches!(reverted.end, End::Found { .. }), "{defect}");
    }
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

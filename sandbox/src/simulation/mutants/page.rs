//! The page `docs/mutants.md`.

use super::catalogue::{CATALOGUE, KnownBug};
use super::decisions;
use super::generated;
use super::hunt::{Caught, LIMIT};

/// The page of the generated mutants.
const GENERATED: &str = include_str!("../../../../docs/generated-mutants.md");

/// The sections about mutants of decisions.
pub fn sections() -> String {
    decisions::sections() + &generated::section(&generated::rows(GENERATED))
}

/// The first columns of the row of a bug: the content of the catalogue.
pub fn row(about: &KnownBug) -> String {
    let KnownBug {
        id,
        wrong,
        report,
        section,
        scenario,
        ..
    } = about;
    format!("| `{id}` | {wrong} | {report} | {section} | `{scenario}` |")
}

/// The whole page.
pub fn page(all: &[Caught]) -> String {
    let mut page = format!(
        "# Seeded bugs\n\n\
         The simulation must find {} known bugs. Each is from a report or a rule that the reliability page\n\
         names, in the given section. A bug is found if, within {LIMIT} seeds of its scenario, an invariant\n\
         that describes the bug is violated, on a seed on which the controller without the bug violates\n\
         nothing.\n\n\
         `capstan-sandbox mutants` hunts the bugs, and exits with 1 if one is not found.\n\
         `capstan-sandbox mutants --trace` also prints the smallest trace of each bug.\n\n\
         This page is generated: `capstan-sandbox mutants -o markdown > docs/mutants.md`. A test compares\n\
         it with the catalogue.\n\n\
         | bug | what the controller does | report | section | scenario | caught by | seeds |\n|---|---|---|---|---|---|---|\n",
        CATALOGUE.len(),
    );
    for caught in all {
        let by = caught.caught_by.unwrap_or("nothing");
        page.push_str(&format!("{} {by} | {} |\n", row(&caught.about), caught.seeds));
    }
    page.push_str(&sections());
    page
}

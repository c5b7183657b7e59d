//! The table of the documentation.

use super::catalogue::{CATALOGUE, KnownBug};
use super::hunt::{Caught, LIMIT};

/// What the catalogue says of a bug, as the table begins a line.
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
         The simulation is tried on {} known bugs, each from a report or a rule that the reliability page names (its section \
         is given), which the controller carries on purpose. Each has to be found within {LIMIT} seeds of the scenario that \
         meets it, by an invariant that says what is wrong with it, and on a seed on which the controller without the bug \
         violates nothing. `capstan-sandbox mutants` looks for them and exits with 1 if one survives; \
         `capstan-sandbox mutants --trace` tells the shortest story of each.\n\n\
         This page is generated: `capstan-sandbox mutants -o markdown > docs/mutants.md`. A test compares it with the \
         catalogue.\n\n\
         | bug | what the controller does | report | section | scenario | caught by | seeds |\n|---|---|---|---|---|---|---|\n",
        CATALOGUE.len(),
    );
    for caught in all {
        let by = caught.caught_by.unwrap_or("nothing");
        page.push_str(&format!("{} {by} | {} |\n", row(&caught.about), caught.seeds));
    }
    page
}

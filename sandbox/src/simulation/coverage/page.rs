//! The page `docs/simulation-coverage.md`: branches, invariants and exemptions by scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::Result;

use super::branches::{BRANCHES, UNREACHED};
use crate::simulation::engine::run::Summary;
use crate::simulation::invariants::{EXEMPTIONS, invariants};
use crate::simulation::runs::simulate;
use crate::simulation::scenarios::scenarios;

/// The seeds of each scenario that the page is made of, from 0 on.
pub const SEEDS: u64 = 40;

/// What the schedules of each scenario reached.
#[derive(Clone, Debug)]
pub struct Matrix(Vec<(&'static str, Summary)>);

/// Runs the first seeds of each scenario, on so many threads.
///
/// # Errors
/// When a schedule cannot be run.
pub fn matrix(seeds: u64, threads: u64) -> Result<Matrix> {
    let rows = scenarios().map(|name| Ok((name, simulate(0, seeds, Some(name), threads)?)));
    rows.collect::<Result<_>>().map(Matrix)
}

impl Matrix {
    /// The branches that no scenario reached and that are not listed as unreached, and those that
    /// are listed and were reached.
    pub fn wrong(&self) -> Vec<&'static str> {
        let reached: BTreeSet<&str> = self
            .0
            .iter()
            .flat_map(|(_, sum)| sum.branches.keys().copied())
            .collect();
        let listed = |id: &str| UNREACHED.iter().any(|(unreached, _)| *unreached == id);
        let ids = BRANCHES.iter().map(|branch| branch.id);
        ids.filter(|id| reached.contains(id) == listed(id)).collect()
    }

    /// The page.
    pub fn page(&self) -> String {
        let mut page = format!(
            "# What the simulation reaches\n\n\
             Each column is a scenario, each row a branch of a decision about a ControlPlaneMachineSet, the\n\
             condition of an invariant, or an exemption. A cell contains `x` if one of the first {SEEDS} seeds of\n\
             the scenario reaches it. A branch is known by what only it writes: an event or a condition.\n\
             [Simulation](simulation.md) describes invariants and exemptions.\n\n\
             This page is generated: `capstan-sandbox simulate --coverage > docs/simulation-coverage.md`.\n\
             `make simulate` compares it, and fails if a branch is not reached.\n\n\
             | column | scenario |\n|---|---|\n"
        );
        for (column, (name, _)) in self.0.iter().enumerate() {
            let _written = writeln!(page, "| {} | `{name}` |", column + 1);
        }
        let branches: Vec<&str> = BRANCHES.iter().map(|branch| branch.id).collect();
        self.table(&mut page, "Branches", &branches, |sum| &sum.branches);
        page.push_str("\nThese branches are not reached:\n\n| branch | reason |\n|---|---|\n");
        for (id, reason) in UNREACHED {
            let _written = writeln!(page, "| {id} | {reason} |");
        }
        let ids: Vec<&str> = invariants().map(|invariant| invariant.id).collect();
        self.table(&mut page, "Invariants whose condition holds", &ids, |sum| &sum.tested);
        let ids: Vec<&str> = EXEMPTIONS.iter().map(|exemption| exemption.id).collect();
        self.table(&mut page, "Exemptions", &ids, |sum| &sum.exemptions);
        page
    }

    fn table(
        &self,
        page: &mut String,
        title: &str,
        rows: &[&str],
        counts: impl Fn(&Summary) -> &BTreeMap<&'static str, u64>,
    ) {
        let columns: Vec<String> = (1..=self.0.len()).map(|column| column.to_string()).collect();
        let _written = write!(page, "\n## {title}\n\n| | {} |\n|---|", columns.join(" | "));
        page.push_str(&"---|".repeat(columns.len()));
        page.push('\n');
        for id in rows {
            let cells = self
                .0
                .iter()
                .map(|(_, sum)| if counts(sum).contains_key(id) { "x" } else { " " });
            let cells: Vec<&str> = cells.collect();
            let _written = writeln!(page, "| {id} | {} |", cells.join(" | "));
        }
    }
}

//! The command that simulates the controller of MachinePools. It prints what it found.

use anyhow::{Result, ensure};
use capstan_core::pool::Mode;

use super::{MODES, bugs, controller, exhaust, simulate, simulation};
use crate::simulation::hunted::{self, Hunted};
use crate::simulation::show;

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The number of seeds in each mode
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Run only this mode: extend or own
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Print each step of the first seed; needs a mode
    #[arg(long, requires = "mode")]
    trace: bool,
    /// Instead of seeds, inject each single fault at each write of a few seeds
    #[arg(long, conflicts_with = "trace")]
    exhaustive: bool,
    /// Instead of seeds, insert known bugs, and check that the invariants find them
    #[arg(long, conflicts_with_all = ["trace", "exhaustive"])]
    mutants: bool,
    /// The number of threads; by default one for each core
    #[arg(long)]
    pub cores: Option<u64>,
}

/// Runs the command on so many threads.
///
/// # Errors
/// An invariant is violated, a bug is not found, or a definition cannot be read.
pub fn run(arguments: &Arguments, threads: u64, print: &dyn Fn(&str)) -> Result<()> {
    if arguments.mutants {
        return mutants(arguments.seeds, print);
    }
    let wanted = |name: &str| arguments.mode.as_deref().is_none_or(|mode| mode == name);
    for (mode, _) in MODES.into_iter().filter(|(mode, _)| wanted(mode.name())) {
        if arguments.exhaustive {
            let all = exhaust(mode)?;
            print(&show::exhausted(&all));
            none(
                all.iter().map(|one| one.violations.len()).sum(),
                "single fault(s)",
                mode,
            )?;
        } else if arguments.trace {
            let outcome = simulation(mode, move || controller(mode))?.trace(arguments.from)?;
            outcome.trace.iter().for_each(|line| print(&format!("{line}\n")));
            ensure!(
                outcome.violation.is_none(),
                "seed {} violates {:?}",
                arguments.from,
                outcome.violation
            );
        } else {
            let sum = simulate(mode, arguments.from, arguments.seeds, threads)?;
            print(&show::declared(&sum));
            none(sum.violations.len(), "seed(s)", mode)?;
        }
    }
    Ok(())
}

fn none(violations: usize, of: &str, mode: Mode) -> Result<()> {
    ensure!(
        violations == 0,
        "{violations} {of} of the mode {} violate an invariant",
        mode.name()
    );
    Ok(())
}

fn mutants(seeds: u64, print: &dyn Fn(&str)) -> Result<()> {
    let all: Vec<Hunted> = bugs::hunt(seeds)?
        .into_iter()
        .map(|(bug, fits, found)| {
            let (fit, other): (Option<_>, Option<_>) = match found {
                Some((seed, violation)) if fits.contains(&violation.invariant) => {
                    (Some((violation.invariant, seed)), None)
                }
                other => (None, other),
            };
            Hunted {
                id: format!("{bug:?}"),
                found: fit,
                accidents: other.map(|other| format!("{other:?}")).into_iter().collect(),
            }
        })
        .collect();
    print(&hunted::show(&all));
    hunted::none_survives(&all)
}

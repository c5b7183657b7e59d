//! The simulation of the controllers of objects in both APIs.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use capstan_sandbox::simulation::Outcome;
use capstan_sandbox::simulation::both_apis::{Mutant, hunt, trace};

/// How many lines of a trace are shown.
const SHOWN: usize = 80;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// `CAPSTAN_BOTH_APIS_SEEDS` changes the number of seeds, and `CAPSTAN_BOTH_APIS_FROM` the first
/// one.
#[test]
fn no_seed_violates_an_invariant() {
    let from = setting("CAPSTAN_BOTH_APIS_FROM", 0);
    let end = from + setting("CAPSTAN_BOTH_APIS_SEEDS", 20);
    let next = AtomicU64::new(from);
    let run = || {
        let mut violated: Vec<(u64, Outcome)> = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return violated;
            }
            let outcome = trace(seed).unwrap();
            if outcome.violation.is_some() {
                violated.push((seed, outcome));
            }
        }
    };
    let violated: Vec<(u64, Outcome)> = std::thread::scope(|scope| {
        let threads = [scope.spawn(run), scope.spawn(run)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut text = String::new();
    for (seed, outcome) in &violated {
        let _written = writeln!(text, "seed {seed}: {}", outcome.violation.as_ref().unwrap());
    }
    if let Some((seed, outcome)) = violated.first() {
        let _written = writeln!(text, "the end of seed {seed}:");
        for line in &outcome.trace[outcome.trace.len().saturating_sub(SHOWN)..] {
            let _written = writeln!(text, "  {line}");
        }
    }
    assert!(violated.is_empty(), "{} violations\n{text}", violated.len());
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in 0..3 {
        let (one, other) = (trace(seed).unwrap(), trace(seed).unwrap());
        assert_eq!(one.trace, other.trace);
    }
}

/// `make test` hunts all bugs of `Mutant::ALL` with the optimised simulator.
#[test]
fn mirrors_that_are_created_without_a_pause_are_found() {
    for mutant in [Mutant::CreatesUnpaused, Mutant::CreatesUnpausedInfrastructure] {
        assert_eq!(hunt(mutant, 2).unwrap(), Some(("B1", 1)), "{mutant:?}");
    }
}

//! A seed is the same run on every machine and in every build.

use capstan_sandbox::simulation;

/// Hashes of traces. `make simulate` compares an optimized build with them. A change of the
/// simulation or of Capstan changes them: `make simulator && target/fast/capstan-sandbox simulate
/// --digest --seeds 16` prints the new ones.
const TRACES: &str = include_str!("traces.txt");

#[test]
fn a_seed_gives_the_same_trace_in_every_build() {
    for (seed, line) in (0..).zip(TRACES.lines()) {
        assert_eq!(simulation::digest(seed, None).unwrap(), line);
    }
    assert_eq!(TRACES.lines().count(), 16);
}

/// One world leaves nothing behind that another one uses, such as a cache of compiled rules.
#[test]
fn a_seed_gives_the_same_trace_beside_other_seeds() {
    let (alone, beside) = std::thread::scope(|scope| {
        let one = scope.spawn(|| simulation::digest(5, None).unwrap());
        let other = scope.spawn(|| {
            simulation::digest(6, None).unwrap();
            simulation::digest(5, None).unwrap()
        });
        (one.join().unwrap(), other.join().unwrap())
    });
    assert_eq!(alone, beside);
}

/// `make test` runs all scenarios, in an optimized build.
#[test]
fn no_single_fault_of_a_rollout_violates_an_invariant() {
    let outcome = simulation::exhaust("rollout", 0).unwrap();
    assert!(outcome.writes > 30, "{outcome:?}");
    assert_eq!(outcome.schedules, 1 + 6 * outcome.writes);
    assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
}

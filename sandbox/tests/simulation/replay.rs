//! A seed is a run: on every machine, in every build, today and tomorrow.

use capstan_sandbox::simulation;

/// Hashes of traces. `make simulate` compares an optimized build with them. A change of the simulation or of Capstan
/// changes them: `make simulator && target/fast/capstan-sandbox simulate --digest --seeds 16` prints the new ones.
const TRACES: &str = include_str!("traces.txt");

#[test]
fn a_seed_gives_the_same_trace_in_every_build() {
    for (seed, line) in (0..).zip(TRACES.lines()) {
        assert_eq!(simulation::digest(seed, None).unwrap(), line);
    }
    assert_eq!(TRACES.lines().count(), 16);
}

#[test]
fn a_seed_gives_the_same_trace_beside_others() {
    // Nothing that one world leaves behind, such as a cache of compiled rules, shows in another.
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

#[test]
fn every_single_fault_of_a_plain_rollout_ends_well() {
    // All scenarios are played by `make test`, in an optimized build.
    let outcome = simulation::exhaust("rollout", 0).unwrap();
    assert!(outcome.writes > 30, "{outcome:?}");
    assert_eq!(outcome.schedules, 1 + 6 * outcome.writes);
    assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
}

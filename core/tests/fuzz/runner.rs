//! Runs a target many times and prints the number of runs, which a report of a fuzz run must state.

use std::cell::Cell;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Runs `check` on `runs` inputs, or on as many as `FUZZ_RUNS` specifies. A panic of the tested
/// code is a failure. The printed input is the smallest input that fails.
pub(crate) fn fuzz<S: Strategy>(
    target: &str,
    runs: u32,
    inputs: &S,
    check: impl Fn(S::Value) -> Result<(), TestCaseError>,
) where
    S::Value: std::fmt::Debug,
{
    let asked = std::env::var("FUZZ_RUNS")
        .ok()
        .map(|runs| runs.parse().expect("FUZZ_RUNS must be a number"));
    let runs = asked.unwrap_or(runs);
    let config = Config {
        cases: runs,
        failure_persistence: None,
        max_shrink_iters: 4096,
        ..Config::default()
    };
    let executions = Cell::new(0_u32);
    let outcome = TestRunner::new(config).run(inputs, |input| {
        executions.set(executions.get() + 1);
        check(input)
    });
    if let Err(failure) = outcome {
        panic!("fuzz {target}: after {} executions: {failure}", executions.get());
    }
    assert!(executions.get() >= runs, "fuzz {target} ended early");
    println!("fuzz {target}: {} executions, no panic", executions.get());
}

//! Runs a target many times over, and says how many: the number that a report of a fuzz run has to
//! state.

use std::cell::Cell;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Runs `check` on `runs` inputs, or on as many as `FUZZ_RUNS` says. A panic of what is tried is a
/// failure, and the input that is shown is the smallest that still fails.
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
        .map(|runs| runs.parse().expect("a number of runs"));
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

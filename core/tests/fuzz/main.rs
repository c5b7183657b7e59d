//! Fuzzing on stable Rust, with one target for each parser of input from other programs: reviews,
//! sets, selectors, rule files, schemas. Each target prints how often it ran; `make fuzz
//! RUNS=100000` runs all of them longer.
//!
//! The targets check more than the absence of a panic: an answer has the UID of its request, a
//! patch changes nothing when it is applied again, and a shortcut never changes a verdict.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a panic fails the test, and each target prints its number of runs"
)]

mod inputs;
mod parsers;
mod reviews;
mod runner;
mod seeds;

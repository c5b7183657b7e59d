//! Fuzzing on stable Rust, one target for each thing that reads what others wrote: reviews, sets,
//! selectors, rule files, schemas. Each says how often it ran; `make fuzz RUNS=100000` lets all of
//! them run longer.
//!
//! The targets hold more than "no panic" where more is known: an answer carries the uid of its
//! question, a patch is harmless to apply twice, and what is skipped for speed changes no verdict.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that fails is what these are for, and the number of executions is for whoever asks"
)]

mod inputs;
mod parsers;
mod reviews;
mod runner;
mod seeds;

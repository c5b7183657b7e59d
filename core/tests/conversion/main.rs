//! The conversion against the documentation and against the CRDs of Cluster API's providers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]
#![allow(clippy::print_stdout, reason = "a test reports which platforms it could not check")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "a value written in place is easier to read without a reference"
)]

// The samples and the generator are also used by the tests inside the crate.
use capstan_core::conversion;

mod documentation;
mod generated;
mod installer;
mod laws;
mod losses;
#[path = "../../src/conversion/tests/menus.rs"]
mod menus;
#[path = "../../src/conversion/tests/random.rs"]
mod random;
mod reserved;
#[path = "../../src/conversion/tests/samples.rs"]
mod samples;
mod schemas;
mod selectors;
mod tolerated;

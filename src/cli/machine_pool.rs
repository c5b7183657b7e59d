//! Plans of a MachinePool from files, for `capstan plan`.
//!
//! Nothing here decides: `capstan_core::pool` does.

use anyhow::Context as _;
use capstan_core::pool::observed::{Observed, is_pool};
use capstan_core::pool::plan::{Mode, plan as next_steps};
use capstan_core::pool::report::report;
use capstan_core::pool::state::State;
use jiff::Timestamp;
use serde_json::Value;

use super::documents::Document;

/// How much of a MachinePool Capstan manages.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(super) enum Machinepools {
    /// The core manager of Cluster API creates the Machines
    #[default]
    Extend,
    /// Capstan creates the Machines
    Own,
}

/// Whether the objects are those of a MachinePool.
pub(super) fn is_about_pool(documents: &[Document]) -> bool {
    documents.iter().any(|document| is_pool(&document.object))
}

/// The report of `capstan plan`.
///
/// # Errors
/// An object cannot be read, or the files contain several pools.
pub(super) fn plan(documents: &[Document], mode: Machinepools, now: Timestamp) -> anyhow::Result<Value> {
    let objects: Vec<Value> = documents.iter().map(|document| document.object.clone()).collect();
    let observed = Observed::of_objects(&objects).context("reading the objects of the MachinePool")?;
    let mode = match mode {
        Machinepools::Extend => Mode::Extend,
        Machinepools::Own => Mode::Own,
    };
    let state = State::observe(&observed, now);
    Ok(report(&state, mode, &next_steps(&state, mode, now)))
}

//! Plans and states of a MachinePool from its objects, for `capstan plan` and `capstan status`.
//!
//! Nothing here decides: `capstan_core::pool` does.

mod cluster;
mod text;

use anyhow::Context as _;
use capstan_core::pool::Mode;
use capstan_core::pool::observed::{Observed, is_pool};
use capstan_core::pool::plan::plan as next_steps;
use capstan_core::pool::report::{report, status_report};
use capstan_core::pool::state::State;
use jiff::Timestamp;
use serde_json::Value;

use super::documents::{Document, note_other_namespaces, require_namespace};

pub(super) use cluster::objects;

/// How much of a MachinePool Capstan manages.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(super) enum Machinepools {
    /// The core manager of Cluster API creates the Machines
    #[default]
    Extend,
    /// Capstan creates the Machines
    Own,
}

impl Machinepools {
    /// As core names it.
    pub(super) fn mode(self) -> Mode {
        match self {
            Self::Extend => Mode::Extend,
            Self::Own => Mode::Own,
        }
    }
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
    let (mode, state) = (mode.mode(), observe(documents, now)?);
    Ok(report(&state, mode, &next_steps(&state, mode, now)))
}

/// The report of `capstan status`, and its text.
///
/// # Errors
/// As [`plan`].
pub(super) fn state(documents: &[Document], mode: Machinepools, now: Timestamp) -> anyhow::Result<(Value, String)> {
    let (mode, state) = (mode.mode(), observe(documents, now)?);
    let report = status_report(&state, mode, &next_steps(&state, mode, now));
    let text = text::page(&report);
    Ok((report, text))
}

fn observe(documents: &[Document], now: Timestamp) -> anyhow::Result<State> {
    require_namespace(documents, is_pool)?;
    let objects: Vec<Value> = documents.iter().map(|document| document.object.clone()).collect();
    let observed = Observed::of_objects(&objects).context("reading the objects of the MachinePool")?;
    let state = State::observe(&observed, now);
    note_other_namespaces(documents, state.namespace(), "pool");
    Ok(state)
}

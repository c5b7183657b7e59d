//! Plans and states of a KubeadmControlPlane from files, for `capstan plan` and `capstan status`.
//!
//! Nothing here decides: `capstan_core::kcp` does.

use std::io::Write as _;

use anyhow::Context as _;
use capstan_core::kcp::observed::Observed;
use capstan_core::kcp::plan;
use capstan_core::kcp::preview::preview;
use capstan_core::kcp::report::report;
use capstan_core::kcp::state::State;
use jiff::Timestamp;
use serde_json::Value;

use super::documents::Document;

/// The report of `capstan plan`.
///
/// # Errors
/// An object cannot be read, or the files contain several control planes.
pub(super) fn plan(documents: &[Document], now: Timestamp) -> anyhow::Result<Value> {
    let observed = observed(documents)?;
    let state = State::observe(&observed, now);
    if state.is_etcd_managed() && state.reported.is_none() && !state.machines.is_empty() {
        note("no EtcdMembers are given, so that the conditions of the Machines alone decide about etcd")?;
    }
    let next = plan::plan(&state, now);
    Ok(report(&state, &next, &preview(&observed, now)))
}

/// The snapshot of the files.
fn observed(documents: &[Document]) -> anyhow::Result<Observed> {
    let objects: Vec<Value> = documents.iter().map(|document| document.object.clone()).collect();
    Observed::of_objects(&objects).context("reading the objects of the KubeadmControlPlane")
}

fn note(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stderr(), "note: {text}").context("writing the note")
}

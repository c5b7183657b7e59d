//! `capstan serve`.

use std::process::ExitCode;

/// Run the admission webhook server.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
///
/// # Errors
///
/// Always, until it is written.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}

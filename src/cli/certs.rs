//! `capstan certs`.

use std::process::ExitCode;

/// Issue and inspect certificates.
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

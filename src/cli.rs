//! The command line: which subcommands there are, and how their outcome becomes an exit code.
//!
//! One file a subcommand, each with `pub struct Args` (clap) and `pub fn run(&Args) -> anyhow::Result<ExitCode>`; a new
//! one is a file, a line in [`Command`] and a line in [`run`]. Nothing is decided here but the exit code of an error.
//!
//! Exit codes: 0 is success, 1 is a verdict against the input, 2 is input that could not be read or a step that failed.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod certs;
pub mod check;
pub mod cluster;
pub mod completions;
pub mod documents;
pub mod gather;
pub mod generate;
mod look;
pub mod manifests;
pub mod plan;
pub mod review;
pub mod rules;
pub mod serve;
pub mod status;
pub mod wait;

/// Guards and rolls the machines that a Kubernetes control plane runs on.
///
/// `capstan serve` is what runs in a cluster. The other commands give the same answers offline, or print what has to
/// be installed.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

// Parsed once and taken apart at once: boxing the large one would help nobody.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Check(check::Args),
    Review(review::Args),
    Rules(rules::Args),
    Manifests(manifests::Args),
    Plan(plan::Args),
    Status(status::Args),
    Wait(wait::Args),
    Generate(generate::Args),
    Certs(certs::Args),
    Completions(completions::Args),
}

/// Runs the command, and says on standard error why it could not be done.
pub fn main(cli: Cli) -> ExitCode {
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            // Nobody is left to tell when standard error is closed.
            let _closed = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Review(args) => review::run(&args),
        Command::Rules(args) => rules::run(&args),
        Command::Manifests(args) => manifests::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Wait(args) => wait::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Certs(args) => certs::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

//! The command line: the subcommands, and the exit code of their result.
//!
//! Each subcommand is one file with `pub struct Args` (clap) and
//! `pub fn run(&Args) -> anyhow::Result<ExitCode>`. A new subcommand needs a file, a line in
//! [`Command`] and a line in [`run`]. This module decides nothing but the exit code of an error.
//!
//! Exit codes: 0 for success, 1 for a verdict against the input, 2 for input that cannot be read or
//! a step that failed.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod certs;
pub mod check;
pub mod cluster;
pub mod completions;
mod control_plane;
pub mod convert;
pub mod dashboard;
pub mod documents;
pub mod gather;
pub mod generate;
pub mod install;
mod installed;
mod kubeadm_control_plane;
mod machine_pool;
pub mod man;
mod managed_cluster;
pub mod manifests;
pub mod migrate;
mod observe;
mod output;
mod page_report;
pub mod plan;
pub mod preflight;
mod refusal;
pub mod register;
mod registration;
mod report;
pub mod review;
pub mod rules;
pub mod serve;
mod server_flags;
pub mod status;
pub mod uninstall;
mod validity;
pub mod verify;
pub mod version;
pub mod wait;

/// Guards and rolls the machines that a Kubernetes control plane runs on.
///
/// `capstan serve` runs in a cluster. The other commands give the same verdicts
/// and plans offline, or print what to install.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, propagate_version = true, max_term_width = 80)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

// The value is parsed once and then consumed, so boxing the large variant saves nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Check(check::Args),
    Review(review::Args),
    Rules(rules::Args),
    Preflight(preflight::Args),
    Install(install::Args),
    Manifests(manifests::Args),
    Register(register::Args),
    Verify(verify::Args),
    Uninstall(uninstall::Args),
    Convert(convert::Args),
    Plan(plan::Args),
    Status(status::Args),
    Dashboard(dashboard::Args),
    Wait(wait::Args),
    Migrate(migrate::Args),
    Generate(generate::Args),
    Certs(certs::Args),
    Completions(completions::Args),
    Man(man::Args),
    Version(version::Args),
}

/// Runs the command, and reports an error on standard error.
pub fn main(cli: Cli) -> ExitCode {
    match run(cli) {
        Ok(code) => code,
        // The reader of the output has seen enough, as `head` has.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, the message cannot be reported anywhere.
            let _ignored = writeln!(
                std::io::stderr(),
                "error: {}",
                output::plain(&refusal::sentence(&error))
            );
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(is_pipe)
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Review(args) => review::run(&args),
        Command::Rules(args) => rules::run(&args),
        Command::Preflight(args) => preflight::run(&args),
        Command::Install(args) => install::run(&args),
        Command::Manifests(args) => manifests::run(&args),
        Command::Register(args) => register::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Uninstall(args) => uninstall::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Dashboard(args) => dashboard::run(&args),
        Command::Wait(args) => wait::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Certs(args) => certs::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Version(args) => version::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_of_the_commands_are_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_text_fits_into_80_columns() {
        fn check(command: &mut clap::Command) {
            for help in [command.render_help(), command.render_long_help()] {
                let text = help.to_string();
                let long = text.lines().find(|line| line.chars().count() > 80);
                assert_eq!(long, None, "capstan {}", command.get_name());
            }
            command.get_subcommands_mut().for_each(check);
        }
        let mut command = Cli::command();
        command.build();
        check(&mut command);
    }
}

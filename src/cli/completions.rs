//! `capstan completions`: prints the completion script of a shell, generated from the definitions
//! of the commands.

use std::process::ExitCode;

use clap::CommandFactory;

/// Print the completion script for a shell.
///
/// For bash: `source <(capstan completions bash)`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell to complete for.
    shell: clap_complete::Shell,
}

/// Prints the script on standard output.
///
/// # Errors
///
/// Standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "capstan", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(ExitCode::SUCCESS)
}

//! `capstan man`: prints the man pages, generated from the definitions of the commands.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;

/// Print the man page, or write the man pages of all commands to a folder.
///
/// For example: `capstan man --out /usr/local/share/man/man1`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write one page for each command to this folder, such as capstan-check.1.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints or writes the pages.
///
/// # Errors
/// A file or standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let command = super::Cli::command();
    match &args.out {
        Some(folder) => {
            let step = || format!("writing the man pages to {}", folder.display());
            std::fs::create_dir_all(folder).with_context(step)?;
            clap_mangen::generate_to(command, folder).with_context(step)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command)
                .render(&mut page)
                .context("generating the man page")?;
            std::io::stdout().write_all(&page).context("writing the man page")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! `capstan version`: prints the version of this binary.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;

use super::output::{Output, pretty, yaml};

/// Print the version of Capstan.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The output format.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

/// Prints the version.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let text = match args.output {
        Output::Text => format!("capstan {version} {platform}\n"),
        Output::Json => pretty(&json!({"version": version, "platform": platform}))?,
        Output::Yaml => yaml(&json!({"version": version, "platform": platform}))?,
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("writing the version")?;
    Ok(ExitCode::SUCCESS)
}

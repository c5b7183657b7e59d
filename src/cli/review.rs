//! `capstan review`: reads an AdmissionReview and prints the response of the server, byte for byte.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use capstan_core::admission::{Admission, Options, Phase, Request, Route, routes};

use super::cluster::feature_gate;
use super::{check, documents};

/// Print the server's response to an AdmissionReview.
///
/// The exit code is 0 for every verdict, and 2 if the input is not an
/// AdmissionReview.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Objects that rules look up: a file or a folder; may be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    with: Vec<PathBuf>,
    /// The webhook that responds.
    #[arg(long, value_enum, default_value = "validate")]
    webhook: Webhook,
    /// Override feature gates, separated by commas.
    #[arg(long, value_name = "NAME=true|false", value_delimiter = ',', value_parser = feature_gate)]
    feature_gates: Vec<(String, bool)>,
    /// The AdmissionReview; `-` is standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Webhook {
    Mutate,
    Validate,
}

/// Prints the response.
///
/// # Errors
/// The input is not an AdmissionReview.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        feature_gates: args.feature_gates.iter().cloned().collect(),
        ..Options::default()
    };
    let admission = Admission::new(options).context("loading the built-in rules")?;
    let snapshot = check::snapshot(&args.with)?;
    let body = documents::read_bytes(&args.file)?;
    let request = Request::read(&body, false).with_context(|| args.file.display().to_string())?;
    let phase = match args.webhook {
        Webhook::Mutate => Phase::Mutate,
        Webhook::Validate => Phase::Validate,
    };
    // If no webhook serves the kind of the review, the first route responds with the refusal of a
    // wrong kind.
    let fits = |route: &&Route| route.group == request.group && route.resources.contains(&request.resource.as_str());
    let of_phase = || routes().iter().filter(|route| route.phase == phase);
    let route = of_phase()
        .find(fits)
        .or(of_phase().next())
        .context("finding the webhook")?;
    let answer = admission.answer(route, &body, &snapshot)?;
    std::io::stdout()
        .write_all(&answer.body)
        .context("writing the response")?;
    Ok(ExitCode::SUCCESS)
}

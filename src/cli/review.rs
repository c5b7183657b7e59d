//! `capstan review`: an AdmissionReview in, the AdmissionReview out, byte for byte what the server answers.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use capstan_core::admission::{Admission, Options, Phase, Request, Route, routes};

use super::cluster::feature_gate;
use super::{check, documents};

/// Answer an AdmissionReview as the server would.
///
/// Exit code: 0 whatever the verdict, 2 when the input is no AdmissionReview.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Objects that rules look up: a file or a folder; may be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    with: Vec<PathBuf>,
    /// Which of the two webhooks answers.
    #[arg(long, value_enum, default_value = "validate")]
    webhook: Webhook,
    /// Feature gates over those that are given with --with; may be repeated.
    #[arg(long, value_name = "NAME=true|false", value_parser = feature_gate)]
    feature_gates: Vec<(String, bool)>,
    /// The AdmissionReview; standard input by default.
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Webhook {
    Mutate,
    Validate,
}

/// Answers.
///
/// # Errors
/// When the input is no AdmissionReview.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        feature_gates: args.feature_gates.iter().cloned().collect(),
        ..Options::default()
    };
    let admission = Admission::new(options).context("reading the rules that are built in")?;
    let snapshot = check::snapshot(&args.with)?;
    let body = documents::read_bytes(&args.file)?;
    let request = Request::read(&body, false).with_context(|| args.file.display().to_string())?;
    let phase = match args.webhook {
        Webhook::Mutate => Phase::Mutate,
        Webhook::Validate => Phase::Validate,
    };
    // A review of a kind that no webhook judges gets what the first one says of it: that it was sent to the wrong place.
    let fits = |route: &&Route| route.group == request.group && route.resources.contains(&request.resource.as_str());
    let of_phase = || routes().iter().filter(|route| route.phase == phase);
    let route = of_phase()
        .find(fits)
        .or(of_phase().next())
        .context("no webhook is served")?;
    let answer = admission.answer(route, &body, &snapshot)?;
    std::io::stdout()
        .write_all(&answer.body)
        .context("writing the answer")?;
    Ok(ExitCode::SUCCESS)
}

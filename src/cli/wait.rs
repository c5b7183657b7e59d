//! `capstan wait`: waits until a rollout is complete or the control plane is stable, for pipelines.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use capstan_core::cpms::progress::progress;
use capstan_core::cpms::spec::SetState;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::observe::{ObservedCluster, runtime};
use crate::controllers::{Assessment, Reading};

/// How long a state that needs a user may last before the command gives up. It covers the restart
/// of a node.
const STUCK: Duration = Duration::from_secs(30);

/// Wait until a rollout is complete, or until the control plane is stable.
///
/// The exit code is 0 when the condition is met; 1 when it cannot be met without a
/// user (degraded, invalid, past its progress deadline); 2 when the cluster cannot
/// be read; 3 when the timeout has passed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  kubectl apply -f set.yaml && capstan wait --for rollout --timeout 2h")]
pub struct Args {
    /// rollout: all machines are up to date and ready. stable: in addition, there are no
    /// steps and no waits.
    #[arg(long = "for", value_enum, default_value = "rollout")]
    what: What,
    /// The timeout.
    #[arg(long, default_value = "1h", value_parser = super::serve::signed_duration, value_name = "TIME")]
    timeout: SignedDuration,
    #[command(flatten)]
    cluster: ObservedCluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Rollout,
    Stable,
}

/// Waits until the condition is met.
///
/// # Errors
/// The cluster cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(wait(args))
}

/// The state of the condition.
enum Progress {
    /// The condition is met.
    Done,
    /// The condition is not met yet, for this reason.
    Pending(String),
    /// The condition cannot be met without a user, for this reason.
    Stuck(String),
}

async fn wait(args: &Args) -> anyhow::Result<ExitCode> {
    let end = Instant::now() + Duration::try_from(args.timeout).unwrap_or_default();
    let Ok(watching) = tokio::time::timeout_at(end, args.cluster.watch()).await else {
        report("the timeout has passed, and the API server has not responded");
        return Ok(ExitCode::from(3));
    };
    let (_caches, mut views) = watching?;
    let mut last = String::new();
    let mut stuck: Option<Instant> = None;
    loop {
        let view = views.borrow_and_update().clone();
        let now = Timestamp::now();
        let progress = progress_of(args.what, &args.cluster.assess(&view, now)?, now);
        let why = match progress {
            Progress::Done => return Ok(ExitCode::SUCCESS),
            Progress::Pending(why) => {
                stuck = None;
                why
            }
            Progress::Stuck(why) => {
                if stuck.get_or_insert_with(Instant::now).elapsed() >= STUCK {
                    report(&format!("a user must act: {why}"));
                    return Ok(ExitCode::from(1));
                }
                why
            }
        };
        if why != last {
            report(&why);
            last = why;
        }
        tokio::select! {
            changed = views.changed() => if changed.is_err() { anyhow::bail!("the caches stopped") },
            () = tokio::time::sleep_until(end) => {
                report("the timeout has passed");
                return Ok(ExitCode::from(3));
            }
            // Some waits end only because time passes.
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

/// The exit code of `capstan status --exit-code`: that of a wait for the rollout that ends at once.
/// A set that a user must correct is never complete.
pub(super) fn exit_code(assessment: &Assessment, now: Timestamp) -> ExitCode {
    let is_degraded = !assessment.plan.degraded.is_empty();
    match progress_of(What::Rollout, assessment, now) {
        Progress::Done if !is_degraded => ExitCode::SUCCESS,
        Progress::Done | Progress::Stuck(_) => ExitCode::from(1),
        Progress::Pending(_) => ExitCode::from(3),
    }
}

fn report(text: &str) {
    // If standard error is closed, the text cannot be reported anywhere.
    let _ignored = writeln!(std::io::stderr(), "{text}");
}

fn progress_of(what: What, assessment: &Assessment, now: Timestamp) -> Progress {
    let (spec, state) = match &assessment.reading {
        Reading::Valid(read) => (&read.0, &read.1),
        Reading::Leaving => return Progress::Stuck("the set is being deleted".to_owned()),
        Reading::Invalid(violations) => {
            let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
            return Progress::Stuck(texts.join("; "));
        }
    };
    let plan = &assessment.plan;
    let tree = progress(spec, state, now);
    let (done, all) = (tree.done, tree.of);
    let complete = done == all && state.machines.len() == spec.replicas.count();
    let quiet = plan.steps.is_empty() && plan.waits.is_empty() && plan.degraded.is_empty();
    match what {
        What::Rollout if complete => return Progress::Done,
        What::Stable if complete && quiet => return Progress::Done,
        _ => {}
    }
    if let Some(reason) = plan.degraded.first() {
        return Progress::Stuck(reason.message.clone());
    }
    let late = capstan_core::cpms::plan::overdue(spec, state, now);
    if !late.is_empty() {
        return Progress::Stuck(late.join("; "));
    }
    if spec.state == SetState::Inactive {
        return Progress::Stuck("the set is Inactive; set spec.state to Active".to_owned());
    }
    let waits: Vec<&str> = plan.waits.iter().map(|wait| wait.message.as_str()).collect();
    let next = plan.disruptive().map(|step| step.because.as_str());
    let why = waits
        .into_iter()
        .chain(next)
        .next()
        .unwrap_or("the controller has not acted yet");
    Progress::Pending(format!("{done} of {all} up to date: {why}"))
}

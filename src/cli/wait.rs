//! `capstan wait`: returns when a rollout is done or the control plane is at rest, for pipelines.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use capstan_core::cpms::progress::progress;
use capstan_core::cpms::spec::SetState;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::look::{Where, runtime};
use crate::controllers::{Assessment, Reading};

/// Something that needs a person is given this long to pass by itself: nodes restart.
const STUCK: Duration = Duration::from_secs(30);

/// Wait until a rollout is done, or until the control plane is at rest.
///
/// Exit code: 0 when it is so; 1 when it will not become so without a person (degraded, invalid, past its progress
/// deadline); 2 when the cluster cannot be read; 3 when the time is over.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  kubectl apply -f set.yaml && capstan wait --for rollout --timeout 2h")]
pub struct Args {
    /// rollout: all machines are up to date and ready. stable: in addition, nothing is to be done or waited for.
    #[arg(long = "for", value_enum, default_value = "rollout")]
    what: What,
    /// How long to wait.
    #[arg(long, default_value = "1h", value_name = "TIME")]
    timeout: SignedDuration,
    #[command(flatten)]
    place: Where,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Rollout,
    Stable,
}

/// Waits.
///
/// # Errors
/// When the cluster cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(wait(args))
}

/// How it stands.
enum Stand {
    /// It is so.
    Done,
    /// Not yet, and this is why.
    Not(String),
    /// Not, and it needs a person.
    Stuck(String),
}

async fn wait(args: &Args) -> anyhow::Result<ExitCode> {
    let end = Instant::now() + Duration::try_from(args.timeout).unwrap_or_default();
    let (_caches, mut views) = args.place.watch().await?;
    let mut last = String::new();
    let mut stuck: Option<Instant> = None;
    loop {
        let view = views.borrow_and_update().clone();
        let now = Timestamp::now();
        let stand = stand(args.what, &args.place.assess(&view, now)?, now);
        let why = match stand {
            Stand::Done => return Ok(ExitCode::SUCCESS),
            Stand::Not(why) => {
                stuck = None;
                why
            }
            Stand::Stuck(why) => {
                if stuck.get_or_insert_with(Instant::now).elapsed() >= STUCK {
                    say(&format!("it needs a person: {why}"));
                    return Ok(ExitCode::from(1));
                }
                why
            }
        };
        if why != last {
            say(&why);
            last = why;
        }
        tokio::select! {
            changed = views.changed() => if changed.is_err() { anyhow::bail!("the caches have ended") },
            () = tokio::time::sleep_until(end) => {
                say("the time is over");
                return Ok(ExitCode::from(3));
            }
            // Some waits end with time alone.
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

fn say(text: &str) {
    // Nobody is left to tell when standard error is closed.
    let _closed = writeln!(std::io::stderr(), "{text}");
}

fn stand(what: What, assessment: &Assessment, now: Timestamp) -> Stand {
    let (spec, state) = match &assessment.reading {
        Reading::Valid(read) => (&read.0, &read.1),
        Reading::Leaving => return Stand::Stuck("the set is being deleted".to_owned()),
        Reading::Invalid(violations) => {
            let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
            return Stand::Stuck(texts.join("; "));
        }
    };
    let plan = &assessment.plan;
    let tree = progress(spec, state, now);
    let (done, all) = (tree.done, tree.of);
    let complete = done == all && state.machines.len() == spec.replicas.count();
    let quiet = plan.steps.is_empty() && plan.waits.is_empty() && plan.degraded.is_empty();
    match what {
        What::Rollout if complete => return Stand::Done,
        What::Stable if complete && quiet => return Stand::Done,
        _ => {}
    }
    if let Some(reason) = plan.degraded.first() {
        return Stand::Stuck(reason.message.clone());
    }
    let late = capstan_core::cpms::plan::overdue(spec, state, now);
    if !late.is_empty() {
        return Stand::Stuck(late.join("; "));
    }
    if spec.state == SetState::Inactive {
        return Stand::Stuck("the set is Inactive and acts on no machine".to_owned());
    }
    let waits: Vec<&str> = plan.waits.iter().map(|wait| wait.message.as_str()).collect();
    let next = plan.disruptive().map(|step| step.because.as_str());
    let why = waits
        .into_iter()
        .chain(next)
        .next()
        .unwrap_or("the controller is to act");
    Stand::Not(format!("{done} of {all} up to date: {why}"))
}

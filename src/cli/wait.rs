//! `capstan wait`: waits until a rollout is complete or the control plane is stable, for pipelines.

mod kubeadm_control_plane;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use capstan_core::control_plane::action::{Wait, WaitReason};
use capstan_core::cpms::progress::{progress, waits_for_user};
use capstan_core::cpms::spec::SetState;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::managed_cluster;
use super::observe::{ObservedCluster, runtime};
use crate::controllers::{Assessment, Reading, control_plane};
use crate::runtime::View;

/// How long a state that needs a user may last before the command gives up. It covers the restart
/// of a node.
const STUCK: Duration = Duration::from_secs(30);

/// Wait until a rollout is complete, or until the control plane is stable.
///
/// Without an Active ControlPlaneMachineSet, the ControlPlane of the cluster counts.
///
/// The exit code is 0 when the condition is met; 1 when only a user can continue
/// (degraded, invalid, past its progress deadline, paused, at its limit, or a machine
/// that a user must delete) for 30 seconds or at the timeout; 2 when the cluster
/// cannot be read; 3 when the timeout has passed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  kubectl apply -f set.yaml && capstan wait --for rollout --timeout 2h")]
pub struct Args {
    /// rollout: all machines are up to date and ready. stable: in addition, there are no
    /// steps and no waits.
    #[arg(long = "for", value_enum, default_value = "rollout")]
    what: What,
    /// The timeout.
    #[arg(long, default_value = "1h", value_parser = super::serve::duration, value_name = "TIME")]
    timeout: Duration,
    /// Wait for this KubeadmControlPlane, read from the cluster.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    kubeadm_control_plane: Option<managed_cluster::Named>,
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
    if let Some(named) = &args.kubeadm_control_plane {
        return kubeadm_control_plane::wait(args.cluster.connection(), named, args.what, args.timeout);
    }
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
    let end = Instant::now() + args.timeout;
    let Ok(is_control_plane) = timeout_at(end, args.cluster.has_control_plane()).await else {
        return Ok(not_responded());
    };
    if is_control_plane? {
        let Ok(watched) = timeout_at(end, args.cluster.watch_control_plane()).await else {
            return Ok(not_responded());
        };
        let (_caches, views) = watched?;
        let judge = |view: &View| {
            let assessment = args.cluster.assess_control_plane(view)?;
            Ok(progress_of_control_plane(args.what, &assessment))
        };
        return follow(views, end, judge).await;
    }
    let Ok(able) = timeout_at(end, args.cluster.can_have_set()).await else {
        return Ok(not_responded());
    };
    able?;
    let Ok(watched) = timeout_at(end, args.cluster.watch()).await else {
        return Ok(not_responded());
    };
    let (_caches, views) = watched?;
    let judge = |view: &View| {
        let now = Timestamp::now();
        Ok(progress_of(args.what, &args.cluster.assess(view, now)?, now))
    };
    follow(views, end, judge).await
}

/// What a wait has reported so far.
#[derive(Default)]
struct Reported {
    last: String,
    stuck: Option<Instant>,
}

impl Reported {
    /// Reports a new reason. Returns the exit code once the condition is met, or is stuck for
    /// [`STUCK`].
    fn update(&mut self, progress: Progress) -> Option<ExitCode> {
        let why = match progress {
            Progress::Done => return Some(ExitCode::SUCCESS),
            Progress::Pending(why) => {
                self.stuck = None;
                why
            }
            Progress::Stuck(why) => {
                if self.stuck.get_or_insert_with(Instant::now).elapsed() >= STUCK {
                    return Some(user_must_act(&why));
                }
                why
            }
        };
        if why != self.last {
            report(&why);
            self.last = why;
        }
        None
    }

    /// Reports that the timeout has passed. A state that needs a user at this time needs it also if
    /// it lasts for less than [`STUCK`].
    fn timed_out(&self) -> ExitCode {
        if self.stuck.is_some() {
            return user_must_act(&self.last);
        }
        report("the timeout has passed");
        ExitCode::from(3)
    }
}

fn user_must_act(why: &str) -> ExitCode {
    report(&format!("a user must act: {why}"));
    ExitCode::from(1)
}

/// Reports that nothing answered within the timeout.
fn not_responded() -> ExitCode {
    report("the timeout has passed, and the API server has not responded");
    ExitCode::from(3)
}

/// Follows the views until the condition is met, or cannot be met.
async fn follow(
    mut views: watch::Receiver<Arc<View>>,
    end: Instant,
    judge: impl Fn(&View) -> anyhow::Result<Progress>,
) -> anyhow::Result<ExitCode> {
    let mut reported = Reported::default();
    loop {
        let view = views.borrow_and_update().clone();
        if let Some(code) = reported.update(judge(&view)?) {
            return Ok(code);
        }
        tokio::select! {
            changed = views.changed() => if changed.is_err() { anyhow::bail!("the caches stopped") },
            () = tokio::time::sleep_until(end) => return Ok(reported.timed_out()),
            // Some waits end only because time passes.
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

/// The exit code of `capstan status --exit-code`: that of a wait for the rollout that ends at once.
/// A set that a user must correct is never complete.
pub(super) fn exit_code(assessment: &Assessment, now: Timestamp) -> ExitCode {
    let is_degraded = !assessment.plan.degraded.is_empty();
    code_of(&progress_of(What::Rollout, assessment, now), is_degraded)
}

/// As [`exit_code`], for a ControlPlane.
pub(super) fn exit_code_of_control_plane(assessment: &control_plane::Assessment) -> ExitCode {
    let is_degraded = !assessment.plan().degraded.is_empty();
    code_of(&progress_of_control_plane(What::Rollout, assessment), is_degraded)
}

fn code_of(progress: &Progress, is_degraded: bool) -> ExitCode {
    match progress {
        Progress::Done if !is_degraded => ExitCode::SUCCESS,
        Progress::Done | Progress::Stuck(_) => ExitCode::from(1),
        Progress::Pending(_) => ExitCode::from(3),
    }
}

fn report(text: &str) {
    // If standard error is closed, the text cannot be reported anywhere.
    let _ignored = writeln!(std::io::stderr(), "{text}");
}

/// The state of the condition for a ControlPlane.
fn progress_of_control_plane(what: What, assessment: &control_plane::Assessment) -> Progress {
    let plan = assessment.plan();
    let Some((spec, state)) = assessment.read() else {
        let reasons: Vec<&str> = plan.degraded.iter().map(|reason| reason.message.as_str()).collect();
        let why = if reasons.is_empty() {
            String::from("the ControlPlane is being deleted")
        } else {
            reasons.join("; ")
        };
        return Progress::Stuck(why);
    };
    let done = state
        .standing()
        .filter(|machine| machine.is_current() && machine.is_ready())
        .count();
    let complete = done == spec.replicas && state.machines.len() == spec.replicas;
    let quiet = plan.steps.is_empty() && plan.waits.is_empty() && plan.degraded.is_empty();
    if complete && (what == What::Rollout || quiet) {
        return Progress::Done;
    }
    let needs_user = |wait: &&Wait| matches!(wait.reason, WaitReason::Acknowledgement | WaitReason::EtcdQuorum);
    let reason = plan.degraded.first().map(|reason| &reason.message);
    if let Some(why) = reason.or(plan.waits.iter().find(needs_user).map(|wait| &wait.message)) {
        return Progress::Stuck(why.clone());
    }
    let waits = plan.waits.iter().map(|wait| wait.message.as_str());
    let next = plan.disruptive().map(|step| step.because.as_str());
    let why = waits.chain(next).next().unwrap_or("the controller has not acted yet");
    Progress::Pending(format!("{done} of {} up to date: {why}", spec.replicas))
}

fn progress_of(what: What, assessment: &Assessment, now: Timestamp) -> Progress {
    let (spec, state) = match &assessment.reading {
        Reading::Valid(read) => (&read.0, &read.1),
        Reading::Leaving => return Progress::Stuck(
            "the set is being deleted; if it stays, start its controllers, which release the machines and remove its \
                 finalizer"
                .to_owned(),
        ),
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
    if let Some(wait) = waits_for_user(plan) {
        return Progress::Stuck(wait.message.clone());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w61_a_state_that_needs_a_user_at_the_timeout_exits_with_1() {
        let mut reported = Reported::default();
        assert_eq!(reported.update(Progress::Pending(String::from("later"))), None);
        assert_eq!(reported.timed_out(), ExitCode::from(3));
        assert_eq!(reported.update(Progress::Stuck(String::from("degraded"))), None);
        assert_eq!(reported.timed_out(), ExitCode::from(1));
        assert_eq!(reported.update(Progress::Pending(String::from("later"))), None);
        assert_eq!(reported.timed_out(), ExitCode::from(3));
    }
}

//! `capstan wait --kubeadm-control-plane`: reads a control plane again and again until it is as
//! wanted. Nothing is written.
//!
//! The report of `capstan status` tells whether the condition is met.

use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::{Progress, Reported, What};
use crate::cli::cluster::Cluster;
use crate::cli::kubeadm_control_plane::state;
use crate::cli::managed_cluster::{Named, objects};
use crate::cli::refusal::sentence;

/// The time between two reads.
const PERIOD: Duration = Duration::from_secs(2);
/// For how long the control plane may be unreadable after it was read: the API server may restart.
const UNREADABLE: Duration = Duration::from_secs(120);

/// Waits that end only when a user acts.
const OF_USER: [&str; 2] = ["CannotBeRemediated", "Pause"];

/// Waits until the condition is met.
///
/// # Errors
/// The cluster cannot be read.
pub(super) fn wait(cluster: &Cluster, named: &Named, what: What, timeout: Duration) -> anyhow::Result<ExitCode> {
    let end = Instant::now() + timeout;
    let mut reported = Reported::default();
    let mut read_at = None;
    loop {
        let read = objects(cluster, named).and_then(|objects| state(&objects, Timestamp::now()));
        let progress = match read {
            Ok((status, _text)) => {
                read_at = Some(Instant::now());
                progress(what, &status)
            }
            Err(error) if read_at.is_some_and(|at| at.elapsed() < UNREADABLE) => {
                Progress::Pending(format!("the control plane cannot be read: {}", sentence(&error)))
            }
            Err(error) => return Err(error),
        };
        if let Some(code) = reported.update(progress) {
            return Ok(code);
        }
        if Instant::now() + PERIOD > end {
            return Ok(reported.timed_out());
        }
        std::thread::sleep(PERIOD);
    }
}

/// The state of the condition in a report of `capstan status`.
fn progress(what: What, status: &Value) -> Progress {
    let list = |key: &str| status.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |key: &str| status.get(key).and_then(Value::as_bool) == Some(true);
    let total = status.pointer("/progress/total").and_then(Value::as_u64);
    let updated = status.pointer("/progress/updated").and_then(Value::as_u64);
    let replicas = status.get("replicas").and_then(Value::as_u64);
    let (waits, next, degraded) = (list("waits"), list("next"), list("degraded"));
    let is_complete = total.is_some() && updated == total && replicas == total && !is("deleting");
    let is_quiet = waits.is_empty() && next.is_empty() && degraded.is_empty();
    if is_complete && (what == What::Rollout || is_quiet) {
        return Progress::Done;
    }
    if is("deleting") {
        return Progress::Stuck(String::from("the control plane is being deleted"));
    }
    if !is("active") {
        return Progress::Stuck(String::from("the control plane or its Cluster is paused"));
    }
    if let Some(reason) = degraded.first() {
        return Progress::Stuck(text(reason, "message"));
    }
    if let Some(wait) = waits.iter().find(|wait| OF_USER.contains(&text(wait, "for").as_str())) {
        return Progress::Stuck(text(wait, "message"));
    }
    let reasons = waits.iter().map(|wait| text(wait, "message"));
    let steps = next.iter().map(|step| text(step, "because"));
    let why = reasons.chain(steps).next();
    let updated = updated.unwrap_or_default();
    Progress::Pending(why.unwrap_or_else(|| {
        format!(
            "{updated} of {} machines are up to date and ready",
            total.unwrap_or_default()
        )
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(change: &Value) -> Value {
        let mut status = json!({
            "active": true, "deleting": false, "progress": {"updated": 3, "total": 3}, "replicas": 3,
            "waits": [], "next": [], "degraded": [],
        });
        json_patch::merge(&mut status, change);
        status
    }

    fn shown(what: What, change: &Value) -> String {
        match progress(what, &status(change)) {
            Progress::Done => String::from("done"),
            Progress::Pending(why) => format!("pending: {why}"),
            Progress::Stuck(why) => format!("stuck: {why}"),
        }
    }

    #[test]
    fn a_rollout_is_complete_before_the_control_plane_is_stable() {
        let wait = json!({"waits": [{"for": "EtcdHealthy", "message": "why"}]});
        assert_eq!(shown(What::Rollout, &wait), "done");
        assert_eq!(shown(What::Stable, &wait), "pending: why");
        assert_eq!(shown(What::Stable, &json!({})), "done");
        let more = json!({"replicas": 4, "next": [{"because": "too many"}]});
        assert_eq!(shown(What::Rollout, &more), "pending: too many");
        let fewer = json!({"progress": {"updated": 2}});
        assert_eq!(
            shown(What::Rollout, &fewer),
            "pending: 2 of 3 machines are up to date and ready"
        );
    }

    #[test]
    fn what_only_a_user_can_end_is_stuck() {
        let old = |change: Value| {
            let mut whole = json!({"progress": {"updated": 2}});
            json_patch::merge(&mut whole, &change);
            shown(What::Rollout, &whole)
        };
        assert_eq!(old(json!({"degraded": [{"message": "bad"}]})), "stuck: bad");
        assert!(old(json!({"active": false})).starts_with("stuck: "));
        assert!(old(json!({"deleting": true})).starts_with("stuck: "));
        let pause = json!({"waits": [{"for": "MachineReady", "message": "a"}, {"for": "Pause", "message": "b"}]});
        assert_eq!(old(pause), "stuck: b");
    }
}

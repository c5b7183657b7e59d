//! What is recorded of a rollout, so that it ends if new machines do not get the version.
//!
//! An annotation of the pool contains the version of the template, and when the newest machine was
//! created that existed when the version was first seen. A machine that was created later and runs
//! another version shows that the provider does not make machines of this version. The provider may
//! have made it before the edit, so that one more attempt follows, with the machines that exist
//! then. After it, no outdated machine is deleted until a user acts. All times are those of the API
//! server, so that no clock is compared with another one.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::action::{Action, Plan, Step};
use super::state::{Member, State};
use super::version;
use crate::api::kinds::MACHINE_POOLS;
use crate::model::{Degradation, Precondition};

/// The annotation.
pub(super) const PROGRESS: &str = "capstan.dev/rollout-progress";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    /// The version of the template.
    version: String,
    /// When the newest machine was created that counts as made for an older template.
    newest: Option<Timestamp>,
    /// Whether this is the second attempt.
    #[serde(default)]
    repeated: bool,
}

impl Progress {
    fn of(state: &State) -> Option<Self> {
        let text = state.pool.metadata.annotations.get(PROGRESS)?;
        let progress: Self = serde_json::from_str(text).ok()?;
        (progress.version == state.pool.spec.template.spec.version).then_some(progress)
    }

    /// Whether a machine was made for the present template.
    fn made(&self, member: &Member) -> bool {
        member.first_seen().is_some_and(|seen| Some(seen) > self.newest)
    }
}

/// Whether outdated machines may be deleted. Adds the record of the rollout if it is missing, and
/// the reason if the rollout must stop.
pub(super) fn may_continue(state: &State, plan: &mut Plan) -> bool {
    let wanted = state.pool.spec.template.spec.version.as_str();
    if wanted.is_empty() {
        return true;
    }
    let Some(progress) = Progress::of(state) else {
        record(state, false, plan);
        return false;
    };
    let mut staying = state.staying().filter(|member| !member.is_record());
    let is_wrong = |member: &&Member| version::is_other(&member.version, wanted) && progress.made(member);
    let Some(wrong) = staying.find(is_wrong) else {
        return true;
    };
    if !progress.repeated {
        record(state, true, plan);
        return false;
    }
    let message = format!(
        "Machine {} was created for {wanted} and runs {}, so that no outdated machine is deleted: correct the image or \
         the version, and delete the Machine",
        wrong.name, wrong.version
    );
    plan.degraded.push(Degradation {
        reason: "NewMachinesOutdated",
        message,
    });
    false
}

/// Adds the patch of the pool that begins an attempt.
fn record(state: &State, repeated: bool, plan: &mut Plan) {
    let metadata = &state.pool.metadata;
    let version = state.pool.spec.template.spec.version.clone();
    let subject = MACHINE_POOLS.object(state.namespace(), state.name());
    // A second patch of the pool in one plan would be in conflict with the first.
    if plan.steps.iter().any(|step| step.subject == subject) {
        return;
    }
    let because = match repeated {
        false => format!("the rollout of {version} begins"),
        true => format!("a new machine does not run {version}, and the rollout is attempted once more"),
    };
    let progress = Progress {
        version,
        newest: state.members.iter().filter_map(Member::first_seen).max(),
        repeated,
    };
    // The record always serialises.
    let text = serde_json::to_string(&progress).unwrap_or_default();
    let precondition = Precondition {
        uid: metadata.uid().to_owned(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    };
    let mut patch = precondition.metadata();
    patch.insert(String::from("annotations"), json!({ PROGRESS: text }));
    plan.steps.push(Step {
        action: Action::Patch(json!({ "metadata": patch })),
        subject,
        index: None,
        because,
        precondition: Some(precondition),
    });
}
